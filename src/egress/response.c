/* response.c - lines of a head, some of which are left out */
/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/response.h"

#include <string.h>
#include <strings.h>

#define STATUS_AT 9 /* HTTP/1.1 200 */

void response_init(struct response *r, const struct secrets_view *view)
{
    *r = (struct response){.view = view};
    strbuf_init(&r->head, RESPONSE_HEAD_MAX_BYTES);
    strbuf_init(&r->begun, EGRESS_SECRET_BYTES);
}

void response_release(struct response *r)
{
    strbuf_release(&r->head);
    strbuf_release(&r->begun);
}

/* Those between two neighbours, not for who is behind them. */
static bool is_hop(const char *line, size_t len)
{
    static const char *const names[] = {"connection", "keep-alive", "proxy-connection",
                                        "proxy-authenticate", "upgrade"};
    size_t name_len = 0;
    while (name_len < len && line[name_len] != ':')
        name_len++;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (name_len == strlen(names[i]) && strncasecmp(line, names[i], name_len) == 0)
            return true;
    }
    return false;
}

/* Where the head ends, behind its empty line; 0: not in here. */
static size_t find_end(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] != '\n')
            continue;
        if (i + 1 < len && text[i + 1] == '\n')
            return i + 2;
        if (i + 2 < len && text[i + 1] == '\r' && text[i + 2] == '\n')
            return i + 3;
    }
    return 0;
}

static bool is_status(const char *text, size_t len)
{
    return len > STATUS_AT + 3 && memcmp(text, "HTTP/1.", 7) == 0 && text[8] == ' ' &&
           text[STATUS_AT] >= '1' && text[STATUS_AT] <= '5';
}

static void pass_head(const char *head, size_t len, bool is_last, struct strbuf *out)
{
    bool is_left_out = false;
    for (size_t at = 0; at < len;) {
        const char *line = head + at;
        size_t line_len = (size_t)((const char *)memchr(line, '\n', len - at) - line) + 1;
        at += line_len;
        bool is_blank = line[0] == '\n' || (line[0] == '\r' && line[1] == '\n');
        bool is_folded = line[0] == ' ' || line[0] == '\t'; /* goes on with the one before */
        if (!is_folded)
            is_left_out = is_hop(line, line_len);
        if (is_blank && is_last)
            strbuf_add_str(out, "Connection: close\r\n");
        if (!is_left_out)
            strbuf_add(out, line, line_len);
    }
}

/* All but what may be the beginning of a secret, which waits for its rest. */
static void pass_body(struct response *r, const char *data, size_t len, bool is_last,
                      struct strbuf *out)
{
    size_t from = out->len;
    strbuf_add(out, strbuf_str(&r->begun), r->begun.len);
    strbuf_add(out, data, len);
    strbuf_clear(&r->begun);
    if (out->overflow)
        return;
    size_t done =
        from + secrets_cover(r->view, out->data + from, out->len - from, is_last, &r->covered);
    strbuf_add(&r->begun, out->data + done, out->len - done);
    out->len = done;
    out->data[done] = '\0';
}

bool response_feed(struct response *r, const char *data, size_t len, struct strbuf *out)
{
    if (r->has_head) {
        pass_body(r, data, len, false, out);
        return true;
    }
    strbuf_add(&r->head, data, len);
    if (r->head.overflow)
        return false;
    for (size_t end; !r->has_head && (end = find_end(r->head.data, r->head.len)) > 0;) {
        char *head = r->head.data;
        if (!is_status(head, end))
            return false;
        r->has_head = head[STATUS_AT] != '1'; /* else another one follows */
        size_t none = 0;
        secrets_cover(r->view, head, end, true, &none);
        pass_head(head, end, r->has_head, out);
        size_t rest = r->head.len - end;
        memmove(r->head.data, r->head.data + end, rest);
        r->head.len = rest;
    }
    if (r->has_head) {
        pass_body(r, strbuf_str(&r->head), r->head.len, false, out);
        strbuf_clear(&r->head);
    }
    return true;
}

void response_end(struct response *r, struct strbuf *out)
{
    pass_body(r, "", 0, true, out);
}
