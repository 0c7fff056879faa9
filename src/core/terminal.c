/* terminal.c - the host's end of a terminal: one channel, with bounded room in both directions */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/terminal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "core/session_inside.h"
#include "core/terminal_news.h"
#include "runtime/sandbox_socket.h"

#define FRAME_BYTES   sizeof(struct terminal_frame)
#define FRAMES_A_TURN 16 /* others want to be heard, too */

struct message {
    struct terminal_frame frame;
    char bytes[TERMINAL_BYTES_MAX];
};

struct terminal {
    struct session *session;
    struct terminal *next;
    const struct terminal_events *events;
    void *ctx;
    int fd;
    struct loop_watch *watch;
    struct loop_timer *idle_timer;
    uint64_t idle_ms;
    int64_t moved_ns;           /* something was typed or printed */
    struct strbuf typed;        /* that the channel does not take yet */
    struct terminal_frame size; /* the same; type 0: none */
    bool is_started, is_paused;
    bool is_calling; /* an event is told: it is freed after that */
    bool is_over;
};

bool terminal_kind_is_valid(const char *kind)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-+._";
    size_t len = strlen(kind);
    return len > 0 && len <= TERMINAL_NAME_MAX && strspn(kind, allowed) == len;
}

/* --- ends ------------------------------------------------------------------------------------ */

static void free_terminal(struct terminal *t)
{
    loop_timer_free(t->idle_timer);
    loop_watch_free(t->watch);
    sandbox_socket_close(t->session->loop, &t->fd); /* which ends all that is left of it inside */
    strbuf_release(&t->typed);
    free(t);
}

/* In other states its timer is for something else. */
static void touch(struct session *s)
{
    s->info.last_used_ns = clock_wall_ns();
    if (s->info.state == SESSION_READY || s->info.state == SESSION_FAILED)
        session_count_idle(s);
}

static void leave(struct terminal *t)
{
    struct session *s = t->session;
    struct terminal **at = &s->terminals;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    s->info.terminal_count--;
    t->is_over = true;
    touch(s);
}

void terminal_close(struct terminal *t)
{
    if (t->is_over)
        return; /* it is being told so */
    leave(t);
    if (!t->is_calling)
        free_terminal(t);
}

static void end(struct terminal *t, const struct terminal_end *how)
{
    bool is_calling = t->is_calling;
    leave(t);
    t->events->ended(t->ctx, how);
    if (!is_calling)
        free_terminal(t);
}

static void fail(struct terminal *t, const struct error *err)
{
    const struct terminal_end how = {.error = *err};
    end(t, &how);
}

void session_end_terminals(struct session *s, const char *why)
{
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "%s", why);
    while (s->terminals)
        fail(s->terminals, &err); /* NOLINT(clang-analyzer-unix.Malloc): it leaves the list */
}

int session_check_alone(const struct session *s, struct error *err)
{
    if (s->info.terminal_count > 0) {
        error_set(err, ERROR_CONFLICT, "a terminal is open in the session");
        error_word(err, "terminal_open");
        return error_hint(err, "close its terminals, and try again");
    }
    if (s->errand_writers == 0)
        return 0;
    error_set(err, ERROR_CONFLICT, "files of the session are being written");
    error_word(err, "files_busy");
    return error_hint(err, "wait until that is done");
}

/* Whether the sandbox is sealed need not be asked: its init hears nothing before that. Nor whether
 * its interpreter is there: init serves while a new one is started, or asked whether it runs. */
int session_check_live(const struct session *s, const char *what, bool writes, struct error *err)
{
    bool is_copied = s->work.step || s->fork.step || s->family.child || s->family.is_packing;
    bool is_coming = s->info.state == SESSION_CREATING && (is_copied || !s->was_ready);
    if (session_is_ending(s) || !s->guest || is_coming) {
        error_set(err, ERROR_CONFLICT, "the session is %s", session_state_name(s->info.state));
        return error_hint(err, "for %s of a session it must be ready, busy or failed", what);
    }
    if (!is_copied || !writes)
        return 0;
    error_set(err, ERROR_CONFLICT, "the session is being saved, restored or forked");
    return error_hint(err, "wait until that is done");
}

/* --- time ------------------------------------------------------------------------------------ */

static void on_idle(void *ctx);

static void count_idle(struct terminal *t, uint64_t ms)
{
    loop_timer_free(take_ptr(&t->idle_timer));
    if (t->idle_ms)
        t->idle_timer = loop_timer_new(t->session->loop, ms, on_idle, t);
}

static void on_idle(void *ctx)
{
    struct terminal *t = ctx;
    struct error err;
    uint64_t still_ms = (uint64_t)(clock_now_ns() - t->moved_ns) / 1000000;
    if (still_ms < t->idle_ms) {
        count_idle(t, t->idle_ms - still_ms);
        return;
    }
    error_set(&err, ERROR_TIMEOUT, "nothing was typed or printed for %llu s",
              (unsigned long long)t->idle_ms / 1000);
    fail(t, &err);
}

static void on_overflow(void *ctx)
{
    struct error err;
    error_set(&err, ERROR_TOO_LARGE, "more was typed than the terminal takes");
    fail(ctx, &err);
}

/* --- what is typed --------------------------------------------------------------------------- */

static void choose_events(struct terminal *t)
{
    bool has_more = t->typed.len > 0 || t->size.type;
    loop_watch_set(t->watch, (t->is_paused ? 0 : LOOP_READ) | (has_more ? LOOP_WRITE : 0));
}

/* A dead peer is noticed by who reads. */
static bool is_full(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static bool send_size(struct terminal *t)
{
    if (t->size.type == 0)
        return true;
    if (is_full(send(t->fd, &t->size, sizeof(t->size), MSG_DONTWAIT | MSG_NOSIGNAL)))
        return false;
    t->size.type = 0;
    return true;
}

/* Answers how many of them were taken. */
static size_t send_bytes(struct terminal *t, const char *data, size_t len)
{
    struct message m = {.frame = {.type = TERMINAL_BYTES}};
    size_t sent = 0;
    while (sent < len) {
        size_t part = MIN(len - sent, sizeof(m.bytes));
        memcpy(m.bytes, data + sent, part);
        if (is_full(send(t->fd, &m, FRAME_BYTES + part, MSG_DONTWAIT | MSG_NOSIGNAL)))
            break;
        sent += part;
    }
    return sent;
}

static void drop_typed(struct terminal *t, size_t len)
{
    t->typed.len -= len;
    memmove(t->typed.data, t->typed.data + len, t->typed.len);
}

static void flush(struct terminal *t)
{
    if (t->typed.len == 0 && !t->size.type)
        return;
    bool had_bytes = t->typed.len > 0;
    if (send_size(t) && had_bytes)
        drop_typed(t, send_bytes(t, t->typed.data, t->typed.len));
    choose_events(t);
    if (had_bytes && t->typed.len == 0)
        t->events->drained(t->ctx);
}

bool terminal_write(struct terminal *t, const void *data, size_t len)
{
    t->moved_ns = clock_now_ns();
    size_t sent = t->typed.len == 0 ? send_bytes(t, data, len) : 0;
    strbuf_add(&t->typed, (const char *)data + sent, len - sent);
    choose_events(t);
    if (t->typed.overflow) { /* not now: its owner is in the middle of something */
        loop_timer_free(t->idle_timer);
        t->idle_timer = loop_timer_new(t->session->loop, 0, on_overflow, t);
    }
    return t->typed.len == 0;
}

void terminal_resize(struct terminal *t, unsigned columns, unsigned rows)
{
    t->size = (struct terminal_frame){
        .type = TERMINAL_SIZE, .columns = (uint16_t)columns, .rows = (uint16_t)rows};
    send_size(t);
    choose_events(t);
}

/* --- what is printed ------------------------------------------------------------------------- */

static void on_news(struct terminal *t, const struct terminal_news *news)
{
    switch (news->kind) {
    case TERMINAL_NEWS_START:
        if (!t->is_started)
            t->events->started(t->ctx);
        t->is_started = true;
        break;
    case TERMINAL_NEWS_OUTPUT:
        if (t->is_started && news->len > 0)
            t->events->output(t->ctx, news->bytes, news->len);
        break;
    case TERMINAL_NEWS_END:
        end(t, &news->end);
        break;
    }
}

/* False: there is no more for now. */
static bool receive(struct terminal *t)
{
    struct message m;
    struct terminal_news news;
    ssize_t n = sandbox_socket_recv(t->session->loop, t->fd, &m, sizeof(m));
    if (is_full(n))
        return false;
    if (sandbox_socket_is_violated(n))
        session_expel(t->session);
    t->moved_ns = clock_now_ns();
    terminal_news_read(&news, &m, (size_t)MAX(n, 0));
    on_news(t, &news);
    return true;
}

static void on_ready(void *ctx, unsigned events)
{
    struct terminal *t = ctx;
    t->is_calling = true;
    if (events & LOOP_WRITE)
        flush(t);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): while is_calling nobody frees it */
    for (int i = 0; i < FRAMES_A_TURN && !t->is_over && !t->is_paused; i++) {
        if (!receive(t))
            break;
    }
    t->is_calling = false;
    if (t->is_over)
        free_terminal(t);
}

void terminal_pause(struct terminal *t)
{
    t->is_paused = true;
    choose_events(t);
}

void terminal_resume(struct terminal *t)
{
    t->is_paused = false;
    choose_events(t);
}

/* --- the start ------------------------------------------------------------------------------- */

/* What is saved or forked must not change meanwhile. */
static int check_session(const struct session *s, struct error *err)
{
    if (session_check_live(s, "a terminal", true, err) < 0)
        return -1;
    if (s->info.terminal_count < GUEST_TERMINALS_MAX)
        return 0;
    terminal_explain_start(err, EBUSY);
    return -1;
}

static bool has_name_of(char *const *list, const char *variable)
{
    size_t len = strcspn(variable, "=") + 1;
    for (; list && *list; list++) {
        if (strncmp(*list, variable, len) == 0)
            return true;
    }
    return false;
}

static size_t count_of(char *const *list)
{
    size_t count = 0;
    while (list && list[count])
        count++;
    return count;
}

/* The variables of the session's interpreter, those of the order, and TERM: of one name the last
 * one counts. The list is owned, its strings are not. */
static const char **make_env(const struct session_template *template, char *const *own, char *term)
{
    char *const terms[] = {term, NULL};
    char *const *given = (char *const *)template->env;
    const char **env = xcalloc(count_of(given) + count_of(own) + 2, sizeof(*env));
    size_t count = 0;
    for (; given && *given; given++) {
        if (!has_name_of(own, *given) && !has_name_of(terms, *given))
            env[count++] = *given;
    }
    for (; own && *own; own++) {
        if (!has_name_of(terms, *own))
            env[count++] = *own;
    }
    env[count] = term;
    return env;
}

static int start(struct session *s, const struct terminal_order *order, int channel,
                 struct error *err)
{
    static const char *const shells[] = {"/bin/bash", "/bin/sh", NULL};
    char term[sizeof("TERM=") + TERMINAL_NAME_MAX];
    snprintf(term, sizeof(term), "TERM=%s", order->kind);
    scoped_free const char **env = make_env(s->template, order->env, term);
    const struct guest_program program = {.directory = GUEST_WORKSPACE, .argv = shells, .env = env};
    session_thaw(s); /* in front of what wakes it */
    return guest_terminal(s->guest, &program, order->columns, order->rows, channel, err);
}

static int open_channel(struct terminal *t, struct session *s, int *theirs, struct error *err)
{
    if (sandbox_socket_open(&t->fd, theirs, err) < 0)
        return error_wrap(err, "the terminal");
    return loop_watch_new(&t->watch, s->loop, t->fd, LOOP_READ, on_ready, t, err);
}

int terminal_open(struct terminal **out, struct session *s, const struct terminal_order *order,
                  struct error *err)
{
    scoped_fd int theirs = -1;
    if (check_session(s, err) < 0)
        return -1;
    struct terminal *t = xcalloc(1, sizeof(*t));
    *t = (struct terminal){.session = s,
                           .next = s->terminals,
                           .events = order->events,
                           .ctx = order->ctx,
                           .fd = -1,
                           .idle_ms = order->idle_ms,
                           .moved_ns = clock_now_ns()};
    strbuf_init(&t->typed, TERMINAL_TYPED_MAX);
    if (open_channel(t, s, &theirs, err) < 0 || start(s, order, theirs, err) < 0) {
        free_terminal(t);
        return -1;
    }
    s->terminals = t;
    s->info.terminal_count++;
    count_idle(t, t->idle_ms);
    touch(s);
    *out = t;
    return 0;
}
