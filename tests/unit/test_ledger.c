/* test_ledger.c - what was written is read again, and nothing else, wherever a process died */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/ledger.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "check.h"

struct world {
    char *dir, *path;
    struct ledger *ledger;
    struct strbuf seen; /* bodies, each with a space behind it */
};

static int on_entry(void *ctx, const void *body, size_t len, struct error *err)
{
    struct world *w = ctx;
    (void)err;
    strbuf_add(&w->seen, body, len);
    strbuf_add_char(&w->seen, ' ');
    return 0;
}

/* As the next process does. */
static const char *reopen(struct world *w, uint64_t after)
{
    struct error err;
    ledger_free(w->ledger);
    strbuf_clear(&w->seen);
    assert_int_equal(ledger_open(&w->ledger, w->path, &err), 0);
    assert_int_equal(ledger_read(w->ledger, after, on_entry, w, &err), 0);
    return strbuf_str(&w->seen);
}

static void begin(struct world *w)
{
    *w = (struct world){.dir = check_temp_dir()};
    w->path = xasprintf("%s/ledger", w->dir);
    strbuf_init(&w->seen, 1 * MIB);
    assert_string_equal(reopen(w, 0), "");
}

static void end(struct world *w)
{
    ledger_free(w->ledger);
    strbuf_release(&w->seen);
    free(w->path);
    check_remove_dir(w->dir);
}

static void put(struct world *w, const char *body)
{
    assert_true(ledger_add(w->ledger, body, strlen(body)));
    assert_int_equal(ledger_write(w->ledger), 0);
}

static void test_round(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    put(&w, "one");
    assert_true(ledger_add(w.ledger, "two", 3));
    assert_true(ledger_add(w.ledger, "", 0));
    assert_int_equal(ledger_write(w.ledger), 0);
    assert_int_equal(ledger_last(w.ledger), 3);
    assert_true(ledger_add(w.ledger, "never written", 13));
    assert_string_equal(reopen(&w, 0), "one two  ");
    assert_int_equal(ledger_last(w.ledger), 3);
    assert_string_equal(reopen(&w, 1), "two  ");
    assert_string_equal(reopen(&w, 3), "");
    end(&w);
}

/* What was taken over is written over; the rest of it is older than what stands before it. */
static void test_over_again(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    put(&w, "aaaa");
    put(&w, "bbbb");
    put(&w, "cccc");
    ledger_rewind(w.ledger);
    put(&w, "dddd"); /* as long as the first, so that the second follows it neatly */
    assert_string_equal(reopen(&w, 3), "dddd ");
    put(&w, "eeee"); /* a new process begins at the beginning */
    assert_int_equal(ledger_last(w.ledger), 5);
    assert_string_equal(reopen(&w, 4), "eeee ");
    end(&w);
}

/* The database may have lost its last transactions with the power; then it knows less. */
static void test_gap(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    for (int i = 0; i < 5; i++)
        put(&w, "x");
    ledger_rewind(w.ledger);
    put(&w, "six");
    assert_string_equal(reopen(&w, 2), "six ");
    end(&w);
}

/* A file that ends anywhere, or has other bytes anywhere, gives whole entries or none. */
static void test_torn(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    put(&w, "first");
    struct stat one, two;
    assert_int_equal(stat(w.path, &one), 0);
    put(&w, "second");
    assert_int_equal(stat(w.path, &two), 0);
    scoped_fd int fd = open(w.path, O_RDWR | O_CLOEXEC);
    char bytes[256];
    ssize_t len = pread(fd, bytes, sizeof(bytes), 0);
    assert_int_equal(len, two.st_size);
    for (off_t cut = 0; cut < two.st_size; cut++) {
        assert_int_equal(ftruncate(fd, cut), 0);
        assert_string_equal(reopen(&w, 0), cut < one.st_size ? "" : "first ");
        assert_int_equal(pwrite(fd, bytes, (size_t)len, 0), len);
    }
    for (off_t at = 0; at < two.st_size; at++) {
        char other = (char)(bytes[at] ^ 0x55);
        assert_int_equal(pwrite(fd, &other, 1, at), 1);
        const char *seen = reopen(&w, 0);
        assert_string_equal(seen, at < one.st_size ? "" : "first ");
        assert_int_equal(pwrite(fd, bytes + at, 1, at), 1);
    }
    assert_string_equal(reopen(&w, 0), "first second ");
    end(&w);
}

static void test_room(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    size_t len = 1 * MIB;
    scoped_free char *body = xmalloc(len);
    memset(body, 'x', len);
    for (int i = 0; i < 3; i++) {
        assert_true(ledger_add(w.ledger, body, len));
        assert_int_equal(ledger_write(w.ledger), 0);
    }
    assert_false(ledger_add(w.ledger, body, len)); /* with its head it is too much */
    put(&w, "small");
    ledger_rewind(w.ledger);
    assert_true(ledger_add(w.ledger, body, len));
    assert_int_equal(ledger_write(w.ledger), 0);
    assert_int_equal(ledger_last(w.ledger), 5);
    end(&w);
}

/* A write that fails has left no entry, and the next one has its number. */
static void test_failing(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    begin(&w);
    ledger_free(w.ledger);
    assert_int_equal(ledger_open(&w.ledger, "/dev/full", &err), 0);
    assert_true(ledger_add(w.ledger, "one", 3));
    assert_int_equal(ledger_write(w.ledger), -1);
    assert_int_equal(ledger_last(w.ledger), 0);
    end(&w);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "what was written is read", test_round);
    check_one(&check, "what was taken over is written over", test_over_again);
    check_one(&check, "numbers may be missing at the front", test_gap);
    check_one(&check, "what is cut or damaged ends it", test_torn);
    check_one(&check, "has an end", test_room);
    check_one(&check, "a full disk", test_failing);
    return check_run(&check, "ledger");
}
