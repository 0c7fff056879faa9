/* api_key.c - see api_key.h */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/api_key.h"

#include <openssl/crypto.h>
#include <string.h>

#define MARK         "cove_"
#define MARK_CHARS   (sizeof(MARK) - 1)
#define ID_MARK      "key_"
#define ID_CHARS     26
#define SECRET_AT    (MARK_CHARS + ID_CHARS + 1)
#define SECRET_CHARS 52

_Static_assert(SECRET_AT + SECRET_CHARS + 1 == API_KEY_TEXT_BYTES, "the parts make the whole");

int api_key_make(struct api_key *out, const char *id, struct error *err)
{
    struct api_key key = {0};
    BUG_ON(id && !id_is_valid(ID_KEY, id));
    if (id)
        memcpy(key.id, id, strlen(id));
    else if (id_make(ID_KEY, key.id, err) < 0)
        return -1;
    if (id_random(key.text + SECRET_AT, SECRET_CHARS, err) < 0)
        return -1;
    memcpy(key.text, MARK, MARK_CHARS);
    memcpy(key.text + MARK_CHARS, key.id + strlen(ID_MARK), ID_CHARS);
    key.text[SECRET_AT - 1] = '_';
    api_key_hash(key.text, strlen(key.text), key.hash);
    *out = key;
    return 0;
}

/* So many letters of the alphabet; the text may end anywhere, and may hold NUL. */
static bool are_letters(const char *text, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (text[i] == '\0' || !strchr(ID_ALPHABET, text[i]))
            return false;
    }
    return true;
}

bool api_key_parse(const char *text, size_t len, char id[ID_BYTES])
{
    if (len != API_KEY_TEXT_BYTES - 1 || memcmp(text, MARK, MARK_CHARS) != 0 ||
        text[SECRET_AT - 1] != '_' || !are_letters(text + MARK_CHARS, ID_CHARS) ||
        !are_letters(text + SECRET_AT, SECRET_CHARS))
        return false;
    memcpy(id, ID_MARK, strlen(ID_MARK));
    memcpy(id + strlen(ID_MARK), text + MARK_CHARS, ID_CHARS);
    id[strlen(ID_MARK) + ID_CHARS] = '\0';
    return true;
}

void api_key_hash(const char *text, size_t len, uint8_t out[SHA256_BYTES])
{
    scoped(sha256) struct sha256 *hash = sha256_new();
    sha256_add(hash, text, len);
    sha256_end(hash, out);
}

bool api_key_matches(const char *text, size_t len, const uint8_t hash[SHA256_BYTES])
{
    uint8_t own[SHA256_BYTES];
    api_key_hash(text, len, own);
    return api_key_same(own, hash);
}

bool api_key_same(const uint8_t a[SHA256_BYTES], const uint8_t b[SHA256_BYTES])
{
    return CRYPTO_memcmp(a, b, SHA256_BYTES) == 0;
}
