/* test_id.c - unguessable ids */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/id.h"

#include <regex.h>
#include <string.h>

#include "check.h"

struct id_case {
    const char *name, *text;
    enum id_kind kind;
    bool is_valid;
};

static const struct id_case cases[] = {
    {"a whole id is valid", "exe_0123456789abcdefghjkmnpqrs", ID_EXECUTION, true},
    {"another kind is not", "ses_0123456789abcdefghjkmnpqrs", ID_EXECUTION, false},
    {"one character less is not", "exe_0123456789abcdefghjkmnpqr", ID_EXECUTION, false},
    {"one character more is not", "exe_0123456789abcdefghjkmnpqrst", ID_EXECUTION, false},
    {"a look-alike letter is not", "exe_0123456789abcdefghjkmnpqrl", ID_EXECUTION, false},
    {"upper case is not", "exe_0123456789ABCDEFGHJKMNPQRS", ID_EXECUTION, false},
    {"a path is not", "exe_../../../../../../etc/passw", ID_EXECUTION, false},
    {"the prefix alone is not", "exe_", ID_EXECUTION, false},
    {"nothing is not", "", ID_EXECUTION, false},
};

static void test_valid(void **state)
{
    const struct id_case *row = *state;
    assert_int_equal(id_is_valid(row->kind, row->text), row->is_valid);
}

/* What clients are told is what is checked. */
static void test_pattern(void **state)
{
    const struct id_case *row = *state;
    char pattern[ID_PATTERN_BYTES];
    regex_t regex;
    id_pattern(row->kind, pattern);
    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    assert_int_equal(regexec(&regex, row->text, 0, NULL, 0) == 0, row->is_valid);
    regfree(&regex);
}

static void test_make(void **state)
{
    (void)state;
    static char ids[1000][ID_BYTES];
    unsigned last[32] = {0};
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        struct error err;
        enum id_kind kind = (enum id_kind)(i % ID_KIND_COUNT);
        assert_int_equal(id_make(kind, ids[i], &err), 0);
        assert_true(id_is_valid(kind, ids[i]));
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(ids[i], ids[j]);
        last[(unsigned char)ids[i][4] % 32]++;
    }
    for (size_t i = 0; i < ARRAY_LEN(last); i++)
        assert_true(last[i] < 120); /* 31 expected: the first character is not stuck */
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, cases, test_valid);
    check_rows(&check, cases, test_pattern);
    check_one(&check, "a thousand ids are all different and all valid", test_make);
    return check_run(&check, "id");
}
