/* repl_complete.c - what of an answer is text, and how much of it can be said for sure */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/repl_complete.h"

#include <string.h>

#include "cli/term_text.h"

static size_t count_chars(const char *text, size_t len)
{
    size_t count = 0, step;
    uint32_t code;
    for (size_t i = 0; i < len; i += step, count++)
        step = term_text_step(text + i, len - i, &code);
    return count;
}

static size_t bytes_of_chars(const char *text, size_t len, json_int_t count)
{
    size_t at = 0;
    uint32_t code;
    for (; count > 0 && at < len; count--)
        at += term_text_step(text + at, len - at, &code);
    return at;
}

static bool is_plain(const char *text)
{
    size_t len = strlen(text), step;
    for (size_t i = 0; i < len; i += step) {
        uint32_t code;
        step = term_text_step(text + i, len - i, &code);
        if (!term_text_is_safe(code) || code == TERM_TEXT_BROKEN)
            return false;
    }
    return len > 0;
}

/* Those that are text; a name that could steer the terminal is no name. New. */
static json_t *plain_matches(const json_t *answer)
{
    json_t *list = json_array();
    const json_t *match;
    size_t i;
    json_array_foreach(json_object_get(answer, "matches"), i, match)
    {
        if (json_is_string(match) && is_plain(json_string_value(match)))
            json_array_append_new(list, json_string(json_string_value(match)));
    }
    return list;
}

static size_t common_bytes(const json_t *matches)
{
    const char *first = json_string_value(json_array_get(matches, 0));
    size_t common = strlen(first), i;
    const json_t *match;
    json_array_foreach(matches, i, match)
    {
        const char *text = json_string_value(match);
        size_t n = 0;
        while (n < common && text[n] == first[n])
            n++;
        common = n;
    }
    while (common > 0 && ((unsigned char)first[common] & 0xc0) == 0x80)
        common--; /* not inside a character */
    return common;
}

void repl_complete_ask(struct strbuf *body, const struct line_edit *e)
{
    strbuf_add_fmt(body, "%zu", count_chars(strbuf_str(&e->text), e->cursor));
    strbuf_add_char(body, '\0');
    strbuf_add(body, strbuf_str(&e->text), e->text.len);
}

json_t *repl_complete_take(struct line_edit *e, const json_t *answer)
{
    json_t *matches = plain_matches(answer);
    const char *text = strbuf_str(&e->text);
    json_int_t start = json_integer_value(json_object_get(answer, "start"));
    json_int_t end = json_integer_value(json_object_get(answer, "end"));
    size_t count = json_array_size(matches);
    if (count > 0 && start >= 0 && start <= end) {
        const char *first = json_string_value(json_array_get(matches, 0));
        size_t from = bytes_of_chars(text, e->text.len, start);
        size_t to = bytes_of_chars(text, e->text.len, end), common = common_bytes(matches);
        bool is_news = common > to - from || strncmp(text + from, first, to - from) != 0;
        if (is_news && (count == 1 || common >= to - from))
            line_edit_replace(e, from, to, first, common);
        else if (count > 1)
            return matches;
    }
    json_decref(matches);
    return NULL;
}
