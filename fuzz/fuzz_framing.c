/* fuzz_framing.c - how bytes are cut into pieces changes nothing, and what passes obeys the rules
 *
 * The first byte says how the rest is cut the second time; the first time it comes whole. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/framing.h"

#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "fuzz.h"

#define TEXT_MAX (256 * KIB)

static void check_value(const char *value)
{
    for (const char *c = value; *c; c++)
        BUG_ON(((unsigned char)*c < 0x20 && *c != '\t') || (unsigned char)*c >= 0x7f);
}

static size_t count_of(const struct framing_head *head, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < head->header_count; i++)
        count += strcmp(head->headers[i].name, name) == 0;
    return count;
}

static void check_head(const struct framing_head *head)
{
    BUG_ON((unsigned)head->method >= METHOD_COUNT || head->target[0] != '/');
    BUG_ON(strlen(head->target) > FRAMING_TARGET_MAX_BYTES);
    BUG_ON(head->header_count > FRAMING_HEADER_MAX || count_of(head, "host") != 1);
    BUG_ON(count_of(head, "content-length") + count_of(head, "transfer-encoding") > 1);
    BUG_ON(head->is_chunked && head->content_length != FRAMING_NO_LENGTH);
    BUG_ON(head->is_chunked != (count_of(head, "transfer-encoding") == 1));
    for (size_t i = 0; i < head->header_count; i++) {
        check_value(head->headers[i].value);
        for (const char *c = head->headers[i].name; *c; c++)
            BUG_ON(*c <= ' ' || *c == ':' || (*c >= 'A' && *c <= 'Z'));
    }
}

static void note_head(struct strbuf *out, const struct framing_head *head)
{
    check_head(head);
    strbuf_add_fmt(out, "%s %s %d%d%d%d%d %llu\n", method_name(head->method), head->target,
                   head->is_chunked, head->is_http_1_0, head->is_kept_alive, head->expects_continue,
                   head->is_upgrade, (unsigned long long)head->content_length);
    for (size_t i = 0; i < head->header_count; i++)
        strbuf_add_fmt(out, "%s: %s\n", head->headers[i].name, head->headers[i].value);
}

/* One step; false when there is nothing more to read. */
static bool step(struct framing *f, struct strbuf *out, const char *data, size_t len, size_t *used)
{
    const char *body = NULL;
    size_t body_len = 0;
    enum framing_step step = framing_next(f, data, len, used, &body, &body_len);
    BUG_ON(*used > len);
    switch (step) {
    case FRAMING_MORE:
        BUG_ON(*used != len);
        return false;
    case FRAMING_HEAD:
        note_head(out, &f->head);
        return true;
    case FRAMING_BODY:
        BUG_ON(body < data || body + body_len > data + *used || body_len == 0);
        strbuf_add(out, body, body_len);
        return true;
    case FRAMING_END:
        BUG_ON(f->head.content_length != FRAMING_NO_LENGTH &&
               f->head.content_length != f->body_bytes);
        strbuf_add_str(out, "\nend\n");
        framing_again(f);
        return true;
    case FRAMING_BAD:
        BUG_ON(refusal_info(f->refusal)->status < 400);
        return false;
    }
    return false;
}

static void feed(struct framing *f, struct strbuf *out, const uint8_t *data, size_t len)
{
    scoped_free char *copy = xmalloc(len + (len == 0));
    memcpy(copy, data, len);
    size_t at = 0, used = 0;
    while (!f->refusal && step(f, out, copy + at, len - at, &used))
        at += used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > TEXT_MAX)
        return 0;
    size_t piece = (size_t)data[0] % 64 + 1;
    data++;
    size--;
    struct framing whole, cut;
    scoped_strbuf struct strbuf whole_text, cut_text;
    framing_init(&whole);
    framing_init(&cut);
    strbuf_init(&whole_text, 4 * TEXT_MAX);
    strbuf_init(&cut_text, 4 * TEXT_MAX);
    feed(&whole, &whole_text, data, size);
    for (size_t at = 0; at < size && !cut.refusal; at += piece)
        feed(&cut, &cut_text, data + at, MIN(piece, size - at));
    /* How much beside the chunks is too much may show a few bytes earlier in pieces. */
    bool is_over = cut.body_fed - cut.body_bytes > FRAMING_CHUNK_SLACK_BYTES;
    BUG_ON(!whole.refusal != !cut.refusal && !is_over);
    BUG_ON(!whole.refusal && !cut.refusal &&
           (whole_text.len != cut_text.len ||
            strcmp(strbuf_str(&whole_text), strbuf_str(&cut_text)) != 0));
    framing_release(&whole);
    framing_release(&cut);
    return 0;
}
