/* test_roster.c - who rests, who is polled for, and who is told of; the sandboxes are made up */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/roster.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "check.h"

/* --- sandboxes of our own -------------------------------------------------------------------- */

static int removed;

void sandbox_empty(struct sandbox *sb, struct host *host)
{
    (void)host;
    sb->control_fd = -1;
}

bool sandbox_try_remove(struct sandbox *sb, struct host *host)
{
    (void)host;
    assert_true(sb->is_reaped);
    assert_false(sb->is_watched); /* else the set would hold what is freed */
    close(sb->child.pid_fd);
    free(sb);
    removed++;
    return true;
}

/* A live one, whose pid 1 waits to be killed. */
static struct sandbox *make_live(uint64_t id)
{
    struct sandbox *sb = xcalloc(1, sizeof(*sb));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(60);
        for (;;)
            pause();
    }
    sb->id = id;
    sb->state = SANDBOX_LIVE;
    sb->plan.has_memory_cgroup = true;
    sb->deadline_ns = INT64_MAX - 1;
    sb->child.pid = pid;
    sb->child.pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    assert_true(sb->child.pid_fd >= 0);
    return sb;
}

static void reap(struct sandbox *sb)
{
    kill(sb->child.pid, SIGKILL);
    assert_int_equal(waitpid(sb->child.pid, NULL, 0), sb->child.pid);
    sb->is_reaped = true;
}

static bool can_read(const struct roster *r, int timeout_ms)
{
    struct pollfd p = {.fd = r->epoll_fd, .events = POLLIN};
    return poll(&p, 1, timeout_ms) == 1;
}

struct gone {
    uint64_t id;
    uint32_t serial;
    int count;
};

static void on_gone(void *ctx, uint64_t id, uint32_t serial, const struct spawn_stats *last)
{
    struct gone *gone = ctx;
    assert_int_equal(last->is_over, 1);
    *gone = (struct gone){.id = id, .serial = serial, .count = gone->count + 1};
}

static void end(struct roster *r, struct sandbox *sb, struct gone *gone)
{
    sb->state = SANDBOX_ENDING;
    sb->last.is_over = 1;
    roster_update(r, sb);
    roster_remove_ended(r, NULL, on_gone, gone);
}

/* --- tests ----------------------------------------------------------------------------------- */

static void test_life(void **state)
{
    (void)state;
    struct roster r;
    struct sandbox *ended[ROSTER_EXITS];
    struct gone gone = {0};
    roster_init(&r);
    struct sandbox *one = make_live(7), *two = make_live(7 + ROSTER_BUCKETS);
    roster_add(&r, one);
    roster_add(&r, two);
    assert_int_equal(r.busy_count, 0); /* a turn has nothing to do about them */
    assert_int_equal(r.resting_count, 2);
    assert_ptr_equal(roster_find(&r, 7), one);
    assert_ptr_equal(roster_find(&r, 7 + ROSTER_BUCKETS), two);
    assert_null(roster_find(&r, 8));
    assert_true(roster_has_pid(&r, one->child.pid));
    assert_false(can_read(&r, 0));

    kill(one->child.pid, SIGKILL);
    assert_true(can_read(&r, -1));
    assert_int_equal(roster_exits(&r, ended), 1);
    assert_ptr_equal(ended[0], one);
    reap(one);
    one->state = SANDBOX_OVER; /* the client has yet to say that it wants it gone */
    roster_update(&r, one);
    assert_false(can_read(&r, 0)); /* and is not told again and again */
    assert_ptr_equal(roster_find(&r, 7), one);

    one->destroy_serial = 5;
    end(&r, one, &gone);
    assert_int_equal(gone.id, 7);
    assert_int_equal(gone.serial, 5);
    assert_null(roster_find(&r, 7));
    assert_ptr_equal(roster_find(&r, 7 + ROSTER_BUCKETS), two);

    end(&r, two, &gone); /* it lives: first it is killed */
    assert_int_equal(gone.count, 1);
    assert_null(roster_find(&r, 7 + ROSTER_BUCKETS));
    assert_int_equal(r.resting_count, 1);
    kill(two->child.pid, SIGKILL);
    assert_true(can_read(&r, -1));
    assert_int_equal(roster_exits(&r, ended), 1);
    reap(two);
    end(&r, two, &gone);
    assert_int_equal(gone.count, 2);
    assert_null(r.busy);
    assert_null(r.resting);
    roster_release(&r);
}

struct rest_case {
    const char *name;
    enum sandbox_state state;
    bool has_memory_cgroup, is_reaped, is_known;
    bool rests;
};

static const struct rest_case rest_cases[] = {
    {"one that is sealed rests", SANDBOX_LIVE, true, false, true, true},
    {"one whose memory is watched does not", SANDBOX_LIVE, false, false, true, false},
    {"one that seals itself does not", SANDBOX_SEALING, true, false, true, false},
    {"one that is over rests", SANDBOX_OVER, true, true, true, true},
    {"one that is killed rests until it is dead", SANDBOX_ENDING, true, false, true, true},
    {"and then no longer", SANDBOX_ENDING, true, true, true, false},
    {"one that has not said who it is does not", SANDBOX_ENDING, true, false, false, false},
};

static void test_rest(void **state)
{
    const struct rest_case *row = *state;
    struct roster r;
    struct gone gone = {0};
    roster_init(&r);
    struct sandbox *sb = make_live(1);
    pid_t pid = sb->child.pid;
    sb->state = row->state;
    sb->plan.has_memory_cgroup = row->has_memory_cgroup;
    sb->is_reaped = row->is_reaped;
    sb->child.pid = row->is_known ? pid : 0;
    roster_add(&r, sb);
    assert_int_equal(sb->is_resting, row->rests);
    assert_int_equal(sb->is_watched, row->rests && !row->is_reaped);
    roster_wake_all(&r);
    assert_int_equal(r.busy_count, 1);
    assert_int_equal(r.resting_count, 0);
    sb->child.pid = pid;
    reap(sb);
    end(&r, sb, &gone);
    assert_int_equal(gone.count, 1);
    roster_release(&r);
}

static int over;

static void on_over(struct sandbox *sb)
{
    assert_int_equal(sb->deadline_ns, 1000);
    over++;
}

static void test_deadline(void **state)
{
    (void)state;
    struct roster r;
    struct gone gone = {0};
    roster_init(&r);
    assert_true(r.deadline_ns == INT64_MAX);
    struct sandbox *soon = make_live(1), *late = make_live(2);
    soon->deadline_ns = 1000;
    roster_add(&r, soon);
    roster_add(&r, late);
    assert_int_equal(r.deadline_ns, 1000);
    roster_check_deadlines(&r, 999, on_over);
    assert_int_equal(over, 0);
    roster_check_deadlines(&r, 1000, on_over);
    assert_int_equal(over, 1);
    assert_true(r.deadline_ns > 1000); /* no turn after turn while it dies */
    roster_check_deadlines(&r, r.deadline_ns, on_over);
    assert_int_equal(over, 2); /* but it is not forgotten either */
    reap(soon);
    reap(late);
    roster_update(&r, soon);
    roster_check_deadlines(&r, r.deadline_ns, on_over);
    assert_int_equal(over, 2);
    end(&r, soon, &gone);
    end(&r, late, &gone);
    assert_int_equal(gone.count, 2);
    roster_release(&r);
}

/* More descriptors than there may be: those that cannot be watched are polled for. */
static void test_no_set(void **state)
{
    (void)state;
    struct roster r;
    struct gone gone = {0};
    struct sandbox *ended[ROSTER_EXITS];
    roster_init(&r);
    roster_release(&r);
    struct sandbox *sb = make_live(1);
    roster_add(&r, sb);
    assert_int_equal(r.busy_count, 1);
    assert_int_equal(roster_exits(&r, ended), 0);
    reap(sb);
    end(&r, sb, &gone);
    assert_int_equal(gone.count, 1);
}

/* The group of one whose memory a fork still has stays; who asked for its end is told at once. */
static void test_kin(void **state)
{
    (void)state;
    struct roster r;
    struct gone gone = {0};
    roster_init(&r);
    struct sandbox *first = make_live(1), *fork_of_it = make_live(2), *other = make_live(3);
    first->brood = fork_of_it->brood = 9;
    other->brood = 8;
    roster_add(&r, first);
    roster_add(&r, fork_of_it);
    roster_add(&r, other);
    removed = 0;
    first->destroy_serial = 5;
    reap(first);
    end(&r, first, &gone);
    assert_int_equal(gone.count, 1);
    assert_int_equal(gone.serial, 5);
    assert_int_equal(removed, 0);
    assert_true(first->is_held);
    roster_remove_ended(&r, NULL, on_gone, &gone);
    assert_int_equal(gone.count, 1); /* told once */

    reap(other);
    end(&r, other, &gone);
    assert_int_equal(removed, 1); /* of another brood */
    reap(fork_of_it);
    end(&r, fork_of_it, &gone);
    roster_remove_ended(&r, NULL, on_gone, &gone);
    assert_int_equal(removed, 3);
    assert_int_equal(r.busy_count + r.resting_count, 0);
    roster_release(&r);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "they come to rest, end, and are gone", test_life);
    check_rows(&check, rest_cases, test_rest);
    check_one(&check, "the end of a life wakes", test_deadline);
    check_one(&check, "without a set nobody rests", test_no_set);
    check_one(&check, "one that its forks need keeps its group", test_kin);
    return check_run(&check, "roster");
}
