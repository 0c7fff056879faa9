/* upload.c - headers and contents, a buffer at a time */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/upload.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "core/execution.h"
#include "runtime/file_stream.h"
#include "runtime/guest.h"

#define UPLOAD_BYTES (64 * KIB)

struct upload {
    struct loop_watch *watch;
    int sink_fd;
    const struct execution_input *inputs;
    size_t count;
    size_t next;        /* the input whose header comes next */
    uint64_t left;      /* content of the one before it that is still to be read */
    bool has_end;       /* the end mark is in the buffer */
    struct strbuf data; /* what goes out now */
    size_t at;
};

static void stop(struct upload *u)
{
    loop_watch_free(u->watch);
    u->watch = NULL;
    scoped_close_fd(&u->sink_fd);
    u->sink_fd = -1;
}

/* A file that became shorter meanwhile is filled up with zeros: its size was told already. */
static void add_content(struct upload *u)
{
    static char buffer[UPLOAD_BYTES];
    size_t want = (size_t)MIN(u->left, sizeof(buffer));
    ssize_t n = fd_read_full(u->inputs[u->next - 1].fd, buffer, want);
    if (n < (ssize_t)want)
        memset(buffer + MAX(n, 0), 0, want - (size_t)MAX(n, 0));
    strbuf_add(&u->data, buffer, want);
    u->left -= want;
}

/* False when everything was sent. */
static bool refill(struct upload *u)
{
    strbuf_clear(&u->data);
    u->at = 0;
    if (u->left > 0) {
        add_content(u);
    } else if (u->next < u->count) {
        const struct execution_input *in = &u->inputs[u->next++];
        const struct guest_file f = {.mode = in->mode, .size = in->size, .mtime_ns = in->mtime_ns};
        file_stream_add_entry(&u->data, &f, in->path);
        u->left = in->size;
    } else if (!u->has_end) {
        file_stream_add_end(&u->data);
        u->has_end = true;
    }
    return u->data.len > 0;
}

static void on_writable(void *ctx, unsigned events)
{
    (void)events;
    struct upload *u = ctx;
    for (;;) {
        if (u->at == u->data.len && !refill(u)) {
            stop(u);
            return;
        }
        ssize_t n = write(u->sink_fd, u->data.data + u->at, u->data.len - u->at);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0) { /* the worker is gone, and says why */
            stop(u);
            return;
        }
        u->at += (size_t)n;
    }
}

int upload_new(struct upload **out, struct loop *loop, const struct execution_input *inputs,
               size_t count, int sink_fd, struct error *err)
{
    struct upload *u = xcalloc(1, sizeof(*u));
    *u = (struct upload){.inputs = inputs, .count = count, .sink_fd = sink_fd};
    strbuf_init(&u->data, UPLOAD_BYTES + GUEST_PATH_MAX + sizeof(struct guest_file));
    if (loop_watch_new(&u->watch, loop, sink_fd, LOOP_WRITE, on_writable, u, err) < 0) {
        upload_free(u);
        return -1;
    }
    *out = u;
    return 0;
}

int upload_begin(struct upload **out, struct loop *loop, struct guest *guest,
                 const struct execution_input *inputs, size_t count, struct error *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return error_sys(err, "make pipe");
    scoped_fd int theirs = fds[0];
    scoped_fd int ours = fds[1];
    if (guest_files(guest, GUEST_FILES_PUT, theirs, theirs, 0, err) < 0)
        return -1;
    return upload_new(out, loop, inputs, count, take_fd(&ours), err);
}

int upload_explain(int error, const char *hint, struct error *err)
{
    errno = error;
    error_sys(err, "put the files into the workspace");
    return error == ENOSPC ? error_hint(err, "%s", hint) : -1;
}

void upload_free(struct upload *u)
{
    if (!u)
        return;
    stop(u);
    strbuf_release(&u->data);
    free(u);
}

int upload_pack(int *out, const struct execution_input *inputs, size_t count, struct error *err)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += MIN(inputs[i].size, UPLOAD_BYTES) + GUEST_PATH_MAX;
    if (sum > UPLOAD_BYTES) {
        *out = -1;
        return 0;
    }
    struct upload u = {.inputs = inputs, .count = count};
    scoped_strbuf struct strbuf all;
    strbuf_init(&all, 2 * UPLOAD_BYTES);
    strbuf_init(&u.data, UPLOAD_BYTES + GUEST_PATH_MAX + sizeof(struct guest_file));
    while (refill(&u))
        strbuf_add(&all, u.data.data, u.data.len);
    strbuf_release(&u.data);
    return fd_make_file(out, "files", all.data, all.len, err);
}
