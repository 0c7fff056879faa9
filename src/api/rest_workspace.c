/* rest_workspace.c - the workspace of a session, saved to outlive it and restored into another */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/page.h"
#include "api/routes.h"
#include "base/clock.h"
#include "base/macros.h"
#include "core/workspace.h"
#include "store/store.h"

#define BODY_MAX (16 * KIB)

struct restore_wish {
    char *from;
};

static bool is_session(const char *text)
{
    return id_is_valid(ID_SESSION, text);
}

/* clang-format off */
static const struct param restore_rows[] = {
    {.name = "from", .type = PARAM_STRING, .is_required = true, .offset = offsetof(struct restore_wish, from),
     .max_len = ID_BYTES - 1, .check = is_session, .pattern = "^ses_[0-9abcdefghjkmnpqrstvwxyz]{26}$",
     .example = "\"ses_00000000000000000000000000\"",
     .help = "Id of the session whose workspace was saved; it may have ended."},
};
static const struct param_table restore_table = PARAM_TABLE(struct restore_wish, "RestoreWorkspace", restore_rows);
/* clang-format on */

static void answer(void *ctx, const struct workspace_info *info, const struct error *err)
{
    char saved[CLOCK_TEXT_BYTES];
    if (err) {
        api_fail(ctx, err);
        return;
    }
    clock_format(info->saved_ns, saved);
    api_answer(ctx, 200,
               json_pack("{s:s, s:I, s:I, s:I, s:s}", "session_id", info->id, "bytes",
                         (json_int_t)info->bytes, "chunks", (json_int_t)info->chunks, "new_chunks",
                         (json_int_t)info->new_chunks, "saved_at", saved));
}

typedef int (*way_fn)(struct workspaces *all, const struct workspace_order *order,
                      struct error *err);

static void carry_out(struct api_call *call, const char *from, const char *owner, way_fn way)
{
    struct api *api = api_of(call);
    const char *word = api_parameter(call, "id");
    const char *id = plane_session_id(api->plane, api_caller(call), word);
    struct error err;
    struct workspace_order order = {.owner = owner, .fn = answer, .ctx = call};
    order.session = plane_use(api->plane, api_caller(call), word, &err);
    order.id = from ? from : id;
    if (!order.session || way(api->workspaces, &order, &err) < 0)
        api_fail(call, &err);
}

static void on_save(struct api_call *call)
{
    carry_out(call, NULL, api_caller(call)->owner, workspaces_save);
}

static void on_restore(struct api_call *call)
{
    const struct restore_wish *wish = api_body(call);
    const struct plane_caller *who = api_caller(call);
    carry_out(call, wish->from, who->sees_all ? NULL : who->owner, workspaces_restore);
}

/* --- what is saved ---------------------------------------------------------------------------- */

static json_t *row_json(const struct store_workspace *row)
{
    char saved[CLOCK_TEXT_BYTES];
    clock_format(row->saved_ns, saved);
    return json_pack("{s:s, s:I, s:I, s:s}", "session_id", row->id, "bytes", (json_int_t)row->bytes,
                     "chunks", (json_int_t)row->chunks, "saved_at", saved);
}

static const char *sees(const struct api_call *call)
{
    const struct plane_caller *who = api_caller(call);
    return who->sees_all ? NULL : who->owner;
}

static void on_listed(void *ctx, const struct store_answer *answer)
{
    if (answer->err) {
        api_fail(ctx, answer->err);
        return;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < answer->count; i++)
        json_array_append_new(list, row_json(&answer->workspaces[i]));
    api_answer(ctx, 200, page_json("workspaces", list, answer->next_cursor));
}

static void on_list(struct api_call *call)
{
    const struct page *page = api_query(call);
    const struct store_filter filter = {
        .owner = sees(call), .cursor = page->cursor, .limit = (uint64_t)page->limit};
    store_list_workspaces(api_of(call)->store, &filter, on_listed, call);
}

static void on_got(void *ctx, const struct store_answer *answer)
{
    struct error err;
    if (!answer->err) {
        api_answer(ctx, 200, row_json(&answer->workspaces[0]));
        return;
    }
    err = *answer->err;
    if (err.code == ERROR_NOT_FOUND)
        error_word(&err, "workspace_not_found");
    api_fail(ctx, &err);
}

static void on_get(struct api_call *call)
{
    const struct store_name name = {.id = api_parameter(call, "id"), .owner = sees(call)};
    store_get_workspace(api_of(call)->store, &name, on_got, call);
}

static void on_removed(void *ctx, const struct workspace_info *info, const struct error *err)
{
    if (err) {
        api_fail(ctx, err);
        return;
    }
    const struct store_workspace row = {
        .id = info->id, .bytes = info->bytes, .chunks = info->chunks, .saved_ns = info->saved_ns};
    api_answer(ctx, 200, row_json(&row));
}

static void on_remove(struct api_call *call)
{
    struct error err;
    const struct workspace_order order = {
        .id = api_parameter(call, "id"), .owner = sees(call), .fn = on_removed, .ctx = call};
    if (!is_session(order.id)) {
        error_set(&err, ERROR_NOT_FOUND, "there is no workspace '%.64s'", order.id);
        error_word(&err, "workspace_not_found");
        api_fail(call, &err);
    } else if (workspaces_remove(api_of(call)->workspaces, &order, &err) < 0) {
        api_fail(call, &err);
    }
}

/* --- the rows --------------------------------------------------------------------------------- */

static const struct api_reply save_reply[] = {{200, "Workspace", NULL, "It is kept."}, {0}};
static const struct api_reply restore_reply[] = {{200, "Workspace", NULL, "It is there."}, {0}};
static const int errors[] = {404, 409, 413, 504, 0};
static const struct api_reply list_reply[] = {
    {200, "WorkspaceList", NULL, "A page of them, newest first."}, {0}};
static const struct api_reply get_reply[] = {{200, "Workspace", NULL, "It is saved."}, {0}};
static const struct api_reply remove_reply[] = {
    {200, "Workspace", NULL, "It is gone; this is what it was."}, {0}};
static const int get_errors[] = {404, 0}, remove_errors[] = {404, 409, 0};

/* clang-format off */
static const struct api_route rows[] = {
    {.method = METHOD_POST, .pattern = "/sessions/{id}/workspace/save", .scope = SCOPE_FILES, .handler = on_save,
     .id = "saveWorkspace", .tag = "files", .summary = "Save the workspace, to outlive the session",
     .help = "All files, as they are read one after the other while the session goes on. What did not change since the last "
             "save is not written again. When it fails the last one that was saved stays.",
     .replies = save_reply, .errors = errors},
    {.method = METHOD_POST, .pattern = "/sessions/{id}/workspace/restore", .scope = SCOPE_FILES, .body_max = BODY_MAX,
     .body = &restore_table, .handler = on_restore, .id = "restoreWorkspace", .tag = "files",
     .summary = "Restore a saved workspace into this session",
     .help = "Files of the same names are replaced, others stay.", .replies = restore_reply, .errors = errors},
    {.method = METHOD_GET, .pattern = "/workspaces", .scope = SCOPE_FILES, .query = &page_table, .handler = on_list,
     .id = "listWorkspaces", .tag = "files", .summary = "List saved workspaces",
     .help = "Those of the caller's sessions, live or ended.", .replies = list_reply},
    {.method = METHOD_GET, .pattern = "/workspaces/{id}", .scope = SCOPE_FILES, .handler = on_get,
     .id = "getWorkspace", .tag = "files", .summary = "Read what is known of a saved workspace",
     .help = "The id is that of the session that it was saved from.", .replies = get_reply, .errors = get_errors},
    {.method = METHOD_DELETE, .pattern = "/workspaces/{id}", .scope = SCOPE_FILES, .handler = on_remove,
     .id = "deleteWorkspace", .tag = "files", .summary = "Remove a saved workspace",
     .help = "The session itself, should it live, keeps its files.", .replies = remove_reply, .errors = remove_errors},
};
/* clang-format on */
const struct api_group rest_workspace_group = {rows, ARRAY_LEN(rows)};
