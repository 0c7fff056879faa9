/* test_rest_template.c - which version is meant, by the header and by the body */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "answered.h"
#include "api/routes.h"
#include "check.h"
#include "core/shelf.h"

/* --- a shelf and a request, played ------------------------------------------------------------ */

static struct api api;
static const char *if_match; /* NULL: not sent */
static char etag[32];        /* that was answered */
static uint64_t asked;       /* for this version */
static bool is_asked;
static struct error *refusal; /* of the shelf; NULL: it does it */

void __wrap_shelf_change(struct shelf *shelf, const char *word,
                         const struct template_change *change, shelf_fn fn, void *ctx);
void __wrap_shelf_remove(struct shelf *shelf, const char *word, uint64_t version, shelf_fn fn,
                         void *ctx);
const char *__wrap_http_header(const struct http_request *r, const char *name);
void __wrap_http_add_header(struct http_request *r, const char *name, const char *value);
void __wrap_api_answer_empty(struct api_call *call, int status);

static void tell(uint64_t version, shelf_fn fn, void *ctx)
{
    scoped_json json_t *document = json_pack("{s:i}", "version", 7);
    asked = version;
    is_asked = true;
    fn(ctx, refusal ? NULL : document, refusal);
}

void __wrap_shelf_change(struct shelf *shelf, const char *word,
                         const struct template_change *change, shelf_fn fn, void *ctx)
{
    (void)shelf;
    assert_string_equal(word, "data");
    tell((uint64_t)change->version, fn, ctx);
}

void __wrap_shelf_remove(struct shelf *shelf, const char *word, uint64_t version, shelf_fn fn,
                         void *ctx)
{
    (void)shelf;
    assert_string_equal(word, "data");
    tell(version, fn, ctx);
}

const char *__wrap_http_header(const struct http_request *r, const char *name)
{
    (void)r;
    assert_string_equal(name, "if-match");
    return if_match;
}

void __wrap_http_add_header(struct http_request *r, const char *name, const char *value)
{
    (void)r;
    assert_string_equal(name, "ETag");
    snprintf(etag, sizeof(etag), "%s", value);
}

void __wrap_api_answer_empty(struct api_call *call, int status)
{
    (void)call;
    answered.status = status;
}

static void ask(const char *route, const char *header, int64_t version)
{
    static char *parameters[] = {(char *)"id", (char *)"data", NULL};
    struct template_change change = {.version = version};
    struct api_call call = {.api = &api,
                            .parameters = parameters,
                            .body = &change,
                            .request = (struct http_request *)(void *)&api};
    if_match = header;
    is_asked = false;
    etag[0] = '\0';
    answered.status = 0;
    answered_ask(&rest_template_group, route, &call);
}

/* --- which version ---------------------------------------------------------------------------- */

struct match_case {
    const char *name, *header;
    int64_t body;
    uint64_t asked;
    const char *message; /* NULL: the shelf is asked */
};

static const struct match_case match_cases[] = {
    {"nothing means any", NULL, 0, 0, NULL},
    {"the body alone is enough", NULL, 3, 3, NULL},
    {"so is the header", "\"3\"", 0, 3, NULL},
    {"both may say the same", "\"3\"", 3, 3, NULL},
    {"a star is any", "*", 0, 0, NULL},
    {"a star leaves the body's", "*", 3, 3, NULL},
    {"the largest number is one", "\"18446744073709551615\"", 0, UINT64_MAX, NULL},
    {"they may not differ", "\"3\"", 4, 0, "If-Match: 3 is not the version 4 of the body"},
    {"it needs its quotes", "3", 0, 0, "expected a version in quotes"},
    {"both of them", "\"3", 0, 0, "expected a version in quotes"},
    {"and something in them", "\"\"", 0, 0, "expected a version in quotes"},
    {"a weak one is none", "W/\"3\"", 0, 0, "expected a version in quotes"},
    {"a list is none", "\"3\", \"4\"", 0, 0, "expected a version in quotes"},
    {"zero is none", "\"0\"", 0, 0, "expected a version in quotes"},
    {"nor is a negative one", "\"-3\"", 0, 0, "expected a version in quotes"},
    {"nor one that is too large", "\"18446744073709551616\"", 0, 0, "expected a version in quotes"},
    {"nor one that is too long", "\"000000000000000000000000000000000000001\"", 0, 0,
     "expected a version in quotes"},
    {"nor an empty header", "", 0, 0, "expected a version in quotes"},
};

static void test_match(void **state)
{
    const struct match_case *c = *state;
    ask("replaceTemplate", c->header, c->body);
    assert_int_equal(answered.status, c->message ? 400 : 200);
    assert_int_equal(is_asked, !c->message);
    if (c->message) {
        assert_non_null(strstr(answered.failure.msg, c->message));
        return;
    }
    assert_int_equal(asked, c->asked);
    assert_string_equal(etag, "\"7\"");
}

static void test_remove(void **state)
{
    (void)state;
    struct error in_use;
    error_set(&in_use, ERROR_CONFLICT, "it is in use");
    ask("deleteTemplate", "\"3\"", 0);
    assert_int_equal(answered.status, 204);
    assert_int_equal(asked, 3);
    ask("deleteTemplate", NULL, 0);
    assert_int_equal(asked, 0);
    ask("deleteTemplate", "three", 0);
    assert_int_equal(answered.status, 400);
    assert_false(is_asked);
    refusal = &in_use;
    ask("deleteTemplate", NULL, 0);
    assert_int_equal(answered.status, 409);
    ask("replaceTemplate", NULL, 0);
    assert_int_equal(answered.status, 409);
    assert_string_equal(etag, "");
    refusal = NULL;
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, match_cases, test_match);
    check_one(&check, "the same for what is to go", test_remove);
    int status = check_run(&check, "rest_template");
    answered_release();
    return status;
}
