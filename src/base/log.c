/* log.c - builds the whole line in memory, writes it once, and counts what finds no room */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "base/utf8.h"

_Static_assert(LOG_LINE_MAX_BYTES <= PIPE_BUF, "a pipe takes a line whole or not at all");

#define LINE_TAIL    ",\"cut\":true}\n"
#define LINE_USUAL   400
#define TELL_NS      1000000000ll
#define ESCAPE_BYTES 6 /* the longest of one character */

const char *const log_level_names[LOG_LEVEL_COUNT + 1] = {
    [LOG_LEVEL_DEBUG] = "debug",
    [LOG_LEVEL_INFO] = "info",
    [LOG_LEVEL_WARN] = "warn",
    [LOG_LEVEL_ERROR] = "error",
};

int log_open(struct log *log, const char *path, enum log_level level, struct error *err)
{
    int fd = STDERR_FILENO;
    if (path) {
        fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
        if (fd < 0)
            return error_sys(err, "open log file '%s'", path);
    }
    *log = (struct log){.fd = fd, .owns_fd = path != NULL, .level = level};
    return 0;
}

void log_close(struct log *log)
{
    if (log->owns_fd)
        close(log->fd);
    *log = (struct log){.fd = -1};
}

/* DEL and the C1 controls can drive a terminal as well as the C0 ones; U+2028 splits lines. */
static bool needs_escape(const unsigned char *p, size_t n)
{
    if (n == 1)
        return *p < 0x20 || *p == 0x7f || *p == '"' || *p == '\\';
    return (n == 2 && p[0] == 0xc2 && p[1] < 0xa0) ||
           (n == 3 && p[0] == 0xe2 && p[1] == 0x80 && (p[2] == 0xa8 || p[2] == 0xa9));
}

static unsigned code_point(const unsigned char *p, size_t n)
{
    if (n == 1)
        return p[0];
    if (n == 2)
        return (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
    return (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
}

/* Most of what is logged: as it stands. */
static size_t plain_length(const unsigned char *p, size_t len)
{
    size_t n = 0;
    while (n < len && p[n] < 0x80 && !needs_escape(p + n, 1))
        n++;
    return n;
}

static void add_escaped(struct strbuf *line, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t len = strnlen(text, LOG_VALUE_MAX_BYTES);
    strbuf_add_char(line, '"');
    size_t end = line->len + LOG_VALUE_MAX_BYTES;
    while (len > 0 && line->len + ESCAPE_BYTES <= end) {
        size_t n = plain_length(p, MIN(len, end - line->len));
        strbuf_add(line, p, n);
        p += n;
        len -= n;
        if (len == 0 || line->len + ESCAPE_BYTES > end)
            break;
        n = utf8_step(p, len);
        if (n == 0) {
            strbuf_add_str(line, "\\ufffd");
            n = 1;
        } else if (needs_escape(p, n)) {
            strbuf_add_fmt(line, "\\u%04x", code_point(p, n));
        } else {
            strbuf_add(line, p, n);
        }
        p += n;
        len -= n;
    }
    strbuf_add_char(line, '"');
}

/* As "%.3f", for times: without the long way by which any double is printed. */
static void add_milli(struct strbuf *line, double ms)
{
    if (!(ms >= 0 && ms < 1e12)) {
        strbuf_add_fmt(line, "%.3f", ms);
        return;
    }
    uint64_t us = (uint64_t)(ms * 1000 + 0.5);
    strbuf_add_fmt(line, "%" PRIu64 ".%03u", us / 1000, (unsigned)(us % 1000));
}

static void add_field(struct strbuf *line, const struct log_field *field)
{
    strbuf_add(line, ",\"", 2);
    strbuf_add_str(line, field->key);
    strbuf_add(line, "\":", 2);
    switch (field->type) {
    case LOG_FIELD_END:
        break;
    case LOG_FIELD_STR:
        if (field->str)
            add_escaped(line, field->str);
        else
            strbuf_add_str(line, "null");
        break;
    case LOG_FIELD_INT:
        strbuf_add_fmt(line, "%" PRId64, field->i64);
        break;
    case LOG_FIELD_U64:
        strbuf_add_fmt(line, "%" PRIu64, field->u64);
        break;
    case LOG_FIELD_MS:
        add_milli(line, field->ms);
        break;
    case LOG_FIELD_BOOL:
        strbuf_add_str(line, field->boolean ? "true" : "false");
        break;
    }
}

/* Adds fields while they fit whole; a half field would break the line's JSON. */
static void add_fields(struct strbuf *line, const struct log_field *fields)
{
    for (; fields->type != LOG_FIELD_END; fields++) {
        size_t before = line->len;
        add_field(line, fields);
        if (line->overflow) {
            line->len = before;
            line->overflow = false;
            line->max = LOG_LINE_MAX_BYTES;
            strbuf_add_str(line, LINE_TAIL);
            return;
        }
    }
    line->max = LOG_LINE_MAX_BYTES;
    strbuf_add_str(line, "}\n");
}

static void add_line(struct strbuf *line, const struct log *log, enum log_level level,
                     const char *message, const struct log_field *fields)
{
    char time[CLOCK_TEXT_BYTES];
    clock_format(clock_wall_ns(), time);
    strbuf_init(line, LOG_LINE_MAX_BYTES - sizeof(LINE_TAIL));
    strbuf_reserve(line, LINE_USUAL);
    strbuf_add_fmt(line, "{\"time\":\"%s\",\"level\":\"%s\",\"message\":", time,
                   log_level_names[level]);
    add_escaped(line, message);
    if (log->request_id) {
        strbuf_add_str(line, ",\"request\":");
        add_escaped(line, log->request_id);
    }
    add_fields(line, fields);
}

static bool put(const struct log *log, const char *data, size_t len)
{
    ssize_t n;
    do
        n = write(log->fd, data, len);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)len;
}

/* A reader who is too slow gets lines that fit, and not as many that tell of those that did not. */
static void put_or_count(const struct log *log, const char *data, size_t len)
{
    struct log_loss *loss = log->loss;
    if (loss && loss->untold > 0 && clock_now_ns() - loss->told_ns >= TELL_NS)
        log_tell_loss(log);
    if (!put(log, data, len) && loss)
        log_lose(loss, 1);
}

void log_lose(struct log_loss *loss, uint64_t lines)
{
    if (loss->untold == 0)
        loss->since_ns = clock_wall_ns();
    loss->untold += lines;
    loss->total += lines;
}

void log_tell_loss(const struct log *log)
{
    char since[CLOCK_TEXT_BYTES];
    if (!log->loss || log->loss->untold == 0)
        return;
    int saved = errno;
    const struct log own = {.fd = log->fd};
    clock_format(log->loss->since_ns, since);
    const struct log_field fields[] = {
        LOG_U64("lines", log->loss->untold), LOG_STR("since", since), {0}};
    scoped_strbuf struct strbuf line;
    add_line(&line, &own, LOG_LEVEL_WARN, "lines of the log were dropped", fields);
    if (put(log, line.data, line.len)) {
        log->loss->untold = 0;
        log->loss->told_ns = clock_now_ns();
    }
    errno = saved;
}

void log_write(const struct log *log, enum log_level level, const char *message,
               const struct log_field *fields)
{
    if (!log || level < log->level)
        return;
    int saved = errno;
    scoped_strbuf struct strbuf line;
    add_line(&line, log, level, message, fields);
    put_or_count(log, line.data, line.len);
    errno = saved;
}

void log_words(const struct log *log, const char *fmt, ...)
{
    int saved = errno;
    char line[LOG_LINE_MAX_BYTES];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof(line) - 1, fmt, args);
    va_end(args);
    size_t len = n < 0 ? 0 : MIN((size_t)n, sizeof(line) - 2);
    line[len++] = '\n';
    put_or_count(log, line, len);
    errno = saved;
}
