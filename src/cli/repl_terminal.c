/* repl_terminal.c - `cove repl` for people: the screen, the keys, and what the session's end means
 *
 * One input is written at a time. While the session is asked something, or runs something, keys
 * that arrive wait; only Ctrl-C is looked for. Lines of our own go above the input that is being
 * written. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/repl_terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "cli/term.h"
#include "core/tier.h"

#define READ_BYTES      (16 * KIB)
#define INPUT_MAX_BYTES (8 * MIB)
#define CTRL_C          '\003'
#define INDENT          4 /* as the kernels suggest it */

static const struct repl_language languages[] = {
    {"python", "Python", ">>> ", "... ", {"exit", "exit()", "quit", "quit()"}},
    {"javascript", "JavaScript", "> ", "... ", {".exit", "exit"}},
    {"typescript", "TypeScript", "> ", "... ", {".exit", "exit"}},
    {"bash", "bash", "$ ", "... ", {"exit", "logout"}},
};
static const struct repl_language other_language = {"", "", "> ", "... ", {"exit"}};

/* --- the screen ------------------------------------------------------------------------------ */

void repl_terminal_print(const struct repl_terminal *t, const struct strbuf *bytes)
{
    struct error ignored;
    (void)!fd_write_all(tty_out(t->tty), strbuf_str(bytes), bytes->len, &ignored);
}

void repl_terminal_draw(struct repl_terminal *t, enum repl_terminal_drawing what)
{
    struct line_frame frame;
    scoped_strbuf struct strbuf bytes;
    strbuf_init(&bytes, REPL_TERMINAL_DRAWN_MAX);
    line_editor_frame(&t->editor, &frame, t->view.width);
    switch (what) {
    case CLEAR:
        strbuf_add_str(&bytes, "\033[H\033[2J");
        t->view.row = t->view.top = 0;
        line_view_draw(&t->view, &bytes, &frame);
        break;
    case DRAW:
        line_view_draw(&t->view, &bytes, &frame);
        break;
    case FINISH:
        line_view_finish(&t->view, &bytes, &frame);
        break;
    case ERASE:
        line_view_erase(&t->view, &bytes);
        break;
    }
    repl_terminal_print(t, &bytes);
}

static bool is_editing(const struct repl_terminal *t)
{
    return t->mode == MODE_WRITING || t->mode == MODE_WAITING || t->mode == MODE_ASKING;
}

/* A remark of ours, above what is being written. */
static void remark(struct repl_terminal *t, const char *text)
{
    if (is_editing(t))
        repl_terminal_draw(t, ERASE);
    repl_show_note(t->show, "%s", text);
    if (is_editing(t))
        repl_terminal_draw(t, DRAW);
}

static int watch_keys(struct repl_terminal *t, struct error *err);

void repl_terminal_begin_input(struct repl_terminal *t)
{
    struct error err;
    scoped_strbuf struct strbuf bytes;
    strbuf_init(&bytes, REPL_TERMINAL_DRAWN_MAX);
    if (t->mode == MODE_LEAVING)
        return;
    t->mode = MODE_WRITING;
    line_editor_clear(&t->editor);
    repl_show_end_line(t->show);
    tty_enter(t->tty, TTY_EDITING);
    /* Colours, and a cursor that the code has hidden. */
    strbuf_add_str(&bytes, term_has_colour(tty_out(t->tty)) ? "\033[0m\033[?25h" : "");
    repl_terminal_print(t, &bytes);
    if (!t->watch && watch_keys(t, &err) < 0)
        repl_fail(t->repl, &err);
    repl_terminal_draw(t, DRAW);
}

void repl_terminal_drop_input(struct repl_terminal *t)
{
    repl_terminal_draw(t, FINISH);
    repl_terminal_begin_input(t);
}

void repl_terminal_run(struct repl_terminal *t)
{
    t->mode = MODE_RUNNING;
    loop_watch_free(take_ptr(&t->watch));
    tty_enter(t->tty, TTY_RUNNING);
}

void repl_terminal_leave(struct repl_terminal *t, int status)
{
    if (is_editing(t))
        repl_terminal_draw(t, FINISH);
    t->mode = MODE_LEAVING;
    repl_show_mute(t->show);
    loop_watch_free(take_ptr(&t->watch));
    tty_enter(t->tty, TTY_FOUND);
    repl_quit(t->repl, status);
}

static void leave_failed(struct repl_terminal *t, const struct error *err)
{
    if (t->mode == MODE_LEAVING)
        return;
    repl_terminal_leave(t, 0);
    repl_fail(t->repl, err);
}

/* --- keys ------------------------------------------------------------------------------------ */

/* The shell has had the terminal meanwhile, and the cursor is somewhere else. */
static void resume(struct repl_terminal *t)
{
    tty_enter(t->tty, is_editing(t) ? TTY_EDITING : TTY_RUNNING);
    tty_size(t->tty, &t->view.width, &t->view.height);
    t->view.row = t->view.top = 0;
    if (is_editing(t))
        repl_terminal_draw(t, DRAW);
}

static void suspend(struct repl_terminal *t)
{
    repl_terminal_draw(t, FINISH);
    tty_enter(t->tty, TTY_FOUND);
    raise(SIGTSTP); /* goes on in the foreground; or at once, where nobody could continue it */
    resume(t);
}

static void on_event(struct repl_terminal *t, enum line_event event)
{
    switch (event) {
    case LINE_GOES_ON:
        break;
    case LINE_ENTER:
        repl_input_enter(t);
        break;
    case LINE_COMPLETE:
        repl_input_complete(t);
        break;
    case LINE_CANCELLED:
        repl_terminal_drop_input(t);
        break;
    case LINE_END:
        repl_terminal_leave(t, 0);
        break;
    case LINE_SUSPEND:
        suspend(t);
        break;
    case LINE_REDRAW:
        repl_terminal_draw(t, CLEAR);
        break;
    }
}

/* Takes the keys that wait, as long as the input is being written. */
void repl_terminal_work(struct repl_terminal *t)
{
    size_t done = 0, step;
    bool is_changed = false;
    while (t->mode == MODE_WRITING) {
        struct line_key key;
        size_t at = MIN(done, t->input.len);
        step = line_key_read(&key, strbuf_str(&t->input) + at, t->input.len - at);
        if (step == 0)
            break;
        done = at + step;
        is_changed = true;
        enum line_event event = line_editor_key(&t->editor, &key);
        if (event == LINE_GOES_ON)
            continue;
        /* What follows may look at the keys itself. */
        memmove(t->input.data, t->input.data + done, t->input.len - done);
        t->input.len -= done;
        done = 0;
        on_event(t, event);
    }
    if (done > 0) {
        memmove(t->input.data, t->input.data + done, t->input.len - done);
        t->input.len -= done;
    }
    if (is_changed && t->mode == MODE_WRITING)
        repl_terminal_draw(t, DRAW);
}

/* Ctrl-C while something else is waited for. */
static void cancel_waiting(struct repl_terminal *t)
{
    strbuf_clear(&t->input);
    if (t->mode == MODE_ASKING) {
        t->is_cancelled = true;
    } else if (t->mode == MODE_WAITING) {
        repl_terminal_drop_input(t);
    }
}

static void on_input(void *ctx, unsigned events)
{
    static char buffer[READ_BYTES];
    struct repl_terminal *t = ctx;
    (void)events;
    ssize_t n = read(tty_in(t->tty), buffer, sizeof(buffer));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) { /* the terminal is gone */
        repl_terminal_leave(t, 128 + SIGHUP);
        return;
    }
    strbuf_add(&t->input, buffer, (size_t)n);
    if (t->input.overflow)
        strbuf_clear(&t->input);
    if (t->mode == MODE_WRITING)
        repl_terminal_work(t);
    else if (memchr(buffer, CTRL_C, (size_t)n))
        cancel_waiting(t);
}

static int watch_keys(struct repl_terminal *t, struct error *err)
{
    return loop_watch_new(&t->watch, t->repl->loop, tty_in(t->tty), LOOP_READ, on_input, t, err);
}

/* What was typed before the terminal was ours: its Enter was turned into a newline. Nobody has seen
 * a prompt yet: a newline that answers one is a key of its own. */
static void take_typed_ahead(struct repl_terminal *t)
{
    char buffer[4096];
    int waiting = 0;
    tty_enter(t->tty, TTY_EDITING);
    if (ioctl(tty_in(t->tty), FIONREAD, &waiting) < 0 || waiting <= 0)
        return;
    ssize_t n = read(tty_in(t->tty), buffer, MIN((size_t)waiting, sizeof(buffer)));
    for (ssize_t i = 0; i < n; i++)
        strbuf_add_char(&t->input, (char)(buffer[i] == '\n' ? '\r' : buffer[i]));
}

static void on_resized(void *ctx, int number)
{
    struct repl_terminal *t = ctx;
    struct line_frame frame;
    unsigned width, height;
    (void)number;
    tty_size(t->tty, &width, &height);
    line_editor_frame(&t->editor, &frame, width);
    line_view_resize(&t->view, &frame, width, height);
    if (is_editing(t))
        repl_terminal_draw(t, DRAW);
    else
        t->view.row = t->view.top = 0;
}

/* After a stop that was not our doing. */
static void on_continued(void *ctx, int number)
{
    struct repl_terminal *t = ctx;
    (void)number;
    if (t->mode != MODE_LEAVING && tty_is_foreground(t->tty) && !tty_is_as_left(t->tty))
        resume(t);
}

/* --- the front ------------------------------------------------------------------------------- */

static const struct repl_language *find_language(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(languages); i++) {
        if (strcmp(languages[i].name, name) == 0)
            return &languages[i];
    }
    return &other_language;
}

static void greet(const struct repl_terminal *t)
{
    const struct runner *r = t->repl->runner;
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, REPL_TERMINAL_DRAWN_MAX);
    strbuf_add_fmt(&text, "%s%s%s in a sealed sandbox. :help lists commands, Ctrl-D leaves.\n",
                   t->language->title[0] ? t->language->title : r->language, r->version ? " " : "",
                   r->version ? r->version : "");
    repl_terminal_print(t, &text);
}

static void open_editor(struct repl_terminal *t)
{
    bool colour = term_has_colour(tty_out(t->tty));
    scoped_free char *path =
        t->repl->has_history ? line_history_path(t->repl->runner->language) : NULL;
    t->history = line_history_new(path);
    line_editor_init(&t->editor, t->history, INDENT);
    t->editor.prompt = t->language->prompt;
    t->editor.more = t->language->more;
    t->view.style_on = term_style(colour, TERM_GREEN);
    t->view.style_off = term_style(colour, TERM_PLAIN);
    tty_size(t->tty, &t->view.width, &t->view.height);
}

static int terminal_open(struct repl *repl, struct error *err)
{
    struct tty *tty;
    if (tty_open(&tty, err) < 0)
        return -1;
    struct repl_terminal *t = xcalloc(1, sizeof(*t));
    *t = (struct repl_terminal){.repl = repl, .tty = tty};
    t->language = find_language(repl->runner->language);
    repl->front_state = t;
    strbuf_init(&t->input, INPUT_MAX_BYTES);
    open_editor(t);
    if (repl_show_new(&t->show, repl->out, false, &repl_input_told, t, err) < 0 ||
        loop_signal_new(&t->resized, repl->loop, SIGWINCH, on_resized, t, err) < 0 ||
        loop_signal_new(&t->continued, repl->loop, SIGCONT, on_continued, t, err) < 0)
        return -1;
    greet(t);
    take_typed_ahead(t);
    repl_terminal_begin_input(t);
    repl_terminal_work(t);
    return 0;
}

static void terminal_close(struct repl *repl)
{
    struct repl_terminal *t = repl->front_state;
    if (t->show && is_editing(t) && t->watch)
        repl_terminal_draw(t, FINISH);
    loop_watch_free(t->watch);
    loop_signal_free(t->resized);
    loop_signal_free(t->continued);
    loop_timer_free(t->patience);
    tty_free(t->tty);
    line_editor_release(&t->editor);
    line_history_free(t->history);
    repl_show_free(t->show);
    strbuf_release(&t->input);
    free(t->code);
    free(t);
}

static void warn_degraded(struct repl_terminal *t, const struct session_info *info)
{
    if (info->layers && tier_of(info->layers, t->repl->is_rootless) == TIER_T3)
        remark(t, "cove: warning: this sandbox is degraded, at tier T3; see 'cove doctor'");
}

static void on_ready(struct repl_terminal *t, const struct session_info *info)
{
    if (!t->has_kernel)
        warn_degraded(t, info);
    t->has_kernel = true;
    t->is_told = t->was_killed = false;
    if (t->mode == MODE_WAITING) {
        t->mode = MODE_WRITING;
        repl_input_enter(t);
        repl_terminal_work(t);
    }
}

/* Its interpreter is gone. A new one is started, unless that is the one that did not start. */
static void on_failed(struct repl_terminal *t, const struct session_info *info)
{
    struct error err;
    if (!t->has_kernel) {
        leave_failed(t, &info->error);
        return;
    }
    bool is_told = t->is_told, was_killed = t->was_killed;
    t->is_told = t->was_killed = t->has_kernel = false;
    if (session_reset(t->repl->session, &err) < 0) {
        leave_failed(t, info->error.msg[0] ? &info->error : &err);
        return;
    }
    if (!is_told)
        remark(t, info->error.msg);
    remark(t, was_killed ? "[the interpreter was killed; files are kept, variables are lost]"
                         : "[a new interpreter starts; files are kept, variables are lost]");
}

/* By its lifetime, or with its spawner, which leaves no word. */
static void on_terminated(struct repl_terminal *t, const struct session_info *info)
{
    struct error err = info->error;
    if (err.msg[0] == '\0')
        error_set(&err, ERROR_UNAVAILABLE, "the session is gone, with the spawner of its sandbox");
    leave_failed(t, &err);
}

static void terminal_changed(struct repl *repl, const struct session_info *info)
{
    struct repl_terminal *t = repl->front_state;
    if (!t || t->mode == MODE_LEAVING)
        return;
    if (info->state == SESSION_READY)
        on_ready(t, info);
    else if (info->state == SESSION_FAILED)
        on_failed(t, info);
    else if (info->state == SESSION_TERMINATED)
        on_terminated(t, info);
}

static void terminal_signal(struct repl *repl, int number)
{
    struct repl_terminal *t = repl->front_state;
    if (number != SIGINT)
        repl_terminal_leave(t, 128 + number);
    else if (t->mode == MODE_RUNNING)
        repl_input_interrupt(t);
    else if (t->mode == MODE_WRITING)
        repl_terminal_drop_input(t);
    else
        cancel_waiting(t);
}

const struct repl_front repl_terminal = {
    .open = terminal_open,
    .close = terminal_close,
    .changed = terminal_changed,
    .signal = terminal_signal,
};
