/* fuzz_events.c - who comes back with a Last-Event-ID misses nothing and hears nothing twice
 *
 * The first byte says how many events there are, the second how much of them is kept; the rest is
 * the header. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/events.h"

#include <string.h>

#include "base/memory.h"
#include "base/parse.h"
#include "core/journal.h"
#include "fuzz.h"

#define FIRST      ((uint64_t)7 << 40)
#define EVENTS_MAX 63

static struct journal *make(size_t count, size_t kept)
{
    struct journal *journal = journal_new(kept);
    for (size_t i = 0; i < count; i++)
        journal_add(journal, i + 1 == count ? JOURNAL_ENDED : JOURNAL_STDOUT, "0123456789", 10);
    return journal;
}

/* Every number behind `start` is told, or counted as missed, once. */
static void read_all(struct journal *journal, uint64_t start)
{
    struct journal_reader *reader = journal_listen(journal, start, NULL, NULL);
    struct journal_event event;
    uint64_t missed, at = MIN(start, journal_last(journal));
    while (journal_read(reader, &event, &missed)) {
        BUG_ON(event.number != at + missed + 1);
        at = event.number;
    }
    BUG_ON(at != journal_last(journal));
    journal_reader_free(reader);
}

static void check_own_ids(const struct journal *journal)
{
    for (uint64_t number = 1; number <= journal_last(journal); number++) {
        char id[FORMAT_BYTES];
        format_u64(FIRST + number, id);
        BUG_ON(events_find_start(id, FIRST) != number);
        BUG_ON(events_find_start(id, FIRST + ((uint64_t)1 << 40)) != 0); /* of the epoch before */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct journal *journal = make(data[0] & EVENTS_MAX, data[1]);
    scoped_free char *header = xstrndup((const char *)data + 2, size - 2);
    uint64_t start = events_find_start(header, FIRST);
    BUG_ON(start >= (uint64_t)1 << 40 || events_find_start(NULL, FIRST) != 0);
    read_all(journal, start);
    check_own_ids(journal);
    journal_drop(journal);
    return 0;
}
