/* test_attach.c - the sessions of another host, and what the next one needs */
/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/output_file.h"

#define KNOWN 7 /* the last request that was written down */

static void begin_attach_to(struct world *w, struct session_record record,
                            struct capacity *capacity)
{
    struct error err;
    world_init(w);
    w->template.capacity = capacity;
    struct world_request *r = &w->requests[w->request_count++];
    *r = (struct world_request){.w = w};
    r->cell = (struct cell_request){.stdin_fd = -1, .timeout_ms = 1000, .output_bytes = 1000};
    const struct session_resumption resumption = {
        .request = &r->cell, .events = &world_streamed_events, .ctx = r};
    record.execution.start_ns = clock_now_ns();
    record.execution.told_results = 1;
    assert_int_equal(session_attach(&w->session, w->loop, &w->spawner, &w->template, &record,
                                    &resumption, &world_session_events, w, &err),
                     0);
    world_assert_state(w, SESSION_CREATING);
}

static void begin_attach_at(struct world *w, uint32_t last, bool has_execution,
                            struct capacity *capacity)
{
    begin_attach_to(w,
                    (struct session_record){.id = "ses_other",
                                            .sandbox = WORLD_SANDBOX,
                                            .generation = last,
                                            .has_execution = has_execution,
                                            .execution = {.generation = KNOWN}},
                    capacity);
}

static void begin_attach(struct world *w, bool has_execution)
{
    begin_attach_at(w, KNOWN, has_execution, NULL);
}

/* The spawner gives its fds back; those of the output are fresh. */
static void give_back(struct world *w, bool has_channel, bool has_output)
{
    struct error err;
    struct spawn_message m = {.verb = SPAWN_TAKE, .flags = SPAWN_REPLY, .sandbox = WORLD_SANDBOX};
    struct output_file file;
    int fds[6], pair[2], count = 0;
    m.entry.state = SPAWN_IS_LIVE;
    m.entry.counts[0] = has_channel;
    m.entry.counts[1] = has_output ? 4 : 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    fds[count++] = pair[0];
    w->init = pair[1];
    if (has_channel) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        fds[count++] = pair[0];
        w->channel = pair[1];
    }
    for (int i = 1; has_output && i < 3; i++) {
        assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
        assert_int_equal(output_file_open(&file, 1000, &err), 0);
        assert_true(output_file_add(&file, "before ", 7));
        fds[count++] = pair[0];
        fds[count++] = file.fd;
        w->cell[i] = pair[1];
    }
    stage_reply(&w->spawner, SPAWN_TAKE, &m, fds, (size_t)count);
    world_reply(w, SPAWN_THAW, (struct spawn_stats){0});
    world_expect_init(w, GUEST_TELL, 0);
    if (has_channel)
        world_hear(w, KERNEL_SYNC);
}

static void test_attach_idle(void **state)
{
    (void)state;
    struct world w;
    begin_attach(&w, false);
    give_back(&w, true, false);
    world_say(&w, KERNEL_DATA, KERNEL_FIRST, KNOWN + 1, "text/plain\0x",
              12); /* the end of a question */
    world_say_done(&w, KNOWN + 1, 0);
    world_init_says(&w, GUEST_EXITED, 0, 1, 0); /* of a kernel before a reset */
    world_init_says(&w, GUEST_TOLD, 1, 1, 0);
    world_assert_state(&w, SESSION_CREATING);
    world_say(&w, KERNEL_SYNCED, 0, KNOWN + 1, "", 0);
    world_assert_state(&w, SESSION_READY);
    assert_string_equal(session_info(w.session)->id, "ses_other");
    world_say(&w, KERNEL_DATA, KERNEL_FIRST, KNOWN + 1, "text/plain\0x", 12);
    world_say_done(&w, KNOWN + 1, 0);
    assert_int_equal(world_execute(&w), KNOWN + 2);
    world_say_done(&w, KNOWN + 2, 0);
    assert_int_equal(world_last_ended(&w, 1)->state, EXECUTION_COMPLETED);
    world_close(&w);
}

static void test_attach_busy(void **state)
{
    (void)state;
    struct world w;
    begin_attach(&w, true);
    give_back(&w, true, true);
    world_assert_state(&w, SESSION_BUSY);
    world_init_says(&w, GUEST_TOLD, 1, 0, 0);
    world_say(&w, KERNEL_ERROR, 0, KNOWN, "{}", 2); /* all this comes again */
    world_say_done(&w, KNOWN, 3);
    world_assert_state(&w, SESSION_BUSY);
    assert_int_equal(write(w.cell[1], "after", 5), 5);
    world_say(&w, KERNEL_SYNCED, 0, KNOWN, "", 0);
    world_say(&w, KERNEL_ERROR, 0, KNOWN, "{}", 2);
    world_show(&w, KERNEL_FIRST | KERNEL_LAST, KNOWN, "told before");
    world_show(&w, KERNEL_FIRST | KERNEL_LAST, KNOWN, "new");
    world_say(&w, KERNEL_SYNCED, 0, KNOWN, "", 0); /* a host in between had asked, too */
    world_show(&w, KERNEL_FIRST | KERNEL_LAST, KNOWN, "told before");
    world_show(&w, KERNEL_FIRST | KERNEL_LAST, KNOWN, "new");
    world_say(&w, KERNEL_DATA, KERNEL_FIRST | KERNEL_MAIN, KNOWN, "text/plain\0002", 12);
    world_say_done(&w, KNOWN, 0);
    const struct world_ended *e = world_last_ended(&w, 1);
    assert_int_equal(e->state, EXECUTION_COMPLETED);
    assert_string_equal(e->out, "before after");
    assert_true(e->has_results);
    assert_non_null(strstr(w.told, "=new "));
    assert_null(strstr(strstr(w.told, "=new ") + 1, "=new "));
    assert_null(strstr(w.told, "told before"));
    assert_true(world_is_asked(&w, SPAWN_KEEP)); /* its output is of no use any more */
    world_assert_state(&w, SESSION_READY);
    world_close(&w);
}

static void test_attach_not_begun(void **state)
{
    (void)state;
    struct world w;
    begin_attach(&w, true);
    give_back(&w, true, false);
    world_init_says(&w, GUEST_TOLD, 1, 0, 0);
    world_say(&w, KERNEL_SYNCED, 0, KNOWN - 1, "", 0);
    const struct world_ended *e = world_last_ended(&w, 1);
    assert_int_equal(e->state, EXECUTION_LOST);
    assert_true(e->is_unbegun);
    assert_string_equal(e->message, "the host ended before the code began");
    world_assert_state(&w, SESSION_READY);
    assert_int_equal(world_execute(&w), KNOWN + 1);
    world_say_done(&w, KNOWN + 1, 0);
    world_last_ended(&w, 2);
    world_close(&w);
}

/* A question came after it, so it had ended: it must not be begun again, nor take the answer to
 * that question for its own, whether or not the question was written down. */
static void test_attach_ended(void **state)
{
    (void)state;
    for (uint32_t last = KNOWN; last <= KNOWN + 1; last++) {
        struct world w;
        begin_attach_at(&w, last, true, NULL);
        give_back(&w, true, true);
        world_init_says(&w, GUEST_TOLD, 1, 0, 0);
        world_say(&w, KERNEL_SYNCED, 0, KNOWN + 1, "", 0);
        const struct world_ended *e = world_last_ended(&w, 1);
        assert_int_equal(e->state, EXECUTION_LOST);
        assert_false(e->is_unbegun);
        assert_string_equal(e->message, "the host ended before the end of the code was known");
        assert_string_equal(e->out, "before ");
        world_assert_state(&w, SESSION_READY);
        world_say_done(&w, KNOWN + 1, 0); /* of the question, once more */
        assert_int_equal(world_execute(&w), KNOWN + 2);
        world_say_done(&w, KNOWN + 2, 0);
        assert_int_equal(world_last_ended(&w, 2)->state, EXECUTION_COMPLETED);
        world_close(&w);
    }
}

/* It ran in an interpreter before this one, which has heard of nothing yet, or of a question. */
static void test_attach_replaced(void **state)
{
    (void)state;
    for (uint32_t heard = 0; heard <= KNOWN + 1; heard += KNOWN + 1) {
        struct world w;
        begin_attach_to(&w,
                        (struct session_record){
                            .sandbox = WORLD_SANDBOX, .generation = 7, .has_execution = true},
                        NULL);
        give_back(&w, true, true);
        world_init_says(&w, GUEST_TOLD, 1, 0, 0);
        world_say(&w, KERNEL_SYNCED, 0, heard, "", 0);
        const struct world_ended *e = world_last_ended(&w, 1);
        assert_int_equal(e->state, EXECUTION_LOST);
        assert_false(e->is_unbegun);
        assert_string_equal(e->out, "before ");
        world_assert_state(&w, SESSION_READY);
        uint32_t generation = world_execute(&w);
        world_say_done(&w, generation, 0);
        assert_int_equal(world_last_ended(&w, 2)->state, EXECUTION_COMPLETED);
        world_close(&w);
    }
}

static void test_attach_cancelled(void **state)
{
    (void)state;
    struct world w;
    begin_attach(&w, true);
    give_back(&w, true, false);
    world_init_says(&w, GUEST_TOLD, 1, 0, 0);
    session_cancel(w.session);
    world_expect_init(&w, GUEST_SIGNAL, SIGINT);
    world_say(&w, KERNEL_SYNCED, 0, KNOWN - 1, "", 0);
    assert_int_equal(world_last_ended(&w, 1)->state, EXECUTION_CANCELLED);
    world_assert_state(&w, SESSION_READY);
    world_close(&w);
}

static void test_attach_late(void **state)
{
    (void)state;
    struct world w;
    begin_attach(&w, true);
    give_back(&w, true, true);
    world_init_says(&w, GUEST_TOLD, 1, 0, 0);
    world_advance(&w, 1001);
    world_expect_init(&w, GUEST_SIGNAL, SIGINT);
    world_say_done(&w, KNOWN, 0);
    world_say(&w, KERNEL_SYNCED, 0, KNOWN, "", 0);
    world_say_done(&w, KNOWN, 0);
    world_init_lists(&w);
    assert_int_equal(world_last_ended(&w, 1)->state, EXECUTION_TIMEOUT);
    world_assert_state(&w, SESSION_READY);
    world_close(&w);
}

static void test_attach_dead(void **state)
{
    (void)state;
    struct world w;
    begin_attach(&w, true);
    give_back(&w, true, true);
    world_init_says(&w, GUEST_TOLD, 0, 0, SIGKILL);
    while (world_init_hears(&w, NULL) == GUEST_KILL)
        ;
    world_reply(&w, SPAWN_STATS, (struct spawn_stats){0});
    const struct world_ended *e = world_last_ended(&w, 1);
    assert_int_equal(e->state, EXECUTION_FAILED);
    assert_int_equal(e->kind, REASON_RUNNER_DIED);
    assert_string_equal(e->out, "before ");
    world_assert_state(&w, SESSION_FAILED);
    world_reset(&w); /* whatever is heard from now on is our own */
    world_expect_start(&w);
    world_become_ready(&w);
    world_close(&w);
}

/* Started, but its channel was never kept: nobody can speak to it. */
static void test_attach_without_channel(void **state)
{
    (void)state;
    struct world w;
    begin_attach(&w, false);
    give_back(&w, false, false);
    world_init_says(&w, GUEST_TOLD, 1, 0, 0);
    world_expect_init(&w, GUEST_KILL, 0);
    world_init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    world_assert_state(&w, SESSION_FAILED);
    world_close(&w);
}

static void test_attach_refused(void **state)
{
    (void)state;
    struct world w;
    begin_attach(&w, true);
    world_reply_with(&w, SPAWN_TAKE, NULL, -1);
    assert_int_equal(world_last_ended(&w, 1)->state, EXECUTION_LOST);
    world_assert_state(&w, SESSION_TERMINATED);
    assert_false(world_is_asked(&w, SPAWN_DESTROY));
    world_close(&w);
}

static void test_attach_closed(void **state)
{
    (void)state;
    struct world w;
    struct spawn_message m = {.verb = SPAWN_TAKE, .flags = SPAWN_REPLY, .sandbox = WORLD_SANDBOX};
    begin_attach(&w, true);
    session_close(w.session);
    assert_false(world_is_asked(&w, SPAWN_DESTROY)); /* not before it is known to be there */
    world_reply_with(&w, SPAWN_TAKE, &m, -1);
    assert_int_equal(world_last_ended(&w, 1)->state, EXECUTION_LOST);
    assert_true(world_is_asked(&w, SPAWN_DESTROY));
    world_close(&w);
}

/* As when the server ends: it may be answered or not, and the sanitizer sees what is left. */
static void test_attach_freed(void **state)
{
    (void)state;
    for (int is_answered = 0; is_answered < 2; is_answered++) {
        struct world w;
        struct spawn_message m = {.verb = SPAWN_TAKE, .sandbox = WORLD_SANDBOX};
        begin_attach(&w, true);
        session_free(take_ptr(&w.session));
        if (is_answered)
            world_reply_with(&w, SPAWN_TAKE, &m, -1);
        assert_int_equal(w.ended_count, 0);
        world_release(&w);
    }
}

/* It counts like one of our own, and is taken even where there is no room for another. */
static void test_attach_seat(void **state)
{
    (void)state;
    struct world w;
    struct capacity *capacity;
    struct capacity_info info;
    struct capacity_seat other = {0};
    struct error err;
    const struct capacity_order order = {.max_sandboxes = 1};
    assert_int_equal(capacity_open(&capacity, &order, &err), 0);
    capacity_claim(capacity, &other);
    begin_attach_at(&w, KNOWN, false, capacity);
    capacity_get_info(capacity, &info);
    assert_int_equal(info.live, 2);
    capacity_give(&other);
    assert_false(capacity_has_room(capacity, &w.template.limits));
    give_back(&w, true, false);
    world_say(&w, KERNEL_SYNCED, 0, KNOWN, "", 0);
    world_close(&w);
    assert_true(capacity_has_room(capacity, &w.template.limits));
    capacity_free(capacity);
}

/* Whether its interpreter runs is not known before init has told. */
static void test_attach_reset(void **state)
{
    (void)state;
    for (int runs = 0; runs < 2; runs++) {
        struct world w;
        begin_attach(&w, false);
        give_back(&w, true, false);
        world_reset(&w);
        world_expect_init(&w, GUEST_KILL, 0);
        world_expect_silence(&w); /* a start would be refused while the old one lives */
        world_init_says(&w, GUEST_TOLD, runs, 0, SIGKILL);
        if (runs)
            world_init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
        world_expect_start(&w);
        world_become_ready(&w);
        world_close(&w);
    }
}

/* The interpreter's last word, which it said before it was killed, may be heard after its end. */
static void test_attach_reset_busy(void **state)
{
    (void)state;
    struct world w;
    begin_attach(&w, true);
    give_back(&w, true, true);
    world_init_says(&w, GUEST_TOLD, 1, 0, 0);
    world_reset(&w);
    world_expect_init(&w, GUEST_KILL, 0);
    world_init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    world_say(&w, KERNEL_SYNCED, 0, KNOWN, "", 0);
    world_reply(&w, SPAWN_STATS, (struct spawn_stats){0});
    world_expect_start(&w);
    world_become_ready(&w);
    world_close(&w);
}

/* It is kept under its label, also after a reset; let go of, it lives on. */
static void test_keep(void **state)
{
    (void)state;
    struct world w;
    struct session_record record;
    world_open(&w);
    session_keep(w.session);
    world_reply(&w, SPAWN_KEEP, (struct spawn_stats){0});
    uint32_t generation = world_execute(&w);
    assert_false(world_is_asked(&w, SPAWN_KEEP)); /* most executions are over soon */
    world_advance(&w, 2);
    world_reply(&w, SPAWN_KEEP, (struct spawn_stats){0});
    assert_int_equal(write(w.cell[1], "hello", 5), 5);
    world_settle(&w);
    session_get_record(w.session, &record);
    assert_true(record.has_execution);
    assert_int_equal(record.sandbox, WORLD_SANDBOX);
    assert_int_equal(record.execution.generation, generation);
    assert_int_equal(record.execution.told[0], 5);
    assert_memory_equal(record.label, strchr(record.id, '_') + 1, sizeof(record.label));
    world_say_done(&w, generation, 0);
    assert_string_equal(world_last_ended(&w, 1)->out, "hello");
    world_reply(&w, SPAWN_KEEP, (struct spawn_stats){0}); /* the slot is empty again */
    assert_false(world_is_asked(&w, SPAWN_KEEP));
    world_reset(&w);
    world_init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    world_expect_start(&w);
    assert_true(world_is_asked(&w, SPAWN_KEEP));
    world_become_ready(&w);
    world_close(&w);
}

/* What was handed over while nobody had it need not be when somebody has; the next interpreter's
 * channel is another. */
static void test_keep_early(void **state)
{
    (void)state;
    for (int is_taken = 0; is_taken < 2; is_taken++) {
        struct world w;
        struct session_record record;
        world_open(&w);
        session_keep_early(w.session);
        world_reply(&w, SPAWN_KEEP, (struct spawn_stats){0});
        if (is_taken)
            session_keep(w.session);
        assert_false(world_is_asked(&w, SPAWN_KEEP));
        session_get_record(w.session, &record);
        assert_memory_equal(record.label, strchr(record.id, '_') + 1, sizeof(record.label));
        world_reset(&w);
        world_init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
        world_expect_start(&w);
        assert_int_equal(world_is_asked(&w, SPAWN_KEEP), is_taken);
        world_become_ready(&w);
        if (!is_taken)
            session_keep(w.session);
        assert_true(world_is_asked(&w, SPAWN_KEEP));
        world_close(&w);
    }
}

/* The note of the last KEEP, which is answered. */
static struct cell_record read_note(struct world *w, bool *has_note)
{
    struct cell_record note;
    const struct spawn_message *m = &w->spawner.asks[w->spawner.count - 1].m;
    assert_int_equal(m->verb, SPAWN_KEEP);
    *has_note = m->keep.has_note;
    memcpy(&note, m->keep.note, sizeof(note));
    while (world_is_asked(w, SPAWN_KEEP))
        world_reply(w, SPAWN_KEEP, (struct spawn_stats){0});
    return note;
}

/* Before the next interpreter starts, the spawner hears that the execution was of another: for as
 * long as its end is not known for good. */
static void test_keep_replaced(void **state)
{
    (void)state;
    for (int is_settled = 0; is_settled < 2; is_settled++) {
        struct world w;
        bool has_note;
        world_open(&w);
        session_keep(w.session);
        uint32_t generation = world_execute(&w);
        w.requests[0].cell.is_held = true;
        world_advance(&w, 2);
        struct cell_record before = read_note(&w, &has_note);
        assert_true(has_note && before.generation == generation);
        world_reset(&w);
        world_expect_init(&w, GUEST_KILL, 0);
        world_init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
        world_reply(&w, SPAWN_STATS, (struct spawn_stats){0});
        assert_int_equal(world_last_ended(&w, 1)->state, EXECUTION_CANCELLED);
        world_expect_start(&w);
        struct cell_record after = read_note(&w, &has_note);
        assert_true(has_note);
        assert_string_equal(after.id, before.id);
        assert_int_equal(after.generation, 0);
        world_become_ready(&w);
        if (is_settled) {
            session_settle(w.session);
            read_note(&w, &has_note);
            assert_false(has_note);
        }
        world_reset(&w);
        world_init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
        world_expect_start(&w);
        read_note(&w, &has_note);
        assert_int_equal(has_note, !is_settled);
        world_become_ready(&w);
        world_close(&w);
    }
}

int main(void)
{
    struct check check = {.count = 0};
    signal(SIGPIPE, SIG_IGN);
    check_one(&check, "another host's idle session goes on at its SYNCED", test_attach_idle);
    check_one(&check, "so does its execution, output and all", test_attach_busy);
    check_one(&check, "one that never arrived is lost", test_attach_not_begun);
    check_one(&check, "and that is cancelled before anybody knows", test_attach_cancelled);
    check_one(&check, "one that had ended is lost, and not begun again", test_attach_ended);
    check_one(&check, "so is one whose interpreter was replaced", test_attach_replaced);
    check_one(&check, "its time limit counts on", test_attach_late);
    check_one(&check, "a death that the host before was told is told again", test_attach_dead);
    check_one(&check, "a kernel that nobody can speak to is killed", test_attach_without_channel);
    check_one(&check, "a sandbox that is no more", test_attach_refused);
    check_one(&check, "a close before the spawner's answer", test_attach_closed);
    check_one(&check, "one that is freed before the spawner's answer", test_attach_freed);
    check_one(&check, "it has a seat, like one of our own", test_attach_seat);
    check_one(&check, "a reset before init has told", test_attach_reset);
    check_one(&check, "a reset does not wait for an end that was told", test_attach_reset_busy);
    check_one(&check, "what the next host needs is kept", test_keep);
    check_one(&check, "by whoever has it, or before that", test_keep_early);
    check_one(&check, "and that an interpreter was replaced", test_keep_replaced);
    return check_run(&check, "attach");
}
