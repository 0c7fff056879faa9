/* job_end.c - what an execution says while it runs, and its one ending */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "codec/base64.h"
#include "core/execution_json.h"
#include "core/plane_inside.h"
#include "core/tail.h"

#define DOCUMENT_MAX (STORE_RECORD_MAX_BYTES - 1 * MIB)
#define FILE_MAX     (4 * MIB) /* of a file that comes back with the result... */
#define FILES_MAX    (8 * MIB) /* ...and of all of them */

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
        job_leave_session(j);
        j->is_told = true;
        job_finish(j);
        return;
    }
    job_write_end(j);
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
void job_end_unbegun(struct job *j, enum execution_state state, enum reason_kind kind,
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
