/* nearest.c - edit distance with swapped neighbours, in three fixed rows: no heap, no recursion */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nearest.h"

#include <stdbool.h>
#include <string.h>

#include "base/macros.h"

#define PREFIX_MIN_BYTES 3 /* "tim" is a cut "timeout"; "t" could be anything */

static unsigned edit_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    unsigned rows[3][NEAREST_WORD_MAX_BYTES + 1];
    unsigned *before = rows[0], *last = rows[1], *now = rows[2];
    for (unsigned j = 0; j <= b_len; j++)
        last[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= b_len; j++) {
            unsigned change = last[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = MIN(change, MIN(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = MIN(now[j], before[j - 2] + 1);
        }
        unsigned *spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[b_len];
}

void nearest_offer(struct nearest *nearest, const char *name)
{
    size_t word_len = strlen(nearest->word), name_len = strlen(name);
    if (word_len == 0 || word_len > NEAREST_WORD_MAX_BYTES || name_len > NEAREST_WORD_MAX_BYTES)
        return;

    unsigned distance = edit_distance(nearest->word, word_len, name, name_len);
    if (word_len >= PREFIX_MIN_BYTES && strncmp(nearest->word, name, word_len) == 0)
        distance = MIN(distance, 1u);
    bool is_close = distance <= (word_len + 2) / 3 && distance < name_len;
    if (is_close && (!nearest->best || distance < nearest->distance)) {
        nearest->best = name;
        nearest->distance = distance;
    }
}
