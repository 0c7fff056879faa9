/* main.c - cove-spawner: the only privileged program
 *
 * It has one client, on an inherited socket, and takes the verbs of verbs.c. It parses no
 * text from that client and follows no path of a sandbox's. Anything unexpected ends the
 * connection, and with it every sandbox; unless it has started the client itself (serve.h): then
 * sandboxes wait for the next one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/option.h"
#include "box/relro.h"
#include "spawner/spawner.h"

#define EXIT_MISUSE 64
#define EXIT_ALONE  69 /* no client came within the grace time, or it would be of no use */

static void on_nudge(int number)
{
    (void)number; /* the call that it has interrupted goes on in its caller */
}

/* Our end comes as a request that leaves nothing behind, or as SIGKILL. */
static int watch_signals(void)
{
    sigset_t set;
    const struct sigaction nudged = {.sa_handler = on_nudge};
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN); /* a key for the client, not for us */
    sigaction(STARTER_NUDGE, &nudged, NULL);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

struct options {
    struct host_options host;
    struct serve_options serve;
    struct proxy_options {
        char *program;
        uint64_t uid, gid;
    } proxy;
    bool has_lifeline;
};

#define AT(field) offsetof(struct options, host.field)

static const struct option_row option_rows[] = {
    {.name = "run-dir",
     .type = OPTION_STRING,
     .offset = AT(run_dir),
     .preset = "/run/cove",
     .help = "Where spawners share the table of slots"},
    {.name = "cgroup-parent",
     .type = OPTION_STRING,
     .offset = AT(cgroup_parent),
     .help = "Name of the cgroup, at the top of the tree, that holds all sandboxes"},
    {.name = "store",
     .type = OPTION_LIST,
     .offset = AT(stores),
     .help = "Directory of images; may be repeated"},
    {.name = "layers",
     .type = OPTION_STRING,
     .offset = AT(layers),
     .help = "Directory of package layers"},
    {.name = "max-memory",
     .type = OPTION_SIZE,
     .offset = AT(max_memory_bytes),
     .preset = "1T",
     .help = "Most memory that a client may ask for"},
    {.name = "max-disk",
     .type = OPTION_SIZE,
     .offset = AT(max_disk_bytes),
     .preset = "1T",
     .help = "Most disk space"},
    {.name = "max-inodes",
     .type = OPTION_U64,
     .offset = AT(max_inodes),
     .preset = "100000000",
     .help = "Most files"},
    {.name = "max-cpus",
     .type = OPTION_MILLI,
     .offset = AT(max_cpu_milli),
     .preset = "1024",
     .help = "Most cores"},
    {.name = "cpus-burst",
     .type = OPTION_MILLI,
     .offset = AT(cpu_burst_milli),
     .preset = "0",
     .help = "Cores that a sandbox may use while nobody else wants them"},
    {.name = "max-pids",
     .type = OPTION_U64,
     .offset = AT(max_pids),
     .preset = "100000",
     .help = "Most processes"},
    {.name = "max-open-files",
     .type = OPTION_U64,
     .offset = AT(max_open_files),
     .preset = "1048576",
     .help = "Most open files"},
    {.name = "max-lifetime",
     .type = OPTION_DURATION_MS,
     .offset = AT(max_lifetime_ms),
     .preset = "720h",
     .help = "Longest life of a sandbox"},
    {.name = "seal-limit",
     .type = OPTION_DURATION_MS,
     .offset = AT(seal_limit_ms),
     .preset = "10s",
     .min = 1,
     .help = "How long a zygote may take for a step of a sandbox"},
    {.name = "group-wait",
     .type = OPTION_DURATION_MS,
     .offset = AT(group_wait_ms),
     .preset = "500ms",
     .min = 1,
     .help = "How long the cgroup of a sandbox that is gone waits for the next one"},
    {.name = "serve",
     .type = OPTION_STRING,
     .offset = offsetof(struct options, serve.program),
     .help = "Client to start, with the arguments that follow, and to start again when it dies"},
    {.name = "uid",
     .type = OPTION_U64,
     .offset = offsetof(struct options, serve.uid),
     .max = UINT32_MAX - 1,
     .help = "Whom that client runs as"},
    {.name = "gid",
     .type = OPTION_U64,
     .offset = offsetof(struct options, serve.gid),
     .max = UINT32_MAX - 1,
     .help = "And its group"},
    {.name = "grace",
     .type = OPTION_DURATION_MS,
     .offset = offsetof(struct options, serve.grace_ms),
     .preset = "30s",
     .help = "How long sandboxes wait for the next client"},
    {.name = "watch",
     .type = OPTION_DURATION_MS,
     .offset = offsetof(struct options, serve.watch_ms),
     .preset = "10s",
     .help = "How long the loop of that client, or our own, may stand still; 0: for ever"},
    {.name = "lifeline",
     .type = OPTION_BOOL,
     .offset = offsetof(struct options, has_lifeline),
     .help = "End when nobody holds the other end of standard input any more"},
    {.name = "egress",
     .type = OPTION_STRING,
     .offset = offsetof(struct options, proxy.program),
     .help = "Egress proxy, to be started when the client asks for it"},
    {.name = "egress-uid",
     .type = OPTION_U64,
     .offset = offsetof(struct options, proxy.uid),
     .max = UINT32_MAX - 1,
     .help = "Whom that runs as"},
    {.name = "egress-gid",
     .type = OPTION_U64,
     .offset = offsetof(struct options, proxy.gid),
     .max = UINT32_MAX - 1,
     .help = "And its group"},
};

/* What is left in argv are the arguments of the client that is to be started. */
static int read_options(struct option_set *set, struct options *options, int argc, char **argv,
                        struct error *err)
{
    option_set_init(set, option_rows, ARRAY_LEN(option_rows), options);
    struct option_set *const sets[] = {set};
    int count = argc - 1;
    if (option_apply_flags(sets, 1, &count, argv + 1, false, err) < 0)
        return -1;
    option_apply_presets(set);
    argv[1 + count] = NULL;
    return 0;
}

static int describe_proxy(const struct proxy_options *o, char **argv, struct starter_program *out,
                          struct error *err)
{
    if (!o->program)
        return 0;
    if (o->program[0] != '/')
        return error_set(err, ERROR_INVALID, "--egress needs an absolute path");
    if (geteuid() == 0 && (o->uid == 0 || o->gid == 0))
        return error_set(
            err, ERROR_INVALID,
            "--egress as root needs --egress-uid and --egress-gid: it must not be root");
    argv[0] = o->program;
    *out = (struct starter_program){
        .path = o->program, .argv = argv, .uid = o->uid, .gid = o->gid, .is_bare = true};
    return 0;
}

/* Who starts no program needs no starter, which would cost it time. */
static int open_starter(struct spawner *s, const struct options *options, char **arguments,
                        struct error *err)
{
    static char *proxy_argv[2]; /* the starter's, which lives as long as we do */
    struct starter_program programs[STARTER_KINDS] = {0};
    s->starter.fd = -1;
    proxy_init(&s->proxy);
    if (serve_open(&s->serve, &options->serve, &s->log, arguments, &programs[STARTER_CLIENT], err) <
            0 ||
        describe_proxy(&options->proxy, proxy_argv, &programs[STARTER_PROXY], err) < 0 ||
        (s->serve.is_on && log_writer_open(&s->log_writer, err) < 0))
        return -1;
    s->starter.log = &s->log;
    s->starter.watch_ms = options->serve.watch_ms;
    bool is_needed = programs[STARTER_CLIENT].path || programs[STARTER_PROXY].path;
    return is_needed ? starter_open(&s->starter, programs, err) : 0;
}

static int serve(struct spawner *s, const struct options *options, char **arguments)
{
    s->log = (struct log){.fd = STDERR_FILENO, .loss = &s->log_loss};
    log_writer_init(&s->log_writer);
    if (open_starter(s, options, arguments, &s->start_error) < 0) {
        log_words(&s->log, "cove-spawner: %s", s->start_error.msg);
        log_writer_close(&s->log_writer);
        return EXIT_MISUSE;
    }
    s->client_fd = s->serve.is_on ? -1 : SPAWN_CLIENT_FD;
    if (!s->serve.is_on && fcntl(SPAWN_CLIENT_FD, F_SETFD, FD_CLOEXEC) < 0) {
        log_words(&s->log, "cove-spawner: is started by cove, with a socket as fd %d",
                  SPAWN_CLIENT_FD);
        return EXIT_MISUSE;
    }
    s->lifeline_fd = options->has_lifeline ? STDIN_FILENO : -1;
    int signals = watch_signals();
    s->is_broken = signals < 0 || host_open(&s->host, &options->host, &s->start_error) < 0;
    prctl(PR_SET_DUMPABLE, 0); /* not before: our own /proc files would no longer be ours */

    if (s->is_broken && s->serve.is_on) { /* no client would change that */
        log_words(&s->log, "cove-spawner: %s", s->start_error.msg);
        s->is_stopping = s->is_alone = true;
    }
    if (!s->is_broken && s->serve.is_on)
        client_group_open(&s->client_group, &s->host.trimmed);
    if (s->serve.is_on && s->host.cgroups.place == SPAWN_PLACE_ABOVE)
        log_words(
            &s->log,
            "cove-spawner: the groups of sandboxes are below %s, outside of the one that this "
            "server was started in: limits of that do not hold for them",
            s->host.cgroups.path);
    roster_init(&s->roster);
    while (!s->is_stopping || s->roster.busy || s->roster.resting || s->zygotes || s->aparts ||
           s->layer_seals)
        loop_turn(s, signals);
    roster_release(&s->roster);
    serve_close(&s->serve);
    proxy_close(&s->proxy);
    starter_close(&s->starter);
    client_group_close(&s->client_group);
    host_close(&s->host);
    log_tell_loss(&s->log);
    log_writer_close(&s->log_writer);
    return s->is_refused ? SPAWN_REFUSAL : s->is_alone ? EXIT_ALONE : 0;
}

int main(int argc, char **argv)
{
    if (relro_protect() < 0)
        return EXIT_MISUSE;
    struct options options = {0};
    struct option_set set;
    struct spawner *s = xcalloc(1, sizeof(*s));
    int status = EXIT_MISUSE;
    s->phase = PHASE_NEW;
    bool is_read = read_options(&set, &options, argc, argv, &s->start_error) == 0;
    options.host.client = options.serve.program ? 0 : getppid();
    if (is_read)
        status = serve(s, &options, argv + 1);
    else
        fprintf(stderr, "cove-spawner: %s\n", s->start_error.msg);
    option_set_release(&set);
    free(s->polls);
    free(s);
    return status;
}
