/* plane_execution.c - executions on their way: asked for, begun, ended, written, told
 *
 * One whose id is told before its end is written down when it begins or is queued; every other one
 * only at its end, unless it runs for a while: then the next process has to know what its session
 * is busy with. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "codec/base64.h"
#include "core/execution_json.h"
#include "core/plane_inside.h"
#include "core/tail.h"

#define YOUNG_MS     20          /* after which it is written down that it runs */
#define AGAIN_MS     1000        /* after which a write that failed is tried again */
#define LINGER_MS    (60 * 1000) /* that events can be read after the end... */
#define LINGER_MAX   1024        /* ...of so many executions */
#define JOURNAL_MIN  (1 * MIB)
#define DOCUMENT_MAX (STORE_RECORD_MAX_BYTES - 1 * MIB)
#define INPUT_MODE   0644
#define PATH_MAX_LEN 4095
#define FILE_MAX     (4 * MIB) /* of a file that comes back with the result... */
#define FILES_MAX    (8 * MIB) /* ...and of all of them */

/* --- what is asked ---------------------------------------------------------------------------- */

static bool is_path(const char *path)
{
    size_t len = strlen(path);
    if (len == 0 || len > PATH_MAX_LEN || path[0] == '/' || path[len - 1] == '/')
        return false;
    for (const char *at = path; at; at = strchr(at, '/')) {
        at += *at == '/';
        size_t part = strcspn(at, "/");
        if (part == 0 || (part == 1 && at[0] == '.') || (part == 2 && strncmp(at, "..", 2) == 0))
            return false;
        if (!strchr(at, '/'))
            break;
    }
    return true;
}

static int make_input(struct execution_input *out, const struct wish_file *file, size_t index,
                      struct error *err)
{
    scoped_free uint8_t *decoded = NULL;
    const void *data = file->content;
    size_t len = file->content ? strlen(file->content) : 0;
    if (!is_path(file->path))
        return error_set(err, ERROR_INVALID,
                         "files[%zu].path: '%.100s' is not a path below the workspace", index,
                         file->path);
    if (!file->content == !file->content_base64)
        return error_set(err, ERROR_INVALID, "files[%zu]: needs either content or content_base64",
                         index);
    if (file->content_base64) {
        size_t encoded = strlen(file->content_base64);
        decoded = xmalloc(BASE64_DECODED_MAX_LEN(encoded) + 1);
        if (!base64_decode(file->content_base64, encoded, decoded, &len))
            return error_set(err, ERROR_INVALID, "files[%zu].content_base64: is not base64", index);
        data = decoded;
    }
    *out = (struct execution_input){
        .fd = -1, .size = len, .mode = INPUT_MODE, .mtime_ns = clock_wall_ns()};
    if (fd_make_file(&out->fd, "input", data ? data : "", len, err) < 0)
        return -1;
    out->path = xstrdup(file->path);
    return 0;
}

static int make_inputs(struct job *j, const struct code_wish *wish, struct error *err)
{
    const struct wish_file *files = wish->files.items;
    j->inputs = xcalloc(wish->files.count + 1, sizeof(*j->inputs));
    for (; j->input_count < wish->files.count; j->input_count++) {
        if (make_input(&j->inputs[j->input_count], &files[j->input_count], j->input_count, err) < 0)
            return -1;
    }
    return 0;
}

/* The session's variables, then those of the execution, which replace them. */
static char **join_env(char *const *base, const struct param_map *own)
{
    size_t count = 0, used = 0;
    while (base && base[count])
        count++;
    char **list = xcalloc(count + own->count + 1, sizeof(*list));
    for (size_t i = 0; i < count; i++) {
        size_t len = strcspn(base[i], "="), k = 0;
        while (k < own->count &&
               (strlen(own->names[k]) != len || strncmp(own->names[k], base[i], len) != 0))
            k++;
        if (k == own->count)
            list[used++] = xstrdup(base[i]);
    }
    for (size_t i = 0; i < own->count; i++)
        list[used++] = xasprintf("%s=%s", own->names[i], own->values[i]);
    return list;
}

static int set_timeout(struct job *j, const struct code_wish *wish,
                       const struct template_spec *spec, struct error *err)
{
    const struct plane_order *o = &j->plane->order;
    j->timeout_ms = wish->timeout_ms   ? wish->timeout_ms
                    : spec->timeout_ms ? spec->timeout_ms
                                       : o->timeout_ms;
    if (!o->timeout_max_ms || j->timeout_ms <= o->timeout_max_ms)
        return 0;
    error_set(err, ERROR_INVALID, "timeout: %g s is more than the %g s that are allowed here",
              (double)j->timeout_ms / 1000, (double)o->timeout_max_ms / 1000);
    return error_hint(err, "ask for less, or have the operator raise the limit");
}

/* A kernel may know several languages, as Node's does; it is told which when it does. */
static int set_language(struct job *j, const struct catalog_kind *kind, const char *wanted,
                        struct error *err)
{
    const struct catalog *catalog = j->plane->order.catalog;
    const struct runner_list *list = catalog_runners(catalog);
    const char *own = catalog_spec(kind)->language;
    struct error ignored;
    const struct runner *mine = runner_find(list, own, &ignored);
    const struct runner *asked = wanted ? runner_find(list, wanted, err) : mine;
    if (wanted && !asked)
        return error_word(err, "language_not_found");
    if (asked && mine && asked != mine && !catalog_is_same_kernel(catalog, asked, mine))
        return error_set(err, ERROR_INVALID, "language: the session speaks %s, not '%.64s'", own,
                         wanted);
    j->language = xstrdup(asked ? asked->language : own);
    for (size_t i = 0; mine && i < list->count; i++) {
        if (&list->items[i] != mine && strcmp(list->items[i].image, mine->image) == 0)
            j->request.language = j->language;
    }
    return 0;
}

static struct job *new_job(struct plane *p, const char *owner, const char *id)
{
    struct job *j = xcalloc(1, sizeof(*j));
    j->plane = p;
    j->owner = xstrdup(owner);
    j->stdin_fd = -1;
    j->created_ns = clock_wall_ns();
    snprintf(j->id, sizeof(j->id), "%s", id);
    map_add(&p->jobs, &j->by_id, j->id);
    return j;
}

static int fill_job(struct job *j, const struct code_wish *wish, const struct catalog_kind *kind,
                    char *const *env, struct error *err)
{
    if (set_language(j, kind, wish->language, err) < 0 ||
        set_timeout(j, wish, catalog_spec(kind), err) < 0 || make_inputs(j, wish, err) < 0)
        return -1;
    if (wish->stdin_text &&
        fd_make_file(&j->stdin_fd, "stdin", wish->stdin_text, strlen(wish->stdin_text), err) < 0)
        return -1;
    j->code = xstrdup(wish->code);
    j->env = join_env(env, &wish->env);
    j->is_idempotent = wish->is_idempotent;
    j->mode = (enum wish_mode)wish->mode;
    if (j->mode != WISH_SYNC)
        j->journal = journal_new(MAX(j->plane->order.output_bytes, JOURNAL_MIN));
    return 0;
}

void job_free(struct job *j)
{
    if (j->live && j->live->running == j)
        j->live->running = NULL;
    map_remove(&j->plane->jobs, &j->by_id);
    loop_timer_free(j->timer);
    session_free(j->session);
    if (j->kind)
        catalog_let_go(j->kind);
    if (j->journal)
        journal_drop(j->journal);
    for (size_t i = 0; i < j->input_count; i++) {
        free(j->inputs[i].path);
        scoped_close_fd(&j->inputs[i].fd);
    }
    for (char **e = j->env; e && *e; e++)
        free(*e);
    if (j->file) {
        strbuf_release(j->file);
        free(j->file);
    }
    scoped_close_fd(&j->stdin_fd);
    json_decref(j->files);
    free(j->env);
    free(j->inputs);
    free(j->code);
    free(j->request_text);
    free(j->document);
    free(j->answer);
    free(j->language);
    free(j->session_id);
    free(j->owner);
    free(j);
}

/* --- documents -------------------------------------------------------------------------------- */

/* Of one that has not ended: the same fields, as far as they are known. */
static char *stub(const char *id, const char *session_id, const char *language,
                  enum execution_state state, int64_t created_ns, int64_t started_ns, size_t *len)
{
    struct execution e = {
        .verdict.state = state, .created_ns = created_ns, .started_ns = started_ns};
    snprintf(e.id, sizeof(e.id), "%s", id);
    json_t *o = execution_json(&e, language);
    if (session_id)
        json_object_set_new(o, "session_id", json_string(session_id));
    return plane_dump(o, len);
}

static void tell(const struct job *j, plane_fn fn, void *ctx)
{
    size_t len;
    if (j->answer) {
        fn(ctx, j->answer, j->answer_len, NULL);
        return;
    }
    if (j->document) {
        fn(ctx, j->document, j->document_len, NULL);
        return;
    }
    scoped_free char *text =
        stub(j->id, j->session_id, j->language, j->state, j->created_ns, j->started_ns, &len);
    fn(ctx, text, len, NULL);
}

static void tell_waiter(struct job *j, const struct error *err)
{
    plane_fn fn = j->fn;
    j->fn = NULL;
    if (fn && err)
        plane_fail(fn, j->ctx, err);
    else if (fn)
        tell(j, fn, j->ctx);
}

/* --- writing ---------------------------------------------------------------------------------- */

static struct store_execution row_of(const struct job *j)
{
    return (struct store_execution){
        .id = j->id,
        .session_id = j->session_id,
        .owner = j->owner,
        .state = (enum store_execution_state)j->state,
        .language = j->language,
        .node = j->plane->order.node,
        .epoch = j->plane->order.epoch,
        .is_idempotent = j->is_idempotent,
        .created_ns = j->created_ns,
        .started_ns = j->started_ns,
        .ended_ns = j->ended_ns,
        .request = j->request_text,
        .doc = j->document,
    };
}

static void ignore(void *ctx, const struct store_answer *answer)
{
    (void)ctx, (void)answer;
}

static void on_forget(void *ctx)
{
    struct job *j = ctx;
    j->plane->lingering--;
    job_free(j);
}

/* Its end is written, so the next process needs nothing of it any more, and another may begin. */
static void leave_session(struct job *j)
{
    struct live *l = take_ptr(&j->live);
    if (!l || l->running != j)
        return;
    l->running = NULL;
    if (l->session)
        session_settle(l->session);
    job_next(l);
}

/* Its end is written and told, and its sandbox, if it had one of its own, is gone. */
static void finish(struct job *j)
{
    if (!j->is_told || j->session)
        return;
    loop_timer_free(take_ptr(&j->timer));
    if (!j->journal || j->plane->lingering >= LINGER_MAX) {
        job_free(j);
        return;
    }
    j->plane->lingering++;
    j->timer = loop_timer_new(j->plane->order.loop, LINGER_MS, on_forget, j);
}

static void write_end(void *ctx);

static void on_end_written(void *ctx, const struct store_answer *answer)
{
    struct job *j = ctx;
    const struct error *err = j->is_dropped ? NULL : answer->err;
    if (err && err->code == ERROR_UNAVAILABLE && (j->is_known || !j->fn)) {
        tell_waiter(j, err);
        loop_timer_free(j->timer);
        j->timer = loop_timer_new(j->plane->order.loop, AGAIN_MS, write_end, j);
        return;
    }
    if (err)
        log_error(j->plane->order.log, "the end of an execution could not be written",
                  LOG_STR("execution", j->id), LOG_STR("error", err->msg));
    leave_session(j);
    if (j->journal && !journal_has_ended(j->journal))
        journal_add(j->journal, JOURNAL_ENDED, j->document, j->document_len);
    tell_waiter(j, err);
    j->is_told = true;
    finish(j);
}

static void on_change_written(void *ctx, const struct store_answer *answer)
{
    struct job *j = ctx;
    if (answer->err && answer->err->code == ERROR_NOT_FOUND && !j->is_known)
        write_end(j); /* its beginning could not be written, so it is not there to be changed */
    else
        on_end_written(j, answer);
}

static void write_end(void *ctx)
{
    struct job *j = ctx;
    const struct store_execution row = row_of(j);
    const struct store_execution_change change = {
        .id = j->id,
        .node = j->plane->order.node,
        .epoch = j->plane->order.epoch,
        .to = row.state,
        .started_ns = j->started_ns,
        .ended_ns = j->ended_ns,
        .doc = j->document,
    };
    loop_timer_free(take_ptr(&j->timer));
    if (j->is_known)
        store_change_execution(j->plane->order.store, &change, on_change_written, j);
    else
        store_add_execution(j->plane->order.store, &row, on_end_written, j);
}

/* False: it does not wait. */
static bool leave_queue(struct job *j)
{
    struct job **at = j->live ? &j->live->first : NULL;
    while (at && *at && *at != j)
        at = &(*at)->next;
    if (!at || !*at)
        return false;
    *at = j->next;
    j->plane->queued--;
    return true;
}

/* Who asked was told that it could not be written down, so it must not happen. */
static void drop(struct job *j)
{
    j->is_dropped = true;
    if (leave_queue(j))
        job_free(j);
    else if (j->live && j->live->running == j)
        session_cancel(j->live->session);
}

/* Answers who waits, unless he waits for the end. */
static void on_known(void *ctx, const struct store_answer *answer)
{
    struct job *j = ctx;
    if (answer->err) {
        tell_waiter(j, answer->err);
        drop(j);
    } else if (j->mode != WISH_SYNC) {
        tell_waiter(j, NULL);
    }
}

static void make_known(struct job *j, store_fn fn)
{
    const struct store_execution row = row_of(j);
    j->is_known = true;
    store_add_execution(j->plane->order.store, &row, fn, j);
}

static void on_old_written(void *ctx, const struct store_answer *answer)
{
    struct job *j = ctx;
    j->is_known = !answer->err;
}

static void on_old(void *ctx)
{
    struct job *j = ctx;
    loop_timer_free(take_ptr(&j->timer));
    make_known(j, on_old_written);
    live_write(j->live);
}

/* --- what happens in it ----------------------------------------------------------------------- */

static void on_output(void *ctx, enum execution_stream stream, const void *data, size_t len)
{
    static const enum journal_kind kinds[] = {JOURNAL_STDOUT, JOURNAL_STDERR};
    const struct job *j = ctx;
    if (j->journal)
        journal_add(j->journal, kinds[stream], data, len);
    if (!j->live)
        return;
    if (!j->live->tail)
        j->live->tail = tail_new(TAIL_MAX_BYTES);
    tail_add(j->live->tail, stream, data, len, clock_wall_ns());
}

static void on_result(void *ctx, const struct result *result)
{
    const struct job *j = ctx;
    size_t len;
    if (!j->journal)
        return;
    scoped_free char *text = plane_dump(result_json(result), &len);
    journal_add(j->journal, JOURNAL_RESULT, text, len);
}

/* The bytes of what a stateless run made come with its result, as far as they are not too many. */
static void on_artifact_begin(void *ctx, const struct artifact *a)
{
    struct job *j = ctx;
    if (!j->files)
        return;
    j->file = xcalloc(1, sizeof(*j->file));
    strbuf_init(j->file, MIN(FILE_MAX, FILES_MAX - j->files_bytes));
    (void)a;
}

static void on_artifact_data(void *ctx, const void *data, size_t len)
{
    const struct job *j = ctx;
    if (j->file)
        strbuf_add(j->file, data, len);
}

static json_t *file_json(const struct artifact *a, const struct strbuf *content)
{
    json_t *o = json_pack("{s:o, s:o}", "path", json_text(a->path, strlen(a->path)), "size",
                          json_number(a->size));
    json_t *text = json_stringn(strbuf_str(content), content->len);
    bool is_whole = !content->overflow && content->len == a->size;
    if (is_whole && text && !memchr(strbuf_str(content), '\0', content->len)) {
        json_object_set(o, "content", text);
    } else if (is_whole) {
        scoped_strbuf struct strbuf encoded;
        strbuf_init(&encoded, BASE64_ENCODED_LEN(content->len) + 1);
        base64_add(&encoded, strbuf_str(content), content->len);
        json_object_set_new(o, "content_base64", json_string(strbuf_str(&encoded)));
    }
    json_decref(text);
    return o;
}

static void on_artifact_end(void *ctx, const struct artifact *a)
{
    struct job *j = ctx;
    struct strbuf *file = take_ptr(&j->file);
    if (!file)
        return;
    json_array_append_new(j->files, file_json(a, file));
    j->files_bytes += file->len;
    strbuf_release(file);
    free(file);
}

static void tell_artifacts(const struct job *j, const json_t *document)
{
    size_t i, len;
    json_t *item;
    if (!j->journal)
        return;
    json_array_foreach(json_object_get(document, "artifacts"), i, item)
    {
        scoped_free char *text = plane_dump(json_incref(item), &len);
        journal_add(j->journal, JOURNAL_ARTIFACT, text, len);
    }
}

/* What the store can keep; results are the only part without a limit of their own. */
static char *dump_fitting(json_t *o, size_t *len)
{
    char *text = plane_dump(json_incref(o), len);
    if (*len <= DOCUMENT_MAX)
        return text;
    free(text);
    json_object_set_new(o, "results", json_array());
    json_object_set_new(json_object_get(o, "truncated"), "results", json_true());
    return plane_dump(json_incref(o), len);
}

static void set_document(struct job *j, const struct execution *e)
{
    scoped_json json_t *o = execution_json(e, j->language);
    json_object_set_new(o, "id", json_string(j->id));
    json_object_set_new(o, "created_at", plane_time(j->created_ns));
    if (j->session_id)
        json_object_set_new(o, "session_id", json_string(j->session_id));
    tell_artifacts(j, o);
    j->document = dump_fitting(o, &j->document_len);
    if (j->files) { /* told, not kept */
        json_object_set(o, "files", j->files);
        j->answer = plane_dump(json_incref(o), &j->answer_len);
    }
    j->state = e->verdict.state;
    j->started_ns = e->started_ns;
    j->ended_ns = e->ended_ns ? e->ended_ns : clock_wall_ns();
}

static void tell_end(const struct job *j, const struct execution *e)
{
    const struct plane *p = j->plane;
    const struct plane_ending ending = {
        .id = j->id, .owner = j->owner, .session_id = j->session_id, .execution = e};
    p->events->ended(p->events_ctx, &ending);
}

/* Every ending. */
static void end(struct job *j, const struct execution *e)
{
    struct plane *p = j->plane;
    set_document(j, e);
    if (p->events)
        tell_end(j, e);
    if (j->is_dropped) { /* it could not be written that it began: nobody knows it */
        leave_session(j);
        j->is_told = true;
        finish(j);
        return;
    }
    write_end(j);
}

static void on_ended(void *ctx, const struct execution *e)
{
    struct job *j = ctx;
    struct live *l = j->live;
    j->plane->running--;
    if (l) {
        l->is_dirty = true;
        l->used_ns = clock_now_ns();
        l->last_used_ns = clock_wall_ns();
    }
    if (j->session)
        session_close(j->session);
    end(j, e);
}

const struct execution_events job_events = {
    .output = on_output,
    .result = on_result,
    .artifact_begin = on_artifact_begin,
    .artifact_data = on_artifact_data,
    .artifact_end = on_artifact_end,
    .ended = on_ended,
};

/* One that never began. */
static void end_unbegun(struct job *j, enum execution_state state, enum reason_kind kind,
                        const char *why)
{
    struct execution e = {.created_ns = j->created_ns,
                          .ended_ns = clock_wall_ns(),
                          .verdict = {.state = state, .kind = kind}};
    snprintf(e.id, sizeof(e.id), "%s", j->id);
    snprintf(e.verdict.message, sizeof(e.verdict.message), "%.255s", why);
    j->live = NULL;
    end(j, &e);
}

/* --- beginning -------------------------------------------------------------------------------- */

static void fill_request(struct job *j)
{
    const char *language = j->request.language;
    j->request = (struct cell_request){
        .id = j->id,
        .code = j->code,
        .code_len = j->code ? strlen(j->code) : 0,
        .language = language,
        .env = (const char *const *)j->env,
        .inputs = j->inputs,
        .input_count = j->input_count,
        .stdin_fd = take_fd(&j->stdin_fd),
        .timeout_ms = j->timeout_ms,
        .output_bytes = j->plane->order.output_bytes,
        .wants_artifacts = true,
        .wants_usage = true,
        .keeps_now = j->session_id && j->mode != WISH_SYNC,
        .is_held = j->session_id != NULL,
    };
}

static void tell_started(const struct job *j)
{
    size_t len;
    if (!j->journal)
        return;
    scoped_free char *text =
        plane_dump(json_pack("{s:s, s:o, s:s}", "id", j->id, "session_id",
                             json_text_or_null(j->session_id), "language", j->language),
                   &len);
    journal_add(j->journal, JOURNAL_STARTED, text, len);
}

static int begin(struct job *j, struct session *session, struct error *err)
{
    fill_request(j);
    if (session_execute(session, &j->request, false, &job_events, j, err) < 0)
        return -1;
    j->state = EXECUTION_RUNNING;
    j->started_ns = clock_wall_ns();
    j->plane->running++;
    tell_started(j);
    return 0;
}

static int begin_in(struct job *j, struct live *l, struct error *err)
{
    if (begin(j, l->session, err) < 0)
        return -1;
    l->running = j;
    return 0;
}

static bool is_free(const struct live *l)
{
    return l->session && !l->is_ending && !l->running && !l->first &&
           session_info(l->session)->state == SESSION_READY;
}

void job_next(struct live *l)
{
    struct error err;
    while (l->first && l->session && !l->is_ending && !l->running &&
           session_info(l->session)->state == SESSION_READY) {
        struct job *j = l->first;
        l->first = j->next;
        j->plane->queued--;
        if (begin_in(j, l, &err) < 0) {
            end_unbegun(j, EXECUTION_FAILED, REASON_INFRASTRUCTURE, err.msg);
            continue;
        }
        const struct store_execution_change change = {
            .id = j->id,
            .node = j->plane->order.node,
            .epoch = j->plane->order.epoch,
            .to = STORE_EXECUTION_RUNNING,
            .started_ns = j->started_ns,
        };
        if (j->is_known)
            store_change_execution(j->plane->order.store, &change, ignore, NULL);
        live_write(l);
    }
}

void job_end_all(struct live *l, const char *why)
{
    while (l->first) {
        struct job *j = l->first;
        l->first = j->next;
        j->plane->queued--;
        end_unbegun(j, EXECUTION_CANCELLED, REASON_CANCELLED, why);
    }
}

static void queue(struct job *j, struct live *l)
{
    struct job **at = &l->first;
    while (*at)
        at = &(*at)->next;
    *at = j;
    j->next = NULL;
    j->state = EXECUTION_QUEUED;
    j->plane->queued++;
}

static int refuse_busy(const struct live *l, struct error *err)
{
    if (session_info(l->session)->state == SESSION_FAILED) {
        error_set(err, ERROR_CONFLICT, "the interpreter of the session is gone: %.300s",
                  l->problem ? l->problem : "it ended");
        error_word(err, "session_failed");
        return error_hint(err, "start a new one with POST /sessions/{id}/reset");
    }
    error_set(err, ERROR_CONFLICT, "the session runs something already");
    error_word(err, "session_busy");
    return error_hint(err, "wait for it, interrupt it, or ask with \"queue\": true");
}

static int refuse_full(const struct plane *p, struct error *err)
{
    if (!p->order.max_executions || p->running < p->order.max_executions)
        return 0;
    error_set(err, ERROR_LIMIT, "%zu executions run already, as many as there may be",
              (size_t)p->running);
    error_word(err, "too_many_executions");
    error_hint(err, "try again when some have ended");
    err->retry_ms = 1000;
    return -1;
}

static size_t queue_length(const struct live *l)
{
    size_t count = 0;
    for (const struct job *j = l->first; j; j = j->next)
        count++;
    return count;
}

/* It runs nothing, but is being taken over, or reset: a moment that nobody has to know of. */
static bool is_returning(const struct live *l)
{
    return session_info(l->session)->state == SESSION_CREATING && !l->running && !l->first;
}

/* Begins it or has it wait. */
static int place(struct job *j, struct live *l, bool may_queue, struct error *err)
{
    if (is_free(l))
        return refuse_full(j->plane, err) < 0 ? -1 : begin_in(j, l, err);
    if (!(may_queue || is_returning(l)) || session_info(l->session)->state == SESSION_FAILED)
        return refuse_busy(l, err);
    if (queue_length(l) >= SESSION_QUEUE_MAX) {
        error_set(err, ERROR_LIMIT, "%d executions wait already", SESSION_QUEUE_MAX);
        return error_word(err, "queue_full");
    }
    queue(j, l);
    return 0;
}

static char *request_text(const struct code_wish *wish)
{
    size_t len;
    return plane_dump(params_json(wish, &code_wish_table), &len);
}

static int make_id(char id[ID_BYTES], struct error *err)
{
    return id[0] ? 0 : id_make(ID_EXECUTION, id, err);
}

static struct live *find_live(struct plane *p, const struct plane_caller *who, const char *word,
                              struct error *err)
{
    return plane_use(p, who, word, err) ? live_find(p, who, word) : NULL;
}

void plane_execute(struct plane *p, const struct plane_caller *who, const char *word,
                   const struct code_wish *wish, char id[ID_BYTES], plane_fn fn, void *ctx)
{
    struct error err;
    struct live *l = find_live(p, who, word, &err);
    if (!l || make_id(id, &err) < 0) {
        plane_fail(fn, ctx, &err);
        return;
    }
    struct job *j = new_job(p, l->owner, id);
    j->session_id = xstrdup(l->id);
    j->live = l;
    if (fill_job(j, wish, l->kind, l->env, &err) < 0 || place(j, l, wish->may_queue, &err) < 0) {
        job_free(j);
        plane_fail(fn, ctx, &err);
        return;
    }
    j->fn = fn;
    j->ctx = ctx;
    if (j->state == EXECUTION_QUEUED && j->mode != WISH_SYNC)
        j->request_text = request_text(wish);
    if (j->mode != WISH_SYNC) {
        live_write(l);
        make_known(j, on_known);
    } else {
        j->timer = loop_timer_new(p->order.loop, YOUNG_MS, on_old, j);
    }
}

/* --- without a session ------------------------------------------------------------------------ */

static void begin_once(struct job *j)
{
    struct error err;
    if (j->is_cancelled) {
        session_close(j->session);
        end_unbegun(j, EXECUTION_CANCELLED, REASON_CANCELLED, "cancelled before it began");
    } else if (begin(j, j->session, &err) < 0) {
        session_close(j->session);
        j->is_dropped = j->is_told = true;
        tell_waiter(j, &err);
    } else {
        j->has_begun = true;
    }
}

static void on_once_changed(void *ctx, struct session *session)
{
    struct job *j = ctx;
    switch (session_info(session)->state) {
    case SESSION_READY:
        if (!j->has_begun && !j->document)
            begin_once(j);
        break;
    case SESSION_FAILED:
        if (!j->has_begun && !j->is_dropped) {
            const struct error err = session_info(session)->error;
            j->is_dropped = j->is_told = true;
            session_close(session);
            tell_waiter(j, &err);
        }
        break;
    case SESSION_TERMINATED:
        session_free(take_ptr(&j->session));
        finish(j);
        break;
    default:
        break;
    }
}

static const struct session_events once_events = {.changed = on_once_changed};

void plane_execute_once(struct plane *p, const struct plane_caller *who,
                        const struct code_wish *wish, char id[ID_BYTES], plane_fn fn, void *ctx)
{
    static const struct resource_spec nothing;
    struct error err;
    bool is_parked;
    struct catalog_kind *kind = plane_kind(p, wish->template, wish->language, &err);
    if (!kind || refuse_full(p, &err) < 0 ||
        plane_check_quota(p, who, catalog_limits(kind), &err) < 0 || make_id(id, &err) < 0) {
        plane_fail(fn, ctx, &err);
        return;
    }
    struct job *j = new_job(p, who->owner, id);
    j->files = json_array();
    struct code_wish as_sync = *wish;
    as_sync.mode = WISH_SYNC;
    if (fill_job(j, &as_sync, kind, NULL, &err) < 0 ||
        catalog_take(kind, &nothing, &j->session, &j->kind, &is_parked, &once_events, j, &err) <
            0) {
        job_free(j);
        plane_fail(fn, ctx, &err);
        return;
    }
    j->fn = fn;
    j->ctx = ctx;
    if (session_info(j->session)->state == SESSION_READY)
        begin_once(j);
}

/* --- reading and ending ----------------------------------------------------------------------- */

static struct job *find_job(struct plane *p, const struct plane_caller *who, const char *id)
{
    struct map_node *node = map_find(&p->jobs, id);
    struct job *j = node ? MAP_OF(node, struct job, by_id) : NULL;
    return j && (who->sees_all || strcmp(j->owner, who->owner) == 0) ? j : NULL;
}

struct asking {
    plane_fn fn;
    void *ctx;
    char id[ID_BYTES];
};

static int not_found(struct error *err, const char *id)
{
    error_set(err, ERROR_NOT_FOUND, "no execution '%.64s'", id);
    return error_word(err, "execution_not_found");
}

static void tell_stored(const struct asking *a, const struct store_execution *row)
{
    size_t len;
    if (row->doc) {
        a->fn(a->ctx, row->doc, strlen(row->doc), NULL);
        return;
    }
    scoped_free char *text =
        stub(row->id, row->session_id, row->language, (enum execution_state)row->state,
             row->created_ns, row->started_ns, &len);
    a->fn(a->ctx, text, len, NULL);
}

static void on_got(void *ctx, const struct store_answer *answer)
{
    scoped_free struct asking *a = ctx;
    struct error err;
    if (!answer->err) {
        tell_stored(a, &answer->executions[0]);
    } else if (answer->err->code == ERROR_NOT_FOUND) {
        not_found(&err, a->id);
        plane_fail(a->fn, a->ctx, &err);
    } else {
        plane_fail(a->fn, a->ctx, answer->err);
    }
}

static void get_stored(struct plane *p, const struct plane_caller *who, const char *id, plane_fn fn,
                       void *ctx)
{
    struct error err;
    if (!id_is_valid(ID_EXECUTION, id)) {
        not_found(&err, id);
        plane_fail(fn, ctx, &err);
        return;
    }
    struct asking *a = xcalloc(1, sizeof(*a));
    *a = (struct asking){.fn = fn, .ctx = ctx};
    snprintf(a->id, sizeof(a->id), "%s", id);
    const struct store_name name = {.id = id, .owner = who->sees_all ? NULL : who->owner};
    store_get_execution(p->order.store, &name, on_got, a);
}

void plane_get_execution(struct plane *p, const struct plane_caller *who, const char *id,
                         plane_fn fn, void *ctx)
{
    const struct job *j = find_job(p, who, id);
    if (j && (!j->document || j->is_told)) /* an end is told when it is written */
        tell(j, fn, ctx);
    else
        get_stored(p, who, id, fn, ctx);
}

static void unqueue(struct job *j)
{
    if (leave_queue(j))
        end_unbegun(j, EXECUTION_CANCELLED, REASON_CANCELLED, "cancelled before it began");
}

void plane_cancel(struct plane *p, const struct plane_caller *who, const char *id, plane_fn fn,
                  void *ctx)
{
    struct job *j = find_job(p, who, id);
    if (!j || j->document) {
        plane_get_execution(p, who, id, fn, ctx);
        return;
    }
    j->is_cancelled = true;
    if (j->live && j->state == EXECUTION_QUEUED) {
        unqueue(j);
        plane_get_execution(p, who, id, fn, ctx);
        return;
    }
    if (j->live || j->has_begun)
        session_cancel(j->live ? j->live->session : j->session);
    tell(j, fn, ctx);
}

struct journal *plane_listen(struct plane *p, const struct plane_caller *who, const char *id,
                             uint64_t *first)
{
    const struct job *j = find_job(p, who, id);
    *first = p->order.epoch << 40;
    return j ? j->journal : NULL;
}

/* --- lists ------------------------------------------------------------------------------------ */

static json_t *row_json(const struct store_execution *row)
{
    return json_pack("{s:s, s:o, s:s, s:s, s:o, s:o, s:o}", "id", row->id, "session_id",
                     json_text_or_null(row->session_id), "language", row->language, "state",
                     store_execution_names[row->state], "created_at", plane_time(row->created_ns),
                     "started_at", plane_time(row->started_ns), "ended_at",
                     plane_time(row->ended_ns));
}

static void on_listed(void *ctx, const struct store_answer *answer)
{
    scoped_free struct asking *a = ctx;
    size_t len;
    if (answer->err) {
        plane_fail(a->fn, a->ctx, answer->err);
        return;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < answer->count; i++)
        json_array_append_new(list, row_json(&answer->executions[i]));
    scoped_free char *text = plane_dump(json_pack("{s:o, s:o}", "executions", list, "next_cursor",
                                                  json_text_or_null(answer->next_cursor)),
                                        &len);
    a->fn(a->ctx, text, len, NULL);
}

void plane_list_executions(struct plane *p, const struct plane_caller *who,
                           const struct plane_filter *wanted, plane_fn fn, void *ctx)
{
    const struct live *l = wanted->session ? live_find(p, who, wanted->session) : NULL;
    const struct store_filter filter = {
        .owner = who->sees_all ? NULL : who->owner,
        .session_id = l ? l->id : wanted->session,
        .states = wanted->has_state ? STORE_BIT(wanted->state) : 0,
        .is_live = wanted->is_live,
        .cursor = wanted->cursor,
        .limit = (uint64_t)wanted->limit,
    };
    struct asking *a = xcalloc(1, sizeof(*a));
    *a = (struct asking){.fn = fn, .ctx = ctx};
    store_list_executions(p->order.store, &filter, on_listed, a);
}

/* --- of an earlier process -------------------------------------------------------------------- */

struct job *job_of_record(struct plane *p, const struct store_execution *row)
{
    struct job *j = new_job(p, row->owner, row->id);
    j->session_id = row->session_id ? xstrdup(row->session_id) : NULL;
    j->language = xstrdup(row->language);
    j->state = (enum execution_state)row->state;
    j->created_ns = row->created_ns;
    j->started_ns = row->started_ns;
    j->is_idempotent = row->is_idempotent;
    j->is_known = true;
    j->mode = WISH_ASYNC;
    j->timeout_ms = p->order.timeout_ms;
    j->request_text = row->request ? xstrdup(row->request) : NULL;
    const struct store_execution_change lease = {
        .id = j->id, .to = row->state, .new_node = p->order.node, .new_epoch = p->order.epoch};
    store_change_execution(p->order.store, &lease, ignore, NULL);
    j->journal = journal_new(MAX(p->order.output_bytes, JOURNAL_MIN));
    return j;
}

const struct cell_request *job_attach(struct job *j, struct live *l)
{
    j->live = l;
    l->running = j;
    j->plane->running++;
    fill_request(j);
    tell_started(j);
    return &j->request;
}

/* It was never begun: what was asked is still to be done. */
void job_queue(struct job *j, struct live *l)
{
    struct error err;
    struct code_wish wish = {0};
    scoped_json json_t *value = NULL;
    size_t len = j->request_text ? strlen(j->request_text) : 0;
    const struct json_limits limits = {.max_bytes = len};
    journal_drop(take_ptr(&j->journal));
    free(take_ptr(&j->language));
    error_set(&err, ERROR_INTERNAL, "what was asked is not known any more");
    if (len == 0 || json_parse(&value, j->request_text, len, &limits, &err) < 0 ||
        params_read(&wish, &code_wish_table, value, &err) < 0 ||
        fill_job(j, &wish, l->kind, l->env, &err) < 0) {
        if (!j->language)
            j->language = xstrdup(catalog_spec(l->kind)->language);
        end_unbegun(j, EXECUTION_LOST, REASON_INFRASTRUCTURE, err.msg);
    } else {
        j->live = l;
        queue(j, l);
    }
    params_release(&wish, &code_wish_table);
}

void job_lose(struct job *j, const char *why)
{
    end_unbegun(j, EXECUTION_LOST, REASON_INFRASTRUCTURE, why);
}
