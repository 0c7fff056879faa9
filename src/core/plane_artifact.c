/* plane_artifact.c - an execution's document as it is told later: where its files can be fetched
 *
 * Addresses expire, and files go before the executions that made them; so neither is written into
 * the document, and both are looked up when somebody asks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/parse.h"
#include "base/scoped.h"
#include "core/plane_inside.h"

struct telling {
    const struct plane *plane;
    char *text;
    plane_fn fn;
    void *ctx;
};

/* Keys of our own documents: a quote in what code printed would be escaped. */
static bool has_artifacts(const char *text)
{
    return strstr(text, "\"artifacts\":[{") != NULL;
}

static struct job *job_of(const struct plane *p, const char *execution)
{
    struct map_node *node = map_find(&p->jobs, execution);
    return node ? MAP_OF(node, struct job, by_id) : NULL;
}

/* One that is still read has no place in its row yet; who fetches it waits. */
static bool is_coming(const struct plane *p, const struct store_artifact *row)
{
    const struct job *j = job_of(p, row->execution_id);
    return (j && haul_awaits(&j->haul, row->path)) ||
           archive_awaits(p->order.archive, row->execution_id, row->path);
}

static void fill(const struct telling *t, json_t *item, const char *session,
                 const struct store_artifact *row)
{
    const struct links_target link = {
        .session = session, .execution = row->execution_id, .path = row->path};
    if (row->place || is_coming(t->plane, row))
        json_object_set_new(item, "download_url",
                            links_json(t->plane->order.links, &link, row->modified_ns));
    if (row->sha256.len == SHA256_BYTES) {
        char hex[SHA256_HEX_BYTES];
        format_hex(row->sha256.data, SHA256_BYTES, hex);
        json_object_set_new(item, "sha256", json_string(hex));
    }
}

/* Both lists have the order of their paths; in the document a path may have lost what is not text,
 * so they are told apart by their place. A document that would have been too large has only the
 * first ones. */
static void fill_all(const struct telling *t, json_t *document, const struct store_answer *rows)
{
    size_t i;
    json_t *item;
    json_t *list = json_object_get(document, "artifacts");
    const char *session = json_string_value(json_object_get(document, "session_id"));
    if (json_array_size(list) > rows->count)
        return;
    json_array_foreach(list, i, item)
    {
        const struct store_artifact *row = &rows->artifacts[i];
        fill(t, item, session ? session : row->execution_id, row);
    }
}

static void on_rows(void *ctx, const struct store_answer *rows)
{
    struct telling *t = ctx;
    struct error err;
    json_t *document = NULL;
    size_t len = strlen(t->text);
    const struct json_limits limits = {.max_bytes = len, .has_nul = true};
    if (!rows->err && json_parse(&document, t->text, len, &limits, &err) == 0) {
        fill_all(t, document, rows);
        free(t->text);
        t->text = plane_dump(document, &len);
    }
    t->fn(t->ctx, t->text, len, NULL);
    free(t->text);
    free(t);
}

void plane_tell_document(struct plane *p, const char *id, const char *text, plane_fn fn, void *ctx)
{
    if (!p->order.archive || !p->order.links || !has_artifacts(text)) {
        fn(ctx, text, strlen(text), NULL);
        return;
    }
    const struct store_name name = {.id = id};
    struct telling *t = xcalloc(1, sizeof(*t));
    *t = (struct telling){.plane = p, .text = xstrdup(text), .fn = fn, .ctx = ctx};
    store_list_artifacts(p->order.store, &name, on_rows, t);
}

/* --- what is kept ----------------------------------------------------------------------------- */

void job_keep(struct job *j)
{
    struct archive *archive = j->plane->order.archive;
    if (!archive)
        return;
    if (j->is_carried && j->live)
        snprintf(j->live->carrying, sizeof(j->live->carrying), "%s", j->id);
    archive_keep(archive, j->id, j->session_id, &j->haul);
}

static struct live *live_of(const struct plane *p, const char *session)
{
    struct map_node *node = map_find(&p->sessions, session);
    return node ? MAP_OF(node, struct live, by_id) : NULL;
}

static struct session *find_source(void *ctx, const char *execution, const char *session)
{
    const struct plane *p = ctx;
    const struct live *l = session ? live_of(p, session) : NULL;
    const struct job *j = session ? NULL : job_of(p, execution);
    if (l)
        return l->is_ending ? NULL : l->session;
    return j ? j->session : NULL;
}

static void on_carried(void *ctx, const char *execution, const char *session)
{
    const struct plane *p = ctx;
    struct live *l = session ? live_of(p, session) : NULL;
    struct job *j = session ? NULL : job_of(p, execution);
    if (l && strcmp(l->carrying, execution) == 0) {
        l->carrying[0] = '\0';
        job_next(l);
    }
    if (j && j->is_carried) { /* it waited for nothing else */
        j->is_carried = false;
        job_let_go(j);
    }
}

const struct archive_source plane_source = {.find = find_source, .carried = on_carried};
