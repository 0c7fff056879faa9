/* repl_pipe.c - `cove repl` without a terminal: the whole of standard input is one input */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "cli/outcome.h"
#include "cli/repl.h"
#include "cli/repl_show.h"

#define CODE_MAX_BYTES (16 * MIB)
#define READ_BYTES     (64 * KIB)

struct pipe_front {
    struct repl *repl;
    struct repl_show *show;
    int fd;
    struct loop_watch *watch; /* NULL: all is read */
    struct strbuf code;
    struct cell_request cell;
    bool has_begun;
    bool is_over;
};

static void on_ended(void *ctx, const struct execution *e)
{
    struct pipe_front *p = ctx;
    if (p->is_over)
        return;
    p->is_over = true;
    repl_quit(p->repl, outcome_status(e));
}

/* `cove repl | head` */
static void on_stdout_gone(void *ctx)
{
    struct pipe_front *p = ctx;
    session_cancel(p->repl->session);
}

static const struct repl_show_told told = {.ended = on_ended, .stdout_gone = on_stdout_gone};

static void fail(struct pipe_front *p, const struct error *err)
{
    p->is_over = true;
    repl_show_mute(p->show);
    repl_fail(p->repl, err);
}

/* Waits in the session's line while that is being created. */
static void execute(struct pipe_front *p)
{
    const struct config *c = &p->repl->cli->config;
    struct error err;
    p->has_begun = true;
    p->cell = (struct cell_request){
        .code = strbuf_str(&p->code),
        .code_len = p->code.len,
        .language = p->repl->runner->language,
        .stdin_fd = -1,
        .timeout_ms = c->timeout_ms,
        .output_bytes = c->output_bytes,
        .wants_artifacts = p->repl->out != NULL,
    };
    if (session_execute(p->repl->session, &p->cell, true, &repl_show_events, p->show, &err) < 0)
        fail(p, &err);
}

static void on_input(void *ctx, unsigned ready)
{
    static char buffer[READ_BYTES];
    struct pipe_front *p = ctx;
    struct error err;
    (void)ready;
    ssize_t n = read(p->fd, buffer, sizeof(buffer));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        strbuf_add(&p->code, buffer, (size_t)n);
        if (!p->code.overflow)
            return;
        error_set(&err, ERROR_TOO_LARGE, "standard input has more than %zu MiB",
                  CODE_MAX_BYTES / MIB);
        loop_watch_free(take_ptr(&p->watch));
        fail(p, &err);
        return;
    }
    loop_watch_free(take_ptr(&p->watch));
    execute(p);
}

/* A regular file cannot be waited for, and need not be. */
static int read_file(struct pipe_front *p, struct error *err)
{
    scoped_free char *text = NULL;
    if (fd_read_text(STDIN_FILENO, &text, CODE_MAX_BYTES, err) < 0)
        return error_wrap(err, "read standard input");
    strbuf_add_str(&p->code, text);
    execute(p);
    return 0;
}

static int pipe_open(struct repl *repl, struct error *err)
{
    struct stat st;
    struct pipe_front *p = xcalloc(1, sizeof(*p));
    *p = (struct pipe_front){.repl = repl, .fd = -1};
    repl->front_state = p;
    strbuf_init(&p->code, CODE_MAX_BYTES);
    if (repl_show_new(&p->show, repl->out, true, &told, p, err) < 0)
        return -1;
    if (fstat(STDIN_FILENO, &st) == 0 && (S_ISREG(st.st_mode) || S_ISCHR(st.st_mode)))
        return read_file(p, err);
    /* An open file of its own, since the loop makes it non-blocking. */
    p->fd = open("/proc/self/fd/0", O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (p->fd < 0)
        p->fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    if (p->fd < 0)
        return error_sys(err, "open standard input");
    return loop_watch_new(&p->watch, repl->loop, p->fd, LOOP_READ, on_input, p, err);
}

static void pipe_close(struct repl *repl)
{
    struct pipe_front *p = repl->front_state;
    loop_watch_free(p->watch);
    scoped_close_fd(&p->fd);
    strbuf_release(&p->code);
    repl_show_free(p->show);
    free(p);
}

static void pipe_changed(struct repl *repl, const struct session_info *info)
{
    struct pipe_front *p = repl->front_state;
    if (info->state == SESSION_FAILED && !p->is_over)
        fail(p, &info->error);
}

static void pipe_signal(struct repl *repl, int signal)
{
    struct pipe_front *p = repl->front_state;
    if (signal == SIGINT && p->has_begun) {
        session_interrupt(repl->session);
        return;
    }
    p->is_over = true;
    repl_show_mute(p->show);
    repl_quit(repl, 128 + signal);
}

const struct repl_front repl_pipe = {
    .open = pipe_open,
    .close = pipe_close,
    .changed = pipe_changed,
    .signal = pipe_signal,
};
