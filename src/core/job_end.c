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
#define STREAM_MAX   (1 * MIB) /* of each, in a document that would be too large */

/* --- what happens in it ----------------------------------------------------------------------- */

static void on_output(void *ctx, enum execution_stream stream, const void *data, size_t len)
{
    static const enum journal_kind kinds[] = {JOURNAL_STDOUT, JOURNAL_STDERR};
    const struct job *j = ctx;
    if (j->journal)
        journal_add(j->journal, kinds[stream], data, len);
    if (j->tail)
        tail_add(j->tail, stream, data, len, clock_wall_ns());
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

static void on_artifact_begin(void *ctx, const struct artifact *a)
{
    struct job *j = ctx;
    haul_begin(&j->haul, a);
}

static void on_artifact_data(void *ctx, const void *data, size_t len)
{
    struct job *j = ctx;
    haul_add(&j->haul, data, len);
}

static void on_artifact_end(void *ctx, const struct artifact *a)
{
    struct job *j = ctx;
    haul_end(&j->haul, a);
}

/* --- its document ----------------------------------------------------------------------------- */

static void add_content(json_t *o, const struct strbuf *content)
{
    json_t *text = json_stringn(strbuf_str(content), content->len);
    if (text && !memchr(strbuf_str(content), '\0', content->len)) {
        json_object_set(o, "content", text);
    } else {
        scoped_strbuf struct strbuf encoded;
        strbuf_init(&encoded, BASE64_ENCODED_LEN(content->len) + 1);
        base64_add(&encoded, strbuf_str(content), content->len);
        json_object_set_new(o, "content_base64", json_string(strbuf_str(&encoded)));
    }
    json_decref(text);
}

static json_t *link_of(const struct job *j, const struct haul_item *item)
{
    const struct links_target link = {
        .session = j->session_id ? j->session_id : j->id, .execution = j->id, .path = item->path};
    return links_json(j->plane->order.links, &link, item->mtime_ns);
}

/* For one more field. */
static void open_again(struct strbuf *document)
{
    document->len--; /* its closing brace */
}

/* The bytes of what a stateless run made come with its result, as far as they are not too many;
 * those of others can be fetched. */
static json_t *files_json(const struct job *j)
{
    json_t *list = json_array();
    for (size_t i = 0; i < j->haul.count; i++) {
        const struct haul_item *item = &j->haul.items[i];
        json_t *o = json_pack("{s:o, s:o}", "path", json_text(item->path, strlen(item->path)),
                              "size", json_number(item->size));
        if (item->is_whole)
            add_content(o, &item->content);
        else if (item->is_wanted)
            json_object_set_new(o, "download_url", link_of(j, item));
        json_array_append_new(list, o);
    }
    return list;
}

/* One in a session has those of the session. */
static void add_requirements(const struct job *j, struct strbuf *document)
{
    scoped_json json_t *list = catalog_requirements(j->kind);
    if (json_array_size(list) == 0)
        return;
    open_again(document);
    strbuf_add_str(document, ",\"requirements\":");
    json_add(document, list, JSON_STYLE_COMPACT);
    strbuf_add_char(document, '}');
}

/* Both lists have the order of their paths. */
static void add_links(const struct job *j, json_t *document)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(document, "artifacts"), i, item)
    {
        if (i < j->haul.count && j->haul.items[i].is_wanted)
            json_object_set_new(item, "download_url", link_of(j, &j->haul.items[i]));
    }
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

static void cut_list(json_t *o, const char *name, size_t left)
{
    json_t *list = json_object_get(o, name);
    if (json_array_size(list) <= left)
        return;
    while (json_array_size(list) > left)
        json_array_remove(list, json_array_size(list) - 1);
    json_object_set_new(json_object_get(o, "truncated"), name, json_true());
}

static bool is_too_large(json_t *o, char **text, size_t *len)
{
    free(*text);
    *text = plane_dump(json_incref(o), len);
    return *len > DOCUMENT_MAX;
}

/* What the store can keep. First goes what has no limit of its own. A character may take six in a
 * document, so names of files alone can be too much; of those the first ones stay. */
static char *dump_fitting(json_t *o, const struct execution *e, size_t *len)
{
    char *text = NULL;
    if (!is_too_large(o, &text, len))
        return text;
    cut_list(o, "results", 0);
    if (!is_too_large(o, &text, len))
        return text;
    execution_json_cut(o, e, STREAM_MAX);
    for (size_t left = e->artifacts.count; is_too_large(o, &text, len) && left > 0;)
        cut_list(o, "artifacts", left /= 2);
    return text;
}

static void plan_archive(struct job *j, const struct execution *e)
{
    const struct plane_order *o = &j->plane->order;
    bool can_keep = o->archive && o->links && !j->is_dropped;
    haul_complete(&j->haul, &e->artifacts, can_keep ? archive_room(o->archive) : 0);
    j->is_carried = haul_has_left(&j->haul);
}

/* Nearly every one: it made no file, so what is told is what is kept. */
static void set_plain(struct job *j, struct strbuf *text)
{
    j->document_len = text->len;
    if (j->is_once) {
        j->document = xstrndup(text->data, text->len);
        open_again(text);
        strbuf_add_str(text, ",\"files\":[]}");
        j->answer_len = text->len;
        j->answer = strbuf_take(text);
    } else {
        j->document = strbuf_take(text);
    }
}

static void set_with_files(struct job *j, const struct execution *e, const struct strbuf *text)
{
    scoped_json json_t *o = json_parse_own(text->data, text->len);
    BUG_ON(!o);
    j->document = dump_fitting(o, e, &j->document_len);
    /* What follows is told and not kept: addresses expire. */
    plan_archive(j, e);
    add_links(j, o);
    tell_artifacts(j, o);
    if (j->is_once)
        json_object_set_new(o, "files", files_json(j));
    if (j->is_once || j->haul.count > 0)
        j->answer = plane_dump(json_incref(o), &j->answer_len);
}

static void set_document(struct job *j, const struct execution *e)
{
    scoped_strbuf struct strbuf text;
    const struct execution_names names = {.id = j->id,
                                          .session_id = j->session_id,
                                          .language = j->language,
                                          .created_ns = j->created_ns};
    execution_text(&text, e, &names);
    if (j->is_once)
        add_requirements(j, &text);
    if (e->artifacts.count == 0 && j->haul.count == 0 && text.len <= DOCUMENT_MAX)
        set_plain(j, &text);
    else
        set_with_files(j, e, &text);
    j->state = e->verdict.state;
    j->started_ns = e->started_ns;
    j->ended_ns = e->ended_ns ? e->ended_ns : clock_wall_ns();
    j->figures = (struct job_figures){
        .kind = e->verdict.kind, .duration_ms = e->duration_ms, .cpu_us = e->facts.stats.cpu_us};
}

/* Every ending. */
static void end(struct job *j, const struct execution *e)
{
    set_document(j, e);
    if (j->is_dropped) { /* it could not be written that it began: nobody knows it */
        j->is_carried = false;
        job_leave_session(j);
        job_observe(j);
        job_let_go(j);
        return;
    }
    job_write_end(j);
}

static void on_ended(void *ctx, const struct execution *e)
{
    struct job *j = ctx;
    struct live *l = j->live;
    j->plane->running--;
    if (e->is_unbegun && job_queue_first(j))
        return;
    if (l) {
        l->is_dirty = true;
        l->used_ns = clock_now_ns();
        l->last_used_ns = clock_wall_ns();
    }
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
