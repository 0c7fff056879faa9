/* test_files.c - the files worker in a workspace that a hostile tenant prepared
 *
 * It opens /workspace, so each test runs it in a child whose root is a folder made for it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "check.h"
#include "init/init.h"
#include "runtime/file_stream.h"

#define STREAM_MAX (1 * MIB)
#define SECOND     1000000000ll

struct world {
    char *root;
    int fd; /* of the workspace */
    struct strbuf in;
    struct strbuf out;
};

static void world_open(struct world *w)
{
    if (geteuid() != 0)
        check_skip("only root can change its root");
    w->root = check_temp_dir();
    scoped_free char *workspace = xasprintf("%s/workspace", w->root);
    assert_int_equal(mkdir(workspace, 0755), 0);
    w->fd = open(workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(w->fd >= 0);
    strbuf_init(&w->in, STREAM_MAX);
    strbuf_init(&w->out, STREAM_MAX);
}

static void world_close(struct world *w)
{
    close(w->fd);
    check_remove_dir(w->root);
    strbuf_release(&w->in);
    strbuf_release(&w->out);
}

/* Runs the worker on w->in; its answer is the errno, what it wrote is in w->out. */
static int run_since(struct world *w, enum guest_files_op op, int64_t since_ns)
{
    const struct guest_message m = {.value = (int32_t)op, .since_ns = since_ns};
    char in_name[] = "/tmp/cove-in-XXXXXX";
    struct error err;
    int out[2], status;
    scoped_fd int in = mkstemp(in_name);
    assert_true(in >= 0 && unlink(in_name) == 0);
    assert_int_equal(fd_write_all(in, strbuf_str(&w->in), w->in.len, &err), 0);
    assert_int_equal(lseek(in, 0, SEEK_SET), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(out[0]);
        _exit(chroot(w->root) < 0 || chdir("/") < 0 ? 255 : init_files(&m, in, out[1]));
    }
    close(out[1]);
    char buffer[4096];
    ssize_t n;
    strbuf_clear(&w->out);
    while ((n = read(out[0], buffer, sizeof(buffer))) > 0)
        strbuf_add(&w->out, buffer, (size_t)n);
    close(out[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int run(struct world *w, enum guest_files_op op)
{
    return run_since(w, op, 0);
}

static void add(struct strbuf *b, const char *path, const char *content, uint32_t mode,
                int64_t mtime_ns)
{
    const struct guest_file f = {.mode = mode, .size = strlen(content), .mtime_ns = mtime_ns};
    file_stream_add_entry(b, &f, path);
    strbuf_add_str(b, content);
}

static void assert_content(struct world *w, const char *path, const char *content)
{
    scoped_free char *full = xasprintf("%s/workspace/%s", w->root, path);
    scoped_free char *text = check_read_file(full);
    assert_string_equal(text, content);
}

static void touch(struct world *w, const char *path, const char *content)
{
    struct error err;
    scoped_fd int fd = openat(w->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, content, strlen(content), &err), 0);
}

/* --- put ------------------------------------------------------------------------------------- */

static void test_put(void **state)
{
    (void)state;
    struct world w;
    struct stat st;
    world_open(&w);
    umask(0);
    add(&w.in, "a", "first", 0100640, 5 * SECOND + 7);
    add(&w.in, "deep/er/b", "second", 0104777, 0);
    add(&w.in, "empty", "", 0100600, 1);
    file_stream_add_end(&w.in);
    assert_int_equal(run(&w, GUEST_FILES_PUT), 0);
    assert_content(&w, "a", "first");
    assert_content(&w, "deep/er/b", "second");
    assert_content(&w, "empty", "");
    assert_int_equal(fstatat(w.fd, "a", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_true(st.st_mtim.tv_sec == 5 && st.st_mtim.tv_nsec == 7);
    assert_int_equal(fstatat(w.fd, "deep/er/b", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0777); /* no set-uid */
    world_close(&w);
}

struct time_case {
    const char *name;
    int64_t ns;
    time_t seconds;
    long nanoseconds;
};

static const struct time_case times[] = {
    {"now", 1700000000 * SECOND + 123, 1700000000, 123},
    {"1970", 0, 0, 0},
    {"half a second before 1970", -SECOND / 2, -1, SECOND / 2},
    {"a second before 1970", -SECOND, -1, 0},
    {"long before 1970", -1000000 * SECOND - 1, -1000001, SECOND - 1},
};

static void test_time(void **state)
{
    const struct time_case *row = *state;
    struct world w;
    struct stat st;
    world_open(&w);
    add(&w.in, "a", "x", 0644, row->ns);
    file_stream_add_end(&w.in);
    assert_int_equal(run(&w, GUEST_FILES_PUT), 0);
    assert_int_equal(fstatat(w.fd, "a", &st, 0), 0);
    assert_int_equal(st.st_mtim.tv_sec, row->seconds);
    assert_int_equal(st.st_mtim.tv_nsec, row->nanoseconds);
    world_close(&w);
}

/* A stream that ends anywhere but at its end mark has failed. */
static void test_put_cut(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    add(&w.in, "a", "first", 0644, 0);
    file_stream_add_end(&w.in);
    const size_t whole = w.in.len;
    for (size_t len = 0; len < whole; len++) {
        w.in.len = len;
        assert_int_equal(run(&w, GUEST_FILES_PUT), EPROTO);
    }
    w.in.len = whole;
    assert_int_equal(run(&w, GUEST_FILES_PUT), 0);
    world_close(&w);
}

struct link_case {
    const char *name;
    const char *path;
    int error;
};

/* The workspace holds `up` -> .., `abs` -> /, `file` -> ../victim, a FIFO and a folder. */
static const struct link_case put_cases[] = {
    {"not through a link to the folder above", "up/victim", EXDEV},
    {"not through an absolute link", "abs/victim", EXDEV},
    {"not through a link as the file", "file", ELOOP},
    {"not upwards", "../victim", EXDEV},
    {"not to an absolute path", "/victim", ENOENT},
    {"not over a folder", "folder", EISDIR},
    {"not into a FIFO that nobody reads", "fifo", ENXIO},
};

static void plant(struct world *w)
{
    scoped_free char *victim = xasprintf("%s/victim", w->root);
    close(open(victim, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    assert_int_equal(symlinkat("..", w->fd, "up"), 0);
    assert_int_equal(symlinkat("/", w->fd, "abs"), 0);
    assert_int_equal(symlinkat("../victim", w->fd, "file"), 0);
    assert_int_equal(mkfifoat(w->fd, "fifo", 0666), 0);
    assert_int_equal(mkdirat(w->fd, "folder", 0755), 0);
}

static void test_put_hostile(void **state)
{
    const struct link_case *row = *state;
    struct world w;
    struct stat st;
    world_open(&w);
    plant(&w);
    add(&w.in, row->path, "evil", 0644, 0);
    file_stream_add_end(&w.in);
    int error = run(&w, GUEST_FILES_PUT);
    assert_true(error == row->error || (row->error == EXDEV && error == ELOOP));
    scoped_free char *victim = xasprintf("%s/victim", w.root);
    assert_int_equal(stat(victim, &st), 0);
    assert_int_equal(st.st_size, 0);
    world_close(&w);
}

/* --- list and get ---------------------------------------------------------------------------- */

static int record_entry(void *ctx, const struct guest_file *file, const char *path,
                        struct error *err)
{
    (void)err;
    strbuf_add_fmt(ctx, "%s %s%" PRIu64 ":", path,
                   file->flags & GUEST_FILE_MISSING ? "missing "
                   : S_ISREG(file->mode)            ? "file "
                   : S_ISDIR(file->mode)            ? "folder "
                   : S_ISLNK(file->mode)            ? "link "
                                                    : "other ",
                   S_ISREG(file->mode) ? file->size : 0);
    return 0;
}

static int record_content(void *ctx, const void *data, size_t len, struct error *err)
{
    (void)err;
    strbuf_add(ctx, data, len);
    return 0;
}

static int record_done(void *ctx, struct error *err)
{
    (void)err;
    strbuf_add_char(ctx, '\n');
    return 0;
}

static const struct file_stream_events events = {record_entry, record_content, record_done};

/* Reads w->out back as the host does; answers whether the list was cut. */
static bool read_back(struct world *w, struct strbuf *text, bool has_content)
{
    struct file_stream_reader reader;
    struct error err = {.msg = ""};
    strbuf_init(text, STREAM_MAX);
    file_stream_reader_init(&reader, &events, text, has_content);
    if (file_stream_reader_feed(&reader, strbuf_str(&w->out), w->out.len, &err) < 0)
        fail_msg("%s", err.msg);
    assert_true(reader.is_over);
    return reader.is_cut;
}

static bool has_line(const struct strbuf *text, const char *line)
{
    return strstr(strbuf_str(text), line) != NULL;
}

static void test_list(void **state)
{
    (void)state;
    struct world w;
    struct strbuf text;
    world_open(&w);
    plant(&w);
    touch(&w, "a", "12345");
    touch(&w, "folder/b\n\x1b", "");
    assert_int_equal(run(&w, GUEST_FILES_LIST), 0);
    assert_false(read_back(&w, &text, false));
    assert_true(has_line(&text, "a file 5:\n"));
    assert_true(has_line(&text, "folder folder 0:\n"));
    assert_true(has_line(&text, "folder/b\n\x1b file 0:\n"));
    assert_true(has_line(&text, "up link 0:\n"));
    assert_true(has_line(&text, "fifo other 0:\n"));
    assert_false(has_line(&text, "up/")); /* links are not entered */
    strbuf_release(&text);
    world_close(&w);
}

/* However many stand there, what has changed is found; of more than can be told some are. */
static void test_list_many(void **state)
{
    (void)state;
    enum { MANY = 20500, TOLD = 20000 };
    struct world w;
    struct strbuf text;
    struct stat st, last;
    char name[16];
    size_t lines = 0;
    world_open(&w);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "%05d", i);
        scoped_fd int fd = openat(w.fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        assert_true(fd >= 0);
    }
    assert_int_equal(fstatat(w.fd, name, &last, 0), 0);
    do { /* until the clock of the file system has moved on */
        touch(&w, "new", "12345");
        assert_int_equal(fstatat(w.fd, "new", &st, 0), 0);
    } while (st.st_ctim.tv_sec == last.st_ctim.tv_sec &&
             st.st_ctim.tv_nsec == last.st_ctim.tv_nsec);
    assert_int_equal(
        run_since(&w, GUEST_FILES_LIST, st.st_ctim.tv_sec * SECOND + st.st_ctim.tv_nsec), 0);
    assert_false(read_back(&w, &text, false));
    assert_string_equal(strbuf_str(&text), "new file 5:\n");
    strbuf_release(&text);
    assert_int_equal(run(&w, GUEST_FILES_LIST), 0);
    assert_true(read_back(&w, &text, false));
    for (const char *at = strbuf_str(&text); (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, TOLD);
    strbuf_release(&text);
    world_close(&w);
}

static void test_list_empty(void **state)
{
    (void)state;
    struct world w;
    struct strbuf text;
    world_open(&w);
    assert_int_equal(run(&w, GUEST_FILES_LIST), 0);
    assert_false(read_back(&w, &text, false));
    assert_int_equal(text.len, 0);
    strbuf_release(&text);
    world_close(&w);
}

/* Times that do not fit nanoseconds, where the file system takes them. */
static void test_list_times(void **state)
{
    (void)state;
    struct world w;
    struct strbuf text;
    world_open(&w);
    const time_t far = (time_t)1 << 60;
    const struct timespec late[2] = {{.tv_sec = far}, {.tv_sec = far}};
    const struct timespec early[2] = {{.tv_sec = -far}, {.tv_sec = -far, .tv_nsec = 5}};
    touch(&w, "late", "");
    touch(&w, "early", "");
    assert_int_equal(utimensat(w.fd, "late", late, 0), 0);
    assert_int_equal(utimensat(w.fd, "early", early, 0), 0);
    assert_int_equal(run(&w, GUEST_FILES_LIST), 0);
    assert_false(read_back(&w, &text, false));
    assert_true(has_line(&text, "late file 0:\n") && has_line(&text, "early file 0:\n"));
    strbuf_release(&text);
    world_close(&w);
}

/* Folders in folders, deeper than a path can be long. */
static void test_list_deep(void **state)
{
    (void)state;
    struct world w;
    struct strbuf text;
    int depth = 0;
    world_open(&w);
    int fd = dup(w.fd);
    for (; depth < 200; depth++) {
        assert_int_equal(mkdirat(fd, "d", 0755), 0);
        int next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = next;
    }
    close(fd);
    assert_int_equal(run(&w, GUEST_FILES_LIST), 0);
    assert_true(read_back(&w, &text, false)); /* it says that there was more */
    assert_true(has_line(&text, "d/d/d folder"));
    strbuf_release(&text);
    world_close(&w);
}

static void test_list_since(void **state)
{
    (void)state;
    struct world w;
    struct strbuf text;
    struct timespec now;
    world_open(&w);
    touch(&w, "a", "hello");
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    int64_t since = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    assert_int_equal(run_since(&w, GUEST_FILES_LIST_NOW, since + 3600000000000), 0);
    assert_false(read_back(&w, &text, false));
    assert_string_equal(strbuf_str(&text), "");
    strbuf_release(&text);
    touch(&w, "b", "hello");
    assert_int_equal(run_since(&w, GUEST_FILES_LIST_NOW, since), 0);
    assert_false(read_back(&w, &text, false));
    assert_non_null(strstr(strbuf_str(&text), "b file"));
    strbuf_release(&text);
    world_close(&w);
}

static void test_glance_too_big(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    for (int i = 0; i < 501; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%d", i);
        touch(&w, name, "");
    }
    assert_int_equal(run(&w, GUEST_FILES_LIST_NOW), E2BIG);
    world_close(&w);
}

static void test_get(void **state)
{
    (void)state;
    static const char *const wanted[] = {"a",       "none",   "up/victim", "abs/victim",
                                         "file",    "folder", "fifo",      "../victim",
                                         "/victim", "large",  "folder/b"};
    struct world w;
    struct strbuf text;
    world_open(&w);
    plant(&w);
    touch(&w, "a", "hello");
    touch(&w, "large", "0123456789");
    touch(&w, "folder/b", "");
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        const struct guest_file f = {.size = 9}; /* more than that is not wanted */
        file_stream_add_entry(&w.in, &f, wanted[i]);
    }
    file_stream_add_end(&w.in);
    assert_int_equal(run(&w, GUEST_FILES_GET), 0);
    /* Bad paths come back as they were asked for, which our own reader would refuse. */
    const char *out = strbuf_str(&w.out);
    assert_non_null(memmem(out, w.out.len, "ahello", 6));
    assert_null(memmem(out, w.out.len, "0123456789", 10));
    strbuf_clear(&w.in);
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        const struct guest_file f = {.size = 9};
        if (file_stream_is_good_path(wanted[i], strlen(wanted[i])))
            file_stream_add_entry(&w.in, &f, wanted[i]);
    }
    file_stream_add_end(&w.in);
    assert_int_equal(run(&w, GUEST_FILES_GET), 0);
    assert_false(read_back(&w, &text, true));
    assert_string_equal(strbuf_str(&text), "a file 5:hello\n"
                                           "none missing 0:\nup/victim missing 0:\n"
                                           "abs/victim missing 0:\nfile missing 0:\n"
                                           "folder missing 0:\nfifo missing 0:\n"
                                           "large missing 0:\nfolder/b file 0:\n");
    strbuf_release(&text);
    world_close(&w);
}

static void test_no_workspace(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    scoped_free char *workspace = xasprintf("%s/workspace", w.root);
    assert_int_equal(rmdir(workspace), 0);
    assert_int_equal(run(&w, GUEST_FILES_LIST), ENOENT);
    assert_int_equal(symlink("/", workspace), 0);
    int error = run(&w, GUEST_FILES_LIST);
    assert_true(error == ELOOP || error == ENOTDIR);
    world_close(&w);
}

static void test_bad_op(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    assert_int_equal(run(&w, (enum guest_files_op)0), EINVAL);
    assert_int_equal(run(&w, (enum guest_files_op)99), EINVAL);
    world_close(&w);
}

/* --- pack ------------------------------------------------------------------------------------ */

static void fill_tree(struct world *w)
{
    const struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = -5, .tv_nsec = 7}};
    touch(w, "plain", "content");
    assert_int_equal(fchmodat(w->fd, "plain", 04640, 0), 0);
    assert_int_equal(utimensat(w->fd, "plain", long_ago, 0), 0);
    assert_int_equal(mkdirat(w->fd, "d", 0755), 0);
    touch(w, "d/inner", "x");
    assert_int_equal(symlinkat("../../etc/passwd", w->fd, "d/link"), 0);
    assert_int_equal(mkfifoat(w->fd, "d/fifo", 0600), 0);
    assert_int_equal(fchmodat(w->fd, "d", 0500, 0), 0);
    scoped_fd int fd = openat(w->fd, "sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0 && ftruncate(fd, 1 << 30) == 0 && pwrite(fd, "!", 1, 1 << 29) == 1);
}

static void test_pack(void **state)
{
    (void)state;
    struct world a, b;
    struct stat st;
    char target[64] = {0};
    world_open(&a);
    world_open(&b);
    fill_tree(&a);
    assert_int_equal(run(&a, GUEST_FILES_PACK), 0);
    assert_true(a.out.len < 1 << 20); /* holes are left out */
    strbuf_add(&b.in, a.out.data, a.out.len);
    assert_int_equal(run(&b, GUEST_FILES_UNPACK), 0);
    assert_content(&b, "plain", "content");
    assert_content(&b, "d/inner", "x");
    assert_int_equal(fstatat(b.fd, "plain", &st, 0), 0);
    assert_int_equal(st.st_mode, S_IFREG | 04640);
    assert_true(st.st_mtim.tv_sec == -5 && st.st_mtim.tv_nsec == 7);
    assert_int_equal(fstatat(b.fd, "d", &st, 0), 0);
    assert_int_equal(st.st_mode, S_IFDIR | 0500);
    assert_true(readlinkat(b.fd, "d/link", target, sizeof(target) - 1) > 0);
    assert_string_equal(target, "../../etc/passwd");
    assert_int_equal(fstatat(b.fd, "d/fifo", &st, 0), 0);
    assert_int_equal(st.st_mode, S_IFIFO | 0600);
    assert_int_equal(fstatat(b.fd, "sparse", &st, 0), 0);
    assert_true(st.st_size == 1 << 30 && st.st_blocks < 1 << 12);
    world_close(&a);
    world_close(&b);
}

static void test_unpack_cut(void **state)
{
    (void)state;
    struct world a;
    world_open(&a);
    touch(&a, "one", "content");
    assert_int_equal(symlinkat("target", a.fd, "two"), 0);
    assert_int_equal(run(&a, GUEST_FILES_PACK), 0);
    for (size_t len = 0; len < a.out.len; len++) {
        struct world b;
        world_open(&b);
        strbuf_add(&b.in, a.out.data, len);
        assert_int_equal(run(&b, GUEST_FILES_UNPACK), EPROTO);
        world_close(&b);
    }
    world_close(&a);
}

/* A stream comes from another sandbox: it leads nowhere but into this one's workspace. */
static void test_unpack_hostile(void **state)
{
    (void)state;
    struct world w;
    struct stat st;
    world_open(&w);
    const struct guest_file link = {.mode = S_IFLNK | 0777, .size = 2};
    const struct guest_file file = {.mode = S_IFREG | 0644};
    file_stream_add_entry(&w.in, &link, "out");
    strbuf_add_str(&w.in, "..");
    file_stream_add_entry(&w.in, &file, "out/escaped");
    assert_true(run(&w, GUEST_FILES_UNPACK) != 0);
    scoped_free char *escaped = xasprintf("%s/escaped", w.root);
    assert_int_equal(lstat(escaped, &st), -1);
    world_close(&w);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "a packed workspace is unpacked as it was", test_pack);
    check_one(&check, "a packed workspace that is cut is an error at every byte", test_unpack_cut);
    check_one(&check, "no entry is written through a link", test_unpack_hostile);
    check_one(&check, "files are put with mode and time", test_put);
    check_rows(&check, times, test_time);
    check_one(&check, "a stream that is cut is an error at every byte", test_put_cut);
    check_rows(&check, put_cases, test_put_hostile);
    check_one(&check, "a list names all, and follows no link", test_list);
    check_one(&check, "an empty workspace is an empty list", test_list_empty);
    check_one(&check, "finds what is new among many", test_list_many);
    check_one(&check, "the furthest times do no harm", test_list_times);
    check_one(&check, "a list that is too deep says so", test_list_deep);
    check_one(&check, "a list of changes leaves out what is older", test_list_since);
    check_one(&check, "pid 1 itself looks at few files only", test_glance_too_big);
    check_one(&check, "only regular files below the workspace are got", test_get);
    check_one(&check, "without a workspace there is nothing", test_no_workspace);
    check_one(&check, "an unknown request is refused", test_bad_op);
    return check_run(&check, "files");
}
