/* client_top.c - `cove top`: a server's sessions and load, drawn anew each second
 *
 * A picture is one write, between marks that terminals take as "show it at once", and every line
 * clears only what is left of the one before: nothing flickers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "cli/client/client.h"
#include "cli/client/sessions.h"
#include "cli/term_text.h"
#include "cli/tty.h"

#define FRAME_MAX_BYTES (16 * MIB)
#define SESSIONS_MAX    "1000" /* as many as one page has */
#define KEYS_MAX_BYTES  64
#define HEAD_LINES      4 /* load, states, an empty one, the table's heads */
#define LEAVE           (-2)

/* Another screen without a cursor, where lines are not wrapped; and back. */
#define SCREEN_ON   "\033[?1049h\033[?25l\033[?7l"
#define SCREEN_OFF  "\033[?7h\033[?25h\033[?1049l"
#define FRAME_BEGIN "\033[?2026h\033[H"
#define FRAME_END   "\033[J\033[?2026l"
#define LINE_END    "\033[K\r\n"

struct top {
    struct client *c;
    uint64_t interval_ms;
    json_t *health, *sessions; /* as they were last seen */
    struct error problem;      /* of the last look */
    bool has_problem;
    struct tty *tty; /* NULL: one snapshot */
    int signal_fd;
    size_t first; /* row that is shown first */
};

/* --- what there is ------------------------------------------------------------------------------
 */

static int look(struct top *t, struct error *err)
{
    scoped_json json_t *health = NULL, *sessions = NULL;
    if (client_ask(t->c, "GET", "/health", NULL, &health, err) < 0 ||
        client_ask(t->c, "GET", "/sessions?live=true&limit=" SESSIONS_MAX, NULL, &sessions, err) <
            0)
        return -1;
    json_decref(t->health);
    json_decref(t->sessions);
    t->health = take_ptr(&health);
    t->sessions = take_ptr(&sessions);
    return 0;
}

/* --- how it looks -------------------------------------------------------------------------------
 */

struct picture {
    struct strbuf *out;
    unsigned width; /* 0: lines as long as they are */
    bool has_colour;
    const char *line_end;
};

static void add_line(const struct picture *p, const struct strbuf *line, enum term_style style)
{
    strbuf_add_str(p->out, style ? term_style(p->has_colour, style) : "");
    if (p->width > 0)
        term_text_add_cut(p->out, strbuf_str(line), line->len, p->width);
    else
        term_text_add(p->out, strbuf_str(line), line->len, false);
    strbuf_add_str(p->out, style ? term_style(p->has_colour, TERM_PLAIN) : "");
    strbuf_add_str(p->out, p->line_end);
}

static void add_count(struct strbuf *line, const json_t *object, const char *key, const char *word)
{
    const json_t *value = json_object_get(object, key);
    if (json_is_number(value))
        strbuf_add_fmt(line, "   %s %.0f", word, json_number_value(value));
}

static void add_load(const struct top *t, const struct picture *p)
{
    char uptime[DOC_TEXT_BYTES];
    const json_t *load = json_object_get(t->health, "load");
    const char *status = doc_text(t->health, "status", "?"),
               *tier = doc_text(t->health, "tier", NULL);
    scoped_strbuf struct strbuf line;
    strbuf_init(&line, FRAME_MAX_BYTES);
    doc_format_span(1, 1 + (int64_t)(doc_number(t->health, "uptime_seconds", 0) * 1e9), uptime);
    strbuf_add_fmt(&line, "cove at %s: %s, up %s", link_address(t->c->link), status, uptime);
    if (tier)
        strbuf_add_fmt(&line, ", tier %s", tier);
    add_count(&line, load, "running", "running");
    add_count(&line, load, "queued", "queued");
    add_line(p, &line, TERM_BOLD);
}

/* "12 of 480 sessions: 3 busy, 9 ready" */
static void add_states(const struct top *t, const struct picture *p)
{
    static const char *const states[] = {"creating", "busy", "ready", "failed", "terminating"};
    const json_t *list = json_object_get(t->sessions, "sessions");
    size_t counts[ARRAY_LEN(states)] = {0}, count = json_array_size(list);
    const char *between = ": ";
    scoped_strbuf struct strbuf line;
    strbuf_init(&line, FRAME_MAX_BYTES);
    for (size_t i = 0; i < count; i++) {
        const char *state = doc_text(json_array_get(list, i), "state", "");
        for (size_t s = 0; s < ARRAY_LEN(states); s++)
            counts[s] += strcmp(states[s], state) == 0;
    }
    double most = doc_number(json_object_get(t->health, "capacity"), "max_sessions", 0);
    strbuf_add_fmt(&line, "%zu%s", count, doc_has(t->sessions, "next_cursor") ? "+" : "");
    if (most > 0)
        strbuf_add_fmt(&line, " of %.0f", most);
    strbuf_add_str(&line, count == 1 && most <= 0 ? " session" : " sessions");
    for (size_t s = 0; s < ARRAY_LEN(states); s++) {
        if (counts[s] == 0)
            continue;
        strbuf_add_fmt(&line, "%s%zu %s", between, counts[s], states[s]);
        between = ", ";
    }
    add_line(p, &line, TERM_PLAIN);
}

static void add_problem(const struct top *t, const struct picture *p)
{
    scoped_strbuf struct strbuf line;
    strbuf_init(&line, FRAME_MAX_BYTES);
    strbuf_add_str(&line, t->has_problem ? t->problem.msg : "");
    add_line(p, &line, TERM_RED);
}

/* `rows` 0: all of them. */
static void add_picture(struct top *t, const struct picture *p, size_t rows)
{
    scoped_table struct table *table = sessions_table(json_object_get(t->sessions, "sessions"));
    size_t count = table_rows(table);
    size_t shown = rows == 0 ? count : MIN(count, rows > HEAD_LINES ? rows - HEAD_LINES : 0);
    t->first = MIN(t->first, count - shown);
    add_load(t, p);
    add_states(t, p);
    add_problem(t, p);
    const struct table_view view = {.first = t->first,
                                    .count = shown,
                                    .width = p->width,
                                    .has_colour = p->has_colour,
                                    .line_end = p->line_end};
    table_write(table, &view, p->out);
}

static int draw(struct top *t, struct error *err)
{
    unsigned columns, rows;
    scoped_strbuf struct strbuf frame;
    strbuf_init(&frame, FRAME_MAX_BYTES);
    tty_size(t->tty, &columns, &rows);
    const struct picture picture = {.out = &frame,
                                    .width = columns,
                                    .has_colour = term_has_colour(tty_out(t->tty)),
                                    .line_end = LINE_END};
    strbuf_add_str(&frame, FRAME_BEGIN);
    add_picture(t, &picture, rows);
    size_t end = strlen(LINE_END); /* the last line of a full screen must not move it up */
    if (frame.len >= end && memcmp(frame.data + frame.len - end, LINE_END, end) == 0)
        frame.len -= strlen("\r\n");
    strbuf_add_str(&frame, FRAME_END);
    return fd_write_all(tty_out(t->tty), strbuf_str(&frame), frame.len, err);
}

/* --- keys and signals ---------------------------------------------------------------------------
 */

static const struct {
    const char *text;
    long moves; /* rows; 0: leaves */
} keys[] = {{"q", 0},        {"Q", 0},       {"\003", 0},         {"\033[A", -1}, {"\033[B", 1},
            {"k", -1},       {"j", 1},       {"\033OA", -1},      {"\033OB", 1},  {"\033[5~", -10},
            {"\033[6~", 10}, {"g", -100000}, {"\033[H", -100000}, {"G", 100000}};

/* False: leave. */
static bool read_keys(struct top *t)
{
    char text[KEYS_MAX_BYTES];
    ssize_t n = read(tty_in(t->tty), text, sizeof(text));
    if (n <= 0)
        return false;
    for (size_t at = 0; at < (size_t)n;) {
        size_t step = 1;
        for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
            size_t len = strlen(keys[i].text);
            if (len > (size_t)n - at || memcmp(text + at, keys[i].text, len) != 0)
                continue;
            if (keys[i].moves == 0)
                return false;
            long first = (long)t->first + keys[i].moves;
            t->first = first < 0 ? 0 : (size_t)first;
            step = len;
        }
        at += step;
    }
    return true;
}

static bool read_signals(struct top *t)
{
    struct signalfd_siginfo info;
    while (read(t->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo != SIGWINCH)
            return false;
    }
    return true;
}

static int open_signals(struct top *t, struct error *err)
{
    static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(watched); i++)
        sigaddset(&set, watched[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGTSTP, SIG_IGN); /* a stopped view would leave its screen to the shell */
    t->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return t->signal_fd < 0 ? error_sys(err, "watch for signals") : 0;
}

/* --- the view -----------------------------------------------------------------------------------
 */

/* Until it is time to look again; what is typed is seen at once. LEAVE: that was asked for. */
static int wait_for_next(struct top *t, int64_t until_ns, struct error *err)
{
    struct pollfd fds[] = {{.fd = tty_in(t->tty), .events = POLLIN},
                           {.fd = t->signal_fd, .events = POLLIN}};
    while (true) {
        int64_t left_ms = (until_ns - clock_now_ns()) / 1000000;
        if (left_ms <= 0)
            return 0;
        if (poll(fds, ARRAY_LEN(fds), (int)left_ms) <= 0)
            continue;
        if ((fds[0].revents && !read_keys(t)) || (fds[1].revents && !read_signals(t)))
            return LEAVE;
        if (draw(t, err) < 0)
            return -1;
    }
}

static int watch(struct top *t, struct error *err)
{
    int status = 0;
    while (status == 0) {
        int64_t next = clock_now_ns() + (int64_t)t->interval_ms * 1000000;
        status = draw(t, err);
        if (status == 0)
            status = wait_for_next(t, next, err);
        if (status == 0)
            t->has_problem = look(t, &t->problem) < 0; /* it may come back */
    }
    return status == LEAVE ? 0 : status;
}

static int show_live(struct top *t, struct error *err)
{
    if (open_signals(t, err) < 0 || tty_open(&t->tty, err) < 0)
        return -1;
    tty_enter(t->tty, TTY_RUNNING);
    int status = fd_write_all(tty_out(t->tty), SCREEN_ON, strlen(SCREEN_ON), err);
    if (status == 0)
        status = watch(t, err);
    struct error ignored;
    (void)!fd_write_all(tty_out(t->tty), SCREEN_OFF, strlen(SCREEN_OFF), &ignored);
    tty_free(t->tty);
    return status;
}

static int show_once(struct top *t, struct error *err)
{
    scoped_strbuf struct strbuf out;
    strbuf_init(&out, FRAME_MAX_BYTES);
    const struct picture picture = {.out = &out, .line_end = "\n"};
    add_picture(t, &picture, 0);
    return client_print(&out, err);
}

static int show_json(struct top *t, struct error *err)
{
    scoped_json json_t *both = json_pack("{s:O, s:O}", "health", t->health, "sessions",
                                         json_object_get(t->sessions, "sessions"));
    return client_print_json(both, err);
}

int client_top(struct client *c, void *options, int argc, char **argv, struct error *err)
{
    const struct top_options *o = options;
    struct top t = {.c = c, .interval_ms = o->interval_ms, .signal_fd = -1};
    (void)argc, (void)argv;
    bool is_live = term_is_terminal(STDOUT_FILENO) && term_is_terminal(STDIN_FILENO);
    int status = look(&t, err);
    if (status == 0)
        status = c->cli->config.json ? show_json(&t, err)
                 : is_live           ? show_live(&t, err)
                                     : show_once(&t, err);
    json_decref(t.health);
    json_decref(t.sessions);
    scoped_close_fd(&t.signal_fd);
    return status;
}
