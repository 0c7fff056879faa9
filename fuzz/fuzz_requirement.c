/* fuzz_requirement.c - what is taken is harmless on a command line, and its form is a fixed point
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/requirement.h"

#include <ctype.h>
#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "fuzz.h"

static void check_word(const char *word, enum runner_index index)
{
    BUG_ON(!isalnum((unsigned char)word[0]) && !(index == RUNNER_INDEX_NPM && word[0] == '@'));
    BUG_ON(strpbrk(word, ":\\$`&\n\r") || strstr(word, "../"));
    for (const char *p = word; *p; p++)
        BUG_ON(!isprint((unsigned char)*p));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    enum runner_index index = data[0] & 1 ? RUNNER_INDEX_NPM : RUNNER_INDEX_PYTHON;
    scoped_free char *text = xstrndup((const char *)data + 1, size - 1);
    struct error err;
    scoped_requirements struct requirement_set set = {0}, again = {0};
    if (requirement_set_make(&set, index, &text, 1, &err) < 0)
        return 0;
    BUG_ON(set.count != 1);
    check_word(set.items[0], index);
    BUG_ON(requirement_set_make(&again, index, set.items, 1, &err) < 0);
    BUG_ON(strcmp(set.items[0], again.items[0]) != 0);
    return 0;
}
