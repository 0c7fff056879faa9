/* line_edit.c - moves and changes by characters, words and lines
 *
 * A character is a code point with the zero-width ones that follow it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/line_edit.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "cli/term_text.h"
#include "cli/term_width.h"

#define JOINER 0x200d /* makes one sign of the two around it */

void line_edit_init(struct line_edit *e, unsigned indent)
{
    *e = (struct line_edit){.indent = indent};
    strbuf_init(&e->text, LINE_EDIT_MAX_BYTES);
    strbuf_init(&e->killed, LINE_EDIT_MAX_BYTES);
}

static void drop_undo(struct line_edit *e)
{
    while (e->undo_count > 0)
        free(e->undo[--e->undo_count].text);
}

void line_edit_release(struct line_edit *e)
{
    drop_undo(e);
    strbuf_release(&e->text);
    strbuf_release(&e->killed);
}

/* --- where things are ------------------------------------------------------------------------ */

static const char *at(const struct line_edit *e, size_t byte)
{
    return strbuf_str(&e->text) + byte;
}

static bool joins(uint32_t code)
{
    return code >= 0x300 && term_width_of(code) == 0;
}

static size_t next_char(const struct line_edit *e, size_t byte)
{
    uint32_t code, before;
    if (byte >= e->text.len)
        return e->text.len;
    byte += term_text_step(at(e, byte), e->text.len - byte, &before);
    while (byte < e->text.len) {
        size_t step = term_text_step(at(e, byte), e->text.len - byte, &code);
        if (before == '\n' || (!joins(code) && before != JOINER))
            break;
        byte += step;
        before = code;
    }
    return byte;
}

static size_t line_start(const struct line_edit *e, size_t byte)
{
    while (byte > 0 && *at(e, byte - 1) != '\n')
        byte--;
    return byte;
}

static size_t line_end(const struct line_edit *e, size_t byte)
{
    const char *end = memchr(at(e, byte), '\n', e->text.len - byte);
    return end ? (size_t)(end - at(e, 0)) : e->text.len;
}

static size_t previous_char(const struct line_edit *e, size_t byte)
{
    size_t from = line_start(e, byte), next;
    if (from == byte)
        return byte > 0 ? byte - 1 : 0;
    while ((next = next_char(e, from)) < byte)
        from = next;
    return from;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static bool is_black(char c)
{
    return c != ' ' && c != '\t' && c != '\n';
}

static size_t back_over(const struct line_edit *e, bool (*belongs)(char))
{
    size_t byte = e->cursor;
    while (byte > 0 && !belongs(*at(e, byte - 1)))
        byte--;
    while (byte > 0 && belongs(*at(e, byte - 1)))
        byte--;
    return byte;
}

static size_t word_right(const struct line_edit *e)
{
    size_t byte = e->cursor;
    while (byte < e->text.len && !is_word(*at(e, byte)))
        byte++;
    while (byte < e->text.len && is_word(*at(e, byte)))
        byte++;
    return byte;
}

size_t line_edit_line_start(const struct line_edit *e)
{
    return line_start(e, e->cursor);
}

bool line_edit_is_in_last_line(const struct line_edit *e)
{
    return line_end(e, e->cursor) == e->text.len;
}

bool line_edit_is_in_indent(const struct line_edit *e)
{
    for (size_t i = line_start(e, e->cursor); i < e->cursor; i++) {
        if (is_black(*at(e, i)))
            return false;
    }
    return true;
}

/* --- changes --------------------------------------------------------------------------------- */

static void remember(struct line_edit *e, enum line_key_kind kind)
{
    bool goes_on = kind == LINE_KEY_TEXT && e->last == kind;
    e->last = kind;
    if (goes_on)
        return;
    if (e->undo_count == LINE_EDIT_UNDO_MAX) {
        free(e->undo[0].text);
        memmove(e->undo, e->undo + 1, sizeof(e->undo) - sizeof(e->undo[0]));
        e->undo_count--;
    }
    e->undo[e->undo_count++] = (struct line_edit_state){
        .text = xstrndup(at(e, 0), e->text.len), .len = e->text.len, .cursor = e->cursor};
}

static void undo(struct line_edit *e)
{
    e->last = LINE_KEY_UNDO;
    if (e->undo_count == 0)
        return;
    struct line_edit_state *s = &e->undo[--e->undo_count];
    strbuf_clear(&e->text);
    strbuf_add(&e->text, s->text, s->len);
    e->cursor = s->cursor;
    free(s->text);
}

static void splice(struct line_edit *e, size_t from, size_t to, const char *text, size_t len)
{
    size_t tail = e->text.len - to;
    if (from + len + tail > LINE_EDIT_MAX_BYTES)
        return;
    scoped_free char *rest = xstrndup(at(e, to), tail);
    e->text.len = from;
    strbuf_add(&e->text, text, len);
    strbuf_add(&e->text, rest, tail);
    e->cursor = from + len;
}

void line_edit_replace(struct line_edit *e, size_t from, size_t to, const char *text, size_t len)
{
    remember(e, LINE_KEY_PASTE);
    splice(e, from, to, text, len);
}

void line_edit_insert(struct line_edit *e, const char *text, size_t len)
{
    line_edit_replace(e, e->cursor, e->cursor, text, len);
}

void line_edit_set(struct line_edit *e, const char *text, size_t len)
{
    line_edit_replace(e, 0, e->text.len, text, len);
}

void line_edit_clear(struct line_edit *e)
{
    drop_undo(e);
    strbuf_clear(&e->text);
    e->cursor = 0;
    e->last = LINE_KEY_IGNORED;
}

void line_edit_paste(struct line_edit *e, const char *text, size_t len)
{
    scoped_strbuf struct strbuf clean;
    size_t step;
    strbuf_init(&clean, LINE_EDIT_MAX_BYTES);
    for (size_t i = 0; i < len; i += step) {
        uint32_t code;
        step = term_text_step(text + i, len - i, &code);
        if (code == '\r' && i + 1 < len && text[i + 1] == '\n')
            continue;
        if (code == '\r' || code == '\n')
            strbuf_add_char(&clean, '\n');
        else if (code == '\t' || (code >= 0x20 && code != 0x7f && code != TERM_TEXT_BROKEN &&
                                  !(code >= 0x80 && code < 0xa0)))
            strbuf_add(&clean, text + i, step);
    }
    line_edit_insert(e, strbuf_str(&clean), clean.len);
}

/* Kills in a row, all in one direction, are yanked together. */
static void kill_text(struct line_edit *e, size_t from, size_t to, enum line_key_kind kind)
{
    bool goes_on = e->last == kind;
    if (from == to)
        return;
    remember(e, kind);
    scoped_free char *before = xstrndup(strbuf_str(&e->killed), goes_on ? e->killed.len : 0);
    strbuf_clear(&e->killed);
    if (from == e->cursor)
        strbuf_add_str(&e->killed, before);
    strbuf_add(&e->killed, at(e, from), to - from);
    if (from != e->cursor)
        strbuf_add_str(&e->killed, before);
    splice(e, from, to, "", 0);
}

static void erase(struct line_edit *e, size_t from, size_t to, enum line_key_kind kind)
{
    if (from == to)
        return;
    remember(e, kind);
    splice(e, from, to, "", 0);
}

/* Inside an indentation it takes a whole step of it. */
static void backspace(struct line_edit *e)
{
    size_t start = line_start(e, e->cursor), column = e->cursor - start;
    size_t from = previous_char(e, e->cursor);
    if (column > 0 && strspn(at(e, start), " ") >= column)
        from = start + (column - 1) / e->indent * e->indent;
    erase(e, from, e->cursor, LINE_KEY_BACKSPACE);
}

static void transpose(struct line_edit *e)
{
    size_t start = line_start(e, e->cursor);
    size_t right = e->cursor == line_end(e, e->cursor) ? previous_char(e, e->cursor) : e->cursor;
    if (right <= start || right == e->text.len)
        return;
    size_t left = previous_char(e, right), end = next_char(e, right);
    scoped_strbuf struct strbuf both;
    strbuf_init(&both, LINE_EDIT_MAX_BYTES);
    strbuf_add(&both, at(e, right), end - right);
    strbuf_add(&both, at(e, left), right - left);
    line_edit_replace(e, left, end, strbuf_str(&both), both.len);
}

/* --- lines ----------------------------------------------------------------------------------- */

static size_t columns_between(const struct line_edit *e, size_t from, size_t to)
{
    size_t columns = 0;
    uint32_t code;
    for (; from < to; from += term_text_step(at(e, from), to - from, &code)) {
        term_text_step(at(e, from), to - from, &code);
        columns += term_width_of(code);
    }
    return columns;
}

static void go_to_column(struct line_edit *e, size_t start, size_t column)
{
    size_t byte = start, end = line_end(e, start), next;
    while (byte < end && columns_between(e, start, next = next_char(e, byte)) <= column)
        byte = next;
    e->cursor = byte;
    e->last = LINE_KEY_IGNORED;
}

bool line_edit_up(struct line_edit *e)
{
    size_t start = line_start(e, e->cursor);
    if (start == 0)
        return false;
    go_to_column(e, line_start(e, start - 1), columns_between(e, start, e->cursor));
    return true;
}

bool line_edit_down(struct line_edit *e)
{
    size_t start = line_start(e, e->cursor), end = line_end(e, e->cursor);
    if (end == e->text.len)
        return false;
    go_to_column(e, end + 1, columns_between(e, start, e->cursor));
    return true;
}

/* --- keys ------------------------------------------------------------------------------------ */

/* Where a motion leads; false when the key is none. */
static bool find_target(const struct line_edit *e, enum line_key_kind kind, size_t *target)
{
    switch ((int)kind) {
    case LINE_KEY_LEFT:
        *target = previous_char(e, e->cursor);
        return true;
    case LINE_KEY_RIGHT:
        *target = next_char(e, e->cursor);
        return true;
    case LINE_KEY_WORD_LEFT:
        *target = back_over(e, is_word);
        return true;
    case LINE_KEY_WORD_RIGHT:
        *target = word_right(e);
        return true;
    case LINE_KEY_LINE_START:
        *target = line_start(e, e->cursor);
        return true;
    case LINE_KEY_LINE_END:
        *target = line_end(e, e->cursor);
        return true;
    case LINE_KEY_TEXT_START:
        *target = 0;
        return true;
    case LINE_KEY_TEXT_END:
        *target = e->text.len;
        return true;
    }
    return false;
}

/* What a kill takes: to the end of the line, or when it is there already, the newline. */
static bool find_killed(const struct line_edit *e, enum line_key_kind kind, size_t *from,
                        size_t *to)
{
    *from = *to = e->cursor;
    switch ((int)kind) {
    case LINE_KEY_KILL_TO_END:
        *to = line_end(e, e->cursor);
        if (*to == e->cursor && *to < e->text.len)
            (*to)++;
        return true;
    case LINE_KEY_KILL_TO_START:
        *from = line_start(e, e->cursor);
        return true;
    case LINE_KEY_KILL_WORD_LEFT:
        *from = back_over(e, is_word);
        return true;
    case LINE_KEY_KILL_BLANK_LEFT:
        *from = back_over(e, is_black);
        return true;
    case LINE_KEY_KILL_WORD_RIGHT:
        *to = word_right(e);
        return true;
    }
    return false;
}

static bool change(struct line_edit *e, const struct line_key *key)
{
    switch ((int)key->kind) {
    case LINE_KEY_TEXT:
        remember(e, LINE_KEY_TEXT);
        splice(e, e->cursor, e->cursor, key->text, key->len);
        return true;
    case LINE_KEY_PASTE:
        line_edit_paste(e, key->text, key->len);
        return true;
    case LINE_KEY_NEWLINE:
        line_edit_insert(e, "\n", 1);
        return true;
    case LINE_KEY_BACKSPACE:
        backspace(e);
        return true;
    case LINE_KEY_DELETE:
        erase(e, e->cursor, next_char(e, e->cursor), LINE_KEY_DELETE);
        return true;
    case LINE_KEY_YANK:
        line_edit_insert(e, strbuf_str(&e->killed), e->killed.len);
        return true;
    case LINE_KEY_TRANSPOSE:
        transpose(e);
        return true;
    case LINE_KEY_UNDO:
        undo(e);
        return true;
    }
    return false;
}

bool line_edit_key(struct line_edit *e, const struct line_key *key)
{
    size_t from, to;
    if (find_target(e, key->kind, &to)) {
        e->cursor = to;
        e->last = LINE_KEY_IGNORED;
        return true;
    }
    if (find_killed(e, key->kind, &from, &to)) {
        kill_text(e, from, to, key->kind);
        return true;
    }
    return change(e, key);
}
