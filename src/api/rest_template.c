/* rest_template.c - /templates: recipes for sandboxes, by name or id
 *
 * A version is told as ETag, too, and asked for by If-Match: who changes what he has read before is
 * refused when somebody else was faster. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "api/page.h"
#include "api/routes.h"
#include "base/macros.h"
#include "base/parse.h"
#include "base/scoped.h"
#include "core/shelf.h"

#define BODY_MAX   (256 * KIB)
#define ETAG_BYTES 32

/* --- versions --------------------------------------------------------------------------------- */

/* "3", with its quotes; * is any. */
static bool read_etag(const char *text, uint64_t *version)
{
    char digits[ETAG_BYTES];
    size_t len = strlen(text);
    *version = 0;
    if (strcmp(text, "*") == 0)
        return true;
    if (len < 3 || len - 2 >= sizeof(digits) || text[0] != '"' || text[len - 1] != '"')
        return false;
    snprintf(digits, sizeof(digits), "%.*s", (int)(len - 2), text + 1);
    return parse_u64(digits, version) && *version > 0;
}

/* What If-Match asks for, in place of the body's; 0: nothing. */
static int wanted_version(const struct api_call *call, uint64_t *version, struct error *err)
{
    uint64_t in_header;
    const char *header = http_header(api_request(call), "if-match");
    if (!header)
        return 0;
    if (!read_etag(header, &in_header)) {
        error_set(err, ERROR_INVALID,
                  "If-Match: expected a version in quotes as ETag has it, or *, not '%.40s'",
                  header);
        return error_word(err, API_BAD_HEADER);
    }
    if (*version && in_header && *version != in_header) {
        error_set(err, ERROR_INVALID,
                  "If-Match: %" PRIu64 " is not the version %" PRIu64 " of the body", in_header,
                  *version);
        return error_word(err, API_BAD_HEADER);
    }
    *version = in_header ? in_header : *version;
    return 0;
}

/* --- handlers --------------------------------------------------------------------------------- */

static void answer(struct api_call *call, int status, json_t *document, const struct error *err)
{
    char etag[ETAG_BYTES];
    if (err) {
        api_fail(call, err);
        return;
    }
    const json_t *version = json_object_get(document, "version");
    snprintf(etag, sizeof(etag), "\"%" JSON_INTEGER_FORMAT "\"", json_integer_value(version));
    if (version && api_request(call))
        http_add_header(api_request(call), "ETag", etag);
    api_answer(call, status, json_incref(document));
}

static void answer_found(void *ctx, json_t *document, const struct error *err)
{
    answer(ctx, 200, document, err);
}

static void answer_created(void *ctx, json_t *document, const struct error *err)
{
    answer(ctx, 201, document, err);
}

static void answer_removed(void *ctx, json_t *document, const struct error *err)
{
    (void)document;
    if (err)
        api_fail(ctx, err);
    else
        api_answer_empty(ctx, 204);
}

static void on_list(struct api_call *call)
{
    const struct page *page = api_query(call);
    shelf_list(api_of(call)->shelf, page->cursor, (uint64_t)page->limit, answer_found, call);
}

static void on_get(struct api_call *call)
{
    shelf_get(api_of(call)->shelf, api_parameter(call, "id"), answer_found, call);
}

static void on_create(struct api_call *call)
{
    shelf_add(api_of(call)->shelf, api_resource(call), api_body(call), answer_created, call);
}

/* The template that an earlier try may have made. */
static void on_found_again(void *ctx, json_t *document, const struct error *err)
{
    if (err && err->code == ERROR_NOT_FOUND)
        on_create(ctx);
    else
        answer(ctx, 201, document, err);
}

static void on_create_again(struct api_call *call)
{
    shelf_get(api_of(call)->shelf, api_resource(call), on_found_again, call);
}

static void on_replace(struct api_call *call)
{
    struct error err;
    struct template_change change = *(const struct template_change *)api_body(call);
    uint64_t version = (uint64_t)change.version;
    if (wanted_version(call, &version, &err) < 0) {
        api_fail(call, &err);
        return;
    }
    change.version = (int64_t)version;
    shelf_change(api_of(call)->shelf, api_parameter(call, "id"), &change, answer_found, call);
}

static void on_remove(struct api_call *call)
{
    struct error err;
    uint64_t version = 0;
    if (wanted_version(call, &version, &err) < 0)
        api_fail(call, &err);
    else
        shelf_remove(api_of(call)->shelf, api_parameter(call, "id"), version, answer_removed, call);
}

/* --- the rows --------------------------------------------------------------------------------- */

static const struct api_reply reply[] = {{200, "Template", NULL, "The template."}, {0}};
static const struct api_reply created_reply[] = {
    {201, "Template", NULL, "Sessions can be made from it."}, {0}};
static const struct api_reply list_reply[] = {
    {200, "TemplateList", NULL, "A page of them, newest first."}, {0}};
static const struct api_reply removed_reply[] = {{204, NULL, NULL, "It is gone."}, {0}};
static const int not_found[] = {404, 0}, on_create_errors[] = {409, 413, 0},
                 on_replace_errors[] = {404, 409, 413, 0}, on_remove_errors[] = {404, 409, 0};

/* clang-format off */
static const struct api_route rows[] = {
    {.method = METHOD_GET, .pattern = "/templates", .scope = SCOPE_SESSIONS_READ, .query = &page_table,
     .handler = on_list, .id = "listTemplates", .tag = "templates", .summary = "List templates",
     .replies = list_reply},
    {.method = METHOD_POST, .pattern = "/templates", .scope = SCOPE_TEMPLATES_WRITE, .flags = API_CREATES,
     .body_max = BODY_MAX, .body = &template_table, .handler = on_create, .again = on_create_again,
     .makes = ID_TEMPLATE, .id = "createTemplate", .tag = "templates", .summary = "Create a template",
     .help = "Its language and image must be there, and its limits within what the operator allows.",
     .replies = created_reply, .errors = on_create_errors},
    {.method = METHOD_GET, .pattern = "/templates/{id}", .scope = SCOPE_SESSIONS_READ, .handler = on_get,
     .id = "getTemplate", .tag = "templates", .summary = "Read a template",
     .help = "By id or by name. ETag has its version. problem says why no session can be made from it, if so.",
     .replies = reply, .errors = not_found},
    {.method = METHOD_PUT, .pattern = "/templates/{id}", .scope = SCOPE_TEMPLATES_WRITE, .body_max = BODY_MAX,
     .body = &template_change_table, .handler = on_replace, .id = "replaceTemplate", .tag = "templates",
     .summary = "Replace a template",
     .help = "All of it: what is not given becomes the preset. Sessions that it has go on as they are. With a "
             "version, in the body or as If-Match, only if it has not changed: else 409 version_mismatch.",
     .replies = reply, .errors = on_replace_errors},
    {.method = METHOD_DELETE, .pattern = "/templates/{id}", .scope = SCOPE_TEMPLATES_WRITE, .handler = on_remove,
     .id = "deleteTemplate", .tag = "templates", .summary = "Delete a template",
     .help = "409 template_in_use while it has live sessions. If-Match is honoured.",
     .replies = removed_reply, .errors = on_remove_errors},
};
/* clang-format on */
const struct api_group rest_template_group = {rows, ARRAY_LEN(rows)};
