/* test_collect.c - artifacts out of a sandbox whose files worker may say anything
 *
 * The test plays cove-init: it takes each question off the socket and writes the answer. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/collect.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/parse.h"
#include "check.h"
#include "runtime/file_stream.h"

#define MAX_FILE 1000

struct world {
    struct loop *loop;
    struct guest *guest;
    struct collect *collect;
    int init_fd;
    struct artifact_list artifacts;
    struct strbuf log; /* what the events said */
    unsigned done;
    struct strbuf answer;
    int64_t newest_ns;
};

static void on_begin(void *ctx, const struct artifact *a)
{
    strbuf_add_fmt(ctx, "[%s:", a->path);
}

static void on_data(void *ctx, const void *data, size_t len)
{
    strbuf_add(ctx, data, len);
}

static void on_end(void *ctx, const struct artifact *a)
{
    (void)a;
    strbuf_add_char(ctx, ']');
}

static const struct execution_events events = {
    .artifact_begin = on_begin, .artifact_data = on_data, .artifact_end = on_end};

static void on_done(void *ctx)
{
    struct world *w = ctx;
    w->done++;
    loop_stop(w->loop);
}

static void on_guest(void *ctx, const struct guest_message *m)
{
    (void)ctx;
    (void)m;
}

static struct execution_input inputs[] = {
    {.path = (char *)"input", .fd = -1, .size = 3, .mtime_ns = 77},
};

/* The workspace is too large for a glance, so the list comes from a worker. */
static void glance_too_big(struct world *w)
{
    struct guest_message m;
    int fds[FD_PASS_MAX];
    size_t count;
    assert_int_equal(fd_recv(w->init_fd, &m, sizeof(m), fds, &count), sizeof(m));
    assert_true(m.verb == GUEST_FILES && m.value == GUEST_FILES_LIST_NOW && count == 2);
    close(fds[0]);
    close(fds[1]);
    collect_on_worker_done(w->collect, E2BIG);
}

static void world_open_with(struct world *w, uint64_t now_bytes)
{
    struct error err;
    int pair[2];
    *w = (struct world){.done = 0};
    strbuf_init(&w->log, 1 * MIB);
    strbuf_init(&w->answer, 1 * MIB);
    assert_int_equal(loop_open(&w->loop, &err), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    w->init_fd = pair[1];
    assert_int_equal(guest_open(&w->guest, w->loop, pair[0], on_guest, w, &err), 0);
    const struct collect_order order = {.guest = w->guest,
                                        .inputs = inputs,
                                        .input_count = ARRAY_LEN(inputs),
                                        .newest_ns = &w->newest_ns,
                                        .max_file_bytes = MAX_FILE,
                                        .now_bytes = now_bytes,
                                        .artifacts = &w->artifacts,
                                        .events = &events,
                                        .events_ctx = &w->log,
                                        .done = on_done,
                                        .ctx = w};
    assert_int_equal(collect_new(&w->collect, w->loop, &order, &err), 0);
}

static void world_open_at_glance(struct world *w)
{
    world_open_with(w, 0);
}

static void world_open(struct world *w)
{
    world_open_at_glance(w);
    glance_too_big(w);
}

static void world_close(struct world *w)
{
    collect_free(w->collect);
    guest_free(w->guest);
    loop_free(w->loop);
    close(w->init_fd);
    artifact_list_release(&w->artifacts);
    strbuf_release(&w->log);
    strbuf_release(&w->answer);
}

static void add(struct world *w, uint32_t flags, uint32_t mode, const char *path, uint64_t size,
                int64_t mtime_ns)
{
    const struct guest_file f = {.flags = flags, .mode = mode, .size = size, .mtime_ns = mtime_ns};
    file_stream_add_entry(&w->answer, &f, path);
}

static void add_file(struct world *w, const char *path, const char *content)
{
    add(w, 0, S_IFREG | 0644, path, strlen(content), 1);
    strbuf_add_str(&w->answer, content);
}

/* Takes the question `op` off the socket and answers it. */
static void answer(struct world *w, enum guest_files_op op)
{
    struct guest_message m;
    struct error err;
    int fds[FD_PASS_MAX];
    size_t count;
    assert_int_equal(fd_recv(w->init_fd, &m, sizeof(m), fds, &count), sizeof(m));
    assert_true(m.verb == GUEST_FILES && m.value == (int)op && count == 2);
    assert_int_equal(fd_write_all(fds[1], strbuf_str(&w->answer), w->answer.len, &err), 0);
    strbuf_clear(&w->answer);
    close(fds[0]);
    close(fds[1]);
}

static void on_next_question(void *ctx, unsigned flags)
{
    (void)flags;
    loop_stop(((struct world *)ctx)->loop);
}

/* The worker is over; runs until the next question, or until all is done. */
static void end_worker(struct world *w)
{
    struct error err;
    struct loop_watch *next;
    collect_on_worker_done(w->collect, 0);
    assert_int_equal(
        loop_watch_new(&next, w->loop, w->init_fd, LOOP_READ, on_next_question, w, &err), 0);
    if (w->done == 0)
        loop_run(w->loop);
    loop_watch_free(next);
}

static void list_two(struct world *w)
{
    add(w, 0, S_IFREG | 0644, "b", 5, 1);
    add(w, 0, S_IFREG | 0600, "a", 5, 1);
    file_stream_add_end(&w->answer);
    answer(w, GUEST_FILES_LIST);
    end_worker(w);
    assert_int_equal(w->done, 0);
    assert_int_equal(w->artifacts.count, 2);
}

static void get(struct world *w)
{
    answer(w, GUEST_FILES_GET);
    end_worker(w);
    assert_int_equal(w->done, 1);
}

static void test_good(void **state)
{
    (void)state;
    struct world w;
    char hex[65];
    world_open(&w);
    list_two(&w);
    add_file(&w, "a", "hello");
    add_file(&w, "b", "longer than it was");
    file_stream_add_end(&w.answer);
    get(&w);
    assert_false(w.artifacts.is_cut);
    assert_string_equal(strbuf_str(&w.log), "[a:hello][b:longer than it was]");
    const struct artifact *a = &w.artifacts.items[0], *b = &w.artifacts.items[1];
    assert_string_equal(a->path, "a"); /* sorted */
    assert_true(a->has_content && b->has_content);
    assert_int_equal(b->size, strlen("longer than it was"));
    assert_int_equal(a->mode, S_IFREG | 0600);
    format_hex(a->sha256, 32, hex);
    assert_string_equal(hex, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
    world_close(&w);
}

static void test_glance(void **state)
{
    (void)state;
    struct world w;
    world_open_at_glance(&w);
    add(&w, 0, S_IFREG | 0644, "a", 5, 1);
    file_stream_add_end(&w.answer);
    answer(&w, GUEST_FILES_LIST_NOW);
    end_worker(&w);
    assert_int_equal(w.artifacts.count, 1);
    add_file(&w, "a", "hello");
    file_stream_add_end(&w.answer);
    get(&w);
    assert_false(w.artifacts.is_cut);
    assert_string_equal(strbuf_str(&w.log), "[a:hello]");
    world_close(&w);
}

static void test_glance_without_end(void **state)
{
    (void)state;
    struct world w;
    world_open_at_glance(&w);
    answer(&w, GUEST_FILES_LIST_NOW);
    end_worker(&w);
    assert_true(w.done == 1 && w.artifacts.is_cut);
    world_close(&w);
}

/* Ten bytes may be read, five of one file: "a" is too large, and "d" is one too many. */
static void test_left(void **state)
{
    (void)state;
    struct world w;
    world_open_with(&w, 10);
    add(&w, 0, S_IFREG | 0644, "d", 3, 1);
    add(&w, 0, S_IFREG | 0644, "c", 4, 1);
    add(&w, 0, S_IFREG | 0644, "b", 5, 1);
    add(&w, 0, S_IFREG | 0644, "a", 6, 1);
    file_stream_add_end(&w.answer);
    answer(&w, GUEST_FILES_LIST_NOW);
    end_worker(&w);
    add_file(&w, "b", "hello");
    add_file(&w, "c", "four");
    file_stream_add_end(&w.answer);
    get(&w);
    assert_false(w.artifacts.is_cut);
    assert_string_equal(strbuf_str(&w.log), "[b:hello][c:four]");
    static const bool left[] = {true, false, false, true};
    for (size_t i = 0; i < ARRAY_LEN(left); i++) {
        assert_int_equal(w.artifacts.items[i].is_left, left[i]);
        assert_int_equal(w.artifacts.items[i].has_content, !left[i]);
    }
    world_close(&w);
}

static void test_all_left(void **state)
{
    (void)state;
    struct world w;
    world_open_with(&w, 10);
    add(&w, 0, S_IFREG | 0644, "a", 6, 1);
    file_stream_add_end(&w.answer);
    answer(&w, GUEST_FILES_LIST_NOW);
    end_worker(&w);
    assert_true(w.done == 1 && !w.artifacts.is_cut && w.artifacts.items[0].is_left);
    world_close(&w);
}

static void test_newest(void **state)
{
    (void)state;
    static const int64_t times[] = {77, 99, 88};
    static const uint32_t modes[] = {S_IFREG | 0644, S_IFDIR | 0755, S_IFREG | 0644};
    struct world w;
    world_open_at_glance(&w);
    w.newest_ns = 98;
    for (size_t i = 0; i < ARRAY_LEN(times); i++) {
        const struct guest_file f = {.mode = modes[i], .mtime_ns = 1, .ctime_ns = times[i]};
        file_stream_add_entry(&w.answer, &f, "a");
    }
    file_stream_add_end(&w.answer);
    answer(&w, GUEST_FILES_LIST_NOW);
    end_worker(&w);
    assert_int_equal(w.newest_ns, 99);
    world_close(&w);
}

static void test_not_artifacts(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    add(&w, 0, S_IFREG | 0644, "input", 3, 77); /* as it came */
    add(&w, 0, S_IFDIR | 0755, "folder", 0, 1);
    add(&w, 0, S_IFLNK | 0777, "link", 9, 1);
    add(&w, 0, S_IFIFO | 0666, "fifo", 0, 1);
    add(&w, 0, S_IFSOCK | 0666, "socket", 0, 1);
    file_stream_add_end(&w.answer);
    answer(&w, GUEST_FILES_LIST);
    end_worker(&w);
    assert_int_equal(w.done, 1); /* nothing to ask for */
    assert_true(w.artifacts.count == 0 && !w.artifacts.is_cut);
    world_close(&w);
}

static void test_changed_input(void **state)
{
    (void)state;
    static const struct {
        uint64_t size;
        int64_t mtime_ns;
    } changes[] = {{4, 77}, {3, 78}};
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        struct world w;
        world_open(&w);
        add(&w, 0, S_IFREG | 0644, "input", changes[i].size, changes[i].mtime_ns);
        file_stream_add_end(&w.answer);
        answer(&w, GUEST_FILES_LIST);
        end_worker(&w);
        assert_int_equal(w.artifacts.count, 1);
        add_file(&w, "input", "new");
        file_stream_add_end(&w.answer);
        get(&w);
        assert_string_equal(strbuf_str(&w.log), "[input:new]");
        world_close(&w);
    }
}

static void test_missing(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    list_two(&w);
    add(&w, GUEST_FILE_MISSING, 0, "a", 0, 0);
    add_file(&w, "b", "here");
    file_stream_add_end(&w.answer);
    get(&w);
    assert_true(w.artifacts.is_cut);
    assert_false(w.artifacts.items[0].has_content);
    assert_true(w.artifacts.items[1].has_content);
    assert_string_equal(strbuf_str(&w.log), "[b:here]");
    world_close(&w);
}

static void test_too_many(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    for (int i = 0; i < ARTIFACTS_MAX + 5; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%d", i);
        add(&w, 0, S_IFREG | 0644, name, 0, 1);
    }
    file_stream_add_end(&w.answer);
    answer(&w, GUEST_FILES_LIST);
    end_worker(&w);
    assert_int_equal(w.artifacts.count, ARTIFACTS_MAX);
    assert_true(w.artifacts.is_cut);
    world_close(&w);
}

/* The worker's end and the end of its stream come in either order; elsewhere it is the worker. */
static void test_order(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    file_stream_add_end(&w.answer);
    answer(&w, GUEST_FILES_LIST);
    assert_int_equal(shutdown(w.init_fd, SHUT_RDWR), 0); /* the guest is watched no more... */
    loop_run(w.loop);                                    /* ...so this ends with the stream */
    assert_int_equal(w.done, 0);
    collect_on_worker_done(w.collect, 0);
    assert_int_equal(w.done, 1);
    world_close(&w);
}

/* --- lies ------------------------------------------------------------------------------------ */

static void test_list_without_end(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    answer(&w, GUEST_FILES_LIST);
    end_worker(&w);
    assert_true(w.done == 1 && w.artifacts.is_cut);
    world_close(&w);
}

static void test_list_lies(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    add(&w, 0, S_IFREG | 0644, "a", 5, 1);
    add(&w, 0, S_IFREG | 0644, "../../etc/passwd", 5, 1);
    file_stream_add_end(&w.answer);
    answer(&w, GUEST_FILES_LIST);
    end_worker(&w);
    assert_true(w.artifacts.is_cut);
    assert_int_equal(w.artifacts.count, 1); /* what came before it is still asked for */
    world_close(&w);
}

struct lie {
    const char *name;
    void (*tell)(struct world *w);
    const char *log; /* what was handed on before it was noticed */
};

static void tell_other_name(struct world *w)
{
    add_file(w, "c", "hello");
}

static void tell_wrong_order(struct world *w)
{
    add_file(w, "b", "hello");
}

static void tell_twice(struct world *w)
{
    add_file(w, "a", "hello");
    add_file(w, "a", "hello");
}

static void tell_too_large(struct world *w)
{
    add(w, 0, S_IFREG | 0644, "a", MAX_FILE + 1, 1);
    for (int i = 0; i < MAX_FILE + 1; i++)
        strbuf_add_char(&w->answer, 'x');
}

static void tell_half(struct world *w)
{
    add(w, 0, S_IFREG | 0644, "a", 10, 1);
    strbuf_add_str(&w->answer, "half");
}

static const struct lie lies[] = {
    {"a file that nobody asked for", tell_other_name, ""},
    {"a file out of turn", tell_wrong_order, ""},
    {"a file twice", tell_twice, "[a:hello]"},
    {"a file larger than allowed", tell_too_large, ""},
    {"half a file", tell_half, "[a:half"},
};

/* What did not come whole has no content, and the list says that it is cut. */
static void test_lie(void **state)
{
    const struct lie *row = *state;
    struct world w;
    world_open(&w);
    list_two(&w);
    row->tell(&w);
    get(&w);
    assert_true(w.artifacts.is_cut);
    assert_string_equal(strbuf_str(&w.log), row->log);
    bool is_whole = strchr(row->log, ']') != NULL;
    assert_int_equal(w.artifacts.items[0].has_content, is_whole);
    assert_false(w.artifacts.items[1].has_content);
    world_close(&w);
}

static void test_free_early(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    list_two(&w); /* and freed while the second question is open */
    world_close(&w);
    assert_int_equal(w.done, 0);
}

static void test_dead_guest(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    add(&w, 0, S_IFREG | 0644, "a", 5, 1);
    file_stream_add_end(&w.answer);
    answer(&w, GUEST_FILES_LIST);
    assert_int_equal(shutdown(w.init_fd, SHUT_RDWR), 0);
    collect_on_worker_done(w.collect, 0);
    loop_run(w.loop);
    assert_true(w.done == 1 && w.artifacts.is_cut);
    world_close(&w);
}

int main(void)
{
    struct check check = {.count = 0};
    signal(SIGPIPE, SIG_IGN); /* as the program does */
    check_one(&check, "artifacts are listed, got, hashed and sorted", test_good);
    check_one(&check, "a glance is enough for a small workspace", test_glance);
    check_one(&check, "a glance without an end is cut", test_glance_without_end);
    check_one(&check, "the time of the last change is told", test_newest);
    check_one(&check, "folders, links and unchanged inputs are none", test_not_artifacts);
    check_one(&check, "a changed input is one", test_changed_input);
    check_one(&check, "a file that is gone meanwhile is left out", test_missing);
    check_one(&check, "more than the limit is cut", test_too_many);
    check_one(&check, "the worker may end after its stream", test_order);
    check_one(&check, "a list without an end is cut", test_list_without_end);
    check_one(&check, "a list that lies is cut at the lie", test_list_lies);
    check_rows(&check, lies, test_lie);
    check_one(&check, "it can be freed at any time", test_free_early);
    check_one(&check, "a sandbox that died is no error", test_dead_guest);
    check_one(&check, "large files are left for later", test_left);
    check_one(&check, "nothing is asked for when all are", test_all_left);
    return check_run(&check, "collect");
}
