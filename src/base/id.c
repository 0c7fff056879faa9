/* id.c - random bits from the kernel, in lower-case base 32 without look-alikes (Crockford's set)
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/id.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define ID_RANDOM_CHARS 26  /* 130 bits */
#define RANDOM_MAX      256 /* what getrandom() never cuts short */

static const char alphabet[] = ID_ALPHABET;
static const char *const prefixes[ID_KIND_COUNT] = {
    [ID_SESSION] = "ses_", [ID_EXECUTION] = "exe_",  [ID_TEMPLATE] = "tpl_",
    [ID_REQUEST] = "req_", [ID_CHECKPOINT] = "chk_", [ID_KEY] = "key_",
    [ID_UPLOAD] = "upl_",
};

int id_random(char *out, size_t count, struct error *err)
{
    uint8_t random[RANDOM_MAX];
    BUG_ON(count > sizeof(random));
    if (getrandom(random, count, 0) != (ssize_t)count)
        return error_sys(err, "getrandom");
    for (size_t i = 0; i < count; i++)
        out[i] = alphabet[random[i] & 31];
    out[count] = '\0';
    return 0;
}

int id_make(enum id_kind kind, char out[ID_BYTES], struct error *err)
{
    size_t len = strlen(prefixes[kind]);
    memcpy(out, prefixes[kind], len);
    return id_random(out + len, ID_RANDOM_CHARS, err);
}

bool id_is_valid(enum id_kind kind, const char *text)
{
    size_t len = strlen(prefixes[kind]);
    return strncmp(text, prefixes[kind], len) == 0 && strlen(text) == len + ID_RANDOM_CHARS &&
           strspn(text + len, alphabet) == ID_RANDOM_CHARS;
}

void id_pattern(enum id_kind kind, char out[ID_PATTERN_BYTES])
{
    int len =
        snprintf(out, ID_PATTERN_BYTES, "^%s[%s]{%d}$", prefixes[kind], alphabet, ID_RANDOM_CHARS);
    BUG_ON(len >= ID_PATTERN_BYTES);
}
