/* test_mime.c - types by name */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/mime.h"

#include "check.h"

#define UNKNOWN "application/octet-stream"

struct mime_case {
    const char *path;
    const char *type;
};

static const struct mime_case cases[] = {
    {"plot.png", "image/png"},
    {"PLOT.PNG", "image/png"},
    {"photo.JpEg", "image/jpeg"},
    {"a/b/c/data.csv", "text/csv"},
    {"archive.tar.gz", "application/gzip"},
    {"notes.txt.bak", UNKNOWN},
    {"README", UNKNOWN},
    {"folder.png/README", UNKNOWN},
    {"folder.png/x.json", "application/json"},
    {"dot.", UNKNOWN},
    {"", UNKNOWN},
    {".", UNKNOWN},
    {"x.pngx", UNKNOWN},
    {"x.pn", UNKNOWN},
    {"x.py", "text/x-python"},
    {"x.ts", "text/typescript"},
    {"x.svg", "image/svg+xml"},
    {"a b\tc.html", "text/html"},
};

static void test_case(void **state)
{
    const struct mime_case *row = *state;
    assert_string_equal(mime_of(row->path), row->type);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, cases, test_case);
    return check_run(&check, "mime");
}
