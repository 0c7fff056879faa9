/* test_docs_page.c - the page of /docs is whole, small, and asks nobody but us for anything */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/docs_page.h"

#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "check.h"
#include "codec/base64.h"
#include "codec/sha256.h"

#define PAGE_MAX (60 * KIB)

static void test_size(void **state)
{
    (void)state;
    assert_int_equal(strlen(docs_page), docs_page_len); /* no NUL in it */
    assert_true(docs_page_len > 10 * KIB && docs_page_len < PAGE_MAX);
}

struct word {
    const char *name, *word;
};

/* Whatever could load something from elsewhere, or make code of text. */
static const struct word banned[] = {
    {"no address of another server", "http:"},
    {"no address of another server, encrypted", "https:"},
    {"no address without a scheme", "\"//"},
    {"nothing is loaded by src", "src="},
    {"no style is imported", "@import"},
    {"no style loads anything", " url("},
    {"no style loads anything, however it is written", ":url("},
    {"no handler stands in the markup", " onclick=\""},
    {"no text becomes markup", "innerHTML"},
    {"no text becomes code", "eval("},
    {"the token is kept nowhere", "localStorage"},
    {"nor for the tab", "sessionStorage"},
    {"nor in a cookie", "cookie"},
    {"the place of the style is filled", "{style}"},
    {"the place of the script is filled", "{script}"},
};

static void test_banned(void **state)
{
    const struct word *row = *state;
    assert_null(strstr(docs_page, row->word));
}

/* The policy names the very text between the tags, or no browser runs it. */
static void assert_hash(const char *tag, const char *directive)
{
    char open[16], close[16];
    uint8_t hash[SHA256_BYTES];
    snprintf(open, sizeof(open), "<%s>", tag);
    snprintf(close, sizeof(close), "</%s>", tag);
    const char *begin = strstr(docs_page, open);
    assert_non_null(begin);
    begin += strlen(open);
    const char *end = strstr(begin, close);
    assert_non_null(end);
    assert_null(strstr(end, open)); /* there is one */
    scoped(sha256) struct sha256 *h = sha256_new();
    sha256_add(h, begin, (size_t)(end - begin));
    sha256_end(h, hash);
    scoped_strbuf struct strbuf want;
    strbuf_init(&want, 256);
    strbuf_add_fmt(&want, "%s 'sha256-", directive);
    base64_add(&want, hash, sizeof(hash));
    strbuf_add_str(&want, "';");
    assert_non_null(strstr(docs_policy, strbuf_str(&want)));
}

static void test_policy(void **state)
{
    (void)state;
    assert_hash("style", "style-src");
    assert_hash("script", "script-src");
    assert_non_null(strstr(docs_policy, "default-src 'none'"));
    assert_non_null(strstr(docs_policy, "connect-src 'self'"));
    assert_non_null(strstr(docs_policy, "frame-ancestors 'none'"));
    assert_non_null(strstr(docs_policy, "base-uri 'none'"));
    assert_null(strstr(docs_policy, "unsafe"));
    assert_null(strchr(docs_policy, '*'));
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "it is whole and small", test_size);
    check_rows(&check, banned, test_banned);
    check_one(&check, "its policy allows its own style and script, and nothing else", test_policy);
    return check_run(&check, "docs_page");
}
