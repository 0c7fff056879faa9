/* test_stdio.c - the three pipes of a program that this test plays itself */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "check.h"
#include "core/pipes.h"

#define KEPT 1000

struct world {
    struct loop *loop;
    struct stdio *stdio;
    struct output out, err;
    struct strbuf told; /* what the `output` calls said, after 'o' or 'e' */
    int theirs[3];
    unsigned ended;
    bool frees_itself;
    unsigned fds_before;
};

static void on_output(void *ctx, enum execution_stream stream, const void *data, size_t len)
{
    struct world *w = ctx;
    strbuf_add_char(&w->told, stream == EXECUTION_STDOUT ? 'o' : 'e');
    strbuf_add(&w->told, data, len);
}

static void on_ended(void *ctx)
{
    struct world *w = ctx;
    w->ended++;
    if (w->frees_itself)
        stdio_free(take_ptr(&w->stdio));
    loop_stop(w->loop);
}

static void world_open(struct world *w, int stdin_fd)
{
    struct error err;
    *w = (struct world){.theirs = {-1, -1, -1}};
    assert_int_equal(loop_open(&w->loop, &err), 0);
    loop_free(w->loop); /* the first one of a process keeps descriptors of its own */
    w->fds_before = check_count_fds() - (stdin_fd >= 0);
    assert_int_equal(loop_open(&w->loop, &err), 0);
    output_init(&w->out, KEPT);
    output_init(&w->err, KEPT);
    strbuf_init(&w->told, 1 * MIB);
    const struct stdio_order order = {.stdin_fd = stdin_fd,
                                      .outputs = {&w->out, &w->err},
                                      .output = on_output,
                                      .ended = on_ended,
                                      .ctx = w};
    assert_int_equal(stdio_new(&w->stdio, w->loop, &order, w->theirs, &err), 0);
}

static void close_theirs(struct world *w)
{
    for (int i = 0; i < 3; i++) {
        scoped_close_fd(&w->theirs[i]);
        w->theirs[i] = -1;
    }
}

static void world_close(struct world *w)
{
    close_theirs(w);
    stdio_free(w->stdio);
    loop_free(w->loop);
    output_release(&w->out);
    output_release(&w->err);
    strbuf_release(&w->told);
    assert_int_equal(check_count_fds(), w->fds_before);
}

static void print(struct world *w, int fd, const char *text)
{
    assert_int_equal(write(w->theirs[fd], text, strlen(text)), strlen(text));
}

static void assert_text(const struct output *o, const char *text)
{
    struct strbuf kept;
    strbuf_init(&kept, 2 * KEPT);
    output_text(o, &kept);
    assert_string_equal(strbuf_str(&kept), text);
    strbuf_release(&kept);
}

static int memory_file(const char *text)
{
    int fd = memfd_create("in", MFD_CLOEXEC);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

/* --- output ---------------------------------------------------------------------------------- */

static void test_output(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, -1);
    print(&w, 1, "out");
    print(&w, 2, "err");
    close_theirs(&w);
    loop_run(w.loop);
    assert_int_equal(w.ended, 1);
    assert_true(stdio_has_ended(w.stdio));
    assert_text(&w.out, "out");
    assert_text(&w.err, "err");
    assert_int_equal(w.told.len, 8);
    assert_non_null(strstr(strbuf_str(&w.told), "oout"));
    assert_non_null(strstr(strbuf_str(&w.told), "eerr"));
    world_close(&w);
}

/* The ends that go inside are pipes, and no file of the host's. */
static void test_only_pipes(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, memory_file("secret"));
    for (int i = 0; i < 3; i++) {
        struct stat st;
        assert_int_equal(fstat(w.theirs[i], &st), 0);
        assert_true(S_ISFIFO(st.st_mode));
        assert_int_equal(fcntl(w.theirs[i], F_GETFL) & O_ACCMODE, i == 0 ? O_RDONLY : O_WRONLY);
        assert_false(fcntl(w.theirs[i], F_GETFL) & O_NONBLOCK); /* a program may not expect it */
    }
    world_close(&w);
}

static void test_one_closed(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, -1);
    close(take_fd(&w.theirs[1]));
    print(&w, 2, "x");
    stdio_read_now(w.stdio);
    assert_false(stdio_has_ended(w.stdio)); /* the other one lives */
    assert_text(&w.err, "x");
    close(take_fd(&w.theirs[2]));
    stdio_read_now(w.stdio);
    assert_true(stdio_has_ended(w.stdio));
    assert_int_equal(w.ended, 0); /* not from here */
    stdio_read_now(w.stdio);
    world_close(&w);
}

static void test_free_inside(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, -1);
    w.frees_itself = true;
    close_theirs(&w);
    loop_run(w.loop);
    assert_null(w.stdio);
    assert_int_equal(w.ended, 1);
    world_close(&w);
}

static void test_read_now(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, -1);
    stdio_read_now(w.stdio); /* waits for nothing */
    assert_int_equal(w.out.total, 0);
    print(&w, 1, "first ");
    stdio_read_now(w.stdio);
    print(&w, 1, "second");
    stdio_read_now(w.stdio);
    assert_text(&w.out, "first second");
    assert_int_equal(w.ended, 0);
    world_close(&w);
}

/* A full pipe is read at one go: nothing that was printed before an end is lost. */
static void test_full_pipe(void **state)
{
    (void)state;
    struct world w;
    static char block[4096];
    uint64_t total = 0;
    world_open(&w, -1);
    assert_int_equal(fd_set_nonblock(w.theirs[1]), 0);
    for (ssize_t n; (n = write(w.theirs[1], block, sizeof(block))) > 0;)
        total += (uint64_t)n;
    stdio_read_now(w.stdio);
    assert_int_equal(w.out.total, total);
    assert_true(output_is_cut(&w.out));
    assert_int_equal(output_kept(&w.out), KEPT);
    world_close(&w);
}

/* Writes as fast as it is read; a look at what is there must end all the same. */
struct flood {
    struct world *w;
    uint64_t reads;
};

static void on_flood(void *ctx, enum execution_stream stream, const void *data, size_t len)
{
    (void)stream;
    (void)data;
    struct flood *f = ctx;
    static char block[64 * 1024];
    f->reads++;
    assert_int_equal(write(f->w->theirs[1], block, len), len);
}

static void test_flood(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w, -1);
    close_theirs(&w);
    stdio_free(w.stdio);
    struct flood flood = {.w = &w};
    const struct stdio_order order = {.stdin_fd = -1,
                                      .outputs = {&w.out, &w.err},
                                      .output = on_flood,
                                      .ended = on_ended,
                                      .ctx = &flood};
    assert_int_equal(stdio_new(&w.stdio, w.loop, &order, w.theirs, &err), 0);
    print(&w, 1, "begin");
    stdio_read_now(w.stdio);
    assert_in_range(flood.reads, 2, 1000);
    world_close(&w);
}

/* --- pipes made in advance ------------------------------------------------------------------- */

static bool is_read_without_waiting(int fd)
{
    return fcntl(fd, F_GETFL) & O_NONBLOCK;
}

static void test_stock(void **state)
{
    (void)state;
    struct error err;
    struct world w;
    struct stat first, again;
    char byte;
    struct pipes pipes = {0};
    pipes_restock(&pipes);
    world_open(&w, -1);
    close_theirs(&w);
    stdio_free(w.stdio);
    const struct stdio_order order = {.stdin_fd = -1,
                                      .outputs = {&w.out, &w.err},
                                      .output = on_output,
                                      .pipes = &pipes,
                                      .is_lazy = true,
                                      .ended = on_ended,
                                      .ctx = &w};
    unsigned before = check_count_fds();
    assert_int_equal(stdio_new(&w.stdio, w.loop, &order, w.theirs, &err), 0);
    assert_int_equal(check_count_fds(), before); /* those that were in stock */
    assert_int_equal(read(w.theirs[0], &byte, 1), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fstat(w.theirs[i], &first), 0);
        assert_int_equal(first.st_mode & 0777, 0666);
        assert_false(is_read_without_waiting(w.theirs[i]));
    }
    print(&w, 1, "to stdout");
    print(&w, 2, "to stderr");
    stdio_read_now(w.stdio);
    assert_text(&w.out, "to stdout");
    assert_text(&w.err, "to stderr");
    assert_false(stdio_has_ended(w.stdio));
    close_theirs(&w);
    before = check_count_fds();
    stdio_read_now(w.stdio);
    assert_true(stdio_has_ended(w.stdio));
    stdio_free(w.stdio);
    assert_int_equal(check_count_fds(), before); /* nobody waits for it that they are closed */
    pipes_restock(&pipes);
    assert_int_equal(check_count_fds(), before - 2 + 5);

    /* The next one has others, whether there were some in stock or not. */
    assert_int_equal(stdio_new(&w.stdio, w.loop, &order, w.theirs, &err), 0);
    assert_int_equal(fstat(w.theirs[2], &again), 0);
    assert_true(again.st_ino != first.st_ino);
    pipes_release(&pipes);
    w.fds_before -= 5;
    world_close(&w);
}

static void test_stock_is_bounded(void **state)
{
    (void)state;
    unsigned before = check_count_fds();
    struct pipes pipes = {0};
    for (int i = 0; i < 3 * PIPES_STOCK; i++)
        pipes_restock(&pipes);
    assert_int_equal(check_count_fds(), before + 5 * PIPES_STOCK);
    pipes_release(&pipes);
    assert_int_equal(check_count_fds(), before);
}

static void test_spent_are_bounded(void **state)
{
    (void)state;
    unsigned before = check_count_fds();
    struct pipes pipes = {0};
    for (int i = 0; i < 3 * PIPES_SPENT; i++) {
        pipes_leave(&pipes, fcntl(0, F_DUPFD_CLOEXEC, 3));
        assert_true(check_count_fds() <= before + PIPES_SPENT);
    }
    pipes_release(&pipes);
    assert_int_equal(check_count_fds(), before);
}

/* --- discarding ------------------------------------------------------------------------------ */

static void on_late_ended(void *ctx)
{
    struct world *w = ctx;
    w->ended += 100;
    loop_stop(w->loop);
}

static void test_discard(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, memory_file("input"));
    print(&w, 1, "kept");
    stdio_read_now(w.stdio);
    stdio_discard(w.stdio, &w, on_late_ended);
    print(&w, 1, "late");
    print(&w, 2, "late");
    stdio_read_now(w.stdio);
    assert_text(&w.out, "kept");
    assert_int_equal(w.err.total, 0);
    assert_string_equal(strbuf_str(&w.told), "okept");
    close_theirs(&w);
    loop_run(w.loop);
    assert_int_equal(w.ended, 100); /* the new one is called, the old one is not */
    world_close(&w);
}

static void test_discard_ends_input(void **state)
{
    (void)state;
    struct world w;
    int source[2];
    char byte;
    assert_int_equal(pipe2(source, O_CLOEXEC), 0); /* a source that never ends */
    world_open(&w, source[0]);
    w.fds_before--; /* its other end */
    stdio_discard(w.stdio, &w, on_late_ended);
    assert_int_equal(read(w.theirs[0], &byte, 1), 0);
    assert_true(write(source[1], "x", 1) < 0 && errno == EPIPE);
    close(source[1]);
    world_close(&w);
}

/* --- input ----------------------------------------------------------------------------------- */

static void test_no_input(void **state)
{
    (void)state;
    struct world w;
    char byte;
    world_open(&w, -1);
    assert_int_equal(read(w.theirs[0], &byte, 1), 0);
    world_close(&w);
}

static void test_input(void **state)
{
    (void)state;
    struct world w;
    char text[16] = {0};
    world_open(&w, memory_file("hello"));
    close(take_fd(&w.theirs[1])); /* so that the loop ends when all is fed */
    close(take_fd(&w.theirs[2]));
    loop_run(w.loop);
    loop_run(w.loop);
    assert_int_equal(read(w.theirs[0], text, sizeof(text)), 5);
    assert_string_equal(text, "hello");
    assert_int_equal(read(w.theirs[0], text, sizeof(text)), 0);
    world_close(&w);
}

static void test_closed_input(void **state)
{
    (void)state;
    struct world w;
    int fd = memfd_create("in", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 1 * MIB), 0); /* more than a pipe holds */
    world_open(&w, fd);
    close_theirs(&w); /* nobody reads it */
    loop_run(w.loop);
    loop_run(w.loop); /* ends: the feed has given up */
    assert_int_equal(w.ended, 1);
    world_close(&w);
}

static void test_free_early(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, memory_file("never read"));
    print(&w, 1, "never read");
    stdio_free(take_ptr(&w.stdio));
    assert_int_equal(w.ended, 0);
    world_close(&w); /* and looks for descriptors left open */
}

int main(void)
{
    struct check check = {.count = 0};
    signal(SIGPIPE, SIG_IGN);
    check_one(&check, "output is kept, told, and its end is noticed", test_output);
    check_one(&check, "what goes inside is a pipe, and blocks", test_only_pipes);
    check_one(&check, "it has ended when both outputs have", test_one_closed);
    check_one(&check, "it can be freed when it has ended", test_free_inside);
    check_one(&check, "what is there can be read at once", test_read_now);
    check_one(&check, "a full pipe is read at once", test_full_pipe);
    check_one(&check, "a flood does not hold that up", test_flood);
    check_one(&check, "pipes can come from a stock, once", test_stock);
    check_one(&check, "a stock has an end", test_stock_is_bounded);
    check_one(&check, "what is still to be closed is little", test_spent_are_bounded);
    check_one(&check, "what comes late is dropped", test_discard);
    check_one(&check, "a discarded input ends, and so does its source", test_discard_ends_input);
    check_one(&check, "without an input there is an empty one", test_no_input);
    check_one(&check, "an input is fed", test_input);
    check_one(&check, "an input that nobody reads is given up", test_closed_input);
    check_one(&check, "it can be freed at any time", test_free_early);
    return check_run(&check, "stdio");
}
