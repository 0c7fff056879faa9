/* checkpoint.c - checkpoints of a session and the way back to them
 *
 * What the kernel and the copies say is content: a lie about a pid spares another process of the
 * same tenant, or has init look for a child that it does not have. That the old interpreter is gone
 * is init's word, and a rollback that cannot be finished leaves a failed session, which a reset or
 * another rollback brings back. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "codec/json.h"
#include "core/session_inside.h"
#include "runtime/sandbox_socket.h"

#define ROLLBACK_MS    30000
#define REPLY_MAX      4096
#define FILES_MS       120000
#define SPARE_DELAY_MS 25
#define PID_LIMIT      (1 << 22)

/* --- the list -------------------------------------------------------------------------------- */

static void keep_copies(struct session *s)
{
    int32_t pids[GUEST_KEEP_MAX];
    size_t count = 0;
    _Static_assert(3 * SESSION_CHECKPOINTS_MAX <= GUEST_KEEP_MAX, "every copy can be kept");
    for (size_t i = 0; i < s->checkpoint_count; i++) {
        const struct checkpoint *c = s->checkpoints[i];
        if (!c->info.is_lost)
            pids[count++] = c->pid;
        if (c->spare)
            pids[count++] = c->spare;
        if (c->dropped)
            pids[count++] = c->dropped;
    }
    if (s->guest)
        guest_keep(s->guest, pids, count);
}

/* Its process ends when its channel does. */
static void let_go(struct checkpoint *c)
{
    loop_watch_free(take_ptr(&c->watch));
    sandbox_socket_close(c->session->loop, &c->fd);
}

static void tell_copy(struct checkpoint *c, char order)
{
    if (c->fd >= 0)
        (void)!fd_send(c->fd, &order, 1, NULL, 0); /* its end is told by the watch */
}

static int32_t take_pid(int32_t *pid)
{
    int32_t taken = *pid;
    *pid = 0;
    return taken;
}

/* The last one that was made or gone back to is likely the next to go back to: it has a fork ready.
 * The others do without. */
static void prepare_spare(struct session *s, struct checkpoint *next)
{
    for (size_t i = 0; i < s->checkpoint_count; i++) {
        struct checkpoint *c = s->checkpoints[i];
        if (c != next && c->spare) {
            tell_copy(c, KERNEL_COPY_DROP);
            c->dropped = take_pid(&c->spare);
        }
    }
    next->owes_spare = !next->info.is_lost;
    next->spare = 0;
    tell_copy(next, KERNEL_COPY_SPARE);
    keep_copies(s);
}

static void on_spare_due(void *ctx)
{
    struct session *s = ctx;
    loop_timer_free(take_ptr(&s->spare_timer));
    if (s->work.step == CHECKPOINT_NONE && !session_is_ending(s))
        prepare_spare(s, s->spare_for);
}

/* Not at once: a fork beside the first execution would slow that down. */
static void plan_spare(struct session *s, struct checkpoint *c)
{
    loop_timer_free(s->spare_timer);
    s->spare_for = c;
    s->spare_timer = loop_timer_new(s->loop, SPARE_DELAY_MS, on_spare_due, s);
}

static bool is_spare_owed(const struct session *s)
{
    for (size_t i = 0; i < s->checkpoint_count; i++) {
        if (s->checkpoints[i]->owes_spare)
            return true;
    }
    return false;
}

static void free_checkpoint(struct checkpoint *c)
{
    if (!c)
        return;
    if (c->session->spare_for == c)
        loop_timer_free(take_ptr(&c->session->spare_timer));
    let_go(c);
    free(c);
}

static struct checkpoint *find(const struct session *s, const char *id)
{
    for (size_t i = s->checkpoint_count; i > 0; i--) { /* of one name, the last is meant */
        struct checkpoint *c = s->checkpoints[i - 1];
        if (strcmp(c->info.id, id) == 0 || (c->info.name[0] && strcmp(c->info.name, id) == 0))
            return c;
    }
    return NULL;
}

/* NULL with *err when there is none. */
static struct checkpoint *get(const struct session *s, const char *id, struct error *err)
{
    struct checkpoint *c = find(s, id);
    if (c)
        return c;
    error_set(err, ERROR_NOT_FOUND, "there is no checkpoint '%.60s'", id);
    error_word(err, "checkpoint_not_found");
    return NULL;
}

const struct checkpoint_info *session_checkpoint_at(const struct session *s, size_t index)
{
    return index < s->checkpoint_count ? &s->checkpoints[index]->info : NULL;
}

/* --- ends ------------------------------------------------------------------------------------ */

static void begin_work(struct session *s, enum checkpoint_step step, struct checkpoint *target,
                       session_checkpoint_fn fn, void *ctx)
{
    loop_timer_free(take_ptr(&s->spare_timer));
    s->work = (struct checkpoint_work){.step = step,
                                       .target = target,
                                       .fn = fn,
                                       .ctx = ctx,
                                       .start_ns = clock_now_ns(),
                                       .state = s->info.state};
}

static void end_work(struct session *s, const struct error *err)
{
    struct checkpoint_work work = s->work;
    if (work.step == CHECKPOINT_NONE)
        return;
    s->work = (struct checkpoint_work){0};
    bool is_new = find(s, work.target->info.id) == NULL;
    work.target->info.took_ms = (double)(clock_now_ns() - work.start_ns) / 1e6;
    if (work.fn)
        work.fn(work.ctx, err ? NULL : &work.target->info, err);
    if (is_new)
        free_checkpoint(work.target);
}

/* Of one that was not saved whole nothing stays; init was not asked for its files yet, or does not
 * answer any more. */
void checkpoint_abort(struct session *s, const struct error *err)
{
    if (s->work.step == CHECKPOINT_WAIT || s->work.step == CHECKPOINT_SAVE) {
        s->checkpoint_count--;
        let_go(s->work.target);
        keep_copies(s);
    }
    end_work(s, err);
}

void checkpoint_free_all(struct session *s)
{
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "the session ended");
    checkpoint_abort(s, &err);
    while (s->checkpoint_count > 0)
        free_checkpoint(s->checkpoints[--s->checkpoint_count]);
}

/* Half a rollback is none: whatever was born is killed. */
static void fail_rollback(struct session *s, const struct error *err)
{
    guest_kill(s->guest);
    session_fail(s, err);
}

/* A copy that does not answer, stopped by the code perhaps, shall not be waited for again. */
static void lose_silent(struct session *s)
{
    for (size_t i = 0; i < s->checkpoint_count; i++) {
        struct checkpoint *c = s->checkpoints[i];
        if (c->owes_spare) {
            let_go(c);
            c->info.is_lost = true;
            c->owes_spare = false;
        }
    }
    keep_copies(s);
}

static void on_rollback_late(void *ctx)
{
    struct error err;
    lose_silent(ctx);
    error_set(&err, ERROR_TIMEOUT, "the rollback was not done within %d s", ROLLBACK_MS / 1000);
    fail_rollback(ctx, &err);
}

static void save(struct session *s);
static void kill_all(struct session *s);

/* --- what a copy says ------------------------------------------------------------------------ */

static void on_spare(struct checkpoint *c, int32_t pid)
{
    struct session *s = c->session;
    c->owes_spare = false;
    c->spare = pid > 1 ? pid : 0;
    keep_copies(s);
    if (is_spare_owed(s))
        return;
    if (s->work.step == CHECKPOINT_WAIT)
        save(s);
    else if (s->work.step == CHECKPOINT_WAIT_BACK)
        kill_all(s);
}

static void lose(struct checkpoint *c)
{
    struct session *s = c->session;
    let_go(c);
    c->info.is_lost = true;
    on_spare(c, 0);
    if (s->work.target == c && s->work.step == CHECKPOINT_BEAR) {
        struct error err;
        error_set(&err, ERROR_UNAVAILABLE, "the checkpoint is lost: its process has ended");
        fail_rollback(s, &err);
    }
}

static void on_copy(void *ctx, unsigned events)
{
    (void)events;
    struct checkpoint *c = ctx;
    struct session *s = c->session;
    struct kernel_copy_answer answer;
    struct error err;
    ssize_t n = sandbox_socket_recv(s->loop, c->fd, &answer, sizeof(answer));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (sandbox_socket_is_violated(n))
        session_expel(s);
    bool is_awaited = s->work.target == c && s->work.step == CHECKPOINT_BEAR;
    if (n == sizeof(answer) && answer.pid == 0 && c->owes_spare) {
        on_spare(c, answer.spare);
        return;
    }
    if (n != sizeof(answer) || !is_awaited || answer.pid == 0 || answer.pid == 1) {
        lose(c);
        return;
    }
    if (answer.pid < 0) {
        errno = -answer.pid;
        error_sys(&err, "fork the checkpoint");
        fail_rollback(s, &err);
        return;
    }
    c->spare = 0; /* if there was one, it is the kernel now */
    keep_copies(s);
    s->work.step = CHECKPOINT_ADOPT;
    guest_adopt(s->guest, answer.pid);
}

/* --- checkpoint ------------------------------------------------------------------------------ */

void checkpoint_explain_files(struct error *err, int error, const char *what)
{
    error_set(err, ERROR_CONFLICT, "%s: %s", what, strerror(error));
    switch (error) {
    case ECHILD:
        error_set(err, ERROR_CONFLICT, "%s: other processes are running", what);
        error_hint(err, "end what the code has started, and wait for it");
        break;
    case ENOSPC:
        error_set(err, ERROR_LIMIT, "%s: the disk is full", what);
        error_hint(err, "delete files or checkpoints, or raise the disk limit");
        break;
    case ELOOP:
        error_set(err, ERROR_CONFLICT, "%s: its folders are nested too deeply", what);
        break;
    default:
        break;
    }
}

/* init does not answer any more: nothing that it keeps can be trusted to be whole. */
static void on_files_late(void *ctx)
{
    struct error err;
    lose_silent(ctx);
    error_set(&err, ERROR_TIMEOUT, "the files were not copied within %d s", FILES_MS / 1000);
    fail_rollback(ctx, &err);
}

/* What the kernel says: {"ok": true, "pid": 17}. */
static int read_pid(int32_t *out, const char *body, size_t len, struct error *err)
{
    scoped_json json_t *value = NULL;
    const struct json_limits limits = {.max_bytes = REPLY_MAX};
    if (json_parse(&value, body, len, &limits, err) < 0)
        return error_wrap(err, "the interpreter's answer");
    json_int_t pid = json_integer_value(json_object_get(value, "pid"));
    if (pid <= 1 || pid >= PID_LIMIT)
        return error_set(err, ERROR_UNAVAILABLE, "the interpreter's answer makes no sense");
    *out = (int32_t)pid;
    return 0;
}

static void refuse(struct session *s, const struct error *why)
{
    struct error err = *why;
    const char *words = strstr(why->msg, ": "); /* the name of an exception says nothing here */
    if (why->code == ERROR_INVALID) {
        error_set(&err, ERROR_CONFLICT, "the session cannot be saved: %.300s",
                  words ? words + 2 : why->msg);
        error_word(&err, "checkpoint_refused");
    }
    end_work(s, &err);
}

static void on_copied(void *ctx, const char *body, size_t len, const struct error *err)
{
    struct session *s = ctx;
    struct error local;
    struct checkpoint *c = s->work.target;
    if (err) {
        refuse(s, err);
        return;
    }
    if (read_pid(&c->pid, body, len, &local) < 0 ||
        loop_watch_new(&c->watch, s->loop, c->fd, LOOP_READ, on_copy, c, &local) < 0) {
        end_work(s, &local);
        return;
    }
    s->work.step = CHECKPOINT_WAIT;
    c->number = ++s->last_number;
    s->checkpoints[s->checkpoint_count++] = c;
    keep_copies(s);
    session_enter(s, SESSION_BUSY);
    session_set_timer(s, FILES_MS, on_files_late);
    if (!is_spare_owed(s))
        save(s);
}

static void save(struct session *s)
{
    s->work.step = CHECKPOINT_SAVE;
    guest_snapshot(s->guest, GUEST_FILES_SAVE, s->work.target->number, s->base_number);
}

static void forget(struct session *s, struct checkpoint *c)
{
    s->work.step = CHECKPOINT_FORGET;
    let_go(c);
    keep_copies(s);
    session_set_timer(s, FILES_MS, on_files_late);
    guest_forget(s->guest, c->number, c->info.is_lost ? 0 : c->pid,
                 c->spare ? c->spare : c->dropped);
}

/* When it failed, what was made goes again, and the session is as it was. */
static void on_saved(struct session *s, int error)
{
    struct checkpoint *c = s->work.target;
    if (s->work.death.msg[0])
        s->work.error = s->work.death;
    else if (error)
        checkpoint_explain_files(&s->work.error, error, "the workspace cannot be saved");
    if (s->work.error.msg[0]) {
        s->checkpoint_count--; /* it is the last one */
        s->work.state = SESSION_READY;
        forget(s, c);
        return;
    }
    s->base_number = c->number;
    plan_spare(s, c);
    session_enter(s, SESSION_READY);
    end_work(s, NULL);
    session_begin_next(s);
}

static int check_room(const struct session *s, struct error *err)
{
    const struct session_template *t = s->template;
    size_t most = t->checkpoint_max ? t->checkpoint_max : SESSION_CHECKPOINTS_DEFAULT;
    if (t->copier_fd < 0 || t->is_plain) {
        error_set(err, ERROR_CONFLICT,
                  "the interpreter of this session cannot be saved, only that of python");
        return error_word(err, "checkpoint_unsupported");
    }
    if (s->checkpoint_count < MIN(most, (size_t)SESSION_CHECKPOINTS_MAX))
        return 0;
    error_set(err, ERROR_LIMIT, "the session has %zu checkpoints already", s->checkpoint_count);
    error_word(err, "too_many_checkpoints");
    return error_hint(err, "delete one of them");
}

int session_checkpoint(struct session *s, const char *name, session_checkpoint_fn fn, void *ctx,
                       struct error *err)
{
    scoped_fd int theirs = -1;
    if (check_room(s, err) < 0 || session_check_alone(s, err) < 0)
        return -1;
    if (name && strlen(name) >= CHECKPOINT_NAME_BYTES)
        return error_set(err, ERROR_INVALID, "the name has more than %d bytes",
                         CHECKPOINT_NAME_BYTES - 1);
    struct checkpoint *c = xcalloc(1, sizeof(*c));
    *c = (struct checkpoint){.session = s, .fd = -1};
    c->info.created_ns = clock_wall_ns();
    snprintf(c->info.name, sizeof(c->info.name), "%s", name ? name : "");
    if (id_make(ID_CHECKPOINT, c->info.id, err) < 0 ||
        session_open_channel(&c->fd, &theirs, err) < 0) {
        free_checkpoint(c);
        return -1;
    }
    const int fds[2] = {theirs, s->template->copier_fd};
    if (session_ask_with(s, KERNEL_CHECKPOINT, fds, 2, on_copied, s, err) < 0) {
        free_checkpoint(c);
        return -1;
    }
    begin_work(s, CHECKPOINT_COPY, c, fn, ctx);
    return 0;
}

/* --- rollback -------------------------------------------------------------------------------- */

static void finish_rollback(struct session *s)
{
    if (!s->work.is_adopted || !s->work.is_ready)
        return;
    s->info.last_used_ns = clock_wall_ns();
    plan_spare(s, s->work.target);
    session_enter(s, SESSION_READY);
    end_work(s, NULL);
    session_tell(s);
    session_begin_next(s);
}

static void bear(struct session *s)
{
    struct error err;
    scoped_fd int ours = -1;
    scoped_fd int theirs = -1;
    struct checkpoint *c = s->work.target;
    const char order = KERNEL_COPY_BEAR;
    s->work.step = CHECKPOINT_BEAR;
    s->generation++;       /* nothing that comes is older */
    if (c->info.is_lost) { /* killed with the others, or meanwhile */
        lose(c);
        return;
    }
    if (session_open_channel(&ours, &theirs, &err) < 0 ||
        session_open_kernel(s, take_fd(&ours), &err) < 0)
        fail_rollback(s, &err);
    else if (fd_send(c->fd, &order, 1, &theirs, 1) < 0)
        lose(c);
}

/* Half restored is no state to run in; another rollback may do better. */
static void on_restored(struct session *s, int error)
{
    struct error err;
    if (error) {
        checkpoint_explain_files(&err, error, "the workspace cannot be restored");
        fail_rollback(s, &err);
        return;
    }
    s->base_number = s->work.target->number;
    session_set_timer(s, ROLLBACK_MS, on_rollback_late);
    bear(s);
}

bool checkpoint_on_ready(struct session *s)
{
    if (s->work.step < CHECKPOINT_BEAR)
        return false;
    s->work.is_ready = true;
    finish_rollback(s);
    return true;
}

static void on_adopted(struct session *s, int error)
{
    struct error err;
    if (error) {
        error_set(&err, ERROR_UNAVAILABLE, "the interpreter ended before it was ready");
        fail_rollback(s, &err);
        return;
    }
    s->work.is_adopted = s->kernel_runs = true;
    finish_rollback(s);
}

static void on_forgotten(struct session *s)
{
    struct error err = s->work.error, death = s->work.death;
    session_enter(s, death.msg[0] ? SESSION_FAILED : s->work.state);
    end_work(s, err.msg[0] ? &err : NULL); /* which frees it: it is in the list no more */
    if (death.msg[0]) {
        guest_kill(s->guest); /* what the interpreter left running */
        session_fail(s, &death);
    }
    session_begin_next(s);
}

/* Half a copy of the workspace would take its room until the sandbox ends. So the worker is ended,
 * which init tells; then the copy is removed, and only then has the session failed. */
bool checkpoint_on_death(struct session *s, const struct error *err)
{
    if (s->work.step != CHECKPOINT_SAVE && s->work.step != CHECKPOINT_FORGET)
        return false;
    if (s->work.death.msg[0] == '\0')
        s->work.death = *err;
    session_drop_kernel(s);
    if (s->work.step == CHECKPOINT_SAVE)
        guest_kill(s->guest);
    return true;
}

bool checkpoint_on_guest(struct session *s, const struct guest_message *m)
{
    enum checkpoint_step step = s->work.step;
    if (m->verb == GUEST_KILLED && step == CHECKPOINT_KILL) {
        session_drop_kernel(s);
        s->work.step = CHECKPOINT_RESTORE;
        session_set_timer(s, FILES_MS, on_files_late);
        guest_snapshot(s->guest, GUEST_FILES_RESTORE, s->work.target->number, 0);
    } else if (m->verb == GUEST_FILES_DONE && step == CHECKPOINT_RESTORE) {
        on_restored(s, m->value);
    } else if (m->verb == GUEST_FILES_DONE && step == CHECKPOINT_SAVE) {
        on_saved(s, m->value);
    } else if (m->verb == GUEST_FILES_DONE && step == CHECKPOINT_FORGET) {
        on_forgotten(s);
    } else if (m->verb == GUEST_ADOPTED && step == CHECKPOINT_ADOPT) {
        on_adopted(s, m->value);
    } else if (m->verb == GUEST_EXITED && step >= CHECKPOINT_WAIT_BACK && !s->work.is_adopted) {
        return true; /* the one before, as it should */
    } else {
        return m->verb == GUEST_KILLED || m->verb == GUEST_ADOPTED;
    }
    return true;
}

static void kill_all(struct session *s)
{
    s->work.step = CHECKPOINT_KILL;
    guest_kill_and_tell(s->guest);
}

/* Nothing is under way, and there is an init to ask. */
static int check_idle(const struct session *s, struct error *err)
{
    bool is_idle = s->info.state == SESSION_READY || s->info.state == SESSION_FAILED;
    if (is_idle && s->guest && s->is_sealed && !s->work.step)
        return 0;
    return session_refuse(s, err);
}

int session_rollback(struct session *s, const char *checkpoint, session_checkpoint_fn fn, void *ctx,
                     struct error *err)
{
    if (check_idle(s, err) < 0)
        return -1;
    struct checkpoint *c = get(s, checkpoint, err);
    if (!c)
        return -1;
    if (c->info.is_lost) {
        error_set(err, ERROR_UNAVAILABLE, "the checkpoint is lost: its process has ended");
        return error_word(err, "checkpoint_lost");
    }
    begin_work(s, CHECKPOINT_WAIT_BACK, c, fn, ctx);
    session_enter(s, SESSION_CREATING);
    session_end_terminals(s, "the session went back to a checkpoint");
    session_end_errands(s, "the session went back to a checkpoint");
    session_set_timer(s, ROLLBACK_MS, on_rollback_late);
    if (!is_spare_owed(s))
        kill_all(s);
    return 0;
}

/* --- delete ---------------------------------------------------------------------------------- */

int session_drop_checkpoint(struct session *s, const char *checkpoint, session_checkpoint_fn fn,
                            void *ctx, struct error *err)
{
    if (check_idle(s, err) < 0)
        return -1;
    struct checkpoint *c = get(s, checkpoint, err);
    if (!c)
        return -1;
    size_t at = 0;
    while (s->checkpoints[at] != c)
        at++;
    s->checkpoint_count--;
    memmove(&s->checkpoints[at], &s->checkpoints[at + 1],
            (s->checkpoint_count - at) * sizeof(struct checkpoint *));
    begin_work(s, CHECKPOINT_FORGET, c, fn, ctx);
    session_enter(s, SESSION_BUSY);
    forget(s, c);
    return 0;
}
