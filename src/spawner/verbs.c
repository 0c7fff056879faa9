/* verbs.c - what the client may ask for: a table, and a function each
 *
 * No text of the client's is parsed: a message has one size, and every byte that a verb does not
 * use is zero. Anything else ends the connection. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/scoped.h"
#include "box/probe.h"
#include "spawner/cull.h"
#include "spawner/spawner.h"

#define APARTS_MAX      16
#define LAYER_SEALS_MAX 4

static const struct spawn_failure no_zygote = {
    .code = ERROR_NOT_FOUND, .layer = -1, .step = "no such zygote"};

static void answer_no_sandbox(struct spawner *s, const struct spawn_message *m)
{
    const struct spawn_failure failure = {
        .code = ERROR_NOT_FOUND, .layer = -1, .step = "no such sandbox"};
    answer_failure(s, m->serial, (enum spawn_verb)m->verb, &failure);
}

/* All of them or none: whoever lacks one has to ask for the rest as well. */
static size_t offer_meters(const struct spawner *s, struct spawn_hello_reply *reply, int *fds)
{
    const struct meter m = cgroup_tree_meter(&s->host.cgroups);
    for (size_t i = 0; i < SPAWN_METER_COUNT; i++) {
        if (m.dirs[i] < 0)
            return 0;
        fds[i] = m.dirs[i];
    }
    memcpy(reply->meters, m.versions, sizeof(reply->meters));
    return SPAWN_METER_COUNT;
}

static void op_hello(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    (void)sb;
    if (s->is_broken || m->hello.version != SPAWN_VERSION) {
        /* The one layer that a spawner needs for itself, before it can try any other. */
        bool is_layer = s->is_broken && s->start_error.code == ERROR_ISOLATION;
        struct spawn_failure failure = {.code = s->start_error.code,
                                        .sys_errno = s->start_error.sys_errno,
                                        .layer = is_layer ? LAYER_USER_NS : -1};
        snprintf(failure.step, sizeof(failure.step), "%.95s",
                 s->is_broken ? s->start_error.msg : "protocol version");
        answer_failure(s, m->serial, SPAWN_HELLO, &failure);
        answer_lose_client(s, false);
        return;
    }
    struct spawn_message reply = answer_reply_to(m->serial, SPAWN_HELLO, 0);
    reply.hello_reply = (struct spawn_hello_reply){
        .version = SPAWN_VERSION,
        .is_rootless = s->host.power.is_rootless,
        .uid_first = s->host.power.uid_first,
        .uid_count = s->host.power.uid_count,
    };
    int fds[SPAWN_METER_COUNT];
    size_t count = offer_meters(s, &reply.hello_reply, fds);
    s->phase = PHASE_READY;
    serve_on_hello(&s->serve);
    answer_send(s, &reply, fds, count);
}

static struct zygote *find_zygote(struct spawner *s, uint64_t id)
{
    for (struct zygote *z = s->zygotes; z; z = z->next) {
        if (z->id == id && z->state != ZYGOTE_ENDING)
            return z;
    }
    return NULL;
}

void verbs_end_spare(struct spawner *s, struct sandbox *spare)
{
    if (!spare)
        return;
    sandbox_end(spare);
    roster_add(&s->roster, spare);
}

static int create_sandbox(struct spawner *s, const struct spawn_create *r, struct sandbox **out,
                          struct spawn_failure *failure)
{
    struct zygote *z = r->zygote ? find_zygote(s, r->zygote) : NULL;
    if (!r->zygote)
        return sandbox_create(out, &s->host, r, failure);
    if (!z) {
        *failure = no_zygote;
        return -1;
    }
    struct sandbox *unfit;
    int status = zygote_create(out, z, &s->host, r, &unfit, failure);
    verbs_end_spare(s, unfit);
    return status;
}

static void op_create(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    struct spawn_failure failure;
    if (create_sandbox(s, &m->create, &sb, &failure) < 0) {
        answer_failure(s, m->serial, SPAWN_CREATE, &failure);
        return;
    }
    roster_add(&s->roster, sb);
    struct spawn_message reply = answer_reply_to(m->serial, SPAWN_CREATE, sb->id);
    const int fds[2] = {sb->control_fd, sb->channel_fd};
    answer_send(s, &reply, fds, sb->channel_fd < 0 ? 1 : 2);
    scoped_close_fd(&sb->channel_fd); /* its end is the client's alone */
    sb->channel_fd = -1;
}

static void add_zygote(struct spawner *s, struct zygote *z)
{
    z->next = s->zygotes;
    s->zygotes = z;
    s->zygote_count++;
}

static void op_zygote(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    (void)sb;
    struct zygote *z;
    struct spawn_failure failure = {.code = ERROR_INVALID, .layer = -1, .step = "zygote"};
    if (m->create.zygote || zygote_start(&z, &s->host, &m->create, s->bag.fds, &failure) < 0) {
        answer_failure(s, m->serial, SPAWN_ZYGOTE, &failure);
        return;
    }
    s->bag.count = 0; /* they are the zygote's now */
    add_zygote(s, z);
    struct spawn_message reply = answer_reply_to(m->serial, SPAWN_ZYGOTE, z->id);
    answer_send(s, &reply, NULL, 0);
}

static void op_brood(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    (void)sb;
    struct zygote *z, *from = find_zygote(s, m->brood.zygote);
    struct spawn_failure failure = no_zygote;
    if (from) /* a zygote sleeps as long as its spare waits */
        verbs_end_spare(s, zygote_take_spare(from));
    if (!from || zygote_start_brood(&z, from, &s->host, &failure) < 0) {
        answer_failure(s, m->serial, SPAWN_BROOD, &failure);
        return;
    }
    add_zygote(s, z);
    struct spawn_message reply = answer_reply_to(m->serial, SPAWN_BROOD, z->id);
    answer_send(s, &reply, NULL, 0);
}

/* One that ends lets go whom it has frozen, and another would look at who moves. */
static bool is_looked_at(const struct spawner *s, uint64_t brood)
{
    const struct apart *a = s->aparts;
    while (a && a->brood != brood)
        a = a->next;
    return a;
}

static void op_apart(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    struct apart *a;
    struct spawn_failure failure = {
        .code = ERROR_LIMIT, .layer = -1, .step = "too many looks at a time"};
    if (s->apart_count == APARTS_MAX || is_looked_at(s, sb->brood) ||
        apart_start(&a, sb, &s->roster, &failure) < 0) {
        answer_failure(s, m->serial, SPAWN_APART, &failure);
        return;
    }
    a->serial = m->serial;
    a->next = s->aparts;
    s->aparts = a;
    s->apart_count++;
}

static void op_seal_layer(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    struct layer_seal *seal;
    struct spawn_failure failure = {
        .code = ERROR_LIMIT, .layer = -1, .step = "too many package layers at a time"};
    if (s->layer_seal_count == LAYER_SEALS_MAX ||
        layer_seal_start(&seal, &s->host.layers, sb, m->layer.digest, s->bag.fds[0], &failure) <
            0) {
        answer_failure(s, m->serial, SPAWN_SEAL_LAYER, &failure);
        return;
    }
    seal->serial = m->serial;
    seal->next = s->layer_seals;
    s->layer_seals = seal;
    s->layer_seal_count++;
}

static void op_find_layer(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    (void)sb;
    struct error err;
    struct package_layer *layer;
    if (layer_store_take(&s->host.layers, m->layer.digest, &layer, &err) < 0) {
        struct spawn_failure failure = {.code = err.code,
                                        .sys_errno = err.sys_errno,
                                        .layer = -1,
                                        .step = "find package layer"};
        answer_failure(s, m->serial, SPAWN_FIND_LAYER, &failure);
        return;
    }
    struct spawn_message reply = answer_reply_to(m->serial, SPAWN_FIND_LAYER, 0);
    memcpy(reply.layer_found.digest, m->layer.digest, sizeof(reply.layer_found.digest));
    reply.layer_found.is_unwanted = layer_store_is_unwanted(layer);
    layer_store_give(&s->host.layers, layer);
    answer_send(s, &reply, NULL, 0);
}

static void op_stats(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    struct spawn_message reply = answer_reply_to(m->serial, SPAWN_STATS, sb->id);
    sandbox_read_stats(sb, &reply.stats);
    answer_send(s, &reply, NULL, 0);
}

static void op_kill(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    struct spawn_message reply = answer_reply_to(m->serial, SPAWN_KILL, sb->id);
    sandbox_kill(sb);
    answer_send(s, &reply, NULL, 0);
}

static void set_frozen(struct spawner *s, const struct spawn_message *m, struct sandbox *sb,
                       bool is_frozen)
{
    struct spawn_failure failure;
    struct spawn_message reply = answer_reply_to(m->serial, (enum spawn_verb)m->verb, sb->id);
    if (sandbox_freeze(sb, is_frozen, &failure) < 0)
        answer_failure(s, m->serial, (enum spawn_verb)m->verb, &failure);
    else
        answer_send(s, &reply, NULL, 0);
}

static void op_freeze(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    set_frozen(s, m, sb, true);
}

static void op_thaw(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    set_frozen(s, m, sb, false);
}

static void op_cull(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    struct spawn_failure failure;
    struct spawn_message reply = answer_reply_to(m->serial, SPAWN_CULL, sb->id);
    if (cull_sandbox(sb, &m->cull, &failure) < 0)
        answer_failure(s, m->serial, SPAWN_CULL, &failure);
    else
        answer_send(s, &reply, NULL, 0);
}

static void op_destroy(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    sandbox_end(sb); /* its last counters are read when it is reaped */
    sb->destroy_serial = m->serial;
    roster_update(&s->roster, sb);
}

static const struct spawn_failure not_kept = {
    .code = ERROR_UNAVAILABLE, .layer = -1, .step = "nothing is kept for this client"};

static void op_keep(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    struct spawn_failure failure = not_kept;
    struct spawn_message reply = answer_reply_to(m->serial, SPAWN_KEEP, sb->id);
    if (!s->serve.is_on ||
        keep_set(&sb->keep, &s->host.discard, &m->keep, s->bag.fds, &failure) < 0) {
        answer_failure(s, m->serial, SPAWN_KEEP, &failure);
        return;
    }
    s->bag.count = 0; /* they are the sandbox's now */
    answer_send(s, &reply, NULL, 0);
}

/* Answers how many of `fds` were filled. */
static size_t describe(const struct sandbox *sb, struct spawn_entry *entry, int *fds)
{
    static const enum spawn_entry_state states[] = {[SANDBOX_SEALING] = SPAWN_IS_SEALING,
                                                    [SANDBOX_LIVE] = SPAWN_IS_LIVE,
                                                    [SANDBOX_OVER] = SPAWN_IS_OVER};
    int64_t left_ns = MAX(sb->deadline_ns - clock_now_ns(), 0);
    entry->state = states[sb->state];
    entry->left_ms = (uint32_t)(left_ns / 1000000);
    entry->stats = sb->last;
    entry->sealed = sandbox_sealed(sb);
    return keep_get(&sb->keep, entry, fds);
}

static void op_list(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    (void)sb;
    int fds[SPAWN_TAKE_FDS];
    struct spawn_message reply = answer_reply_to(m->serial, SPAWN_LIST, 0);
    const struct zygote *zygote = NULL;
    if (!s->serve.is_on) {
        answer_failure(s, m->serial, SPAWN_LIST, &not_kept);
        return;
    }
    const struct sandbox *found = roster_next(&s->roster, m->list.after);
    uint64_t best = found ? found->id : UINT64_MAX;
    for (const struct zygote *z = s->zygotes; z; z = z->next) {
        if (z->id > m->list.after && z->id < best && z->state != ZYGOTE_ENDING) {
            zygote = z;
            best = z->id;
        }
    }
    if (zygote)
        reply.entry.state = SPAWN_IS_ZYGOTE;
    else if (found)
        describe(found, &reply.entry, fds);
    reply.sandbox = zygote || found ? best : 0;
    answer_send(s, &reply, NULL, 0);
}

static void op_take(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    int fds[SPAWN_TAKE_FDS] = {sb->control_fd};
    struct spawn_message reply = answer_reply_to(m->serial, SPAWN_TAKE, sb->id);
    if (!s->serve.is_on) {
        answer_failure(s, m->serial, SPAWN_TAKE, &not_kept);
        return;
    }
    size_t count = describe(sb, &reply.entry, fds + 1);
    answer_send(s, &reply, fds, 1 + count);
}

static void op_probe(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    (void)sb;
    struct spawn_message reply = answer_reply_to(m->serial, SPAWN_PROBE, 0);
    struct error err;
    unsigned slot;
    if (slot_acquire(&s->host.slots, &slot, &err) < 0) {
        const struct spawn_failure failure = {
            .code = err.code, .layer = -1, .step = "no free slot"};
        answer_failure(s, m->serial, SPAWN_PROBE, &failure);
        return;
    }
    probe_layers(&reply.probe, &s->host.cgroups, &s->host.power, slot);
    slot_release(&s->host.slots, slot);
    answer_send(s, &reply, NULL, 0);
}

static void op_ping(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    (void)sb;
    struct spawn_message reply = answer_reply_to(m->serial, SPAWN_PING, 0);
    answer_send(s, &reply, NULL, 0);
}

static void op_pulse(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    struct spawn_message reply = answer_reply_to(m->serial, SPAWN_PULSE, 0);
    (void)sb;
    serve_on_pulse(&s->serve);
    answer_send(s, &reply, NULL, 0);
}

static void op_proxy(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    struct spawn_failure failure;
    struct spawn_message reply = answer_reply_to(m->serial, SPAWN_PROXY, 0);
    scoped_fd int link = -1;
    (void)sb;
    if (proxy_start(&s->proxy, &s->starter, &link, &failure) < 0)
        answer_failure(s, m->serial, SPAWN_PROXY, &failure);
    else
        answer_send(s, &reply, &link, 1);
}

static void op_egress(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    struct spawn_failure failure;
    struct spawn_message reply = answer_reply_to(m->serial, SPAWN_EGRESS, sb->id);
    scoped_fd int door = -1;
    if (sandbox_open_door(sb, &door, &failure) < 0)
        answer_failure(s, m->serial, SPAWN_EGRESS, &failure);
    else
        answer_send(s, &reply, &door, 1);
}

struct spawn_op {
    unsigned phases;  /* in which the client may ask this */
    size_t body_size; /* behind it, every byte must be zero */
    bool names_sandbox;
    size_t fd_count; /* that it brings, exactly; a keep says it itself */
    void (*run)(struct spawner *s, const struct spawn_message *m, struct sandbox *sb);
};

/* Without the padding at its end, which must be zero too. */
#define CREATE_BODY_BYTES (offsetof(struct spawn_create, packages) + SPAWN_DIGEST_BYTES)

static const struct spawn_op ops[SPAWN_VERB_COUNT] = {
    [SPAWN_HELLO] = {PHASE_NEW, sizeof(struct spawn_hello), false, 0, op_hello},
    [SPAWN_CREATE] = {PHASE_READY, CREATE_BODY_BYTES, false, 0, op_create},
    [SPAWN_STATS] = {PHASE_READY, 0, true, 0, op_stats},
    [SPAWN_KILL] = {PHASE_READY, 0, true, 0, op_kill},
    [SPAWN_DESTROY] = {PHASE_READY, 0, true, 0, op_destroy},
    [SPAWN_PROBE] = {PHASE_READY, 0, false, 0, op_probe},
    [SPAWN_PING] = {PHASE_READY, 0, false, 0, op_ping},
    [SPAWN_ZYGOTE] = {PHASE_READY, CREATE_BODY_BYTES, false, SPAWN_ZYGOTE_FDS, op_zygote},
    [SPAWN_FREEZE] = {PHASE_READY, 0, true, 0, op_freeze},
    [SPAWN_THAW] = {PHASE_READY, 0, true, 0, op_thaw},
    [SPAWN_CULL] = {PHASE_READY, sizeof(struct spawn_cull), true, 0, op_cull},
    [SPAWN_KEEP] = {PHASE_READY, sizeof(struct spawn_keep), true, 0, op_keep},
    [SPAWN_LIST] = {PHASE_READY, sizeof(struct spawn_list), false, 0, op_list},
    [SPAWN_TAKE] = {PHASE_READY, 0, true, 0, op_take},
    [SPAWN_BROOD] = {PHASE_READY, sizeof(struct spawn_brood), false, 0, op_brood},
    [SPAWN_APART] = {PHASE_READY, 0, true, 0, op_apart},
    [SPAWN_PROXY] = {PHASE_READY, 0, false, 0, op_proxy},
    [SPAWN_EGRESS] = {PHASE_READY, 0, true, 0, op_egress},
    [SPAWN_SEAL_LAYER] = {PHASE_READY, sizeof(struct spawn_layer), true, SPAWN_LAYER_FDS,
                          op_seal_layer},
    [SPAWN_PULSE] = {PHASE_READY, 0, false, 0, op_pulse},
    [SPAWN_FIND_LAYER] = {PHASE_READY, sizeof(struct spawn_layer), false, 0, op_find_layer},
};

static bool is_zero(const uint8_t *bytes, size_t len)
{
    uint8_t any = 0;
    for (size_t i = 0; i < len; i++)
        any |= bytes[i];
    return any == 0;
}

static bool is_well_formed(const struct spawner *s, const struct spawn_message *m)
{
    if (m->verb >= SPAWN_VERB_COUNT || m->flags || m->reserved || m->serial == 0)
        return false;
    const struct spawn_op *op = &ops[m->verb];
    size_t fd_count = m->verb == SPAWN_KEEP ? m->keep.count : op->fd_count;
    return op->run && op->phases & s->phase && op->names_sandbox == (m->sandbox != 0) &&
           fd_count == s->bag.count && (m->verb != SPAWN_CREATE || !m->create.reserved) &&
           is_zero(m->bytes + op->body_size, SPAWN_BODY_BYTES - op->body_size);
}

/* The zygote of a destroy, which names it like a sandbox. */
static bool destroy_zygote(struct spawner *s, const struct spawn_message *m)
{
    struct zygote *z = m->verb == SPAWN_DESTROY ? find_zygote(s, m->sandbox) : NULL;
    if (!z)
        return false;
    zygote_end(z);
    z->destroy_serial = m->serial;
    return true;
}

static void serve_message(struct spawner *s, const struct spawn_message *m)
{
    struct sandbox *sb = m->sandbox ? roster_find(&s->roster, m->sandbox) : NULL;
    if (!m->sandbox || sb)
        ops[m->verb].run(s, m, sb);
    else if (!destroy_zygote(s, m))
        answer_no_sandbox(s, m);
}

void verbs_on_client(struct spawner *s)
{
    static const struct spawn_failure too_many = {
        .code = ERROR_LIMIT, .sys_errno = EMFILE, .layer = -1, .step = "receive fds"};
    struct spawn_message m = {0};
    ssize_t n = fd_recv_bag(s->client_fd, &m, sizeof(m), &s->bag);
    if (n < 0 && errno == ECONNRESET) /* told before the last messages of one that has ended */
        n = fd_recv_bag(s->client_fd, &m, sizeof(m), &s->bag);
    bool is_end = n == 0 || (n < 0 && errno == ECONNRESET);
    if (n < 0 && errno == EMFILE) /* that is not the client's fault */
        answer_failure(s, m.serial, (enum spawn_verb)m.verb, &too_many);
    else if (n == sizeof(m) && is_well_formed(s, &m))
        serve_message(s, &m);
    else
        answer_lose_client(s, !is_end);
    discard_bag(&s->host.discard, &s->bag);
}
