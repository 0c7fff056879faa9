/* errand.c - the host's end of an errand: one channel, one frame in each direction that waits
 *
 * The porter is believed in nothing: frames that its errand cannot bring, names that cannot be, and
 * more or fewer bytes than were asked for end the errand, and nothing else. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/errand.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "core/session_inside.h"
#include "runtime/file_stream.h"
#include "runtime/sandbox_socket.h"

#define FRAME_BYTES   sizeof(struct files_frame)
#define FRAMES_A_TURN 8     /* others want to be heard, too */
#define SHORT_MS      60000 /* for what is no stream */
#define RETRY_MS      1000
#define NS_PER_MS     1000000

struct message {
    struct files_frame frame;
    char bytes[FILES_BYTES_MAX];
};

struct errand {
    struct session *session;
    struct errand *next;
    enum files_op op;
    char *path;
    const struct errand_events *events;
    void *ctx;
    int fd;
    struct loop_watch *watch;
    struct loop_timer *timer;
    int64_t began_ns, moved_ns;
    struct strbuf waiting; /* frames that the channel does not take yet */
    uint64_t left;         /* READ: bytes that are to come */
    bool is_open;          /* READ: its entry was told */
    bool is_going;         /* ...and errand_go() was called */
    bool is_full;          /* `drained` is owed */
    bool is_paused;
    bool is_committed;
    bool is_calling; /* an event is told: it is freed after that */
    bool is_over;
};

/* What is particular about an errand. */
static const struct kind {
    bool writes;       /* must not happen while the workspace is copied */
    bool takes;        /* bytes of ours */
    bool gives;        /* bytes of its own */
    bool is_short;     /* must come to its end within SHORT_MS */
    bool has_root;     /* may be about the workspace itself */
    const char *doing; /* "read 'a/b'" */
} kinds[FILES_OPS] = {
    [FILES_STAT] = {.is_short = true, .has_root = true, .doing = "look at"},
    [FILES_LIST] = {.is_short = true, .has_root = true, .doing = "list"},
    [FILES_READ] = {.gives = true, .doing = "read"},
    [FILES_WRITE] = {.writes = true, .takes = true, .doing = "write"},
    [FILES_MKDIR] = {.writes = true, .is_short = true, .doing = "make the directory"},
    [FILES_MOVE] = {.writes = true, .is_short = true, .doing = "move"},
    [FILES_REMOVE] = {.writes = true, .is_short = true, .doing = "delete"},
    [FILES_PACK] = {.gives = true, .has_root = true, .doing = "pack"},
    [FILES_UNPACK] = {.writes = true, .takes = true, .has_root = true, .doing = "unpack into"},
};

/* --- what is there --------------------------------------------------------------------------- */

const char *errand_kind_name(enum errand_kind kind)
{
    static const char *const names[] = {[ERRAND_FILE] = "file",
                                        [ERRAND_DIRECTORY] = "directory",
                                        [ERRAND_LINK] = "link",
                                        [ERRAND_SPECIAL] = "special"};
    return names[kind];
}

bool errand_path_is_valid(const char *path)
{
    return file_stream_is_good_path(path, strlen(path));
}

void errand_entry_tag(const struct errand_entry *e, char out[ERRAND_TAG_BYTES])
{
    snprintf(out, ERRAND_TAG_BYTES, "%" PRIx64 "-%" PRIx64 "-%" PRIx64 "-%" PRIx64, e->inode,
             e->size, (uint64_t)e->mtime_ns, (uint64_t)e->ctime_ns);
}

static enum errand_kind kind_of(uint32_t mode)
{
    if (S_ISREG(mode))
        return ERRAND_FILE;
    if (S_ISDIR(mode))
        return ERRAND_DIRECTORY;
    return S_ISLNK(mode) ? ERRAND_LINK : ERRAND_SPECIAL;
}

/* --- ends ------------------------------------------------------------------------------------ */

static void free_errand(struct errand *e)
{
    loop_timer_free(e->timer);
    loop_watch_free(e->watch);
    sandbox_socket_close(e->session->loop, &e->fd); /* which ends the porter */
    strbuf_release(&e->waiting);
    free(e->path);
    free(e);
}

static void touch(struct session *s)
{
    s->info.last_used_ns = clock_wall_ns();
    if (s->info.state == SESSION_READY || s->info.state == SESSION_FAILED)
        session_count_idle(s);
}

static void leave(struct errand *e)
{
    struct session *s = e->session;
    struct errand **at = &s->errands;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    s->info.errand_count--;
    if (kinds[e->op].writes) {
        s->errand_writers--;
        /* What it wrote is no artifact of an execution that begins within the same tick. By the
         * finer clock: newer kernels date a file by it, ahead of the ticks, once somebody has
         * looked at its date. */
        s->newest_ns = MAX(s->newest_ns, clock_wall_ns());
    }
    e->is_over = true;
    touch(s);
}

void errand_close(struct errand *e)
{
    if (e->is_over)
        return; /* it is being told so */
    leave(e);
    if (!e->is_calling)
        free_errand(e);
}

static void end(struct errand *e, const struct errand_end *how)
{
    bool is_calling = e->is_calling;
    leave(e);
    e->events->ended(e->ctx, how);
    if (!is_calling)
        free_errand(e);
}

static void fail(struct errand *e, const struct error *err)
{
    const struct errand_end how = {.error = *err};
    end(e, &how);
}

static void fail_broken(struct errand *e, const char *why)
{
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "%s", why);
    error_word(&err, "files_interrupted");
    fail(e, &err);
}

void session_end_errands(struct session *s, const char *why)
{
    while (s->errands)
        fail_broken(s->errands, why); /* NOLINT(clang-analyzer-unix.Malloc): it leaves the list */
}

/* --- time ------------------------------------------------------------------------------------ */

static void on_time(void *ctx);

static void count_time(struct errand *e, uint64_t ms)
{
    loop_timer_free(take_ptr(&e->timer));
    e->timer = loop_timer_new(e->session->loop, ms, on_time, e);
}

/* Whether it is the porter that is waited for, and not the one who sends or takes. */
static bool is_porters_turn(const struct errand *e)
{
    const struct kind *kind = &kinds[e->op];
    if (kind->takes && !e->is_committed)
        return e->is_full;
    if (e->op == FILES_READ && e->is_open && !e->is_going)
        return false;
    return !e->is_paused;
}

/* A tenant can stop a porter, but not for long. */
static void on_time(void *ctx)
{
    struct errand *e = ctx;
    struct error err;
    int64_t now = clock_now_ns();
    bool is_late = kinds[e->op].is_short && now - e->began_ns >= (int64_t)SHORT_MS * NS_PER_MS;
    int64_t still_ms = (now - e->moved_ns) / NS_PER_MS;
    if (!is_porters_turn(e))
        still_ms = 0;
    if (!is_late && still_ms < ERRAND_STALL_MS) {
        count_time(e, (uint64_t)(ERRAND_STALL_MS - still_ms));
        return;
    }
    error_set(&err, ERROR_TIMEOUT, "nothing came of the session's files for %d s",
              (is_late ? SHORT_MS : ERRAND_STALL_MS) / 1000);
    error_hint(&err, "see what runs in the session, and try again");
    fail(e, &err);
}

/* --- to the porter --------------------------------------------------------------------------- */

static void choose_events(struct errand *e)
{
    loop_watch_set(e->watch,
                   (e->is_paused ? 0 : LOOP_READ) | (e->waiting.len > 0 ? LOOP_WRITE : 0));
}

static bool is_transient(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* False: not now. A dead peer is noticed by who reads. */
static bool try_send(struct errand *e, const void *frame, const void *data, size_t len)
{
    struct iovec parts[2] = {{(void *)frame, FRAME_BYTES}, {(void *)data, len}};
    const struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
    return !is_transient(sendmsg(e->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL));
}

/* Frames that wait lie one behind the other, each with the length of what is behind it in
 * `count`. */
static void send_frame(struct errand *e, const struct files_frame *frame, const void *data,
                       size_t len)
{
    struct files_frame kept = *frame;
    kept.count = frame->type == FILES_BYTES ? (uint32_t)len : frame->count;
    if (e->waiting.len == 0 && try_send(e, &kept, data, len))
        return;
    strbuf_add(&e->waiting, &kept, FRAME_BYTES);
    strbuf_add(&e->waiting, data, len);
    choose_events(e);
}

static void flush(struct errand *e)
{
    size_t at = 0;
    while (at < e->waiting.len) {
        struct files_frame frame;
        memcpy(&frame, e->waiting.data + at, sizeof(frame));
        size_t len = frame.type == FILES_BYTES ? frame.count : 0;
        if (!try_send(e, &frame, e->waiting.data + at + FRAME_BYTES, len))
            break;
        at += FRAME_BYTES + len;
    }
    if (at > 0)
        e->moved_ns = clock_now_ns();
    e->waiting.len -= at;
    memmove(e->waiting.data, e->waiting.data + at, e->waiting.len);
    choose_events(e);
    if (e->is_full && e->waiting.len == 0) {
        e->is_full = false;
        e->events->drained(e->ctx);
    }
}

bool errand_write(struct errand *e, const void *data, size_t len)
{
    BUG_ON(!kinds[e->op].takes || e->is_committed);
    for (const char *from = data; len > 0;) {
        size_t part = MIN(len, (size_t)FILES_BYTES_MAX);
        send_frame(e, &(struct files_frame){.type = FILES_BYTES}, from, part);
        from += part;
        len -= part;
    }
    BUG_ON(e->waiting.overflow); /* who does not wait for `drained` */
    if (e->waiting.len > 0 && !e->is_full) {
        e->is_full = true;
        e->moved_ns = clock_now_ns();
    }
    return !e->is_full;
}

void errand_commit(struct errand *e)
{
    BUG_ON(!kinds[e->op].takes || e->is_committed);
    e->is_committed = true;
    e->moved_ns = clock_now_ns();
    send_frame(e, &(struct files_frame){.type = FILES_COMMIT}, NULL, 0);
}

void errand_go(struct errand *e, uint64_t offset, uint64_t length)
{
    BUG_ON(e->op != FILES_READ || !e->is_open || e->is_going);
    e->is_going = true;
    e->left = length;
    e->moved_ns = clock_now_ns();
    send_frame(e, &(struct files_frame){.type = FILES_GO, .offset = offset, .size = length}, NULL,
               0);
}

/* --- from the porter ------------------------------------------------------------------------- */

/* What the errno of a porter means to who asked. */
static const struct meaning {
    int error;
    enum error_code code;
    const char *word, *what, *hint;
} meanings[] = {
    {ENOENT, ERROR_NOT_FOUND, "file_not_found", "there is no such file or directory", NULL},
    {EISDIR, ERROR_CONFLICT, "is_a_directory", "it is a directory", NULL},
    {ENOTDIR, ERROR_CONFLICT, "not_a_directory", "it, or a part of its path, is no directory",
     NULL},
    {EEXIST, ERROR_CONFLICT, "file_exists", "something of that name is there already", NULL},
    {ENOTEMPTY, ERROR_CONFLICT, "directory_not_empty", "the directory is not empty",
     "ask for a recursive delete"},
    {ELOOP, ERROR_CONFLICT, "is_a_link", "it, or a part of its path, is a link",
     "links are told in lists, and never followed"},
    {ENXIO, ERROR_CONFLICT, "special_file", "it is no regular file", NULL},
    {EXDEV, ERROR_INVALID, "bad_path", "a path leads out of the directory", NULL},
    {EINVAL, ERROR_INVALID, "bad_path", "that cannot be done with these paths",
     "a directory cannot be moved into itself"},
    {ENAMETOOLONG, ERROR_INVALID, "bad_path", "a name or a path is too long", NULL},
    {EBADMSG, ERROR_INVALID, "bad_archive", "this is no tar archive, or a part of one", NULL},
    {EOPNOTSUPP, ERROR_INVALID, "bad_archive",
     "the archive has something that is neither file, directory nor link", NULL},
    {EACCES, ERROR_DENIED, "file_denied", "the permissions of the file or directory forbid it",
     "change them in the session"},
    {EPERM, ERROR_DENIED, "file_denied", "the permissions of the file or directory forbid it",
     "change them in the session"},
    {ENOSPC, ERROR_TOO_LARGE, "workspace_full", "the workspace has no room for it",
     "delete something, or ask for a session with more disk"},
    {EDQUOT, ERROR_TOO_LARGE, "workspace_full", "the workspace has no room for it",
     "delete something, or ask for a session with more disk"},
    {EFBIG, ERROR_TOO_LARGE, "workspace_full", "the file would be larger than a file may be", NULL},
    {ESTALE, ERROR_CONFLICT, "file_changed", "the file became shorter meanwhile", "try again"},
    {EBUSY, ERROR_LIMIT, "files_busy", "the session's files are used by too many at a time",
     "try again in a moment"},
    {EAGAIN, ERROR_LIMIT, "limit", "the session has as many processes as it may",
     "end some of what runs in it"},
    {ENOMEM, ERROR_LIMIT, "limit", "the session has no memory left", "end some of what runs in it"},
};

static void explain(struct error *err, enum files_op op, const char *path, int error)
{
    const struct meaning *found = NULL;
    for (size_t i = 0; i < ARRAY_LEN(meanings) && !found; i++)
        found = meanings[i].error == error ? &meanings[i] : NULL;
    if (!found) {
        errno = error;
        error_sys(err, "%s '%.200s'", kinds[op].doing, path);
        return;
    }
    error_set(err, found->code, "%s '%.200s': %s", kinds[op].doing, path, found->what);
    error_word(err, found->word);
    if (found->hint)
        error_hint(err, "%s", found->hint);
    if (found->code == ERROR_LIMIT)
        err->retry_ms = RETRY_MS;
}

static bool is_good_name(const char *name, size_t len, bool is_wanted)
{
    if (!is_wanted)
        return len == 0;
    return len <= FILES_NAME_MAX && file_stream_is_good_path(name, len) && !memchr(name, '/', len);
}

/* False: it cannot be. */
static bool on_entry(struct errand *e, const struct files_frame *f, const char *bytes, size_t len)
{
    char name[FILES_NAME_MAX + 1];
    if (!is_good_name(bytes, len, e->op == FILES_LIST) || f->size > INT64_MAX || e->is_open)
        return false;
    memcpy(name, bytes, len);
    name[len] = '\0';
    const struct errand_entry entry = {.name = name,
                                       .kind = kind_of(f->mode),
                                       .mode = f->mode & 07777,
                                       .size = f->size,
                                       .inode = f->inode,
                                       .mtime_ns = f->mtime_ns,
                                       .ctime_ns = f->ctime_ns};
    e->is_open = e->op == FILES_READ && entry.kind == ERRAND_FILE;
    if (e->events->entry)
        e->events->entry(e->ctx, &entry);
    return true;
}

static bool on_bytes(struct errand *e, const char *bytes, size_t len)
{
    if (len == 0 || !kinds[e->op].gives)
        return false;
    if (e->op == FILES_READ) {
        if (!e->is_going || len > e->left)
            return false;
        e->left -= len;
    }
    e->events->bytes(e->ctx, bytes, len);
    return true;
}

static bool on_done(struct errand *e, const struct files_frame *f)
{
    struct errand_end how = {.is_created = f->flags & FILES_CREATED,
                             .has_more = f->flags & FILES_MORE};
    bool is_short = (e->op == FILES_READ && (!e->is_going || e->left > 0)) ||
                    (kinds[e->op].takes && !e->is_committed);
    if (f->error == 0 && is_short)
        return false;
    if (f->error)
        explain(&how.error, e->op, e->path, f->error);
    end(e, &how);
    return true;
}

static bool on_frame(struct errand *e, const struct message *m, size_t len)
{
    switch ((enum files_frame_type)m->frame.type) {
    case FILES_ENTRY:
        return on_entry(e, &m->frame, m->bytes, len);
    case FILES_BYTES:
        return on_bytes(e, m->bytes, len);
    case FILES_ALIVE:
        return true;
    case FILES_DONE:
        return on_done(e, &m->frame);
    case FILES_ORDER:
    case FILES_GO:
    case FILES_COMMIT:
        break; /* ours to say */
    }
    return false;
}

/* False: there is no more for now. */
static bool receive(struct errand *e)
{
    static struct message m; /* the loop has one thread */
    ssize_t n = sandbox_socket_recv(e->session->loop, e->fd, &m, sizeof(m));
    if (is_transient(n))
        return false;
    if (sandbox_socket_is_violated(n))
        session_expel(e->session);
    e->moved_ns = clock_now_ns();
    if (n < (ssize_t)FRAME_BYTES)
        fail_broken(e, "the work on the session's files was interrupted");
    else if (!on_frame(e, &m, (size_t)n - FRAME_BYTES) && !e->is_over)
        fail_broken(e, "the session sent nonsense about its files");
    return !e->is_over; /* NOLINT(clang-analyzer-unix.Malloc): on_ready, which calls, frees */
}

static void on_ready(void *ctx, unsigned events)
{
    struct errand *e = ctx;
    e->is_calling = true;
    if (events & LOOP_WRITE)
        flush(e);
    for (int i = 0; i < FRAMES_A_TURN && !e->is_over && !e->is_paused; i++) {
        if (!receive(e))
            break;
    }
    e->is_calling = false;
    if (e->is_over)
        free_errand(e);
}

void errand_pause(struct errand *e)
{
    e->is_paused = true;
    if (!e->is_over)
        choose_events(e);
}

void errand_resume(struct errand *e)
{
    e->is_paused = false;
    e->moved_ns = clock_now_ns();
    if (!e->is_over)
        choose_events(e);
}

/* --- the start ------------------------------------------------------------------------------- */

static int check_order(const struct errand_order *order, struct error *err)
{
    bool is_root = kinds[order->op].has_root && order->path[0] == '\0';
    const char *wrong = !is_root && !errand_path_is_valid(order->path) ? order->path : NULL;
    if (order->op == FILES_MOVE && !errand_path_is_valid(order->other))
        wrong = order->other;
    if (!wrong)
        return 0;
    error_set(err, ERROR_INVALID, "'%.200s' is no path of a file", wrong);
    error_word(err, "bad_path");
    return error_hint(err, "give it relative to the workspace, without empty, '.' or '..' parts");
}

static int check_session(const struct session *s, const struct errand_order *order,
                         struct error *err)
{
    if (session_check_live(s, "the files", kinds[order->op].writes, err) < 0)
        return -1;
    if (s->info.errand_count < FILES_PORTERS_MAX)
        return 0;
    explain(err, order->op, order->path, EBUSY);
    return -1;
}

static void send_order(struct errand *e, const struct errand_order *order)
{
    char bytes[2 * GUEST_PATH_MAX];
    const char *other = order->other ? order->other : "";
    size_t path_len = strlen(order->path) + 1, other_len = strlen(other) + 1;
    BUG_ON(path_len + other_len > sizeof(bytes));
    memcpy(bytes, order->path, path_len);
    memcpy(bytes + path_len, other, other_len);
    const struct files_frame frame = {.type = FILES_ORDER,
                                      .op = order->op,
                                      .flags = order->flags,
                                      .count = order->count,
                                      .mode = order->mode};
    BUG_ON(!try_send(e, &frame, bytes, path_len + other_len)); /* the first on an empty channel */
}

static int begin(struct errand *e, const struct errand_order *order, struct error *err)
{
    scoped_fd int theirs = -1;
    if (sandbox_socket_open(&e->fd, &theirs, err) < 0)
        return error_wrap(err, "the session's files");
    if (loop_watch_new(&e->watch, e->session->loop, e->fd, LOOP_READ, on_ready, e, err) < 0)
        return -1;
    session_thaw(e->session); /* in front of what wakes it */
    send_order(e, order);
    return guest_porter(e->session->guest, theirs, err);
}

int errand_open(struct errand **out, struct session *s, const struct errand_order *order,
                struct error *err)
{
    if (check_order(order, err) < 0 || check_session(s, order, err) < 0)
        return -1;
    struct errand *e = xcalloc(1, sizeof(*e));
    *e = (struct errand){.session = s,
                         .next = s->errands,
                         .op = order->op,
                         .path = xstrdup(order->path),
                         .events = order->events,
                         .ctx = order->ctx,
                         .fd = -1,
                         .began_ns = clock_now_ns(),
                         .moved_ns = clock_now_ns()};
    strbuf_init(&e->waiting, ERRAND_WAITING_MAX);
    if (begin(e, order, err) < 0) {
        free_errand(e);
        return -1;
    }
    s->errands = e;
    s->info.errand_count++;
    s->errand_writers += kinds[e->op].writes;
    count_time(e, ERRAND_STALL_MS);
    touch(s);
    *out = e;
    return 0;
}
