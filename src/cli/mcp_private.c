/* mcp_private.c - `cove mcp` with a server of its own
 *
 * The server is a child in a session of its own, so that keys of a terminal are not for it. It
 * lives as long as we hold one end of a pipe, however we end. What it prints first says that it is
 * ready; its log comes through us, so that the file stays small and its last words can be told. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "cli/cli.h"
#include "cli/mcp_log.h"
#include "cli/mcp_room.h"
#include "cli/pump.h"
#include "cli/serving.h"

#define SOCKET         "socket"
#define TOKEN_CHARS    52
#define HEAD_MAX_BYTES 4096
#define START_MS       30000 /* for a server to be ready, on a machine that has much to do */
#define STOP_MS        15000 /* more than the spawner gives its client */

enum { READ_END, WRITE_END };

struct private
{
    struct cli *cli;
    struct mcp_room room;
    struct mcp_log log;
    char token[TOKEN_CHARS + 1];
    pid_t pid; /* the spawner; 0: it is gone */
    int pid_fd;
    int lifeline_fd, ready_fd, signal_fd, socket_fd;
    int log_end_fd;  /* the server's */
    bool is_refused; /* it has ended before it was ready... */
    int exit_status; /* ...with this; -1: by a signal */
};

/* --- its options ------------------------------------------------------------------------------ */

/* What an operator may have set for a server that others use, and that is none of this one's. */
static const char *const foreign[] = {"tls-cert",     "tls-key",        "public-url",
                                      "database-url", "s3-bucket",      "hosts",
                                      "cors-origins", "trust-loopback", "log-file"};

/* Secrets are given to it, since it would keep those that it makes, and wait for the disk. */
static int set_options(struct private *p, struct error *err)
{
    if (strlen(p->room.path) + sizeof("/" SOCKET) > sizeof(((struct sockaddr_un *)0)->sun_path)) {
        error_set(err, ERROR_INVALID, "'%s/" SOCKET "' is too long for a socket", p->room.path);
        return error_hint(err, "choose a shorter --data-dir");
    }
    struct option_set *set = &p->cli->config_set;
    char other[2][TOKEN_CHARS + 1];
    for (size_t i = 0; i < ARRAY_LEN(other); i++) {
        if (id_random(other[i], TOKEN_CHARS, err) < 0)
            return -1;
    }
    scoped_free char *listen = xasprintf("--listen=unix:%s/" SOCKET, p->room.path);
    scoped_free char *state = xasprintf("--state-dir=%s", p->room.path);
    scoped_free char *token = xasprintf("--token=%s", p->token);
    scoped_free char *internal = xasprintf("--internal-token=%s", other[0]);
    scoped_free char *file = xasprintf("--file-secret=%s", other[1]);
    char sync[] = "--sync=none";
    char *flags[] = {listen, state, token, internal, file, sync, NULL};
    int count = ARRAY_LEN(flags) - 1;
    for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
        option_unset(set, foreign[i]);
    return option_apply_flags(&set, 1, &count, flags, false, err);
}

/* --- its start -------------------------------------------------------------------------------- */

static _Noreturn void be_server(struct private *p, const int std[3])
{
    struct error err;
    sigset_t none;
    sigemptyset(&none);
    for (int i = 0; i < 3; i++) {
        if (dup2(std[i], i) < 0)
            _exit(EXIT_FAILURE);
    }
    setsid();
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    fcntl(p->room.fd, F_SETFD, 0); /* the spawner holds the lock, too */
    (void)!serving_become(p->cli, true, &err);
    const struct log log = {.fd = STDERR_FILENO}; /* as coved would say it */
    log_error(&log, "the server cannot start", LOG_STR("error", err.msg),
              LOG_STR("hint", err.hint[0] ? err.hint : NULL));
    _exit(error_info(err.code)->exit_status);
}

static int start(struct private *p, struct error *err)
{
    int life[2], ready[2];
    if (pipe2(life, O_CLOEXEC) < 0)
        return error_sys(err, "make a pipe");
    scoped_fd int life_end = life[READ_END];
    p->lifeline_fd = life[WRITE_END];
    if (pipe2(ready, O_CLOEXEC) < 0)
        return error_sys(err, "make a pipe");
    scoped_fd int ready_end = ready[WRITE_END];
    p->ready_fd = ready[READ_END];
    pid_t pid = fork();
    if (pid < 0)
        return error_sys(err, "fork");
    if (pid == 0)
        be_server(p, (const int[]){life_end, ready_end, p->log_end_fd});
    scoped_close_fd(&p->log_end_fd);
    p->log_end_fd = -1;
    p->pid = pid;
    p->pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    return p->pid_fd < 0 ? error_sys(err, "watch the server") : 0;
}

static int watch_signals(struct private *p, struct error *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    p->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return p->signal_fd < 0 ? error_sys(err, "watch signals") : 0;
}

/* 1: it answers from now on. 0: we were asked to end. */
static int wait_ready(struct private *p, struct error *err)
{
    enum { READY, LOG, SIGNALS, COUNT };
    for (;;) {
        struct pollfd polls[COUNT] = {[READY] = {.fd = p->ready_fd, .events = POLLIN},
                                      [LOG] = {.fd = p->log.in_fd, .events = POLLIN},
                                      [SIGNALS] = {.fd = p->signal_fd, .events = POLLIN}};
        int n = poll(polls, COUNT, START_MS);
        if (n == 0)
            return error_set(err, ERROR_TIMEOUT, "the server did not start within %d seconds",
                             START_MS / 1000);
        if (polls[SIGNALS].revents)
            return 0;
        if (polls[LOG].revents)
            mcp_log_take(&p->log);
        if (polls[READY].revents & POLLIN)
            return 1;
        if (polls[READY].revents) { /* it has ended: its log says why */
            p->is_refused = true;
            mcp_log_drain(&p->log);
            mcp_log_explain(&p->log, err);
            return -1;
        }
    }
}

/* --- the connection --------------------------------------------------------------------------- */

static int ask_for_lines(const struct private *p, struct error *err)
{
    static const char wanted[] = "HTTP/1.1 101 ", end[] = "\r\n\r\n";
    char head[HEAD_MAX_BYTES];
    size_t len = 0;
    scoped_free char *request = xasprintf("GET /mcp HTTP/1.1\r\nHost: localhost\r\n"
                                          "Connection: Upgrade\r\nUpgrade: mcp-lines\r\n"
                                          "Authorization: Bearer %s\r\n\r\n",
                                          p->token);
    if (fd_write_all(p->socket_fd, request, strlen(request), err) < 0)
        return -1;
    while (len < sizeof(head) && !memmem(head, len, end, strlen(end))) {
        ssize_t n = recv(p->socket_fd, head + len, sizeof(head) - len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return error_set(err, ERROR_UNAVAILABLE, "the server does not answer");
        len += (size_t)n;
    }
    if (len > strlen(wanted) && memcmp(head, wanted, strlen(wanted)) == 0)
        return 0;
    return error_set(err, ERROR_INTERNAL, "the server does not speak MCP");
}

static int connect_to(struct private *p, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval patience = {.tv_sec = START_MS / 1000};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/" SOCKET, p->room.path);
    p->socket_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (p->socket_fd < 0 ||
        setsockopt(p->socket_fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
        connect(p->socket_fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return error_sys(err, "connect to the server");
    return ask_for_lines(p, err);
}

/* --- the middle ------------------------------------------------------------------------------- */

static bool on_log(struct pump_aside *aside)
{
    struct private *p = aside->ctx;
    mcp_log_take(&p->log);
    aside->fd = p->log.in_fd;
    return false;
}

static bool on_signal(struct pump_aside *aside)
{
    (void)aside;
    return true;
}

static int pass_on(struct private *p, struct error *err)
{
    struct pump_order order = {
        .in_fd = STDIN_FILENO,
        .out_fd = STDOUT_FILENO,
        .end = {.fd = p->socket_fd,
                .read = pump_socket_read,
                .write = pump_socket_write,
                .finish = pump_socket_finish,
                .ctx = &p->socket_fd},
        .asides = {{.fd = p->log.in_fd, .ready = on_log, .ctx = p},
                   {.fd = p->signal_fd, .ready = on_signal, .ctx = p}},
    };
    if (pump_run(&order) != PUMP_LOST)
        return 0;
    error_set(err, ERROR_UNAVAILABLE, "the server has ended in the middle");
    return p->log.path ? error_hint(err, "its log is '%s'", p->log.path) : -1;
}

/* --- its end ---------------------------------------------------------------------------------- */

/* Until it is gone, with all that it made; one that does not go is killed, and the kernel takes its
 * sandboxes with it. */
static void await_end(struct private *p)
{
    struct pollfd polls[] = {{.fd = p->pid_fd, .events = POLLIN},
                             {.fd = p->log.in_fd, .events = POLLIN}};
    bool is_late = false;
    while (!(polls[0].revents & POLLIN) && !is_late) {
        polls[1].fd = p->log.in_fd;
        is_late = poll(polls, ARRAY_LEN(polls), STOP_MS) == 0;
        if (polls[1].revents)
            mcp_log_take(&p->log);
    }
    if (is_late)
        kill(p->pid, SIGKILL);
    int status = 0;
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
        ;
    p->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    p->pid = 0;
}

static void release(struct private *p)
{
    scoped_close_fd(&p->socket_fd);
    scoped_close_fd(&p->lifeline_fd); /* which ends it */
    if (p->pid > 0)
        await_end(p);
    mcp_log_drain(&p->log);
    scoped_close_fd(&p->ready_fd);
    scoped_close_fd(&p->signal_fd);
    scoped_close_fd(&p->pid_fd);
    scoped_close_fd(&p->log_end_fd);
}

static int serve(struct private *p, struct error *err)
{
    if (id_random(p->token, TOKEN_CHARS, err) < 0 || set_options(p, err) < 0 ||
        watch_signals(p, err) < 0 || start(p, err) < 0)
        return -1;
    int ready = wait_ready(p, err);
    if (ready <= 0)
        return ready;
    return connect_to(p, err) < 0 ? -1 : pass_on(p, err);
}

static int open_log(struct private *p, struct error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_sys(err, "make a pipe");
    p->log_end_fd = ends[WRITE_END];
    return mcp_log_open(&p->log, p->cli->config.log_file, ends[READ_END], err);
}

static int run_private(struct cli *cli)
{
    struct private p = {.cli = cli,
                        .pid_fd = -1,
                        .lifeline_fd = -1,
                        .ready_fd = -1,
                        .signal_fd = -1,
                        .socket_fd = -1,
                        .log_end_fd = -1};
    struct error err, late;
    if (open_log(&p, &err) < 0)
        return cli_fail(cli, &err);
    if (mcp_room_open(&p.room, cli->config.data_dir, &err) < 0) {
        mcp_log_close(&p.log);
        return cli_fail(cli, &err);
    }
    int status = serve(&p, &err);
    release(&p);
    mcp_log_close(&p.log);
    if (mcp_room_close(&p.room, &late) < 0 && status == 0) {
        err = late;
        status = -1;
    }
    if (status == 0)
        return 0;
    int known = cli_fail(cli, &err);
    return p.is_refused && p.exit_status > 0 ? p.exit_status : known;
}

int mcp_run(struct cli *cli, void *options, int argc, char **argv)
{
    const struct mcp_options *o = options;
    cli->config.json = false; /* standard output is not for our own words */
    return o->connect ? remote_run(cli, REMOTE_MCP, options, argc, argv) : run_private(cli);
}
