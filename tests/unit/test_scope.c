/* test_scope.c - words, sets, and who may do and give what */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/scope.h"

#include <string.h>

#include "check.h"

#define ALL ((1u << SCOPE_COUNT) - 1)

struct parse_case {
    const char *name, *text;
    bool is_valid;
    unsigned scopes;
};

static const struct parse_case parses[] = {
    {"one word", "execute", true, SCOPE_EXECUTE},
    {"several words", "files,sessions:read", true, SCOPE_FILES | SCOPE_SESSIONS_READ},
    {"no word", "", true, 0},
    {"an unknown word is refused", "execute,all", false, 0},
    {"a word twice is refused", "files,files", false, 0},
    {"a comma at the end is refused", "files,", false, 0},
    {"a comma at the beginning is refused", ",files", false, 0},
    {"a blank is refused", "files, execute", false, 0},
    {"a part of a word is refused", "sessions", false, 0},
    {"more than a word is refused", "admins", false, 0},
};

static void test_parse(void **state)
{
    const struct parse_case *c = *state;
    unsigned scopes = 0x5555;
    assert_int_equal(scope_parse(c->text, &scopes), c->is_valid);
    assert_int_equal(scopes, c->is_valid ? c->scopes : 0x5555);
}

static void test_format(void **state)
{
    (void)state;
    for (unsigned set = 0; set <= ALL; set++) {
        char text[SCOPE_TEXT_BYTES];
        unsigned back = ~0u;
        scope_format(set, text);
        assert_true(scope_parse(text, &back));
        assert_int_equal(back, set);
    }
}

struct allow_case {
    const char *name;
    unsigned held, needed;
    bool is_allowed;
};

static const struct allow_case allows[] = {
    {"what one holds is allowed", SCOPE_EXECUTE | SCOPE_FILES, SCOPE_FILES, true},
    {"what one does not hold is not", SCOPE_EXECUTE, SCOPE_FILES, false},
    {"a part of it is not enough", SCOPE_EXECUTE, SCOPE_EXECUTE | SCOPE_FILES, false},
    {"nothing is allowed to anybody", 0, 0, true},
    {"writing is not reading", SCOPE_SESSIONS_WRITE, SCOPE_SESSIONS_READ, false},
    {"the admin may everything", SCOPE_ADMIN, ALL & ~(unsigned)SCOPE_INTERNAL, true},
    {"but what is internal", SCOPE_ADMIN, SCOPE_INTERNAL, false},
    {"all but admin is not admin", ALL & ~(unsigned)SCOPE_ADMIN, SCOPE_ADMIN, false},
};

static void test_allows(void **state)
{
    const struct allow_case *c = *state;
    assert_int_equal(scope_allows(c->held, c->needed), c->is_allowed);
}

static const struct allow_case grants[] = {
    {"the admin gives anything", SCOPE_ADMIN, SCOPE_ADMIN | SCOPE_FILES, true},
    {"who keeps keys gives what he has", SCOPE_KEYS_ADMIN | SCOPE_FILES, SCOPE_FILES, true},
    {"and nothing more", SCOPE_KEYS_ADMIN | SCOPE_FILES, SCOPE_EXECUTE, false},
    {"nor makes himself the admin", SCOPE_KEYS_ADMIN, SCOPE_ADMIN, false},
    {"who keeps no keys gives nothing", SCOPE_FILES, SCOPE_FILES, false},
    {"nobody gives internal", SCOPE_ADMIN | SCOPE_INTERNAL, SCOPE_INTERNAL, false},
};

static void test_grants(void **state)
{
    const struct allow_case *c = *state;
    assert_int_equal(scope_may_grant(c->held, c->needed), c->is_allowed);
}

static void test_infos(void **state)
{
    (void)state;
    for (int i = 0; i < SCOPE_COUNT; i++) {
        const struct scope_info *info = scope_info((enum scope_index)i);
        assert_int_equal(scope_find(info->word, strlen(info->word)), 1u << i);
        assert_true(strlen(info->help) > 0);
    }
    assert_int_equal(scope_find("", 0), 0);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, parses, test_parse);
    check_one(&check, "every set survives as text", test_format);
    check_rows(&check, allows, test_allows);
    check_rows(&check, grants, test_grants);
    check_one(&check, "every scope has a word and a help", test_infos);
    return check_run(&check, "scope");
}
