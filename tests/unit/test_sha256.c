/* test_sha256.c - the published vectors, whole and in pieces */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/sha256.h"

#include <string.h>

#include "base/parse.h"
#include "check.h"

struct hash_case {
    const char *name;
    const char *text;
    size_t repeat;
    const char *hex;
};

/* FIPS 180-2, appendix B, and the empty message. */
static const struct hash_case cases[] = {
    {"hashes nothing", "", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"hashes one block", "abc", 1,
     "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"hashes two blocks", "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"hashes a million letters in pieces of one", "a", 1000000,
     "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
};

static void test_vector(void **state)
{
    const struct hash_case *row = *state;
    scoped(sha256) struct sha256 *hash = sha256_new();
    uint8_t out[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES];
    for (int round = 0; round < 2; round++) { /* the second time with a used one */
        for (size_t i = 0; i < row->repeat; i++)
            sha256_add(hash, row->text, strlen(row->text));
        sha256_end(hash, out);
        format_hex(out, sizeof(out), hex);
        assert_string_equal(hex, row->hex);
    }
}

int main(void)
{
    static struct check check;
    check_rows(&check, cases, test_vector);
    return check_run(&check, "sha256");
}
