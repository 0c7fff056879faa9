/* test_signature.c - what we signed is good, and nothing else is */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/signature.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"

#define NOW_S 1700000000

static const struct signature_keys keys = {"the secret of this server", NULL};

static const struct signature_claim claim = {
    .method = "GET",
    .session = "ses_0123456789abcdefghjkmnpqrs",
    .execution = "exe_0123456789abcdefghjkmnpqrs",
    .path = "out/\xc3\xa4 plot.png",
    .expires = "1700000001",
};

/* The members of a claim, so that tests can go through them. */
static const char **field_of(struct signature_claim *c, size_t i)
{
    const char **const fields[] = {&c->method, &c->session, &c->execution, &c->path, &c->expires};
    return i < ARRAY_LEN(fields) ? fields[i] : NULL;
}

/* Made by: printf (lengths and fields) | openssl dgst -sha256 -hmac KEY */
static void test_vector(void **state)
{
    (void)state;
    const struct signature_keys one = {"key", NULL};
    const struct signature_claim c = {"GET", "ses_a", "exe_b", "c.txt", "1"};
    char text[SIGNATURE_TEXT_BYTES];
    signature_make(&one, &c, text);
    assert_string_equal(text, "26e21fab2319bcadd9992806c8d89f5e3a0530d00177b75094d93e8bd9a0db00");
}

static void test_good(void **state)
{
    (void)state;
    char text[SIGNATURE_TEXT_BYTES];
    signature_make(&keys, &claim, text);
    assert_int_equal(strlen(text), 64);
    assert_int_equal(signature_check(&keys, &claim, text, NOW_S), SIGNATURE_GOOD);
    assert_int_equal(signature_check(&keys, &claim, text, NOW_S + 1), SIGNATURE_EXPIRED);
    assert_int_equal(signature_check(&keys, &claim, text, UINT64_MAX), SIGNATURE_EXPIRED);
}

static void test_every_bit_of_a_claim(void **state)
{
    (void)state;
    char text[SIGNATURE_TEXT_BYTES];
    size_t tried = 0;
    signature_make(&keys, &claim, text);
    for (size_t i = 0;; i++) {
        struct signature_claim other = claim;
        const char **field = field_of(&other, i);
        if (!field)
            break;
        scoped_free char *changed = xstrdup(*field);
        *field = changed;
        for (size_t bit = 0; bit < 8 * strlen(*field_of((void *)&claim, i)); bit++, tried++) {
            changed[bit / 8] = (char)(changed[bit / 8] ^ 1 << bit % 8);
            assert_int_equal(signature_check(&keys, &other, text, NOW_S), SIGNATURE_BAD);
            changed[bit / 8] = (char)(changed[bit / 8] ^ 1 << bit % 8);
        }
        assert_int_equal(signature_check(&keys, &other, text, NOW_S), SIGNATURE_GOOD);
    }
    assert_true(tried > 8 * 80);
}

static void test_every_bit_of_a_signature(void **state)
{
    (void)state;
    char text[SIGNATURE_TEXT_BYTES];
    signature_make(&keys, &claim, text);
    for (size_t bit = 0; bit < 8 * strlen(text); bit++) {
        char changed[SIGNATURE_TEXT_BYTES];
        memcpy(changed, text, sizeof(changed));
        changed[bit / 8] = (char)(changed[bit / 8] ^ 1 << bit % 8);
        assert_int_equal(signature_check(&keys, &claim, changed, NOW_S), SIGNATURE_BAD);
    }
}

static void test_every_length(void **state)
{
    (void)state;
    char text[SIGNATURE_TEXT_BYTES + 2];
    signature_make(&keys, &claim, text);
    assert_int_equal(signature_check(&keys, &claim, "", NOW_S), SIGNATURE_BAD);
    text[64] = '0';
    text[65] = '\0';
    assert_int_equal(signature_check(&keys, &claim, text, NOW_S), SIGNATURE_BAD);
    for (size_t len = 64; len-- > 0;) {
        text[len] = '\0';
        assert_int_equal(signature_check(&keys, &claim, text, NOW_S), SIGNATURE_BAD);
    }
}

/* Bytes that move from one field into the next make another claim. */
static void test_borders(void **state)
{
    (void)state;
    char text[SIGNATURE_TEXT_BYTES];
    const struct signature_claim one = {"GET", "ses_a", "exe_b", "c", "1700000001"};
    const struct signature_claim others[] = {
        {"GE", "Tses_a", "exe_b", "c", "1700000001"}, {"GETs", "es_a", "exe_b", "c", "1700000001"},
        {"GET", "ses_aexe_b", "", "c", "1700000001"}, {"GET", "ses_a", "", "exe_bc", "1700000001"},
        {"GET", "ses_a", "exe_bc", "", "1700000001"}, {"GET", "ses_a", "exe_b", "c1", "700000001"},
        {"GET", "exe_b", "ses_a", "c", "1700000001"},
    };
    signature_make(&keys, &one, text);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        assert_int_equal(signature_check(&keys, &others[i], text, NOW_S), SIGNATURE_BAD);
}

static void test_rotation(void **state)
{
    (void)state;
    const struct signature_keys rotated = {"another secret", keys.secret};
    const struct signature_keys later = {"a third secret", "another secret"};
    char old[SIGNATURE_TEXT_BYTES], new[SIGNATURE_TEXT_BYTES];
    signature_make(&keys, &claim, old);
    signature_make(&rotated, &claim, new);
    assert_string_not_equal(old, new);
    assert_int_equal(signature_check(&rotated, &claim, old, NOW_S), SIGNATURE_GOOD);
    assert_int_equal(signature_check(&rotated, &claim, new, NOW_S), SIGNATURE_GOOD);
    assert_int_equal(signature_check(&later, &claim, new, NOW_S), SIGNATURE_GOOD);
    assert_int_equal(signature_check(&later, &claim, old, NOW_S), SIGNATURE_BAD);
    assert_int_equal(signature_check(&keys, &claim, new, NOW_S), SIGNATURE_BAD);
}

/* Signed by us, and yet no time. */
static void test_expiry_that_is_none(void **state)
{
    (void)state;
    static const char *const words[] = {"",           "-1",   " 1700000001",
                                        "0x7fffffff", "1e99", "99999999999999999999"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        struct signature_claim c = claim;
        char text[SIGNATURE_TEXT_BYTES];
        c.expires = words[i];
        signature_make(&keys, &c, text);
        assert_int_equal(signature_check(&keys, &c, text, NOW_S), SIGNATURE_BAD);
    }
}

static void test_too_long(void **state)
{
    (void)state;
    scoped_free char *path = xcalloc(1, 100 * KIB);
    memset(path, 'a', 100 * KIB - 1);
    struct signature_claim c = claim;
    c.path = path;
    char text[SIGNATURE_TEXT_BYTES];
    signature_make(&keys, &claim, text);
    assert_int_equal(signature_check(&keys, &c, text, NOW_S), SIGNATURE_BAD);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "is the HMAC of lengths and fields", test_vector);
    check_one(&check, "what was signed is good until it expires", test_good);
    check_one(&check, "every bit flip of a claim is refused", test_every_bit_of_a_claim);
    check_one(&check, "every bit flip of a signature is refused", test_every_bit_of_a_signature);
    check_one(&check, "every other length is refused", test_every_length);
    check_one(&check, "fields cannot be moved into each other", test_borders);
    check_one(&check, "two secrets are good, and the new one signs", test_rotation);
    check_one(&check, "an expiry that is none is refused", test_expiry_that_is_none);
    check_one(&check, "what is too long is refused", test_too_long);
    return check_run(&check, "signature");
}
