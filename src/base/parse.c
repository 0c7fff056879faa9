/* parse.c - strict numbers: no sign, no blank, no overflow, no trailing junk */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/macros.h"

#define WHOLE_MAX (UINT64_MAX / 1000 - 1) /* what parse_milli() can hold in thousandths */

static bool parse_digits(const char **text, uint64_t *out)
{
    const char *p = *text;
    uint64_t value = 0;
    if (!isdigit((unsigned char)*p))
        return false;
    for (; isdigit((unsigned char)*p); p++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
            return false;
    }
    *text = p;
    *out = value;
    return true;
}

bool parse_u64(const char *text, uint64_t *out)
{
    uint64_t value;
    if (!parse_digits(&text, &value) || *text)
        return false;
    *out = value;
    return true;
}

bool parse_size(const char *text, uint64_t *out)
{
    static const char units[] = "KMGT";
    uint64_t value;
    if (!parse_digits(&text, &value))
        return false;

    if (*text) {
        const char *unit = strchr(units, toupper((unsigned char)*text));
        if (!unit)
            return false;
        unsigned shift = 10 * (unsigned)(unit - units + 1);
        if (value > UINT64_MAX >> shift)
            return false;
        value <<= shift;
        text++;
        if (strcasecmp(text, "b") != 0 && strcasecmp(text, "ib") != 0 && *text)
            return false;
    }
    *out = value;
    return true;
}

bool parse_milli(const char *text, uint64_t *out)
{
    uint64_t whole, milli = 0;
    if (!parse_digits(&text, &whole) || whole > WHOLE_MAX)
        return false;
    if (*text == '.') {
        text++;
        unsigned digits = 0;
        for (; isdigit((unsigned char)*text); text++, digits++) {
            if (digits < 3)
                milli = milli * 10 + (uint64_t)(*text - '0');
        }
        if (digits == 0)
            return false;
        for (; digits < 3; digits++)
            milli *= 10;
    }
    if (*text)
        return false;
    *out = whole * 1000 + milli;
    return true;
}

bool parse_duration_ms(const char *text, uint64_t *out)
{
    static const struct {
        const char *suffix;
        uint64_t num, den; /* of a thousandth of the unit, in ms */
    } units[] = {{"ms", 1, 1000}, {"s", 1, 1}, {"m", 60, 1}, {"h", 3600, 1}, {"", 1, 1}};

    char number[32];
    size_t len = strspn(text, "0123456789.");
    if (len == 0 || len >= sizeof(number))
        return false;
    memcpy(number, text, len);
    number[len] = '\0';

    uint64_t milli;
    if (!parse_milli(number, &milli))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        uint64_t ms;
        if (strcmp(text + len, units[i].suffix) != 0)
            continue;
        if (__builtin_mul_overflow(milli, units[i].num, &ms))
            return false;
        ms /= units[i].den;
        if (ms > WHOLE_MAX) /* written in ms, it could not be read again */
            return false;
        *out = ms;
        return true;
    }
    return false;
}

bool parse_bool(const char *text, bool *out)
{
    static const struct {
        const char *word;
        bool value;
    } words[] = {{"true", true},   {"yes", true}, {"on", true},   {"1", true},
                 {"false", false}, {"no", false}, {"off", false}, {"0", false}};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcasecmp(text, words[i].word) == 0) {
            *out = words[i].value;
            return true;
        }
    }
    return false;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

bool parse_hex(const char *text, uint8_t *out, size_t len)
{
    if (strlen(text) != 2 * len)
        return false;
    for (size_t i = 0; i < 2 * len; i++) {
        if (hex_digit(text[i]) < 0)
            return false;
    }
    for (size_t i = 0; i < len; i++)
        out[i] =
            (uint8_t)((unsigned)hex_digit(text[2 * i]) << 4 | (unsigned)hex_digit(text[2 * i + 1]));
    return true;
}

void format_hex(const uint8_t *bytes, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * len] = '\0';
}

void format_u64(uint64_t value, char out[FORMAT_BYTES])
{
    snprintf(out, FORMAT_BYTES, "%" PRIu64, value);
}

void format_size(uint64_t value, char out[FORMAT_BYTES])
{
    static const char *const units[] = {"", "K", "M", "G", "T"};
    size_t unit = 0;
    while (value > 0 && value % 1024 == 0 && unit + 1 < ARRAY_LEN(units)) {
        value /= 1024;
        unit++;
    }
    snprintf(out, FORMAT_BYTES, "%" PRIu64 "%s", value, units[unit]);
}

void format_duration_ms(uint64_t value, char out[FORMAT_BYTES])
{
    static const struct {
        uint64_t ms;
        const char *suffix;
    } units[] = {{3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};
    size_t i = 0;
    while (value % units[i].ms != 0)
        i++;
    snprintf(out, FORMAT_BYTES, "%" PRIu64 "%s", value / units[i].ms,
             value == 0 ? "s" : units[i].suffix);
}

void format_milli(uint64_t value, char out[FORMAT_BYTES])
{
    int n = snprintf(out, FORMAT_BYTES, "%" PRIu64 ".%03u", value / 1000, (unsigned)(value % 1000));
    while (out[n - 1] == '0')
        out[--n] = '\0';
    if (out[n - 1] == '.')
        out[n - 1] = '\0';
}
