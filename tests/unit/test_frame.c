/* test_frame.c - datagrams to messages: every fault ends the channel, every cut means the same */
/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/frame.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"
#include "pattern.h"

#define ASKED 7 /* the generation of the request that is under way */

struct datagram {
    char bytes[KERNEL_FRAME_MAX];
    size_t len;
};

static struct datagram *datagram_new(const struct kernel_frame *f, const void *body, size_t len)
{
    struct datagram *d = xmalloc(sizeof(*d));
    memcpy(d->bytes, f, sizeof(*f));
    if (len > 0)
        memcpy(d->bytes + sizeof(*f), body, len);
    d->len = sizeof(*f) + len;
    return d;
}

/* From memory that is exactly as large, so that a sanitizer sees a read past its end. */
static enum frame_answer add_bytes(struct frame_inbox *inbox, const void *bytes, size_t len,
                                   struct frame_message *out, const char **why)
{
    static char *last; /* a message may borrow from it */
    enum frame_answer answer;
    size_t used = 0, at = 0;
    free(last);
    last = xmalloc(len + (len == 0));
    memcpy(last, bytes, len);
    do {
        answer = frame_inbox_add(inbox, last + at, len - at, &used, out, why);
        at += used;
    } while (answer != FRAME_BAD && at < len);
    return answer;
}

static enum frame_answer add(struct frame_inbox *inbox, unsigned type, unsigned flags,
                             uint32_t generation, const void *body, size_t len,
                             struct frame_message *out, const char **why)
{
    const struct kernel_frame f = {.length = (uint32_t)len,
                                   .type = (uint16_t)type,
                                   .flags = (uint16_t)flags,
                                   .generation = generation};
    struct datagram *d = datagram_new(&f, body, len);
    enum frame_answer answer = add_bytes(inbox, d->bytes, d->len, out, why);
    free(d);
    return answer;
}

static void inbox_open(struct frame_inbox *inbox)
{
    frame_inbox_init(inbox);
    frame_inbox_expect(inbox, ASKED);
}

/* --- one frame ------------------------------------------------------------------------------- */

struct frame_case {
    const char *name;
    struct kernel_frame frame;
    size_t body_len; /* of the datagram, whatever the frame says */
    const char *fault;
};

#define LENGTH     "a frame that is longer than its datagram"
#define TYPE       "a frame of an unknown type"
#define FLAGS      "a frame with unknown flags"
#define NOT_DONE   "a DONE that is none"
#define NOT_SYNCED "a SYNCED that is none"
#define FUTURE     "a frame of a request that was never made"

static const struct frame_case frame_cases[] = {
    {"a plain frame", {5, KERNEL_DATA, 0, ASKED, 0}, 5, NULL},
    {"an empty body", {0, KERNEL_DATA, 0, ASKED, 0}, 0, NULL},
    {"all flags but MORE",
     {1, KERNEL_DATA, KERNEL_FIRST | KERNEL_MAIN | KERNEL_LAST, ASKED, 0},
     1,
     NULL},
    {"the largest body", {KERNEL_BODY_MAX, KERNEL_REPLY, 0, ASKED, 0}, KERNEL_BODY_MAX, NULL},
    {"a READY of no request", {2, KERNEL_READY, 0, 0, 0}, 2, NULL},
    {"an older generation", {2, KERNEL_DATA, 0, ASKED - 1, 0}, 2, NULL},
    {"a DONE", {4, KERNEL_DONE, 0, ASKED, 0}, 4, NULL},
    {"a length one too long", {6, KERNEL_DATA, 0, ASKED, 0}, 5, LENGTH},
    {"a length of 4 GiB", {UINT32_MAX, KERNEL_DATA, 0, ASKED, 0}, 5, LENGTH},
    {"a length that wraps to the right one",
     {UINT32_MAX - (uint32_t)sizeof(struct kernel_frame) + 1, KERNEL_DATA, 0, ASKED, 0},
     0,
     LENGTH},
    {"a length without a body", {1, KERNEL_DATA, 0, ASKED, 0}, 0, LENGTH},
    {"type 0", {0, 0, 0, ASKED, 0}, 0, TYPE},
    {"a type of the host's", {0, KERNEL_EXECUTE, 0, ASKED, 0}, 0, TYPE},
    {"the type before the first", {0, KERNEL_READY - 1, 0, ASKED, 0}, 0, TYPE},
    {"the type after the last", {0, KERNEL_SYNCED + 1, 0, ASKED, 0}, 0, TYPE},
    {"a SYNCED", {0, KERNEL_SYNCED, 0, ASKED, 0}, 0, NULL},
    {"a SYNCED with a body", {1, KERNEL_SYNCED, 0, ASKED, 0}, 1, NOT_SYNCED},
    {"a SYNCED that goes on", {0, KERNEL_SYNCED, KERNEL_MORE, ASKED, 0}, 0, NOT_SYNCED},
    {"a SYNCED of the next generation", {0, KERNEL_SYNCED, 0, ASKED + 1, 0}, 0, FUTURE},
    {"the largest type", {0, UINT16_MAX, 0, ASKED, 0}, 0, TYPE},
    {"a flag of a DONE", {0, KERNEL_DATA, KERNEL_UNTOUCHED, ASKED, 0}, 0, FLAGS},
    {"an unknown flag", {0, KERNEL_DATA, 32, ASKED, 0}, 0, FLAGS},
    {"an unknown flag of a DONE", {4, KERNEL_DONE, 32, ASKED, 0}, 4, FLAGS},
    {"the highest flag", {0, KERNEL_DATA, 0x8000, ASKED, 0}, 0, FLAGS},
    {"something reserved", {0, KERNEL_DATA, 0, ASKED, 1}, 0, FLAGS},
    {"a DONE without a body", {0, KERNEL_DONE, 0, ASKED, 0}, 0, NOT_DONE},
    {"a DONE of three bytes", {3, KERNEL_DONE, 0, ASKED, 0}, 3, NOT_DONE},
    {"a DONE of five bytes", {5, KERNEL_DONE, 0, ASKED, 0}, 5, NOT_DONE},
    {"a DONE that goes on", {4, KERNEL_DONE, KERNEL_MORE, ASKED, 0}, 4, FLAGS},
    {"a DONE with a flag of a DATA", {4, KERNEL_DONE, KERNEL_FIRST, ASKED, 0}, 4, FLAGS},
    {"a DONE that left the workspace alone", {4, KERNEL_DONE, KERNEL_UNTOUCHED, ASKED, 0}, 4, NULL},
    {"the next generation", {0, KERNEL_DATA, 0, ASKED + 1, 0}, 0, FUTURE},
    {"the last generation", {4, KERNEL_DONE, 0, UINT32_MAX, 0}, 4, FUTURE},
};

static void test_frame(void **state)
{
    const struct frame_case *row = *state;
    scoped_free char *body = xmalloc(KERNEL_BODY_MAX);
    struct frame_inbox inbox;
    struct frame_message m = {.len = 12345};
    const char *why = NULL;
    pattern_fill(body, 0, KERNEL_BODY_MAX);
    inbox_open(&inbox);
    struct datagram *d = datagram_new(&row->frame, body, row->body_len);
    enum frame_answer answer = add_bytes(&inbox, d->bytes, d->len, &m, &why);
    free(d);
    if (row->fault) {
        assert_int_equal(answer, FRAME_BAD);
        assert_string_equal(why, row->fault);
        assert_int_equal(m.len, 12345); /* untouched */
    } else {
        assert_int_equal(answer, FRAME_WHOLE);
        assert_int_equal(m.type, row->frame.type);
        assert_int_equal(m.flags, row->frame.flags);
        assert_int_equal(m.generation, row->frame.generation);
        assert_int_equal(m.len, row->body_len);
        assert_memory_equal(m.body, body, row->body_len);
    }
    frame_inbox_release(&inbox);
}

/* As many as go into one, each as if it had come alone. */
static void test_several(void **state)
{
    (void)state;
    struct frame_inbox inbox;
    struct frame_message m;
    const char *why;
    char bytes[3 * (sizeof(struct kernel_frame) + 4)];
    const struct kernel_frame frames[] = {{4, KERNEL_DATA, KERNEL_MORE | KERNEL_MAIN, ASKED, 0},
                                          {4, KERNEL_DATA, 0, ASKED, 0},
                                          {4, KERNEL_DONE, 0, ASKED, 0}};
    const char *bodies[] = {"one ", "two ", "\3\0\0\0"};
    for (size_t i = 0, at = 0; i < 3; i++, at += sizeof(frames[0]) + 4) {
        memcpy(bytes + at, &frames[i], sizeof(frames[0]));
        memcpy(bytes + at + sizeof(frames[0]), bodies[i], 4);
    }
    size_t used, at = 0;
    inbox_open(&inbox);
    assert_int_equal(frame_inbox_add(&inbox, bytes, sizeof(bytes), &used, &m, &why), FRAME_PART);
    at += used;
    assert_int_equal(frame_inbox_add(&inbox, bytes + at, sizeof(bytes) - at, &used, &m, &why),
                     FRAME_WHOLE);
    assert_int_equal(m.len, 8);
    assert_memory_equal(m.body, "one two ", 8);
    at += used;
    assert_int_equal(frame_inbox_add(&inbox, bytes + at, sizeof(bytes) - at, &used, &m, &why),
                     FRAME_WHOLE);
    assert_int_equal(m.type, KERNEL_DONE);
    assert_int_equal(at + used, sizeof(bytes));

    /* One byte behind the last one is no frame. */
    assert_int_equal(frame_inbox_add(&inbox, bytes, 1, &used, &m, &why), FRAME_BAD);
    assert_string_equal(why, "a datagram without a frame");
    frame_inbox_release(&inbox);
}

static void test_short(void **state)
{
    (void)state;
    static const char zeros[sizeof(struct kernel_frame)];
    for (size_t len = 0; len < sizeof(struct kernel_frame); len++) {
        struct frame_inbox inbox;
        struct frame_message m;
        const char *why = NULL;
        inbox_open(&inbox);
        assert_int_equal(add_bytes(&inbox, zeros, len, &m, &why), FRAME_BAD);
        assert_string_equal(why, "a datagram without a frame");
        frame_inbox_release(&inbox);
    }
}

/* --- bodies in pieces ------------------------------------------------------------------------ */

/* Every way to cut a short text into three pieces, empty ones too. */
static void test_cuts(void **state)
{
    (void)state;
    static const char text[] = "text/plain\0result";
    const size_t len = sizeof(text) - 1;
    struct frame_inbox inbox;
    struct frame_message m;
    const char *why;
    inbox_open(&inbox);
    for (size_t a = 0; a <= len; a++) {
        for (size_t b = a; b <= len; b++) {
            assert_int_equal(add(&inbox, KERNEL_DATA, KERNEL_MORE | KERNEL_FIRST | KERNEL_MAIN,
                                 ASKED, text, a, &m, &why),
                             FRAME_PART);
            assert_int_equal(
                add(&inbox, KERNEL_DATA, KERNEL_MORE, ASKED, text + a, b - a, &m, &why),
                FRAME_PART);
            assert_int_equal(add(&inbox, KERNEL_DATA, 0, ASKED, text + b, len - b, &m, &why),
                             FRAME_WHOLE);
            assert_int_equal(m.len, len);
            assert_memory_equal(m.body, text, len);
            assert_int_equal(m.flags, KERNEL_FIRST | KERNEL_MAIN); /* those of the first count */
            assert_int_equal(m.type, KERNEL_DATA);
            assert_int_equal(m.generation, ASKED);
        }
    }
    frame_inbox_release(&inbox);
}

static void test_bytewise(void **state)
{
    (void)state;
    char text[500];
    struct frame_inbox inbox;
    struct frame_message m;
    const char *why;
    pattern_fill(text, 3, sizeof(text));
    inbox_open(&inbox);
    for (size_t i = 0; i < sizeof(text); i++) {
        bool is_last = i + 1 == sizeof(text);
        assert_int_equal(
            add(&inbox, KERNEL_REPLY, is_last ? 0 : KERNEL_MORE, ASKED, text + i, 1, &m, &why),
            is_last ? FRAME_WHOLE : FRAME_PART);
    }
    assert_int_equal(m.len, sizeof(text));
    assert_memory_equal(m.body, text, sizeof(text));
    frame_inbox_release(&inbox);
}

static void test_after_chain(void **state)
{
    (void)state;
    struct frame_inbox inbox;
    struct frame_message m;
    const char *why;
    inbox_open(&inbox);
    add(&inbox, KERNEL_DATA, KERNEL_MORE | KERNEL_MAIN, ASKED, "long", 4, &m, &why);
    add(&inbox, KERNEL_DATA, 0, ASKED, "er", 2, &m, &why);
    assert_int_equal(add(&inbox, KERNEL_DATA, KERNEL_FIRST, ASKED, "x", 1, &m, &why), FRAME_WHOLE);
    assert_int_equal(m.len, 1);
    assert_memory_equal(m.body, "x", 1);
    assert_int_equal(m.flags, KERNEL_FIRST);
    add(&inbox, KERNEL_ERROR, KERNEL_MORE, ASKED, "a", 1, &m, &why);
    assert_int_equal(add(&inbox, KERNEL_ERROR, 0, ASKED, "b", 1, &m, &why), FRAME_WHOLE);
    assert_int_equal(m.len, 2);
    assert_memory_equal(m.body, "ab", 2);
    assert_int_equal(m.flags, 0);
    frame_inbox_release(&inbox);
}

static void test_forget(void **state)
{
    (void)state;
    struct frame_inbox inbox;
    struct frame_message m;
    const char *why;
    inbox_open(&inbox);
    add(&inbox, KERNEL_DATA, KERNEL_MORE, ASKED, "a", 1, &m, &why);
    frame_inbox_forget(&inbox); /* not of a message that is still coming */
    assert_int_equal(add(&inbox, KERNEL_DATA, 0, ASKED, "b", 1, &m, &why), FRAME_WHOLE);
    assert_memory_equal(m.body, "ab", 2);
    frame_inbox_forget(&inbox);
    assert_int_equal(inbox.body.cap, 0);
    frame_inbox_release(&inbox);
}

struct between_case {
    const char *name;
    unsigned type;
    uint32_t generation;
    size_t len;
};

static const struct between_case between_cases[] = {
    {"another type in between", KERNEL_ERROR, ASKED, 1},
    {"an older generation in between", KERNEL_DATA, ASKED - 1, 1},
    {"a DONE in between", KERNEL_DONE, ASKED, 4},
    {"an empty frame of another type in between", KERNEL_REPLY, ASKED, 0},
};

static void test_between(void **state)
{
    const struct between_case *row = *state;
    struct frame_inbox inbox;
    struct frame_message m;
    const char *why = NULL;
    inbox_open(&inbox);
    assert_int_equal(add(&inbox, KERNEL_DATA, KERNEL_MORE, ASKED, "abcd", 4, &m, &why), FRAME_PART);
    assert_int_equal(add(&inbox, row->type, 0, row->generation, "abcd", row->len, &m, &why),
                     FRAME_BAD);
    assert_string_equal(why, "a frame inside of another's body");
    frame_inbox_release(&inbox);
}

/* --- how much -------------------------------------------------------------------------------- */

/* Adds until it is refused, or until `max` bytes of bodies are in. */
static uint64_t add_until_bad(struct frame_inbox *inbox, unsigned flags, uint64_t max,
                              const char **why)
{
    scoped_free char *body = xcalloc(1, KERNEL_BODY_MAX);
    struct frame_message m;
    uint64_t total = 0;
    while (total < max) {
        size_t len = (size_t)MIN(max - total, (uint64_t)KERNEL_BODY_MAX);
        if (add(inbox, KERNEL_DATA, flags, ASKED, body, len, &m, why) == FRAME_BAD)
            break;
        total += len;
    }
    return total;
}

static void test_message_cap(void **state)
{
    (void)state;
    struct frame_inbox inbox;
    struct frame_message m;
    const char *why = NULL;
    inbox_open(&inbox);
    assert_int_equal(add_until_bad(&inbox, KERNEL_MORE, FRAME_MESSAGE_MAX, &why),
                     FRAME_MESSAGE_MAX);
    assert_int_equal(add(&inbox, KERNEL_DATA, 0, ASKED, NULL, 0, &m, &why), FRAME_WHOLE);
    assert_int_equal(m.len, FRAME_MESSAGE_MAX);
    frame_inbox_release(&inbox);

    inbox_open(&inbox);
    add_until_bad(&inbox, KERNEL_MORE, FRAME_MESSAGE_MAX, &why);
    assert_int_equal(add(&inbox, KERNEL_DATA, 0, ASKED, "x", 1, &m, &why), FRAME_BAD);
    assert_string_equal(why, "a message that is too long");
    frame_inbox_release(&inbox);
}

static void test_request_cap(void **state)
{
    (void)state;
    struct frame_inbox inbox;
    const char *why = NULL;
    inbox_open(&inbox);
    uint64_t most = add_until_bad(&inbox, 0, UINT64_MAX, &why);
    assert_string_equal(why, "more bytes than one request may answer");
    assert_in_range(most, FRAME_REQUEST_MAX - 2 * KERNEL_FRAME_MAX, FRAME_REQUEST_MAX);
    frame_inbox_release(&inbox);

    inbox_open(&inbox); /* a new request has all of it again */
    assert_int_equal(add_until_bad(&inbox, 0, most, &why), most);
    frame_inbox_expect(&inbox, ASKED);
    assert_int_equal(add_until_bad(&inbox, 0, KERNEL_BODY_MAX, &why), 0); /* the same is not new */
    frame_inbox_release(&inbox);
    inbox_open(&inbox);
    assert_int_equal(add_until_bad(&inbox, 0, most, &why), most);
    frame_inbox_expect(&inbox, ASKED + 1);
    assert_int_equal(add_until_bad(&inbox, 0, most, &why), most);
    frame_inbox_release(&inbox);
}

/* A host that took over, and knows of fewer requests than there were. */
static void test_sync(void **state)
{
    (void)state;
    struct frame_inbox inbox;
    struct frame_message m;
    const char *why = NULL;
    inbox_open(&inbox);
    frame_inbox_await_sync(&inbox, ASKED);
    assert_int_equal(add(&inbox, KERNEL_DATA, KERNEL_MORE, ASKED + 3, "a", 1, &m, &why),
                     FRAME_PART);
    assert_int_equal(add_until_bad(&inbox, 0, FRAME_REQUEST_MAX / 2, &why), 0);
    assert_string_equal(why, "a frame inside of another's body");
    assert_int_equal(add(&inbox, KERNEL_SYNCED, 0, ASKED + 3, NULL, 0, &m, &why), FRAME_WHOLE);
    assert_int_equal(m.type, KERNEL_SYNCED);
    assert_int_equal(m.generation, ASKED + 3);
    assert_int_equal(add(&inbox, KERNEL_DATA, 0, ASKED + 3, "b", 1, &m, &why), FRAME_WHOLE);
    assert_int_equal(m.len, 1);
    assert_int_equal(add(&inbox, KERNEL_DATA, 0, ASKED + 4, "b", 1, &m, &why), FRAME_BAD);
    frame_inbox_release(&inbox);

    inbox_open(&inbox);
    frame_inbox_await_sync(&inbox, ASKED);
    assert_int_equal(add(&inbox, KERNEL_SYNCED, 0, UINT32_MAX, NULL, 0, &m, &why), FRAME_BAD);
    assert_string_equal(why, FUTURE);
    frame_inbox_release(&inbox);

    inbox_open(&inbox); /* one that nobody asked for gains nothing */
    uint64_t most = add_until_bad(&inbox, 0, UINT64_MAX, &why);
    frame_inbox_release(&inbox);
    inbox_open(&inbox);
    assert_int_equal(add_until_bad(&inbox, 0, most, &why), most);
    add(&inbox, KERNEL_SYNCED, 0, ASKED, NULL, 0, &m, &why);
    assert_int_equal(add_until_bad(&inbox, 0, KERNEL_BODY_MAX, &why), 0);
    frame_inbox_release(&inbox);

    inbox_open(&inbox); /* one that was, all of it */
    frame_inbox_await_sync(&inbox, ASKED);
    add_until_bad(&inbox, 0, most / 2, &why);
    assert_int_equal(add(&inbox, KERNEL_SYNCED, 0, ASKED, NULL, 0, &m, &why), FRAME_WHOLE);
    assert_int_equal(add_until_bad(&inbox, 0, most, &why), most);
    frame_inbox_release(&inbox);
}

static void test_empty_flood(void **state)
{
    (void)state;
    struct frame_inbox inbox;
    struct frame_message m;
    const char *why = NULL;
    uint64_t count = 0;
    inbox_open(&inbox);
    while (add(&inbox, KERNEL_DATA, 0, ASKED, NULL, 0, &m, &why) != FRAME_BAD)
        count++;
    assert_int_equal(count, FRAME_REQUEST_MAX / sizeof(struct kernel_frame));
    frame_inbox_release(&inbox);
}

/* A kernel that speaks of an older request in between has no more room for that. */
static void test_alternating(void **state)
{
    (void)state;
    scoped_free char *body = xcalloc(1, KERNEL_BODY_MAX);
    struct frame_inbox inbox;
    struct frame_message m;
    const char *why = NULL;
    uint64_t total = 0;
    inbox_open(&inbox);
    for (uint32_t i = 0; total <= FRAME_REQUEST_MAX; i++) {
        if (add(&inbox, KERNEL_DATA, 0, ASKED - i % 2, body, KERNEL_BODY_MAX, &m, &why) ==
            FRAME_BAD)
            break;
        total += KERNEL_BODY_MAX;
    }
    assert_true(total <= FRAME_REQUEST_MAX);
    assert_string_equal(why, "more bytes than one request may answer");
    frame_inbox_release(&inbox);
}

/* What finds no room is dropped whole, and what comes behind it does not suffer. */
static void test_no_room(void **state)
{
    (void)state;
    static const char piece[KERNEL_BODY_MAX];
    struct budget budget = {.max = 8 * MIB};
    struct frame_inbox inbox, other;
    struct frame_message m;
    const char *why;
    frame_inbox_init(&inbox);
    frame_inbox_init(&other);
    inbox.budget = other.budget = &budget;
    frame_inbox_expect(&inbox, ASKED);
    frame_inbox_expect(&other, ASKED);
    for (size_t held = 0; held < 4 * MIB; held += sizeof(piece))
        assert_int_equal(
            add(&inbox, KERNEL_DATA, KERNEL_MORE, ASKED, piece, sizeof(piece), &m, &why),
            FRAME_PART);
    assert_int_equal(budget.used, 0); /* more than a quarter */
    assert_int_equal(inbox.body.cap, 0);
    assert_int_equal(add(&other, KERNEL_DATA, KERNEL_MORE, ASKED, piece, sizeof(piece), &m, &why),
                     FRAME_PART);
    assert_int_equal(add(&other, KERNEL_DATA, 0, ASKED, piece, sizeof(piece), &m, &why),
                     FRAME_WHOLE);
    assert_false(m.is_dropped);
    assert_int_equal(m.len, 2 * sizeof(piece));
    assert_true(budget.used > 0);

    assert_int_equal(add(&inbox, KERNEL_DATA, 0, ASKED, piece, sizeof(piece), &m, &why),
                     FRAME_WHOLE);
    assert_true(m.is_dropped);
    assert_int_equal(m.len, 0);
    frame_inbox_forget(&inbox);
    assert_int_equal(add(&inbox, KERNEL_DATA, KERNEL_MORE, ASKED, "a", 1, &m, &why), FRAME_PART);
    assert_int_equal(add(&inbox, KERNEL_DATA, 0, ASKED, "b", 1, &m, &why), FRAME_WHOLE);
    assert_false(m.is_dropped);
    assert_int_equal(m.len, 2);
    frame_inbox_release(&inbox);
    frame_inbox_release(&other);
    assert_int_equal(budget.used, 0);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, frame_cases, test_frame);
    check_one(&check, "a datagram shorter than a frame", test_short);
    check_one(&check, "several frames in one datagram", test_several);
    check_one(&check, "a body means the same however it is cut", test_cuts);
    check_one(&check, "a body comes byte by byte", test_bytewise);
    check_one(&check, "nothing of a chain is left for the next message", test_after_chain);
    check_one(&check, "a body that was used gives its memory back", test_forget);
    check_rows(&check, between_cases, test_between);
    check_one(&check, "a message has a largest size", test_message_cap);
    check_one(&check, "all messages of a request have one together", test_request_cap);
    check_one(&check, "what finds no room is dropped whole, and alone", test_no_room);
    check_one(&check, "a host that took over begins at the SYNCED", test_sync);
    check_one(&check, "empty frames are counted, too", test_empty_flood);
    check_one(&check, "two generations in turn share what one may have", test_alternating);
    return check_run(&check, "frame");
}
