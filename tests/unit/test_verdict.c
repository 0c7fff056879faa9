/* test_verdict.c - facts in, states and reasons out; which fact wins over which */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/verdict.h"

#include <signal.h>
#include <string.h>

#include "check.h"

#define MEMORY (64 * MIB)
#define DISK   (32 * MIB)

/* One way to end, laid over the facts of a good run. */
enum trait {
    CANCELLED = 1 << 0,
    TIMED_OUT = 1 << 1,
    LIFETIME = 1 << 2, /* the spawner's own clock */
    OOM = 1 << 3,
    DISK_FULL = 1 << 4,
    INODES = 1 << 5,
    PIDS = 1 << 6,
    GONE = 1 << 7, /* no word of the program's end */
    SIGSYS_ = 1 << 8,
    SIGKILL_ = 1 << 9,
    EXIT_3 = 1 << 10,
};

static struct facts facts_of(unsigned traits)
{
    struct facts f = {
        .limits = {.memory_bytes = MEMORY, .disk_bytes = DISK, .inodes = 5000, .pids = 40},
        .timeout_ms = 1500,
        .duration_ms = 120,
        .has_ended = !(traits & GONE),
        .is_cancelled = traits & CANCELLED,
        .is_timed_out = traits & TIMED_OUT,
        .exit_code = traits & EXIT_3 ? 3 : 0,
        .stats = {.memory_peak_bytes = 7 * MIB,
                  .disk_used_bytes = 1 * MIB,
                  .disk_free_bytes = DISK - 1 * MIB,
                  .inodes_free = 4000},
    };
    if (traits & (SIGSYS_ | SIGKILL_))
        f.signal = traits & SIGSYS_ ? SIGSYS : SIGKILL;
    if (traits & (TIMED_OUT | LIFETIME))
        f.duration_ms = 1510;
    f.stats.lifetime_over = !!(traits & LIFETIME);
    if (traits & OOM) {
        f.stats.oom_kills = 1;
        f.stats.memory_peak_bytes = MEMORY;
    }
    if (traits & DISK_FULL) {
        f.stats.disk_used_bytes = DISK - 100;
        f.stats.disk_free_bytes = 100;
    }
    if (traits & INODES)
        f.stats.inodes_free = 0;
    f.stats.pids_refused = traits & PIDS ? 9 : 0;
    return f;
}

struct verdict_case {
    const char *name;
    unsigned traits;
    enum execution_state state;
    enum reason_kind kind;
    uint64_t limit, used;
};

static const struct verdict_case cases[] = {
    {"a good end is completed", 0, EXECUTION_COMPLETED, REASON_NONE, 0, 0},
    {"a cancelled run is cancelled", CANCELLED, EXECUTION_CANCELLED, REASON_CANCELLED, 0, 0},
    {"our clock ends it", TIMED_OUT, EXECUTION_TIMEOUT, REASON_TIMEOUT, 1500, 1510},
    {"the spawner's clock ends it", LIFETIME, EXECUTION_TIMEOUT, REASON_TIMEOUT, 1500, 1510},
    {"out of memory, then killed", OOM | SIGKILL_, EXECUTION_FAILED, REASON_OOM, MEMORY, MEMORY},
    {"out of memory, then an exit", OOM | EXIT_3, EXECUTION_FAILED, REASON_OOM, MEMORY, MEMORY},
    {"out of memory took all", OOM | GONE, EXECUTION_FAILED, REASON_OOM, MEMORY, MEMORY},
    {"a child out of memory is no failure of a program that goes on", OOM, EXECUTION_COMPLETED,
     REASON_NONE, 0, 0},
    {"a full disk", DISK_FULL | EXIT_3, EXECUTION_FAILED, REASON_DISK, DISK, DISK - 100},
    {"a full disk that did not matter", DISK_FULL, EXECUTION_COMPLETED, REASON_NONE, 0, 0},
    {"too many files", INODES | EXIT_3, EXECUTION_FAILED, REASON_DISK, 5000, 5000},
    {"too many files that did not matter", INODES, EXECUTION_COMPLETED, REASON_NONE, 0, 0},
    {"too many processes", PIDS | EXIT_3, EXECUTION_FAILED, REASON_PIDS, 40, 40},
    {"too many processes that did not matter", PIDS, EXECUTION_COMPLETED, REASON_NONE, 0, 0},
    {"the sandbox is gone", GONE, EXECUTION_FAILED, REASON_RUNNER_DIED, 0, 0},
    {"a call of another machine", SIGSYS_, EXECUTION_FAILED, REASON_SYSCALL_DENIED, 0, 0},
    {"a signal", SIGKILL_, EXECUTION_FAILED, REASON_SIGNAL, 0, 0},
    {"an exit status", EXIT_3, EXECUTION_FAILED, REASON_EXIT, 0, 0},
};

static void test_case(void **state)
{
    const struct verdict_case *row = *state;
    struct verdict v;
    memset(&v, 0x55, sizeof(v)); /* what was there does not matter */
    const struct facts facts = facts_of(row->traits);
    verdict_reach(&v, &facts);
    assert_int_equal(v.state, row->state);
    assert_int_equal(v.kind, row->kind);
    assert_int_equal(v.limit, row->limit);
    assert_int_equal(v.used, row->used);
    assert_int_equal(v.message[0] != '\0', row->kind != REASON_NONE);
}

/* Strongest first. A weaker fact never changes the answer of a stronger one. */
static const struct {
    unsigned trait;
    enum reason_kind kind;
} ladder[] = {
    {CANCELLED, REASON_CANCELLED},
    {TIMED_OUT, REASON_TIMEOUT},
    {LIFETIME, REASON_TIMEOUT},
    {OOM, REASON_OOM},
    {DISK_FULL, REASON_DISK},
    {INODES, REASON_DISK},
    {PIDS, REASON_PIDS},
    {GONE, REASON_RUNNER_DIED},
    {SIGSYS_, REASON_SYSCALL_DENIED},
    {SIGKILL_, REASON_SIGNAL},
    {EXIT_3, REASON_EXIT},
};

/* The kind that the ladder says for a set of traits; limits count only where the run failed. */
static enum reason_kind kind_of(unsigned traits)
{
    bool has_failed = traits & (GONE | SIGSYS_ | SIGKILL_ | EXIT_3);
    for (size_t i = 0; i < ARRAY_LEN(ladder); i++) {
        bool is_limit = ladder[i].trait & (OOM | DISK_FULL | INODES | PIDS);
        if (traits & ladder[i].trait && (has_failed || !is_limit))
            return ladder[i].kind;
    }
    return REASON_NONE;
}

static void test_precedence(void **state)
{
    (void)state;
    for (unsigned traits = 0; traits < 1u << ARRAY_LEN(ladder); traits++) {
        struct verdict v;
        const struct facts facts = facts_of(traits);
        verdict_reach(&v, &facts);
        if (v.kind != kind_of(traits))
            fail_msg("traits %#x give kind %d instead of %d", traits, v.kind, kind_of(traits));
    }
}

/* Without numbers of the disk, zeros in them say nothing. */
static void test_unknown_disk(void **state)
{
    (void)state;
    struct verdict v;
    struct facts facts = facts_of(EXIT_3);
    facts.stats.disk_free_bytes = facts.stats.disk_used_bytes = facts.stats.inodes_free = 0;
    verdict_reach(&v, &facts);
    assert_int_equal(v.kind, REASON_EXIT);
}

static void test_disk_edge(void **state)
{
    (void)state;
    struct verdict v;
    struct facts facts = facts_of(EXIT_3);
    facts.stats.disk_free_bytes = 4 * KIB; /* one more page would have fitted */
    verdict_reach(&v, &facts);
    assert_int_equal(v.kind, REASON_EXIT);
    facts.stats.disk_free_bytes = 4 * KIB - 1;
    verdict_reach(&v, &facts);
    assert_int_equal(v.kind, REASON_DISK);
}

static void test_words(void **state)
{
    (void)state;
    static const struct {
        unsigned traits;
        const char *message;
    } words[] = {
        {TIMED_OUT, "ran longer than its limit of 1.5 s"},
        {OOM | EXIT_3, "used more memory than its limit of 64 MiB"},
        {INODES | EXIT_3, "made more files than its limit of 5000"},
        {PIDS | EXIT_3, "started more processes and threads than its limit of 40"},
        {SIGKILL_, "ended by signal 9 (SIGKILL)"},
        {EXIT_3, "exited with status 3"},
    };
    struct verdict v;
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        const struct facts facts = facts_of(words[i].traits);
        verdict_reach(&v, &facts);
        assert_string_equal(v.message, words[i].message);
    }
    struct facts odd = facts_of(0);
    odd.signal = 40; /* a real-time signal has no name */
    verdict_reach(&v, &odd);
    assert_string_equal(v.message, "ended by signal 40 (unknown)");
}

struct session_case {
    const char *name;
    struct facts facts; /* laid over those of a session's kernel */
    enum execution_state state;
    enum reason_kind kind;
    const char *message;
};

/* What a kernel says of itself never hides what was seen from outside. */
static const struct session_case session_cases[] = {
    {"an exception",
     {.has_ended = true, .has_exception = true, .exception = "KeyError", .exit_code = 1},
     EXECUTION_FAILED,
     REASON_EXCEPTION,
     "raised KeyError"},
    {"an exception with a good exit",
     {.has_ended = true, .has_exception = true, .exception = "E"},
     EXECUTION_FAILED,
     REASON_EXCEPTION,
     "raised E"},
    {"an exception after something was denied",
     {.has_ended = true,
      .has_exception = true,
      .exception = "E",
      .exit_code = 1,
      .denied_host = "evil.example",
      .denied_port = 443,
      .denied_rule = "it is not among the hosts"},
     EXECUTION_FAILED,
     REASON_EGRESS_DENIED,
     "its network policy denied evil.example:443: it is not among the hosts"},
    {"a good end in spite of a denial",
     {.has_ended = true, .denied_host = "evil.example", .denied_port = 443},
     EXECUTION_COMPLETED,
     REASON_NONE,
     ""},
    {"an exception without a name",
     {.has_ended = true, .has_exception = true, .exit_code = 1},
     EXECUTION_FAILED,
     REASON_EXCEPTION,
     "raised "},
    {"an exit that the code asked for",
     {.has_ended = true, .exit_code = 3},
     EXECUTION_FAILED,
     REASON_EXIT,
     "exited with status 3"},
    {"an interrupt by the time limit",
     {.has_ended = true, .is_timed_out = true, .has_exception = true, .exit_code = 130},
     EXECUTION_TIMEOUT,
     REASON_TIMEOUT,
     "ran longer than its limit of 0 s"},
    {"a good answer does not undo the time limit",
     {.has_ended = true, .is_timed_out = true},
     EXECUTION_TIMEOUT,
     REASON_TIMEOUT,
     "ran longer than its limit of 0 s"},
    {"an interrupt by the caller",
     {.has_ended = true, .is_cancelled = true, .has_exception = true, .exit_code = 130},
     EXECUTION_CANCELLED,
     REASON_CANCELLED,
     "cancelled by the caller"},
    {"an exception out of memory",
     {.has_ended = true, .has_exception = true, .exit_code = 1, .stats = {.oom_kills = 1}},
     EXECUTION_FAILED,
     REASON_OOM,
     "used more memory than its limit of 0 MiB"},
    {"somebody else's limit",
     {.has_ended = true,
      .signal = SIGKILL,
      .limits = {.memory_bytes = 64 * MIB},
      .stats = {.oom_kills = 1, .memory_peak_bytes = 40 * MIB}},
     EXECUTION_FAILED,
     REASON_OOM,
     "the machine, or the group that all sandboxes are in, had no memory left; used 40 MiB of 64 MiB"},
    {"a kernel that exits",
     {.runner_has_exited = true, .exit_code = 5},
     EXECUTION_FAILED,
     REASON_RUNNER_DIED,
     "the interpreter ended with status 5"},
    {"a kernel that exits well",
     {.runner_has_exited = true},
     EXECUTION_FAILED,
     REASON_RUNNER_DIED,
     "the interpreter ended with status 0"},
    {"a kernel that crashes",
     {.runner_has_exited = true, .signal = SIGSEGV},
     EXECUTION_FAILED,
     REASON_RUNNER_DIED,
     "the interpreter was ended by signal 11 (SIGSEGV)"},
    {"a kernel that raised and then died",
     {.runner_has_exited = true, .has_exception = true, .exception = "E", .exit_code = 1},
     EXECUTION_FAILED,
     REASON_RUNNER_DIED,
     "the interpreter ended with status 1"},
    {"a kernel that spoke nonsense, and was killed for it",
     {.runner_has_exited = true, .signal = SIGKILL, .runner_fault = "a frame"},
     EXECUTION_FAILED,
     REASON_RUNNER_DIED,
     "the interpreter spoke nonsense: a frame"},
    {"a kernel of which nothing is known",
     {.exit_code = 0},
     EXECUTION_FAILED,
     REASON_RUNNER_DIED,
     "the sandbox ended before the program did"},
};

static void test_session_case(void **state)
{
    const struct session_case *row = *state;
    struct verdict v;
    verdict_reach(&v, &row->facts);
    assert_int_equal(v.state, row->state);
    assert_int_equal(v.kind, row->kind);
    assert_string_equal(v.message, row->message);
}

static void test_names(void **state)
{
    (void)state;
    for (int s = EXECUTION_QUEUED; s <= EXECUTION_LOST; s++)
        assert_non_null(execution_state_name((enum execution_state)s));
    assert_null(reason_kind_name(REASON_NONE));
    for (int k = REASON_NONE + 1; k <= REASON_INFRASTRUCTURE; k++)
        assert_non_null(reason_kind_name((enum reason_kind)k));
    assert_string_equal(execution_state_name(EXECUTION_TIMEOUT), "timeout");
    assert_string_equal(reason_kind_name(REASON_SYSCALL_DENIED), "syscall_denied");
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, cases, test_case);
    check_one(&check, "the stronger fact wins, in every combination", test_precedence);
    check_one(&check, "a disk that was not measured is not full", test_unknown_disk);
    check_one(&check, "a disk with room for a page is not full", test_disk_edge);
    check_one(&check, "messages say limit and cause", test_words);
    check_rows(&check, session_cases, test_session_case);
    check_one(&check, "every state and kind has a name", test_names);
    return check_run(&check, "verdict");
}
