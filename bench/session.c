/* session.c - what sessions cost at the core's own interface; run by bench/sessions
 *
 *   session create|execute|sustain|crowd COUNT [MODULE...]
 *
 * One line of JSON per measurement on stdout. MODULEs are imported by the warm interpreter.
 *   create   time from asking for a session to its being ready: cold, forked, and taken from the
 * pool execute  time of one warm execution, back to back: bare, and with artifacts and counters
 *   sustain  fresh session, one execution, close; as many per second as the machine gives
 *   crowd    COUNT live sessions: memory of the machine per session, whether each still answers,
 * and what is left when they are gone
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "codec/json.h"
#include "core/pool.h"
#include "image/image_store.h"
#include "image/runner.h"

#define POOL_MAX   64
#define PARALLEL   4
#define CODE_FIRST "print(1)"

#define CGROUP_PARENT "cove-bench"

static struct loop *loop;
static struct spawner_client *spawner;
static struct pool *pool;
static struct session_template template;
static struct capacity *capacity;
static struct error error;

static void die(const char *what)
{
    fprintf(stderr, "session: %s: %s %s\n", what, error.msg, error.hint);
    exit(1);
}

/* --- figures --------------------------------------------------------------------------------- */

struct figures {
    double *ms;
    size_t count;
};

static void add_figure(struct figures *f, int64_t since_ns)
{
    f->ms = xrealloc(f->ms, (f->count + 1) * sizeof(*f->ms));
    f->ms[f->count++] = (double)(clock_now_ns() - since_ns) / 1e6;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void tell_figures(const char *what, struct figures *f)
{
    if (f->count == 0)
        return;
    qsort(f->ms, f->count, sizeof(*f->ms), compare);
    printf(
        "{\"what\": \"%s\", \"count\": %zu, \"min_ms\": %.4f, \"p50_ms\": %.4f, \"p99_ms\": %.4f}\n",
        what, f->count, f->ms[0], f->ms[f->count / 2], f->ms[f->count * 99 / 100]);
    fflush(stdout);
    free(f->ms);
    *f = (struct figures){0};
}

/* --- sessions -------------------------------------------------------------------------------- */

/* What is known of a session: every one is the bench's, and is found by its events. */
struct seat {
    struct session *session;
    bool is_changed;
    bool has_ended;
    bool is_good;
    struct cell_request request;
    size_t index;
};

static struct seat *seats;
static size_t seat_count;

static void on_changed(void *ctx, struct session *session)
{
    struct seat *seat = ctx;
    (void)session;
    seat->is_changed = true;
    loop_stop(loop);
}

static const struct session_events events = {.changed = on_changed};

static void on_ended(void *ctx, const struct execution *e)
{
    struct seat *seat = ctx;
    seat->has_ended = true;
    seat->is_good = e->verdict.kind == REASON_NONE;
    if (!seat->is_good)
        fprintf(stderr, "session: %s: %s %s\n", reason_kind_name(e->verdict.kind),
                e->verdict.message, e->exception.traceback ? e->exception.traceback : "");
    loop_stop(loop);
}

static const struct execution_events execution_events = {.ended = on_ended};

static void on_event(void *ctx, const struct spawn_message *m)
{
    (void)ctx;
    if (!m)
        die("the spawner went away");
    if (pool)
        pool_on_event(pool, m);
    for (size_t i = 0; i < seat_count; i++) {
        if (seats[i].session)
            session_on_event(seats[i].session, m);
    }
}

static void on_hello(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    (void)ctx;
    (void)fds;
    if (!m) {
        error = *err;
        die("hello");
    }
}

static void wait_for_state(struct seat *seat, enum session_state state)
{
    while (session_info(seat->session)->state != state) {
        if (session_info(seat->session)->state == SESSION_FAILED && state != SESSION_TERMINATED) {
            error = session_info(seat->session)->error;
            die("session");
        }
        loop_run(loop);
    }
}

static void execute_kept(struct seat *seat, const char *code, bool is_whole, bool keeps_now)
{
    seat->request = (struct cell_request){
        .code = code,
        .code_len = strlen(code),
        .stdin_fd = -1,
        .timeout_ms = 30000,
        .output_bytes = 65536,
        .wants_artifacts = is_whole,
        .wants_usage = is_whole,
        .keeps_now = keeps_now,
    };
    seat->has_ended = false;
    if (session_execute(seat->session, &seat->request, false, &execution_events, seat, &error) < 0)
        die("execute");
}

static void execute(struct seat *seat, const char *code, bool is_whole)
{
    execute_kept(seat, code, is_whole, false);
}

static void wait_for_end(struct seat *seat)
{
    while (!seat->has_ended)
        loop_run(loop);
    if (!seat->is_good)
        exit(1);
}

static void close_session(struct seat *seat)
{
    session_close(seat->session);
    wait_for_state(seat, SESSION_TERMINATED);
    session_free(take_ptr(&seat->session));
}

static void open_session(struct seat *seat)
{
    if (session_open(&seat->session, loop, spawner, &template, &events, seat, &error) < 0)
        die("open");
}

static bool take_session(struct seat *seat)
{
    bool is_parked;
    if (pool_take(pool, &seat->session, &is_parked, &events, seat, &error) < 0)
        die("take");
    return is_parked;
}

static void on_poll(void *ctx)
{
    (void)ctx;
    loop_stop(loop);
}

static void let_run(uint64_t ms)
{
    struct loop_timer *timer = loop_timer_new(loop, ms, on_poll, NULL);
    loop_run(loop);
    loop_timer_free(timer);
}

static struct pool_info wait_for_pool(size_t parked)
{
    struct pool_info info;
    int64_t until = clock_now_ns() + 60000000000;
    for (;;) {
        pool_get_info(pool, &info);
        if (info.parked >= parked || clock_now_ns() > until)
            break;
        let_run(5);
    }
    if (info.parked < parked) {
        error = info.error;
        die("the pool does not fill");
    }
    return info;
}

static void open_pool(const char *const *modules, size_t parked, size_t most)
{
    const struct warm_order warm = {
        .template = &template, .preload = modules, .memory_bytes = 2048 * MIB};
    const struct pool_order order = {
        .template = &template, .warm = &warm, .min_parked = parked, .max_parked = most};
    if (pool_open(&pool, loop, spawner, &order, &error) < 0)
        die("pool");
    wait_for_pool(parked);
}

static void wait_for_warmth(void)
{
    struct pool_info info;
    do {
        let_run(10);
        pool_get_info(pool, &info);
    } while (!info.is_warm);
}

/* --- measurements ---------------------------------------------------------------------------- */

static void measure_create(size_t count, const char *const *modules)
{
    struct figures figures = {0}, first = {0};
    struct seat *seat = &seats[0];
    for (size_t i = 0; i < MIN(count, (size_t)50); i++) {
        int64_t start = clock_now_ns();
        open_session(seat);
        wait_for_state(seat, SESSION_READY);
        add_figure(&figures, start);
        close_session(seat);
    }
    tell_figures("create, cold interpreter", &figures);

    open_pool(modules, 0, 0);
    wait_for_warmth();
    for (size_t i = 0; i < count; i++) {
        int64_t start = clock_now_ns();
        if (take_session(seat))
            continue;
        wait_for_state(seat, SESSION_READY);
        add_figure(&figures, start);
        execute(seat, CODE_FIRST, false);
        wait_for_end(seat);
        add_figure(&first, start);
        close_session(seat);
    }
    tell_figures("create, forked", &figures);
    tell_figures("create, forked, and first execution", &first);
}

static void measure_pooled(size_t count, const char *const *modules)
{
    struct figures figures = {0}, first = {0};
    struct seat *seat = &seats[0];
    open_pool(modules, 8, POOL_MAX);
    for (size_t i = 0; i < count; i++) {
        wait_for_pool(4);
        let_run(2); /* paced, so that refilling is not what is measured */
        int64_t start = clock_now_ns();
        if (!take_session(seat))
            continue;
        add_figure(&figures, start);
        execute(seat, CODE_FIRST, false);
        wait_for_end(seat);
        add_figure(&first, start);
        close_session(seat);
    }
    tell_figures("create, pooled", &figures);
    tell_figures("create, pooled, and first execution", &first);
}

static void measure_execute(size_t count, const char *const *modules)
{
    struct figures figures = {0};
    struct seat *seat = &seats[0];
    open_pool(modules, 1, 1);
    take_session(seat);
    wait_for_state(seat, SESSION_READY);
    static const struct {
        const char *what;
        bool is_whole, is_kept, keeps_now;
    } rows[] = {
        {"execute", false, false, false},
        {"execute, with artifacts and counters", true, false, false},
        {"execute, session kept for another host", false, true, false},
        {"execute, its output kept from the start", false, true, true},
    };
    for (size_t row = 0; row < ARRAY_LEN(rows); row++) {
        if (rows[row].is_kept)
            session_keep(seat->session);
        for (size_t i = 0; i < count; i++) {
            int64_t start = clock_now_ns();
            execute_kept(seat, "1+1", rows[row].is_whole, rows[row].keeps_now);
            wait_for_end(seat);
            add_figure(&figures, start);
        }
        tell_figures(rows[row].what, &figures);
    }
    close_session(seat);
}

/* Several at a time, each in its own cycle. */
static void measure_sustain(size_t seconds, const char *const *modules)
{
    enum { EMPTY, MAKING, RUNNING, CLOSING } steps[PARALLEL] = {EMPTY};
    open_pool(modules, 8, POOL_MAX);
    int64_t start = clock_now_ns(), until = start + (int64_t)seconds * 1000000000;
    size_t done = 0;
    while (clock_now_ns() < until) {
        bool is_busy = false;
        for (size_t i = 0; i < PARALLEL; i++) {
            struct seat *seat = &seats[i];
            if (steps[i] == EMPTY) {
                take_session(seat);
                steps[i] = MAKING;
            }
            enum session_state state = session_info(seat->session)->state;
            if (steps[i] == MAKING && state == SESSION_READY) {
                execute(seat, CODE_FIRST, true);
                steps[i] = RUNNING;
            } else if (steps[i] == RUNNING && seat->has_ended) {
                session_close(seat->session);
                steps[i] = CLOSING;
            } else if (steps[i] == CLOSING && state == SESSION_TERMINATED) {
                session_free(take_ptr(&seat->session));
                steps[i] = EMPTY;
                done++;
                is_busy = true;
            }
        }
        if (!is_busy)
            loop_run(loop);
    }
    double took = (double)(clock_now_ns() - start) / 1e9;
    struct pool_info info;
    pool_get_info(pool, &info);
    printf(
        "{\"what\": \"sustained create, run, destroy\", \"per_second\": %.1f, \"missed\": %.3f}\n",
        (double)done / took, (double)info.missed / (double)info.taken);
}

/* --- a crowd --------------------------------------------------------------------------------- */

#define LEAST_AVAILABLE (4 * GIB) /* below, the machine belongs to others */
#define LOOK_EVERY      50
#define HICCUPS         20

/* What the whole machine uses; a crowd is the difference of two. */
static const char *const usage_lines[] = {"MemAvailable:", "Slab:", "PageTables:", "KernelStack:"};
enum { AVAILABLE, SLAB, PAGE_TABLES, STACKS, GROUPS, USAGE_COUNT };

static const char *const group_files[] = {"/sys/fs/cgroup/memory/" CGROUP_PARENT
                                          "/memory.usage_in_bytes",
                                          "/sys/fs/cgroup/" CGROUP_PARENT "/memory.current"};

static void read_usage(double usage[USAGE_COUNT])
{
    scoped_free char *text = NULL;
    if (fd_read_file("/proc/meminfo", &text, 65536, &error) < 0)
        die("meminfo");
    for (size_t i = 0; i < ARRAY_LEN(usage_lines); i++) {
        const char *line = strstr(text, usage_lines[i]);
        usage[i] = line ? strtod(line + strlen(usage_lines[i]), NULL) * 1024 : 0;
    }
    usage[GROUPS] = 0;
    for (size_t i = 0; i < ARRAY_LEN(group_files); i++) {
        scoped_free char *number = NULL;
        if (fd_read_file(group_files[i], &number, 64, &error) == 0)
            usage[GROUPS] = strtod(number, NULL);
    }
}

static size_t count_fds(const char *process)
{
    char path[64];
    size_t count = 0;
    snprintf(path, sizeof(path), "/proc/%s/fd", process);
    DIR *dir = opendir(path);
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

/* The one child that we have. */
static void find_spawner(char out[16])
{
    scoped_free char *children = NULL;
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
    if (fd_read_file(path, &children, 4096, &error) < 0)
        die("children");
    snprintf(out, 16, "%.*s", (int)strcspn(children, " "), children);
}

/* Processor time of a process, in ms: tells more than the clock does when the machine has other
 * work. */
static double cpu_ms(const char *process)
{
    scoped_free char *text = NULL;
    char path[64];
    unsigned long user = 0, kernel = 0;
    snprintf(path, sizeof(path), "/proc/%s/stat", process);
    if (fd_read_file(path, &text, 4096, &error) < 0)
        die("stat");
    const char *at = strrchr(text, ')');
    if (at)
        sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel);
    return (double)(user + kernel) * 1000 / (double)sysconf(_SC_CLK_TCK);
}

/* How long another program of the machine takes to start and end, with the crowd there. */
static void measure_hiccups(void)
{
    struct figures figures = {0};
    for (size_t i = 0; i < HICCUPS; i++) {
        int64_t start = clock_now_ns();
        pid_t pid;
        char name[] = "true";
        if (posix_spawn(&pid, "/bin/true", NULL, NULL, (char *[]){name, NULL}, environ) != 0)
            die("/bin/true");
        waitpid(pid, NULL, 0);
        add_figure(&figures, start);
    }
    tell_figures("another program, beside them", &figures);
}

static void check_machine(void)
{
    double usage[USAGE_COUNT];
    read_usage(usage);
    if (usage[AVAILABLE] < (double)LEAST_AVAILABLE) {
        error_set(&error, ERROR_LIMIT, "only %.0f MB are left", usage[AVAILABLE] / 1e6);
        die("crowd");
    }
}

static void gather_crowd(size_t count)
{
    struct figures created = {0}, first = {0};
    for (size_t i = 0; i < count; i++) {
        int64_t start = clock_now_ns();
        take_session(&seats[i]);
        wait_for_state(&seats[i], SESSION_READY);
        add_figure(&created, start);
        start = clock_now_ns();
        execute(&seats[i], CODE_FIRST, false);
        wait_for_end(&seats[i]);
        add_figure(&first, start);
        if (i % LOOK_EVERY == 0)
            check_machine();
    }
    tell_figures("create, each of them", &created);
    tell_figures("first execution in each of them", &first);
}

static void ask_crowd(size_t count)
{
    struct figures figures = {0};
    for (size_t i = 0; i < count; i++) {
        int64_t start = clock_now_ns();
        execute(&seats[i], "import sys; sys.stdout.write('alive')", false);
        wait_for_end(&seats[i]);
        add_figure(&figures, start);
    }
    tell_figures("execute in each of them", &figures);
}

static void dismiss_crowd(size_t count, const char *process)
{
    int64_t start = clock_now_ns();
    double cpu = cpu_ms(process);
    for (size_t i = 0; i < count; i++)
        session_close(seats[i].session);
    for (size_t i = 0; i < count; i++) {
        wait_for_state(&seats[i], SESSION_TERMINATED);
        session_free(take_ptr(&seats[i].session));
    }
    printf("{\"what\": \"close all of them\", \"seconds\": %.1f, \"spawner_cpu_ms_each\": %.3f}\n",
           (double)(clock_now_ns() - start) / 1e9, (cpu_ms(process) - cpu) / (double)count);
}

static void measure_crowd(size_t count, const char *const *modules)
{
    double before[USAGE_COUNT], after[USAGE_COUNT];
    char process[16];
    open_pool(modules, 0, 0);
    wait_for_warmth();
    take_session(&seats[0]); /* the first finds nothing in place, and leaves things behind */
    wait_for_state(&seats[0], SESSION_READY);
    close_session(&seats[0]);
    find_spawner(process);
    read_usage(before);
    size_t own_fds = count_fds("self"), spawner_fds = count_fds(process);
    int64_t start = clock_now_ns();
    double cpu = cpu_ms(process);
    gather_crowd(count);
    cpu = cpu_ms(process) - cpu;
    double seconds = (double)(clock_now_ns() - start) / 1e9, n = (double)count;
    let_run(2000);
    read_usage(after);
    printf("{\"what\": \"live sessions\", \"count\": %zu, \"seconds\": %.1f, \"bytes_each\": %.0f, "
           "\"groups_each\": %.0f, \"slab_each\": %.0f, \"page_tables_each\": %.0f, "
           "\"stacks_each\": %.0f, \"fds_each\": %.2f, \"spawner_fds_each\": %.2f, "
           "\"spawner_cpu_ms_each\": %.3f}\n",
           count, seconds, (before[AVAILABLE] - after[AVAILABLE]) / n,
           (after[GROUPS] - before[GROUPS]) / n, (after[SLAB] - before[SLAB]) / n,
           (after[PAGE_TABLES] - before[PAGE_TABLES]) / n, (after[STACKS] - before[STACKS]) / n,
           (double)(count_fds("self") - own_fds) / n,
           (double)(count_fds(process) - spawner_fds) / n, cpu / n);
    fflush(stdout);
    ask_crowd(count);
    measure_hiccups();
    if (getenv("COVE_HOLD_MS")) /* for a look at them from outside */
        let_run(strtoul(getenv("COVE_HOLD_MS"), NULL, 10));
    dismiss_crowd(count, process);
    let_run(3000); /* the kernel takes network namespaces apart on its own time */
    read_usage(after);
    printf("{\"what\": \"left behind\", \"count\": %zu, \"bytes\": %.0f, \"fds\": %zd, "
           "\"spawner_fds\": %zd}\n",
           count, before[AVAILABLE] - after[AVAILABLE], (ssize_t)(count_fds("self") - own_fds),
           (ssize_t)(count_fds(process) - spawner_fds));
}

/* A session forked from a warm interpreter, which holds an array of COVE_ARRAY_MB. */
static void on_checkpoint(void *ctx, const struct checkpoint_info *info, const struct error *err)
{
    struct seat *seat = ctx;
    seat->has_ended = true;
    if (!info) {
        error = *err;
        die("checkpoint");
    }
    loop_stop(loop);
}

static void load_copier(void)
{
    scoped_fd int file = open(getenv("COVE_COPIER"), O_RDONLY | O_CLOEXEC);
    template.copier_fd = memfd_create("copier", MFD_CLOEXEC);
    while (sendfile(template.copier_fd, file, NULL, MIB) > 0)
        ;
}

static void wait_for_checkpoint(struct seat *seat)
{
    while (!seat->has_ended)
        loop_run(loop);
    seat->has_ended = false;
}

static void measure_checkpoint(size_t count, const char *const *modules)
{
    char code[200];
    struct seat *seat = &seats[0];
    struct figures stall = {0}, back = {0}, first = {0};
    const char *size = getenv("COVE_ARRAY_MB");
    snprintf(code, sizeof(code), "size = %s\nif size: import numpy; a = numpy.ones(size << 17)",
             size ? size : "0");
    if (!getenv("COVE_COPIER"))
        die("COVE_COPIER is not set");
    load_copier();
    template.limits.memory_bytes = 4096 * MIB;
    open_pool(modules, 1, 1);
    take_session(seat);
    wait_for_state(seat, SESSION_READY);
    execute(seat, code, false);
    wait_for_end(seat);
    seat->has_ended = false;
    for (size_t i = 0; i < count; i++) {
        int64_t start = clock_now_ns();
        if (session_checkpoint(seat->session, "one", on_checkpoint, seat, &error) < 0)
            die("checkpoint");
        wait_for_checkpoint(seat);
        add_figure(&stall, start);
        let_run(50); /* nobody goes back at once, and the copy forks in advance meanwhile */
        start = clock_now_ns();
        if (session_rollback(seat->session, "one", on_checkpoint, seat, &error) < 0)
            die("rollback");
        wait_for_checkpoint(seat);
        add_figure(&back, start);
        wait_for_state(seat, SESSION_READY);
        execute(seat, "size", false);
        wait_for_end(seat);
        add_figure(&first, start);
        seat->has_ended = false;
        if (session_drop_checkpoint(seat->session, "one", on_checkpoint, seat, &error) < 0)
            die("delete");
        wait_for_checkpoint(seat);
        let_run(50);
    }
    tell_figures("checkpoint", &stall);
    tell_figures("rollback", &back);
    tell_figures("rollback to first execution", &first);
    close_session(seat);
}

/* --- the way there --------------------------------------------------------------------------- */

static void load_template(struct runner_kernel *kernel, struct runner_list *runners)
{
    static const char *env[RUNNER_WORDS_MAX];
    const char *dirs[IMAGE_STORE_DIRS];
    const char *recipes = getenv("COVE_RECIPES_DIR");
    const char *data = getenv("COVE_DATA_DIR");
    scoped_free char *text = NULL;
    image_store_dirs(data ? data : IMAGE_STORE_SYSTEM_DIR, dirs);
    if (runner_list_load(runners, dirs, &error) < 0)
        die("runners");
    const struct runner *runner = runner_find(runners, "python", &error);
    if (!runner || runner_find_kernel(kernel, runner, recipes ? recipes : "images", &error) < 0 ||
        fd_read_file(kernel->text, &text, 4 * MIB, &error) < 0)
        die("python");
    int fd = memfd_create("kernel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || fd_write_all(fd, text, strlen(text), &error) < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        die("kernel text");
    size_t n = 0;
    env[n++] = "PATH=/usr/local/bin:/usr/bin:/bin";
    env[n++] = "HOME=/tmp";
    for (size_t i = 0; i < runner->env.count && n + 1 < RUNNER_WORDS_MAX; i++)
        env[n++] = runner->env.items[i];
    memcpy(template.image, runner->digest, sizeof(template.image));
    template.argv = (const char *const *)kernel->command.items;
    template.env = env;
    template.kernel_fd = fd;
    template.copier_fd = -1;
    template.is_plain = kernel->is_plain;
    template.limits = (struct spawn_limits){.memory_bytes = 256 * MIB,
                                            .disk_bytes = 64 * MIB,
                                            .inodes = 16384,
                                            .cpu_milli = 1000,
                                            .pids = 64,
                                            .open_files = 1024,
                                            .lifetime_ms = 3600 * 1000};
}

/* Thousands of sessions, each with a few descriptors; the spawner inherits it. */
static void raise_limits(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

static void open_spawner(void)
{
    static const char *stores[] = {"/var/lib/cove/images", NULL};
    const struct spawner_settings settings = {
        .program = getenv("COVE_SPAWNER"), .cgroup_parent = CGROUP_PARENT, .stores = stores};
    if (loop_open(&loop, &error) < 0 ||
        spawner_client_open(&spawner, loop, &settings, on_hello, on_event, NULL, &error) < 0)
        die("spawner");
}

static const struct {
    const char *name;
    void (*measure)(size_t count, const char *const *modules);
} measurements[] = {
    {"create", measure_create},   {"pooled", measure_pooled}, {"execute", measure_execute},
    {"sustain", measure_sustain}, {"crowd", measure_crowd},   {"checkpoint", measure_checkpoint},
};

int main(int argc, char **argv)
{
    struct runner_list runners = {0};
    struct runner_kernel kernel = {0};
    if (argc < 3 || !getenv("COVE_SPAWNER")) {
        fprintf(stderr, "usage: COVE_SPAWNER=... session WHAT COUNT [MODULE...]\n");
        return 64;
    }
    size_t count = strtoul(argv[2], NULL, 10);
    seat_count = MAX(count, (size_t)PARALLEL);
    seats = xcalloc(seat_count, sizeof(*seats));
    raise_limits();
    signal(SIGPIPE, SIG_IGN);
    json_set_alloc_funcs(xmalloc, free);
    load_template(&kernel, &runners);
    open_spawner();
    if (capacity_open(&capacity, &(struct capacity_order){0}, &error) < 0)
        die("capacity");
    template.capacity = capacity;
    for (size_t i = 0; i < ARRAY_LEN(measurements); i++) {
        if (strcmp(measurements[i].name, argv[1]) == 0)
            measurements[i].measure(count, (const char *const *)argv + 3);
    }
    spawner_client_free(spawner);
    for (size_t i = 0; i < seat_count; i++)
        session_free(seats[i].session);
    pool_free(pool);
    capacity_free(capacity);
    runner_kernel_release(&kernel);
    runner_list_release(&runners);
    loop_free(loop);
    return 0;
}
