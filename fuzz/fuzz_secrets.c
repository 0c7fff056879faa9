/* fuzz_secrets.c - values of headers from inside: what is filled in breaks no line, and where no
 * secret belongs nothing changes */
/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/secrets.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "fuzz.h"

#define VALUE "the value"

static const struct secret secret = {
    .text = {.placeholder = EGRESS_PLACEHOLDER "0123456789abcdef0123456789abcdef01234567",
             .len = sizeof(VALUE) - 1,
             .value = VALUE}};

/* Line ends never come as far as this: framing.h ends values there. */
static char *make_text(const uint8_t *data, size_t size)
{
    char *text = xstrndup((const char *)data, size);
    text[strcspn(text, "\r\n")] = '\0';
    return text;
}

static void check_fill(const char *name, const char *text)
{
    static const struct secrets_view none = {.count = 0}, one = {.items = {&secret}, .count = 1};
    scoped_strbuf struct strbuf same, filled;
    size_t max = 64 * (strlen(text) + 64);
    strbuf_init(&same, max);
    strbuf_init(&filled, max);
    BUG_ON(secrets_fill(&none, name, text, &same) || strcmp(strbuf_str(&same), text) != 0);
    bool has_any = secrets_fill(&one, name, text, &filled);
    const char *out = strbuf_str(&filled);
    BUG_ON(filled.overflow || strlen(out) != filled.len || strpbrk(out, "\r\n"));
    BUG_ON(!has_any && strcmp(out, text) != 0);
    BUG_ON(memmem(out, filled.len, secret.text.placeholder, EGRESS_PLACEHOLDER_LEN));
    BUG_ON(strcmp(name, "x") == 0 && has_any && !strstr(out, VALUE));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = make_text(data, size);
    check_fill("x", text);
    check_fill("authorization", text);
    free(text);
    return 0;
}
