/* id.c - 128 bits from the kernel, in lower-case base 32 without look-alikes (Crockford's set) */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/id.h"

#include <stdint.h>
#include <string.h>
#include <sys/random.h>

#define ID_RANDOM_CHARS 26 /* 130 bits: the last character carries three */

static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
static const char *const prefixes[ID_KIND_COUNT] = {
    [ID_SESSION] = "ses_", [ID_EXECUTION] = "exe_",  [ID_TEMPLATE] = "tpl_",
    [ID_REQUEST] = "req_", [ID_CHECKPOINT] = "chk_",
};

int id_make(enum id_kind kind, char out[ID_BYTES], struct error *err)
{
    uint8_t random[16];
    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return error_sys(err, "getrandom");

    size_t len = strlen(prefixes[kind]);
    memcpy(out, prefixes[kind], len);
    uint32_t bits = 0;
    unsigned have = 0;
    for (size_t i = 0, at = 0; at < ID_RANDOM_CHARS; at++) {
        if (have < 5) {
            bits = bits << 8 | (i < sizeof(random) ? random[i++] : 0);
            have += 8;
        }
        have -= 5;
        out[len + at] = alphabet[bits >> have & 31];
    }
    out[len + ID_RANDOM_CHARS] = '\0';
    return 0;
}

bool id_is_valid(enum id_kind kind, const char *text)
{
    size_t len = strlen(prefixes[kind]);
    return strncmp(text, prefixes[kind], len) == 0 && strlen(text) == len + ID_RANDOM_CHARS &&
           strspn(text + len, alphabet) == ID_RANDOM_CHARS;
}
