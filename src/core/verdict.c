/* verdict.c - one ladder of rules, the first that fits wins; written as a table */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/verdict.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "wire/egress.h"

static const char *const state_names[] = {
    [EXECUTION_QUEUED] = "queued",       [EXECUTION_RUNNING] = "running",
    [EXECUTION_COMPLETED] = "completed", [EXECUTION_FAILED] = "failed",
    [EXECUTION_TIMEOUT] = "timeout",     [EXECUTION_CANCELLED] = "cancelled",
    [EXECUTION_LOST] = "lost",
};

const char *const reason_kind_names[] = {
    [REASON_TIMEOUT - 1] = "timeout",
    [REASON_OOM - 1] = "oom",
    [REASON_PIDS - 1] = "pids",
    [REASON_DISK - 1] = "disk",
    [REASON_CANCELLED - 1] = "cancelled",
    [REASON_SIGNAL - 1] = "signal",
    [REASON_EXCEPTION - 1] = "exception",
    [REASON_EXIT - 1] = "exit",
    [REASON_EGRESS_DENIED - 1] = "egress_denied",
    [REASON_SYSCALL_DENIED - 1] = "syscall_denied",
    [REASON_RUNNER_DIED - 1] = "runner_died",
    [REASON_INFRASTRUCTURE - 1] = "infrastructure",
    [REASON_KINDS - 1] = NULL,
};

const char *execution_state_name(enum execution_state state)
{
    return state_names[state];
}

const char *reason_kind_name(enum reason_kind kind)
{
    return kind == REASON_NONE ? NULL : reason_kind_names[kind - 1];
}

void facts_set_denied(struct facts *f, const struct egress_denied *denied)
{
    snprintf(f->denied_host, sizeof(f->denied_host), "%.95s", denied->host);
    snprintf(f->denied_rule, sizeof(f->denied_rule), "%.191s", denied->rule);
    f->denied_port = denied->port;
}

void facts_set_unreached(struct facts *f, const struct egress_denied *failed)
{
    snprintf(f->unreached, sizeof(f->unreached), "%.95s:%u: %.143s", failed->host, failed->port,
             failed->rule);
}

static bool did_fail(const struct facts *f)
{
    return !f->has_ended || f->signal || f->exit_code;
}

/* --- the rules: does it apply, and what does it say ------------------------------------------ */

static bool is_cancelled(const struct facts *f)
{
    return f->is_cancelled;
}

static void say_cancelled(struct verdict *v, const struct facts *f)
{
    (void)f;
    snprintf(v->message, sizeof(v->message), "cancelled by the caller");
}

static bool is_timeout(const struct facts *f)
{
    return f->is_timed_out || f->stats.lifetime_over;
}

static void say_timeout(struct verdict *v, const struct facts *f)
{
    v->limit = f->timeout_ms;
    v->used = f->duration_ms;
    snprintf(v->message, sizeof(v->message), "ran longer than its limit of %g s",
             (double)f->timeout_ms / 1000);
    snprintf(v->hint, sizeof(v->hint), "%s",
             f->stats.pids_refused
                 ? "it also met its process limit; a larger timeout will hardly help"
                 : "do less work at once, or raise the timeout");
}

static bool is_oom(const struct facts *f)
{
    return f->stats.oom_kills > 0 && did_fail(f);
}

/* A limit is not reached to the byte: the kernel charges ahead, and large pages at once. */
static bool is_own_limit(const struct facts *f)
{
    uint64_t limit = f->limits.memory_bytes, peak = f->stats.memory_peak_bytes;
    return peak == 0 || peak >= limit - limit / 8;
}

static void say_oom(struct verdict *v, const struct facts *f)
{
    v->limit = f->limits.memory_bytes;
    v->used = f->stats.memory_peak_bytes;
    if (!is_own_limit(f)) {
        snprintf(v->message, sizeof(v->message),
                 "the machine, or the group that all sandboxes are in, had no memory left; used "
                 "%" PRIu64 " MiB of %" PRIu64 " MiB",
                 f->stats.memory_peak_bytes / MIB, f->limits.memory_bytes / MIB);
        snprintf(v->hint, sizeof(v->hint), "try again when fewer sandboxes work");
        return;
    }
    snprintf(v->message, sizeof(v->message), "used more memory than its limit of %" PRIu64 " MiB",
             f->limits.memory_bytes / MIB);
    snprintf(v->hint, sizeof(v->hint),
             "work on the data in pieces, or raise the memory limit; files in the workspace count");
}

static bool is_disk(const struct facts *f)
{
    bool is_known = f->stats.disk_free_bytes + f->stats.disk_used_bytes > 0;
    return did_fail(f) && is_known &&
           (f->stats.disk_free_bytes < 4 * KIB || f->stats.inodes_free == 0);
}

static void say_disk(struct verdict *v, const struct facts *f)
{
    bool by_inodes = f->stats.inodes_free == 0;
    v->limit = by_inodes ? f->limits.inodes : f->limits.disk_bytes;
    v->used = by_inodes ? f->limits.inodes : f->stats.disk_used_bytes;
    if (by_inodes)
        snprintf(v->message, sizeof(v->message), "made more files than its limit of %" PRIu64,
                 f->limits.inodes);
    else
        snprintf(v->message, sizeof(v->message),
                 "filled its disk of %" PRIu64 " MiB (workspace, /tmp and /dev/shm together)",
                 f->limits.disk_bytes / MIB);
    snprintf(v->hint, sizeof(v->hint),
             "write less, remove what is no longer needed, or raise the "
             "disk limit");
}

static bool is_pids(const struct facts *f)
{
    return f->stats.pids_refused > 0 && did_fail(f);
}

static void say_pids(struct verdict *v, const struct facts *f)
{
    v->limit = v->used = f->limits.pids;
    snprintf(v->message, sizeof(v->message),
             "started more processes and threads than its limit of %" PRIu32, f->limits.pids);
    snprintf(v->hint, sizeof(v->hint), "use fewer workers, or raise the process limit");
}

static bool is_gone(const struct facts *f)
{
    return !f->has_ended;
}

static void say_gone(struct verdict *v, const struct facts *f)
{
    if (f->runner_fault[0])
        snprintf(v->message, sizeof(v->message), "the interpreter spoke nonsense: %s",
                 f->runner_fault);
    else if (f->signal)
        snprintf(v->message, sizeof(v->message), "the interpreter was ended by signal %d (SIG%s)",
                 f->signal, sigabbrev_np(f->signal) ? sigabbrev_np(f->signal) : "?");
    else if (f->runner_has_exited)
        snprintf(v->message, sizeof(v->message), "the interpreter ended with status %d",
                 f->exit_code);
    else
        snprintf(v->message, sizeof(v->message), "the sandbox ended before the program did");
}

static bool is_bad_syscall(const struct facts *f)
{
    return f->signal == SIGSYS;
}

static void say_bad_syscall(struct verdict *v, const struct facts *f)
{
    (void)f;
    snprintf(v->message, sizeof(v->message),
             "killed for a system call that does not belong to this machine");
    snprintf(v->hint, sizeof(v->hint), "32-bit programs do not run in a sandbox");
}

static bool is_signal(const struct facts *f)
{
    return f->signal != 0;
}

static void say_signal(struct verdict *v, const struct facts *f)
{
    const char *name = sigabbrev_np(f->signal);
    snprintf(v->message, sizeof(v->message), "ended by signal %d (%s%s)", f->signal,
             name ? "SIG" : "", name ? name : "unknown");
}

/* Code that was refused something, and then failed: so it is told, since nobody sees what an
 * exception was raised for. */
static bool is_denied(const struct facts *f)
{
    return f->denied_host[0] && (f->has_exception || f->exit_code != 0);
}

static void say_denied(struct verdict *v, const struct facts *f)
{
    snprintf(v->message, sizeof(v->message), "its network policy denied %.96s:%" PRIu32 ": %.128s",
             f->denied_host, f->denied_port, f->denied_rule);
    snprintf(v->hint, sizeof(v->hint),
             "add the host to the sandbox's network policy (allow), or do without it");
}

static bool is_exception(const struct facts *f)
{
    return f->has_exception;
}

static void say_exception(struct verdict *v, const struct facts *f)
{
    snprintf(v->message, sizeof(v->message), "raised %s", f->exception);
}

static bool is_bad_exit(const struct facts *f)
{
    return f->exit_code != 0;
}

static void say_exit(struct verdict *v, const struct facts *f)
{
    snprintf(v->message, sizeof(v->message), "exited with status %d", f->exit_code);
}

/* In this order: what the caller or a limit did explains the signal that it caused. */
static const struct {
    bool (*applies)(const struct facts *f);
    void (*say)(struct verdict *v, const struct facts *f);
    enum execution_state state;
    enum reason_kind kind;
} rules[] = {
    {is_cancelled, say_cancelled, EXECUTION_CANCELLED, REASON_CANCELLED},
    {is_timeout, say_timeout, EXECUTION_TIMEOUT, REASON_TIMEOUT},
    {is_oom, say_oom, EXECUTION_FAILED, REASON_OOM},
    {is_disk, say_disk, EXECUTION_FAILED, REASON_DISK},
    {is_pids, say_pids, EXECUTION_FAILED, REASON_PIDS},
    {is_gone, say_gone, EXECUTION_FAILED, REASON_RUNNER_DIED},
    {is_bad_syscall, say_bad_syscall, EXECUTION_FAILED, REASON_SYSCALL_DENIED},
    {is_signal, say_signal, EXECUTION_FAILED, REASON_SIGNAL},
    {is_denied, say_denied, EXECUTION_FAILED, REASON_EGRESS_DENIED},
    {is_exception, say_exception, EXECUTION_FAILED, REASON_EXCEPTION},
    {is_bad_exit, say_exit, EXECUTION_FAILED, REASON_EXIT},
};

void verdict_reach(struct verdict *out, const struct facts *facts)
{
    *out = (struct verdict){.state = EXECUTION_COMPLETED};
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        if (rules[i].applies(facts)) {
            out->state = rules[i].state;
            out->kind = rules[i].kind;
            rules[i].say(out, facts);
            return;
        }
    }
}
