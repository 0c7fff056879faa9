/* test_outqueue.c - what goes in comes out, whole and in order, however it is taken */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/outqueue.h"

#include <string.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "check.h"

static char *letters(size_t len, size_t from)
{
    char *bytes = xmalloc(len + 1);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)('a' + (from + i) % 26);
    return bytes;
}

/* Takes everything, `step` bytes at a time at most. */
static void drain(struct outqueue *q, struct strbuf *out, size_t step)
{
    struct iovec pieces[3];
    while (q->len > 0) {
        size_t left = step;
        int count = outqueue_peek(q, pieces, ARRAY_LEN(pieces));
        assert_true(count > 0);
        for (int i = 0; i < count; i++) {
            size_t len = MIN(left, pieces[i].iov_len);
            strbuf_add(out, pieces[i].iov_base, len);
            left -= len;
        }
        outqueue_drop(q, step - left);
    }
    assert_int_equal(outqueue_peek(q, pieces, ARRAY_LEN(pieces)), 0);
}

static void test_order(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 0, 5, 8190, 3, 20000, 1, 8192, 100};
    for (size_t step = 1; step < 60000; step = step * 3 + 1) {
        struct outqueue q = {.len = 0};
        scoped_strbuf struct strbuf got;
        strbuf_init(&got, 1 * MIB);
        size_t total = 0;
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
            char *bytes = letters(sizes[i], total);
            total += sizes[i];
            if (i % 3 == 2) {
                outqueue_give(&q, bytes, sizes[i]);
            } else {
                outqueue_add(&q, bytes, sizes[i]);
                free(bytes);
            }
        }
        assert_int_equal(q.len, total);
        drain(&q, &got, step);
        char *want = letters(total, 0);
        assert_int_equal(got.len, total);
        assert_memory_equal(got.data, want, total);
        free(want);
        outqueue_release(&q);
    }
}

static void test_small_pieces_are_one(void **state)
{
    (void)state;
    struct outqueue q = {.len = 0};
    struct iovec pieces[4];
    for (int i = 0; i < 100; i++)
        outqueue_add(&q, "0123456789", 10);
    assert_int_equal(outqueue_peek(&q, pieces, 4), 1);
    assert_int_equal(pieces[0].iov_len, 1000);
    outqueue_release(&q);
    assert_int_equal(q.len, 0);
}

/* Memory of exactly its size, which a sanitizer watches. */
static void test_nothing_is_added_to_what_was_given(void **state)
{
    (void)state;
    struct outqueue q = {.len = 0};
    struct iovec pieces[4];
    outqueue_give(&q, xstrndup("abc", 3), 3);
    outqueue_add(&q, "def", 3);
    assert_int_equal(outqueue_peek(&q, pieces, 4), 2);
    assert_int_equal(pieces[0].iov_len, 3);
    outqueue_drop(&q, 4);
    assert_int_equal(outqueue_peek(&q, pieces, 4), 1);
    assert_memory_equal(pieces[0].iov_base, "ef", 2);
    outqueue_release(&q);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "bytes come out in order, in steps of any size", test_order);
    check_one(&check, "small pieces leave together", test_small_pieces_are_one);
    check_one(&check, "nothing is added to memory that was given",
              test_nothing_is_added_to_what_was_given);
    return check_run(&check, "outqueue");
}
