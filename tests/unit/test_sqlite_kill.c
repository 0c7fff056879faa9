/* test_sqlite_kill.c - a process that writes is killed at any instant: what it was told is there */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "store_world.h"

#define CRASH_ROUNDS 12

/* The other process: each session is added, made busy, ended, and has an execution that left files;
 * each step is told when it is done. Many sessions are under way at once, or one, which is when new
 * ones are told from the ledger. */
struct writer {
    struct store *store;
    int number, step;
    char id[32];
};

#define WRITERS 12
#define WRITER  5000   /* numbers of each */
#define ROUND   100000 /* numbers of each process */
#define STEPS   4
#define FILES   5 /* that an execution leaves */

static void writer_next(struct writer *wr);

static void on_written(void *ctx, const struct store_answer *answer)
{
    struct writer *wr = ctx;
    char line[32];
    struct error err;
    BUG_ON(answer->err != NULL);
    int len = snprintf(line, sizeof(line), "%d %d\n", wr->number, wr->step);
    if (fd_write_all(STDOUT_FILENO, line, (size_t)len, &err) < 0)
        _exit(0); /* nobody listens any more */
    if (++wr->step == STEPS) {
        wr->step = 0;
        wr->number++;
    }
    writer_next(wr);
}

static void write_execution(struct writer *wr)
{
    static const char *const names[FILES] = {"a", "b", "c", "d", "e"};
    char id[32];
    snprintf(id, sizeof(id), "exe_%d", wr->number);
    struct store_artifact left[FILES];
    for (size_t i = 0; i < FILES; i++)
        left[i] = (struct store_artifact){.execution_id = id, .path = names[i], .place = "there"};
    struct store_execution e = an_execution(id, wr->id);
    e.state = STORE_EXECUTION_COMPLETED;
    e.ended_ns = 7;
    e.artifacts = (struct store_list){left, FILES};
    if (wr->number % 2 == 0)
        store_add_execution(wr->store, &e, on_written, wr);
    else
        store_keep_execution(wr->store, &e, on_written, wr);
}

static void writer_next(struct writer *wr)
{
    snprintf(wr->id, sizeof(wr->id), "ses_%d", wr->number);
    if (wr->step == 3) {
        write_execution(wr);
        return;
    }
    struct store_session s = a_session(wr->id);
    struct store_session_change c = {.id = wr->id, .to = STORE_SESSION_BUSY};
    if (wr->step == 2)
        c = (struct store_session_change){
            .id = wr->id, .to = STORE_SESSION_TERMINATED, .ended_ns = 7};
    if (wr->step == 0 && wr->number % 2 == 0)
        store_add_session(wr->store, &s, on_written, wr);
    else if (wr->step == 0)
        store_keep_session(wr->store, &s, on_written, wr);
    else
        store_change_session(wr->store, &c, on_written, wr);
}

static int writer_main(const char *path, int first)
{
    static struct writer writers[WRITERS];
    struct loop *loop;
    struct store *store;
    struct error err;
    if (loop_open(&loop, &err) < 0 ||
        store_open(&store, loop, &sqlite_ops, &(struct store_order){.place = path}, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    for (int i = 0; i < (first / ROUND % 2 ? 1 : WRITERS); i++) {
        writers[i] = (struct writer){.store = store, .number = first + i * WRITER};
        writer_next(&writers[i]);
    }
    loop_run(loop);
    return 1;
}

static pid_t writer_start(const char *path, int first, int *out)
{
    int fds[2];
    char number[16];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    snprintf(number, sizeof(number), "%d", first);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        execl("/proc/self/exe", "test_sqlite", "--writer", path, number, (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    *out = fds[0];
    return pid;
}

/* Kills the writer after so many bytes were told; reads the rest of what was. -> its text */
static char *writer_listen(pid_t pid, int fd, size_t kill_after)
{
    size_t len = 0, cap = 1 * MIB;
    char *text = xmalloc(cap);
    ssize_t n;
    while ((n = read(fd, text + len, MIN(cap - 1 - len, 64))) > 0) {
        len += (size_t)n;
        if (len >= kill_after && pid > 0) {
            kill(pid, SIGKILL);
            assert_int_equal(waitpid(pid, NULL, 0), pid);
            pid = -1;
        }
    }
    assert_int_equal(pid, -1); /* it did not end by itself */
    text[len] = '\0';
    close(fd);
    return text;
}

struct told {
    struct world *world;
    int number, step;
};

static void on_told(void *ctx, const struct store_answer *answer)
{
    const struct told *told = ctx;
    assert_null(answer->err);
    enum store_session_state now = answer->sessions->state;
    int reached = now == STORE_SESSION_TERMINATED ? 2 : now == STORE_SESSION_BUSY ? 1 : 0;
    assert_true(reached >= MIN(told->step, 2));
    world_on_answer(told->world, &(struct store_answer){0});
}

/* All questions at once: one by one they would take longer than all the rest. -> how many */
static size_t check_told(struct world *w, const char *text)
{
    static struct told told[STORE_QUEUE_MAX];
    size_t count = 0;
    int used;
    for (; count < ARRAY_LEN(told); text += used) {
        struct told *t = &told[count];
        char id[32];
        if (sscanf(text, "%d %d\n%n", &t->number, &t->step, &used) != 2)
            break;
        t->world = w;
        snprintf(id, sizeof(id), "ses_%d", t->number);
        w->waiting++;
        store_get_session(w->store, &(struct store_name){.id = id}, on_told, t);
        count++;
    }
    world_wait(w);
    return count;
}

static int count_sql(const char *path, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    int count = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return count;
}

/* An execution and what it left are one write. -> how many there are */
static int check_executions(const struct world *w)
{
    int torn = count_sql(w->path, "SELECT count(*) FROM executions e WHERE (SELECT count(*) FROM"
                                  " artifacts WHERE execution_id = e.id) <> 5");
    assert_int_equal(torn, 0);
    assert_int_equal(count_sql(w->path, "SELECT count(*) FROM artifacts") % FILES, 0);
    return count_sql(w->path, "SELECT count(*) FROM executions");
}

static int count_ended(const char *text)
{
    int count = 0;
    while ((text = strstr(text, " 3\n"))) {
        count++;
        text++;
    }
    return count;
}

static void test_kill(void **state)
{
    (void)state;
    struct world w;
    unsigned seed = (unsigned)getpid();
    size_t told = 0;
    int ended = 0;
    print_message("# seed %u\n", seed);
    world_open(&w);
    for (int round = 0; round < CRASH_ROUNDS; round++) {
        int fd;
        store_free(take_ptr(&w.store));
        pid_t pid = writer_start(w.path, ROUND * round, &fd);
        scoped_free char *text = writer_listen(pid, fd, 1 + (size_t)rand_r(&seed) % 12000);
        assert_int_equal(world_try_open(&w, NULL), 0);
        told += check_told(&w, text);
        ended += count_ended(text);
        int found = check_executions(&w);
        assert_true(found >= ended);
        ended = found; /* the last ones were not told any more */
        ask_for(&w, amounts, store_get_usage, &(struct store_name){.owner = "key_a"});
        uint64_t usage = row(&w, amounts, 0)->sessions;
        ask_for(&w, session, store_list_sessions,
                &(struct store_filter){.is_live = true, .limit = STORE_PAGE_MAX});
        assert_int_equal(usage, w.count); /* the sums are those of what is there */
    }
    print_message("# %zu changes were told in %d rounds\n", told, CRASH_ROUNDS);
    assert_true(told > CRASH_ROUNDS);
    world_close(&w);
}
int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--writer") == 0)
        return writer_main(argv[2], (int)strtol(argv[3], NULL, 10));
    struct check check = {.count = 0};
    check_one(&check, "what was told survives kill -9", test_kill);
    return check_run(&check, "sqlite_kill");
}
