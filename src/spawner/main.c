/* main.c - cove-spawner: the only privileged program
 *
 * It has one client, on an inherited socket, and takes the verbs of the table below. It parses no
 * text from that client and follows no path of a sandbox's. Anything unexpected ends the
 * connection, and with it every sandbox; unless it has started the client itself (serve.h): then
 * sandboxes wait for the next one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/scoped.h"
#include "box/memwatch.h"
#include "box/probe.h"
#include "box/relro.h"
#include "spawner/apart.h"
#include "spawner/cull.h"
#include "spawner/roster.h"
#include "spawner/serve.h"
#include "spawner/zygote.h"
#include "wire/guest.h"

#define REMOVE_RETRY_MS 2
#define MEMWATCH_MS     10
#define APARTS_MAX      16
#define EXIT_MISUSE     64
#define EXIT_ALONE      69 /* no client came within the grace time, or it would be of no use */
#define LAST_WORDS_MAX  4096

enum phase { PHASE_NEW = 1 << 0, PHASE_READY = 1 << 1 };

struct spawner {
    struct host host;
    struct error start_error; /* told as the answer to hello */
    bool is_broken;
    unsigned phase;
    bool is_stopping;
    bool has_stopped; /* everything was told to end, once at least */
    bool has_swept;
    int client_fd; /* -1: there is none now */
    struct serve serve;
    bool is_alone; /* there is no client to be had */
    struct roster roster;
    struct zygote *zygotes;
    size_t zygote_count;
    struct apart *aparts; /* helpers under way */
    size_t apart_count;
    struct pollfd *polls; /* grows with the number of busy sandboxes */
    size_t poll_cap;
    int fds[FD_PASS_MAX]; /* that came with the message being served; closed behind it */
    size_t fd_count;
};

/* --- answering ------------------------------------------------------------------------------- */

/* Without another to come, its sandboxes end with it. The next one has serials of its own. */
static void lose_client(struct spawner *s, bool must_die)
{
    if (!s->serve.is_on) {
        s->is_stopping = true;
        return;
    }
    serve_on_lost(&s->serve, must_die);
    scoped_close_fd(&s->client_fd);
    s->client_fd = -1;
    s->phase = PHASE_NEW;
    for (struct sandbox *sb = s->roster.busy; sb; sb = sb->next)
        sb->destroy_serial = 0;
    for (struct sandbox *sb = s->roster.resting; sb; sb = sb->next)
        sb->destroy_serial = 0;
    for (struct zygote *z = s->zygotes; z; z = z->next)
        z->destroy_serial = 0;
    for (struct apart *a = s->aparts; a; a = a->next)
        a->serial = 0;
}

static void answer(struct spawner *s, struct spawn_message *m, const int *fds, size_t fd_count)
{
    if (s->client_fd < 0 || fd_send(s->client_fd, m, sizeof(*m), fds, fd_count) == 0)
        return;
    /* One that will have a successor may be gone, but what it asked for last is still to be done;
     * behind that its end is read. Only one that does not read any more is lost here. */
    if (!s->serve.is_on || errno == EAGAIN)
        lose_client(s, true);
}

static struct spawn_message reply_to(uint32_t serial, enum spawn_verb verb, uint64_t sandbox)
{
    return (struct spawn_message){
        .serial = serial, .verb = verb, .flags = SPAWN_REPLY, .sandbox = sandbox};
}

static void answer_failure(struct spawner *s, uint32_t serial, enum spawn_verb verb,
                           const struct spawn_failure *failure)
{
    struct spawn_message m = reply_to(serial, verb, 0);
    m.flags |= SPAWN_FAILED;
    m.failure = *failure;
    answer(s, &m, NULL, 0);
}

static const struct spawn_failure no_zygote = {
    .code = ERROR_NOT_FOUND, .layer = -1, .step = "no such zygote"};

static void answer_no_sandbox(struct spawner *s, const struct spawn_message *m)
{
    const struct spawn_failure failure = {
        .code = ERROR_NOT_FOUND, .layer = -1, .step = "no such sandbox"};
    answer_failure(s, m->serial, (enum spawn_verb)m->verb, &failure);
}

/* --- the verbs ------------------------------------------------------------------------------- */

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
        lose_client(s, false);
        return;
    }
    struct spawn_message reply = reply_to(m->serial, SPAWN_HELLO, 0);
    reply.hello_reply = (struct spawn_hello_reply){
        .version = SPAWN_VERSION,
        .is_rootless = s->host.power.is_rootless,
        .uid_first = s->host.power.uid_first,
        .uid_count = s->host.power.uid_count,
    };
    s->phase = PHASE_READY;
    serve_on_hello(&s->serve);
    answer(s, &reply, NULL, 0);
}

static struct zygote *find_zygote(struct spawner *s, uint64_t id)
{
    for (struct zygote *z = s->zygotes; z; z = z->next) {
        if (z->id == id && z->state != ZYGOTE_ENDING)
            return z;
    }
    return NULL;
}

static void end_spare(struct spawner *s, struct sandbox *spare)
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
    end_spare(s, unfit);
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
    struct spawn_message reply = reply_to(m->serial, SPAWN_CREATE, sb->id);
    const int fds[2] = {sb->control_fd, sb->channel_fd};
    answer(s, &reply, fds, sb->channel_fd < 0 ? 1 : 2);
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
    if (m->create.zygote || zygote_start(&z, &s->host, &m->create, s->fds, &failure) < 0) {
        answer_failure(s, m->serial, SPAWN_ZYGOTE, &failure);
        return;
    }
    s->fd_count = 0; /* they are the zygote's now */
    add_zygote(s, z);
    struct spawn_message reply = reply_to(m->serial, SPAWN_ZYGOTE, z->id);
    answer(s, &reply, NULL, 0);
}

static void op_brood(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    (void)sb;
    struct zygote *z, *from = find_zygote(s, m->brood.zygote);
    struct spawn_failure failure = no_zygote;
    if (!from || zygote_start_brood(&z, from, &s->host, &failure) < 0) {
        answer_failure(s, m->serial, SPAWN_BROOD, &failure);
        return;
    }
    add_zygote(s, z);
    struct spawn_message reply = reply_to(m->serial, SPAWN_BROOD, z->id);
    answer(s, &reply, NULL, 0);
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

static void op_stats(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    struct spawn_message reply = reply_to(m->serial, SPAWN_STATS, sb->id);
    sandbox_read_stats(sb, &reply.stats);
    answer(s, &reply, NULL, 0);
}

static void op_kill(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    struct spawn_message reply = reply_to(m->serial, SPAWN_KILL, sb->id);
    sandbox_kill(sb);
    answer(s, &reply, NULL, 0);
}

static void set_frozen(struct spawner *s, const struct spawn_message *m, struct sandbox *sb,
                       bool is_frozen)
{
    struct spawn_failure failure;
    struct spawn_message reply = reply_to(m->serial, (enum spawn_verb)m->verb, sb->id);
    if (sandbox_freeze(sb, is_frozen, &failure) < 0)
        answer_failure(s, m->serial, (enum spawn_verb)m->verb, &failure);
    else
        answer(s, &reply, NULL, 0);
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
    struct spawn_message reply = reply_to(m->serial, SPAWN_CULL, sb->id);
    if (cull_sandbox(sb, &m->cull, &failure) < 0)
        answer_failure(s, m->serial, SPAWN_CULL, &failure);
    else
        answer(s, &reply, NULL, 0);
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
    struct spawn_message reply = reply_to(m->serial, SPAWN_KEEP, sb->id);
    if (!s->serve.is_on || keep_set(&sb->keep, &m->keep, s->fds, &failure) < 0) {
        answer_failure(s, m->serial, SPAWN_KEEP, &failure);
        return;
    }
    s->fd_count = 0; /* they are the sandbox's now */
    answer(s, &reply, NULL, 0);
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
    struct spawn_message reply = reply_to(m->serial, SPAWN_LIST, 0);
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
    answer(s, &reply, NULL, 0);
}

static void op_take(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    int fds[SPAWN_TAKE_FDS] = {sb->control_fd};
    struct spawn_message reply = reply_to(m->serial, SPAWN_TAKE, sb->id);
    if (!s->serve.is_on) {
        answer_failure(s, m->serial, SPAWN_TAKE, &not_kept);
        return;
    }
    size_t count = describe(sb, &reply.entry, fds + 1);
    answer(s, &reply, fds, 1 + count);
}

static void op_probe(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    (void)sb;
    struct spawn_message reply = reply_to(m->serial, SPAWN_PROBE, 0);
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
    answer(s, &reply, NULL, 0);
}

static void op_ping(struct spawner *s, const struct spawn_message *m, struct sandbox *sb)
{
    (void)sb;
    struct spawn_message reply = reply_to(m->serial, SPAWN_PING, 0);
    answer(s, &reply, NULL, 0);
}

struct spawn_op {
    unsigned phases;  /* in which the client may ask this */
    size_t body_size; /* behind it, every byte must be zero */
    bool names_sandbox;
    size_t fd_count; /* that it brings, exactly; a keep says it itself */
    void (*run)(struct spawner *s, const struct spawn_message *m, struct sandbox *sb);
};

/* Without the padding at its end, which must be zero too. */
#define CREATE_BODY_BYTES (offsetof(struct spawn_create, zygote) + sizeof(uint64_t))

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
           fd_count == s->fd_count && (m->verb != SPAWN_CREATE || !m->create.reserved) &&
           is_zero(m->bytes + op->body_size, SPAWN_BODY_BYTES - op->body_size);
}

static void close_fds(struct spawner *s)
{
    while (s->fd_count > 0)
        close(s->fds[--s->fd_count]);
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

static void on_client(struct spawner *s)
{
    static const struct spawn_failure too_many = {
        .code = ERROR_LIMIT, .sys_errno = EMFILE, .layer = -1, .step = "receive fds"};
    struct spawn_message m = {0};
    ssize_t n = fd_recv(s->client_fd, &m, sizeof(m), s->fds, &s->fd_count);
    if (n < 0 && errno == ECONNRESET) /* told before the last messages of one that has ended */
        n = fd_recv(s->client_fd, &m, sizeof(m), s->fds, &s->fd_count);
    bool is_end = n == 0 || (n < 0 && errno == ECONNRESET);
    if (n < 0 && errno == EMFILE) /* that is not the client's fault */
        answer_failure(s, m.serial, (enum spawn_verb)m.verb, &too_many);
    else if (n == sizeof(m) && is_well_formed(s, &m))
        serve_message(s, &m);
    else
        lose_client(s, !is_end);
    close_fds(s);
}

/* --- what sandboxes do ----------------------------------------------------------------------- */

static bool is_known(const struct spawner *s, pid_t pid)
{
    if (pid == s->serve.pid || pid == s->serve.starter || roster_has_pid(&s->roster, pid))
        return true;
    for (const struct zygote *z = s->zygotes; z; z = z->next) {
        if (z->process.pid == pid || z->shell->child.pid == pid)
            return true;
    }
    for (const struct apart *a = s->aparts; a; a = a->next) {
        if (a->pid == pid)
            return true;
    }
    return false;
}

/* A process that a zygote has made is our child. If it was killed before its first word, by the
 * lack of memory perhaps, nobody knows of it; but it would keep its pid namespace from ending. At
 * our own end there is nothing to wait for: one may have been stopped before it had a group. */
static void reap_strangers(const struct spawner *s)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
    FILE *list = fopen(path, "re");
    siginfo_t info;
    for (int pid; list && fscanf(list, "%d", &pid) == 1;) {
        if (is_known(s, pid))
            continue;
        if (s->is_stopping)
            kill(pid, SIGKILL);
        waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG);
    }
    if (list)
        fclose(list);
}

static void on_report(struct spawner *s, struct sandbox *sb)
{
    struct spawn_message m = {.verb = SPAWN_SEALED, .sandbox = sb->id};
    if (sandbox_on_report(sb, &m.failure) < 0) {
        m.flags = SPAWN_FAILED;
        answer(s, &m, NULL, 0);
        sandbox_kill(sb);
    } else if (sb->state == SANDBOX_LIVE) {
        m.sealed = sandbox_sealed(sb);
        answer(s, &m, NULL, 0);
        sandbox_set_baseline(sb);
    }
    roster_update(&s->roster, sb);
}

static void on_exit_of(struct spawner *s, struct sandbox *sb)
{
    sandbox_on_exit(sb);
    if (sb->state == SANDBOX_OVER) {
        struct spawn_message m = {.verb = SPAWN_EXITED, .sandbox = sb->id};
        m.stats = sb->last;
        answer(s, &m, NULL, 0);
    }
    roster_update(&s->roster, sb);
}

static void tell_failure(struct spawner *s, uint64_t id, const struct spawn_failure *failure)
{
    struct spawn_message m = {.verb = SPAWN_SEALED, .flags = SPAWN_FAILED, .sandbox = id};
    m.failure = *failure;
    answer(s, &m, NULL, 0);
}

static void tell_zygote_end(struct spawner *s, const struct zygote *z)
{
    struct spawn_message m = {.verb = SPAWN_EXITED, .sandbox = z->id};
    m.stats.is_over = 1;
    answer(s, &m, NULL, 0);
}

static void on_zygote(struct spawner *s, struct zygote *z, const struct pollfd *polls)
{
    struct spawn_failure failure;
    struct spawn_message m = {.verb = SPAWN_SEALED, .sandbox = z->id};
    switch (zygote_on_poll(z, &s->host, polls, &failure)) {
    case ZYGOTE_NO_NEWS:
        break;
    case ZYGOTE_IS_READY:
        m.sealed =
            (struct spawn_sealed){.layers = z->shell->layers, .host_uid = z->shell->plan.uid};
        answer(s, &m, NULL, 0);
        break;
    case ZYGOTE_FAILED:
        tell_failure(s, z->id, &failure);
        break;
    case ZYGOTE_EXITED:
        tell_zygote_end(s, z);
        break;
    }
}

/* A helper has ended; its slot in the list is *at. */
static void on_apart(struct spawner *s, struct apart **at)
{
    struct apart *a = *at;
    struct spawn_failure failure;
    struct spawn_message m = reply_to(a->serial, SPAWN_APART, a->sandbox);
    *at = a->next;
    s->apart_count--;
    bool is_apart = apart_finish(a, &s->roster, &failure) == 0;
    if (m.serial == 0)
        return; /* who asked is gone */
    if (is_apart)
        answer(s, &m, NULL, 0);
    else
        answer_failure(s, m.serial, SPAWN_APART, &failure);
}

/* --- the loop -------------------------------------------------------------------------------- */

static void on_gone(void *ctx, uint64_t id, uint32_t serial, const struct spawn_stats *last)
{
    struct spawn_message m = reply_to(serial, SPAWN_DESTROY, id);
    m.stats = *last;
    if (serial)
        answer(ctx, &m, NULL, 0);
}

/* What is due for each: its end, or another spare sandbox. */
static void tend_zygotes(struct spawner *s)
{
    for (struct zygote **at = &s->zygotes; *at;) {
        struct zygote *z = *at, *next = z->next;
        if (z->state == ZYGOTE_ENDING)
            end_spare(s, zygote_take_spare(z));
        if (zygote_is_closing(z) || s->is_stopping)
            reap_strangers(s);
        if (z->destroy_serial && z->is_reaped) {
            struct spawn_message m = reply_to(z->destroy_serial, SPAWN_DESTROY, z->id);
            m.stats.is_over = 1;
            answer(s, &m, NULL, 0);
            z->destroy_serial = 0;
        }
        if (zygote_try_remove(z, &s->host)) {
            *at = next;
            s->zygote_count--;
            continue;
        }
        zygote_refill(z, &s->host);
        at = &z->next;
    }
}

static void check_zygotes(struct spawner *s, int64_t now)
{
    static const struct spawn_failure late = {
        .code = ERROR_UNAVAILABLE, .layer = -1, .step = "the zygote was not ready in time"};
    for (struct zygote *z = s->zygotes; z; z = z->next) {
        if (z->state == ZYGOTE_ENDING || now < z->deadline_ns)
            continue;
        if (z->state == ZYGOTE_READY)
            tell_zygote_end(s, z);
        else
            tell_failure(s, z->id, &late);
        zygote_end(z);
    }
}

/* A zygote that does not answer is ended; what waits for it fails with it. */
static void end_stuck(struct spawner *s, struct sandbox *sb)
{
    for (struct zygote *z = s->zygotes; z; z = z->next) {
        if (z->shell == sb->shell && z->state == ZYGOTE_READY) {
            tell_zygote_end(s, z);
            zygote_end(z);
        }
    }
    sb->is_late = true;
    sandbox_kill(sb);
}

static void end_life(struct sandbox *sb)
{
    sb->lifetime_over = true;
    sandbox_kill(sb);
}

static void check_deadlines(struct spawner *s)
{
    int64_t now = clock_now_ns();
    check_zygotes(s, now);
    roster_check_deadlines(&s->roster, now, end_life);
    for (struct sandbox *sb = s->roster.busy; sb; sb = sb->next) {
        if (sandbox_waits_for_zygote(sb) && now >= sb->seal_deadline_ns)
            end_stuck(s, sb);
        if (sb->is_reaped || sb->state == SANDBOX_ENDING)
            continue;
        if (now >= sb->deadline_ns)
            end_life(sb);
        if (!sb->plan.has_memory_cgroup && sb->state == SANDBOX_LIVE) {
            uint64_t bytes =
                memwatch_sum(sb->child.pid, sb->root.storage_fd, sb->plan.limits.memory_bytes);
            sb->memory_seen_bytes = MAX(sb->memory_seen_bytes, bytes);
            if (bytes > sb->plan.limits.memory_bytes) {
                sb->killed_for_memory = true;
                sandbox_kill(sb);
            }
        }
    }
}

static int next_timeout_ms(const struct spawner *s)
{
    int64_t wait = INT32_MAX, now = clock_now_ns(), due = serve_due_ns(&s->serve);
    if (s->is_stopping && !s->has_stopped)
        return 0; /* the client was found gone by the last answers of a turn */
    if (due < INT64_MAX && !s->is_stopping)
        wait = MIN(wait, MAX((due - now) / 1000000 + 1, 0));
    if (s->roster.deadline_ns != INT64_MAX)
        wait = MIN(wait, MAX((s->roster.deadline_ns - now) / 1000000 + 1, 0));
    for (const struct sandbox *sb = s->roster.busy; sb; sb = sb->next) {
        if (sb->state == SANDBOX_ENDING && sb->is_reaped && !sb->is_held)
            wait = MIN(wait, REMOVE_RETRY_MS);
        else if (sb->state == SANDBOX_LIVE && !sb->plan.has_memory_cgroup)
            wait = MIN(wait, MEMWATCH_MS);
        if (!sb->is_reaped && sb->state != SANDBOX_ENDING)
            wait = MIN(wait, MAX((sb->deadline_ns - now) / 1000000 + 1, 0));
        if (sandbox_waits_for_zygote(sb))
            wait = MIN(wait, MAX((sb->seal_deadline_ns - now) / 1000000 + 1, 0));
    }
    for (const struct zygote *z = s->zygotes; z; z = z->next) {
        if (z->state != ZYGOTE_ENDING)
            wait = MIN(wait, MAX((z->deadline_ns - now) / 1000000 + 1, 0));
        else if (zygote_is_closing(z))
            wait = MIN(wait, REMOVE_RETRY_MS);
    }
    return wait == INT32_MAX ? -1 : (int)wait;
}

static void stop_all(struct spawner *s)
{
    s->has_stopped = true;
    roster_wake_all(&s->roster);
    for (struct sandbox *sb = s->roster.busy; sb; sb = sb->next) {
        if (sb->state != SANDBOX_ENDING)
            sandbox_end(sb);
    }
    for (struct zygote *z = s->zygotes; z; z = z->next) {
        if (z->state != ZYGOTE_ENDING)
            zygote_end(z);
    }
}

/* Not while somebody waits for a sandbox: what a crash left has time until one runs. */
static void sweep_once(struct spawner *s)
{
    const struct roster *r = &s->roster;
    const struct sandbox *last = r->busy ? r->busy : r->resting;
    bool is_idle = last && last->state != SANDBOX_SEALING;
    if (s->has_swept || s->is_broken || (!is_idle && !s->is_stopping))
        return;
    s->has_swept = true;
    /* The one of a single run is not worth a look at every name. */
    if (r->busy_count + r->resting_count != 1 ||
        !cgroup_tree_holds_one(&s->host.cgroups, last->tree))
        host_sweep(&s->host);
}

/* A client that we have started is asked to leave first: it may want to save something. */
static void on_signal(struct spawner *s, int signal_fd)
{
    struct signalfd_siginfo drained;
    (void)!read(signal_fd, &drained, sizeof(drained));
    if (!s->serve.is_on || !serve_ask_to_stop(&s->serve))
        s->is_stopping = true;
}

/* What it sent before its death counts: it may have begun what it had us keep. */
static void hear_last_words(struct spawner *s)
{
    struct pollfd p = {.fd = s->client_fd, .events = POLLIN};
    for (int i = 0; i < LAST_WORDS_MAX && s->client_fd >= 0 && poll(&p, 1, 0) > 0; i++)
        on_client(s);
}

/* Starts clients and mourns them. */
static void tend_client(struct spawner *s, bool has_news)
{
    if (has_news)
        hear_last_words(s);
    enum serve_news news = has_news ? serve_on_poll(&s->serve) : SERVE_NO_NEWS;
    if (news != SERVE_NO_NEWS)
        lose_client(s, false);
    if (news == SERVE_IS_OVER)
        s->is_stopping = true;
    if (s->is_stopping)
        return;
    if (serve_on_time(&s->serve)) {
        fprintf(stderr, "cove-spawner: no client within the grace time\n");
        s->is_alone = s->is_stopping = true;
    } else {
        serve_start(&s->serve, &s->client_fd);
    }
}

/* Where each stands in the list of what is polled. */
enum { POLL_CLIENT, POLL_SIGNALS, POLL_SERVED, POLL_RESTING, POLL_OTHERS };

static size_t fill_polls(struct spawner *s, int signal_fd)
{
    size_t needed =
        POLL_OTHERS + s->apart_count + s->zygote_count * ZYGOTE_POLLS + s->roster.busy_count;
    size_t n = POLL_OTHERS;
    if (s->poll_cap < needed) {
        s->poll_cap = 2 * needed;
        s->polls = xrealloc(s->polls, s->poll_cap * sizeof(*s->polls));
    }
    s->polls[POLL_CLIENT] =
        (struct pollfd){.fd = s->is_stopping ? -1 : s->client_fd, .events = POLLIN};
    s->polls[POLL_SIGNALS] = (struct pollfd){.fd = signal_fd, .events = POLLIN};
    s->polls[POLL_SERVED] = (struct pollfd){.fd = s->serve.pid_fd, .events = POLLIN};
    s->polls[POLL_RESTING] = (struct pollfd){.fd = s->roster.epoll_fd, .events = POLLIN};
    for (const struct apart *a = s->aparts; a; a = a->next)
        s->polls[n++] = (struct pollfd){.fd = a->pid_fd, .events = POLLIN};
    for (struct zygote *z = s->zygotes; z; z = z->next, n += ZYGOTE_POLLS)
        zygote_get_polls(z, &s->polls[n]);
    for (struct sandbox *sb = s->roster.busy; sb; sb = sb->next) {
        bool is_report;
        s->polls[n++] =
            (struct pollfd){.fd = sandbox_get_poll_fd(sb, &is_report), .events = POLLIN};
    }
    return n;
}

/* What was polled for, in the same order. Who comes to rest here leaves the list. */
static void serve_busy(struct spawner *s)
{
    size_t i = POLL_OTHERS;
    for (struct apart **at = &s->aparts; *at; i++) {
        if (s->polls[i].revents)
            on_apart(s, at);
        else
            at = &(*at)->next;
    }
    for (struct zygote *z = s->zygotes; z; z = z->next, i += ZYGOTE_POLLS)
        on_zygote(s, z, &s->polls[i]);
    for (struct sandbox *sb = s->roster.busy, *next; sb; sb = next, i++) {
        bool is_report;
        next = sb->next;
        if (!s->polls[i].revents || sandbox_get_poll_fd(sb, &is_report) < 0)
            continue;
        if (is_report)
            on_report(s, sb);
        else
            on_exit_of(s, sb);
    }
}

static void serve_resting(struct spawner *s)
{
    struct sandbox *ended[ROSTER_EXITS];
    size_t count = roster_exits(&s->roster, ended);
    for (size_t i = 0; i < count; i++)
        on_exit_of(s, ended[i]);
}

static void turn(struct spawner *s, int signal_fd)
{
    if (poll(s->polls, fill_polls(s, signal_fd), next_timeout_ms(s)) < 0 && errno != EINTR)
        s->is_stopping = true;
    serve_busy(s);
    if (s->polls[POLL_RESTING].revents)
        serve_resting(s);
    check_deadlines(s);
    if (s->polls[POLL_CLIENT].revents && s->client_fd >= 0)
        on_client(s);
    if (s->polls[POLL_SIGNALS].revents)
        on_signal(s, signal_fd);
    tend_client(s, s->polls[POLL_SERVED].revents);
    if (s->is_stopping)
        stop_all(s);
    roster_remove_ended(&s->roster, &s->host, on_gone, s);
    tend_zygotes(s);
    sweep_once(s);
}

/* Our end comes as a request that leaves nothing behind, or as SIGKILL. */
static int watch_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN); /* a key for the client, not for us */
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

struct options {
    struct host_options host;
    struct serve_options serve;
};

#define AT(field) offsetof(struct options, host.field)

static const struct option_row option_rows[] = {
    {.name = "run-dir",
     .type = OPTION_STRING,
     .offset = AT(run_dir),
     .preset = "/run/cove",
     .help = "Where spawners share the table of slots"},
    {.name = "cgroup-parent",
     .type = OPTION_STRING,
     .offset = AT(cgroup_parent),
     .preset = "cove",
     .help = "Name of the cgroup that holds all sandboxes"},
    {.name = "store",
     .type = OPTION_LIST,
     .offset = AT(stores),
     .help = "Directory of images; may be repeated"},
    {.name = "max-memory",
     .type = OPTION_SIZE,
     .offset = AT(max_memory_bytes),
     .preset = "1T",
     .help = "Most memory that a client may ask for"},
    {.name = "max-disk",
     .type = OPTION_SIZE,
     .offset = AT(max_disk_bytes),
     .preset = "1T",
     .help = "Most disk space"},
    {.name = "max-inodes",
     .type = OPTION_U64,
     .offset = AT(max_inodes),
     .preset = "100000000",
     .help = "Most files"},
    {.name = "max-cpus",
     .type = OPTION_MILLI,
     .offset = AT(max_cpu_milli),
     .preset = "1024",
     .help = "Most cores"},
    {.name = "max-pids",
     .type = OPTION_U64,
     .offset = AT(max_pids),
     .preset = "100000",
     .help = "Most processes"},
    {.name = "max-open-files",
     .type = OPTION_U64,
     .offset = AT(max_open_files),
     .preset = "1048576",
     .help = "Most open files"},
    {.name = "max-lifetime",
     .type = OPTION_DURATION_MS,
     .offset = AT(max_lifetime_ms),
     .preset = "720h",
     .help = "Longest life of a sandbox"},
    {.name = "seal-limit",
     .type = OPTION_DURATION_MS,
     .offset = AT(seal_limit_ms),
     .preset = "10s",
     .min = 1,
     .help = "How long a zygote may take for a step of a sandbox"},
    {.name = "serve",
     .type = OPTION_STRING,
     .offset = offsetof(struct options, serve.program),
     .help = "Client to start, with the arguments that follow, and to start again when it dies"},
    {.name = "uid",
     .type = OPTION_U64,
     .offset = offsetof(struct options, serve.uid),
     .max = UINT32_MAX - 1,
     .help = "Whom that client runs as"},
    {.name = "gid",
     .type = OPTION_U64,
     .offset = offsetof(struct options, serve.gid),
     .max = UINT32_MAX - 1,
     .help = "And its group"},
    {.name = "grace",
     .type = OPTION_DURATION_MS,
     .offset = offsetof(struct options, serve.grace_ms),
     .preset = "30s",
     .help = "How long sandboxes wait for the next client"},
};

/* What is left in argv are the arguments of the client that is to be started. */
static int read_options(struct option_set *set, struct options *options, int argc, char **argv,
                        struct error *err)
{
    option_set_init(set, option_rows, ARRAY_LEN(option_rows), options);
    struct option_set *const sets[] = {set};
    int count = argc - 1;
    if (option_apply_flags(sets, 1, &count, argv + 1, false, err) < 0)
        return -1;
    option_apply_presets(set);
    argv[1 + count] = NULL;
    return 0;
}

static int serve(struct spawner *s, const struct options *options, char **arguments)
{
    if (serve_open(&s->serve, &options->serve, arguments, &s->start_error) < 0) {
        fprintf(stderr, "cove-spawner: %s\n", s->start_error.msg);
        return EXIT_MISUSE;
    }
    s->client_fd = s->serve.is_on ? -1 : SPAWN_CLIENT_FD;
    if (!s->serve.is_on && fcntl(SPAWN_CLIENT_FD, F_SETFD, FD_CLOEXEC) < 0) {
        fprintf(stderr, "cove-spawner: is started by cove, with a socket as fd %d\n",
                SPAWN_CLIENT_FD);
        return EXIT_MISUSE;
    }
    int signals = watch_signals();
    s->is_broken = signals < 0 || host_open(&s->host, &options->host, &s->start_error) < 0;
    prctl(PR_SET_DUMPABLE, 0); /* not before: our own /proc files would no longer be ours */

    if (s->is_broken && s->serve.is_on) { /* no client would change that */
        fprintf(stderr, "cove-spawner: %s\n", s->start_error.msg);
        s->is_stopping = s->is_alone = true;
    }
    roster_init(&s->roster);
    while (!s->is_stopping || s->roster.busy || s->roster.resting || s->zygotes || s->aparts)
        turn(s, signals);
    roster_release(&s->roster);
    serve_close(&s->serve);
    host_close(&s->host);
    return s->is_alone ? EXIT_ALONE : 0;
}

int main(int argc, char **argv)
{
    if (relro_protect() < 0)
        return EXIT_MISUSE;
    struct options options = {0};
    struct option_set set;
    struct spawner *s = xcalloc(1, sizeof(*s));
    int status = EXIT_MISUSE;
    s->phase = PHASE_NEW;
    if (read_options(&set, &options, argc, argv, &s->start_error) == 0)
        status = serve(s, &options, argv + 1);
    else
        fprintf(stderr, "cove-spawner: %s\n", s->start_error.msg);
    option_set_release(&set);
    free(s->polls);
    free(s);
    return status;
}
