/* fork.c - the fork of a session, step by step
 *
 * A session that can be forked comes with heirs (family.c): sandboxes of their own, sealed when it
 * was, in each of which a process sleeps that has the memory of the session's interpreter (see
 * box/seal_warm.h). To fork is to let the interpreter stand still, copy its files into the heir's
 * workspace, wake the heir, which forks, and adopt what it has borne. Nothing privileged takes part
 * in it.
 *
 * Interpreter and heir are the tenant's: what they say is content. That the heir is gone when its
 * fork is used is the word of the heir's init, and that the fork has a memory of its own is the
 * spawner's. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "core/session_inside.h"
#include "runtime/sandbox_socket.h"

#define FILES_MS  120000 /* for the workspace */
#define ANSWER_MS 5000   /* for anything else that is waited for */

void fork_init(struct session *s)
{
    s->fork.gate_fd = s->fork.heir_fd = s->family.gate_fd = -1;
}

/* --- ends ------------------------------------------------------------------------------------ */

/* The interpreter goes on, and has to say so. `parent` may be NULL. */
static void open_gate(struct session *parent, struct loop *loop, int gate)
{
    const char order = KERNEL_GATE_OPEN;
    if (gate < 0)
        return;
    (void)!fd_send(gate, &order, 1, NULL, 0); /* closing it says the same */
    sandbox_socket_close(loop, &gate);
    if (parent && parent->question.fn)
        session_expect_answer(parent);
}

static void on_packing_late(void *ctx)
{
    struct session *parent = ctx;
    open_gate(parent, parent->loop, take_fd(&parent->family.gate_fd));
}

/* The parent is not needed any more. While its init still packs, which ends by itself when nobody
 * unpacks, it stays as it is: that end would be taken for an answer to what is asked of it next. */
static void let_parent_go(struct session *child)
{
    struct fork_work *w = &child->fork;
    struct session *parent = take_ptr(&w->parent);
    loop_watch_free(take_ptr(&w->gate_watch));
    if (parent)
        parent->family.child = NULL;
    if (!parent || !parent->family.is_packing) {
        open_gate(parent, child->loop, take_fd(&w->gate_fd));
        return;
    }
    parent->family.gate_fd = take_fd(&w->gate_fd);
    session_set_timer(parent, ANSWER_MS, on_packing_late);
}

static void drop_heir_channel(struct session *child)
{
    loop_watch_free(take_ptr(&child->fork.heir_watch));
    sandbox_socket_close(child->loop, &child->fork.heir_fd);
}

void fork_release(struct session *s)
{
    let_parent_go(s);
    drop_heir_channel(s);
    s->fork.step = FORK_NONE;
}

/* Half a fork is none: whatever was born is killed, with its sandbox when it is closed. */
static void fail(struct session *child, const struct error *err)
{
    if (child->guest)
        guest_kill(child->guest);
    session_fail(child, err);
}

static bool is_born(const struct session *child)
{
    return child->fork.is_adopted && child->fork.is_ready;
}

/* Not before the session that it comes from goes on: who is told of the fork may use both. */
static void finish(struct session *child)
{
    if (!is_born(child) || child->fork.parent)
        return;
    fork_release(child);
    child->newest_ns = clock_wall_ns(); /* the files that came along are nobody's artifacts */
    session_on_ready(child);
}

static void on_late(void *ctx)
{
    struct session *child = ctx;
    struct error err;
    if (is_born(child)) { /* the other is late, which is nothing to this one */
        let_parent_go(child);
        finish(child);
        return;
    }
    error_set(&err, ERROR_TIMEOUT, "the fork was not done in time");
    fail(child, &err);
}

static void on_orphaned(void *ctx)
{
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "the session to be forked was let go of");
    fail(ctx, &err);
}

/* Nobody is told anything from here: who waits for that session has its fork fail a turn later. */
static void forget_child(struct session *s)
{
    struct session *child = take_ptr(&s->family.child);
    if (!child)
        return;
    child->fork.parent = NULL;
    if (is_born(child))
        session_set_timer(child, 0, on_late);
    if (child->fork.step >= FORK_BEAR)
        return; /* all that it needed of the parent is there */
    loop_watch_free(take_ptr(&child->fork.gate_watch));
    session_set_timer(child, 0, on_orphaned);
}

void fork_forget(struct session *s)
{
    forget_child(s);
    fork_release(s);
    family_forget(s);
}

/* What the parent's interpreter says in the end, or why it says nothing. The fork may be on its own
 * then. */
static void on_parent_answer(void *ctx, const char *body, size_t len, const struct error *err)
{
    (void)body;
    (void)len;
    struct session *parent = ctx, *child = parent->family.child;
    struct error local;
    if (!child)
        return;
    parent->family.child = NULL;
    child->fork.parent = NULL;
    if (child->fork.step > FORK_BEAR) {
        finish(child);
        return;
    }
    error_set(&local, ERROR_UNAVAILABLE, "the interpreter did not stand still");
    if (err)
        local = *err;
    if (local.code == ERROR_INVALID) { /* the interpreter's own reason */
        local.code = ERROR_CONFLICT;
        error_word(&local, "fork_refused");
    }
    if (local.hint[0] == '\0')
        error_hint(&local, "end the threads and processes that the code has started, close shared "
                           "memory and files without a name, and fork again");
    fail(child, &local);
}

/* --- the steps ------------------------------------------------------------------------------- */

bool fork_on_ready(struct session *child)
{
    if (child->fork.step == FORK_NONE)
        return false;
    child->fork.is_ready = true;
    finish(child);
    return true;
}

static void on_heir_says(void *ctx, unsigned events)
{
    (void)events;
    struct session *child = ctx;
    struct fork_work *w = &child->fork;
    struct kernel_copy_answer answer;
    struct error err;
    ssize_t n = sandbox_socket_recv(child->loop, w->heir_fd, &answer, sizeof(answer));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (sandbox_socket_is_violated(n))
        session_expel(child);
    if (n != sizeof(answer) || answer.pid == 0 || answer.pid == 1 || w->step != FORK_BEAR) {
        error_set(&err, ERROR_UNAVAILABLE, "the fork is lost: its process has ended");
        fail(child, &err);
        return;
    }
    if (answer.pid < 0) {
        errno = -answer.pid;
        error_sys(&err, "fork the interpreter");
        fail(child, &err);
        return;
    }
    drop_heir_channel(child);
    loop_watch_free(take_ptr(&w->gate_watch));
    open_gate(w->parent, child->loop, take_fd(&w->gate_fd));
    w->pid = answer.pid;
    w->step = FORK_KILL;
    guest_keep(child->guest, &w->pid, 1);
    guest_kill_and_tell(child->guest);
}

static void bear(struct session *child)
{
    struct fork_work *w = &child->fork;
    struct error err;
    const char order = KERNEL_COPY_BEAR;
    scoped_fd int ours = -1;
    scoped_fd int theirs = -1;
    w->step = FORK_BEAR;
    session_set_timer(child, ANSWER_MS, on_late);
    if (session_open_channel(&ours, &theirs, &err) < 0 ||
        kernel_open(&child->kernel, child->loop, take_fd(&ours), session_on_frame, child, &err) <
            0 ||
        loop_watch_new(&w->heir_watch, child->loop, w->heir_fd, LOOP_READ, on_heir_says, child,
                       &err) < 0)
        fail(child, &err);
    else if (fd_send(w->heir_fd, &order, 1, &theirs, 1) < 0) {
        error_set(&err, ERROR_UNAVAILABLE, "the fork is lost: its process has ended");
        fail(child, &err);
    }
}

/* One end of the pipe is done. That the other was gone is no reason: the other has it. */
static void on_files_done(struct session *child, int error)
{
    struct fork_work *w = &child->fork;
    struct error err;
    bool is_echo = error == EPIPE || error == EPROTO;
    if (error && (!w->files_error || !is_echo))
        w->files_error = error;
    if (--w->files_left > 0)
        return;
    if (!w->files_error) {
        bear(child);
        return;
    }
    checkpoint_explain_files(&err, w->files_error, "the workspace cannot be copied");
    fail(child, &err);
}

static void copy_files(struct session *child)
{
    struct fork_work *w = &child->fork;
    struct error err;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        error_sys(&err, "make a pipe");
        fail(child, &err);
        return;
    }
    w->step = FORK_FILES;
    w->files_left = 2;
    session_set_timer(child, FILES_MS, on_late);
    session_set_timer(w->parent, 0, NULL); /* it waits for us now */
    w->parent->family.is_packing = true;
    guest_pack(w->parent->guest, GUEST_FILES_PACK, ends[1]);
    guest_pack(child->guest, GUEST_FILES_UNPACK, ends[0]);
    close(ends[0]);
    close(ends[1]);
}

/* Anything but its word that it stands is followed by its answer. */
static void on_gate(void *ctx, unsigned events)
{
    (void)events;
    struct session *child = ctx;
    struct fork_work *w = &child->fork;
    char word;
    ssize_t n = sandbox_socket_recv(child->loop, w->gate_fd, &word, 1);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (sandbox_socket_is_violated(n) && w->parent)
        session_expel(w->parent);
    loop_watch_free(take_ptr(&w->gate_watch));
    if (n == 1 && word == KERNEL_GATE_STANDS && w->step == FORK_STAND)
        copy_files(child);
}

static void fail_look(struct session *child, const struct error *why)
{
    struct error err = *why;
    if (err.code == ERROR_DENIED) { /* by this host, which cannot show that they are apart */
        err.code = ERROR_ISOLATION;
        error_hint(&err, "forks need groups of processes that can be frozen, and a look at what "
                         "their memory is made of: run as root");
    } else if (err.code == ERROR_ISOLATION) {
        error_hint(&err, "a fork must have nothing that the other session can write to; where no "
                         "code wanted that, open a new session");
    }
    fail(child, &err);
}

static void on_looked(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    (void)fds;
    struct session *child = ctx;
    child->fork.is_looking = false;
    if (m && child->fork.step == FORK_LOOK) {
        child->fork.step = FORK_ADOPT;
        guest_adopt(child->guest, child->fork.pid);
    } else if (child->fork.step == FORK_LOOK) {
        fail_look(child, err);
    }
    session_destroy_if_due(child);
}

static void look(struct session *child)
{
    struct spawn_message m = {.verb = SPAWN_APART, .sandbox = child->sandbox};
    child->fork.step = FORK_LOOK;
    child->fork.is_looking = true;
    spawner_client_ask(child->spawner, &m, on_looked, child);
}

static void on_packed(struct session *parent, int error)
{
    struct session *child = parent->family.child;
    parent->family.is_packing = false;
    if (child)
        on_files_done(child, error);
    else
        open_gate(parent, parent->loop, take_fd(&parent->family.gate_fd));
}

bool fork_on_guest(struct session *s, const struct guest_message *m)
{
    struct error err;
    if (m->verb == GUEST_FILES_DONE && s->family.is_packing) {
        on_packed(s, m->value);
        return true;
    }
    if (s->fork.step == FORK_NONE)
        return false;
    if (m->verb == GUEST_FILES_DONE && s->fork.step == FORK_FILES) {
        on_files_done(s, m->value);
    } else if (m->verb == GUEST_KILLED && s->fork.step == FORK_KILL) {
        guest_keep(s->guest, &s->fork.pid, 0); /* the next kill is for it, too */
        look(s);
    } else if (m->verb == GUEST_ADOPTED && m->value) {
        error_set(&err, ERROR_UNAVAILABLE, "the interpreter ended before it was ready");
        fail(s, &err);
    } else if (m->verb == GUEST_ADOPTED) {
        s->fork.is_adopted = s->kernel_runs = true;
        finish(s);
    } else if (m->verb == GUEST_EXITED && s->fork.is_adopted) {
        return false;
    }
    return true; /* the end of the heir, as it should */
}

/* --- fork ------------------------------------------------------------------------------------ */

static int take_place(struct session *child, struct heir *h, struct error *err)
{
    child->seat = h->seat;
    h->seat = (struct capacity_seat){0};
    child->sandbox = h->sandbox;
    session_set_sealed(child, &h->sealed);
    child->is_warm = true;
    child->generation = 1;
    child->fork.heir_fd = take_fd(&h->channel_fd);
    int control = take_fd(&h->control_fd);
    h->sandbox = 0;
    h->is_sealed = false;
    return guest_open(&child->guest, child->loop, control, session_on_guest, child, err);
}

static int begin(struct session *parent, struct session *child, struct error *err)
{
    int theirs;
    if (sandbox_socket_open(&child->fork.gate_fd, &theirs, err) < 0)
        return error_wrap(err, "the gate");
    const int fds[2] = {theirs, parent->template->copier_fd};
    int status = session_ask_with(parent, KERNEL_FORK, fds, 2, on_parent_answer, parent, err);
    close(theirs);
    return status < 0 ? -1
                      : loop_watch_new(&child->fork.gate_watch, child->loop, child->fork.gate_fd,
                                       LOOP_READ, on_gate, child, err);
}

int session_fork(struct session *parent, struct session **out, const struct session_events *events,
                 void *ctx, struct error *err)
{
    struct heir *h = family_find_heir(parent, err);
    if (!h)
        return -1;
    if (parent->family.is_packing) {
        error_set(err, ERROR_CONFLICT, "files are still being copied for another fork");
        return error_word(err, "session_busy");
    }
    if (parent->info.state != SESSION_READY || parent->work.step)
        return session_refuse(parent, err);
    if (session_check_alone(parent, err) < 0)
        return -1;
    struct session *child =
        session_new(parent->loop, parent->spawner, parent->template, events, ctx);
    if (id_make(ID_SESSION, child->info.id, err) < 0 || begin(parent, child, err) < 0) {
        session_free(child);
        return -1;
    }
    parent->family.child = child;
    child->fork.parent = parent;
    child->fork.step = FORK_STAND;
    session_set_timer(child, 2 * ANSWER_MS, on_late);
    *out = child;
    struct error late;
    if (take_place(child, h, &late) < 0)
        fail(child, &late);
    return 0;
}
