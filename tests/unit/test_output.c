/* test_output.c - head and tail, byte for byte, against a model that keeps everything */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/output.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"

#define INPUT_MAX 4096

static char input[INPUT_MAX];

/* A small generator of its own: the same chunks in each run of the test. */
static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* What must be kept of the first `total` bytes of the input. */
static void model(struct strbuf *out, size_t total, size_t max)
{
    size_t head = MIN(total, max - max / 2), tail = MIN(total - head, max / 2);
    strbuf_add(out, input, head);
    if (total > head + tail)
        strbuf_add_fmt(out, "\n[... %zu bytes left out ...]\n", total - head - tail);
    strbuf_add(out, input + total - tail, tail);
}

static void compare(const struct output *o, size_t total, size_t max)
{
    scoped_strbuf struct strbuf right, text;
    strbuf_init(&right, 2 * INPUT_MAX);
    strbuf_init(&text, 2 * INPUT_MAX);
    model(&right, total, max);
    output_text(o, &text);
    assert_int_equal(o->total, total);
    assert_int_equal(output_kept(o), MIN(total, max));
    assert_int_equal(output_is_cut(o), total > max);
    assert_int_equal(text.len, right.len);
    if (right.len > 0)
        assert_memory_equal(text.data, right.data, right.len);
}

struct limit_case {
    const char *name;
    size_t max;
};

static const struct limit_case limits[] = {
    {"a limit of 0 keeps nothing", 0},
    {"a limit of 1 keeps the first byte", 1},
    {"a limit of 2 keeps both ends", 2},
    {"a limit of 3", 3},
    {"a limit of 16", 16},
    {"an odd limit of 17", 17},
    {"a limit of 255", 255},
    {"a limit of 1024", 1024},
    {"a limit of all that comes", INPUT_MAX},
    {"a limit of one byte less", INPUT_MAX - 1},
    {"a limit far above", 16 * INPUT_MAX},
};

/* Compared after each chunk, for chunks from one byte to several rings at once. */
static void test_limit(void **state)
{
    const struct limit_case *row = *state;
    uint64_t seed = row->max + 1;
    for (int round = 0; round < 60; round++) {
        struct output o;
        output_init(&o, row->max);
        compare(&o, 0, row->max);
        uint32_t largest = 1 + next_random(&seed) % (round % 2 ? 9 : 2000);
        for (size_t at = 0; at < INPUT_MAX;) {
            size_t n = next_random(&seed) % (largest + 1);
            n = MIN(n, INPUT_MAX - at);
            output_add(&o, input + at, n);
            at += n;
            if (largest > 9 || at % 97 == 0)
                compare(&o, at, row->max);
        }
        compare(&o, INPUT_MAX, row->max);
        output_release(&o);
    }
}

/* Small inputs completely: every limit, every length, every split in two; and cut later. */
static void test_small(void **state)
{
    (void)state;
    for (size_t max = 0; max <= 9; max++) {
        for (size_t total = 0; total <= 24; total++) {
            for (size_t split = 0; split <= total; split++) {
                struct output o;
                output_init(&o, max);
                output_add(&o, input, split);
                output_add(&o, input + split, total - split);
                compare(&o, total, max);
                for (size_t less = 0; less <= max; less++) {
                    struct output cut;
                    output_cut(&cut, &o, less);
                    compare(&cut, total, less);
                    output_release(&cut);
                }
                output_release(&o);
            }
        }
    }
}

static void test_flat(void **state)
{
    (void)state;
    struct output o;
    output_init(&o, 1000);
    static char block[64 * KIB];
    memset(block, 'x', sizeof(block));
    for (int i = 0; i < 1000; i++)
        output_add(&o, block, sizeof(block));
    assert_int_equal(o.total, 1000 * sizeof(block));
    assert_int_equal(output_kept(&o), 1000);
    assert_true(o.head.cap < 2048);
    output_release(&o);
    output_release(&o); /* twice does no harm */
}

int main(void)
{
    struct check check = {.count = 0};
    for (size_t i = 0; i < INPUT_MAX; i++)
        input[i] = (char)(i * 31 + i / 256); /* NUL bytes too */
    check_rows(&check, limits, test_limit);
    check_one(&check, "small outputs are exact at every split", test_small);
    check_one(&check, "memory stays flat, whatever comes", test_flat);
    return check_run(&check, "output");
}
