/* test_route.c - paths and methods find their row */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/route.h"

#include <string.h>

#include "base/strbuf.h"
#include "check.h"

static const struct route routes[] = {
    {METHOD_GET, "/"},
    {METHOD_GET, "/sessions/{id}/files/{path*}"},
    {METHOD_GET, "/sessions/{id}"},
    {METHOD_DELETE, "/sessions/{id}"},
    {METHOD_GET, "/sessions"},
    {METHOD_POST, "/sessions"},
    {METHOD_POST, "/sessions/{id}/execute"},
    {METHOD_POST, "/sessions/search"},
    {METHOD_GET, "/sessions/search"},
    {METHOD_GET, "/sessions/{id}/files"},
    {METHOD_GET, "/sessions/{id}/files/list"},
    {METHOD_PUT, "/sessions/{id}/files/{path*}"},
    {METHOD_GET, "/{any}/{name}/end"},
};

struct row {
    const char *name;
    enum method method;
    const char *path, *want; /* pattern, then " name=value"; or "404"; or "405" and Allow */
};

static const struct row rows[] = {
    {"the root", METHOD_GET, "/", "/"},
    {"text", METHOD_GET, "/sessions", "/sessions"},
    {"the other method of a path", METHOD_POST, "/sessions", "/sessions"},
    {"a name", METHOD_GET, "/sessions/x", "/sessions/{id} id=x"},
    {"a name between text", METHOD_POST, "/sessions/x/execute", "/sessions/{id}/execute id=x"},
    {"the rest", METHOD_GET, "/sessions/x/files/a", "/sessions/{id}/files/{path*} id=x path=a"},
    {"a long rest", METHOD_GET, "/sessions/x/files/a/b c/d",
     "/sessions/{id}/files/{path*} id=x path=a/b c/d"},
    {"a rest with a slash at its end", METHOD_GET, "/sessions/x/files/a/",
     "/sessions/{id}/files/{path*} id=x path=a/"},
    {"text wins over a name, later in the table", METHOD_GET, "/sessions/search",
     "/sessions/search"},
    {"text wins over the rest", METHOD_GET, "/sessions/x/files/list",
     "/sessions/{id}/files/list id=x"},
    {"a path below that text is the rest", METHOD_GET, "/sessions/x/files/list/a",
     "/sessions/{id}/files/{path*} id=x path=list/a"},
    {"a name takes a method that the text has not", METHOD_DELETE, "/sessions/search",
     "/sessions/{id} id=search"},
    {"HEAD is answered as GET", METHOD_HEAD, "/sessions/x", "/sessions/{id} id=x"},
    {"two names in a row", METHOD_GET, "/a/b/end", "/{any}/{name}/end any=a name=b"},
    {"no such path", METHOD_GET, "/nothing", "404"},
    {"longer than any", METHOD_GET, "/sessions/x/execute/y", "404"},
    {"a slash too many", METHOD_GET, "/sessions/", "404"},
    {"a name is not empty", METHOD_POST, "/sessions//execute", "404"},
    {"a rest is not empty", METHOD_PUT, "/sessions/x/files/", "404"},
    {"a beginning is not enough", METHOD_GET, "/session", "404"},
    {"text is compared in its case", METHOD_GET, "/Sessions", "404"},
    {"no such method", METHOD_PUT, "/sessions", "405 GET, HEAD, POST"},
    {"no such method of a name", METHOD_POST, "/sessions/x", "405 GET, HEAD, DELETE"},
    {"HEAD without GET", METHOD_HEAD, "/sessions/x/execute", "405 POST"},
    {"all rows that fit are named", METHOD_PATCH, "/sessions/search",
     "405 GET, HEAD, POST, DELETE"},
    {"OPTIONS", METHOD_OPTIONS, "/", "405 GET, HEAD"},
};

static enum route_answer find(const struct route *list, size_t count, enum method method,
                              const char *path, struct route_match *out)
{
    struct route_table table;
    route_table_init(&table, list, count);
    enum route_answer answer = route_find(&table, method, path, out);
    route_table_release(&table);
    return answer;
}

static void test_row(void **state)
{
    const struct row *row = *state;
    struct route_match match;
    scoped_strbuf struct strbuf got;
    strbuf_init(&got, 1024);
    switch (find(routes, ARRAY_LEN(routes), row->method, row->path, &match)) {
    case ROUTE_FOUND:
        strbuf_add_str(&got, match.route->pattern);
        for (size_t i = 0; i < match.parameter_count; i++) {
            const struct route_parameter *p = &match.parameters[i];
            strbuf_add_fmt(&got, " %.*s=%.*s", (int)p->name_len, p->name, (int)p->value_len,
                           p->value);
        }
        break;
    case ROUTE_NO_PATH:
        strbuf_add_str(&got, "404");
        break;
    case ROUTE_NO_METHOD:
        strbuf_add_fmt(&got, "405 %s", match.allow);
        break;
    }
    assert_string_equal(strbuf_str(&got), row->want);
}

static void test_parameter(void **state)
{
    (void)state;
    struct route_match match;
    assert_int_equal(find(routes, ARRAY_LEN(routes), METHOD_GET, "/sessions/x", &match),
                     ROUTE_FOUND);
    const struct route_parameter *id = route_parameter(&match, "id");
    assert_non_null(id);
    assert_int_equal(id->value_len, 1);
    assert_null(route_parameter(&match, "i"));
    assert_null(route_parameter(&match, "path"));
}

/* Every method at once fits into the room for Allow. */
static void test_allow(void **state)
{
    (void)state;
    struct route all[METHOD_COUNT];
    struct route_match match;
    size_t count = 0;
    for (int i = 0; i < METHOD_COUNT; i++) {
        if (i != METHOD_OPTIONS)
            all[count++] = (struct route){(enum method)i, "/a"};
    }
    assert_int_equal(find(all, count, METHOD_OPTIONS, "/a", &match), ROUTE_NO_METHOD);
    assert_string_equal(match.allow, "GET, HEAD, POST, PUT, DELETE, PATCH");
}

struct table {
    const char *name;
    struct route rows[2];
    bool is_good;
};

static const struct table tables[] = {
    {"two paths are fine", {{METHOD_GET, "/a"}, {METHOD_GET, "/b"}}, true},
    {"two methods are fine", {{METHOD_GET, "/{a}"}, {METHOD_POST, "/{b}"}}, true},
    {"text beside a name is fine", {{METHOD_GET, "/{a}"}, {METHOD_GET, "/b"}}, true},
    {"the same row twice", {{METHOD_GET, "/a"}, {METHOD_GET, "/a"}}, false},
    {"two names at the same place", {{METHOD_GET, "/{a}"}, {METHOD_GET, "/{b}"}}, false},
    {"HEAD beside GET", {{METHOD_GET, "/a"}, {METHOD_HEAD, "/a"}}, false},
    {"a pattern without a slash", {{METHOD_GET, "a"}, {METHOD_GET, "/b"}}, false},
    {"an empty name", {{METHOD_GET, "/{}"}, {METHOD_GET, "/b"}}, false},
    {"an open brace", {{METHOD_GET, "/{a"}, {METHOD_GET, "/b"}}, false},
    {"only a brace", {{METHOD_GET, "/{"}, {METHOD_GET, "/b"}}, false},
    {"a brace within text", {{METHOD_GET, "/a{b}"}, {METHOD_GET, "/b"}}, false},
    {"text after a name", {{METHOD_GET, "/{a}b"}, {METHOD_GET, "/b"}}, false},
    {"a rest that is not last", {{METHOD_GET, "/{a*}/b"}, {METHOD_GET, "/b"}}, false},
    {"a rest without a name", {{METHOD_GET, "/{*}"}, {METHOD_GET, "/b"}}, false},
    {"a name with another sign", {{METHOD_GET, "/{a-b}"}, {METHOD_GET, "/b"}}, false},
    {"nine names",
     {{METHOD_GET, "/{a}/{a}/{a}/{a}/{a}/{a}/{a}/{a}/{a}"}, {METHOD_GET, "/b"}},
     false},
};

static void test_table(void **state)
{
    const struct table *table = *state;
    assert_int_equal(route_check(table->rows, 2) == NULL, table->is_good);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, rows, test_row);
    check_one(&check, "a parameter is found by its whole name", test_parameter);
    check_one(&check, "Allow has room for every method", test_allow);
    check_rows(&check, tables, test_table);
    return check_run(&check, "route");
}
