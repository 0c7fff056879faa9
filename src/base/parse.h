/* parse.h - numbers, sizes and durations from text, whole or not at all */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each answers false, and leaves *out alone, unless the whole text is one value in range. */
bool parse_u64(const char *text, uint64_t *out);   /* decimal digits only */
bool parse_size(const char *text, uint64_t *out);  /* 4096, 64K, 512M, 2G, 1GiB (powers of 1024) */
bool parse_milli(const char *text, uint64_t *out); /* 0.5 -> 500, 2 -> 2000 */
bool parse_bool(const char *text, bool *out);      /* true/false, yes/no, on/off, 1/0 */

/* Seconds: 30, 0.5; or with a unit: 200ms, 5s, 2m, 1h. */
bool parse_duration_ms(const char *text, uint64_t *out);

bool parse_hex(const char *text, uint8_t *out, size_t len);   /* exactly 2*len hex digits */
void format_hex(const uint8_t *bytes, size_t len, char *out); /* out holds 2*len+1 */

#define FORMAT_BYTES 32

/* The shortest text that the parser of the same name reads back as the same value. */
void format_u64(uint64_t value, char out[FORMAT_BYTES]);
void format_size(uint64_t value, char out[FORMAT_BYTES]);
void format_duration_ms(uint64_t value, char out[FORMAT_BYTES]);
void format_milli(uint64_t value, char out[FORMAT_BYTES]);
