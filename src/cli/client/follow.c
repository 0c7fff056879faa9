/* follow.c - reads the events of an execution, and shows them
 *
 * The server numbers events, and goes on behind the one that was seen last. After a restart of it
 * the numbers begin anew, and so does the output: what has been shown is then passed over. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/follow.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "cli/outcome.h"
#include "cli/term.h"
#include "cli/term_text.h"

#define SHOWN_MAX_BYTES (512 * MIB)
#define EVENT_ID_BYTES  1024
#define TRIES_MAX       6
#define FIRST_WAIT_MS   100

/* --- what is shown -----------------------------------------------------------------------------
 */

struct screen {
    bool is_line_open; /* what was printed last did not end its line */
    bool is_gone;      /* nobody reads stdout any more */
};

static void put(struct screen *s, int fd, const char *data, size_t len)
{
    struct error ignored;
    if (len == 0 || (fd == STDOUT_FILENO && s->is_gone))
        return;
    if (fd_write_all(fd, data, len, &ignored) < 0 && fd == STDOUT_FILENO)
        s->is_gone = true;
    s->is_line_open = data[len - 1] != '\n';
}

/* Text of the interpreter, which a terminal must not act on, with a line of its own. */
static void put_line(struct screen *s, int fd, const char *text)
{
    scoped_strbuf struct strbuf line;
    strbuf_init(&line, SHOWN_MAX_BYTES);
    if (s->is_line_open && (term_is_terminal(fd) || fd == STDERR_FILENO))
        strbuf_add_char(&line, '\n');
    term_text_add(&line, text, strlen(text), true);
    if (line.len == 0 || line.data[line.len - 1] != '\n')
        strbuf_add_char(&line, '\n');
    put(s, fd, strbuf_str(&line), line.len);
}

static void show_result(struct screen *s, const json_t *result)
{
    const char *text = doc_text(json_object_get(result, "data"), "text/plain", NULL);
    if (text)
        put_line(s, STDOUT_FILENO, text);
}

static void show_member(struct screen *s, int fd, const json_t *object, const char *key)
{
    const json_t *text = json_object_get(object, key);
    if (json_is_string(text))
        put(s, fd, json_string_value(text), json_string_length(text));
}

/* Why it ended, unless that speaks for itself. */
static void show_reason(struct screen *s, const json_t *execution)
{
    static const char *const plain[] = {"exit", "cancelled", "exception"};
    const json_t *reason = json_object_get(execution, "reason");
    const char *kind = doc_text(reason, "kind", NULL), *hint = doc_text(reason, "hint", NULL);
    for (size_t i = 0; kind && i < ARRAY_LEN(plain); i++) {
        if (strcmp(kind, plain[i]) == 0)
            return;
    }
    if (!kind && strcmp(doc_text(execution, "state", ""), "lost") != 0)
        return;
    scoped_free char *line = xasprintf(
        "cove: %s: %s", kind ? kind : "lost",
        doc_text(reason, "message", "the server has lost what ran it; its result is not known"));
    put_line(s, STDERR_FILENO, line);
    if (hint) {
        scoped_free char *more = xasprintf("cove: hint: %s", hint);
        put_line(s, STDERR_FILENO, more);
    }
}

static void show_end(struct screen *s, const json_t *execution)
{
    const char *traceback = doc_text(json_object_get(execution, "error"), "traceback", NULL);
    if (traceback)
        put_line(s, STDERR_FILENO, traceback);
    show_reason(s, execution);
}

static void show_all(struct screen *s, const json_t *execution)
{
    const json_t *results = json_object_get(execution, "results");
    show_member(s, STDOUT_FILENO, execution, "stdout");
    show_member(s, STDERR_FILENO, execution, "stderr");
    for (size_t i = 0; i < json_array_size(results); i++)
        show_result(s, json_array_get(results, i));
}

void follow_show(const json_t *execution)
{
    struct screen s = {0};
    show_all(&s, execution);
    show_end(&s, execution);
}

/* --- its status --------------------------------------------------------------------------------
 */

static int signal_number(const char *name)
{
    for (int i = 1; name && i < NSIG; i++) {
        const char *known = sigabbrev_np(i);
        if (known && strncmp(name, "SIG", 3) == 0 && strcmp(name + 3, known) == 0)
            return i;
    }
    return 0;
}

int follow_status(const json_t *execution)
{
    static const struct {
        const char *kind;
        int status;
    } statuses[] = {{"timeout", OUTCOME_TIMEOUT},
                    {"cancelled", 128 + SIGINT},
                    {"infrastructure", 70},
                    {"lost", 69}};
    const char *kind = doc_text(json_object_get(execution, "reason"), "kind", NULL);
    const json_t *code = json_object_get(execution, "exit_code");
    int signal = signal_number(doc_text(execution, "signal", NULL));
    if (!kind)
        kind = doc_text(execution, "state", "");
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        if (strcmp(statuses[i].kind, kind) == 0)
            return statuses[i].status;
    }
    if (strcmp(kind, "completed") == 0)
        return 0;
    if (json_is_integer(code))
        return (int)json_integer_value(code) & 0xff;
    if (signal)
        return 128 + signal;
    return strcmp(kind, "exception") == 0 ? 1 : OUTCOME_KILLED;
}

/* --- events ------------------------------------------------------------------------------------
 */

struct follow {
    struct client *c;
    const struct follow_order *order;
    struct screen screen;
    struct strbuf last; /* id of the last event */
    json_t *document;   /* of `ended` */
    bool has_started;
    bool has_progress; /* since the connection was made */
    struct stream {
        size_t shown, passed_over; /* of what came since it began; the rest is new */
    } out, err;
};

static void show_output(struct follow *f, int fd, struct stream *s, const json_t *data)
{
    const json_t *text = json_object_get(data, "text");
    const char *bytes = json_string_value(text);
    if (!bytes)
        return;
    size_t len = json_string_length(text);
    size_t old = MIN(len, s->shown - s->passed_over);
    s->passed_over += old;
    put(&f->screen, fd, bytes + old, len - old);
    s->shown += len - old;
    s->passed_over += len - old;
}

static void on_started(struct follow *f, json_t *data)
{
    (void)data;
    f->out.passed_over = f->err.passed_over = 0;
    f->has_started = true;
}

static void on_stdout(struct follow *f, json_t *data)
{
    show_output(f, STDOUT_FILENO, &f->out, data);
}

static void on_stderr(struct follow *f, json_t *data)
{
    show_output(f, STDERR_FILENO, &f->err, data);
}

static void on_result(struct follow *f, json_t *data)
{
    show_result(&f->screen, data);
}

static void on_missed(struct follow *f, json_t *data)
{
    scoped_free char *line = xasprintf("cove: %.0f events were dropped before they could be read",
                                       doc_number(data, "events", 0));
    put_line(&f->screen, STDERR_FILENO, line);
}

/* Whoever comes too late for the events finds all of it here. */
static void on_ended(struct follow *f, json_t *data)
{
    if (!f->has_started)
        show_all(&f->screen, data);
    show_end(&f->screen, data);
}

static const struct {
    const char *name;
    void (*show)(struct follow *f, json_t *data);
} kinds[] = {{"started", on_started}, {"stdout", on_stdout}, {"stderr", on_stderr},
             {"result", on_result},   {"missed", on_missed}, {"ended", on_ended}};

static void show_event(struct follow *f, const char *name, json_t *data)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (strcmp(kinds[i].name, name) == 0)
            kinds[i].show(f, data);
    }
}

static void print_event(struct follow *f, const char *name, json_t *data)
{
    scoped_strbuf struct strbuf line;
    scoped_json json_t *event = json_pack("{s:s, s:O}", "event", name, "data", data);
    strbuf_init(&line, SHOWN_MAX_BYTES);
    json_add(&line, event, JSON_STYLE_COMPACT);
    strbuf_add_char(&line, '\n');
    put(&f->screen, STDOUT_FILENO, strbuf_str(&line), line.len);
}

static bool on_event(void *ctx, const struct stream_event *e)
{
    struct follow *f = ctx;
    const struct json_limits limits = {.max_bytes = MAX(e->len, (size_t)1), .has_nul = true};
    struct error ignored; /* an event that makes no sense is one of a later version */
    scoped_json json_t *data = NULL;
    f->has_progress = true;
    if (e->id[0] != '\0') { /* a heartbeat has none, and may be the first of a stream */
        strbuf_clear(&f->last);
        strbuf_add_str(&f->last, e->id);
    }
    if (json_parse(&data, e->data, e->len, &limits, &ignored) < 0)
        return true;
    if (f->order->style == FOLLOW_SHOW)
        show_event(f, e->name, data);
    else if (f->order->style == FOLLOW_EVENTS)
        print_event(f, e->name, data);
    if (strcmp(e->name, "ended") == 0)
        f->document = json_incref(data);
    return !f->document && !f->screen.is_gone;
}

/* --- until its end -----------------------------------------------------------------------------
 */

int follow_open_signals(int *out, struct error *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    *out = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return *out < 0 ? error_sys(err, "watch for signals") : 0;
}

static void drop_signals(int fd)
{
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof(info)) > 0)
        continue;
}

/* False: a signal came meanwhile. */
static bool wait_ms(int signal_fd, int ms)
{
    struct pollfd wait = {.fd = signal_fd, .events = POLLIN};
    return poll(&wait, 1, ms) <= 0;
}

static int cancel(struct follow *f, struct error *err)
{
    scoped_json json_t *answer = NULL;
    scoped_free char *path = client_path("/executions/", f->order->execution, "/cancel");
    return client_ask(f->c, "POST", path, NULL, &answer, err);
}

/* One connection's worth of it. */
static enum link_end read_events(struct follow *f, struct error *err)
{
    scoped_free char *path = client_path("/executions/", f->order->execution, "/events");
    const struct link_request request = {
        .method = "GET", .path = path, .after_event = strbuf_str(&f->last)};
    f->has_progress = false;
    return link_stream(f->c->link, &request, on_event, f, f->order->signal_fd, err);
}

/* What to do after a connection has ended before the execution has. */
static enum follow_end go_on(struct follow *f, enum link_end end, unsigned *tries, bool *wants_out)
{
    *wants_out = end == LINK_WOKEN || f->screen.is_gone;
    if (f->has_progress || end == LINK_QUIET) /* it is there, and has nothing to say */
        *tries = 0;
    if (end == LINK_FAILED || (end == LINK_BROKEN && ++*tries == TRIES_MAX))
        return FOLLOW_FAILED;
    if (end == LINK_BROKEN)
        *wants_out = !wait_ms(f->order->signal_fd, FIRST_WAIT_MS << *tries);
    return FOLLOW_ENDED;
}

static enum follow_end follow_on(struct follow *f, struct error *err)
{
    bool is_cancelled = false, wants_out;
    unsigned tries = 0;
    while (true) {
        enum link_end end = read_events(f, err);
        if (f->document)
            return FOLLOW_ENDED;
        if (go_on(f, end, &tries, &wants_out) == FOLLOW_FAILED)
            return FOLLOW_FAILED;
        if (!wants_out)
            continue;
        drop_signals(f->order->signal_fd);
        if (is_cancelled || !f->order->may_cancel)
            return FOLLOW_LEFT;
        if (cancel(f, err) < 0)
            return FOLLOW_FAILED;
        if (f->screen.is_gone)
            return FOLLOW_LEFT;
        is_cancelled = true;
    }
}

enum follow_end follow_run(struct client *c, const struct follow_order *order, json_t **document,
                           struct error *err)
{
    struct follow f = {.c = c, .order = order};
    strbuf_init(&f.last, EVENT_ID_BYTES);
    enum follow_end end = follow_on(&f, err);
    strbuf_release(&f.last);
    if (end == FOLLOW_ENDED)
        *document = f.document;
    return end;
}
