/* resource_list.c - what the caller's executions left, newest first, a page at a time
 *
 * Executions are looked through in their order, each for its files, up to a bound of both. A cursor
 * says at which execution the next page begins and how many files of it were told; it comes back
 * from outside and says nothing about what may be seen. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/mcp/run_text.h"
#include "api/mcp/show.h"
#include "api/mcp/toolbox.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "core/artifact.h"
#include "store/store_cursor.h"

#define PAGE_FILES      100 /* that are told at once */
#define PAGE_EXECUTIONS 100 /* that are looked through for them... */
#define ROUNDS_MAX      10  /* ...so often, as long as none has left anything */
#define URI_MAX         (16 * KIB)
#define CURSOR_BYTES    (STORE_CURSOR_TEXT_BYTES + 24)

struct place {
    char id[ID_BYTES];
    int64_t created_ns;
};

struct listing {
    struct mcp_call *call;
    struct api *api;
    json_t *resources;
    struct place executions[PAGE_EXECUTIONS];
    size_t count, index;
    unsigned rounds;
    uint64_t skip; /* files of the next execution that were told on the page before */
    bool has_more; /* executions behind these */
};

/* --- cursors ---------------------------------------------------------------------------------- */

/* Owned; where `place` is the first, and the ones before it are left out. */
static char *make_cursor(const struct place *place, uint64_t skip)
{
    char text[STORE_CURSOR_TEXT_BYTES];
    const struct store_cursor cursor = {.created_ns = place->created_ns + 1, .id = "0"};
    BUG_ON(!store_cursor_format(&cursor, text));
    return xasprintf("%" PRIu64 ".%s", skip, text);
}

/* The part that is the store's, which checks it; NULL: the text is none of ours. */
static const char *read_cursor(const char *text, uint64_t *skip)
{
    char number[24];
    size_t len = strcspn(text, ".");
    if (strlen(text) >= CURSOR_BYTES || len >= sizeof(number) || text[len] != '.')
        return NULL;
    snprintf(number, sizeof(number), "%.*s", (int)len, text);
    return parse_u64(number, skip) && *skip <= ARTIFACTS_MAX ? text + len + 1 : NULL;
}

/* --- the answer ------------------------------------------------------------------------------- */

static void finish(struct listing *l, const struct place *next, uint64_t skip)
{
    json_t *result = json_pack("{s:O}", "resources", l->resources);
    scoped_free char *cursor = next ? make_cursor(next, skip) : NULL;
    if (cursor)
        json_object_set_new(result, "nextCursor", json_string(cursor));
    mcp_answer(l->call, result);
    json_decref(l->resources);
    free(l);
}

static void fail(struct listing *l, const struct error *err)
{
    if (err->code == ERROR_INVALID)
        mcp_fail(l->call, RPC_INVALID_PARAMS, NULL, "cursor: is none that was given here");
    else
        mcp_fail(l->call, RPC_INTERNAL, NULL, "resources cannot be listed now: try again");
    json_decref(l->resources);
    free(l);
}

static json_t *make_resource(const struct store_artifact *row)
{
    char words[160], time[CLOCK_TEXT_BYTES];
    scoped_strbuf struct strbuf uri, name;
    strbuf_init(&uri, URI_MAX);
    strbuf_init(&name, 2 * URI_MAX);
    run_text_add_uri(&uri, row->execution_id, row->path);
    show_name(&name, row->path);
    clock_format(row->modified_ns, time);
    snprintf(words, sizeof(words), "%.60s, %" PRIu64 " bytes, left by %s",
             row->mime ? row->mime : "", row->size, row->execution_id);
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:{s:s}}", "uri", strbuf_str(&uri), "name",
                     strbuf_str(&name), "description", words, "mimeType",
                     row->mime ? row->mime : "application/octet-stream", "size",
                     (json_int_t)row->size, "annotations", "lastModified", time);
}

/* --- looking through them --------------------------------------------------------------------- */

static void go_on(struct listing *l);

static void on_artifacts(void *ctx, const struct store_answer *rows)
{
    struct listing *l = ctx;
    const struct place *place = &l->executions[l->index++];
    if (rows->err) {
        fail(l, rows->err);
        return;
    }
    for (size_t i = l->skip; i < rows->count; i++) {
        const struct store_artifact *row = &rows->artifacts[i];
        if (json_array_size(l->resources) >= PAGE_FILES) {
            finish(l, place, i);
            return;
        }
        if (row->place && run_text_has_uri(row->path))
            json_array_append_new(l->resources, make_resource(row));
    }
    l->skip = 0;
    go_on(l);
}

static void look(struct listing *l, const char *cursor);

/* Those that were found have been looked at. */
static void turn_page(struct listing *l)
{
    struct place next = l->executions[l->count - 1];
    next.created_ns--;
    if (json_array_size(l->resources) > 0 || l->rounds == ROUNDS_MAX) {
        finish(l, &next, 0);
        return;
    }
    scoped_free char *cursor = make_cursor(&next, 0);
    look(l, strchr(cursor, '.') + 1);
}

static void go_on(struct listing *l)
{
    if (mcp_is_cancelled(l->call) || (l->index == l->count && !l->has_more)) {
        finish(l, NULL, 0);
        return;
    }
    if (l->index == l->count) {
        turn_page(l);
        return;
    }
    const struct store_name name = {.id = l->executions[l->index].id};
    store_list_artifacts(l->api->store, &name, on_artifacts, l);
}

static void on_executions(void *ctx, const struct store_answer *rows)
{
    struct listing *l = ctx;
    if (rows->err) {
        fail(l, rows->err);
        return;
    }
    l->count = l->index = 0;
    for (size_t i = 0; i < rows->count && i < PAGE_EXECUTIONS; i++) {
        struct place *place = &l->executions[l->count++];
        snprintf(place->id, sizeof(place->id), "%s", rows->executions[i].id);
        place->created_ns = rows->executions[i].created_ns;
    }
    l->has_more = rows->next_cursor;
    go_on(l);
}

/* The caller's own, also for the operator, who may read all: others' are noise to a model. */
static void look(struct listing *l, const char *cursor)
{
    const struct store_filter filter = {
        .owner = toolbox_caller(l->call)->owner, .cursor = cursor, .limit = PAGE_EXECUTIONS};
    l->rounds++;
    store_list_executions(l->api->store, &filter, on_executions, l);
}

void toolbox_list_resources(struct mcp_call *call)
{
    const json_t *cursor = json_object_get(mcp_params(call), "cursor");
    uint64_t skip = 0;
    const char *from =
        json_is_string(cursor) ? read_cursor(json_string_value(cursor), &skip) : NULL;
    if (cursor && !from) {
        mcp_fail(call, RPC_INVALID_PARAMS, NULL, "cursor: is none that was given here");
        return;
    }
    if (!toolbox_has_scope(call, SCOPE_SESSIONS_READ)) { /* there is nothing that he could read */
        mcp_answer(call, json_pack("{s:[]}", "resources"));
        return;
    }
    struct listing *l = xcalloc(1, sizeof(*l));
    l->call = call;
    l->api = toolbox_api(call);
    l->resources = json_array();
    l->skip = skip;
    look(l, from);
}
