/* test_api_key.c - keys that are made, recognised and compared */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/api_key.h"

#include <string.h>

#include "base/memory.h"
#include "base/parse.h"
#include "check.h"

#define ID_PART "0123456789abcdefghjkmnpqrs"
#define SECRET  "tvwxyz0123456789abcdefghjkmnpqrstvwxyz0123456789abcd"

struct parse_case {
    const char *name, *text;
    bool is_valid;
};

static const struct parse_case cases[] = {
    {"a whole key is one", "cove_" ID_PART "_" SECRET, true},
    {"one with another mark is none", "cave_" ID_PART "_" SECRET, false},
    {"one letter less is none", "cove_" ID_PART "_tvwxyz0123456789abcdefghjkmnpqrstvwxyz012345678",
     false},
    {"one letter more is none", "cove_" ID_PART "_" SECRET "0", false},
    {"one without its second mark is none", "cove_" ID_PART "0" SECRET, false},
    {"a look-alike letter is none", "cove_l123456789abcdefghjkmnpqrs_" SECRET, false},
    {"upper case is none", "cove_" ID_PART "_Tvwxyz0123456789abcdefghjkmnpqrstvwxyz0123456789abcd",
     false},
    {"the parts the other way round are none", "cove_" SECRET "_" ID_PART, false},
    {"the id is none", "key_" ID_PART, false},
    {"nothing is none", "", false},
};

static void test_parse(void **state)
{
    const struct parse_case *c = *state;
    char id[ID_BYTES] = "before";
    assert_int_equal(api_key_parse(c->text, strlen(c->text), id), c->is_valid);
    assert_string_equal(id, c->is_valid ? "key_" ID_PART : "before");
}

static void test_nul(void **state)
{
    (void)state;
    char text[] = "cove_" ID_PART "_" SECRET;
    char id[ID_BYTES];
    assert_true(api_key_parse(text, sizeof(text) - 1, id));
    assert_false(api_key_parse(text, sizeof(text), id));
    text[40] = '\0';
    assert_false(api_key_parse(text, sizeof(text) - 1, id));
}

static void test_make(void **state)
{
    (void)state;
    static struct api_key keys[200];
    struct error err;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        struct api_key *k = &keys[i];
        char id[ID_BYTES];
        assert_int_equal(api_key_make(k, NULL, &err), 0);
        assert_int_equal(strlen(k->text), API_KEY_TEXT_BYTES - 1);
        assert_true(id_is_valid(ID_KEY, k->id));
        assert_true(api_key_parse(k->text, strlen(k->text), id));
        assert_string_equal(id, k->id);
        assert_true(api_key_matches(k->text, strlen(k->text), k->hash));
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(k->id, keys[j].id);
            assert_string_not_equal(k->text + 32, keys[j].text + 32);
        }
    }
    assert_false(api_key_matches(keys[0].text, strlen(keys[0].text), keys[1].hash));
}

static void test_make_as(void **state)
{
    (void)state;
    struct api_key k, other;
    struct error err;
    assert_int_equal(api_key_make(&k, "key_" ID_PART, &err), 0);
    assert_int_equal(api_key_make(&other, "key_" ID_PART, &err), 0);
    assert_string_equal(k.id, "key_" ID_PART);
    assert_memory_equal(k.text, "cove_" ID_PART "_", 32);
    assert_string_not_equal(k.text, other.text);
    assert_true(api_key_same(k.hash, k.hash));
    assert_false(api_key_same(k.hash, other.hash));
}

/* Each letter counts, the first and the last. */
static void test_match(void **state)
{
    (void)state;
    struct api_key k;
    struct error err;
    assert_int_equal(api_key_make(&k, NULL, &err), 0);
    for (size_t i = 0; i < strlen(k.text); i++) {
        char other[API_KEY_TEXT_BYTES];
        memcpy(other, k.text, sizeof(other));
        other[i] ^= 1;
        assert_false(api_key_matches(other, strlen(k.text), k.hash));
    }
    assert_false(api_key_matches(k.text, strlen(k.text) - 1, k.hash));
    assert_false(api_key_matches("", 0, k.hash));
}

/* What is stored is plain SHA-256 of the text, so that other programs can check it, too. */
static void test_hash(void **state)
{
    (void)state;
    uint8_t hash[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES];
    api_key_hash("abc", 3, hash);
    format_hex(hash, sizeof(hash), hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, cases, test_parse);
    check_one(&check, "NUL is no letter", test_nul);
    check_one(&check, "keys are all different, whole, and match their hash", test_make);
    check_one(&check, "the id may be given, the secret is new each time", test_make_as);
    check_one(&check, "one letter off is another key", test_match);
    check_one(&check, "the hash is SHA-256 of the text", test_hash);
    return check_run(&check, "api_key");
}
