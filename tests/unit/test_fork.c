/* test_fork.c - a session with heirs, and what can happen while it is forked */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/terminal.h"
#include "world.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

#define ZYGOTE 9
#define BROOD  20
#define HEIR   6
#define PID    7 /* of the fork, inside */

/* Two worlds with one loop and one spawner: that of the first. */
struct family_world {
    struct world parent;
    struct world child;
    int heir; /* the sleeping process' end of its channel */
};

static void tell(struct family_world *f, enum spawn_verb verb, uint64_t sandbox)
{
    struct spawn_message m = {.verb = (uint16_t)verb, .sandbox = sandbox};
    session_on_event(f->parent.session, &m);
    if (f->child.session)
        session_on_event(f->child.session, &m);
}

/* A sandbox with a kernel in it: ends of the control socket and of the channel. */
static void reply_create(struct family_world *f, uint64_t sandbox, int *init, int *channel)
{
    struct spawn_message m = {.verb = SPAWN_CREATE, .flags = SPAWN_REPLY, .sandbox = sandbox};
    int control[2], frames[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, frames), 0);
    const int fds[] = {control[0], frames[0]};
    *init = control[1];
    *channel = frames[1];
    stage_reply(&f->parent.spawner, SPAWN_CREATE, &m, fds, 2);
}

static void begin_family_in(struct family_world *f, struct capacity *capacity)
{
    struct error err;
    struct world *w = &f->parent;
    struct spawn_message brood = {.verb = SPAWN_BROOD, .flags = SPAWN_REPLY, .sandbox = BROOD};
    world_init(w);
    f->heir = -1;
    f->child = (struct world){.loop = w->loop, .init = -1, .channel = -1};
    strbuf_init(&f->child.states, 4 * KIB);
    w->template.zygote = ZYGOTE;
    w->template.forks = 1;
    w->template.capacity = capacity;
    w->template.copier_fd = memfd_create("copier", MFD_CLOEXEC);
    assert_int_equal(session_open(&w->session, w->loop, &w->spawner, &w->template,
                                  &world_session_events, w, &err),
                     0);
    assert_false(world_is_asked(w, SPAWN_CREATE));
    world_reply_with(w, SPAWN_BROOD, &brood, -1);
    tell(f, SPAWN_SEALED, BROOD);
}

static void begin_family(struct family_world *f)
{
    begin_family_in(f, NULL);
}

static void open_family_in(struct family_world *f, struct capacity *capacity)
{
    struct world *w = &f->parent;
    begin_family_in(f, capacity);
    reply_create(f, WORLD_SANDBOX, &w->init, &w->channel);
    reply_create(f, HEIR, &f->child.init, &f->heir);
    tell(f, SPAWN_SEALED, WORLD_SANDBOX);
    assert_false(world_is_asked(w, SPAWN_DESTROY));
    tell(f, SPAWN_SEALED, HEIR);
    world_reply(w, SPAWN_DESTROY, (struct spawn_stats){0}); /* the brood has done its part */
    world_say(w, KERNEL_READY, 0, 0, "{}", 2);
    world_assert_state(w, SESSION_READY);
}

static void open_family(struct family_world *f)
{
    open_family_in(f, NULL);
}

static void release_family(struct family_world *f)
{
    struct world *w = &f->parent;
    int copier = w->template.copier_fd;
    scoped_close_fd(&f->heir);
    scoped_close_fd(&f->child.init);
    scoped_close_fd(&f->child.channel);
    scoped_close_fd(&copier);
    strbuf_release(&f->child.states);
}

static void close_family(struct family_world *f)
{
    struct world *w = &f->parent;
    if (f->child.session) {
        session_close(f->child.session);
        while (world_is_asked(w, SPAWN_DESTROY))
            world_reply(w, SPAWN_DESTROY, (struct spawn_stats){0});
        world_advance(w, 1);
        world_assert_state(&f->child, SESSION_TERMINATED);
        session_free(take_ptr(&f->child.session));
    }
    release_family(f);
    world_close(w);
}

/* Asks for the fork; the interpreter hears of it. */
static uint32_t begin_fork(struct family_world *f)
{
    struct error err;
    assert_int_equal(
        session_fork(f->parent.session, &f->child.session, &world_session_events, &f->child, &err),
        0);
    world_assert_state(&f->parent, SESSION_BUSY);
    world_assert_state(&f->child, SESSION_CREATING);
    return world_hear(&f->parent, KERNEL_FORK);
}

static void stand(struct family_world *f)
{
    const char word = KERNEL_GATE_STANDS;
    assert_int_equal(send(f->parent.given[0], &word, 1, MSG_NOSIGNAL), 1);
    world_settle(&f->parent);
}

static void begin_files(struct family_world *f)
{
    stand(f);
    world_expect_init(&f->parent, GUEST_FILES, GUEST_FILES_PACK);
    world_expect_init(&f->child, GUEST_FILES, GUEST_FILES_UNPACK);
}

static bool is_gate_open(struct family_world *f)
{
    char word;
    ssize_t n = recv(f->parent.given[0], &word, 1, MSG_DONTWAIT);
    assert_true(n != 1 || word == KERNEL_GATE_OPEN);
    return n >= 0 || errno != EAGAIN; /* its end says the same, and so does a reset */
}

/* The heir is woken, and gets the channel of the kernel to be. */
static void wake(struct family_world *f)
{
    char order;
    int fds[FD_PASS_MAX];
    size_t count;
    assert_int_equal(fd_recv(f->heir, &order, 1, fds, &count), 1);
    assert_int_equal(order, KERNEL_COPY_BEAR);
    assert_int_equal(count, 1);
    f->child.channel = fds[0];
}

static void bear(struct family_world *f)
{
    const struct kernel_copy_answer answer = {.pid = PID};
    wake(f);
    assert_int_equal(send(f->heir, &answer, sizeof(answer), MSG_NOSIGNAL), sizeof(answer));
    world_settle(&f->parent);
}

/* The heir is killed, its fork is seen to be on its own, is adopted and speaks. */
static void adopt(struct family_world *f)
{
    world_init_says(&f->child, GUEST_KILLED, 0, 0, 0);
    world_reply(&f->parent, SPAWN_APART, (struct spawn_stats){0});
    world_expect_init(&f->child, GUEST_ADOPT, PID);
    world_init_says(&f->child, GUEST_ADOPTED, 0, 0, 0);
    world_assert_state(&f->child, SESSION_CREATING);
    world_say(&f->child, KERNEL_READY, 0, 0, "{}", 2);
}

static void test_fork(void **state)
{
    (void)state;
    struct family_world f;
    open_family(&f);
    uint32_t generation = begin_fork(&f);
    begin_files(&f);
    world_init_says(&f.parent, GUEST_FILES_DONE, 0, 0, 0);
    assert_false(is_gate_open(&f));
    world_init_says(&f.child, GUEST_FILES_DONE, 0, 0, 0);
    assert_false(is_gate_open(&f));
    bear(&f);
    assert_true(is_gate_open(&f));
    world_expect_init(&f.child, GUEST_KILL, 1);
    assert_false(world_is_asked(&f.parent, SPAWN_APART));
    adopt(&f);
    world_assert_state(&f.child, SESSION_CREATING);
    world_say_done(&f.parent, generation, 0);
    assert_string_equal(strbuf_str(&f.child.states), "ready ");
    assert_string_equal(strbuf_str(&f.parent.states), "ready ");
    world_assert_state(&f.parent, SESSION_READY);
    close_family(&f);
}

static uint32_t bring_to_birth(struct family_world *f)
{
    open_family(f);
    uint32_t generation = begin_fork(f);
    begin_files(f);
    world_init_says(&f->parent, GUEST_FILES_DONE, 0, 0, 0);
    world_init_says(&f->child, GUEST_FILES_DONE, 0, 0, 0);
    bear(f);
    world_expect_init(&f->child, GUEST_KILL, 1);
    return generation;
}

static void test_parent_goes_on_first(void **state)
{
    (void)state;
    struct family_world f;
    uint32_t generation = bring_to_birth(&f);
    world_say_done(&f.parent, generation, 0);
    world_assert_state(&f.parent, SESSION_READY);
    world_assert_state(&f.child, SESSION_CREATING);
    adopt(&f);
    assert_string_equal(strbuf_str(&f.child.states), "ready ");
    close_family(&f);
}

/* What becomes of the other, once all of the fork is there, is nothing to it. */
static void die(struct family_world *f)
{
    world_kernel_dies(&f->parent, 0, SIGKILL);
    world_assert_state(&f->parent, SESSION_FAILED);
}

static void be_silent(struct family_world *f)
{
    world_advance(&f->parent, 4999);
    world_assert_state(&f->child, SESSION_CREATING);
    world_advance(&f->parent, 1);
}

static void be_reset(struct family_world *f)
{
    struct error err;
    assert_int_equal(session_reset(f->parent.session, &err), 0);
}

static void be_closed(struct family_world *f)
{
    session_close(f->parent.session);
    while (world_is_asked(&f->parent, SPAWN_DESTROY))
        world_reply(&f->parent, SPAWN_DESTROY, (struct spawn_stats){0});
    world_assert_state(&f->parent, SESSION_TERMINATED);
}

struct loss_case {
    const char *name;
    void (*lose)(struct family_world *f);
};

static const struct loss_case loss_cases[] = {
    {"a fork is ready although the interpreter that it comes from has died", die},
    {"a fork is ready although the interpreter that it comes from is silent", be_silent},
    {"a fork is ready although the session that it comes from is reset", be_reset},
    {"a fork is ready although the session that it comes from is closed", be_closed},
};

static void test_loss(void **state)
{
    const struct loss_case *c = *state;
    struct family_world f;
    bring_to_birth(&f);
    adopt(&f);
    c->lose(&f);
    assert_string_equal(strbuf_str(&f.child.states), "ready ");
    close_family(&f);
}

static void test_born_and_let_go(void **state)
{
    (void)state;
    struct family_world f;
    struct session_record record;
    bring_to_birth(&f);
    adopt(&f);
    session_detach(take_ptr(&f.parent.session), &record);
    world_assert_state(&f.child, SESSION_CREATING);
    world_advance(&f.parent, 1);
    assert_string_equal(strbuf_str(&f.child.states), "ready ");
    session_close(f.child.session);
    world_reply(&f.parent, SPAWN_DESTROY, (struct spawn_stats){0});
    session_free(f.child.session);
    release_family(&f);
    world_release(&f.parent);
}

/* The end of the packing is no answer to what is asked next: until then the interpreter stands. */
static void test_closed_while_packing(void **state)
{
    (void)state;
    struct family_world f;
    open_family(&f);
    uint32_t generation = begin_fork(&f);
    begin_files(&f);
    session_close(f.child.session);
    assert_false(is_gate_open(&f));
    world_assert_state(&f.parent, SESSION_BUSY);
    world_init_says(&f.parent, GUEST_FILES_DONE, EPIPE, 0, 0);
    assert_true(is_gate_open(&f));
    world_say_done(&f.parent, generation, 0);
    world_assert_state(&f.parent, SESSION_READY);
    close_family(&f);
}

/* The same when the copy fails inside of the fork. */
static void test_unpacking_fails(void **state)
{
    (void)state;
    struct family_world f;
    open_family(&f);
    uint32_t generation = begin_fork(&f);
    begin_files(&f);
    world_init_says(&f.child, GUEST_FILES_DONE, ENOSPC, 0, 0);
    world_assert_state(&f.child, SESSION_CREATING);
    world_init_says(&f.parent, GUEST_FILES_DONE, EPIPE, 0, 0);
    world_assert_state(&f.child, SESSION_FAILED);
    assert_int_equal(session_info(f.child.session)->error.code, ERROR_LIMIT);
    assert_true(is_gate_open(&f));
    world_say_done(&f.parent, generation, 0);
    world_assert_state(&f.parent, SESSION_READY);
    close_family(&f);
}

/* A packing that never ends does not hold the first one for ever. */
static void test_packing_never_ends(void **state)
{
    (void)state;
    struct family_world f;
    open_family(&f);
    begin_fork(&f);
    begin_files(&f);
    world_advance(&f.parent, 120000);
    world_assert_state(&f.child, SESSION_FAILED);
    assert_int_equal(session_info(f.child.session)->error.code, ERROR_TIMEOUT);
    assert_false(is_gate_open(&f));
    world_advance(&f.parent, 5000);
    assert_true(is_gate_open(&f));
    world_advance(&f.parent, 5000);
    world_expect_init(&f.parent, GUEST_SIGNAL, SIGINT); /* it owes an answer, as ever */
    close_family(&f);
}

/* Its steps and those of a reset would get in each other's way. */
static void test_reset_of_half_a_fork(void **state)
{
    (void)state;
    struct family_world f;
    struct error err;
    open_family(&f);
    begin_fork(&f);
    assert_int_equal(session_reset(f.child.session, &err), -1);
    assert_int_equal(err.code, ERROR_CONFLICT);
    begin_files(&f);
    assert_int_equal(session_reset(f.child.session, &err), -1);
    close_family(&f);
}

static void test_parent_dies(void **state)
{
    (void)state;
    struct family_world f;
    open_family(&f);
    begin_fork(&f);
    begin_files(&f);
    world_kernel_dies(&f.parent, 0, SIGKILL);
    world_assert_state(&f.parent, SESSION_FAILED);
    world_assert_state(&f.child, SESSION_FAILED);
    close_family(&f);
}

/* Let go of for another host, it lives on, and its interpreter may say what it was asked. */
static void test_parent_let_go(void **state)
{
    (void)state;
    struct family_world f;
    struct session_record record;
    open_family(&f);
    begin_fork(&f);
    session_detach(take_ptr(&f.parent.session), &record);
    stand(&f);
    world_advance(&f.parent, 1);
    world_assert_state(&f.child, SESSION_FAILED);
    assert_true(is_gate_open(&f));
    session_close(f.child.session);
    world_reply(&f.parent, SPAWN_DESTROY, (struct spawn_stats){0});
    session_free(f.child.session);
    release_family(&f);
    world_release(&f.parent);
}

/* Nobody could use its heirs any more. */
static void test_heirs_of_one_let_go(void **state)
{
    (void)state;
    struct family_world f;
    struct session_record record;
    open_family(&f);
    session_detach(take_ptr(&f.parent.session), &record);
    assert_int_equal(f.parent.spawner.count, 1);
    assert_int_equal(f.parent.spawner.asks[0].m.verb, SPAWN_DESTROY);
    assert_int_equal(f.parent.spawner.asks[0].m.sandbox, HEIR);
    release_family(&f);
    world_release(&f.parent);
}

/* Freed with its spawner gone, it asks that for nothing. */
static void test_freed_without_spawner(void **state)
{
    (void)state;
    struct family_world f;
    open_family(&f);
    session_free(take_ptr(&f.parent.session));
    assert_int_equal(f.parent.spawner.count, 0);
    release_family(&f);
    world_release(&f.parent);
}

static void test_spawner_gone(void **state)
{
    (void)state;
    for (int step = 0; step < 4; step++) {
        struct family_world f;
        open_family(&f);
        begin_fork(&f);
        if (step > 0)
            begin_files(&f);
        if (step > 1) {
            world_init_says(&f.parent, GUEST_FILES_DONE, 0, 0, 0);
            world_init_says(&f.child, GUEST_FILES_DONE, 0, 0, 0);
        }
        if (step > 2) {
            bear(&f);
            world_init_says(&f.child, GUEST_KILLED, 0, 0, 0);
            world_reply_with(&f.parent, SPAWN_APART, NULL, -1);
            world_assert_state(&f.child, SESSION_FAILED);
        }
        session_on_event(f.child.session, NULL);
        session_on_event(f.parent.session, NULL);
        world_assert_state(&f.child, SESSION_TERMINATED);
        world_assert_state(&f.parent, SESSION_TERMINATED);
        close_family(&f);
    }
}

/* What was asked of a brood that is no more is refused, and that is told once. */
static void test_brood_dies(void **state)
{
    (void)state;
    struct family_world f;
    begin_family(&f);
    tell(&f, SPAWN_EXITED, BROOD);
    world_assert_state(&f.parent, SESSION_CREATING);
    world_reply_with(&f.parent, SPAWN_CREATE, NULL, -1);
    world_reply_with(&f.parent, SPAWN_CREATE, NULL, -1);
    assert_string_equal(strbuf_str(&f.parent.states), "failed ");
    close_family(&f);
}

static uint64_t count_seats(const struct capacity *capacity)
{
    struct capacity_info info;
    capacity_get_info(capacity, &info);
    return info.live;
}

/* An heir is a sandbox like any other, from its making on; to become a fork costs no more. */
static void test_seats(void **state)
{
    (void)state;
    struct family_world f;
    struct capacity *capacity;
    struct error err;
    const struct capacity_order order = {.max_sandboxes = 2};
    assert_int_equal(capacity_open(&capacity, &order, &err), 0);
    open_family_in(&f, capacity);
    assert_int_equal(count_seats(capacity), 2);
    begin_fork(&f);
    assert_int_equal(count_seats(capacity), 2);
    session_close(f.child.session);
    world_reply(&f.parent, SPAWN_DESTROY, (struct spawn_stats){0});
    assert_int_equal(count_seats(capacity), 1);
    close_family(&f);
    assert_int_equal(count_seats(capacity), 0);
    open_family_in(&f, capacity);
    tell(&f, SPAWN_EXITED, HEIR); /* unused */
    assert_int_equal(count_seats(capacity), 1);
    close_family(&f);
    capacity_free(capacity);
}

static void test_no_seats(void **state)
{
    (void)state;
    struct world w;
    struct capacity *capacity;
    struct error err;
    const struct capacity_order order = {.max_sandboxes = 2};
    assert_int_equal(capacity_open(&capacity, &order, &err), 0);
    world_init(&w);
    w.template.zygote = ZYGOTE;
    w.template.forks = 2;
    w.template.capacity = capacity;
    assert_int_equal(
        session_open(&w.session, w.loop, &w.spawner, &w.template, &world_session_events, &w, &err),
        -1);
    assert_int_equal(err.code, ERROR_LIMIT);
    assert_int_equal(w.spawner.count, 0);
    assert_int_equal(count_seats(capacity), 0);
    world_release(&w);
    capacity_free(capacity);
}

static void on_terminal(void *ctx)
{
    (void)ctx;
}

static void on_terminal_ended(void *ctx, const struct terminal_end *end)
{
    (void)ctx, (void)end;
}

/* What is typed into it would change what is copied. */
static void test_terminal(void **state)
{
    (void)state;
    static const struct terminal_events events = {.started = on_terminal,
                                                  .ended = on_terminal_ended};
    const struct terminal_order order = {
        .kind = "vt100", .columns = 80, .rows = 24, .events = &events};
    struct family_world f;
    struct terminal *terminal;
    struct error err;
    open_family(&f);
    assert_int_equal(terminal_open(&terminal, f.parent.session, &order, &err), 0);
    world_expect_init(&f.parent, GUEST_TERMINAL, 80 << 16 | 24);
    assert_int_equal(
        session_fork(f.parent.session, &f.child.session, &world_session_events, &f.child, &err),
        -1);
    assert_string_equal(err.word, "terminal_open");
    terminal_close(terminal);
    begin_fork(&f);
    assert_int_equal(terminal_open(&terminal, f.parent.session, &order, &err), -1);
    assert_int_equal(err.code, ERROR_CONFLICT);
    close_family(&f);
}

int main(void)
{
    struct check check = {.count = 0};
    signal(SIGPIPE, SIG_IGN);
    check_one(&check, "a fork, step by step", test_fork);
    check_one(&check, "a fork whose parent goes on first", test_parent_goes_on_first);
    check_rows(&check, loss_cases, test_loss);
    check_one(&check, "a fork is ready although another host has the session that it comes from",
              test_born_and_let_go);
    check_one(&check, "no fork beside a terminal, and no terminal beside a fork", test_terminal);
    check_one(&check, "a fork that is closed while files are packed", test_closed_while_packing);
    check_one(&check, "a fork whose files do not fit", test_unpacking_fails);
    check_one(&check, "a packing that never ends", test_packing_never_ends);
    check_one(&check, "half a fork cannot be reset", test_reset_of_half_a_fork);
    check_one(&check, "a fork of one that dies", test_parent_dies);
    check_one(&check, "a fork of one that is let go of", test_parent_let_go);
    check_one(&check, "heirs go when their session is let go of", test_heirs_of_one_let_go);
    check_one(&check, "one that is freed asks nobody", test_freed_without_spawner);
    check_one(&check, "without a spawner a fork ends at any step", test_spawner_gone);
    check_one(&check, "a brood that dies in the making is told once", test_brood_dies);
    check_one(&check, "an heir has a seat, which its fork takes over", test_seats);
    check_one(&check, "without seats for its heirs it is refused", test_no_seats);
    return check_run(&check, "fork");
}
