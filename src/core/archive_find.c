/* archive_find.c - where the bytes of an artifact are, once they are there */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/memory.h"
#include "core/archive_inside.h"

struct finding {
    struct archive *archive;
    struct finding *next; /* that waits for the same load */
    char id[ID_BYTES];
    char *path;
    archive_fn fn;
    void *ctx;
};

struct finding *finding_next(struct finding *f)
{
    return f->next;
}

static void answer(struct finding *f, const struct archive_file *file, const struct error *err)
{
    f->fn(f->ctx, file, err);
    free(f->path);
    free(f);
}

void finding_fail(struct finding *f, const struct error *err)
{
    answer(f, NULL, err);
}

static void fail_gone(struct finding *f)
{
    struct error err;
    error_set(&err, ERROR_NOT_FOUND, "the bytes of '%.200s' are not kept, or not any more",
              f->path);
    error_hint(&err, "run the code again; how much is kept, and for how long, is the operator's "
                     "choice (artifact-retention, artifact-disk, artifact-max)");
    error_word(&err, "artifact_gone");
    answer(f, NULL, &err);
}

static void fail_unknown(struct finding *f)
{
    struct error err;
    error_set(&err, ERROR_NOT_FOUND, "the execution has left no file '%.200s'", f->path);
    error_word(&err, "artifact_not_found");
    answer(f, NULL, &err);
}

static void on_rows(void *ctx, const struct store_answer *rows)
{
    struct finding *f = ctx;
    const struct store_artifact *row = NULL;
    if (rows->err) {
        answer(f, NULL, rows->err);
        return;
    }
    for (size_t i = 0; i < rows->count && !row; i++) {
        if (strcmp(rows->artifacts[i].path, f->path) == 0)
            row = &rows->artifacts[i];
    }
    if (!row) {
        fail_unknown(f);
        return;
    }
    if (!row->place || row->sha256.len != SHA256_BYTES) {
        fail_gone(f);
        return;
    }
    struct archive_file file = {
        .place = row->place, .mime = row->mime, .size = row->size, .modified_ns = row->modified_ns};
    memcpy(file.sha256, row->sha256.data, SHA256_BYTES);
    answer(f, &file, NULL);
}

void finding_begin(struct finding *f)
{
    const struct store_name name = {.id = f->id};
    store_list_artifacts(f->archive->order.store, &name, on_rows, f);
}

bool archive_awaits(const struct archive *a, const char *execution, const char *path)
{
    struct map_node *node = map_find(&a->loads, execution);
    return node && haul_awaits(&MAP_OF(node, struct load, by_id)->haul, path);
}

void finding_look(struct finding *f)
{
    if (!archive_awaits(f->archive, f->id, f->path)) {
        finding_begin(f);
        return;
    }
    struct load *l = MAP_OF(map_find(&f->archive->loads, f->id), struct load, by_id);
    f->next = l->waiting;
    l->waiting = f;
}

void archive_find(struct archive *a, const char *execution, const char *path, archive_fn fn,
                  void *ctx)
{
    struct finding *f = xcalloc(1, sizeof(*f));
    f->archive = a;
    f->path = xstrdup(path);
    f->fn = fn;
    f->ctx = ctx;
    snprintf(f->id, sizeof(f->id), "%s", execution);
    finding_look(f);
}
