/* log.h - JSON lines: {"time":...,"level":"info","message":...,"request":...,fields}
 *
 * One write() per line, and no line larger than what a pipe takes whole or not at all: lines of
 * several processes never mix, and where a descriptor does not block (the log of a server: see
 * spawner/log_writer.h) a line that finds no room is dropped, counted, and told of afterwards.
 * Control bytes and invalid UTF-8 are escaped. What is secret is the caller's to keep out: never
 * pass it as a field. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define LOG_LINE_MAX_BYTES  (4 * KIB) /* PIPE_BUF; a longer line loses fields, and says so */
#define LOG_VALUE_MAX_BYTES KIB       /* as it is written, escapes included; a longer one is cut */

enum log_level {
    LOG_LEVEL_DEBUG,
    LOG_LEVEL_INFO,
    LOG_LEVEL_WARN,
    LOG_LEVEL_ERROR,
    LOG_LEVEL_COUNT,
};

/* Words for the levels, NULL-terminated: the choices of an option. */
extern const char *const log_level_names[LOG_LEVEL_COUNT + 1];

/* Lines that could not be written; of one thread. */
struct log_loss {
    uint64_t total;   /* so far */
    uint64_t untold;  /* of them, since a line has last said how many */
    int64_t since_ns; /* when the first of these was dropped, wall clock */
    int64_t told_ns;  /* when that line was written, monotonic */
};

struct log {
    int fd; /* borrowed unless log_open() made it */
    bool owns_fd;
    enum log_level level;   /* what is below it is left out */
    const char *request_id; /* borrowed; NULL: none */
    struct log_loss *loss;  /* borrowed, shared by all copies of this; NULL: nobody counts */
};

enum log_field_type {
    LOG_FIELD_END,
    LOG_FIELD_STR,
    LOG_FIELD_INT,
    LOG_FIELD_U64,
    LOG_FIELD_BOOL,
    LOG_FIELD_MS
};

struct log_field {
    const char *key; /* written by us, so not escaped */
    enum log_field_type type;
    union {
        const char *str; /* borrowed; NULL is null */
        int64_t i64;
        uint64_t u64;
        bool boolean;
        double ms; /* written with three digits behind the point */
    };
};

/* The macros make the type of a field visible to the compiler, unlike a format string. */
#define LOG_STR(k, v)  ((struct log_field){.key = (k), .type = LOG_FIELD_STR, .str = (v)})
#define LOG_INT(k, v)  ((struct log_field){.key = (k), .type = LOG_FIELD_INT, .i64 = (v)})
#define LOG_U64(k, v)  ((struct log_field){.key = (k), .type = LOG_FIELD_U64, .u64 = (v)})
#define LOG_MS(k, v)   ((struct log_field){.key = (k), .type = LOG_FIELD_MS, .ms = (v)})
#define LOG_BOOL(k, v) ((struct log_field){.key = (k), .type = LOG_FIELD_BOOL, .boolean = (v)})

/* log_info(log, "session ready", LOG_STR("session", id), LOG_INT("pid", pid)); */
#define log_debug(log, ...) LOG_AT(log, LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_info(log, ...)  LOG_AT(log, LOG_LEVEL_INFO, __VA_ARGS__)
#define log_warn(log, ...)  LOG_AT(log, LOG_LEVEL_WARN, __VA_ARGS__)
#define log_error(log, ...) LOG_AT(log, LOG_LEVEL_ERROR, __VA_ARGS__)
/* The field before the first is there for cppcheck, which knows no __VA_OPT__. */
#define LOG_AT(log, at, message, ...)                                                              \
    log_write(log, at, message, &((const struct log_field[]){{0}, ##__VA_ARGS__, {0}})[1])

/* Appends to the file `path`, made with mode 0600; NULL is stderr. Ended by log_close(). */
MUST_CHECK int log_open(struct log *log, const char *path, enum log_level level, struct error *err);
void log_close(struct log *log);

/* Logging never fails its caller: a line that cannot be written is dropped. Keeps errno. `fields`
 * ends with a zeroed one. A NULL log drops everything. */
void log_write(const struct log *log, enum log_level level, const char *message,
               const struct log_field *fields);

/* A line of plain words for whoever reads the log of cove-spawner, which has no parser of JSON
 * beside it. Allocates nothing that could fail, and is cut at LOG_LINE_MAX_BYTES. */
void log_words(const struct log *log, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Counts lines that somebody else could not write. */
void log_lose(struct log_loss *loss, uint64_t lines);

/* Writes how many lines were dropped, unless that was told already. The next line does the same,
 * once a second at most; to be called now and then for the time in which there is none, and at the
 * end. */
void log_tell_loss(const struct log *log);
