/* session_kernel.c - the interpreter of a session: started, heard, and started anew */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/session_inside.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "runtime/sandbox_socket.h"

#define START_WORDS_MAX 4096 /* kept of what it prints until then */
#define CHANNEL_BUFFER  (1024 * 1024)

void session_rehearse(struct session *s)
{
    static const char setting[] = "rehearse"; /* with the NUL that ends the name */
    struct error ignored;
    if (s->template->is_plain)
        return;
    /* One that cannot be told is not ready any more, which is heard of by itself. */
    if (kernel_send(s->kernel, KERNEL_SET, s->generation + 1, setting, sizeof(setting), NULL, 0,
                    &ignored) < 0)
        return;
}

void session_forget_usage(struct session *s)
{
    if (s->sealed.layers)
        spawner_client_read_stats(s->spawner, &s->sealed, &s->before);
}

void session_drop_kernel(struct session *s)
{
    family_end(s, "its interpreter was lost, or started anew, since it was opened");
    kernel_free(take_ptr(&s->kernel));
    stdio_free(take_ptr(&s->startup));
    session_forget_preload(s);
    s->is_syncing = false; /* the next one is ours from its first frame on */
}

int session_open_kernel(struct session *s, int fd, struct error *err)
{
    if (kernel_open(&s->kernel, s->loop, fd, session_on_frame, s, err) < 0)
        return -1;
    s->is_channel_kept = false;
    session_keep_channel(s);
    return 0;
}

void session_on_ready(struct session *s)
{
    s->info.create_ms = (double)(clock_now_ns() - s->start_ns) / 1e6;
    s->was_ready = true;
    stdio_free(take_ptr(&s->startup));
    session_enter(s, SESSION_READY);
    session_tell(s);
    session_begin_next(s);
}

void session_on_frame(void *ctx, const struct frame_message *m, const char *why)
{
    struct session *s = ctx;
    struct error err;
    if (m && attach_on_frame(s, m))
        return;
    if (why == kernel_is_violating)
        session_expel(s);
    if (m && m->type == KERNEL_READY && s->info.state == SESSION_CREATING && !s->is_preloading) {
        if (!checkpoint_on_ready(s) && !fork_on_ready(s))
            session_preload(s);
    } else if (m && m->generation != s->generation)
        return; /* of an execution that is over */
    else if (m && s->cell)
        cell_on_frame(s->cell, m);
    else if (m && s->is_preloading)
        session_preload_on_frame(s, m);
    else if (m && s->question.fn && !session_is_ending(s))
        session_question_on_frame(s, m);
    else if (!m && s->cell)
        cell_on_channel_end(s->cell, why);
    else if (!m && why) { /* else the kernel's end follows */
        error_set(&err, ERROR_UNAVAILABLE, "the interpreter spoke nonsense: %s", why);
        if (checkpoint_on_death(s, &err))
            return;
        guest_kill(s->guest);
        if (s->question.fn)
            session_end_question(s, &err);
        session_fail(s, &err);
    }
}

void session_on_start_late(void *ctx)
{
    struct session *s = ctx;
    struct error err;
    error_set(&err, ERROR_TIMEOUT, "the interpreter was not ready within %d s",
              SESSION_START_MS / 1000);
    guest_kill(s->guest);
    session_fail(s, &err);
}

static void on_startup_ended(void *ctx)
{
    (void)ctx;
}

int session_open_channel(int *ours, int *theirs, struct error *err)
{
    int size = CHANNEL_BUFFER;
    if (sandbox_socket_open(ours, theirs, err) < 0)
        return -1;
    setsockopt(*ours, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)); /* as much as we may have */
    return 0;
}

static int launch(struct session *s, struct error *err)
{
    int streams[3];
    scoped_fd int ours = -1;
    scoped_fd int theirs = -1;
    const struct stdio_order order = {
        .stdin_fd = -1,
        .outputs = {&s->startup_out, &s->startup_err},
        .ended = on_startup_ended,
        .ctx = s,
    };
    const struct guest_program program = {.directory = GUEST_WORKSPACE,
                                          .argv = s->template->argv,
                                          .env = s->template->env,
                                          .is_plain = s->template->is_plain};
    output_release(&s->startup_out);
    output_release(&s->startup_err);
    output_init(&s->startup_out, START_WORDS_MAX);
    output_init(&s->startup_err, START_WORDS_MAX);
    if (session_open_channel(&ours, &theirs, err) < 0 ||
        session_open_kernel(s, take_fd(&ours), err) < 0 ||
        stdio_new(&s->startup, s->loop, &order, streams, err) < 0)
        return -1;
    const int fds[] = {streams[0], streams[1], streams[2], theirs, s->template->kernel_fd};
    size_t count = s->template->kernel_fd >= 0 ? 5 : 4;
    int answer = guest_start(s->guest, &program, fds, count, err);
    for (int i = 0; i < 3; i++)
        close(streams[i]);
    return answer;
}

void session_start_kernel(struct session *s)
{
    struct error err;
    s->wants_reset = false;
    s->start_ns = s->start_ns ? s->start_ns : clock_now_ns();
    s->generation++; /* nothing that comes is older */
    session_enter(s, SESSION_CREATING);
    session_set_timer(s, SESSION_START_MS, session_on_start_late);
    s->kernel_runs = true;
    if (launch(s, &err) < 0) {
        s->kernel_runs = false;
        if (s->is_sealed || err.sys_errno != EPIPE) /* else the spawner says why it is dead */
            session_fail(s, &err);
    }
}

/* It was forked with the sandbox, which init adopts, and says READY like any other. */
void session_join_kernel(struct session *s, int channel)
{
    struct error err;
    s->kernel_runs = true;
    s->generation++;
    session_set_timer(s, SESSION_START_MS, session_on_start_late);
    if (session_open_kernel(s, channel, &err) < 0)
        session_fail(s, &err);
}

/* A new interpreter, now or when the old one's end is told. */
void session_restart(struct session *s)
{
    session_drop_kernel(s);
    guest_kill(s->guest);
    if (!s->kernel_runs) {
        session_start_kernel(s);
        return;
    }
    session_enter(s, SESSION_CREATING);
    session_set_timer(s, SESSION_START_MS, session_on_start_late);
}

/* Between two executions, or before the first. */
void session_on_kernel_exit(struct session *s, const struct guest_message *m)
{
    struct error err;
    if (session_is_ending(s))
        return; /* with all the rest */
    if (m->signal)
        error_set(&err, ERROR_UNAVAILABLE, "the interpreter was ended by signal %d", m->signal);
    else
        error_set(&err, ERROR_UNAVAILABLE, "the interpreter ended with status %d", m->exit_code);
    if (checkpoint_on_death(s, &err))
        return;
    guest_kill(s->guest); /* what it left running */
    if (s->wants_reset) {
        session_drop_kernel(s);
        session_start_kernel(s);
        return;
    }
    if (s->info.state == SESSION_FAILED)
        return; /* why is known already */
    if (s->startup) {
        scoped_strbuf struct strbuf words;
        strbuf_init(&words, START_WORDS_MAX * 2);
        stdio_read_now(s->startup);
        output_text(&s->startup_err, &words);
        error_hint(&err, "%s", strbuf_str(&words));
    }
    if (s->question.fn)
        session_end_question(s, &err);
    session_fail(s, &err);
}

int session_reset(struct session *s, struct error *err)
{
    if (s->attaching && !session_is_ending(s)) {
        s->wants_reset = true; /* done when its pieces are here */
        return 0;
    }
    if (session_is_ending(s) || !s->guest || s->is_creating || s->work.step || s->fork.step)
        return session_refuse(s, err);
    s->wants_reset = true;
    s->start_ns = clock_now_ns();
    if (s->cell) {
        cell_kill(s->cell); /* goes on when it has ended */
        return 0;
    }
    session_restart(s);
    if (s->question.fn) {
        struct error reset;
        error_set(&reset, ERROR_CONFLICT, "the session was reset");
        session_end_question(s, &reset);
    }
    return 0;
}
