/* test_term_width.c - columns of characters that people type */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/term_width.h"

#include "check.h"

struct width_case {
    const char *name;
    uint32_t code;
    unsigned width;
};

static const struct width_case cases[] = {
    {"a letter", 'a', 1},
    {"a letter with an accent", 0xe9, 1},
    {"an accent of its own", 0x301, 0},
    {"the first after the accents", 0x370, 1},
    {"a Greek letter", 0x3b1, 1},
    {"a Hebrew point", 0x5b0, 0},
    {"a Devanagari vowel sign", 0x941, 0},
    {"the start of a Hangul syllable", 0x1100, 2},
    {"its vowel", 0x1161, 0},
    {"the joiner", 0x200d, 0},
    {"the euro", 0x20ac, 1},
    {"a box line", 0x2500, 1},
    {"a Han character", 0x6f22, 2},
    {"a Hangul syllable", 0xac00, 2},
    {"a variation selector", 0xfe0f, 0},
    {"a fullwidth letter", 0xff21, 2},
    {"a halfwidth katakana", 0xff71, 1},
    {"a face", 0x1f600, 2},
    {"a skin tone", 0x1f3fb, 2},
    {"a rare Han character", 0x20000, 2},
    {"the last of all", 0x10ffff, 1},
};

static void test_width(void **state)
{
    const struct width_case *row = *state;
    assert_int_equal(term_width_of(row->code), row->width);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, cases, test_width);
    return check_run(&check, "term_width");
}
