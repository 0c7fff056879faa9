/* test_output_file.c - a stream that changes hands at any byte, against struct output alone */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"

#define INPUT_MAX 4096

static char input[INPUT_MAX];

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static void assert_same(const struct output *a, const struct output *b)
{
    scoped_strbuf struct strbuf left, right;
    strbuf_init(&left, 2 * INPUT_MAX);
    strbuf_init(&right, 2 * INPUT_MAX);
    output_text(a, &left);
    output_text(b, &right);
    assert_int_equal(a->total, b->total);
    assert_string_equal(strbuf_str(&left), strbuf_str(&right));
}

static void on_told(void *ctx, const void *data, size_t len)
{
    strbuf_add(ctx, data, len);
}

/* Another process gets copies of the fds, and the first one is no more. */
static void change_hands(struct output_file *file, size_t max)
{
    struct output_file next;
    output_file_adopt(&next, fcntl(file->fd, F_DUPFD_CLOEXEC, 3), max);
    assert_int_equal(next.total, file->total);
    output_file_close(file);
    *file = next;
}

static void check_replay(const struct output_file *file, const struct output *right, size_t max,
                         uint64_t offset)
{
    struct output again;
    scoped_strbuf struct strbuf told;
    output_init(&again, max);
    strbuf_init(&told, INPUT_MAX);
    output_file_replay(file, &again, offset, on_told, &told);
    assert_same(&again, right);
    if (file->total <= max) {
        assert_int_equal(told.len, file->total - MIN(file->total, offset));
        assert_memory_equal(strbuf_str(&told), input + MIN(file->total, offset), told.len);
    }
    output_release(&again);
}

static void pass(size_t max, size_t total, uint64_t seed)
{
    struct error err;
    struct output_file file;
    struct output right;
    int fds[2];
    char buffer[300];
    assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(output_file_open(&file, max, &err), 0);
    output_init(&right, max);
    for (size_t at = 0; at < total;) {
        size_t wanted = 1 + next_random(&seed) % 200;
        size_t len = MIN(wanted, total - at);
        assert_int_equal(write(fds[1], input + at, len), len);
        size_t size = 1 + next_random(&seed) % sizeof(buffer);
        ssize_t n;
        while ((n = output_file_fill(&file, fds[0], buffer, size)) > 0) {
            assert_memory_equal(buffer, input + right.total, n);
            output_add(&right, buffer, (size_t)n);
            if (next_random(&seed) % 4 == 0) {
                change_hands(&file, max);
                check_replay(&file, &right, max, next_random(&seed) % (total + 1));
            }
        }
        assert_true(n < 0 && errno == EAGAIN);
        at += len;
    }
    close(fds[1]);
    assert_int_equal(output_file_fill(&file, fds[0], buffer, 1), 0);
    assert_int_equal(file.total, total);
    check_replay(&file, &right, max, 0);
    close(fds[0]);
    output_release(&right);
    output_file_close(&file);
}

static void test_hands(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 3, 100, 101, 999, 1000, INPUT_MAX};
    uint64_t seed = 160;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        for (int round = 0; round < 20; round++)
            pass(sizes[i], next_random(&seed) % (INPUT_MAX + 1), seed);
        pass(sizes[i], sizes[i], seed);
        pass(sizes[i], MIN(sizes[i] + 1, (size_t)INPUT_MAX), seed);
    }
}

static void test_odd(void **state)
{
    (void)state;
    struct output_file file;
    struct output out;
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    output_init(&out, 100);
    output_file_adopt(&file, fds[0], 100); /* no file at all */
    output_file_replay(&file, &out, 0, NULL, NULL);
    assert_int_equal(out.total, 0);
    output_file_close(&file);
    close(fds[1]);
    output_release(&out);
}

int main(void)
{
    struct check check = {.count = 0};
    for (size_t i = 0; i < INPUT_MAX; i++)
        input[i] = (char)('a' + i * 31 % 26);
    check_one(&check, "goes on at any byte in another's hands", test_hands);
    check_one(&check, "uses nothing of what is no file", test_odd);
    return check_run(&check, "output_file");
}
