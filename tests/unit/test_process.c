/* test_process.c - running other programs */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "check.h"

struct output {
    struct strbuf text[3]; /* by stream */
    const char *stop_at;   /* fails once stdout holds this */
};

static int collect(void *ctx, int stream, const char *data, size_t len, struct error *err)
{
    struct output *output = ctx;
    strbuf_add(&output->text[stream], data, len);
    if (output->stop_at && strstr(strbuf_str(&output->text[stream]), output->stop_at))
        return error_set(err, ERROR_LIMIT, "enough");
    return 0;
}

static void output_init(struct output *output)
{
    *output = (struct output){.stop_at = NULL};
    for (size_t i = 0; i < ARRAY_LEN(output->text); i++)
        strbuf_init(&output->text[i], 4 * MIB);
}

static void output_release(struct output *output)
{
    for (size_t i = 0; i < ARRAY_LEN(output->text); i++)
        strbuf_release(&output->text[i]);
}

struct run_case {
    const char *name;
    const char *argv[5];
    const char *cwd;
    uint64_t timeout_ms;
    struct process_end end;
    const char *out, *err;
};

static const struct run_case runs[] = {
    {"output and status come back",
     {"sh", "-c", "echo hi; echo oh >&2; exit 3"},
     NULL,
     0,
     {3, 0, false},
     "hi\n",
     "oh\n"},
    {"arguments pass no shell",
     {"printf", "%s|%s", "$HOME; exit", "a b"},
     NULL,
     0,
     {0, 0, false},
     "$HOME; exit|a b",
     ""},
    {"a signal is told", {"sh", "-c", "kill -9 $$"}, NULL, 0, {-1, SIGKILL, false}, "", ""},
    {"stdin is empty", {"cat"}, NULL, 0, {0, 0, false}, "", ""},
    {"the working directory can be set", {"pwd"}, "/", 0, {0, 0, false}, "/\n", ""},
    {"time runs out",
     {"sh", "-c", "echo a; sleep 60; echo b"},
     NULL,
     200,
     {-1, SIGTERM, true},
     "a\n",
     ""},
    {"a signal handler may end it well",
     {"sh", "-c", "trap 'echo bye; exit 5' TERM; while :; do :; done"},
     NULL,
     200,
     {5, 0, true},
     "bye\n",
     ""},
    {"a grandchild that keeps the output open does not hold us up",
     {"sh", "-c", "sleep 60 & echo $! >&2; echo a"},
     NULL,
     0,
     {0, 0, false},
     "a\n",
     NULL},
};

/* Ends what a case leaves behind: the pid that it printed on stderr. */
static void end_leftover(const char *text)
{
    char number[FORMAT_BYTES];
    uint64_t pid;
    size_t len = strcspn(text, "\n");
    assert_true(len > 0 && len < sizeof(number));
    memcpy(number, text, len);
    number[len] = '\0';
    assert_true(parse_u64(number, &pid));
    kill((pid_t)pid, SIGKILL);
}

static void test_run(void **state)
{
    const struct run_case *row = *state;
    struct output output;
    output_init(&output);
    struct process process = {.argv = row->argv,
                              .cwd = row->cwd,
                              .output = collect,
                              .ctx = &output,
                              .timeout_ms = row->timeout_ms};
    struct process_end end;
    struct error err;
    assert_int_equal(process_run(&process, &end, &err), 0);
    assert_int_equal(end.exit_status, row->end.exit_status);
    assert_int_equal(end.signal, row->end.signal);
    assert_int_equal(end.timed_out, row->end.timed_out);
    assert_string_equal(strbuf_str(&output.text[1]), row->out);
    if (row->err)
        assert_string_equal(strbuf_str(&output.text[2]), row->err);
    else
        end_leftover(strbuf_str(&output.text[2]));
    output_release(&output);
}

struct fail_case {
    const char *name;
    const char *program;
    const char *cwd;
    int number;
};

static const struct fail_case fails[] = {
    {"a program that is not there is an error", "cove-no-such-program", NULL, ENOENT},
    {"a path that is not there is an error", "/nonexistent/program", NULL, ENOENT},
    {"a file that is no program is an error", "/etc/passwd", NULL, EACCES},
    {"a working directory that is not there is an error", "true", "/nonexistent", ENOENT},
};

static void test_fail(void **state)
{
    const struct fail_case *row = *state;
    const char *const argv[] = {row->program, NULL};
    struct process process = {.argv = argv, .cwd = row->cwd};
    struct process_end end;
    struct error err;
    assert_int_equal(process_run(&process, &end, &err), -1);
    assert_int_equal(err.sys_errno, row->number);
    assert_non_null(strstr(err.msg, row->program));
}

static void test_large_output(void **state)
{
    (void)state;
    const char *const argv[] = {"sh", "-c",
                                "head -c 1000000 /dev/zero | tr '\\0' x; echo; seq 9 >&2", NULL};
    struct output output;
    output_init(&output);
    struct process process = {.argv = argv, .output = collect, .ctx = &output};
    struct process_end end;
    struct error err;
    assert_int_equal(process_run(&process, &end, &err), 0);
    assert_int_equal(output.text[1].len, 1000001);
    assert_int_equal(output.text[2].len, 18);
    output_release(&output);
}

static void test_stop(void **state)
{
    (void)state;
    const char *const argv[] = {"sh", "-c", "echo one; sleep 60", NULL};
    struct output output;
    output_init(&output);
    output.stop_at = "one";
    struct process process = {.argv = argv, .output = collect, .ctx = &output};
    struct process_end end;
    struct error err;
    int64_t begin = clock_now_ns();
    assert_int_equal(process_run(&process, &end, &err), -1);
    assert_int_equal(err.code, ERROR_LIMIT);
    assert_true(clock_now_ns() - begin < 30 * 1000000000ll);
    output_release(&output);
}

static void test_stdin_and_environment(void **state)
{
    (void)state;
    const char *const argv[] = {"sh", "-c", "read line; echo \"$line $COVE_TEST\"", NULL};
    const char *const envp[] = {"COVE_TEST=yes", NULL};
    int pair[2];
    assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
    assert_int_equal(write(pair[1], "hello\n", 6), 6);
    struct output output;
    output_init(&output);
    struct process process = {
        .argv = argv, .envp = envp, .stdin_fd = &pair[0], .output = collect, .ctx = &output};
    struct process_end end;
    struct error err;
    assert_int_equal(process_run(&process, &end, &err), 0);
    assert_string_equal(strbuf_str(&output.text[1]), "hello yes\n");
    close(pair[0]);
    close(pair[1]);
    output_release(&output);
}

static void test_signals_reset(void **state)
{
    (void)state;
    const char *const argv[] = {"sh", "-c", "kill -PIPE $$; echo alive", NULL};
    struct process process = {.argv = argv};
    struct process_end end;
    struct error err;
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    assert_int_equal(process_run(&process, &end, &err), 0);
    signal(SIGPIPE, before);
    assert_int_equal(end.signal, SIGPIPE);
}

static void test_no_fd_left(void **state)
{
    (void)state;
    const char *const argv[] = {"true", NULL};
    struct output output;
    output_init(&output);
    struct process process = {.argv = argv, .output = collect, .ctx = &output};
    struct process_end end;
    struct error err;
    int next = dup(0);
    close(next);
    assert_int_equal(process_run(&process, &end, &err), 0);
    int again = dup(0);
    close(again);
    assert_int_equal(again, next);
    output_release(&output);
}

static void test_check(void **state)
{
    (void)state;
    const char *const good[] = {"true", NULL};
    const char *const bad[] = {"sh", "-c", "echo first; echo 'disk is full' >&2; exit 2", NULL};
    const char *const slow[] = {"sleep", "60", NULL};
    struct error err;
    assert_int_equal(process_check(&(struct process){.argv = good}, &err), 0);
    assert_int_equal(process_check(&(struct process){.argv = bad}, &err), -1);
    assert_string_equal(err.msg, "'sh' failed with status 2: disk is full");
    assert_int_equal(process_check(&(struct process){.argv = slow, .timeout_ms = 50}, &err), -1);
    assert_int_equal(err.code, ERROR_TIMEOUT);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, runs, test_run);
    check_rows(&check, fails, test_fail);
    check_one(&check, "output larger than a pipe comes through whole", test_large_output);
    check_one(&check, "the reader of the output can stop it", test_stop);
    check_one(&check, "stdin and environment can be given", test_stdin_and_environment);
    check_one(&check, "signals that we ignore are not ignored there", test_signals_reset);
    check_one(&check, "no fd is left open", test_no_fd_left);
    check_one(&check, "a check tells the last line of a failure", test_check);
    return check_run(&check, "process");
}
