/* test_framing.c - raw bytes of requests: what is read of them, and what is refused
 *
 * Each row is read in one piece, byte by byte, and cut at every place; it must not matter. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/framing.h"

#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "check.h"

struct row {
    const char *name;
    const char *bytes;
    size_t len;
    /* For each request "METHOD target flags", its body in <>, and ";" at its end. At last "!code"
     * of a refusal, or "..." when more must come. */
    const char *want;
};

#define RAW(text) text, sizeof(text) - 1
#define GET       "GET / HTTP/1.1\r\nHost: a\r\n"
#define POST      "POST / HTTP/1.1\r\nHost: a\r\n"
#define CHUNKED   POST "Transfer-Encoding: chunked\r\n\r\n"

static const struct row rows[] = {
    /* good */
    {"a request", RAW(GET "\r\n"), "GET /;"},
    {"a path", RAW("GET /a/b?c=d HTTP/1.1\r\nHost: a\r\n\r\n"), "GET /a/b?c=d;"},
    {"HTTP/1.0", RAW("GET / HTTP/1.0\r\nHost: a\r\n\r\n"), "GET / 1.0 close;"},
    {"HTTP/1.0 that stays", RAW("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n"),
     "GET / 1.0;"},
    {"a last request", RAW(GET "Connection: close\r\n\r\n"), "GET / close;"},
    {"a last request, in a list", RAW(GET "Connection: foo, Close\r\n\r\n"), "GET / close;"},
    {"every method",
     RAW("HEAD / HTTP/1.1\r\nHost: a\r\n\r\nPUT / HTTP/1.1\r\nHost: a\r\n\r\n"
         "DELETE / HTTP/1.1\r\nHost: a\r\n\r\nPATCH / HTTP/1.1\r\nHost: a\r\n\r\n"
         "OPTIONS / HTTP/1.1\r\nHost: a\r\n\r\n"),
     "HEAD /;PUT /;DELETE /;PATCH /;OPTIONS /;"},
    {"a body", RAW(POST "Content-Length: 5\r\n\r\nhello"), "POST /<hello>;"},
    {"an empty body", RAW(POST "Content-Length: 0\r\n\r\n"), "POST /;"},
    {"no length is no body", RAW(POST "\r\n" GET "\r\n"), "POST /;GET /;"},
    {"a body of a GET", RAW(GET "Content-Length: 2\r\n\r\nhi"), "GET /<hi>;"},
    {"two requests in a row", RAW(GET "\r\n" GET "\r\n"), "GET /;GET /;"},
    {"a request after a body", RAW(POST "Content-Length: 2\r\n\r\nhi" GET "\r\n"),
     "POST /<hi>;GET /;"},
    {"a body that looks like a request",
     RAW(POST "Content-Length: 18\r\n\r\nGET / HTTP/1.1\r\n\r\n"),
     "POST /<GET / HTTP/1.1\r\n\r\n>;"},
    {"chunks", RAW(CHUNKED "2\r\nhi\r\n3\r\nyou\r\n0\r\n\r\n"), "POST / chunked<hiyou>;"},
    {"no chunk at all", RAW(CHUNKED "0\r\n\r\n"), "POST / chunked;"},
    {"a length in hex, both cases", RAW(CHUNKED "a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n"),
     "POST / chunked<01234567890123456789>;"},
    {"a request after chunks", RAW(CHUNKED "1\r\na\r\n0\r\n\r\n" GET "\r\n"),
     "POST / chunked<a>;GET /;"},
    {"chunked in capitals", RAW(POST "transfer-encoding: CHUNKED\r\n\r\n0\r\n\r\n"),
     "POST / chunked;"},
    {"chunked with a blank after it", RAW(POST "Transfer-Encoding:  chunked \r\n\r\n0\r\n\r\n"),
     "POST / chunked;"},
    {"refuses a tab and a blank before chunked",
     RAW(POST "Transfer-Encoding:\t chunked\r\n\r\n0\r\n\r\n"), "!bad_transfer_encoding"},
    {"refuses a tab after chunked", RAW(POST "Transfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n"),
     "!bad_transfer_encoding"},
    {"refuses a tab before chunked", RAW(POST "Transfer-Encoding: \tchunked\r\n\r\n0\r\n\r\n"),
     "!bad_transfer_encoding"},
    {"a chunk with an extension", RAW(CHUNKED "1;a=b\r\nx\r\n0;c\r\n\r\n"), "POST / chunked<x>;"},
    {"a chunk with a quoted extension", RAW(CHUNKED "1;a=\"b c\"\r\nx\r\n0\r\n\r\n"),
     "POST / chunked<x>;"},
    {"100-continue", RAW(POST "Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx"),
     "POST / continue<x>;"},
    {"100-continue in 1.0 is ignored",
     RAW("POST / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx"),
     "POST / 1.0 close<x>;"},
    {"an upgrade", RAW(GET "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), "GET / upgrade;"},
    {"an upgrade with a body",
     RAW(POST "Connection: Upgrade\r\nUpgrade: x\r\nContent-Length: 1\r\n\r\ny" GET "\r\n"),
     "POST / upgrade<y>;GET /;"},
    {"an upgrade that the connection does not name", RAW(GET "Upgrade: websocket\r\n\r\n"),
     "GET /;"},
    {"one line end before the request", RAW("\r\n" GET "\r\n"), "GET /;"},
    {"one line end between requests", RAW(GET "\r\n\r\n" GET "\r\n"), "GET /;GET /;"},
    {"an empty value", RAW(GET "A:\r\n\r\n"), "GET /;"},
    {"a value of blanks", RAW(GET "A: \t \r\n\r\n"), "GET /;"},
    {"no blank after the colon", RAW("GET / HTTP/1.1\r\nHost:a\r\n\r\n"), "GET /;"},
    {"a colon in a value", RAW(GET "A: b:c: d\r\n\r\n"), "GET /;"},
    {"every sign of a name", RAW(GET "!#$%&'*+-.^_`|~09azAZ: x\r\n\r\n"), "GET /;"},
    {"a tab in a value", RAW(GET "A: b\tc\r\n\r\n"), "GET /;"},
    {"the same plain header twice", RAW(GET "A: b\r\nA: c\r\n\r\n"), "GET /;"},
    {"an encoding that changes nothing", RAW(POST "Content-Encoding: identity\r\n\r\n"), "POST /;"},
    {"a name like Content-Length", RAW(POST "Content_Length: 5\r\n\r\n"), "POST /;"},

    /* not all has come */
    {"nothing", RAW(""), "..."},
    {"half a request line", RAW("GET / HT"), "..."},
    {"half a header", RAW(GET "Acc"), "..."},
    {"no empty line", RAW(GET), "..."},
    {"half a body", RAW(POST "Content-Length: 5\r\n\r\nhel"), "POST /<hel>..."},
    {"half a chunk", RAW(CHUNKED "5\r\nhel"), "POST / chunked<hel>..."},
    {"half a chunk's length", RAW(CHUNKED "5"), "POST / chunked..."},
    {"no last line end", RAW(CHUNKED "0\r\n"), "POST / chunked..."},
    {"half of the last line end", RAW(CHUNKED "0\r\n\r"), "POST / chunked..."},

    /* request lines */
    {"refuses two line ends before the request", RAW("\r\n\r\n" GET "\r\n"), "!bad_request_line"},
    {"refuses HTTP/0.9", RAW("GET /\r\n"), "!bad_request_line"},
    {"refuses HTTP/2.0", RAW("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), "!http_version_not_supported"},
    {"refuses HTTP/1.2", RAW("GET / HTTP/1.2\r\nHost: a\r\n\r\n"), "!http_version_not_supported"},
    {"refuses HTTP/0.9 by name", RAW("GET / HTTP/0.9\r\nHost: a\r\n\r\n"),
     "!http_version_not_supported"},
    {"refuses HTTP/1.10", RAW("GET / HTTP/1.10\r\nHost: a\r\n\r\n"), "!http_version_not_supported"},
    {"refuses HTTP/11", RAW("GET / HTTP/11\r\nHost: a\r\n\r\n"), "!http_version_not_supported"},
    {"refuses the preface of HTTP/2", RAW("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
     "!http_version_not_supported"},
    {"refuses http in small letters", RAW("GET / http/1.1\r\nHost: a\r\n\r\n"),
     "!bad_request_line"},
    {"refuses another protocol", RAW("GET / RTSP/1.0\r\nHost: a\r\n\r\n"), "!bad_request_line"},
    {"refuses a blank after the version", RAW("GET / HTTP/1.1 \r\nHost: a\r\n\r\n"),
     "!bad_request_line"},
    {"refuses two blanks before the path", RAW("GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
     "!bad_request_line"},
    {"refuses two blanks after the path", RAW("GET /  HTTP/1.1\r\nHost: a\r\n\r\n"),
     "!bad_request_line"},
    {"refuses a blank in the path", RAW("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"),
     "!bad_request_line"},
    {"refuses a tab for a blank", RAW("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"), "!bad_request_line"},
    {"refuses a tab in the path", RAW("GET /\ta HTTP/1.1\r\nHost: a\r\n\r\n"), "!bad_request_line"},
    {"refuses a blank before the method", RAW(" GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
     "!bad_request_line"},
    {"refuses a method alone", RAW("GET\r\n\r\n"), "!bad_request_line"},
    {"refuses a method that is no token", RAW("G@T / HTTP/1.1\r\nHost: a\r\n\r\n"),
     "!bad_request_line"},
    {"refuses an unknown method", RAW("BREW / HTTP/1.1\r\nHost: a\r\n\r\n"),
     "!method_not_implemented"},
    {"refuses a method in small letters", RAW("get / HTTP/1.1\r\nHost: a\r\n\r\n"),
     "!method_not_implemented"},
    {"refuses CONNECT", RAW("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"), "!method_not_implemented"},
    {"refuses TRACE", RAW("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n"), "!method_not_implemented"},
    {"refuses a whole URL", RAW("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"), "!bad_path"},
    {"refuses a star", RAW("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), "!bad_path"},
    {"refuses a path without a slash", RAW("GET a HTTP/1.1\r\nHost: a\r\n\r\n"), "!bad_path"},
    {"refuses a fragment", RAW("GET /#a HTTP/1.1\r\nHost: a\r\n\r\n"), "!bad_request_line"},
    {"refuses NUL in the path", RAW("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n"), "!bad_request_line"},
    {"refuses 0x80 in the path", RAW("GET /\x80 HTTP/1.1\r\nHost: a\r\n\r\n"), "!bad_request_line"},
    {"refuses DEL in the path", RAW("GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n"), "!bad_request_line"},
    {"refuses noise", RAW("\x16\x03\x01\x02\n"), "!bad_line_end"},

    /* line ends */
    {"refuses LF alone after the request line", RAW("GET / HTTP/1.1\nHost: a\r\n\r\n"),
     "!bad_line_end"},
    {"refuses LF alone after a header", RAW("GET / HTTP/1.1\r\nHost: a\n\r\n"), "!bad_line_end"},
    {"refuses LF alone as the empty line", RAW(GET "\n"), "!bad_line_end"},
    {"refuses CR alone in a value", RAW(GET "A: b\rC: d\r\n\r\n"), "!bad_line_end"},
    {"refuses CR alone before a colon", RAW(GET "A\r: b\r\n\r\n"), "!bad_line_end"},
    {"refuses CR CR LF", RAW(GET "A: b\r\r\n\r\n"), "!bad_line_end"},
    {"refuses CR LF CR as the empty line", RAW(GET "\rX: y\r\n\r\n"), "!bad_line_end"},
    {"refuses LF before the request", RAW("\n" GET "\r\n"), "!bad_line_end"},

    /* headers */
    {"refuses a folded header", RAW(GET "A: b\r\n c\r\n\r\n"), "!bad_header"},
    {"refuses a header folded with a tab", RAW(GET "A: b\r\n\tc\r\n\r\n"), "!bad_header"},
    {"refuses a blank before the first header", RAW("GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
     "!bad_header"},
    {"refuses a blank before the colon", RAW(GET "A : b\r\n\r\n"), "!bad_header"},
    {"refuses a tab before the colon", RAW(GET "A\t: b\r\n\r\n"), "!bad_header"},
    {"refuses a header without a colon", RAW(GET "A\r\n\r\n"), "!bad_header"},
    {"refuses a header without a name", RAW(GET ": b\r\n\r\n"), "!bad_header"},
    {"refuses a blank in a name", RAW(GET "A b: c\r\n\r\n"), "!bad_header"},
    {"refuses NUL in a name", RAW(GET "A\0: b\r\n\r\n"), "!bad_header"},
    {"refuses NUL in a value", RAW(GET "A: b\0c\r\n\r\n"), "!bad_header"},
    {"refuses a control character in a value", RAW(GET "A: b\x01\r\n\r\n"), "!bad_header"},
    {"refuses DEL in a value", RAW(GET "A: b\x7f\r\n\r\n"), "!bad_header"},
    {"refuses 0x80 in a value", RAW(GET "A: b\x80\r\n\r\n"), "!bad_header"},
    {"refuses 0xff in a name", RAW(GET "\xff: b\r\n\r\n"), "!bad_header"},
    {"refuses a slash in a name", RAW(GET "A/b: c\r\n\r\n"), "!bad_header"},
    {"refuses no Host", RAW("GET / HTTP/1.1\r\nA: b\r\n\r\n"), "!bad_host"},
    {"refuses no header at all", RAW("GET / HTTP/1.1\r\n\r\n"), "!bad_host"},
    {"refuses no Host in 1.0", RAW("GET / HTTP/1.0\r\n\r\n"), "!bad_host"},
    {"refuses an empty Host", RAW("GET / HTTP/1.1\r\nHost: \r\n\r\n"), "!bad_host"},
    {"refuses two Hosts", RAW(GET "Host: b\r\n\r\n"), "!bad_host"},
    {"refuses the same Host twice", RAW(GET "hOST: a\r\n\r\n"), "!bad_host"},
    {"refuses two Origins", RAW(GET "Origin: http://a\r\nOrigin: http://b\r\n\r\n"),
     "!repeated_header"},
    {"refuses two Authorizations", RAW(GET "Authorization: a\r\nauthorization: b\r\n\r\n"),
     "!repeated_header"},
    {"refuses two API keys", RAW(GET "X-API-Key: a\r\nx-api-key: b\r\n\r\n"), "!repeated_header"},
    {"refuses two content types", RAW(POST "Content-Type: a/b\r\nContent-Type: c/d\r\n\r\n"),
     "!repeated_header"},
    {"refuses another expectation", RAW(POST "Expect: 200-ok\r\n\r\n"), "!expectation_failed"},
    {"refuses a packed body", RAW(POST "Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx"),
     "!unsupported_encoding"},

    /* lengths */
    {"refuses two lengths", RAW(POST "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx"),
     "!bad_content_length"},
    {"refuses the same length twice", RAW(POST "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx"),
     "!bad_content_length"},
    {"refuses lengths in a list", RAW(POST "Content-Length: 1, 1\r\n\r\nx"), "!bad_content_length"},
    {"refuses a leading zero", RAW(POST "Content-Length: 01\r\n\r\nx"), "!bad_content_length"},
    {"refuses two zeros", RAW(POST "Content-Length: 00\r\n\r\n"), "!bad_content_length"},
    {"refuses a plus", RAW(POST "Content-Length: +1\r\n\r\nx"), "!bad_content_length"},
    {"refuses a minus", RAW(POST "Content-Length: -1\r\n\r\nx"), "!bad_content_length"},
    {"refuses an empty length", RAW(POST "Content-Length:\r\n\r\n"), "!bad_content_length"},
    {"refuses hex", RAW(POST "Content-Length: 0x1\r\n\r\nx"), "!bad_content_length"},
    {"refuses a point", RAW(POST "Content-Length: 1.0\r\n\r\nx"), "!bad_content_length"},
    {"refuses an exponent", RAW(POST "Content-Length: 1e1\r\n\r\nx"), "!bad_content_length"},
    {"refuses a blank inside", RAW(POST "Content-Length: 1 0\r\n\r\nx"), "!bad_content_length"},
    {"refuses a length of 16 digits", RAW(POST "Content-Length: 1000000000000000\r\n\r\nx"),
     "!bad_content_length"},
    {"refuses a length of 2^64", RAW(POST "Content-Length: 18446744073709551616\r\n\r\nx"),
     "!bad_content_length"},
    {"refuses letters after the length", RAW(POST "Content-Length: 1a\r\n\r\nx"),
     "!bad_content_length"},

    /* transfer encodings */
    {"refuses length and chunks",
     RAW(POST "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "!"},
    {"refuses chunks and length",
     RAW(POST "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n"), "!"},
    {"refuses length zero and chunks",
     RAW(POST "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "!"},
    {"refuses xchunked", RAW(POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
     "!bad_transfer_encoding"},
    {"refuses chunkedx", RAW(POST "Transfer-Encoding: chunkedx\r\n\r\n0\r\n\r\n"),
     "!bad_transfer_encoding"},
    {"refuses identity", RAW(POST "Transfer-Encoding: identity\r\n\r\n"), "!bad_transfer_encoding"},
    {"refuses gzip", RAW(POST "Transfer-Encoding: gzip\r\n\r\n"), "!bad_transfer_encoding"},
    {"refuses gzip, chunked", RAW(POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
     "!bad_transfer_encoding"},
    {"refuses chunked, identity", RAW(POST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
     "!bad_transfer_encoding"},
    {"refuses chunked, chunked", RAW(POST "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
     "!bad_transfer_encoding"},
    {"refuses chunked twice",
     RAW(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "!"},
    {"refuses chunked, then identity",
     RAW(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"), "!"},
    {"refuses chunked with a comma", RAW(POST "Transfer-Encoding: chunked,\r\n\r\n0\r\n\r\n"),
     "!bad_transfer_encoding"},
    {"refuses chunked with a parameter",
     RAW(POST "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n"), "!bad_transfer_encoding"},
    {"refuses chunked in quotes", RAW(POST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"),
     "!bad_transfer_encoding"},
    {"refuses an empty encoding", RAW(POST "Transfer-Encoding:\r\n\r\n"), "!bad_transfer_encoding"},
    {"refuses chunked with a vertical tab",
     RAW(POST "Transfer-Encoding: \x0b"
              "chunked\r\n\r\n0\r\n\r\n"),
     "!bad_header"},
    {"refuses a blank before the colon of an encoding",
     RAW(POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"), "!bad_header"},
    {"refuses a folded encoding", RAW(POST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
     "!bad_header"},
    {"refuses chunks in 1.0",
     RAW("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
     "!bad_transfer_encoding"},

    /* chunks */
    {"refuses a chunk without a length", RAW(CHUNKED "\r\nx\r\n0\r\n\r\n"),
     "POST / chunked!bad_chunk"},
    {"refuses a chunk with 0x", RAW(CHUNKED "0x1\r\nx\r\n0\r\n\r\n"), "POST / chunked!bad_chunk"},
    {"refuses a chunk with a sign", RAW(CHUNKED "+1\r\nx\r\n0\r\n\r\n"),
     "POST / chunked!bad_chunk"},
    {"refuses a negative chunk", RAW(CHUNKED "-1\r\nx\r\n0\r\n\r\n"), "POST / chunked!bad_chunk"},
    {"refuses a blank before the length", RAW(CHUNKED " 1\r\nx\r\n0\r\n\r\n"),
     "POST / chunked!bad_chunk"},
    {"refuses a blank after the length", RAW(CHUNKED "1 \r\nx\r\n0\r\n\r\n"),
     "POST / chunked!bad_chunk"},
    {"refuses another letter", RAW(CHUNKED "g\r\nx\r\n0\r\n\r\n"), "POST / chunked!bad_chunk"},
    {"refuses a length of 2^64", RAW(CHUNKED "10000000000000000\r\nx\r\n0\r\n\r\n"),
     "POST / chunked!bad_chunk"},
    {"refuses a length far beyond", RAW(CHUNKED "fffffffffffffffffffff\r\nx\r\n0\r\n\r\n"),
     "POST / chunked!bad_chunk"},
    {"refuses LF alone after the length", RAW(CHUNKED "1\nx\r\n0\r\n\r\n"),
     "POST / chunked!bad_chunk"},
    {"refuses CR alone after the length", RAW(CHUNKED "1\rx\r\n0\r\n\r\n"),
     "POST / chunked!bad_chunk"},
    {"refuses LF alone after a chunk", RAW(CHUNKED "1\r\nx\n0\r\n\r\n"),
     "POST / chunked<x>!bad_chunk"},
    {"refuses a chunk longer than its length", RAW(CHUNKED "1\r\nxy\r\n0\r\n\r\n"),
     "POST / chunked<x>!bad_chunk"},
    {"refuses a chunk without its line end", RAW(CHUNKED "1\r\nx0\r\n\r\n"),
     "POST / chunked<x>!bad_chunk"},
    {"refuses LF alone at the end", RAW(CHUNKED "0\r\n\n"), "POST / chunked!bad_chunk"},
    {"refuses LF alone after the last length", RAW(CHUNKED "0\n\r\n"), "POST / chunked!bad_chunk"},
    {"refuses LF alone after an extension", RAW(CHUNKED "1;a\nx\r\n0\r\n\r\n"),
     "POST / chunked!bad_chunk"},
    {"refuses CR in an extension", RAW(CHUNKED "1;a\rb\r\nx\r\n0\r\n\r\n"),
     "POST / chunked!bad_chunk"},
    {"refuses NUL in an extension", RAW(CHUNKED "1;a\0b\r\nx\r\n0\r\n\r\n"),
     "POST / chunked!bad_chunk"},
    {"refuses a trailer", RAW(CHUNKED "0\r\nA: b\r\n\r\n"), "POST / chunked!trailers_refused"},
    {"refuses a length in the trailer", RAW(CHUNKED "0\r\nContent-Length: 5\r\n\r\n"),
     "POST / chunked!trailers_refused"},
    {"refuses a body where a request should be", RAW(GET "\r\nhello\r\n\r\n"),
     "GET /;!bad_request_line"},
    {"refuses what comes after a body that is too short for it",
     RAW(POST "Content-Length: 2\r\n\r\nhello\r\n\r\n"), "POST /<he>;!bad_request_line"},
};

struct reader {
    struct framing framing;
    struct strbuf text;
    bool is_body, is_over;
};

static void note_head(struct strbuf *out, const struct framing_head *head)
{
    strbuf_add_fmt(out, "%s %s%s%s%s%s%s", method_name(head->method), head->target,
                   head->is_http_1_0 ? " 1.0" : "", head->is_kept_alive ? "" : " close",
                   head->is_chunked ? " chunked" : "", head->expects_continue ? " continue" : "",
                   head->is_upgrade ? " upgrade" : "");
}

static void close_body(struct reader *r)
{
    if (r->is_body)
        strbuf_add_char(&r->text, '>');
    r->is_body = false;
}

static void note(struct reader *r, enum framing_step step, const char *body, size_t len)
{
    switch (step) {
    case FRAMING_MORE:
        break;
    case FRAMING_HEAD:
        note_head(&r->text, &r->framing.head);
        break;
    case FRAMING_BODY:
        if (!r->is_body)
            strbuf_add_char(&r->text, '<');
        r->is_body = true;
        strbuf_add(&r->text, body, len);
        break;
    case FRAMING_END:
        close_body(r);
        strbuf_add_char(&r->text, ';');
        framing_again(&r->framing);
        break;
    case FRAMING_BAD:
        close_body(r);
        strbuf_add_fmt(&r->text, "!%s", refusal_info(r->framing.refusal)->code);
        r->is_over = true;
        break;
    }
}

/* From memory of exactly this size. */
static void feed(struct reader *r, const char *bytes, size_t len)
{
    scoped_free char *copy = xmalloc(len + (len == 0));
    memcpy(copy, bytes, len);
    size_t at = 0;
    enum framing_step step = FRAMING_HEAD;
    while (!r->is_over && (at < len || step != FRAMING_MORE)) {
        const char *body = NULL;
        size_t used = 0, body_len = 0;
        step = framing_next(&r->framing, copy + at, len - at, &used, &body, &body_len);
        assert_true(used <= len - at);
        at += used;
        note(r, step, body, body_len);
    }
}

static void reader_open(struct reader *r)
{
    *r = (struct reader){.is_over = false};
    framing_init(&r->framing);
    strbuf_init(&r->text, 64 * KIB);
}

static void reader_close(struct reader *r)
{
    framing_release(&r->framing);
    strbuf_release(&r->text);
}

static void expect(struct reader *r, const char *want)
{
    if (!r->is_over && (framing_is_begun(&r->framing) || r->text.len == 0)) {
        close_body(r);
        strbuf_add_str(&r->text, "...");
    }
    if (strcmp(want, "!") == 0) /* two rules are broken, and either may be named */
        assert_int_equal(strbuf_str(&r->text)[0], '!');
    else
        assert_string_equal(strbuf_str(&r->text), want);
    reader_close(r);
}

static void test_row(void **state)
{
    const struct row *row = *state;
    struct reader r;
    reader_open(&r);
    feed(&r, row->bytes, row->len);
    expect(&r, row->want);

    reader_open(&r);
    for (size_t i = 0; i < row->len; i++)
        feed(&r, row->bytes + i, 1);
    expect(&r, row->want);

    for (size_t cut = 0; cut <= row->len; cut++) {
        reader_open(&r);
        feed(&r, row->bytes, cut);
        feed(&r, row->bytes + cut, row->len - cut);
        expect(&r, row->want);
    }
}

/* Text that is too long for a table: `count` times `part` between two others. */
struct big {
    const char *name, *before, *part, *after;
    size_t count;
    const char *want;
};

static const struct big bigs[] = {
    {"a path of 8 KiB", "GET /", "a", " HTTP/1.1\r\nHost: a\r\n\r\n", 8 * 1024 - 1, NULL},
    {"a path of a byte more", "GET /", "a", " HTTP/1.1\r\nHost: a\r\n\r\n", 8 * 1024,
     "!uri_too_long"},
    {"a request line without an end", "GET /", "a", "", 20 * 1024, "!uri_too_long"},
    {"a method without an end", "", "A", "", 20 * 1024, "!uri_too_long"},
    {"as many headers as may be", GET, "A: b\r\n", "\r\n", FRAMING_HEADER_MAX - 1, NULL},
    {"one header too many", GET, "A: b\r\n", "\r\n", FRAMING_HEADER_MAX, "!headers_too_large"},
    {"a header of 20 KiB", GET "A: ", "b", "\r\n\r\n", 20 * 1024, "!headers_too_large"},
    {"a name of 20 KiB", GET, "b", "", 20 * 1024, "!headers_too_large"},
    {"headers of 20 KiB", GET,
     "A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
     "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
     "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
     "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n",
     "\r\n", 90, "!headers_too_large"},
    {"an extension of 3 KiB", CHUNKED "1;", "a", "\r\nx\r\n0\r\n\r\n", 3 * 1024, NULL},
    {"an extension of 5 KiB", CHUNKED "1;", "a", "\r\nx\r\n0\r\n\r\n", 5 * 1024,
     "POST / chunked!bad_chunk"},
    {"an extension without an end", CHUNKED "1;", "a", "", 64 * 1024, "POST / chunked!bad_chunk"},
    {"many extensions", CHUNKED, "1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nx\r\n", "0\r\n\r\n",
     1000, "!"},
    {"zeros without an end", CHUNKED, "0", "", 64 * 1024, "POST / chunked!bad_chunk"},
    {"many small chunks", CHUNKED, "1\r\nx\r\n", "0\r\n\r\n", 5000, NULL},
};

static void test_big(void **state)
{
    const struct big *row = *state;
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, 128 * KIB);
    strbuf_add_str(&text, row->before);
    for (size_t i = 0; i < row->count; i++)
        strbuf_add_str(&text, row->part);
    strbuf_add_str(&text, row->after);
    for (size_t step = 1; step <= text.len; step = step * 7 + 3) {
        struct reader r;
        reader_open(&r);
        for (size_t at = 0; at < text.len && !r.is_over; at += step)
            feed(&r, text.data + at, MIN(step, text.len - at));
        const char *got = strbuf_str(&r.text);
        if (!row->want)
            assert_int_equal(got[r.text.len - 1], ';');
        else if (strcmp(row->want, "!") == 0)
            assert_true(r.is_over);
        else if (strstr(row->want, "chunked!")) /* part of a body may have come before */
            assert_string_equal(strrchr(got, '!'), strrchr(row->want, '!'));
        else
            assert_string_equal(got, row->want);
        reader_close(&r);
    }
}

static void test_headers(void **state)
{
    (void)state;
    struct reader r;
    const char request[] =
        "GET /x HTTP/1.1\r\nHoSt: a.b:1\r\nX-One:  two \t three \t \r\nEmpty:\r\n"
        "Accept: a\r\nAccept: b\r\n\r\n";
    reader_open(&r);
    size_t used, len;
    const char *body;
    assert_int_equal(framing_next(&r.framing, request, sizeof(request) - 1, &used, &body, &len),
                     FRAMING_HEAD);
    const struct framing_head *head = &r.framing.head;
    assert_int_equal(used, sizeof(request) - 1);
    assert_int_equal(head->header_count, 5);
    assert_string_equal(head->host, "a.b:1");
    assert_string_equal(framing_find(head, "host"), "a.b:1");
    assert_string_equal(framing_find(head, "x-one"), "two \t three");
    assert_string_equal(framing_find(head, "empty"), "");
    assert_string_equal(framing_find(head, "accept"), "a");
    assert_string_equal(head->headers[4].value, "b");
    assert_null(framing_find(head, "x-two"));
    assert_true(head->content_length == FRAMING_NO_LENGTH);
    reader_close(&r);
}

struct list {
    const char *name, *list;
    bool has_close;
};

static const struct list lists[] = {
    {"the token alone", "close", true},
    {"in another case", "CLOSE", true},
    {"the last of two", "keep-alive, close", true},
    {"the first of two", "close,keep-alive", true},
    {"with blanks", " \t close \t ,x", true},
    {"after empty ones", ",,close", true},
    {"no list", "", false},
    {"only commas", ",,,", false},
    {"a longer word", "closed", false},
    {"a word that ends so", "enclose", false},
    {"two words", "close it", false},
};

static void test_list(void **state)
{
    const struct list *row = *state;
    assert_int_equal(framing_list_has(row->list, "close"), row->has_close);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, rows, test_row);
    check_rows(&check, bigs, test_big);
    check_one(&check, "names are small, values have no blanks around them", test_headers);
    check_rows(&check, lists, test_list);
    return check_run(&check, "framing");
}
