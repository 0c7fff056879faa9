/* repl_input.c - what becomes of an input: is it whole, what completes it, running it, commands
 *
 * Each question ends in one answer, good or bad; until then no other is asked and no key is taken.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/repl_terminal.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/repl_complete.h"
#include "cli/repl_list.h"
#include "codec/json.h"

#define ANSWER_MAX_BYTES (32 * MIB)
#define INDENT_MAX       64
#define PATIENCE_MS      1000 /* after Ctrl-C, before we say how to go on */
#define CTRL_C           '\003'

static void run_input(struct repl_terminal *t);

/* --- running --------------------------------------------------------------------------------- */

static void on_ended(void *ctx, const struct execution *e)
{
    struct repl_terminal *t = ctx;
    loop_timer_free(take_ptr(&t->patience));
    if (t->mode == MODE_LEAVING)
        return;
    (void)e;
    t->was_killed = t->interrupts > 1;
    t->is_told = true;
    repl_terminal_begin_input(t);
    repl_terminal_work(t);
}

static void on_stdout_gone(void *ctx)
{
    struct repl_terminal *t = ctx;
    session_cancel(t->repl->session);
}

const struct repl_show_told repl_input_told = {.ended = on_ended, .stdout_gone = on_stdout_gone};

static void on_patience_over(void *ctx)
{
    struct repl_terminal *t = ctx;
    loop_timer_free(take_ptr(&t->patience));
    repl_show_note(t->show, "[interrupted; Ctrl-C again kills the interpreter]");
}

void repl_input_interrupt(struct repl_terminal *t)
{
    session_interrupt(t->repl->session);
    if (t->interrupts++ == 0)
        t->patience = loop_timer_new(t->repl->loop, PATIENCE_MS, on_patience_over, t);
}

static void execute(struct repl_terminal *t)
{
    const struct config *c = &t->repl->cli->config;
    struct error err;
    t->cell = (struct cell_request){
        .code = t->code,
        .code_len = strlen(t->code),
        .language = t->repl->runner->language,
        .stdin_fd = -1,
        .timeout_ms = c->timeout_ms,
        .output_bytes = c->output_bytes,
        .wants_artifacts = true,
    };
    t->interrupts = 0;
    t->is_told = false;
    repl_terminal_run(t);
    if (session_execute(t->repl->session, &t->cell, true, &repl_show_events, t->show, &err) < 0) {
        repl_show_note(t->show, "cove: %s", err.msg);
        repl_terminal_begin_input(t);
        return;
    }
    char *pressed = t->input.len ? memchr(t->input.data, CTRL_C, t->input.len) : NULL;
    if (pressed) { /* it came together with the Enter, too early to be a signal */
        strbuf_clear(&t->input);
        repl_input_interrupt(t);
    }
}

/* --- questions ------------------------------------------------------------------------------- */

/* Asks; false when the session cannot be asked now. */
static bool ask(struct repl_terminal *t, enum kernel_frame_type question, const struct strbuf *body,
                session_answer_fn fn)
{
    struct error err;
    t->is_cancelled = false;
    if (session_ask(t->repl->session, question, strbuf_str(body), body->len, fn, t, &err) < 0)
        return false;
    t->mode = MODE_ASKING;
    return true;
}

/* The answer as JSON; NULL when there is none, or it was cancelled meanwhile. New. */
static json_t *take_answer(struct repl_terminal *t, const char *body, size_t len,
                           const struct error *err)
{
    const struct json_limits limits = {.max_bytes = ANSWER_MAX_BYTES};
    struct error local;
    json_t *answer = NULL;
    if (t->mode != MODE_ASKING)
        return NULL;
    t->mode = MODE_WRITING;
    if (err || t->is_cancelled || json_parse(&answer, body, len, &limits, &local) < 0)
        return NULL;
    return answer;
}

static void open_line(struct repl_terminal *t, const char *indent)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, INDENT_MAX + 1);
    strbuf_add_char(&text, '\n');
    strbuf_add(&text, indent, MIN(strspn(indent, " \t"), (size_t)INDENT_MAX));
    line_edit_insert(&t->editor.edit, strbuf_str(&text), text.len);
}

/* After an answer. */
static void go_on(struct repl_terminal *t)
{
    repl_terminal_work(t);
    if (t->mode == MODE_WRITING)
        repl_terminal_draw(t, DRAW);
}

static void on_whole(void *ctx, const char *body, size_t len, const struct error *err)
{
    struct repl_terminal *t = ctx;
    if (t->mode == MODE_LEAVING)
        return;
    scoped_json json_t *answer = take_answer(t, body, len, err);
    const char *status = json_string_value(json_object_get(answer, "status"));
    const char *indent = json_string_value(json_object_get(answer, "indent"));
    bool is_open = status && strcmp(status, "incomplete") == 0;
    if (t->is_cancelled)
        repl_terminal_drop_input(t);
    else if (is_open || !line_edit_is_in_last_line(&t->editor.edit))
        open_line(t, indent ? indent : "");
    else
        run_input(t); /* also what is wrong: the interpreter tells why */
    go_on(t);
}

/* Whether the text is whole; before its last line, only how the next one is indented. */
static void ask_whole(struct repl_terminal *t)
{
    const struct line_edit *e = &t->editor.edit;
    bool is_last = line_edit_is_in_last_line(e);
    scoped_strbuf struct strbuf body;
    strbuf_init(&body, LINE_EDIT_MAX_BYTES);
    if (is_last && line_editor_is_recalled(&t->editor)) {
        run_input(t);
        return;
    }
    strbuf_add(&body, strbuf_str(&e->text), is_last ? e->text.len : e->cursor);
    if (!ask(t, KERNEL_IS_WHOLE, &body, on_whole))
        t->mode = MODE_WAITING;
}

static void list_matches(struct repl_terminal *t, const json_t *matches)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, REPL_TERMINAL_DRAWN_MAX);
    repl_terminal_draw(t, FINISH);
    repl_list_names(&text, matches, t->view.width, MAX(t->view.height / 2, 1u));
    repl_terminal_print(t, &text);
}

static void on_complete(void *ctx, const char *body, size_t len, const struct error *err)
{
    struct repl_terminal *t = ctx;
    if (t->mode == MODE_LEAVING)
        return;
    scoped_json json_t *answer = take_answer(t, body, len, err);
    scoped_json json_t *matches = repl_complete_take(&t->editor.edit, answer);
    if (matches)
        list_matches(t, matches);
    go_on(t);
}

void repl_input_complete(struct repl_terminal *t)
{
    scoped_strbuf struct strbuf body;
    strbuf_init(&body, LINE_EDIT_MAX_BYTES + 32);
    repl_complete_ask(&body, &t->editor.edit);
    ask(t, KERNEL_COMPLETE, &body, on_complete);
}

/* --- commands for the session itself --------------------------------------------------------- */

static void on_variables(void *ctx, const char *body, size_t len, const struct error *err)
{
    struct repl_terminal *t = ctx;
    if (t->mode == MODE_LEAVING)
        return;
    scoped_json json_t *answer = take_answer(t, body, len, err);
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, REPL_TERMINAL_DRAWN_MAX);
    if (answer)
        repl_list_variables(&text, answer, t->view.width);
    else if (err)
        repl_show_note(t->show, "cove: %s", err->msg);
    repl_terminal_print(t, &text);
    repl_terminal_begin_input(t);
    repl_terminal_work(t);
}

static void do_variables(struct repl_terminal *t)
{
    const struct strbuf none = {0};
    if (!ask(t, KERNEL_VARIABLES, &none, on_variables)) {
        repl_show_note(t->show, "[the interpreter is not ready yet]");
        repl_terminal_begin_input(t);
    }
}

static void do_reset(struct repl_terminal *t)
{
    struct error err;
    if (session_reset(t->repl->session, &err) < 0)
        repl_show_note(t->show, "cove: %s", err.msg);
    else
        repl_show_note(t->show, "[a new interpreter: files are kept, variables are lost]");
    repl_terminal_begin_input(t);
}

static void do_quit(struct repl_terminal *t)
{
    t->mode = MODE_RUNNING; /* its line is finished already */
    repl_terminal_leave(t, 0);
}

static void do_help(struct repl_terminal *t);

static const struct meta {
    const char *name, *help;
    void (*run)(struct repl_terminal *t);
} metas[] = {
    {":help", "this list", do_help},
    {":vars", "the variables of the session", do_variables},
    {":reset", "a new interpreter; files are kept, variables are lost", do_reset},
    {":quit", "end the session (also Ctrl-D)", do_quit},
};

static const char help_keys[] =
    "Enter          run the input, or open another line when it is not whole\n"
    "Alt-Enter      open another line (also Ctrl-J)\n"
    "Tab            complete a name; at the start of a line, indent\n"
    "Up, Down       earlier inputs that begin alike; lines of this one (Ctrl-P, Ctrl-N: inputs only)\n"
    "Ctrl-R         search earlier inputs\n"
    "Ctrl-C         clear the input; interrupt what runs, a second one kills it\n"
    "Ctrl-_         undo; other keys as in Emacs\n";

static void do_help(struct repl_terminal *t)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, REPL_TERMINAL_DRAWN_MAX);
    for (size_t i = 0; i < ARRAY_LEN(metas); i++)
        strbuf_add_fmt(&text, "%-14s %s\n", metas[i].name, metas[i].help);
    strbuf_add_str(&text, help_keys);
    strbuf_add_fmt(&text, "Pictures are saved in %s; the code cannot read the keyboard.\n",
                   t->repl->out ? t->repl->out : "the current directory");
    repl_terminal_print(t, &text);
    repl_terminal_begin_input(t);
}

static void run_meta(struct repl_terminal *t, const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(metas); i++) {
        if (strcmp(metas[i].name, name) == 0) {
            metas[i].run(t);
            return;
        }
    }
    repl_show_note(t->show, "there is no %s; :help lists what there is", name);
    repl_terminal_begin_input(t);
}

/* --- an input -------------------------------------------------------------------------------- */

/* The input without the blank lines around it and the blanks at its end. Owned. */
static char *trimmed(const struct repl_terminal *t)
{
    const char *text = strbuf_str(&t->editor.edit.text), *line = text;
    size_t len = strlen(text);
    while (len > 0 && strchr(" \t\n", text[len - 1]))
        len--;
    for (size_t i = 0; i < len && strchr(" \t\n", text[i]); i++) {
        if (text[i] == '\n')
            line = text + i + 1;
    }
    return xstrndup(line, len - MIN((size_t)(line - text), len));
}

static bool means_leaving(const struct repl_terminal *t, const char *text)
{
    for (size_t i = 0; i < ARRAY_LEN(t->language->leave); i++) {
        if (t->language->leave[i] && strcmp(t->language->leave[i], text) == 0)
            return true;
    }
    return false;
}

static void run_input(struct repl_terminal *t)
{
    free(t->code);
    t->code = trimmed(t);
    repl_terminal_draw(t, FINISH);
    line_history_add(t->history, t->code, strlen(t->code));
    execute(t);
}

static bool is_meta(const char *text)
{
    return text[0] == ':' && text[1] >= 'a' && text[1] <= 'z' && !strpbrk(text, " \n\t;|&()");
}

void repl_input_enter(struct repl_terminal *t)
{
    scoped_free char *text = trimmed(t);
    if (text[0] == '\0') {
        repl_terminal_drop_input(t);
    } else if (means_leaving(t, text)) {
        line_history_add(t->history, text, strlen(text));
        repl_terminal_leave(t, 0);
    } else if (is_meta(text)) {
        repl_terminal_draw(t, FINISH);
        line_history_add(t->history, text, strlen(text));
        line_editor_clear(&t->editor);
        run_meta(t, text);
    } else {
        ask_whole(t);
    }
}
