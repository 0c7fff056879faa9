/* test_parse.c - numbers, sizes, durations and their way back to text */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"

#include <string.h>

#include "check.h"

struct number_case {
    const char *name;
    bool (*parse)(const char *text, uint64_t *out);
    void (*format)(uint64_t value, char out[FORMAT_BYTES]);
    const char *text;
    bool is_valid;
    uint64_t value;
    const char *back; /* how it is written; NULL: not checked */
};

static const struct number_case numbers[] = {
    {"reads zero", parse_u64, format_u64, "0", true, 0, "0"},
    {"reads the largest number", parse_u64, format_u64, "18446744073709551615", true, UINT64_MAX,
     "18446744073709551615"},
    {"refuses one more than the largest number", parse_u64, NULL, "18446744073709551616", false},
    {"refuses an empty number", parse_u64, NULL, "", false},
    {"refuses a sign", parse_u64, NULL, "+1", false},
    {"refuses a negative number", parse_u64, NULL, "-1", false},
    {"refuses a leading blank", parse_u64, NULL, " 1", false},
    {"refuses a trailing blank", parse_u64, NULL, "1 ", false},
    {"refuses hexadecimal", parse_u64, NULL, "0x10", false},
    {"refuses digits that are not ASCII", parse_u64, NULL, "\xd9\xa1", false},

    {"reads plain bytes", parse_size, format_size, "4095", true, 4095, "4095"},
    {"reads K", parse_size, format_size, "64K", true, 64 << 10, "64K"},
    {"reads a lower-case unit", parse_size, format_size, "64k", true, 64 << 10, "64K"},
    {"reads MB as a power of 1024", parse_size, format_size, "512MB", true, 512 << 20, "512M"},
    {"reads GiB", parse_size, format_size, "2GiB", true, 2ull << 30, "2G"},
    {"reads T", parse_size, format_size, "1T", true, 1ull << 40, "1T"},
    {"writes the largest unit that is exact", parse_size, format_size, "1536K", true, 1536 << 10,
     "1536K"},
    {"writes thousands of T in T", parse_size, format_size, "2048T", true, 2048ull << 40, "2048T"},
    {"refuses a size that overflows", parse_size, NULL, "16777216T", false},
    {"refuses an unknown unit", parse_size, NULL, "1P", false},
    {"refuses a fraction of a size", parse_size, NULL, "1.5G", false},
    {"refuses junk after the unit", parse_size, NULL, "1Gi", false},
    {"refuses a unit alone", parse_size, NULL, "K", false},

    {"reads half", parse_milli, format_milli, "0.5", true, 500, "0.5"},
    {"reads a whole", parse_milli, format_milli, "2", true, 2000, "2"},
    {"keeps three digits", parse_milli, format_milli, "1.234", true, 1234, "1.234"},
    {"writes no needless zeros", parse_milli, format_milli, "10.250", true, 10250, "10.25"},
    {"keeps the zeros of a whole", parse_milli, format_milli, "100", true, 100000, "100"},
    {"refuses a point without digits", parse_milli, NULL, "1.", false},
    {"refuses a fraction without a whole", parse_milli, NULL, ".5", false},
    {"refuses two points", parse_milli, NULL, "1.2.3", false},
    {"refuses a whole that overflows", parse_milli, NULL, "18446744073709552", false},

    {"reads seconds without a unit", parse_duration_ms, format_duration_ms, "30", true, 30000,
     "30s"},
    {"reads a fraction of a second", parse_duration_ms, format_duration_ms, "0.5", true, 500,
     "500ms"},
    {"reads milliseconds", parse_duration_ms, format_duration_ms, "200ms", true, 200, "200ms"},
    {"reads minutes", parse_duration_ms, format_duration_ms, "2m", true, 120000, "2m"},
    {"reads hours", parse_duration_ms, format_duration_ms, "24h", true, 86400000, "24h"},
    {"reads one and a half hours", parse_duration_ms, format_duration_ms, "1.5h", true, 5400000,
     "90m"},
    {"reads no time", parse_duration_ms, format_duration_ms, "0", true, 0, "0s"},
    {"refuses an unknown unit of time", parse_duration_ms, NULL, "1d", false},
    {"refuses a unit of time alone", parse_duration_ms, NULL, "ms", false},
    {"refuses a negative time", parse_duration_ms, NULL, "-1s", false},
    {"refuses a time that overflows", parse_duration_ms, NULL, "18446744073709551h", false},
    {"refuses a time that could not be written again", parse_duration_ms, NULL,
     "84744073700010.129", false},
    {"refuses a time of forty digits", parse_duration_ms, NULL,
     "0000000000000000000000000000000000000001", false},
};

static void test_number(void **state)
{
    const struct number_case *row = *state;
    uint64_t value = 77;
    assert_int_equal(row->parse(row->text, &value), row->is_valid);
    assert_true(value == (row->is_valid ? row->value : 77));
    if (row->back) {
        char text[FORMAT_BYTES];
        row->format(value, text);
        assert_string_equal(text, row->back);
        uint64_t again;
        assert_true(row->parse(text, &again) && again == value);
    }
}

struct bool_case {
    const char *name, *text;
    bool is_valid, value;
};

static const struct bool_case bools[] = {
    {"takes yes for true", "yes", true, true},
    {"takes On for true", "On", true, true},
    {"takes 1 for true", "1", true, true},
    {"takes FALSE for false", "FALSE", true, false},
    {"takes off for false", "off", true, false},
    {"takes 0 for false", "0", true, false},
    {"takes nothing for neither", "", false, 0},
    {"takes 2 for neither", "2", false, 0},
    {"takes truely for neither", "truely", false, 0},
};

static void test_bool(void **state)
{
    const struct bool_case *row = *state;
    bool value = !row->value;
    assert_int_equal(parse_bool(row->text, &value), row->is_valid);
    assert_int_equal(value, row->is_valid ? row->value : !row->value);
}

static void test_hex(void **state)
{
    (void)state;
    const uint8_t bytes[3] = {0x00, 0x9a, 0xff};
    uint8_t back[3] = {1, 1, 1};
    char text[7];
    format_hex(bytes, sizeof(bytes), text);
    assert_string_equal(text, "009aff");
    assert_true(parse_hex(text, back, sizeof(back)));
    assert_memory_equal(back, bytes, sizeof(bytes));

    static const char *const bad[] = {"", "009af", "009aff0", "009AFF", "009afg"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(parse_hex(bad[i], back, sizeof(back)));
    assert_memory_equal(back, bytes, sizeof(bytes));
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, numbers, test_number);
    check_rows(&check, bools, test_bool);
    check_one(&check, "hex digits go there and back, and nothing else is hex", test_hex);
    return check_run(&check, "parse");
}
