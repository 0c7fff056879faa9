/* certificate.c - two certificates out of OpenSSL's pieces
 *
 * The extensions are those that strict readers ask for (RFC 5280, and Python's VERIFY_X509_STRICT):
 * key identifiers, critical constraints and usages. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/certificate.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "base/memory.h"

#define SERIAL_BYTES     16
#define SKEW_S           3600
#define DAY_S            (24 * 3600)
#define AUTHORITY_LIFE_S (368ll * DAY_S) /* no session is asked for with a longer time to live */

struct certificate_signer {
    X509 *authority;
    EVP_PKEY *authority_key;
    EVP_PKEY *key; /* of all that it signs */
};

struct extension {
    int nid;
    const char *text;
};

static const struct extension authority_extensions[] = {
    {NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
    {NID_key_usage, "critical,keyCertSign"},
    {NID_subject_key_identifier, "hash"},
};

static const struct extension host_extensions[] = {
    {NID_basic_constraints, "critical,CA:FALSE"},
    {NID_key_usage, "critical,digitalSignature"},
    {NID_ext_key_usage, "serverAuth"},
    {NID_subject_key_identifier, "hash"},
    {NID_authority_key_identifier, "keyid:always"},
};

static void set_serial(X509 *certificate)
{
    uint8_t bytes[SERIAL_BYTES];
    BUG_ON(RAND_bytes(bytes, sizeof(bytes)) != 1);
    bytes[0] = (uint8_t)((bytes[0] & 0x7f) | 0x40); /* positive, of one length */
    BIGNUM *number = BN_bin2bn(bytes, sizeof(bytes), NULL);
    BUG_ON(!number || !BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)));
    BN_free(number);
}

/* Without extensions and signature. What fails here is memory alone. */
static X509 *begin(const char *common_name, int64_t now_s, int64_t life_s, EVP_PKEY *key)
{
    X509 *certificate = X509_new();
    BUG_ON(!certificate || !X509_set_version(certificate, X509_VERSION_3));
    X509_NAME *name = X509_get_subject_name(certificate);
    set_serial(certificate);
    BUG_ON(
        !X509_NAME_add_entry_by_txt(name, "O", MBSTRING_ASC, (const uint8_t *)"Cove", -1, -1, 0) ||
        !X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)common_name, -1, -1,
                                    0) ||
        !ASN1_TIME_set(X509_getm_notBefore(certificate), (time_t)(now_s - SKEW_S)) ||
        !ASN1_TIME_set(X509_getm_notAfter(certificate), (time_t)(now_s + life_s)) ||
        !X509_set_pubkey(certificate, key));
    return certificate;
}

static void add_extensions(X509 *certificate, X509 *issuer, const struct extension *list,
                           size_t count)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    for (size_t i = 0; i < count; i++) {
        X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &context, list[i].nid, list[i].text);
        BUG_ON(!e || !X509_add_ext(certificate, e, -1));
        X509_EXTENSION_free(e);
    }
}

/* Not as text: nothing in a name is to be taken for more than a name. */
static void add_host(X509 *certificate, const char *host)
{
    uint8_t address[sizeof(struct in6_addr)];
    int address_len = inet_pton(AF_INET, host, address) == 1    ? 4
                      : inet_pton(AF_INET6, host, address) == 1 ? 16
                                                                : 0;
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_STRING *text = ASN1_STRING_type_new(address_len ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING);
    BUG_ON(!names || !name || !text ||
           !ASN1_STRING_set(text, address_len ? (const void *)address : host,
                            address_len ? address_len : (int)strlen(host)));
    GENERAL_NAME_set0_value(name, address_len ? GEN_IPADD : GEN_DNS, text);
    BUG_ON(!sk_GENERAL_NAME_push(names, name) ||
           X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, 0) != 1);
    GENERAL_NAMES_free(names);
}

/* --- the authority -----------------------------------------------------------------------------
 */

static uint32_t put(uint8_t *out, size_t max, uint8_t *der, int len)
{
    BUG_ON(len <= 0 || (size_t)len > max);
    memcpy(out, der, (size_t)len);
    OPENSSL_clear_free(der, (size_t)len);
    return (uint32_t)len;
}

int certificate_authority_make(struct certificate_authority *out, int64_t now_s, struct error *err)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    if (!key)
        return error_set(err, ERROR_INTERNAL, "cannot make a key");
    X509 *certificate = begin("Cove, for one sandbox", now_s, AUTHORITY_LIFE_S, key);
    uint8_t *der = NULL, *key_der = NULL;
    BUG_ON(!X509_set_issuer_name(certificate, X509_get_subject_name(certificate)));
    add_extensions(certificate, certificate, authority_extensions, ARRAY_LEN(authority_extensions));
    BUG_ON(!X509_sign(certificate, key, EVP_sha256()));
    *out = (struct certificate_authority){0};
    int len = i2d_X509(certificate, &der), key_len = i2d_PrivateKey(key, &key_der);
    out->certificate_len = put(out->certificate, sizeof(out->certificate), der, len);
    out->key_len = put(out->key, sizeof(out->key), key_der, key_len);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return 0;
}

void certificate_authority_clear(struct certificate_authority *a)
{
    OPENSSL_cleanse(a, sizeof(*a));
}

static X509 *read_certificate(const struct certificate_authority *a)
{
    const uint8_t *at = a->certificate;
    if (a->certificate_len > sizeof(a->certificate))
        return NULL;
    X509 *certificate = d2i_X509(NULL, &at, (long)a->certificate_len);
    ERR_clear_error();
    return certificate;
}

static EVP_PKEY *read_key(const struct certificate_authority *a)
{
    const uint8_t *at = a->key;
    if (a->key_len > sizeof(a->key))
        return NULL;
    EVP_PKEY *key = d2i_PrivateKey(EVP_PKEY_EC, NULL, &at, (long)a->key_len);
    ERR_clear_error();
    return key;
}

/* --- what it signs -----------------------------------------------------------------------------
 */

int certificate_signer_open(struct certificate_signer **out, const struct certificate_authority *a,
                            struct error *err)
{
    scoped(certificate_signer) struct certificate_signer *s = xcalloc(1, sizeof(*s));
    s->authority = read_certificate(a);
    s->authority_key = read_key(a);
    if (!s->authority || !s->authority_key ||
        X509_check_private_key(s->authority, s->authority_key) != 1) {
        ERR_clear_error();
        return error_set(err, ERROR_INVALID, "this is no authority with its key");
    }
    s->key = EVP_EC_gen("P-256");
    if (!s->key)
        return error_set(err, ERROR_INTERNAL, "cannot make a key");
    *out = take_ptr(&s);
    return 0;
}

void certificate_signer_free(struct certificate_signer *s)
{
    if (!s)
        return;
    X509_free(s->authority);
    EVP_PKEY_free(s->authority_key);
    EVP_PKEY_free(s->key);
    free(s);
}

X509 *certificate_sign(const struct certificate_signer *s, const char *name, int64_t now_s)
{
    X509 *certificate = begin("a host of one sandbox", now_s, DAY_S, s->key);
    BUG_ON(!X509_set_issuer_name(certificate, X509_get_subject_name(s->authority)));
    add_extensions(certificate, s->authority, host_extensions, ARRAY_LEN(host_extensions));
    add_host(certificate, name);
    BUG_ON(!X509_sign(certificate, s->authority_key, EVP_sha256()));
    return certificate;
}

EVP_PKEY *certificate_signer_key(const struct certificate_signer *s)
{
    return s->key;
}
