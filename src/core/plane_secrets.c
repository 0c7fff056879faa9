/* plane_secrets.c - what a sandbox with secrets is given beside their placeholders, and what is
 * kept of them for the next host */
/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "core/errand.h"
#include "core/plane_inside.h"
#include "runtime/keeper.h"

#define PIECE_BYTES (64 * KIB)
#define TRUST_MODE  0444

/* One that had secrets before, or is a fork, knows it. */
void plane_learn_authority(struct vault *vault, const struct session *session)
{
    const struct passage *passage = session_passage(session);
    const struct vault *theirs = passage ? passage_vault(passage) : NULL;
    if (vault && theirs && !vault_authority(vault))
        BUG_ON(!vault_set_authority(vault, vault_authority(theirs)));
}

/* --- the file of a session ----------------------------------------------------------------------
 */

static void on_trust_entry(void *ctx, const struct errand_entry *entry)
{
    (void)ctx, (void)entry;
}

static void on_trust_ended(void *ctx, const struct errand_end *end)
{
    struct live *l = ctx;
    void (*fn)(struct live * l, const struct error *err) = take_ptr(&l->trusting);
    if (fn)
        fn(l, end->error.msg[0] ? &end->error : NULL);
}

static void on_trust_drained(void *ctx)
{
    (void)ctx; /* all of it waits already */
}

static const struct errand_events trust_events = {
    .entry = on_trust_entry, .drained = on_trust_drained, .ended = on_trust_ended};

static int send_trust(struct live *l, struct error *err)
{
    struct errand *errand;
    scoped_fd int fd = -1;
    uint64_t size;
    char piece[PIECE_BYTES];
    ssize_t n;
    const struct errand_order order = {.op = FILES_WRITE,
                                       .flags = FILES_PARENTS | FILES_REPLACE,
                                       .path = VAULT_TRUST_PATH,
                                       .mode = TRUST_MODE,
                                       .events = &trust_events,
                                       .ctx = l};
    if (vault_trust_file(l->vault, &fd, &size, err) < 0 ||
        errand_open(&errand, l->session, &order, err) < 0)
        return -1;
    while ((n = read(fd, piece, sizeof(piece))) > 0)
        errand_write(errand, piece, (size_t)n);
    errand_commit(errand);
    return 0;
}

void live_put_trust(struct live *l, void (*fn)(struct live *l, const struct error *err))
{
    struct error err;
    l->trusting = fn;
    plane_learn_authority(l->vault, l->session);
    if (send_trust(l, &err) == 0)
        return;
    l->trusting = NULL;
    fn(l, &err);
}

/* --- the file of one execution ------------------------------------------------------------------
 */

int job_add_trust(struct job *j, struct error *err)
{
    uint64_t size;
    scoped_fd int fd = -1;
    if (!j->vault)
        return 0;
    plane_learn_authority(j->vault, j->session);
    if (vault_trust_file(j->vault, &fd, &size, err) < 0)
        return -1;
    j->inputs = xrealloc(j->inputs, (j->input_count + 1) * sizeof(*j->inputs));
    j->inputs[j->input_count++] = (struct execution_input){
        .path = xstrdup(VAULT_TRUST_PATH),
        .fd = take_fd(&fd),
        .size = size,
        .mode = TRUST_MODE,
        .mtime_ns = clock_wall_ns(),
    };
    return 0;
}

/* --- for the next host --------------------------------------------------------------------------
 */

/* What cannot be kept is lost with this process, and the session then has placeholders only. */
void live_keep_vault(struct live *l)
{
    struct error err;
    struct session_record record;
    scoped_fd int fd = -1;
    if (!l->vault)
        return;
    session_get_record(l->session, &record);
    if (vault_save(l->vault, &fd, &err) == 0)
        keeper_put(l->plane->order.spawner, record.sandbox, record.label, KEEPER_SECRETS, &fd, 1);
    else
        log_warn(l->plane->order.log, "secrets cannot be kept for the next server",
                 LOG_STR("session", l->id), LOG_STR("error", err.msg));
}
