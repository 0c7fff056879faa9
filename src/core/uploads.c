/* uploads.c - a walk through what was uploaded, page by page */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/uploads.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"

#define PREFIX   "uploads/"
#define FIRST_MS 60000
#define NEXT_MS  3600000
#define PAGE     100
#define KEEP_NS  (24 * 3600 * 1000000000ll)

struct uploads {
    struct loop *loop;
    struct blob *blob;
    const struct log *log;
    struct loop_timer *timer; /* NULL: a walk is under way */
    char *old[PAGE];
    size_t count;
    char after[BLOB_KEY_MAX_BYTES + 1]; /* "": from the beginning */
    bool has_more;
};

void upload_key(const char *session, const char *upload, char out[UPLOAD_KEY_BYTES])
{
    snprintf(out, UPLOAD_KEY_BYTES, PREFIX "%s/%s", session, upload);
}

static void on_time(void *ctx);
static void ask_page(struct uploads *u);

static void rest(struct uploads *u)
{
    u->after[0] = '\0';
    u->timer = loop_timer_new(u->loop, NEXT_MS, on_time, u);
}

static void remove_next(struct uploads *u);

static void on_removed(void *ctx, const struct error *err)
{
    struct uploads *u = ctx;
    if (err)
        log_warn(u->log, "an old upload could not be removed", LOG_STR("error", err->msg));
    remove_next(u);
}

static void remove_next(struct uploads *u)
{
    if (u->count > 0) {
        scoped_free char *key = u->old[--u->count];
        blob_remove(u->blob, key, on_removed, u);
    } else if (u->has_more) {
        ask_page(u);
    } else {
        rest(u);
    }
}

static void on_page(void *ctx, const struct error *err, const struct blob_page *page)
{
    struct uploads *u = ctx;
    int64_t before = clock_wall_ns() - KEEP_NS;
    u->has_more = !err && page->has_more;
    for (size_t i = 0; !err && i < page->count; i++) {
        if (page->entries[i].info.modified_ns < before)
            u->old[u->count++] = xstrdup(page->entries[i].key);
        snprintf(u->after, sizeof(u->after), "%s", page->entries[i].key);
    }
    remove_next(u);
}

static void ask_page(struct uploads *u)
{
    const struct blob_list_order order = {
        .prefix = PREFIX, .after = u->after[0] ? u->after : NULL, .limit = PAGE};
    blob_list(u->blob, &order, on_page, u);
}

static void on_time(void *ctx)
{
    struct uploads *u = ctx;
    loop_timer_free(take_ptr(&u->timer));
    ask_page(u);
}

struct uploads *uploads_new(struct loop *loop, struct blob *blob, const struct log *log)
{
    struct uploads *u = xcalloc(1, sizeof(*u));
    *u = (struct uploads){.loop = loop, .blob = blob, .log = log};
    if (blob_can_presign(blob))
        u->timer = loop_timer_new(loop, FIRST_MS, on_time, u);
    return u;
}

void uploads_free(struct uploads *u)
{
    if (!u)
        return;
    loop_timer_free(u->timer);
    while (u->count > 0)
        free(u->old[--u->count]);
    free(u);
}
