/* test_requirement.c - which packages can be asked for, and what is the same as what */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/requirement.h"

#include <string.h>

#include "base/macros.h"
#include "check.h"

struct form_case {
    const char *name;
    enum runner_index index;
    const char *text;
    const char *form; /* NULL: refused */
};

#define PY  RUNNER_INDEX_PYTHON
#define NPM RUNNER_INDEX_NPM

static const struct form_case forms[] = {
    {"a name", PY, "humanize", "humanize"},
    {"capitals mean nothing", PY, "Django", "django"},
    {"nor does how words are joined", PY, "zope._-interface", "zope-interface"},
    {"a version", PY, "pandas==2.2", "pandas==2.2"},
    {"blanks mean nothing", PY, "  pandas >= 2 ,\t< 3 ", "pandas>=2,<3"},
    {"a version in brackets", PY, "pandas (>=2)", "pandas(>=2)"},
    {"any patch", PY, "pandas==2.*", "pandas==2.*"},
    {"a local version", PY, "torch==2.1+cpu", "torch==2.1+cpu"},
    {"extras", PY, "Httpx [ HTTP2 , socks ] ~= 0.27", "httpx[http2,socks]~=0.27"},
    {"a marker", PY, "tomli ; python_version  <  '3.11'", "tomli;python_version < '3.11'"},
    {"blanks at the end of a marker", PY, "tomli; os_name=='nt'  ", "tomli;os_name=='nt'"},
    {"nothing", PY, "", NULL},
    {"blanks", PY, "  ", NULL},
    {"an option", PY, "--index-url=http://evil", NULL},
    {"a short option", PY, "-e.", NULL},
    {"a file of requirements", PY, "-r/etc/passwd", NULL},
    {"a path", PY, "./wheel.whl", NULL},
    {"an absolute path", PY, "/etc/passwd", NULL},
    {"an address", PY, "https://evil/x.whl", NULL},
    {"a name with an address", PY, "x @ https://evil/x.whl", NULL},
    {"a repository", PY, "git+ssh://git@evil/x", NULL},
    {"a name with an option behind", PY, "x --pre", NULL},
    {"two lines", PY, "x\n--index-url=y", NULL},
    {"a return", PY, "x\ry", NULL},
    {"a name that ends in a dot", PY, "x.", NULL},
    {"a variable", PY, "x==${HOME}", NULL},
    {"extras that do not end", PY, "x[a", NULL},
    {"no extras", PY, "x[]", NULL},
    {"bytes that are no ASCII", PY, "h\xc3\xa9llo", NULL},
    {"a marker with an address", PY, "x; a=='b' @ http://evil", NULL},
    {"npm: a name", NPM, "left-pad", "left-pad"},
    {"npm: a version", NPM, "left-pad@1.3.0", "left-pad@1.3.0"},
    {"npm: a range", NPM, "left-pad@>=1 <2 || ^3", "left-pad@>=1 <2 || ^3"},
    {"npm: a tag", NPM, "react@next", "react@next"},
    {"npm: a scope", NPM, "@types/node@~22", "@types/node@~22"},
    {"npm: capitals are others", NPM, "JSONStream", "JSONStream"},
    {"npm: nothing", NPM, "", NULL},
    {"npm: an option", NPM, "--registry=http://evil", NULL},
    {"npm: a path", NPM, "../x", NULL},
    {"npm: a repository", NPM, "user/repository", NULL},
    {"npm: an address", NPM, "https://evil/x.tgz", NULL},
    {"npm: an alias", NPM, "x@npm:y@1", NULL},
    {"npm: a file", NPM, "x@file:/etc", NULL},
    {"npm: a version that is a path", NPM, "x@../y", NULL},
    {"npm: no version", NPM, "x@", NULL},
    {"npm: a scope that ends in dots", NPM, "@types../node", NULL},
    {"npm: no name in a scope", NPM, "@types/", NULL},
    {"npm: two lines", NPM, "x\ny", NULL},
};

static void test_form(void **state)
{
    const struct form_case *row = *state;
    struct error err = {0};
    struct requirement_set set = {0};
    char *const wanted[] = {(char *)row->text};
    int status = requirement_set_make(&set, row->index, wanted, 1, &err);
    if (!row->form) {
        assert_int_equal(status, -1);
        assert_int_equal(err.code, ERROR_INVALID);
        assert_string_equal(err.word, "invalid_requirement");
        assert_true(err.hint[0]);
        return;
    }
    assert_int_equal(status, 0);
    assert_int_equal(set.count, 1);
    assert_string_equal(set.items[0], row->form);
    requirement_set_release(&set);
}

static void digest_of(const char *address, uint8_t image, enum runner_index index,
                      const char *const *words, size_t count, uint8_t out[SHA256_BYTES])
{
    struct error err;
    struct requirement_set set = {0};
    uint8_t digest[SHA256_BYTES] = {image};
    assert_int_equal(requirement_set_make(&set, index, (char *const *)words, count, &err), 0);
    requirement_set_digest(&set, digest, index, address, out);
    requirement_set_release(&set);
}

static void test_same(void **state)
{
    (void)state;
    static const char *const a[] = {"Pandas >= 2", "humanize", "humanize"};
    static const char *const b[] = {"humanize", "pandas>=2"};
    uint8_t x[SHA256_BYTES], y[SHA256_BYTES];
    digest_of("https://name:secret@index/simple", 1, PY, a, 3, x);
    digest_of("https://index/simple", 1, PY, b, 2, y);
    assert_memory_equal(x, y, sizeof(x));
    digest_of("https://other@evil@index/simple", 1, PY, b, 2, y);
    assert_memory_equal(x, y, sizeof(x));
}

static void test_other(void **state)
{
    (void)state;
    static const char *const a[] = {"ab", "c"}, *const b[] = {"a", "bc"}, *const c[] = {"abc"};
    const struct {
        const char *address;
        uint8_t image;
        enum runner_index index;
        const char *const *words;
        size_t count;
    } rows[] = {
        {"", 1, PY, a, 2},          {"", 1, PY, b, 2},
        {"", 1, PY, c, 1},          {"", 2, PY, a, 2},
        {"", 1, NPM, a, 2},         {"https://x/", 1, PY, a, 2},
        {"http://x/", 1, PY, a, 2}, {"https://x/@y", 1, PY, a, 2},
    };
    uint8_t digests[ARRAY_LEN(rows)][SHA256_BYTES];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        digest_of(rows[i].address, rows[i].image, rows[i].index, rows[i].words, rows[i].count,
                  digests[i]);
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(digests[i], digests[k], SHA256_BYTES);
    }
}

static void test_many(void **state)
{
    (void)state;
    struct error err;
    struct requirement_set set = {0};
    char *wanted[REQUIREMENTS_MAX + 1];
    char longest[REQUIREMENT_MAX_BYTES + 2];
    for (size_t i = 0; i <= REQUIREMENTS_MAX; i++)
        wanted[i] = (char *)"x";
    assert_int_equal(requirement_set_make(&set, PY, wanted, REQUIREMENTS_MAX + 1, &err), -1);
    assert_non_null(strstr(err.msg, "at most 64"));
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    wanted[0] = longest;
    assert_int_equal(requirement_set_make(&set, PY, wanted, 1, &err), -1);
    longest[REQUIREMENT_MAX_BYTES] = '\0';
    assert_int_equal(requirement_set_make(&set, PY, wanted, 1, &err), 0);
    requirement_set_release(&set);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, forms, test_form);
    check_one(&check, "the same packages are one layer", test_same);
    check_one(&check, "anything else is another", test_other);
    check_one(&check, "too many and too long ones are refused", test_many);
    return check_run(&check, "requirement");
}
