/* test_checkpoint.c - checkpoints whose copies are played by the test */
/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

#define COPY_PID   7 /* inside */
#define KERNEL_PID 9 /* of what the copy bears */

/* What the caller was told. */
struct told {
    unsigned calls;
    char id[ID_BYTES];
    struct error error; /* msg "": none */
};

static void on_done(void *ctx, const struct checkpoint_info *info, const struct error *err)
{
    struct told *told = ctx;
    told->calls++;
    told->error = err ? *err : (struct error){.msg = ""};
    if (info)
        memcpy(told->id, info->id, sizeof(told->id));
}

static void open_with_copier(struct world *w)
{
    world_init(w);
    w->template.copier_fd = memfd_create("copier", MFD_CLOEXEC);
    world_open_sealed(w);
    world_become_ready(w);
}

static void close_with_copier(struct world *w)
{
    close(w->template.copier_fd);
    world_close(w);
}

/* Asks for one; the kernel hears it. w->given[0] is the copy's end of its channel. */
static uint32_t begin(struct world *w, struct told *told)
{
    struct error err;
    *told = (struct told){0};
    assert_int_equal(session_checkpoint(w->session, "name", on_done, told, &err), 0);
    return world_hear(w, KERNEL_CHECKPOINT);
}

/* The kernel has copied itself, and init is asked for the files. */
static void copy(struct world *w, uint32_t generation)
{
    char words[64];
    int len = snprintf(words, sizeof(words), "{\"ok\": true, \"pid\": %d}", COPY_PID);
    world_say(w, KERNEL_REPLY, 0, generation, words, (size_t)len);
    world_say_done(w, generation, 0);
    world_assert_state(w, SESSION_BUSY);
    world_expect_init(w, GUEST_FILES, GUEST_FILES_SAVE);
}

static void checkpoint(struct world *w, struct told *told)
{
    copy(w, begin(w, told));
    world_init_says(w, GUEST_FILES_DONE, 0, 0, 0);
    assert_int_equal(told->calls, 1);
    assert_string_equal(told->error.msg, "");
    world_assert_state(w, SESSION_READY);
}

/* The next order to the copy; a kernel's channel that comes with it is the world's from now on. */
static char copy_hears(struct world *w)
{
    char order = 0;
    int fds[FD_PASS_MAX];
    size_t count;
    assert_int_equal(fd_set_nonblock(w->given[0]), 0);
    if (fd_recv(w->given[0], &order, 1, fds, &count) <= 0)
        return 0;
    if (count == 1) {
        scoped_close_fd(&w->channel);
        w->channel = fds[0];
    }
    return order;
}

static void copy_says(struct world *w, int32_t pid, int32_t spare)
{
    const struct kernel_copy_answer answer = {.pid = pid, .spare = spare};
    assert_int_equal(send(w->given[0], &answer, sizeof(answer), MSG_NOSIGNAL), sizeof(answer));
    world_settle(w);
}

static void begin_rollback(struct world *w, struct told *told)
{
    struct error err;
    char id[ID_BYTES];
    memcpy(id, told->id, sizeof(id));
    *told = (struct told){0};
    assert_int_equal(session_rollback(w->session, id, on_done, told, &err), 0);
    world_assert_state(w, SESSION_CREATING);
    world_expect_init(w, GUEST_KILL, 0);
}

static void test_rollback(void **state)
{
    (void)state;
    struct world w;
    struct told told;
    open_with_copier(&w);
    checkpoint(&w, &told);
    begin_rollback(&w, &told);
    world_init_says(&w, GUEST_EXITED, 0, 0, SIGKILL); /* the one before, as it should */
    world_init_says(&w, GUEST_KILLED, 0, 0, 0);
    world_expect_init(&w, GUEST_FILES, GUEST_FILES_RESTORE);
    world_init_says(&w, GUEST_FILES_DONE, 0, 0, 0);
    assert_int_equal(copy_hears(&w), KERNEL_COPY_BEAR);
    copy_says(&w, KERNEL_PID, 0);
    world_expect_init(&w, GUEST_ADOPT, KERNEL_PID);
    world_say(&w, KERNEL_READY, 0, 0, "{}", 2);
    assert_int_equal(told.calls, 0);
    world_init_says(&w, GUEST_ADOPTED, 0, 0, 0);
    assert_int_equal(told.calls, 1);
    assert_string_equal(told.error.msg, "");
    world_assert_state(&w, SESSION_READY);
    world_advance(&w, 25);
    assert_int_equal(copy_hears(&w), KERNEL_COPY_SPARE); /* for the next time */
    close_with_copier(&w);
}

/* At whichever step it is closed: the caller is told once, and it ends. */
static void test_close(void **state)
{
    (void)state;
    for (int step = 0; step < 5; step++) {
        struct world w;
        struct told told;
        open_with_copier(&w);
        uint32_t generation = begin(&w, &told);
        if (step > 0)
            copy(&w, generation);
        if (step > 1) {
            world_init_says(&w, GUEST_FILES_DONE, 0, 0, 0);
            begin_rollback(&w, &told);
        }
        if (step > 2)
            world_init_says(&w, GUEST_KILLED, 0, 0, 0);
        if (step > 3)
            world_init_says(&w, GUEST_FILES_DONE, 0, 0, 0);
        session_close(w.session);
        if (step == 0)
            world_say_done(&w, generation, 0);
        else if (step == 1 || step == 3)
            world_init_says(&w, GUEST_FILES_DONE, 0, 0, 0);
        else if (step == 2)
            world_init_says(&w, GUEST_KILLED, 0, 0, 0);
        else
            copy_says(&w, KERNEL_PID, 0);
        world_assert_state(&w, SESSION_TERMINATING);
        close_with_copier(&w);
        assert_int_equal(told.calls, 1);
        assert_int_equal(told.error.code, ERROR_UNAVAILABLE);
    }
}

/* A copy that cannot be kept leaves nothing behind, and the session as it was. */
static void test_full(void **state)
{
    (void)state;
    struct world w;
    struct told told;
    open_with_copier(&w);
    copy(&w, begin(&w, &told));
    world_init_says(&w, GUEST_FILES_DONE, ENOSPC, 0, 0);
    world_expect_init(&w, GUEST_FILES, GUEST_FILES_FORGET);
    world_init_says(&w, GUEST_FILES_DONE, 0, 0, 0);
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.error.code, ERROR_LIMIT);
    assert_null(session_checkpoint_at(w.session, 0));
    world_assert_state(&w, SESSION_READY);
    close_with_copier(&w);
}

static void test_spawner_gone(void **state)
{
    (void)state;
    struct world w;
    struct told told;
    open_with_copier(&w);
    copy(&w, begin(&w, &told));
    session_on_event(w.session, NULL);
    assert_int_equal(told.calls, 1);
    world_assert_state(&w, SESSION_TERMINATED);
    close_with_copier(&w);
    assert_int_equal(told.calls, 1);
}

int main(void)
{
    struct check check = {.count = 0};
    signal(SIGPIPE, SIG_IGN);
    check_one(&check, "a checkpoint, and the way back, step by step", test_rollback);
    check_one(&check, "a close at any step", test_close);
    check_one(&check, "a workspace that does not fit twice", test_full);
    check_one(&check, "without a spawner all ends", test_spawner_gone);
    return check_run(&check, "checkpoint");
}
