# SPDX-License-Identifier: Apache-2.0
"""Each resource of the kernel that a sandbox can use up: what bounds it, and the test that fills it.

docs/THREAT-MODEL.md prints this table. `tools/check-claims` compares the two, looks for the tests, and looks in src/ for each
word in backticks; `tools/check-claims --write` prints it anew. `counted` is for a sandbox whose memory group counts: as root,
and of an ordinary user with a delegated group. `watched` is for one that has none: the spawner adds up what it can see
(docs/decisions/0009-rootless-memory.md), and what it cannot see has a bound here or is refused.
"""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Resource:
    name: str
    counted: str
    watched: str
    tests: tuple[str, ...]


GROUP = "memory group (`memory.limit_in_bytes`, `memory.max`)"
REFUSED = "refused by seccomp"
SAME = "the same"
OF_THE_KERNEL = {"pipe-user-pages-soft"}  # what bounds, and is none of our words

RESOURCES = (
    Resource("anonymous memory, shared mappings", GROUP, "watch; `RLIMIT_DATA` until it looks",
             ("touches-page-by-page", "fills-shared-mappings", "in-a-child")),
    Resource("page tables", GROUP, "watch (`VmPTE`); `RLIMIT_AS` until it looks", ("fills-page-tables",)),
    Resource("huge pages that are reserved", f"{REFUSED} (`MAP_HUGETLB`, `MFD_HUGETLB`)", SAME, ("tests/unit/test_seccomp.c",)),
    Resource("locked memory", "`RLIMIT_MEMLOCK`, set in a user namespace of its own", SAME, ("raises-its-privileges",)),
    Resource("files of workspace, `/tmp` and `/dev/shm`", "size of its tmpfs, and the memory group", "size of its tmpfs, and the watch",
             ("one-big-file", "fills-tmp", "fills-dev-shm", "sparse-giants")),
    Resource("inodes and names", "`nr_inodes` of its tmpfs, and the memory group", "`nr_inodes` of its tmpfs",
             ("a-million-names", "hundred-thousand-deep")),
    Resource("memory files", "memory group", f"{REFUSED} (`memfd_create`)", ("fills-memfd",)),
    Resource("System V memory, messages, semaphores", "memory group", f"{REFUSED} (`shmget`, `msgget`, `semget`)",
             ("fills-sysv-segments", "queues-and-semaphores")),
    Resource("POSIX message queues", "`RLIMIT_MSGQUEUE` 0; landlock refuses them, too", SAME, ("queues-and-semaphores",)),
    Resource("buffers of unix sockets", "memory group", "watch: 416 KiB for each socket beyond 64; larger ones cannot be set",
             ("fills-socket-buffers",)),
    Resource("buffers of TCP and UDP", "version 1: `memory.kmem.tcp.limit_in_bytes`, an eighth of the memory on top of it; version 2: memory group",
             "watch, as for unix sockets; `tcp_rmem` and `tcp_wmem` of 64 KiB",
             ("fills-udp-buffers", "fills-tcp-buffers", "test_where_no_group_counts_them_tcp_buffers_stay_small")),
    Resource("buffers of pipes", "memory group; 64 MiB for its uid, then two pages each (the kernel's `pipe-user-pages-soft`)",
             "64 MiB for its uid, then two pages each", ("fills-pipes",)),
    Resource("memory for compiled socket filters, which all share", f"{REFUSED} (`SO_ATTACH_FILTER` and its kin)", SAME, ("tests/unit/test_seccomp.c",)),
    Resource("descriptors in flight", "`RLIMIT_NOFILE` for its uid", SAME, ("both ends in rings of sockets",)),
    Resource("processes and threads", "`pids.max`; `RLIMIT_NPROC`", "`RLIMIT_NPROC`",
             ("ten-thousand-threads", "ten-thousand-processes", "shell-fork-bomb")),
    Resource("open files", "`RLIMIT_NOFILE` for each process; the memory group", "`RLIMIT_NOFILE` for each process", ("two-million-descriptors",)),
    Resource("queued signals, POSIX timers", "`RLIMIT_SIGPENDING` 256, set in a user namespace of its own", SAME,
             ("timers-and-queued-signals", "test_A18_counters_of_the_kernel_are_not_for_one_alone",
              "test_siblings_take_no_counter_of_the_kernel_from_each_other")),
    Resource("instances and watches of inotify", f"{REFUSED} (`inotify_init1`)", SAME,
             ("timers-and-queued-signals", "test_A18_counters_of_the_kernel_are_not_for_one_alone",
              "test_siblings_take_no_counter_of_the_kernel_from_each_other")),
    Resource("pseudo-terminals", "`devpts` of its own with 32", SAME, ("test_pseudo_terminals_are_not_for_one_alone",)),
    Resource("namespaces, mounts, keys, bpf, io_uring", REFUSED, SAME, ("every-namespace-by-every-call", "refused-system-calls")),
    Resource("processor time", "`cpu.cfs_quota_us`, `cpu.max`", "nothing: a share like any program's", ("spins-in-64-threads",)),
    Resource("time to take a storage down", "a helper's (`discard`)", SAME, ("test_a_storage_with_many_files_is_taken_down_beside_the_spawner",)),
    Resource("memory of coved, by answers that it has to hold", "all together 128 MiB (`KERNEL_ANSWERS_MAX_BYTES`), each a quarter of what is free", SAME,
             ("test_what_sessions_answer_is_held_within_a_limit", "tests/unit/test_budget.c", "tests/unit/test_frame.c")),
    Resource("core dumps and their helper", "`RLIMIT_CORE` 1", SAME, ("crashes-a-hundred-times",)),
    Resource("lines of the kernel's log", "the kernel's own rate", SAME, ("test_A45_crashes_do_not_flood_the_log_of_the_kernel",)),
)

HEAD = ("| what | where a group counts | where none does | filled by |", "|---|---|---|---|")


def lines() -> list[str]:
    """The table as the page has it."""
    return [*HEAD, *(f"| {row.name} | {row.counted} | {row.watched} | {', '.join(f'`{test}`' for test in row.tests)} |"
                     for row in RESOURCES)]
