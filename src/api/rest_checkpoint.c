/* rest_checkpoint.c - checkpoints of a session, the way back to them, and a second session from it
 *
 * A checkpoint is a process in the sandbox and is lost with this server's; that there was one is
 * written down before it is told, so that a lost one can be told from one that never was. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/inside.h"
#include "api/page.h"
#include "api/routes.h"
#include "base/macros.h"
#include "base/memory.h"
#include "core/session_json.h"

#define BODY_MAX     (16 * KIB)
#define NAME_PATTERN "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"

struct name_wish {
    char *name;
};

struct rollback_wish {
    char *checkpoint;
};

/* A name that looks like an id could hide another checkpoint. */
static bool is_name(const char *text)
{
    return template_name_is_valid(text) && !id_is_valid(ID_CHECKPOINT, text);
}

/* clang-format off */
static const struct param create_rows[] = {
    {.name = "name", .type = PARAM_STRING, .offset = offsetof(struct name_wish, name),
     .max_len = CHECKPOINT_NAME_BYTES - 1, .check = is_name, .pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
     .example = "\"before-cleaning\"", .help = "By which it can be gone back to; of several, the newest is meant."},
};
static const struct param_table create_table = PARAM_TABLE(struct name_wish, "CreateCheckpoint", create_rows);

static const struct param rollback_rows[] = {
    {.name = "checkpoint", .type = PARAM_STRING, .is_required = true,
     .offset = offsetof(struct rollback_wish, checkpoint), .max_len = CHECKPOINT_NAME_BYTES,
     .check = template_name_is_valid, .pattern = NAME_PATTERN, .example = "\"before-cleaning\"",
     .help = "Its id or name."},
};
static const struct param_table rollback_table =
    PARAM_TABLE(struct rollback_wish, "RollBackSession", rollback_rows);

static const struct param fork_rows[] = {
    {.name = "name", .type = PARAM_STRING, .offset = offsetof(struct name_wish, name), .max_len = 64,
     .check = template_name_is_valid, .pattern = NAME_PATTERN, .example = "\"what-if\"",
     .help = "Of the new session; unique among the live sessions of a key."},
};
static const struct param_table fork_table = PARAM_TABLE(struct name_wish, "ForkSession", fork_rows);
/* clang-format on */

/* --- documents -------------------------------------------------------------------------------- */

struct errand {
    struct inside in;
    struct checkpoint_info info; /* of what was made or dropped */
    char *word;                  /* that names a checkpoint */
};

static void free_errand(struct errand *e)
{
    free(e->word);
    free(e);
}

static struct errand *new_errand(const struct inside *in, const char *word)
{
    struct errand *e = xcalloc(1, sizeof(*e));
    *e = (struct errand){.in = *in, .word = word ? xstrdup(word) : NULL};
    return e;
}

static void finish(struct errand *e, int status, json_t *document)
{
    inside_answer(&e->in, status, document);
    free_errand(e);
}

static void fail(struct errand *e, const struct error *err)
{
    inside_fail(&e->in, err);
    free_errand(e);
}

static json_t *document_of(const char *session_id, const struct checkpoint_info *info)
{
    json_t *document = checkpoint_json(info);
    json_object_set_new(document, "session_id", json_string(session_id));
    return document;
}

static const struct checkpoint_info *find(const struct session *session, const char *id)
{
    const struct checkpoint_info *info;
    for (size_t i = 0; (info = session_checkpoint_at(session, i)); i++) {
        if (strcmp(info->id, id) == 0)
            return info;
    }
    return NULL;
}

/* As it is now; what the session knows nothing of went with an earlier server. */
static json_t *stored_json(const struct session *session, const struct store_checkpoint *stored)
{
    const struct checkpoint_info *live = session ? find(session, stored->id) : NULL;
    struct checkpoint_info info = {.created_ns = stored->created_ns, .is_lost = true};
    snprintf(info.id, sizeof(info.id), "%s", stored->id);
    snprintf(info.name, sizeof(info.name), "%s", stored->name ? stored->name : "");
    return document_of(stored->session_id, live ? live : &info);
}

/* --- make ------------------------------------------------------------------------------------- */

static void ignore(void *ctx, const struct checkpoint_info *info, const struct error *err)
{
    (void)ctx, (void)info, (void)err;
}

static void on_written(void *ctx, const struct store_answer *answer)
{
    struct errand *e = ctx;
    struct error ignored;
    if (!answer->err) {
        finish(e, 201, document_of(e->in.id, &e->info));
        return;
    }
    struct session *session = inside_session(&e->in); /* nobody shall know of it */
    if (session && session_drop_checkpoint(session, e->info.id, ignore, NULL, &ignored) < 0)
        session = NULL; /* it runs code again, and keeps one that nobody knows */
    api_fail(e->in.call, answer->err);
    free_errand(e);
}

static void on_made(void *ctx, const struct checkpoint_info *info, const struct error *err)
{
    struct errand *e = ctx;
    if (err) {
        fail(e, err);
        return;
    }
    e->info = *info;
    const struct store_checkpoint record = {.id = e->info.id,
                                            .session_id = e->in.id,
                                            .name = e->info.name[0] ? e->info.name : NULL,
                                            .created_ns = e->info.created_ns};
    plane_write(e->in.api->plane, e->in.id); /* the number of its copy of the files is taken */
    store_put_checkpoint(e->in.api->store, &record, on_written, e);
}

static void on_create(struct api_call *call)
{
    struct error err;
    struct inside in;
    const struct name_wish *wish = api_body(call);
    struct session *session = inside_begin(&in, call);
    if (!session)
        return;
    struct errand *e = new_errand(&in, NULL);
    if (session_checkpoint(session, wish->name, on_made, e, &err) < 0)
        fail(e, &err);
}

/* --- list ------------------------------------------------------------------------------------- */

static void on_listed(void *ctx, const struct store_answer *answer)
{
    struct errand *e = ctx;
    if (answer->err) {
        api_fail(e->in.call, answer->err);
        free_errand(e);
        return;
    }
    const struct session *session = inside_session(&e->in);
    json_t *list = json_array();
    for (size_t i = 0; i < answer->count; i++)
        json_array_append_new(list, stored_json(session, &answer->checkpoints[i]));
    finish(e, 200, page_json("checkpoints", list, answer->next_cursor));
}

static void on_list(struct api_call *call)
{
    struct inside in;
    const struct page *page = api_query(call);
    if (!inside_begin(&in, call))
        return;
    const struct store_filter filter = {
        .session_id = in.id, .cursor = page->cursor, .limit = (uint64_t)page->limit};
    store_list_checkpoints(in.api->store, &filter, on_listed, new_errand(&in, NULL));
}

/* --- those that are only written down --------------------------------------------------------- */

/* NULL: there never was one. */
static const struct store_checkpoint *match(const struct store_answer *answer, const char *word)
{
    for (size_t i = 0; i < answer->count; i++) {
        const struct store_checkpoint *c = &answer->checkpoints[i];
        if (strcmp(c->id, word) == 0 || (c->name && strcmp(c->name, word) == 0))
            return c;
    }
    return NULL;
}

static void not_found(struct errand *e)
{
    struct error err;
    error_set(&err, ERROR_NOT_FOUND, "there is no checkpoint '%.60s'", e->word);
    error_word(&err, "checkpoint_not_found");
    fail(e, &err);
}

static void look_up(struct errand *e, store_fn fn)
{
    const struct store_filter filter = {.session_id = e->in.id, .limit = STORE_PAGE_MAX};
    store_list_checkpoints(e->in.api->store, &filter, fn, e);
}

/* --- go back ---------------------------------------------------------------------------------- */

static void on_lost(void *ctx, const struct store_answer *answer)
{
    struct errand *e = ctx;
    struct error err;
    if (answer->err) {
        api_fail(e->in.call, answer->err);
        free_errand(e);
    } else if (!match(answer, e->word)) {
        not_found(e);
    } else {
        error_set(&err, ERROR_CONFLICT, "the checkpoint '%.60s' was lost with a restart", e->word);
        error_word(&err, "checkpoint_lost");
        fail(e, &err);
    }
}

static void on_back(void *ctx, const struct checkpoint_info *info, const struct error *err)
{
    struct errand *e = ctx;
    if (err)
        fail(e, err);
    else
        finish(e, 200, document_of(e->in.id, info));
}

static void on_rollback(struct api_call *call)
{
    struct error err;
    struct inside in;
    const struct rollback_wish *wish = api_body(call);
    struct session *session = inside_begin(&in, call);
    if (!session)
        return;
    struct errand *e = new_errand(&in, wish->checkpoint);
    if (session_rollback(session, wish->checkpoint, on_back, e, &err) == 0)
        return;
    if (err.code == ERROR_NOT_FOUND)
        look_up(e, on_lost);
    else
        fail(e, &err);
}

/* --- drop ------------------------------------------------------------------------------------- */

static void on_record_gone(void *ctx, const struct store_answer *answer)
{
    struct errand *e = ctx;
    if (answer->err && answer->err->code != ERROR_NOT_FOUND) {
        api_fail(e->in.call, answer->err);
        free_errand(e);
    } else {
        finish(e, 204, NULL);
    }
}

static void remove_record(struct errand *e, const char *id)
{
    store_remove_checkpoint(e->in.api->store, &(struct store_name){.id = id}, on_record_gone, e);
}

static void on_dropped(void *ctx, const struct checkpoint_info *info, const struct error *err)
{
    struct errand *e = ctx;
    if (err)
        fail(e, err);
    else
        remove_record(e, info->id);
}

static void on_found_record(void *ctx, const struct store_answer *answer)
{
    struct errand *e = ctx;
    const struct store_checkpoint *found = answer->err ? NULL : match(answer, e->word);
    if (answer->err) {
        api_fail(e->in.call, answer->err);
        free_errand(e);
    } else if (!found) {
        not_found(e);
    } else {
        remove_record(e, found->id);
    }
}

static void on_drop(struct api_call *call)
{
    struct error err;
    struct inside in;
    const char *word = api_parameter(call, "checkpoint");
    struct session *session = inside_begin(&in, call);
    if (!session)
        return;
    struct errand *e = new_errand(&in, word);
    if (session_drop_checkpoint(session, word, on_dropped, e, &err) == 0)
        return;
    if (err.code == ERROR_NOT_FOUND)
        look_up(e, on_found_record);
    else
        fail(e, &err);
}

/* --- fork ------------------------------------------------------------------------------------- */

static void on_forked(void *ctx, const char *text, size_t len, const struct error *err)
{
    struct errand *e = ctx;
    if (err) {
        fail(e, err);
        return;
    }
    api_answer_created(e->in.call, text, len, NULL);
    plane_go_on(e->in.api->plane, e->in.id);
    free_errand(e);
}

static void on_fork(struct api_call *call)
{
    struct inside in;
    const struct name_wish *wish = api_body(call);
    if (inside_begin(&in, call))
        plane_fork(in.api->plane, api_caller(call), api_resource(call), in.id, wish->name,
                   on_forked, new_errand(&in, NULL));
}

/* The session that an earlier try may have made. */
static void on_found_again(void *ctx, const char *text, size_t len, const struct error *err)
{
    if (err && err->code == ERROR_NOT_FOUND)
        on_fork(ctx);
    else
        api_answer_created(ctx, text, len, err);
}

static void on_fork_again(struct api_call *call)
{
    plane_get(api_of(call)->plane, api_caller(call), api_resource(call), on_found_again, call);
}

/* --- the rows --------------------------------------------------------------------------------- */

static const struct api_reply reply[] = {{200, "Checkpoint", NULL, "It is as it was then."}, {0}};
static const struct api_reply created_reply[] = {
    {201, "Checkpoint", NULL, "It can be gone back to."}, {0}};
static const struct api_reply list_reply[] = {
    {200, "CheckpointList", NULL, "A page of them, newest first."}, {0}};
static const struct api_reply dropped_reply[] = {{204, NULL, NULL, "It is gone."}, {0}};
static const struct api_reply forked_reply[] = {{201, "Session", NULL, "It is ready."}, {0}};
static const int list_errors[] = {404, 0}, errors[] = {404, 409, 502, 504, 0};

/* clang-format off */
static const struct api_route rows[] = {
    {.method = METHOD_POST, .pattern = "/sessions/{id}/checkpoints", .scope = SCOPE_SESSIONS_WRITE,
     .flags = API_CREATES, .body_max = BODY_MAX, .body = &create_table, .handler = on_create, .makes = ID_CHECKPOINT,
     .id = "createCheckpoint", .tag = "sessions", .summary = "Keep the session as it is",
     .help = "Its interpreter, with every variable, and its workspace, by copy-on-write in the sandbox and within its "
             "limits. Only sessions of python have that; one that runs code is 409 session_busy.",
     .replies = created_reply, .errors = errors},
    {.method = METHOD_GET, .pattern = "/sessions/{id}/checkpoints", .scope = SCOPE_SESSIONS_READ,
     .query = &page_table, .handler = on_list, .id = "listCheckpoints", .tag = "sessions",
     .summary = "List its checkpoints", .help = "lost: it cannot be gone back to any more.", .replies = list_reply,
     .errors = list_errors},
    {.method = METHOD_DELETE, .pattern = "/sessions/{id}/checkpoints/{checkpoint}", .scope = SCOPE_SESSIONS_WRITE,
     .handler = on_drop, .id = "deleteCheckpoint", .tag = "sessions", .summary = "Delete a checkpoint",
     .help = "By id or name. What it held in the sandbox is free again.", .replies = dropped_reply, .errors = errors},
    {.method = METHOD_POST, .pattern = "/sessions/{id}/rollback", .scope = SCOPE_SESSIONS_WRITE,
     .body_max = BODY_MAX, .body = &rollback_table, .handler = on_rollback, .id = "rollBackSession",
     .tag = "sessions", .summary = "Go back to a checkpoint",
     .help = "What runs inside is killed; variables and files are those of the checkpoint again, which stays.",
     .replies = reply, .errors = errors},
    {.method = METHOD_POST, .pattern = "/sessions/{id}/fork", .scope = SCOPE_SESSIONS_WRITE, .flags = API_CREATES,
     .body_max = BODY_MAX, .body = &fork_table, .handler = on_fork, .again = on_fork_again, .makes = ID_SESSION,
     .id = "forkSession", .tag = "sessions", .summary = "A second session from it",
     .help = "With its variables and a copy of its files, in a sandbox of its own. It must have been made with "
             "resources.forks, which says how often. A host that cannot freeze groups of processes cannot show "
             "that the two are apart, and makes none: 503 isolation.",
     .replies = forked_reply, .errors = errors},
};
/* clang-format on */
const struct api_group rest_checkpoint_group = {rows, ARRAY_LEN(rows)};
