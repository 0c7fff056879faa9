/* doc.h - reading the server's documents: a member that is not there, or of another type, is none
 */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DOC_TEXT_BYTES 32

const char *doc_text(const json_t *object, const char *key, const char *preset); /* borrowed */
double doc_number(const json_t *object, const char *key, double preset);
bool doc_has(const json_t *object, const char *key); /* and it is not null */

/* A member of a member: "usage.cpu_ms". */
const json_t *doc_at(const json_t *object, const char *path);

/* 2026-01-02T03:04:05.678Z as ns since the epoch; 0: it is no time. */
int64_t doc_time(const json_t *object, const char *key);

/* How long it is between two times: "12s", "5m", "3h", "2d"; "-" where one is 0. */
void doc_format_span(int64_t from_ns, int64_t to_ns, char out[DOC_TEXT_BYTES]);
void doc_format_bytes(double bytes, char out[DOC_TEXT_BYTES]); /* "268 MB"; "-" for 0 */
