/* fuzz_signature.c - two claims that differ never share a signature; no text but ours is good
 *
 * The input is two claims, each of five fields that end with a newline, and a signature. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/signature.h"

#include <stdbool.h>
#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "fuzz.h"

static const struct signature_keys keys = {"the secret of this server", "the one before it"};

/* Cuts the next field off, in place. */
static const char *next(char **at)
{
    char *begin = *at, *end = strchr(begin, '\n');
    *at = end ? end + 1 : begin + strlen(begin);
    if (end)
        *end = '\0';
    return begin;
}

static struct signature_claim read_claim(char **at)
{
    struct signature_claim c;
    c.method = next(at);
    c.session = next(at);
    c.execution = next(at);
    c.path = next(at);
    c.expires = next(at);
    return c;
}

static bool is_same(const struct signature_claim *a, const struct signature_claim *b)
{
    return strcmp(a->method, b->method) == 0 && strcmp(a->session, b->session) == 0 &&
           strcmp(a->execution, b->execution) == 0 && strcmp(a->path, b->path) == 0 &&
           strcmp(a->expires, b->expires) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 16 * KIB)
        return 0;
    scoped_free char *text = xstrndup((const char *)data, size);
    char *at = text, ours[SIGNATURE_TEXT_BYTES];
    struct signature_claim first = read_claim(&at), second = read_claim(&at);
    signature_make(&keys, &first, ours);
    enum signature_verdict verdict = signature_check(&keys, &second, ours, 1);
    BUG_ON(!is_same(&first, &second) && verdict != SIGNATURE_BAD);
    BUG_ON(verdict == SIGNATURE_GOOD && strspn(first.expires, "0123456789") == 0);
    BUG_ON(strcmp(at, ours) != 0 && signature_check(&keys, &first, at, 0) != SIGNATURE_BAD);
    return 0;
}
