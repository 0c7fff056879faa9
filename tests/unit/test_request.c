/* test_request.c - requests to a proxy: whom they are for, and what is passed on */
/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/request.h"

#include <string.h>

#include "check.h"

struct row {
    const char *name, *text;
    const char *want; /* the head that is passed on, or the words of a complaint */
};

#define NO_HOST "this is a proxy"
#define NO_PORT "CONNECT needs HOST:PORT"

static const struct row rows[] = {
    {"a plain request",
     "GET http://example.com/a?b=c HTTP/1.1\r\nHost: other\r\nAccept: */*\r\n\r\n",
     "GET /a?b=c HTTP/1.1\r\nHost: example.com\r\naccept: */*\r\nconnection: close\r\n\r\n"},
    {"without a path", "GET http://Example.COM.:8080 HTTP/1.1\r\n\r\n",
     "GET / HTTP/1.1\r\nHost: example.com:8080\r\nconnection: close\r\n\r\n"},
    {"with a query alone", "GET http://example.com?x HTTP/1.0\r\n\r\n",
     "GET /?x HTTP/1.1\r\nHost: example.com\r\nconnection: close\r\n\r\n"},
    {"an address of version 6", "GET http://[2001:db8::1]/ HTTP/1.1\r\n\r\n",
     "GET / HTTP/1.1\r\nHost: [2001:db8::1]\r\nconnection: close\r\n\r\n"},
    {"what is between neighbours stays there",
     "GET http://a.example/ HTTP/1.1\r\nProxy-Authorization: Basic x\r\nProxy-Connection: "
     "keep-alive\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\nUpgrade: h2c\r\n"
     "X-End: 2\r\n\r\n",
     "GET / HTTP/1.1\r\nHost: a.example\r\nx-end: 2\r\nconnection: close\r\n\r\n"},
    {"a body of known length",
     "POST http://a.example/ HTTP/1.1\r\nContent-Length: 3\r\nContent-Encoding: gzip\r\n\r\nabc",
     "POST / HTTP/1.1\r\nHost: a.example\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n"
     "connection: close\r\n\r\n"},
    {"a body in chunks", "POST http://a.example/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
     "POST / HTTP/1.1\r\nHost: a.example\r\ntransfer-encoding: chunked\r\nconnection: "
     "close\r\n\r\n"},
    {"an unusual method", "PROPFIND http://a.example/ HTTP/1.1\r\n\r\n",
     "PROPFIND / HTTP/1.1\r\nHost: a.example\r\nconnection: close\r\n\r\n"},
    {"refuses a path alone", "GET /a HTTP/1.1\r\nHost: example.com\r\n\r\n", NO_HOST},
    {"refuses a user", "GET http://u:p@example.com/ HTTP/1.1\r\n\r\n", NO_HOST},
    {"refuses another scheme", "GET ftp://example.com/ HTTP/1.1\r\n\r\n", NO_HOST},
    {"refuses a host that is none", "GET http://a..b/ HTTP/1.1\r\n\r\n", NO_HOST},
    {"says how https goes", "GET https://example.com/ HTTP/1.1\r\n\r\n",
     "https goes through CONNECT"},
    {"refuses a tunnel without a port", "CONNECT example.com HTTP/1.1\r\n\r\n", NO_PORT},
    {"refuses a tunnel to a path", "CONNECT http://example.com:443/ HTTP/1.1\r\n\r\n", NO_PORT},
    {"refuses a tunnel for a user", "CONNECT a@example.com:443 HTTP/1.1\r\n\r\n", NO_PORT},
    {"refuses a tunnel with a body",
     "CONNECT example.com:443 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "CONNECT has no body"},
};

static const struct secrets_view no_secrets;

static void test_row(void **state)
{
    const struct row *row = *state;
    struct framing framing;
    struct request request;
    size_t used, body_len;
    const char *body;
    scoped_strbuf struct strbuf out;
    strbuf_init(&out, 4096);
    framing_init_proxy(&framing);
    assert_int_equal(framing_next(&framing, row->text, strlen(row->text), &used, &body, &body_len),
                     FRAMING_HEAD);
    const char *wrong = request_read(&request, &framing.head);
    if (wrong)
        assert_non_null(strstr(wrong, row->want));
    else
        request_add_head(&request, &framing.head, &no_secrets, &out);
    if (!wrong)
        assert_string_equal(strbuf_str(&out), row->want);
    framing_release(&framing);
}

static void test_tunnel(void **state)
{
    static const char text[] = "CONNECT EXAMPLE.com.:443 HTTP/1.1\r\nHost: other:1\r\n\r\nhello";
    struct framing framing;
    struct request request;
    size_t used, body_len;
    const char *body;
    (void)state;
    framing_init_proxy(&framing);
    assert_int_equal(framing_next(&framing, text, sizeof(text) - 1, &used, &body, &body_len),
                     FRAMING_HEAD);
    assert_int_equal(used, sizeof(text) - 1 - strlen("hello"));
    assert_null(request_read(&request, &framing.head));
    assert_true(request.is_tunnel);
    assert_string_equal(request.to.name, "example.com");
    assert_int_equal(request.to.port, 443);
    framing_release(&framing);
}

struct inner {
    const char *name, *text;
    const char *want; /* the head that is passed on, or the words of a complaint */
};

/* Through a tunnel to example.com:443. */
static const struct inner inners[] = {
    {"inside a tunnel: a path", "GET /a?b HTTP/1.1\r\nHost: example.com\r\nA: b\r\n\r\n",
     "GET /a?b HTTP/1.1\r\nHost: example.com\r\na: b\r\nconnection: close\r\n\r\n"},
    {"inside a tunnel: its host in another spelling",
     "GET / HTTP/1.1\r\nHost: Example.COM.:443\r\n\r\n",
     "GET / HTTP/1.1\r\nHost: example.com\r\nconnection: close\r\n\r\n"},
    {"inside a tunnel: refuses another host", "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
     "another host"},
    {"inside a tunnel: refuses a host below", "GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n",
     "another host"},
    {"inside a tunnel: refuses another port", "GET / HTTP/1.1\r\nHost: example.com:80\r\n\r\n",
     "another host"},
    {"inside a tunnel: refuses a user", "GET / HTTP/1.1\r\nHost: a@example.com\r\n\r\n",
     "Host header"},
    {"inside a tunnel: refuses a request without host", "GET / HTTP/1.1\r\nA: b\r\n\r\n",
     "Host header"},
    {"inside a tunnel: refuses a whole address",
     "GET https://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", "is a path"},
    {"inside a tunnel: refuses a tunnel",
     "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n", "is a path"},
    {"inside a tunnel: refuses a star", "OPTIONS * HTTP/1.1\r\nHost: example.com\r\n\r\n",
     "is a path"},
};

static void test_inner(void **state)
{
    const struct inner *row = *state;
    struct framing framing;
    struct request request = {.is_tunnel = true, .to = {.name = "example.com", .port = 443}};
    size_t used, body_len;
    const char *body;
    scoped_strbuf struct strbuf out;
    strbuf_init(&out, 4096);
    framing_init_proxy(&framing);
    assert_int_equal(framing_next(&framing, row->text, strlen(row->text), &used, &body, &body_len),
                     FRAMING_HEAD);
    const char *wrong = request_read_inner(&request, &framing.head);
    if (wrong) {
        assert_non_null(strstr(wrong, row->want));
        assert_true(request.is_tunnel);
    } else {
        request_add_head(&request, &framing.head, &no_secrets, &out);
        assert_string_equal(strbuf_str(&out), row->want);
    }
    framing_release(&framing);
}

struct refused {
    const char *name, *text;
    enum refusal want;
};

/* A proxy is as strict about where a message ends as the server. */
static const struct refused refusals[] = {
    {"refuses two lengths",
     "POST http://a/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
     REFUSAL_CONTENT_LENGTH},
    {"refuses a length and chunks",
     "POST http://a/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
     REFUSAL_CONTENT_LENGTH},
    {"refuses another encoding", "POST http://a/ HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n",
     REFUSAL_TRANSFER_ENCODING},
    {"refuses a plain line end", "GET http://a/ HTTP/1.1\nHost: a\r\n\r\n", REFUSAL_LINE_END},
    {"refuses a folded line", "GET http://a/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n", REFUSAL_FOLD},
    {"refuses two hosts", "GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", REFUSAL_HOST},
    {"refuses another version", "GET http://a/ HTTP/2.0\r\n\r\n", REFUSAL_VERSION},
};

static void test_refused(void **state)
{
    const struct refused *row = *state;
    struct framing framing;
    size_t used, body_len;
    const char *body;
    framing_init_proxy(&framing);
    assert_int_equal(framing_next(&framing, row->text, strlen(row->text), &used, &body, &body_len),
                     FRAMING_BAD);
    assert_int_equal(framing.refusal, row->want);
    framing_release(&framing);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, rows, test_row);
    check_rows(&check, inners, test_inner);
    check_one(&check, "a tunnel, and what follows it is not read", test_tunnel);
    check_rows(&check, refusals, test_refused);
    return check_run(&check, "request");
}
