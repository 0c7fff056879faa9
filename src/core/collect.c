/* collect.c - two questions to cove-init: what is there, and what is in it
 *
 * The first is asked twice where the workspace is large: a glance of pid 1's own costs no fork. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/collect.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "codec/sha256.h"
#include "core/feed.h"
#include "runtime/file_stream.h"

#define READ_BYTES (64 * KIB)
#define WISH_BYTES (sizeof(struct guest_file) + GUEST_PATH_MAX)

struct collect {
    struct loop *loop;
    struct collect_order order;
    bool is_glancing;
    bool is_getting; /* the second question */
    bool is_worker_done;
    struct feed *wishes; /* the names that we want, on their way in */
    struct loop_watch *watch;
    int fd; /* the worker's answer */
    struct file_stream_reader reader;
    struct sha256 *hash;
    size_t current;  /* artifact whose bytes come */
    bool is_missing; /* none come: it could not be read */
};

static void close_question(struct collect *c)
{
    loop_watch_free(c->watch);
    c->watch = NULL;
    scoped_close_fd(&c->fd);
    c->fd = -1;
    feed_free(c->wishes);
    c->wishes = NULL;
}

static void go_on(struct collect *c);

static void on_readable(void *ctx, unsigned events)
{
    (void)events;
    static char buffer[READ_BYTES]; /* the loop has one thread */
    struct collect *c = ctx;
    struct error err;
    ssize_t n = read(c->fd, buffer, sizeof(buffer));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0 && file_stream_reader_feed(&c->reader, buffer, (size_t)n, &err) == 0)
        return;
    if (n != 0)
        c->order.artifacts->is_cut = true; /* a stream that lies tells us nothing more */
    loop_watch_free(c->watch);
    c->watch = NULL;
    go_on(c);
}

/* Starts the worker, with a pipe to read its answer from. `in_fd` (-1: none) is borrowed. */
static int ask(struct collect *c, enum guest_files_op op, int in_fd,
               const struct file_stream_events *events, bool has_content, struct error *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return error_sys(err, "make pipe");
    c->fd = fds[0];
    scoped_fd int theirs = fds[1];
    c->is_worker_done = false;
    file_stream_reader_init(&c->reader, events, c, has_content);
    if (guest_files(c->order.guest, op, in_fd >= 0 ? in_fd : theirs, theirs, c->order.since_ns,
                    err) < 0)
        return -1;
    return loop_watch_new(&c->watch, c->loop, c->fd, LOOP_READ, on_readable, c, err);
}

/* --- what is there --------------------------------------------------------------------------- */

/* An input that still has the size and time it came with is no artifact. */
static bool is_unchanged_input(const struct collect_order *o, const struct guest_file *f,
                               const char *path)
{
    for (size_t i = 0; i < o->input_count; i++) {
        const struct execution_input *in = &o->inputs[i];
        if (strcmp(in->path, path) == 0)
            return in->size == f->size && in->mtime_ns == f->mtime_ns;
    }
    return false;
}

static int on_listed(void *ctx, const struct guest_file *f, const char *path, struct error *err)
{
    (void)err;
    struct collect *c = ctx;
    struct artifact_list *list = c->order.artifacts;
    if (c->order.newest_ns)
        *c->order.newest_ns = MAX(*c->order.newest_ns, f->ctime_ns);
    if (!S_ISREG(f->mode) || is_unchanged_input(&c->order, f, path))
        return 0;
    if (list->count == ARTIFACTS_MAX) {
        list->is_cut = true;
        return 0;
    }
    struct artifact *a = artifact_list_add(list);
    a->path = xstrdup(path);
    a->size = f->size;
    a->mode = f->mode;
    a->mtime_ns = f->mtime_ns;
    return 0;
}

static const struct file_stream_events list_events = {.entry = on_listed};

/* The answer of a glance comes in a memory file. */
static int begin_glance(struct collect *c, struct error *err)
{
    c->fd = memfd_create("listing", MFD_CLOEXEC);
    if (c->fd < 0)
        return error_sys(err, "make memory file");
    c->is_glancing = true;
    return guest_files(c->order.guest, GUEST_FILES_LIST_NOW, c->fd, c->fd, c->order.since_ns, err);
}

static void read_glance(struct collect *c)
{
    static char buffer[READ_BYTES];
    struct error err;
    off_t at = 0;
    ssize_t n;
    file_stream_reader_init(&c->reader, &list_events, c, false);
    while ((n = pread(c->fd, buffer, sizeof(buffer), at)) > 0) {
        at += n;
        if (file_stream_reader_feed(&c->reader, buffer, (size_t)n, &err) < 0)
            return;
    }
}

/* --- what is in it --------------------------------------------------------------------------- */

static void skip_left(struct collect *c)
{
    const struct artifact_list *list = c->order.artifacts;
    while (c->current < list->count && list->items[c->current].is_left)
        c->current++;
}

/* The worker answers in the order in which it was asked; it may change sizes, but no names. */
static int on_got(void *ctx, const struct guest_file *f, const char *path, struct error *err)
{
    struct collect *c = ctx;
    struct artifact_list *list = c->order.artifacts;
    skip_left(c);
    if (c->current >= list->count || strcmp(list->items[c->current].path, path) != 0)
        return error_set(err, ERROR_INVALID, "the sandbox sent a file that nobody asked for");
    struct artifact *a = &list->items[c->current];
    c->is_missing = f->flags & GUEST_FILE_MISSING;
    if (c->is_missing) {
        list->is_cut = true;
        return 0;
    }
    if (f->size > c->order.max_file_bytes)
        return error_set(err, ERROR_INVALID, "the sandbox sent more than it was asked for");
    a->size = f->size;
    a->mtime_ns = f->mtime_ns;
    if (c->order.events->artifact_begin)
        c->order.events->artifact_begin(c->order.events_ctx, a);
    return 0;
}

static int on_content(void *ctx, const void *data, size_t len, struct error *err)
{
    (void)err;
    struct collect *c = ctx;
    sha256_add(c->hash, data, len);
    if (c->order.events->artifact_data)
        c->order.events->artifact_data(c->order.events_ctx, data, len);
    return 0;
}

static int on_content_done(void *ctx, struct error *err)
{
    (void)err;
    struct collect *c = ctx;
    struct artifact *a = &c->order.artifacts->items[c->current++];
    a->has_content = !c->is_missing; /* only now: the stream may have broken off */
    if (a->has_content) {
        sha256_end(c->hash, a->sha256);
        if (c->order.events->artifact_end)
            c->order.events->artifact_end(c->order.events_ctx, a);
    }
    return 0;
}

static const struct file_stream_events get_events = {
    .entry = on_got, .content = on_content, .done = on_content_done};

/* A memory file with the names that we want, to be fed to the worker. */
static int make_wishes(int *out, const struct collect_order *o, struct error *err)
{
    /* One that grew since it was listed is not what was decided about. */
    uint64_t most = o->now_bytes > 0 ? MIN(o->now_bytes, o->max_file_bytes) : o->max_file_bytes;
    const struct guest_file wish = {.size = most};
    scoped_strbuf struct strbuf list;
    strbuf_init(&list, (o->artifacts->count + 1) * WISH_BYTES);
    for (size_t i = 0; i < o->artifacts->count; i++) {
        if (!o->artifacts->items[i].is_left)
            file_stream_add_entry(&list, &wish, o->artifacts->items[i].path);
    }
    file_stream_add_end(&list);
    return fd_make_file(out, "wishes", list.data, list.len, err);
}

static int begin_get(struct collect *c, struct error *err)
{
    int fds[2];
    scoped_fd int list = -1;
    if (make_wishes(&list, &c->order, err) < 0)
        return -1;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return error_sys(err, "make pipe");
    scoped_fd int theirs = fds[0];
    scoped_fd int ours = fds[1];
    c->is_getting = true;
    c->hash = sha256_new();
    if (ask(c, GUEST_FILES_GET, theirs, &get_events, true, err) < 0)
        return -1;
    return feed_new(&c->wishes, c->loop, take_fd(&list), take_fd(&ours), err);
}

/* Says which files are not read now; answers whether there are others. */
static bool leave_large(const struct collect_order *o)
{
    uint64_t room = o->now_bytes;
    bool has_any = false;
    for (size_t i = 0; i < o->artifacts->count; i++) {
        struct artifact *a = &o->artifacts->items[i];
        a->is_left = o->now_bytes > 0 && (a->size > o->now_bytes / 2 || a->size > room);
        has_any |= !a->is_left;
        if (!a->is_left)
            room -= MIN(room, a->size);
    }
    return has_any;
}

/* --- the order of things --------------------------------------------------------------------- */

/* A question is answered when both the worker and its stream have ended. */
static void go_on(struct collect *c)
{
    struct artifact_list *list = c->order.artifacts;
    struct error err;
    if (!c->is_worker_done || c->watch)
        return;
    if (!c->reader.is_over || c->reader.is_cut)
        list->is_cut = true;
    close_question(c);
    if (!c->is_getting && list->count > 0) {
        artifact_list_sort(list);
        if (leave_large(&c->order)) {
            if (begin_get(c, &err) == 0)
                return;
            list->is_cut = true;
            close_question(c);
        }
    }
    c->order.done(c->order.ctx);
}

void collect_on_worker_done(struct collect *c, int error)
{
    struct error err;
    c->is_worker_done = true;
    if (c->is_glancing) {
        c->is_glancing = false;
        if (error == 0) {
            read_glance(c);
        } else {
            close_question(c);
            if (ask(c, GUEST_FILES_LIST, -1, &list_events, false, &err) == 0)
                return;
        }
    }
    go_on(c);
}

int collect_new(struct collect **out, struct loop *loop, const struct collect_order *order,
                struct error *err)
{
    struct collect *c = xcalloc(1, sizeof(*c));
    c->loop = loop;
    c->order = *order;
    c->fd = -1;
    if (begin_glance(c, err) < 0) {
        collect_free(c);
        return -1;
    }
    *out = c;
    return 0;
}

void collect_free(struct collect *c)
{
    if (!c)
        return;
    close_question(c);
    sha256_free(c->hash);
    free(c);
}
