/* repl_script.c - `cove repl --json`: a session for a program that speaks lines of JSON
 *
 * Requests are served in their order; only an interrupt overtakes. Each has one line as its answer:
 * the execution object, {"answer": ...} or {"error": ...}. An execution that is asked to stream has
 * lines before it, {"event": "result", ...}, for what the code shows while it runs. The first line
 * is the session itself; when it ends before its input does, a last line says why. A request may
 * name one of the session's forks as "session", by its id or its number. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "cli/repl.h"
#include "core/execution_json.h"
#include "core/session_json.h"

#define LINE_MAX_BYTES (32 * MIB)
#define READ_BYTES     (64 * KIB)
#define AHEAD_BYTES    (1 * MIB) /* read of requests that have to wait */
#define TIMEOUT_MAX_S  (24 * 3600)

struct script {
    struct repl *repl;
    int fd;
    struct loop_watch *watch; /* NULL: at its end */
    struct strbuf input;
    bool is_busy;            /* an answer is owed */
    bool is_over;            /* no more input */
    bool is_told;            /* the session has greeted */
    bool has_quit;           /* of our own will */
    bool is_ended;           /* the session was closed, its forks live on */
    json_t *request;         /* the one under way; its strings are borrowed by the execution */
    struct session *session; /* that it is about */
    struct cell_request cell;
    const char **env;
};

static void serve_next(struct script *s);

static void quit(struct script *s, int status)
{
    s->has_quit = true;
    repl_quit(s->repl, status);
}

static void answer(struct script *s, json_t *object)
{
    struct error err;
    scoped_json json_t *owned = object;
    if (json_write(STDOUT_FILENO, owned, JSON_STYLE_COMPACT, &err) < 0)
        quit(s, 74);
}

static void answer_error(struct script *s, const struct error *err)
{
    answer(s,
           json_pack("{s:{s:s, s:s, s:o}}", "error", "code", error_info(err->code)->name, "message",
                     err->msg, "hint", json_text_or_null(err->hint[0] ? err->hint : NULL)));
}

static void end_request(struct script *s)
{
    s->is_busy = false;
    json_decref(take_ptr(&s->request));
    free(take_ptr(&s->env));
    serve_next(s);
}

/* --- execute --------------------------------------------------------------------------------- */

static void on_ended(void *ctx, const struct execution *e)
{
    struct script *s = ctx;
    json_t *object = execution_json(e, s->repl->runner->language);
    json_object_set_new(object, "session_id", json_string(session_info(s->session)->id));
    answer(s, object);
    end_request(s);
}

static const struct execution_events execution_events = {.ended = on_ended};

/* The value of the last expression comes with the execution object a moment later. */
static void on_result(void *ctx, const struct result *result)
{
    struct script *s = ctx;
    if (!result->is_main)
        answer(s, json_pack("{s:s, s:s, s:o}", "event", "result", "session_id",
                            session_info(s->session)->id, "result", result_json(result)));
}

static const struct execution_events streamed_events = {.result = on_result, .ended = on_ended};

static int take_stdin(struct script *s, struct error *err)
{
    const json_t *text = json_object_get(s->request, "stdin");
    s->cell.stdin_fd = -1;
    if (!json_is_string(text))
        return 0;
    return fd_make_file(&s->cell.stdin_fd, "stdin", json_string_value(text),
                        json_string_length(text), err);
}

static void take_env(struct script *s)
{
    const json_t *list = json_object_get(s->request, "env");
    size_t i, count = 0;
    const json_t *item;
    s->env = xcalloc(json_array_size(list) + 1, sizeof(*s->env));
    json_array_foreach(list, i, item)
    {
        if (json_is_string(item))
            s->env[count++] = json_string_value(item);
    }
    s->cell.env = s->env;
}

/* In seconds; a number that is no time is refused before it becomes one. */
static int take_timeout(struct script *s, struct error *err)
{
    const json_t *timeout = json_object_get(s->request, "timeout");
    double seconds = json_number_value(timeout);
    s->cell.timeout_ms = s->repl->cli->config.timeout_ms;
    if (!timeout || json_is_null(timeout))
        return 0;
    if (!json_is_number(timeout) || !(seconds >= 0.001 && seconds <= TIMEOUT_MAX_S))
        return error_set(err, ERROR_INVALID, "\"timeout\" is not a number of seconds up to %d",
                         TIMEOUT_MAX_S);
    s->cell.timeout_ms = (uint64_t)(seconds * 1000);
    return 0;
}

static int op_execute(struct script *s, struct error *err)
{
    const struct config *c = &s->repl->cli->config;
    const json_t *code = json_object_get(s->request, "code");
    const json_t *artifacts = json_object_get(s->request, "artifacts");
    bool is_streamed = json_is_true(json_object_get(s->request, "stream"));
    if (!json_is_string(code))
        return error_set(err, ERROR_INVALID, "execute needs \"code\", a string");
    s->cell = (struct cell_request){
        .code = json_string_value(code),
        .code_len = json_string_length(code),
        .language = json_string_value(json_object_get(s->request, "language")),
        .output_bytes = c->output_bytes,
        .wants_artifacts = !json_is_false(artifacts),
        .wants_usage = true,
    };
    if (!s->cell.language)
        s->cell.language = s->repl->runner->language;
    take_env(s);
    if (take_timeout(s, err) < 0 || take_stdin(s, err) < 0)
        return -1;
    return session_execute(s->session, &s->cell, true,
                           is_streamed ? &streamed_events : &execution_events, s, err);
}

/* --- questions ------------------------------------------------------------------------------- */

static void on_answer(void *ctx, const char *body, size_t len, const struct error *err)
{
    struct script *s = ctx;
    struct error local;
    json_t *value = NULL;
    const struct json_limits limits = {.max_bytes = LINE_MAX_BYTES};
    if (err)
        answer_error(s, err);
    else if (json_parse(&value, body, len, &limits, &local) == 0)
        answer(s, json_pack("{s:o}", "answer", value));
    else { /* a DATA: mime NUL bytes */
        size_t mime = strnlen(body, len);
        const char *data = body + MIN(mime + 1, len);
        answer(s, json_pack("{s:{s:o, s:o}}", "answer", "mime_type", json_text(body, mime), "data",
                            json_text(data, len - (size_t)(data - body))));
    }
    end_request(s);
}

static const char *text_of(const struct script *s, const char *key)
{
    const char *text = json_string_value(json_object_get(s->request, key));
    return text ? text : "";
}

static int ask(struct script *s, enum kernel_frame_type question, const struct strbuf *body,
               struct error *err)
{
    return session_ask(s->session, question, strbuf_str(body), body->len, on_answer, s, err);
}

static int op_variables(struct script *s, struct error *err)
{
    const struct strbuf none = {0};
    return ask(s, KERNEL_VARIABLES, &none, err);
}

static int op_variable(struct script *s, struct error *err)
{
    const char *format = text_of(s, "format");
    scoped_strbuf struct strbuf body;
    strbuf_init(&body, LINE_MAX_BYTES);
    strbuf_add_str(&body, text_of(s, "name"));
    strbuf_add_char(&body, '\0');
    strbuf_add_str(&body, format[0] ? format : "json");
    return ask(s, KERNEL_VARIABLE, &body, err);
}

static int op_complete(struct script *s, struct error *err)
{
    const json_t *cursor = json_object_get(s->request, "cursor");
    const char *code = text_of(s, "code");
    scoped_strbuf struct strbuf body;
    strbuf_init(&body, LINE_MAX_BYTES);
    strbuf_add_fmt(&body, "%lld",
                   json_is_integer(cursor) ? (long long)json_integer_value(cursor)
                                           : (long long)strlen(code));
    strbuf_add_char(&body, '\0');
    strbuf_add_str(&body, code);
    return ask(s, KERNEL_COMPLETE, &body, err);
}

static int op_is_whole(struct script *s, struct error *err)
{
    scoped_strbuf struct strbuf body;
    strbuf_init(&body, LINE_MAX_BYTES);
    strbuf_add_str(&body, text_of(s, "code"));
    return ask(s, KERNEL_IS_WHOLE, &body, err);
}

/* Answered when the new interpreter is ready, or cannot be had. */
static int op_reset(struct script *s, struct error *err)
{
    return session_reset(s->session, err);
}

/* --- forks ----------------------------------------------------------------------------------- */

static void on_session(struct script *s, struct session *session);

static void on_fork_changed(void *ctx, struct session *session)
{
    struct repl *repl = ctx;
    on_session(repl->front_state, session);
    if (session_info(session)->state == SESSION_TERMINATED)
        repl_on_over(repl);
}

/* Answered when the fork is ready, or cannot be had. */
static int op_fork(struct script *s, struct error *err)
{
    static const struct session_events events = {.changed = on_fork_changed};
    struct session **place = s->repl->forks;
    while (*place)
        place++;
    if (session_fork(s->session, place, &events, s->repl, err) < 0)
        return -1;
    s->session = *place;
    return 0;
}

/* Answered when it is gone. */
static int op_close(struct script *s, struct error *err)
{
    if (session_info(s->session)->state == SESSION_TERMINATED)
        return error_set(err, ERROR_CONFLICT, "the session is over");
    session_close(s->session);
    return 0;
}

/* By its id, or by the number of the fork. */
static int choose_session(struct script *s, struct error *err)
{
    const json_t *wanted = json_object_get(s->request, "session");
    json_int_t number = 0;
    s->session = s->repl->session;
    if (!wanted || strcmp(text_of(s, "session"), session_info(s->session)->id) == 0)
        return 0;
    for (struct session **at = s->repl->forks; *at; at++) {
        number++;
        if (strcmp(text_of(s, "session"), session_info(*at)->id) == 0 ||
            json_integer_value(wanted) == number) {
            s->session = *at;
            return 0;
        }
    }
    return error_set(err, ERROR_NOT_FOUND, "there is no such session, or no such fork of it");
}

/* --- checkpoints ----------------------------------------------------------------------------- */

static void on_checkpoint(void *ctx, const struct checkpoint_info *info, const struct error *err)
{
    struct script *s = ctx;
    if (err)
        answer_error(s, err);
    else
        answer(s, json_pack("{s:o}", "checkpoint", checkpoint_json(info)));
    end_request(s);
}

static int op_checkpoint(struct script *s, struct error *err)
{
    return session_checkpoint(s->session, text_of(s, "name"), on_checkpoint, s, err);
}

static int op_rollback(struct script *s, struct error *err)
{
    return session_rollback(s->session, text_of(s, "checkpoint"), on_checkpoint, s, err);
}

static int op_checkpoints(struct script *s, struct error *err)
{
    (void)err;
    json_t *list = json_array();
    const struct checkpoint_info *info;
    for (size_t i = 0; (info = session_checkpoint_at(s->session, i)); i++)
        json_array_append_new(list, checkpoint_json(info));
    answer(s, json_pack("{s:o}", "checkpoints", list));
    s->is_busy = false;
    return 0;
}

static int op_delete_checkpoint(struct script *s, struct error *err)
{
    return session_drop_checkpoint(s->session, text_of(s, "checkpoint"), on_checkpoint, s, err);
}

static const struct op {
    const char *name;
    int (*run)(struct script *s, struct error *err);
} ops[] = {
    {"execute", op_execute},
    {"variables", op_variables},
    {"variable", op_variable},
    {"complete", op_complete},
    {"is_whole", op_is_whole},
    {"reset", op_reset},
    {"checkpoint", op_checkpoint},
    {"rollback", op_rollback},
    {"checkpoints", op_checkpoints},
    {"delete_checkpoint", op_delete_checkpoint},
    {"fork", op_fork},
    {"close", op_close},
};

/* --- lines ----------------------------------------------------------------------------------- */

static int serve(struct script *s, struct error *err)
{
    const char *name = text_of(s, "op");
    if (choose_session(s, err) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        if (strcmp(ops[i].name, name) == 0)
            return ops[i].run(s, err);
    }
    return error_set(err, ERROR_INVALID, "unknown op '%.40s'", name);
}

static void read_on(struct script *s);

/* The length of the first line; -1 when it is not whole yet. */
static ssize_t first_line(const struct script *s)
{
    const char *newline = s->input.len ? memchr(s->input.data, '\n', s->input.len) : NULL;
    return newline ? newline - s->input.data : -1;
}

static void drop_line(struct script *s, size_t len)
{
    size_t rest = s->input.len - len - 1;
    memmove(s->input.data, s->input.data + len + 1, rest);
    s->input.len = rest;
}

static bool is_interrupt(const json_t *request)
{
    const char *op = json_string_value(json_object_get(request, "op"));
    return op && strcmp(op, "interrupt") == 0;
}

/* While an answer is owed, only interrupts at the head of the line are looked at. */
static void overtake(struct script *s)
{
    struct error err;
    const struct json_limits limits = {.max_bytes = LINE_MAX_BYTES};
    for (ssize_t len; (len = first_line(s)) >= 0; drop_line(s, (size_t)len)) {
        scoped_json json_t *request = NULL;
        if (json_parse(&request, s->input.data, (size_t)len, &limits, &err) < 0 ||
            !is_interrupt(request))
            return;
        session_interrupt(s->session);
    }
}

/* Parses the first line and takes it off the input. */
static int take_request(struct script *s, size_t len, struct error *err)
{
    const struct json_limits limits = {.max_bytes = LINE_MAX_BYTES};
    int status = json_parse(&s->request, s->input.data, len, &limits, err);
    drop_line(s, len);
    return status;
}

static void serve_next(struct script *s)
{
    struct error err;
    for (ssize_t len; !s->is_busy && !s->has_quit && (len = first_line(s)) >= 0;) {
        if (len == 0) {
            drop_line(s, 0);
            continue;
        }
        s->is_busy = true;
        if (take_request(s, (size_t)len, &err) < 0 ||
            (!is_interrupt(s->request) && serve(s, &err) < 0)) {
            answer_error(s, &err);
            s->is_busy = false;
        } else if (is_interrupt(s->request)) {
            s->is_busy = false; /* nothing to interrupt */
        }
        if (!s->is_busy) {
            json_decref(take_ptr(&s->request));
            free(take_ptr(&s->env));
        }
    }
    if (s->is_busy)
        overtake(s); /* they may have come together */
    read_on(s);
    if (s->is_over && !s->is_busy)
        quit(s, 0);
}

/* A caller that is far ahead has to wait, unless its first line is still coming. */
static bool is_full(const struct script *s)
{
    return s->input.len >= AHEAD_BYTES && first_line(s) >= 0;
}

static void on_input(void *ctx, unsigned events)
{
    (void)events;
    static char buffer[READ_BYTES];
    struct script *s = ctx;
    ssize_t n = read(s->fd, buffer, sizeof(buffer));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        loop_watch_free(take_ptr(&s->watch));
        s->is_over = true;
    } else {
        strbuf_add(&s->input, buffer, (size_t)n);
        if (s->input.overflow) {
            struct error err;
            error_set(&err, ERROR_TOO_LARGE, "a line is longer than %u MiB",
                      (unsigned)(LINE_MAX_BYTES / MIB));
            answer_error(s, &err);
            loop_watch_free(take_ptr(&s->watch));
            quit(s, 65);
            return;
        }
    }
    if (is_full(s))
        loop_watch_free(take_ptr(&s->watch));
    if (session_info(s->repl->session)->state == SESSION_CREATING)
        return;
    if (s->is_busy) {
        overtake(s);
        read_on(s);
    } else {
        serve_next(s);
    }
}

static void read_on(struct script *s)
{
    struct error err;
    if (s->watch || s->is_over || s->has_quit || is_full(s))
        return;
    if (loop_watch_new(&s->watch, s->repl->loop, s->fd, LOOP_READ, on_input, s, &err) < 0) {
        answer_error(s, &err);
        quit(s, 74);
    }
}

/* A regular file cannot be waited for, and need not be: all of it is there. */
static int read_file(struct script *s, struct error *err)
{
    scoped_free char *text = NULL;
    if (fd_read_text(s->fd, &text, LINE_MAX_BYTES, err) < 0)
        return error_wrap(err, "read standard input");
    strbuf_add_str(&s->input, text);
    s->is_over = true;
    return 0;
}

/* --- the front ------------------------------------------------------------------------------- */

static int script_open(struct repl *repl, struct error *err)
{
    struct script *s = xcalloc(1, sizeof(*s));
    s->repl = repl;
    s->session = repl->session;
    repl->front_state = s;
    strbuf_init(&s->input, LINE_MAX_BYTES);
    /* An open file of its own, since the loop makes it non-blocking. */
    s->fd = open("/proc/self/fd/0", O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (s->fd < 0)
        s->fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    if (s->fd < 0)
        return error_sys(err, "open standard input");
    if (loop_watch_new(&s->watch, repl->loop, s->fd, LOOP_READ, on_input, s, err) == 0)
        return 0;
    return read_file(s, err);
}

static void script_close(struct repl *repl)
{
    struct script *s = repl->front_state;
    loop_watch_free(s->watch);
    scoped_close_fd(&s->fd);
    strbuf_release(&s->input);
    json_decref(s->request);
    free(s->env);
    free(s);
}

/* Its interpreter, its sandbox or its spawner are gone, and nobody here wanted that. */
static void on_end(struct script *s, const struct session_info *info)
{
    struct error err = info->error;
    if (err.msg[0] == '\0')
        error_set(&err, ERROR_UNAVAILABLE, "the session ended");
    answer_error(s, &err);
    quit(s, error_info(err.code)->exit_status);
}

static void answer_session(struct script *s, const struct session_info *info)
{
    answer(s, json_pack("{s:o}", "session", session_json(info, s->repl->runner->language)));
}

/* Whether the request under way is this one, about that session. */
static bool is_asked(const struct script *s, const struct session *session, const char *op)
{
    return s->is_busy && s->session == session && strcmp(text_of(s, "op"), op) == 0;
}

/* The requests that are answered by a state of the session. */
static void on_session(struct script *s, struct session *session)
{
    struct session_info info = *session_info(session);
    bool is_made = is_asked(s, session, "reset") || is_asked(s, session, "fork");
    bool is_closed = info.state == SESSION_TERMINATED && is_asked(s, session, "close");
    if (is_closed || (info.state == SESSION_READY && is_made)) {
        answer_session(s, &info);
        end_request(s);
    } else if (info.state == SESSION_FAILED && is_made) {
        if (is_asked(s, session, "fork")) /* nobody will ever use it */
            session_close(session);
        answer_error(s, &info.error);
        end_request(s);
    }
}

static void script_changed(struct repl *repl, const struct session_info *info)
{
    struct script *s = repl->front_state;
    bool is_closed = is_asked(s, repl->session, "close");
    if (info->state == SESSION_READY && !s->is_busy) {
        if (!s->is_told)
            answer_session(s, info);
        s->is_told = true;
        serve_next(s);
    } else if ((info->state == SESSION_FAILED && !s->is_told) ||
               (info->state == SESSION_TERMINATED && !s->has_quit && !is_closed)) {
        if (!s->is_ended)
            on_end(s, info);
    } else {
        s->is_ended |= is_closed && info->state == SESSION_TERMINATED;
        on_session(s, repl->session);
    }
}

static void script_signal(struct repl *repl, int signal)
{
    if (signal == SIGINT)
        session_interrupt(repl->session);
    else
        quit(repl->front_state, 128 + signal);
}

const struct repl_front repl_script = {
    .open = script_open,
    .close = script_close,
    .changed = script_changed,
    .signal = script_signal,
};
