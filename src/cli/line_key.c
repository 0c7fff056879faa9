/* line_key.c - control characters, escape sequences, pasted text
 *
 * A lone Escape waits for the next byte, as in other Emacs-like editors: it is the prefix of Meta.
 * Sequences that nobody knows are swallowed whole, also answers to questions that a program inside
 * made the terminal ask: none of it may end up as text. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/line_key.h"

#include <stdbool.h>
#include <string.h>

#include "base/macros.h"
#include "base/utf8.h"

#define ESCAPE      0x1b
#define PASTE_BEGIN "\033[200~"
#define PASTE_END   "\033[201~"
#define CTRL(c)     ((c) - '@')

static const enum line_key_kind control_keys[0x20] = {
    [CTRL('A')] = LINE_KEY_LINE_START,    [CTRL('B')] = LINE_KEY_LEFT,
    [CTRL('C')] = LINE_KEY_CANCEL,        [CTRL('D')] = LINE_KEY_DELETE_OR_END,
    [CTRL('E')] = LINE_KEY_LINE_END,      [CTRL('F')] = LINE_KEY_RIGHT,
    [CTRL('G')] = LINE_KEY_ABORT,         [CTRL('H')] = LINE_KEY_BACKSPACE,
    [CTRL('I')] = LINE_KEY_TAB,           [CTRL('J')] = LINE_KEY_NEWLINE,
    [CTRL('K')] = LINE_KEY_KILL_TO_END,   [CTRL('L')] = LINE_KEY_REDRAW,
    [CTRL('M')] = LINE_KEY_ENTER,         [CTRL('N')] = LINE_KEY_NEWER,
    [CTRL('P')] = LINE_KEY_OLDER,         [CTRL('R')] = LINE_KEY_SEARCH_OLDER,
    [CTRL('S')] = LINE_KEY_SEARCH_NEWER,  [CTRL('T')] = LINE_KEY_TRANSPOSE,
    [CTRL('U')] = LINE_KEY_KILL_TO_START, [CTRL('W')] = LINE_KEY_KILL_BLANK_LEFT,
    [CTRL('Y')] = LINE_KEY_YANK,          [CTRL('Z')] = LINE_KEY_SUSPEND,
    [CTRL('_')] = LINE_KEY_UNDO,
};

struct name {
    char byte;
    enum line_key_kind kind;
};

static const struct name meta_keys[] = {
    {'b', LINE_KEY_WORD_LEFT},       {'f', LINE_KEY_WORD_RIGHT}, {'d', LINE_KEY_KILL_WORD_RIGHT},
    {'\r', LINE_KEY_NEWLINE},        {'\n', LINE_KEY_NEWLINE},   {'\x7f', LINE_KEY_KILL_WORD_LEFT},
    {'\b', LINE_KEY_KILL_WORD_LEFT}, {'<', LINE_KEY_TEXT_START}, {'>', LINE_KEY_TEXT_END},
    {'p', LINE_KEY_OLDER},           {'n', LINE_KEY_NEWER},
};

/* By the last byte of ESC [ and ESC O sequences. */
static const struct name final_keys[] = {
    {'A', LINE_KEY_UP},    {'B', LINE_KEY_DOWN},       {'C', LINE_KEY_RIGHT},
    {'D', LINE_KEY_LEFT},  {'H', LINE_KEY_LINE_START}, {'F', LINE_KEY_LINE_END},
    {'M', LINE_KEY_ENTER}, /* of the number block */
};

/* By the number before a '~'. */
static const struct name number_keys[] = {
    {1, LINE_KEY_LINE_START}, {7, LINE_KEY_LINE_START}, {4, LINE_KEY_LINE_END},
    {8, LINE_KEY_LINE_END},   {3, LINE_KEY_DELETE},
};

static enum line_key_kind find(const struct name *rows, size_t count, int byte)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].byte == byte)
            return rows[i].kind;
    }
    return LINE_KEY_IGNORED;
}

/* With Ctrl or Alt held, arrows go by words. */
static enum line_key_kind with_modifier(enum line_key_kind kind, int modifier)
{
    if (modifier < 3)
        return kind;
    if (kind == LINE_KEY_LEFT)
        return LINE_KEY_WORD_LEFT;
    if (kind == LINE_KEY_RIGHT)
        return LINE_KEY_WORD_RIGHT;
    return kind == LINE_KEY_DELETE ? LINE_KEY_KILL_WORD_RIGHT : kind;
}

/* ESC [ numbers final, from its third byte on. */
static size_t read_sequence(struct line_key *out, const char *bytes, size_t len)
{
    int numbers[2] = {0, 0};
    size_t at = 2, count = 0;
    for (; at < len && bytes[at] >= 0x20 && bytes[at] < 0x40; at++) {
        if (bytes[at] == ';')
            count++;
        else if (bytes[at] >= '0' && bytes[at] <= '9' && count < 2 && numbers[count] < 1000)
            numbers[count] = numbers[count] * 10 + (bytes[at] - '0');
    }
    if (at == len)
        return 0;
    if (bytes[at] == '~')
        out->kind = find(number_keys, ARRAY_LEN(number_keys), numbers[0]);
    else
        out->kind = find(final_keys, ARRAY_LEN(final_keys), bytes[at]);
    if (bytes[at] == 'M' && at > 2) /* a report of the mouse */
        out->kind = LINE_KEY_IGNORED;
    out->kind = with_modifier(out->kind, numbers[1]);
    return bytes[at] >= 0x40 ? at + 1 : at; /* a control character breaks it off */
}

static size_t read_paste(struct line_key *out, const char *bytes, size_t len)
{
    size_t begin = strlen(PASTE_BEGIN);
    const char *end = memmem(bytes + begin, len - begin, PASTE_END, strlen(PASTE_END));
    if (!end)
        return 0;
    *out = (struct line_key){
        .kind = LINE_KEY_PASTE, .text = bytes + begin, .len = (size_t)(end - bytes) - begin};
    return (size_t)(end - bytes) + strlen(PASTE_END);
}

/* An answer of the terminal: up to BEL or ESC \. Another control character ends it as well, so that
 * a key pressed by mistake cannot swallow everything. */
static size_t read_string(const char *bytes, size_t len)
{
    for (size_t at = 2; at < len; at++) {
        if (bytes[at] == '\a')
            return at + 1;
        if (bytes[at] == ESCAPE)
            return at + 1 == len ? 0 : bytes[at + 1] == '\\' ? at + 2 : at;
        if ((unsigned char)bytes[at] < 0x20)
            return at;
    }
    return 0;
}

static size_t read_escape(struct line_key *out, const char *bytes, size_t len)
{
    if (len < 2)
        return 0;
    if (len >= strlen(PASTE_BEGIN) && memcmp(bytes, PASTE_BEGIN, strlen(PASTE_BEGIN)) == 0)
        return read_paste(out, bytes, len);
    switch (bytes[1]) {
    case '[':
        return read_sequence(out, bytes, len);
    case 'O':
        if (len > 2)
            out->kind = find(final_keys, ARRAY_LEN(final_keys), bytes[2]);
        return len > 2 ? 3 : 0;
    case ']':
    case 'P':
    case '_':
    case '^':
        return read_string(bytes, len);
    case ESCAPE: /* Meta of an arrow */
        return 1;
    default:
        out->kind = find(meta_keys, ARRAY_LEN(meta_keys), bytes[1]);
        return 2;
    }
}

static bool may_go_on(const char *bytes, size_t len)
{
    unsigned char first = (unsigned char)bytes[0];
    size_t whole = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 1;
    if (first >= 0xf5 || len >= whole)
        return false;
    for (size_t i = 1; i < len; i++) {
        if (((unsigned char)bytes[i] & 0xc0) != 0x80)
            return false;
    }
    return true;
}

size_t line_key_read(struct line_key *out, const char *bytes, size_t len)
{
    *out = (struct line_key){.kind = LINE_KEY_IGNORED};
    if (len == 0)
        return 0;
    unsigned char first = (unsigned char)bytes[0];
    if (first == ESCAPE)
        return read_escape(out, bytes, len);
    if (first < 0x20 || first == 0x7f) {
        out->kind = first == 0x7f ? LINE_KEY_BACKSPACE : control_keys[first];
        return 1;
    }
    size_t step = utf8_step(bytes, len);
    if (step == 0)
        return may_go_on(bytes, len) ? 0 : 1;
    *out = (struct line_key){.kind = LINE_KEY_TEXT, .text = bytes, .len = step};
    return step;
}
