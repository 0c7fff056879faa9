/* fuzz_credential.c - what is taken for a secret is one, and all of what stands in the header
 *
 * The input is an Authorization header and, behind a line end, X-API-Key. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/credential.h"

#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "fuzz.h"

static void check_secret(const char *header, const struct credential *c)
{
    BUG_ON(!credential_is_secret(c->text, c->len) || c->len > CREDENTIAL_MAX_BYTES);
    BUG_ON(c->text < header || c->text + c->len != header + strlen(header));
    for (size_t i = 0; i < c->len; i++)
        BUG_ON(c->text[i] <= ' ' || c->text[i] > '~');
}

/* The other header with the same secret says the same. */
static void check_again(const struct credential *c)
{
    scoped_free char *text = xstrndup(c->text, c->len);
    scoped_free char *header = xasprintf("bearer  %s", text);
    struct credential again;
    BUG_ON(credential_find(NULL, text, NULL, &again) != CREDENTIAL_FOUND || again.len != c->len);
    BUG_ON(credential_find(header, NULL, NULL, &again) != CREDENTIAL_FOUND || again.len != c->len);
    BUG_ON(memcmp(again.text, c->text, c->len) != 0);
}

/* Of a list of protocols: what is found stands there, with no comma in it. */
static void check_protocols(const char *list)
{
    struct credential c;
    enum credential_answer answer = credential_find(NULL, NULL, list, &c);
    BUG_ON(answer == CREDENTIAL_SCHEME || (answer != CREDENTIAL_NONE && !strstr(list, "bearer.")));
    if (answer != CREDENTIAL_FOUND)
        return;
    BUG_ON(!credential_is_secret(c.text, c.len) || memchr(c.text, ',', c.len));
    BUG_ON(c.text < list + 7 || strncmp(c.text - 7, "bearer.", 7) != 0);
    BUG_ON(c.text + c.len > list + strlen(list));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scoped_free char *bearer = xstrndup((const char *)data, size);
    char *key = strchr(bearer, '\n');
    if (key)
        *key++ = '\0';
    check_protocols(bearer);
    const struct credential none = {NULL, 0};
    struct credential c = none;
    BUG_ON(key && credential_find(bearer, key, NULL, &c) != CREDENTIAL_TWICE);
    enum credential_answer answer = credential_find(key ? NULL : bearer, key, NULL, &c);
    BUG_ON(answer == CREDENTIAL_NONE || answer == CREDENTIAL_TWICE);
    BUG_ON((answer == CREDENTIAL_FOUND) != (c.text != NULL));
    if (answer != CREDENTIAL_FOUND)
        return 0;
    check_secret(key ? key : bearer, &c);
    BUG_ON(!key && strncasecmp(bearer, "bearer ", 7) != 0);
    check_again(&c);
    return 0;
}
