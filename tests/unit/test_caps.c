/* test_caps.c - capabilities go, all of them, and a seal that kept one is noticed */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* Runs `fn` in a child, since nothing comes back; its answer is the exit status. */
static int in_child(int (*fn)(void))
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(fn());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void need_root(void)
{
    if (geteuid() != 0 || prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN) != 1)
        check_skip("only a full root has capabilities to give up");
}

/* The set `name` of /proc/self/status is empty. */
static bool is_empty(const char *name)
{
    char line[256];
    unsigned long long set = 1;
    FILE *status = fopen("/proc/self/status", "re");
    while (status && fgets(line, sizeof(line), status)) {
        if (strncmp(line, name, strlen(name)) == 0)
            sscanf(line + strlen(name), " %llx", &set);
    }
    if (status)
        fclose(status);
    return set == 0;
}

static int drop_everything(void)
{
    static const char *const sets[] = {"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"};
    if (caps_drop_bounding() < 0)
        return 1;
    if (is_empty("CapEff:")) /* what is in force stays until the end */
        return 2;
    if (caps_drop_all() < 0)
        return 3;
    for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
        if (!is_empty(sets[i]))
            return 10 + (int)i;
    }
    return caps_drop_all() < 0 ? 4 : 0; /* twice does no harm */
}

static void test_all(void **state)
{
    (void)state;
    need_root();
    assert_int_equal(in_child(drop_everything), 0);
}

static int keep_bounding(void)
{
    return caps_drop_all() < 0 && errno == EPERM ? 0 : 1;
}

/* A set-uid program could have used what was left. */
static void test_bounding_kept(void **state)
{
    (void)state;
    need_root();
    assert_int_equal(in_child(keep_bounding), 0);
}

static int drop_without_power(void)
{
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
        return 2;
    return caps_drop_bounding() < 0 && errno == EPERM ? 0 : 1;
}

static void test_no_power(void **state)
{
    (void)state;
    assert_int_equal(in_child(drop_without_power), 0);
}

/* Of /proc/self/status. */
static unsigned long long read_set(const char *name)
{
    char line[256];
    unsigned long long set = ~0ull;
    FILE *status = fopen("/proc/self/status", "re");
    while (status && fgets(line, sizeof(line), status)) {
        if (strncmp(line, name, strlen(name)) == 0)
            sscanf(line + strlen(name), " %llx", &set);
    }
    if (status)
        fclose(status);
    return set;
}

static int keep_two(void)
{
    static const int kept[] = {CAP_SETUID, CAP_BPF};
    const unsigned long long wanted = 1ull << CAP_SETUID | 1ull << CAP_BPF;
    if (caps_keep(kept, ARRAY_LEN(kept)) < 0)
        return 1;
    if (read_set("CapPrm:") != wanted || read_set("CapEff:") != wanted)
        return 2;
    return read_set("CapBnd:") == wanted && is_empty("CapInh:") ? 0 : 3;
}

static void test_keep(void **state)
{
    (void)state;
    need_root();
    assert_int_equal(in_child(keep_two), 0);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "every set is empty in the end", test_all);
    check_one(&check, "a bounding set that was kept is an error", test_bounding_kept);
    check_one(&check, "without the right to drop them it is an error", test_no_power);
    check_one(&check, "all but some go, out of the bounding set too", test_keep);
    return check_run(&check, "caps");
}
