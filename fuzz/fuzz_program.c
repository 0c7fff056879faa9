/* fuzz_program.c - the strings of a start are taken apart only when they are exactly as announced
 *
 * The first four bytes are argc and envc, 16 bits each; the rest are the strings. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "init/program.h"

#include <string.h>

#include "base/macros.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "fuzz.h"

/* What program_parse() must answer, said in another way: one NUL per string, the last at the end.
 */
static bool is_good(const struct guest_message *m, const char *strings)
{
    size_t ends = 0;
    for (size_t i = 0; i < m->strings_len; i++)
        ends += strings[i] == '\0';
    return m->argc >= 1 && m->argc <= GUEST_ARGS_MAX && m->envc <= GUEST_ARGS_MAX &&
           ends == 1 + (size_t)m->argc + m->envc && strings[m->strings_len - 1] == '\0';
}

/* Every string follows the one before it, and the list ends where it should. */
static const char *check_list(char *const *list, uint32_t count, const char *at)
{
    for (uint32_t i = 0; i < count; i++) {
        BUG_ON(list[i] != at);
        at += strlen(at) + 1;
    }
    BUG_ON(list[count]);
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct program program;
    if (size < 4 || size - 4 > GUEST_STRINGS_MAX)
        return 0;
    const struct guest_message m = {.argc = data[0] | (uint32_t)data[1] << 8,
                                    .envc = data[2] | (uint32_t)data[3] << 8,
                                    .strings_len = (uint32_t)(size - 4)};
    scoped_free char *strings = xmalloc(size); /* at least one byte */
    memcpy(strings, data + 4, size - 4);
    memset(strings + size - 4, 'x', 4); /* no NUL behind the end helps */
    bool is_taken = program_parse(&program, &m, strings);
    BUG_ON(is_taken != is_good(&m, strings));
    if (is_taken) {
        BUG_ON(program.directory != strings);
        const char *at = check_list(program.argv, m.argc, strings + strlen(strings) + 1);
        BUG_ON(check_list(program.envp, m.envc, at) != strings + m.strings_len);
    }
    return 0;
}
