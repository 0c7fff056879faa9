/* mcp_log.c - from a pipe to a file, and the file aside when it is full */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mcp_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "cli/folders.h"
#include "codec/json.h"

#define NAME         "mcp.log"
#define FILE_BYTES   (4 * MIB) /* of one file; there are two */
#define PIECE_BYTES  (64 * KIB)
#define TAIL_BYTES   (8 * KIB)
#define SYSTEM_PLACE "/var/log"

/* --- the file --------------------------------------------------------------------------------- */

/* NULL: this user has no place for it. */
static char *usual_folder(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && state[0] == '/')
        return xasprintf("%s/cove", state);
    if (geteuid() == 0)
        return xstrdup(SYSTEM_PLACE "/cove");
    return home && home[0] == '/' ? xasprintf("%s/.local/state/cove", home) : NULL;
}

/* Not to wait for the reader of a FIFO, nor for a terminal that was stopped. A FIFO without a
 * reader can be opened by one who might read it. */
static int open_file(const char *path)
{
    const int flags = O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    int fd = open(path, O_WRONLY | flags, 0600);
    return fd < 0 && errno == ENXIO ? open(path, O_RDWR | flags, 0600) : fd;
}

/* Whoever finds it full sets it aside, unless another one has: then the path names a new one. */
static void make_room(struct mcp_log *l)
{
    struct stat ours, named;
    scoped_free char *aside = xasprintf("%s.1", l->path);
    if (fstat(l->fd, &ours) < 0 || !S_ISREG(ours.st_mode) || (uint64_t)ours.st_size < FILE_BYTES)
        return;
    flock(l->fd, LOCK_EX);
    if (stat(l->path, &named) == 0 && named.st_ino == ours.st_ino && named.st_dev == ours.st_dev)
        (void)!rename(l->path, aside);
    int fd = open_file(l->path);
    if (fd < 0)
        return;
    close(l->fd); /* and with it the lock */
    l->fd = fd;
}

static void add_tail(struct mcp_log *l, const char *data, size_t len)
{
    if (l->tail.len + len > TAIL_BYTES)
        strbuf_clear(&l->tail);
    strbuf_add(&l->tail, data, MIN(len, (size_t)TAIL_BYTES));
}

/* What was lost before it is told first, on a line of its own. */
static void tell_loss(struct mcp_log *l)
{
    const struct log log = {.fd = l->fd, .loss = &l->loss};
    if (l->loss.untold > 0 && l->is_torn)
        l->is_torn = write(l->fd, "\n", 1) != 1;
    if (!l->is_torn)
        log_tell_loss(&log);
}

/* --- its life --------------------------------------------------------------------------------- */

int mcp_log_open(struct mcp_log *l, const char *path, int in_fd, struct error *err)
{
    struct error ignored;
    scoped_free char *folder = path ? NULL : usual_folder();
    *l = (struct mcp_log){.fd = -1, .in_fd = in_fd};
    strbuf_init(&l->tail, TAIL_BYTES);
    if (path)
        l->path = xstrdup(path);
    else if (folder && folders_make(folder, 0700, &ignored) == 0)
        l->path = xasprintf("%s/" NAME, folder);
    if (l->path)
        l->fd = open_file(l->path);
    if (path && l->fd < 0) {
        error_sys(err, "open log file '%s'", path);
        mcp_log_close(l);
        return -1;
    }
    return 0;
}

void mcp_log_close(struct mcp_log *l)
{
    if (l->fd >= 0)
        tell_loss(l);
    scoped_close_fd(&l->fd);
    scoped_close_fd(&l->in_fd);
    l->fd = l->in_fd = -1;
    strbuf_release(&l->tail);
    free(take_ptr(&l->path));
}

/* --- what comes ------------------------------------------------------------------------------- */

static uint64_t count_lines(const char *data, size_t len)
{
    uint64_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += data[i] == '\n';
    return count;
}

/* Once, without waiting: the disk may be full, and the conversation goes on. */
static void put(struct mcp_log *l, const char *data, size_t len)
{
    tell_loss(l);
    ssize_t n = l->loss.untold > 0 ? 0 : write(l->fd, data, len);
    size_t done = (size_t)MAX(n, 0);
    if (done == len)
        return;
    log_lose(&l->loss, count_lines(data + done, len - done));
    if (done > 0)
        l->is_torn = data[done - 1] != '\n';
}

void mcp_log_take(struct mcp_log *l)
{
    char data[PIECE_BYTES];
    ssize_t n = read(l->in_fd, data, sizeof(data));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        scoped_close_fd(&l->in_fd);
        l->in_fd = -1;
        return;
    }
    add_tail(l, data, (size_t)n);
    if (l->fd < 0)
        return;
    put(l, data, (size_t)n);
    make_room(l);
}

void mcp_log_drain(struct mcp_log *l)
{
    while (l->in_fd >= 0 && fd_set_nonblock(l->in_fd) == 0) {
        size_t before = l->tail.len;
        mcp_log_take(l);
        if (l->tail.len == before)
            return;
    }
}

/* --- words ------------------------------------------------------------------------------------ */

/* A line of the server's log is an object; others have printed plain words. */
static bool explain_line(const char *line, size_t len, struct error *err)
{
    struct error ignored;
    json_t *document = NULL;
    const struct json_limits limits = {.max_bytes = TAIL_BYTES};
    if (json_parse(&document, line, len, &limits, &ignored) < 0)
        return error_set(err, ERROR_UNAVAILABLE, "%.*s", (int)len, line) < 0;
    scoped_json json_t *owned = document;
    const char *text = json_string_value(json_object_get(owned, "error"));
    const char *hint = json_string_value(json_object_get(owned, "hint"));
    if (!text)
        return false;
    error_set(err, ERROR_UNAVAILABLE, "%s", text);
    if (hint)
        error_hint(err, "%s", hint);
    return true;
}

void mcp_log_explain(const struct mcp_log *l, struct error *err)
{
    const char *text = strbuf_str(&l->tail);
    size_t len = l->tail.len;
    error_set(err, ERROR_UNAVAILABLE, "the server ended, and said nothing");
    while (len > 0) {
        size_t end = len - (text[len - 1] == '\n');
        const char *before = memrchr(text, '\n', end);
        size_t begin = before ? (size_t)(before - text) + 1 : 0;
        if (end > begin && explain_line(text + begin, end - begin, err))
            return;
        len = begin;
    }
}
