/* sessions.c - which columns a list of sessions has */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/sessions.h"

#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "cli/client/doc.h"

static const char *const heads[] = {"ID",      "NAME", "STATE", "TEMPLATE", "LANGUAGE",
                                    " MEMORY", " AGE", " IDLE", " ENDS IN", NULL};

static enum term_style style_of(const char *state)
{
    static const struct {
        const char *state;
        enum term_style style;
    } styles[] = {{"ready", TERM_GREEN}, {"busy", TERM_YELLOW},    {"creating", TERM_YELLOW},
                  {"failed", TERM_RED},  {"terminated", TERM_DIM}, {"terminating", TERM_DIM}};
    for (size_t i = 0; i < ARRAY_LEN(styles); i++) {
        if (strcmp(styles[i].state, state) == 0)
            return styles[i].style;
    }
    return TERM_PLAIN;
}

static void add_span(struct table *table, int64_t from, int64_t to)
{
    char text[DOC_TEXT_BYTES];
    doc_format_span(from, to, text);
    table_add(table, text, TERM_PLAIN);
}

static void add_session(struct table *table, const json_t *session, int64_t now)
{
    char memory[DOC_TEXT_BYTES];
    const char *state = doc_text(session, "state", "?");
    int64_t ended = doc_time(session, "ended_at"), used = doc_time(session, "last_used_at");
    int64_t created = doc_time(session, "created_at");
    doc_format_bytes(doc_number(json_object_get(session, "resources"), "memory_bytes", 0), memory);
    table_add(table, doc_text(session, "id", "-"), TERM_BOLD);
    table_add(table, doc_text(session, "name", "-"), TERM_PLAIN);
    table_add(table, state, style_of(state));
    table_add(table, doc_text(session, "template", "-"), TERM_PLAIN);
    table_add(table, doc_text(session, "language", "-"), TERM_PLAIN);
    table_add(table, memory, TERM_PLAIN);
    add_span(table, created, now);
    add_span(table, ended || strcmp(state, "busy") == 0 ? 0 : used ? used : created, now);
    add_span(table, ended ? 0 : now, doc_time(session, "expires_at"));
}

struct table *sessions_table(const json_t *sessions)
{
    struct table *table = table_new(heads);
    int64_t now = clock_wall_ns();
    for (size_t i = 0; i < json_array_size(sessions); i++)
        add_session(table, json_array_get(sessions, i), now);
    return table;
}
