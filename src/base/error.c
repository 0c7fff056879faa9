/* error.c - filling struct error; safe after fork and out of memory, since nothing is allocated */
/* SPDX-License-Identifier: Apache-2.0 */
#define ERROR_IMPLEMENTATION
#include "base/error.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct error_info infos[ERROR_CODE_COUNT] = {
#define X(code, http, rpc, exit_status, retry, name)                                               \
    [ERROR_##code] = {http, rpc, exit_status, retry, name},
    ERROR_CODES(X)
#undef X
};

const struct error_info *error_info(enum error_code code)
{
    BUG_ON((unsigned)code >= ERROR_CODE_COUNT);
    return &infos[code];
}

bool error_passes(const struct error *err)
{
    return err->code == ERROR_UNAVAILABLE || err->code == ERROR_NO_SPACE;
}

void bug_abort(const char *file, int line, const char *condition)
{
    fprintf(stderr, "cove: bug at %s:%d: %s\n", file, line, condition);
    abort();
}

int error_set(struct error *err, enum error_code code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    err->code = code;
    err->sys_errno = 0;
    err->hint[0] = '\0';
    err->retry_ms = 0;
    err->word = NULL;
    vsnprintf(err->msg, sizeof(err->msg), fmt, args);
    va_end(args);
    return -1;
}

/* Which code a failed system call means when nobody knows better. */
static enum error_code code_of_errno(int e)
{
    switch (e) {
    case ENOENT:
        return ERROR_NOT_FOUND;
    case EACCES:
    case EPERM:
        return ERROR_DENIED;
    case EMFILE:
    case ENFILE:
    case EAGAIN:
    case ENOMEM:
    case ENOSPC:
    case EDQUOT:
        return ERROR_UNAVAILABLE;
    default:
        return ERROR_INTERNAL;
    }
}

int error_sys(struct error *err, const char *fmt, ...)
{
    int saved = errno;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(err->msg, sizeof(err->msg), fmt, args);
    va_end(args);

    const char *text = strerror(saved); /* a constant for every known number, in glibc and musl */
    if (n >= 0 && (size_t)n + 3 < sizeof(err->msg)) {
        snprintf(err->msg + n, sizeof(err->msg) - (size_t)n, ": %s", text);
        err->msg[n + 2] = (char)tolower((unsigned char)err->msg[n + 2]);
    }
    err->code = code_of_errno(saved);
    err->sys_errno = saved;
    err->word = NULL;
    err->hint[0] = '\0';
    err->retry_ms = 0;
    errno = saved;
    return -1;
}

int error_wrap(struct error *err, const char *fmt, ...)
{
    char cause[sizeof(err->msg)];
    memcpy(cause, err->msg, sizeof(cause));

    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(err->msg, sizeof(err->msg), fmt, args);
    va_end(args);
    if (n >= 0 && (size_t)n + 3 < sizeof(err->msg))
        snprintf(err->msg + n, sizeof(err->msg) - (size_t)n, ": %.*s",
                 (int)(sizeof(err->msg) - (size_t)n - 3), cause);
    return -1;
}

int error_hint(struct error *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->hint, sizeof(err->hint), fmt, args);
    va_end(args);
    return -1;
}

int error_word(struct error *err, const char *word)
{
    err->word = word;
    return -1;
}
