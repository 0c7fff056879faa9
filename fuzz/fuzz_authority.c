/* fuzz_authority.c - what passes is spelt in one way, and read again as the same */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/authority.h"

#include <string.h>

#include "base/macros.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct authority a, again;
    char text[AUTHORITY_NAME_BYTES + 2];
    if (!authority_parse(&a, (const char *)data, size))
        return 0;
    size_t len = strlen(a.name);
    bool is_v6 = strchr(a.name, ':');
    BUG_ON(len == 0 || (is_v6 && !a.is_address));
    BUG_ON(a.name[strspn(a.name, "abcdefghijklmnopqrstuvwxyz0123456789-_.:")] != '\0');
    size_t at = 0;
    if (is_v6)
        text[at++] = '[';
    memcpy(text + at, a.name, len);
    at += len;
    if (is_v6)
        text[at++] = ']';
    BUG_ON(!authority_parse(&again, text, at));
    BUG_ON(strcmp(again.name, a.name) != 0 || again.is_address != a.is_address || again.port);
    return 0;
}
