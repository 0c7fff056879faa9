/* spawner_client.c - one socket, requests by number */
/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/spawner_client.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/parse.h"
#include "runtime/counters.h"
#include "runtime/outbox.h"
#include "runtime/sandbox_socket.h"

#define ARGS_MAX   32
#define OUTBOX_MAX (4u * 1024 * 1024)

struct request {
    struct request *next;
    uint32_t serial;
    spawner_reply_fn reply;
    void *ctx;
};

struct spawner_client {
    struct loop_watch *watch;
    struct outbox outbox;
    int fd;
    pid_t pid;        /* 0: it has started us, not we it */
    bool is_rootless; /* a guess until the spawner says */
    uint32_t next_serial;
    unsigned sandboxes; /* made, and nobody asked to destroy them */
    struct counters counters;
    struct request *requests;
    spawner_event_fn event;
    void *ctx;
    struct loop_timer *pulse; /* NULL: nobody watches */
};

/* --- starting -------------------------------------------------------------------------------- */

/* As text: settings that are numbers. */
struct numbers {
    char burst[FORMAT_BYTES], egress_uid[FORMAT_BYTES], egress_gid[FORMAT_BYTES];
};

static void build_argv(const struct spawner_settings *s, const struct numbers *numbers,
                       const char *argv[ARGS_MAX])
{
    size_t n = 0;
    argv[n++] = "cove-spawner";
    if (s->run_dir) {
        argv[n++] = "--run-dir";
        argv[n++] = s->run_dir;
    }
    if (s->cgroup_parent) {
        argv[n++] = "--cgroup-parent";
        argv[n++] = s->cgroup_parent;
    }
    if (s->cpu_burst_milli) {
        argv[n++] = "--cpus-burst";
        argv[n++] = numbers->burst;
    }
    if (s->layers) {
        argv[n++] = "--layers";
        argv[n++] = s->layers;
    }
    if (s->egress) {
        argv[n++] = "--egress";
        argv[n++] = s->egress;
        argv[n++] = "--egress-uid";
        argv[n++] = numbers->egress_uid;
        argv[n++] = "--egress-gid";
        argv[n++] = numbers->egress_gid;
    }
    for (const char *const *store = s->stores; *store && n + 3 < ARGS_MAX; store++) {
        argv[n++] = "--store";
        argv[n++] = *store;
    }
    argv[n] = NULL;
}

/* With an empty environment: nothing there is meant for a privileged program. */
static int start_program(const struct spawner_settings *s, int socket, pid_t *pid,
                         struct error *err)
{
    const char *argv[ARGS_MAX];
    char *const envp[] = {NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    struct numbers numbers;
    format_milli(s->cpu_burst_milli, numbers.burst);
    format_u64(s->egress_uid, numbers.egress_uid);
    format_u64(s->egress_gid, numbers.egress_gid);
    build_argv(s, &numbers, argv);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    /* Out of the terminal's process group: its keys are for us. */
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, socket, SPAWN_CLIENT_FD);
    int code = posix_spawn(pid, s->program, &actions, &attr, (char *const *)argv, envp);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    if (code != 0) {
        errno = code;
        return error_sys(err, "start '%s'", s->program);
    }
    return 0;
}

/* --- answers --------------------------------------------------------------------------------- */

/* Which layer is missing, and whether one may go without it. */
static void set_missing_layer(struct error *err, const struct spawner_client *c,
                              const struct spawn_failure *f, const char *step)
{
    const struct layer_info *layer = layer_info((enum layer)f->layer);
    enum layer_need need = c->is_rootless ? layer->as_user : layer->as_root;
    bool has_cause = strstr(step, ": "); /* the spawner's own words, with errno's behind them */
    error_set(err, ERROR_ISOLATION, "the sandbox cannot be sealed: no %s (%s%s%s)", layer->name,
              step, has_cause ? "" : ": ", has_cause ? "" : strerror(f->sys_errno));
    error_hint(err, "run 'cove doctor' to see what this host lacks and what to do%s",
               need == LAYER_NEEDED ? "; --allow-degraded runs with the layers that are left, at "
                                      "tier T3"
                                    : "");
}

static void set_failure(struct error *err, const struct spawner_client *c,
                        const struct spawn_failure *f)
{
    char step[SPAWN_STEP_BYTES + 1] = {0};
    memcpy(step, f->step, SPAWN_STEP_BYTES);
    bool is_known = f->code >= 0 && f->code < ERROR_CODE_COUNT;
    enum error_code code = is_known ? (enum error_code)f->code : ERROR_INTERNAL;
    if (f->layer >= 0 && f->layer < LAYER_COUNT) {
        set_missing_layer(err, c, f, step);
    } else if (f->sys_errno && !strstr(step, ": ")) {
        error_set(err, code, "%s: %s", step, strerror(f->sys_errno));
    } else {
        error_set(err, code, "%s", step);
    }
    err->sys_errno = f->sys_errno;
}

static struct request *take_request(struct spawner_client *c, uint32_t serial)
{
    for (struct request **at = &c->requests; *at; at = &(*at)->next) {
        struct request *r = *at;
        if (r->serial == serial) {
            *at = r->next;
            return r;
        }
    }
    return NULL;
}

static void on_gone(struct spawner_client *c)
{
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "cove-spawner went away");
    loop_watch_free(c->watch);
    c->watch = NULL;
    loop_timer_free(take_ptr(&c->pulse));
    while (c->requests) {
        struct request *r = take_request(c, c->requests->serial);
        int none[SPAWNER_REPLY_FDS];
        memset(none, -1, sizeof(none));
        if (r->reply)
            r->reply(r->ctx, NULL, none, &err);
        free(r);
    }
    c->event(c->ctx, NULL);
}

static void on_hello(struct spawner_client *c, const struct spawn_hello_reply *reply,
                     int fds[SPAWNER_REPLY_FDS])
{
    c->is_rootless = reply->is_rootless;
    for (size_t i = 0; i < SPAWN_METER_COUNT; i++) {
        c->counters.meter.dirs[i] = take_fd(&fds[i]);
        c->counters.meter.versions[i] = reply->meters[i];
    }
}

static void on_message(struct spawner_client *c, const struct spawn_message *m,
                       int fds[SPAWNER_REPLY_FDS])
{
    if (!(m->flags & SPAWN_REPLY)) {
        if (m->verb == SPAWN_EXITED || m->verb == SPAWN_SEALED)
            c->event(c->ctx, m);
        return;
    }
    struct request *r = take_request(c, m->serial);
    if (!r)
        return;
    struct error err;
    bool is_failure = m->flags & SPAWN_FAILED;
    if (is_failure)
        set_failure(&err, c, &m->failure);
    else if (m->verb == SPAWN_HELLO)
        on_hello(c, &m->hello_reply, fds);
    else if (m->verb == SPAWN_CREATE)
        c->sandboxes++;
    if (r->reply)
        r->reply(r->ctx, is_failure ? NULL : m, fds, is_failure ? &err : NULL);
    free(r);
}

/* False when there is no more to read. */
static bool take_one(struct spawner_client *c)
{
    struct spawn_message m;
    int fds[FD_PASS_MAX];
    size_t count;
    ssize_t n = fd_recv(c->fd, &m, sizeof(m), fds, &count);
    /* A spawner that ends with a request of ours unread resets the connection, and the kernel tells
     * that before it hands out the last answer, which says why it ended. */
    if (n < 0 && errno == ECONNRESET)
        n = fd_recv(c->fd, &m, sizeof(m), fds, &count);
    if (n < 0 && errno == EAGAIN)
        return false;
    bool is_message = n == sizeof(m);
    while (count < FD_PASS_MAX)
        fds[count++] = -1;
    if (is_message)
        on_message(c, &m, fds);
    else
        on_gone(c);
    while (count > 0)
        sandbox_socket_close(c->outbox.loop, &fds[--count]); /* those that nobody took */
    return is_message;
}

/* All of it at once: after an error on the socket the loop does not call again. */
static void on_readable(void *ctx, unsigned events)
{
    (void)events;
    struct spawner_client *c = ctx;
    while (take_one(c))
        ;
}

/* --- the interface --------------------------------------------------------------------------- */

int spawner_client_join(struct spawner_client **out, struct loop *loop, int fd,
                        spawner_reply_fn hello, spawner_event_fn event, void *ctx,
                        struct error *err)
{
    struct spawner_client *c = xcalloc(1, sizeof(*c));
    c->fd = fd;
    c->is_rootless = geteuid() != 0;
    c->next_serial = 1;
    counters_init(&c->counters, loop);
    c->event = event;
    c->ctx = ctx;
    outbox_init(&c->outbox, loop, c->fd, OUTBOX_MAX);
    if (loop_watch_new(&c->watch, loop, c->fd, LOOP_READ, on_readable, c, err) < 0) {
        spawner_client_free(c);
        return -1;
    }
    struct spawn_message m = {.verb = SPAWN_HELLO, .hello = {.version = SPAWN_VERSION}};
    spawner_client_ask(c, &m, hello, ctx);
    *out = c;
    return 0;
}

int spawner_client_open(struct spawner_client **out, struct loop *loop,
                        const struct spawner_settings *settings, spawner_reply_fn hello,
                        spawner_event_fn event, void *ctx, struct error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_sys(err, "make spawner socket");
    scoped_fd int ours = pair[0];
    scoped_fd int theirs = pair[1];
    pid_t pid;
    if (start_program(settings, theirs, &pid, err) < 0)
        return -1;

    if (spawner_client_join(out, loop, take_fd(&ours), hello, event, ctx, err) < 0)
        return -1;
    (*out)->pid = pid;
    return 0;
}

static void on_pulse(void *ctx)
{
    struct spawner_client *c = ctx;
    struct spawn_message m = {.verb = SPAWN_PULSE};
    spawner_client_ask(c, &m, NULL, NULL);
    loop_timer_free(c->pulse);
    c->pulse = loop_timer_new(c->outbox.loop, SPAWN_PULSE_MS, on_pulse, c);
}

void spawner_client_watch(struct spawner_client *c)
{
    on_pulse(c);
}

void spawner_client_free(struct spawner_client *c)
{
    if (!c)
        return;
    loop_timer_free(c->pulse);
    loop_watch_free(c->watch);
    outbox_release(&c->outbox);
    while (c->requests)
        free(take_request(c, c->requests->serial));
    close(c->fd);
    counters_release(&c->counters);
    /* With sandboxes left it has work to do, and whoever ends us may want to see it done; without,
     * it has nothing but its own exit before it. */
    while (c->pid > 0 && c->sandboxes > 0 && waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    free(c);
}

void spawner_client_ask(struct spawner_client *c, struct spawn_message *m, spawner_reply_fn reply,
                        void *ctx)
{
    spawner_client_ask_with(c, m, NULL, 0, reply, ctx);
}

void spawner_client_ask_with(struct spawner_client *c, struct spawn_message *m, const int *fds,
                             size_t fd_count, spawner_reply_fn reply, void *ctx)
{
    struct error ignored;
    struct request *r = xcalloc(1, sizeof(*r));
    m->serial = c->next_serial++;
    if (m->verb == SPAWN_DESTROY && c->sandboxes > 0)
        c->sandboxes--; /* from here on it is the spawner's affair */
    *r = (struct request){.next = c->requests, .serial = m->serial, .reply = reply, .ctx = ctx};
    c->requests = r;
    /* A failed send shows up as the end of the connection, which answers every request. */
    if (outbox_send(&c->outbox, m, sizeof(*m), fds, fd_count, &ignored) < 0)
        shutdown(c->fd, SHUT_RDWR);
}

void spawner_client_redirect(struct spawner_client *c, const void *ctx, spawner_reply_fn reply,
                             void *other)
{
    for (struct request *r = c->requests; r; r = r->next) {
        if (r->ctx == ctx) {
            r->reply = reply;
            r->ctx = other;
        }
    }
}

void spawner_client_explain(const struct spawner_client *c, const struct spawn_message *m,
                            struct error *err)
{
    set_failure(err, c, &m->failure);
}

bool spawner_client_read_stats(struct spawner_client *c, const struct spawn_sealed *where,
                               struct spawn_stats *out)
{
    struct spawn_stats s = *out;
    if (!counters_read(&c->counters, where->slot, where->nest, &s))
        return false;
    s.cpu_us -= MIN(s.cpu_us, where->seal_cpu_us);
    *out = s;
    return true;
}

void spawner_client_forget_stats(struct spawner_client *c, const struct spawn_sealed *where)
{
    counters_forget(&c->counters, where->slot, where->nest);
}
