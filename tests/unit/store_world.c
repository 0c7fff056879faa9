/* store_world.c - see store_world.h */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store_world.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

int world_try_open(struct world *w, const struct store_order *order)
{
    struct store_order own = order ? *order : (struct store_order){0};
    own.place = w->path;
    return store_open(&w->store, w->loop, &sqlite_ops, &own, &w->err);
}

static void world_must_open(struct world *w)
{
    if (world_try_open(w, NULL) < 0)
        fail_msg("%s", w->err.msg);
}

void world_open(struct world *w)
{
    struct error err;
    setenv("TMPDIR", "/dev/shm", 0); /* half of the time would be the disk's */
    *w = (struct world){.dir = check_temp_dir()};
    w->path = xasprintf("%s/cove.db", w->dir);
    assert_int_equal(loop_open(&w->loop, &err), 0);
    world_must_open(w);
}

static void forget_rows(struct world *w)
{
    for (size_t i = 0; i < w->count; i++)
        store_record_free(w->type, w->rows[i]);
    w->count = 0;
}

void world_begin(struct world *w, const struct store_type *type)
{
    forget_rows(w);
    w->waiting++;
    w->type = type;
}

void world_close(struct world *w)
{
    forget_rows(w);
    store_free(w->store);
    loop_free(w->loop);
    free(w->path);
    check_remove_dir(w->dir);
}

void world_reopen(struct world *w)
{
    store_free(take_ptr(&w->store));
    world_must_open(w);
}

void world_on_answer(void *ctx, const struct store_answer *answer)
{
    struct world *w = ctx;
    size_t bytes;
    w->has_failed = answer->err != NULL;
    if (answer->err)
        w->err = *answer->err;
    snprintf(w->next, sizeof(w->next), "%s", answer->next_cursor ? answer->next_cursor : "");
    for (size_t i = 0; i < answer->count && w->type; i++) {
        struct error err;
        const char *record = (const char *)answer->records + i * w->type->size;
        assert_int_equal(store_record_copy(&w->rows[i], &bytes, w->type, record, &err), 0);
        w->count++;
    }
    if (--w->waiting == 0)
        loop_stop(w->loop);
}

void world_wait(struct world *w)
{
    while (w->waiting > 0)
        loop_run(w->loop);
}

const void *world_row(const struct world *w, size_t i)
{
    assert_true(i < w->count);
    return w->rows[i];
}

struct store_session a_session(const char *id)
{
    return (struct store_session){.id = id,
                                  .owner = "key_a",
                                  .state = STORE_SESSION_READY,
                                  .language = "python",
                                  .node = "here",
                                  .epoch = 1,
                                  .takes = {1, 500, 256 * MIB, 128 * MIB},
                                  .created_ns = 1000,
                                  .last_used_ns = 1000,
                                  .doc = "{}"};
}

struct store_execution an_execution(const char *id, const char *session_id)
{
    return (struct store_execution){.id = id,
                                    .session_id = session_id,
                                    .owner = "key_a",
                                    .state = STORE_EXECUTION_QUEUED,
                                    .language = "python",
                                    .node = "here",
                                    .epoch = 1,
                                    .created_ns = 1000,
                                    .request = "{\"code\":\"1\"}"};
}

struct store_key a_key(const char *id)
{
    static const uint8_t hash[STORE_HASH_BYTES] = {1, 2, 3};
    return (struct store_key){.id = id,
                              .name = "a name",
                              .hash = {hash, sizeof(hash)},
                              .scopes = "execute",
                              .created_ns = 1000};
}

struct store_attempt an_attempt(const char *resource, uint64_t epoch)
{
    static const uint8_t hash[STORE_HASH_BYTES] = {4, 5};
    return (struct store_attempt){.owner = "key_a",
                                  .route = "POST /sessions",
                                  .key = "k-1",
                                  .hash = {hash, sizeof(hash)},
                                  .resource = resource,
                                  .node = "here",
                                  .epoch = epoch,
                                  .created_ns = 1000,
                                  .expires_ns = 2000};
}

void add_session(struct world *w, const struct store_session *s)
{
    ask(w, store_add_session, s);
    assert_done(w);
}

void end_session(struct world *w, const char *id, int64_t at)
{
    ask(w, store_change_session,
        &(struct store_session_change){.id = id, .to = STORE_SESSION_TERMINATED, .ended_ns = at});
    assert_done(w);
}

void add_template(struct world *w, const char *id, const char *name)
{
    ask(w, store_add_template,
        &(struct store_template){.id = id, .name = name, .doc = "{}", .created_ns = 1});
    assert_done(w);
}
