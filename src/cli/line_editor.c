/* line_editor.c - what keys mean beyond the text itself: history, search, and asking the caller */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/line_editor.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/term_text.h"

#define WANTED_MAX_BYTES 200
#define BANNER_MAX_BYTES 2000

void line_editor_init(struct line_editor *ed, struct line_history *history, unsigned indent)
{
    *ed = (struct line_editor){.history = history, .prompt = "", .more = ""};
    ed->at = line_history_count(history);
    line_edit_init(&ed->edit, indent);
    strbuf_init(&ed->wanted, WANTED_MAX_BYTES);
    strbuf_init(&ed->banner, BANNER_MAX_BYTES);
}

void line_editor_release(struct line_editor *ed)
{
    line_edit_release(&ed->edit);
    strbuf_release(&ed->wanted);
    strbuf_release(&ed->banner);
    free(ed->draft);
}

void line_editor_clear(struct line_editor *ed)
{
    line_edit_clear(&ed->edit);
    ed->at = line_history_count(ed->history);
    free(take_ptr(&ed->draft));
    ed->is_searching = false;
}

bool line_editor_is_recalled(const struct line_editor *ed)
{
    return ed->at < line_history_count(ed->history) &&
           strcmp(line_history_get(ed->history, ed->at), strbuf_str(&ed->edit.text)) == 0;
}

/* --- history --------------------------------------------------------------------------------- */

static void show(struct line_editor *ed, size_t at)
{
    bool is_draft = at == line_history_count(ed->history);
    const char *text = is_draft ? ed->draft : line_history_get(ed->history, at);
    ed->at = at;
    line_edit_set(&ed->edit, text, strlen(text));
    if (is_draft)
        free(take_ptr(&ed->draft));
}

/* What was written first chooses: only entries that begin with it are shown. */
static void recall(struct line_editor *ed, bool is_newer)
{
    size_t at = ed->at;
    if (!ed->draft) {
        if (is_newer)
            return;
        ed->draft = xstrdup(strbuf_str(&ed->edit.text));
    }
    if (line_history_find_prefix(ed->history, &at, is_newer, ed->draft, strbuf_str(&ed->edit.text)))
        show(ed, at);
    else if (is_newer)
        show(ed, line_history_count(ed->history));
    else if (ed->at == line_history_count(ed->history))
        free(take_ptr(&ed->draft));
}

/* --- search ---------------------------------------------------------------------------------- */

static void begin_search(struct line_editor *ed)
{
    ed->is_searching = true;
    ed->has_found = false;
    strbuf_clear(&ed->wanted);
    if (!ed->draft)
        ed->draft = xstrdup(strbuf_str(&ed->edit.text));
    ed->at = line_history_count(ed->history);
}

/* Searches from the entry that is shown on: `is_next` leaves that one out. */
static void search(struct line_editor *ed, bool is_newer, bool is_next)
{
    const char *wanted = strbuf_str(&ed->wanted);
    size_t count = line_history_count(ed->history), at = ed->at;
    if (ed->wanted.len == 0)
        return;
    if (!is_next && at < count)
        at += is_newer ? (size_t)-1 : 1; /* the one that is shown may still match */
    const char *but = is_next && ed->has_found ? strbuf_str(&ed->edit.text) : NULL;
    ed->has_found = line_history_find_part(ed->history, &at, is_newer, wanted, but) ||
                    (is_next && ed->has_found);
    if (!ed->has_found)
        return;
    if (at < count && (at != ed->at || !is_next)) {
        ed->at = at;
        const char *entry = line_history_get(ed->history, at);
        line_edit_set(&ed->edit, entry, strlen(entry));
    }
    const char *found = strstr(strbuf_str(&ed->edit.text), wanted);
    ed->edit.cursor = found ? (size_t)(found - strbuf_str(&ed->edit.text)) : ed->edit.text.len;
}

static void shorten_wanted(struct line_editor *ed)
{
    while (ed->wanted.len > 0 && ((unsigned char)ed->wanted.data[--ed->wanted.len] & 0xc0) == 0x80)
        ;
    if (ed->wanted.data)
        ed->wanted.data[ed->wanted.len] = '\0';
    ed->at = line_history_count(ed->history);
    search(ed, false, false);
}

static void end_search(struct line_editor *ed, bool is_taken)
{
    ed->is_searching = false;
    if (is_taken && ed->has_found)
        return;
    show(ed, line_history_count(ed->history));
}

/* True when the key belongs to the search; any other takes what was found and acts on it. */
static bool search_key(struct line_editor *ed, const struct line_key *key)
{
    switch ((int)key->kind) {
    case LINE_KEY_TEXT:
        if (ed->wanted.len + key->len <= WANTED_MAX_BYTES)
            strbuf_add(&ed->wanted, key->text, key->len);
        search(ed, false, false);
        return true;
    case LINE_KEY_BACKSPACE:
        shorten_wanted(ed);
        return true;
    case LINE_KEY_SEARCH_OLDER:
    case LINE_KEY_SEARCH_NEWER:
        search(ed, key->kind == LINE_KEY_SEARCH_NEWER, true);
        return true;
    case LINE_KEY_CANCEL:
    case LINE_KEY_ABORT:
        end_search(ed, false);
        return true;
    case LINE_KEY_IGNORED:
        return true;
    }
    end_search(ed, true);
    return false;
}

/* --- keys ------------------------------------------------------------------------------------ */

static enum line_event tab(struct line_editor *ed)
{
    struct line_edit *e = &ed->edit;
    if (!line_edit_is_in_indent(e))
        return LINE_COMPLETE;
    size_t column = e->cursor - line_edit_line_start(e);
    for (size_t i = column % e->indent; i < e->indent; i++)
        line_edit_insert(e, " ", 1);
    return LINE_GOES_ON;
}

enum line_event line_editor_key(struct line_editor *ed, const struct line_key *key)
{
    struct line_key local = *key;
    if (ed->is_searching && search_key(ed, key))
        return LINE_GOES_ON;
    switch ((int)key->kind) {
    case LINE_KEY_ENTER:
        return LINE_ENTER;
    case LINE_KEY_TAB:
        return tab(ed);
    case LINE_KEY_CANCEL:
        return LINE_CANCELLED;
    case LINE_KEY_SUSPEND:
        return LINE_SUSPEND;
    case LINE_KEY_REDRAW:
        return LINE_REDRAW;
    case LINE_KEY_UP:
        if (!line_edit_up(&ed->edit))
            recall(ed, false);
        return LINE_GOES_ON;
    case LINE_KEY_DOWN:
        if (!line_edit_down(&ed->edit))
            recall(ed, true);
        return LINE_GOES_ON;
    case LINE_KEY_OLDER:
    case LINE_KEY_NEWER:
        recall(ed, key->kind == LINE_KEY_NEWER);
        return LINE_GOES_ON;
    case LINE_KEY_SEARCH_OLDER:
    case LINE_KEY_SEARCH_NEWER:
        begin_search(ed);
        return LINE_GOES_ON;
    case LINE_KEY_DELETE_OR_END:
        if (ed->edit.text.len == 0)
            return LINE_END;
        local.kind = LINE_KEY_DELETE;
        break;
    }
    line_edit_key(&ed->edit, &local);
    return LINE_GOES_ON;
}

/* While searching, the prompt is what is looked for: its end, when it is long. */
static void set_banner(struct line_editor *ed, unsigned width)
{
    scoped_strbuf struct strbuf safe;
    strbuf_init(&safe, BANNER_MAX_BYTES);
    term_text_add(&safe, strbuf_str(&ed->wanted), ed->wanted.len, false);
    const char *label = ed->has_found || ed->wanted.len == 0 ? "search" : "not found";
    unsigned room = width > 16 ? width - 16 : 1;
    strbuf_clear(&ed->banner);
    strbuf_add_fmt(&ed->banner, "(%s ", label);
    term_text_add_cut(&ed->banner, strbuf_str(&safe), safe.len, room);
    strbuf_add_str(&ed->banner, ") ");
}

void line_editor_frame(struct line_editor *ed, struct line_frame *out, unsigned width)
{
    if (ed->is_searching)
        set_banner(ed, width);
    *out = (struct line_frame){
        .prompt = ed->is_searching ? strbuf_str(&ed->banner) : ed->prompt,
        .more = ed->more,
        .text = strbuf_str(&ed->edit.text),
        .len = ed->edit.text.len,
        .cursor = ed->edit.cursor,
    };
}
