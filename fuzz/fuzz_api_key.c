/* fuzz_api_key.c - what is taken for a key has the shape of one, and a valid id */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/api_key.h"

#include <string.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char id[ID_BYTES] = "";
    if (!api_key_parse((const char *)data, size, id)) {
        BUG_ON(id[0] != '\0');
        return 0;
    }
    BUG_ON(size != API_KEY_TEXT_BYTES - 1 || !id_is_valid(ID_KEY, id));
    BUG_ON(memcmp(id + 4, data + 5, 26) != 0);
    uint8_t hash[SHA256_BYTES];
    api_key_hash((const char *)data, size, hash);
    BUG_ON(!api_key_matches((const char *)data, size, hash));
    return 0;
}
