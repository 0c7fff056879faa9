/* test_errand.c - the host's end of an errand, with its porter played by the test */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/errand.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "world.h"

#define LOG_MAX (1 * MIB)

/* A session with one errand, and all that was told of it. */
struct desk {
    struct world w;
    struct errand *errand;
    struct error error; /* of the last that was refused */
    int porter;         /* its end of the channel */
    struct strbuf told;
    const char *close_at; /* the event at which its owner closes it */
};

static struct message {
    struct files_frame frame;
    char bytes[FILES_BYTES_MAX + 1];
} message;

static void tell(struct desk *d, const char *event, const void *data, size_t len)
{
    strbuf_add_str(&d->told, event);
    strbuf_add(&d->told, data, len);
    strbuf_add_str(&d->told, ";");
    if (d->close_at && strcmp(d->close_at, event) == 0)
        errand_close(take_ptr(&d->errand));
}

static void on_entry(void *ctx, const struct errand_entry *entry)
{
    char text[400];
    int len = snprintf(text, sizeof(text), "%s %s %llu", entry->name, errand_kind_name(entry->kind),
                       (unsigned long long)entry->size);
    tell(ctx, "entry ", text, (size_t)len);
}

static void on_bytes(void *ctx, const void *data, size_t len)
{
    tell(ctx, "bytes ", data, len);
}

static void on_drained(void *ctx)
{
    tell(ctx, "drained", "", 0);
}

static void on_ended(void *ctx, const struct errand_end *end)
{
    struct desk *d = ctx;
    char text[600];
    int len = snprintf(text, sizeof(text), "%d %d %s", end->is_created, end->has_more,
                       end->error.msg[0] ? end->error.word ? end->error.word : "?" : "");
    d->errand = NULL;
    tell(d, "ended ", text, (size_t)len);
}

static const struct errand_events events = {on_entry, on_bytes, on_drained, on_ended};

static int try_open(struct desk *d, enum files_op op, const char *path, struct errand **out)
{
    const struct errand_order order = {
        .op = op, .path = path, .other = "other", .count = 10, .events = &events, .ctx = d};
    return errand_open(out, d->w.session, &order, &d->error);
}

/* What init hears, and the order that waits for the porter. */
static void hear_request(struct desk *d)
{
    struct guest_message request;
    int fds[FD_PASS_MAX];
    size_t count;
    assert_true(fd_recv(d->w.init, &request, sizeof(request), fds, &count) > 0);
    assert_int_equal(request.verb, GUEST_PORTER);
    assert_int_equal(count, 1);
    d->porter = fds[0];
    assert_true(recv(d->porter, &message, sizeof(message), 0) > 0);
    assert_int_equal(message.frame.type, FILES_ORDER);
}

static void begin_world(struct desk *d)
{
    *d = (struct desk){.porter = -1};
    strbuf_init(&d->told, LOG_MAX);
    world_init(&d->w);
    world_open_sealed(&d->w);
    world_become_ready(&d->w);
}

static void begin(struct desk *d, enum files_op op)
{
    begin_world(d);
    assert_int_equal(try_open(d, op, "a/b", &d->errand), 0);
    hear_request(d);
    assert_int_equal(message.frame.op, op);
    assert_string_equal(message.bytes, "a/b");
    assert_string_equal(message.bytes + 4, "other");
}

static void say(struct desk *d, const struct files_frame *frame, const char *bytes, size_t len)
{
    message.frame = *frame;
    memcpy(message.bytes, bytes, len);
    assert_true(send(d->porter, &message, sizeof(message.frame) + len, MSG_NOSIGNAL) > 0);
    world_settle(&d->w);
}

static void say_text(struct desk *d, enum files_frame_type type, const char *text)
{
    say(d, &(struct files_frame){.type = type, .mode = S_IFREG | 0644, .size = 5}, text,
        strlen(text));
}

static void say_done(struct desk *d, int error, unsigned flags)
{
    say(d, &(struct files_frame){.type = FILES_DONE, .error = error, .flags = flags}, "", 0);
}

static void end(struct desk *d)
{
    scoped_close_fd(&d->porter);
    world_close(&d->w);
    strbuf_release(&d->told);
}

static void assert_told(const struct desk *d, const char *text)
{
    assert_int_equal(d->told.len, strlen(text));
    assert_memory_equal(d->told.data ? d->told.data : "", text, d->told.len);
}

static void assert_closed(struct desk *d)
{
    assert_int_equal(session_info(d->w.session)->errand_count, 0);
    while (recv(d->porter, &message, sizeof(message), 0) > 0)
        ;
    assert_true(recv(d->porter, &message, sizeof(message), 0) <= 0);
}

/* --- what goes well -------------------------------------------------------------------------- */

static void test_read(void **state)
{
    (void)state;
    struct desk d;
    begin(&d, FILES_READ);
    assert_int_equal(session_info(d.w.session)->errand_count, 1);
    say_text(&d, FILES_ENTRY, "");
    errand_go(d.errand, 1, 4);
    assert_int_equal(recv(d.porter, &message, sizeof(message), 0), sizeof(message.frame));
    assert_int_equal(message.frame.type, FILES_GO);
    assert_int_equal(message.frame.offset, 1);
    assert_int_equal(message.frame.size, 4);
    say_text(&d, FILES_BYTES, "ell");
    say_text(&d, FILES_ALIVE, "");
    say_text(&d, FILES_BYTES, "o");
    say_done(&d, 0, 0);
    assert_told(&d, "entry  file 5;bytes ell;bytes o;ended 0 0 ;");
    assert_closed(&d);
    end(&d);
}

static void test_list(void **state)
{
    (void)state;
    struct desk d;
    begin(&d, FILES_LIST);
    say_text(&d, FILES_ENTRY, "one");
    say(&d, &(struct files_frame){.type = FILES_ENTRY, .mode = S_IFLNK}, "a\nb", 3);
    say_done(&d, 0, FILES_MORE);
    assert_told(&d, "entry one file 5;entry a\nb link 0;ended 0 1 ;");
    end(&d);
}

/* What the porter does not take waits, and who writes hears when it is gone. */
static void test_write_waits(void **state)
{
    (void)state;
    struct desk d;
    static char block[FILES_BYTES_MAX];
    size_t sent = 0, came = 0;
    begin(&d, FILES_WRITE);
    for (bool goes_on = true; goes_on && sent < 64 * sizeof(block); sent += sizeof(block))
        goes_on = errand_write(d.errand, block, sizeof(block));
    assert_told(&d, "");
    errand_commit(d.errand);
    for (ssize_t n; came < sent;) {
        n = recv(d.porter, &message, sizeof(message), MSG_DONTWAIT);
        if (n < 0) {
            world_settle(&d.w);
            continue;
        }
        assert_int_equal(message.frame.type, FILES_BYTES);
        came += (size_t)n - sizeof(message.frame);
    }
    world_settle(&d.w);
    assert_int_equal(came, sent);
    assert_int_equal(recv(d.porter, &message, sizeof(message), 0), sizeof(message.frame));
    assert_int_equal(message.frame.type, FILES_COMMIT);
    say_text(&d, FILES_ENTRY, "");
    say_done(&d, 0, FILES_CREATED);
    assert_told(&d, "drained;entry  file 5;ended 1 0 ;");
    end(&d);
}

static void test_paused(void **state)
{
    (void)state;
    struct desk d;
    begin(&d, FILES_PACK);
    errand_pause(d.errand);
    say_text(&d, FILES_BYTES, "one");
    world_advance(&d.w, 3 * ERRAND_STALL_MS); /* it is not the porter's turn */
    assert_told(&d, "");
    errand_resume(d.errand);
    world_settle(&d.w);
    assert_told(&d, "bytes one;");
    say_done(&d, 0, 0);
    end(&d);
}

/* --- what a porter cannot do -------------------------------------------------------------------
 */

struct odd_case {
    const char *name;
    enum files_op op;
    struct files_frame frame;
    const char *bytes;
    size_t len;
    const char *told;
};

#define BROKEN "ended 0 0 files_interrupted;"
static const struct odd_case odd[] = {
    {"bytes before they were asked for", FILES_READ, {.type = FILES_BYTES}, "x", 1, BROKEN},
    {"bytes of a list", FILES_LIST, {.type = FILES_BYTES}, "x", 1, BROKEN},
    {"bytes that are none", FILES_PACK, {.type = FILES_BYTES}, "", 0, BROKEN},
    {"an end of a read that never began", FILES_READ, {.type = FILES_DONE}, "", 0, BROKEN},
    {"an end of a write before its last byte", FILES_WRITE, {.type = FILES_DONE}, "", 0, BROKEN},
    {"an order", FILES_STAT, {.type = FILES_ORDER}, "", 0, BROKEN},
    {"a commit", FILES_STAT, {.type = FILES_COMMIT}, "", 0, BROKEN},
    {"no type", FILES_STAT, {.type = 0}, "", 0, BROKEN},
    {"a type that nobody knows", FILES_STAT, {.type = 77}, "", 0, BROKEN},
    {"a name with a slash", FILES_LIST, {.type = FILES_ENTRY}, "a/b", 3, BROKEN},
    {"a name that leads up", FILES_LIST, {.type = FILES_ENTRY}, "..", 2, BROKEN},
    {"a name with a NUL", FILES_LIST, {.type = FILES_ENTRY}, "a\0b", 3, BROKEN},
    {"no name", FILES_LIST, {.type = FILES_ENTRY}, "", 0, BROKEN},
    {"a name where none belongs", FILES_STAT, {.type = FILES_ENTRY}, "a", 1, BROKEN},
    {"a size that cannot be", FILES_STAT, {.type = FILES_ENTRY, .size = UINT64_MAX}, "", 0, BROKEN},
    {"an error is told by its word",
     FILES_READ,
     {.type = FILES_DONE, .error = ENOENT},
     "",
     0,
     "ended 0 0 file_not_found;"},
    {"one that nobody knows, too",
     FILES_READ,
     {.type = FILES_DONE, .error = 4000},
     "",
     0,
     "ended 0 0 ?;"},
};

static void test_odd(void **state)
{
    const struct odd_case *row = *state;
    struct desk d;
    begin(&d, row->op);
    say(&d, &row->frame, row->bytes, row->len);
    assert_told(&d, row->told);
    assert_closed(&d);
    end(&d);
}

static void test_too_many_bytes(void **state)
{
    (void)state;
    struct desk d;
    begin(&d, FILES_READ);
    say_text(&d, FILES_ENTRY, "");
    errand_go(d.errand, 0, 3);
    say_text(&d, FILES_BYTES, "12345");
    assert_told(&d, "entry  file 5;" BROKEN);
    end(&d);
}

static void test_half_a_frame(void **state)
{
    (void)state;
    struct desk d;
    begin(&d, FILES_STAT);
    assert_int_equal(send(d.porter, "\5\0\0", 3, 0), 3);
    world_settle(&d.w);
    assert_told(&d, BROKEN);
    end(&d);
}

/* The channel is closed with what was written unread: its last word is heard all the same. */
static void test_last_word(void **state)
{
    (void)state;
    struct desk d;
    begin(&d, FILES_WRITE);
    errand_write(d.errand, "bytes", 5);
    message.frame = (struct files_frame){.type = FILES_DONE, .error = ENOSPC};
    assert_true(send(d.porter, &message, sizeof(message.frame), 0) > 0);
    close(d.porter);
    d.porter = -1;
    world_settle(&d.w);
    assert_told(&d, "ended 0 0 workspace_full;");
    end(&d);
}

static void test_killed(void **state)
{
    (void)state;
    struct desk d;
    begin(&d, FILES_WRITE);
    close(d.porter);
    d.porter = -1;
    world_settle(&d.w);
    assert_told(&d, BROKEN);
    end(&d);
}

static void test_stalled(void **state)
{
    (void)state;
    struct desk d;
    begin(&d, FILES_STAT);
    world_advance(&d.w, ERRAND_STALL_MS + 1000);
    assert_told(&d, "ended 0 0 ?;");
    end(&d);
}

/* Signs of life do not help what should be short. */
static void test_too_long(void **state)
{
    (void)state;
    struct desk d;
    begin(&d, FILES_REMOVE);
    for (int i = 0; i < 10 && d.errand; i++) {
        say_text(&d, FILES_ALIVE, "");
        world_advance(&d.w, ERRAND_STALL_MS - 1000);
    }
    assert_null(d.errand);
    end(&d);
}

/* --- who begins, and who ends ------------------------------------------------------------------
 */

static void test_refused(void **state)
{
    static const char *const paths[] = {"", "/a", "a/", "..", "a/../b", "a//b", "./a"};
    (void)state;
    struct desk d;
    struct errand *errand;
    begin_world(&d);
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        assert_int_equal(try_open(&d, FILES_WRITE, paths[i], &errand), -1);
        assert_int_equal(d.error.code, ERROR_INVALID);
    }
    end(&d);
}

static void test_only_so_many(void **state)
{
    (void)state;
    struct desk d;
    struct errand *errands[FILES_PORTERS_MAX], *more;
    begin_world(&d);
    for (size_t i = 0; i < ARRAY_LEN(errands); i++) {
        assert_int_equal(try_open(&d, FILES_STAT, "a", &errands[i]), 0);
        hear_request(&d);
        close(d.porter);
    }
    assert_int_equal(try_open(&d, FILES_STAT, "a", &more), -1);
    assert_int_equal(d.error.code, ERROR_LIMIT);
    assert_true(d.error.retry_ms > 0);
    for (size_t i = 0; i < ARRAY_LEN(errands); i++)
        errand_close(errands[i]);
    d.porter = -1;
    end(&d);
}

static void test_closed_from_inside(void **state)
{
    static const char *const at[] = {"entry ", "bytes ", "ended "};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(at); i++) {
        struct desk d;
        begin(&d, FILES_READ);
        d.close_at = at[i];
        say_text(&d, FILES_ENTRY, "");
        if (d.errand) {
            errand_go(d.errand, 0, 5);
            say_text(&d, FILES_BYTES, "12345");
        }
        if (d.errand) {
            d.close_at = NULL; /* the last event frees it anyway */
            say_done(&d, 0, 0);
        }
        assert_closed(&d);
        end(&d);
    }
}

static void test_session_ends(void **state)
{
    (void)state;
    struct desk d;
    begin(&d, FILES_PACK);
    session_close(d.w.session);
    assert_told(&d, BROKEN);
    end(&d);
}

static void test_not_idle(void **state)
{
    (void)state;
    struct desk d;
    begin_world(&d);
    session_freeze(d.w.session);
    assert_true(session_info(d.w.session)->is_frozen);
    assert_int_equal(try_open(&d, FILES_READ, "a/b", &d.errand), 0);
    assert_false(session_info(d.w.session)->is_frozen);
    session_freeze(d.w.session);
    assert_false(session_info(d.w.session)->is_frozen);
    hear_request(&d);
    errand_close(d.errand);
    session_freeze(d.w.session);
    assert_true(session_info(d.w.session)->is_frozen);
    end(&d);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "a part of a file is read", test_read);
    check_one(&check, "a directory is listed", test_list);
    check_one(&check, "a porter that is slow makes the writer wait", test_write_waits);
    check_one(&check, "a reader that is slow makes the porter wait", test_paused);
    check_rows(&check, odd, test_odd);
    check_one(&check, "more bytes than were asked for", test_too_many_bytes);
    check_one(&check, "half a frame", test_half_a_frame);
    check_one(&check, "the last word of a porter is heard", test_last_word);
    check_one(&check, "a porter that is killed ends its errand", test_killed);
    check_one(&check, "a porter that is stopped does, too", test_stalled);
    check_one(&check, "so does one that goes on for ever", test_too_long);
    check_one(&check, "paths that are none are refused", test_refused);
    check_one(&check, "only so many at a time", test_only_so_many);
    check_one(&check, "its owner may close it at any event", test_closed_from_inside);
    check_one(&check, "it ends with the session", test_session_ends);
    check_one(&check, "a session with one is not idle", test_not_idle);
    return check_run(&check, "errand");
}
