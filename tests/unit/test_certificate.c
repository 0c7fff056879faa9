/* test_certificate.c - what an authority of a session signs is believed by who trusts it, and by
 * nobody else */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/certificate.h"

#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <time.h>

#include "check.h"

#define NOW_S 1800000000ll
#define DAY_S (24 * 3600)

static X509 *read_authority(const struct certificate_authority *a)
{
    const uint8_t *at = a->certificate;
    X509 *certificate = d2i_X509(NULL, &at, (long)a->certificate_len);
    assert_non_null(certificate);
    return certificate;
}

/* As strict as Python is by default from 3.13 on. */
static int verify(X509 *trusted, X509 *certificate, const char *host, int64_t at_s)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *context = X509_STORE_CTX_new();
    assert_true(store && context && X509_STORE_add_cert(store, trusted));
    assert_true(X509_STORE_CTX_init(context, store, certificate, NULL));
    X509_VERIFY_PARAM *want = X509_STORE_CTX_get0_param(context);
    X509_VERIFY_PARAM_set_flags(want, X509_V_FLAG_X509_STRICT);
    X509_VERIFY_PARAM_set_time(want, (time_t)at_s);
    X509_VERIFY_PARAM_set_purpose(want, X509_PURPOSE_SSL_SERVER);
    if (!X509_VERIFY_PARAM_set1_ip_asc(want, host))
        assert_true(X509_VERIFY_PARAM_set1_host(want, host, 0));
    int status = X509_verify_cert(context) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(context);
    X509_STORE_CTX_free(context);
    X509_STORE_free(store);
    return status;
}

struct row {
    const char *name, *signed_for, *asked_for;
    int64_t at_s;
    int want;
};

static const struct row rows[] = {
    {"a name", "api.example.com", "api.example.com", NOW_S, X509_V_OK},
    {"an address", "192.0.2.1", "192.0.2.1", NOW_S, X509_V_OK},
    {"an address of version 6", "2001:db8::1", "2001:db8::1", NOW_S, X509_V_OK},
    {"another name", "api.example.com", "evil.example", NOW_S, X509_V_ERR_HOSTNAME_MISMATCH},
    {"a name below it", "example.com", "a.example.com", NOW_S, X509_V_ERR_HOSTNAME_MISMATCH},
    {"another address", "192.0.2.1", "192.0.2.2", NOW_S, X509_V_ERR_IP_ADDRESS_MISMATCH},
    {"a clock that is slow", "a.example", "a.example", NOW_S - 1800, X509_V_OK},
    {"a clock that is wrong", "a.example", "a.example", NOW_S - 7200,
     X509_V_ERR_CERT_NOT_YET_VALID},
    {"the next day", "a.example", "a.example", NOW_S + DAY_S + 1, X509_V_ERR_CERT_HAS_EXPIRED},
};

static void test_row(void **state)
{
    const struct row *row = *state;
    struct error err;
    struct certificate_authority authority;
    scoped(certificate_signer) struct certificate_signer *signer = NULL;
    assert_int_equal(certificate_authority_make(&authority, NOW_S, &err), 0);
    assert_int_equal(certificate_signer_open(&signer, &authority, &err), 0);
    X509 *trusted = read_authority(&authority);
    X509 *certificate = certificate_sign(signer, row->signed_for, NOW_S);
    assert_int_equal(verify(trusted, certificate, row->asked_for, row->at_s), row->want);
    assert_int_equal(X509_check_private_key(certificate, certificate_signer_key(signer)), 1);
    X509_free(certificate);
    X509_free(trusted);
}

/* Two have the same name; their keys tell them apart. */
static void test_strangers(void **state)
{
    struct error err;
    struct certificate_authority mine, other;
    scoped(certificate_signer) struct certificate_signer *signer = NULL;
    (void)state;
    assert_int_equal(certificate_authority_make(&mine, NOW_S, &err), 0);
    assert_int_equal(certificate_authority_make(&other, NOW_S, &err), 0);
    assert_int_equal(certificate_signer_open(&signer, &mine, &err), 0);
    X509 *trusted = read_authority(&other);
    X509 *certificate = certificate_sign(signer, "a.example", NOW_S);
    assert_int_not_equal(verify(trusted, certificate, "a.example", NOW_S), X509_V_OK);
    X509_free(certificate);
    X509_free(trusted);
}

/* Who has the key of a host cannot sign with it. */
static void test_no_second_authority(void **state)
{
    struct error err;
    struct certificate_authority authority;
    scoped(certificate_signer) struct certificate_signer *signer = NULL;
    (void)state;
    assert_int_equal(certificate_authority_make(&authority, NOW_S, &err), 0);
    assert_int_equal(certificate_signer_open(&signer, &authority, &err), 0);
    X509 *trusted = read_authority(&authority);
    X509 *certificate = certificate_sign(signer, "a.example", NOW_S);
    assert_int_equal(X509_check_ca(certificate), 0);
    assert_int_equal(X509_check_ca(trusted), 1);
    assert_int_equal(X509_get_pathlen(trusted), 0);
    X509_free(certificate);
    X509_free(trusted);
}

static void test_nonsense(void **state)
{
    struct error err;
    struct certificate_authority good, other, bad;
    struct certificate_signer *signer = NULL;
    (void)state;
    assert_int_equal(certificate_authority_make(&good, NOW_S, &err), 0);
    assert_int_equal(certificate_authority_make(&other, NOW_S, &err), 0);
    bad = good;
    memcpy(bad.key, other.key, sizeof(bad.key)); /* of another */
    bad.key_len = other.key_len;
    assert_int_equal(certificate_signer_open(&signer, &bad, &err), -1);
    bad = good;
    bad.certificate_len = UINT32_MAX;
    assert_int_equal(certificate_signer_open(&signer, &bad, &err), -1);
    bad = good;
    bad.key_len = UINT32_MAX;
    assert_int_equal(certificate_signer_open(&signer, &bad, &err), -1);
    bad = (struct certificate_authority){0};
    assert_int_equal(certificate_signer_open(&signer, &bad, &err), -1);
    certificate_authority_clear(&good);
    assert_int_equal(good.key_len, 0);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, rows, test_row);
    check_one(&check, "another session's is not believed", test_strangers);
    check_one(&check, "what it signs is no authority", test_no_second_authority);
    check_one(&check, "refuses what is no authority with its key", test_nonsense);
    return check_run(&check, "certificate");
}
