/* test_tail.c - the newest stays, in order, whatever was printed */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "check.h"

#define LATER_NS (1000 * 1000000ll) /* too late to be the same piece */

static int64_t now;

static void add(struct tail *t, enum execution_stream stream, const char *text)
{
    now += LATER_NS;
    tail_add(t, stream, text, strlen(text), now);
}

/* "o:text e:text " */
static char *all_of(const struct tail *t)
{
    struct strbuf out;
    struct tail_piece piece;
    size_t at = 0;
    strbuf_init(&out, MIB);
    for (;;) {
        scoped_strbuf struct strbuf text;
        strbuf_init(&text, MIB);
        if (!tail_read(t, &at, &piece, &text))
            break;
        strbuf_add_fmt(&out, "%c:%s ", piece.stream == EXECUTION_STDERR ? 'e' : 'o',
                       strbuf_str(&text));
    }
    strbuf_add_str(&out, "");
    return strbuf_take(&out);
}

static void expect(const struct tail *t, const char *wanted)
{
    scoped_free char *all = all_of(t);
    assert_string_equal(all, wanted);
}

static void test_order(void **state)
{
    (void)state;
    scoped(tail) struct tail *t = tail_new(4096);
    struct tail_piece piece;
    size_t at = 0;
    assert_false(tail_read(t, &at, &piece, NULL));
    add(t, EXECUTION_STDOUT, "a");
    int64_t began = now;
    add(t, EXECUTION_STDERR, "b");
    add(t, EXECUTION_STDOUT, "");
    add(t, EXECUTION_STDOUT, "c");
    expect(t, "o:a e:b o:c ");
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, KIB);
    assert_true(tail_read(t, &at, &piece, &text));
    assert_int_equal(piece.wall_ns, began);
    assert_int_equal(tail_dropped(t), 0);
}

static void test_together(void **state)
{
    (void)state;
    scoped(tail) struct tail *t = tail_new(64 * KIB);
    now += LATER_NS;
    tail_add(t, EXECUTION_STDOUT, "a", 1, now);
    tail_add(t, EXECUTION_STDOUT, "b", 1, now + 1000000);
    tail_add(t, EXECUTION_STDERR, "c", 1, now + 1000000);
    tail_add(t, EXECUTION_STDOUT, "d", 1, now + 1000000);
    tail_add(t, EXECUTION_STDOUT, "e", 1, now - LATER_NS); /* the clock was set back */
    expect(t, "o:ab e:c o:d o:e ");
    char page[4096];
    memset(page, 'x', sizeof(page));
    for (int i = 0; i < 3; i++)
        tail_add(t, EXECUTION_STDERR, page, sizeof(page), now);
    size_t at = 0, pieces = 0;
    struct tail_piece piece;
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, MIB);
    while (tail_read(t, &at, &piece, &text))
        pieces++;
    assert_int_equal(pieces, 4 + 3); /* none longer than a page */
}

static void test_room(void **state)
{
    (void)state;
    scoped(tail) struct tail *t = tail_new(512);
    char text[100];
    uint64_t printed = 0;
    for (int i = 0; i < 1000; i++) {
        snprintf(text, sizeof(text), "%0*d", 1 + i % 61, i % 10);
        add(t, i % 3 ? EXECUTION_STDOUT : EXECUTION_STDERR, text);
        printed += strlen(text);
        size_t at = 0, pieces = 0;
        struct tail_piece piece;
        scoped_strbuf struct strbuf all;
        strbuf_init(&all, MIB);
        while (tail_read(t, &at, &piece, &all))
            pieces++;
        assert_int_equal(piece.wall_ns, now); /* the newest is always there, and whole */
        assert_string_equal(all.data + all.len - strlen(text), text);
        assert_int_equal(all.len + tail_dropped(t), printed);
        assert_true(all.len + pieces * 16 <= 512);
        assert_true(i < 100 || all.len + pieces * 16 >= 512 - 16); /* and room is used */
    }
}

static void test_long(void **state)
{
    (void)state;
    scoped(tail) struct tail *t = tail_new(512);
    add(t, EXECUTION_STDERR, "before");
    char text[5000];
    memset(text, 'x', sizeof(text));
    memcpy(text + sizeof(text) - 4, "end", 4);
    add(t, EXECUTION_STDOUT, text);
    scoped_free char *all = all_of(t);
    assert_int_equal(strlen(all), 512 - 16 + 3);
    assert_string_equal(all + strlen(all) - 4, "end ");
    assert_int_equal(tail_dropped(t), 6 + strlen(text) - (512 - 16));
    tail_add(t, EXECUTION_STDOUT, "!", 1, now); /* there is no room to make it longer */
    scoped_free char *more = all_of(t);
    assert_int_equal(strlen(more), 512 - 2 * 16 + 2 * 3);
    assert_string_equal(more + strlen(more) - 8, "end o:! ");
    assert_int_equal(tail_dropped(t), 6 + strlen(text) + 1 - (512 - 2 * 16));
}

/* Many writes of one byte at a time, as python -u does, in a ring that is full. */
static void test_bytes(void **state)
{
    (void)state;
    scoped(tail) struct tail *t = tail_new(8192);
    now += LATER_NS;
    for (int i = 0; i < 100000; i++) {
        char c = (char)('a' + i % 26);
        tail_add(t, EXECUTION_STDOUT, &c, 1, now);
    }
    size_t at = 0;
    struct tail_piece piece;
    scoped_strbuf struct strbuf all;
    strbuf_init(&all, MIB);
    while (tail_read(t, &at, &piece, &all))
        continue;
    assert_true(all.len >= 8192 - 4 * 16);
    for (size_t i = 0; i < all.len; i++)
        assert_int_equal(all.data[all.len - 1 - i], 'a' + (int)((100000 - 1 - i) % 26));
    assert_int_equal(all.len + tail_dropped(t), 100000);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "pieces in their order, with stream and time", test_order);
    check_one(&check, "what comes shortly after one another is one piece", test_together);
    check_one(&check, "the oldest make room", test_room);
    check_one(&check, "of what is too long the end stays", test_long);
    check_one(&check, "byte by byte", test_bytes);
    return check_run(&check, "tail");
}
