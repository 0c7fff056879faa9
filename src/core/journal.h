/* journal.h - what happens in an execution, numbered, for those who listen and those who come back
 *
 * Events are kept up to a number of bytes, the newest ones; a reader takes them one by one at his
 * own pace and may begin behind any number. He is woken when there is more, once until he has
 * read all. One who is too slow, or comes too late, is told how many he has missed.
 *
 * Counted: whoever writes holds it, and each reader does. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

enum journal_kind {
    JOURNAL_STARTED,
    JOURNAL_STDOUT,
    JOURNAL_STDERR,
    JOURNAL_RESULT,
    JOURNAL_ARTIFACT,
    JOURNAL_ENDED, /* the last one */
    JOURNAL_KINDS
};

const char *journal_kind_name(enum journal_kind kind); /* "stdout" */

/* Borrowed until the next call for the same journal. */
struct journal_event {
    uint64_t number; /* from 1 */
    enum journal_kind kind;
    const char *data; /* output: any bytes; of the others: JSON; a NUL follows */
    size_t len;
};

struct journal;

struct journal *journal_new(size_t max_bytes);
void journal_drop(struct journal *journal); /* by the writer; readers may still read what is kept */

/* Nothing may follow JOURNAL_ENDED, which is kept whatever its size. */
void journal_add(struct journal *journal, enum journal_kind kind, const void *data, size_t len);
bool journal_has_ended(const struct journal *journal);
uint64_t journal_last(const struct journal *journal); /* number of the newest; 0: none yet */

struct journal_reader;
typedef void (*journal_wake_fn)(void *ctx);

/* Begins behind event number `after` (0: at the first). `wake` comes from inside journal_add(). */
struct journal_reader *journal_listen(struct journal *journal, uint64_t after, journal_wake_fn wake,
                                      void *ctx);
void journal_reader_free(struct journal_reader *reader);

/* The next event; false: there is none now. *missed counts those before it that are gone. */
bool journal_read(struct journal_reader *reader, struct journal_event *out, uint64_t *missed);
