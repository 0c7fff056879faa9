/* refusal.c - the table, and errors as JSON
 *
 * The JSON is written here and not by jansson: a flood of bad requests should cost little. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/refusal.h"

#include "base/macros.h"
#include "base/strbuf.h"
#include "base/utf8.h"

static const struct refusal_info infos[REFUSAL_COUNT] = {
#define X(name, status, code, message) [REFUSAL_##name] = {status, code, message},
    REFUSALS(X)
#undef X
};

const struct refusal_info *refusal_info(enum refusal refusal)
{
    BUG_ON((unsigned)refusal >= REFUSAL_COUNT);
    return &infos[refusal];
}

static void add_escaped(struct strbuf *out, const char *text)
{
    for (const char *at = text; *at; at++) {
        unsigned char c = (unsigned char)*at;
        if (c == '"' || c == '\\')
            strbuf_add_char(out, '\\');
        if (c < 0x20 || c == 0x7f)
            strbuf_add_fmt(out, "\\u%04x", c);
        else
            strbuf_add_char(out, *at);
    }
}

static void add_member(struct strbuf *out, const char *key, const char *value)
{
    strbuf_add_fmt(out, "\"%s\":", key);
    if (!value) {
        strbuf_add_str(out, "null");
        return;
    }
    scoped_strbuf struct strbuf clean; /* messages may quote what a client has sent */
    strbuf_init(&clean, 8 * KIB);
    utf8_add_clean(&clean, value, strlen(value));
    strbuf_add_char(out, '"');
    add_escaped(out, strbuf_str(&clean));
    strbuf_add_char(out, '"');
}

void refusal_add_json(struct strbuf *out, const struct refusal_text *text)
{
    strbuf_add_str(out, "{\"error\":{");
    add_member(out, "code", text->code);
    strbuf_add_char(out, ',');
    add_member(out, "message", text->message);
    strbuf_add_char(out, ',');
    add_member(out, "hint", text->hint);
    strbuf_add_char(out, ',');
    add_member(out, "request_id", text->request_id);
    strbuf_add_str(out, "}}\n");
}

struct reason {
    int status;
    const char *words;
};

static const struct reason reasons[] = {
    {100, "Continue"},
    {101, "Switching Protocols"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

const char *refusal_reason(int status)
{
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
        if (reasons[i].status == status)
            return reasons[i].words;
    }
    return "Unknown";
}
