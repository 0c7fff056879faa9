/* test_response.c - answers of hosts, in pieces of every size */
/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/response.h"

#include <string.h>

#include "check.h"

struct row {
    const char *name, *text, *want; /* NULL: refused */
};

static const struct row rows[] = {
    {"an answer", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
     "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"},
    {"promises nothing more",
     "HTTP/1.1 200 OK\r\nCONNECTION: keep-alive\r\nKeep-Alive: timeout=5\r\nA: b\r\n\r\n",
     "HTTP/1.1 200 OK\r\nA: b\r\nConnection: close\r\n\r\n"},
    {"a folded promise goes as a whole", "HTTP/1.1 200 OK\r\nConnection:\r\n keep-alive\r\n\r\n",
     "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"},
    {"what is said before the answer", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n",
     "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\nConnection: close\r\n\r\n"},
    {"plain line ends", "HTTP/1.0 200 OK\nA: b\n\nbody",
     "HTTP/1.0 200 OK\nA: b\nConnection: close\r\n\nbody"},
    {"headers in the body are the body's", "HTTP/1.1 200 OK\r\n\r\nConnection: keep-alive\r\n\r\n",
     "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nConnection: keep-alive\r\n\r\n"},
    {"covers a secret in the head", "HTTP/1.1 200 OK\r\nX: <abcabcabcXYZ>\r\n\r\n",
     "HTTP/1.1 200 OK\r\nX: <************>\r\nConnection: close\r\n\r\n"},
    {"covers a secret in the body, and no half of it",
     "HTTP/1.1 200 OK\r\n\r\n<abcabcabcXYZ>abcabca",
     "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<************>abcabca"},
    {"covers secrets that overlap", "HTTP/1.1 200 OK\r\n\r\n<abcabcabcXYZ-12345>",
     "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<******************>"},
    {"covers a secret where a longer one did not come", "HTTP/1.1 200 OK\r\n\r\nabcabcabcXY",
     "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n********cXY"},
    {"covers a secret at the very end", "HTTP/1.1 200 OK\r\n\r\n..abcabcab",
     "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n..********"},
    {"refuses another protocol", "SSH-2.0-OpenSSH\r\n\r\n", NULL},
    {"refuses another version", "HTTP/2.0 200 OK\r\n\r\n", NULL},
    {"refuses a status that is none", "HTTP/1.1 999 OK\r\n\r\n", NULL},
};

/* Two that overlap, a part of one, and one that is too short to be looked for. */
static const struct secret secrets[] = {
    {.text = {.len = 12, .value = "abcabcabcXYZ"}},
    {.text = {.len = 10, .value = "cXYZ-12345"}},
    {.text = {.len = 8, .value = "abcabcab"}},
    {.text = {.len = 2, .value = "OK"}},
};
static const struct secrets_view view = {
    .items = {&secrets[0], &secrets[1], &secrets[2], &secrets[3]}, .count = 4};

static void feed(const struct row *row, size_t step)
{
    struct response r;
    scoped_strbuf struct strbuf out;
    bool is_good = true;
    strbuf_init(&out, 4096);
    response_init(&r, &view);
    for (size_t at = 0, len = strlen(row->text); at < len && is_good; at += step)
        is_good = response_feed(&r, row->text + at, MIN(step, len - at), &out);
    response_end(&r, &out);
    assert_int_equal(is_good, row->want != NULL);
    if (row->want)
        assert_string_equal(strbuf_str(&out), row->want);
    response_release(&r);
}

static void test_row(void **state)
{
    for (size_t step = 1; step <= 64; step++)
        feed(*state, step);
}

static void test_endless(void **state)
{
    struct response r;
    scoped_strbuf struct strbuf out;
    char line[1024];
    bool is_good = true;
    (void)state;
    memset(line, 'a', sizeof(line));
    strbuf_init(&out, 2 * RESPONSE_HEAD_MAX_BYTES);
    response_init(&r, &view);
    for (size_t i = 0; i <= RESPONSE_HEAD_MAX_BYTES / sizeof(line) && is_good; i++)
        is_good = response_feed(&r, line, sizeof(line), &out);
    assert_false(is_good);
    response_release(&r);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, rows, test_row);
    check_one(&check, "refuses a head without end", test_endless);
    return check_run(&check, "response");
}
