/* archive_carry.c - a large file, out of its session into its place
 *
 * It is read twice: its place is named by its hash, and some back ends want the name before the
 * first byte. The second reading must have the hash of the first, and both must find the file as
 * the execution left it; else it has been changed since, and is not what was told. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "core/archive_inside.h"
#include "core/errand.h"
#include "core/mime.h"

struct carry {
    struct lane *lane;
    struct haul_item *item;
    struct errand *errand; /* NULL: none reads */
    struct sha256 *hash;
    struct blob_put *put; /* the second time */
    bool is_second;
};

void carry_free(struct carry *c)
{
    if (!c)
        return;
    if (c->errand)
        errand_close(c->errand);
    if (c->put)
        blob_put_abort(c->put);
    sha256_free(c->hash);
    free(c);
}

static void end(struct carry *c, const struct error *err, bool can_retry)
{
    struct lane *lane = c->lane;
    const struct error copy = err ? *err : (struct error){0};
    carry_free(take_ptr(&lane->carry));
    lane_on_item(lane, err ? &copy : NULL, can_retry);
}

static void end_changed(struct carry *c)
{
    struct error err;
    error_set(&err, ERROR_CONFLICT, "it was changed before it could be read");
    end(c, &err, false);
}

static void read_file(struct carry *c);

/* --- once its hash is known ------------------------------------------------------------------- */

static void on_row(void *ctx, const struct store_answer *answer)
{
    struct carry *c = ctx;
    if (answer->err)
        end(c, answer->err, answer->err->code == ERROR_UNAVAILABLE);
    else
        read_file(c);
}

static void on_hashed(struct carry *c)
{
    sha256_end(c->hash, c->item->sha256);
    c->item->has_hash = true;
    c->is_second = true;
    load_write_row(c->lane->load, c->item, true, on_row, c);
}

/* --- the second time -------------------------------------------------------------------------- */

static void on_put(void *ctx, const struct error *err)
{
    struct carry *c = ctx;
    c->put = NULL;
    end(c, err, true);
}

static void on_put_drain(void *ctx)
{
    struct carry *c = ctx;
    if (c->errand)
        errand_resume(c->errand);
}

static void begin_put(struct carry *c)
{
    char key[ARCHIVE_KEY_BYTES];
    archive_key(c->lane->load->id, c->item, key);
    const struct blob_put_order order = {.key = key,
                                         .size = c->item->size,
                                         .content_type = mime_of(c->item->path),
                                         .on_drain = on_put_drain,
                                         .on_done = on_put,
                                         .ctx = c};
    c->put = blob_put_open(c->lane->load->archive->order.blob, &order);
}

static void on_copied(struct carry *c)
{
    uint8_t hash[SHA256_BYTES];
    sha256_end(c->hash, hash);
    if (memcmp(hash, c->item->sha256, SHA256_BYTES) != 0)
        end_changed(c);
    else
        blob_put_end(c->put);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void on_entry(void *ctx, const struct errand_entry *e)
{
    struct carry *c = ctx;
    if (e->kind != ERRAND_FILE)
        return; /* an error follows */
    if (e->size != c->item->size || e->mtime_ns != c->item->mtime_ns) {
        end_changed(c);
        return;
    }
    if (c->is_second)
        begin_put(c);
    errand_go(c->errand, 0, e->size);
}

static void on_bytes(void *ctx, const void *data, size_t len)
{
    struct carry *c = ctx;
    sha256_add(c->hash, data, len);
    if (c->put && !blob_put_write(c->put, data, len))
        errand_pause(c->errand);
}

static void on_ended(void *ctx, const struct errand_end *how)
{
    struct carry *c = ctx;
    c->errand = NULL;
    if (how->error.msg[0])
        end(c, &how->error, how->error.code == ERROR_LIMIT);
    else if (c->is_second)
        on_copied(c);
    else
        on_hashed(c);
}

static const struct errand_events events = {
    .entry = on_entry, .bytes = on_bytes, .ended = on_ended};

static void read_file(struct carry *c)
{
    const struct load *l = c->lane->load;
    const struct archive *a = l->archive;
    const struct errand_order order = {
        .op = FILES_READ, .path = c->item->path, .events = &events, .ctx = c};
    struct error err;
    struct session *session =
        a->source->find(a->source_ctx, l->id, l->session[0] ? l->session : NULL);
    if (!session)
        error_set(&err, ERROR_NOT_FOUND, "its session has ended");
    if (!session || errand_open(&c->errand, session, &order, &err) < 0)
        end(c, &err, session && err.code == ERROR_LIMIT);
}

void carry_begin(struct lane *lane, struct haul_item *item)
{
    struct carry *c = xcalloc(1, sizeof(*c));
    c->lane = lane;
    c->item = item;
    c->hash = sha256_new();
    lane->carry = c;
    read_file(c);
}
