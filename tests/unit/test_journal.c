/* test_journal.c - readers of every pace see the same events, or how many they missed */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/journal.h"

#include <stdio.h>
#include <string.h>

#include "check.h"

static int woken;

static void on_wake(void *ctx)
{
    (void)ctx;
    woken++;
}

static void add_numbers(struct journal *j, int from, int to)
{
    char text[16];
    for (int i = from; i <= to; i++) {
        int len = snprintf(text, sizeof(text), "%d", i);
        journal_add(j, JOURNAL_STDOUT, text, (size_t)len);
    }
}

static void expect(struct journal_reader *r, uint64_t number, const char *data, uint64_t missed)
{
    struct journal_event event;
    uint64_t gone = 99;
    assert_true(journal_read(r, &event, &gone));
    assert_int_equal(event.number, number);
    assert_string_equal(event.data, data);
    assert_int_equal(event.len, strlen(data));
    assert_int_equal(gone, missed);
}

static void expect_nothing(struct journal_reader *r)
{
    struct journal_event event;
    uint64_t missed;
    assert_false(journal_read(r, &event, &missed));
}

static void test_readers(void **state)
{
    (void)state;
    struct journal *j = journal_new(1000);
    woken = 0;
    struct journal_reader *early = journal_listen(j, 0, on_wake, NULL);
    expect_nothing(early);
    add_numbers(j, 1, 3);
    assert_int_equal(woken, 1); /* once, until it has read all */
    expect(early, 1, "1", 0);
    struct journal_reader *late = journal_listen(j, 2, NULL, NULL);
    expect(late, 3, "3", 0);
    expect_nothing(late);
    expect(early, 2, "2", 0);
    expect(early, 3, "3", 0);
    expect_nothing(early);
    journal_add(j, JOURNAL_ENDED, "{}", 2);
    assert_int_equal(woken, 2);
    assert_true(journal_has_ended(j));
    journal_drop(j); /* readers go on */
    expect(early, 4, "{}", 0);
    expect(late, 4, "{}", 0);
    expect_nothing(late);
    journal_reader_free(early);
    journal_reader_free(late);
}

static void test_room(void **state)
{
    (void)state;
    struct journal *j = journal_new(4);
    struct journal_reader *slow = journal_listen(j, 0, NULL, NULL);
    add_numbers(j, 1, 9);
    expect(slow, 6, "6", 5);
    expect(slow, 7, "7", 0);
    journal_add(j, JOURNAL_ENDED, "0123456789", 10); /* larger than all there is */
    expect(slow, 10, "0123456789", 2);
    expect_nothing(slow);
    struct journal_reader *after = journal_listen(j, 3, NULL, NULL);
    expect(after, 10, "0123456789", 6);
    struct journal_reader *future = journal_listen(j, 1000, NULL, NULL); /* of another life */
    expect_nothing(future);
    assert_int_equal(journal_last(j), 10);
    journal_reader_free(future);
    journal_reader_free(after);
    journal_reader_free(slow);
    journal_drop(j);
}

static struct journal_reader *leavers[3];

static void leave(void *ctx)
{
    (void)ctx;
    for (size_t i = 0; i < 3; i++) {
        journal_reader_free(leavers[i]);
        leavers[i] = NULL;
    }
}

static void test_leaving(void **state)
{
    (void)state;
    struct journal *j = journal_new(100);
    woken = 0;
    struct journal_reader *other = journal_listen(j, 0, on_wake, NULL);
    for (size_t i = 0; i < 3; i++) {
        leavers[i] = journal_listen(j, 0, leave, NULL);
        expect_nothing(leavers[i]);
    }
    expect_nothing(other);
    journal_add(j, JOURNAL_STARTED, NULL, 0);
    assert_null(leavers[0]);
    assert_int_equal(woken, 1);
    expect(other, 1, "", 0);
    journal_reader_free(other);
    journal_drop(j);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "readers of every pace", test_readers);
    check_one(&check, "the oldest make room", test_room);
    check_one(&check, "the one who is woken takes others with him", test_leaving);
    return check_run(&check, "journal");
}
