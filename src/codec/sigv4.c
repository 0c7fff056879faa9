/* sigv4.c - the canonical request, the string to sign, the key of the day, the signature
 *
 * The steps and their names are those of the published description ("Signature Version 4 signing
 * process"); tests/unit/test_sigv4.c has its vectors. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/sigv4.h"

#include <ctype.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/parse.h"
#include "base/scoped.h"

#define ALGORITHM   "AWS4-HMAC-SHA256"
#define HASH_SIZE   32
#define DAY_LEN     8 /* of a date, "20150830" */
#define OWN_PAIRS   8 /* that are added here */
#define SECRET_MAX  4096
#define SCOPE_BYTES 256

/* --- encoding -------------------------------------------------------------------------------- */

static void add_encoded(struct strbuf *out, const char *text, const char *kept)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if ((c < 0x80 && isalnum(c)) || strchr(kept, c))
            strbuf_add_char(out, (char)c);
        else
            strbuf_add_fmt(out, "%%%02X", c);
    }
}

void sigv4_add_path(struct strbuf *out, const char *path)
{
    add_encoded(out, path, "-._~/");
}

void sigv4_add_word(struct strbuf *out, const char *word)
{
    add_encoded(out, word, "-._~");
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Pairs are compared by name, then by value, each as it is encoded. "=" sorts after "-", "." and
 * digits, so that whole texts would not do; the lowest of all characters stands in its place. */
#define PAIR_MARK '\x01'

void sigv4_add_query(struct strbuf *out, const struct sigv4_pair *query, size_t count)
{
    char *texts[SIGV4_PAIRS_MAX + OWN_PAIRS];
    BUG_ON(count > ARRAY_LEN(texts));
    for (size_t i = 0; i < count; i++) {
        struct strbuf text;
        strbuf_init(&text, SIGV4_REQUEST_MAX_BYTES);
        sigv4_add_word(&text, query[i].name);
        strbuf_add_char(&text, PAIR_MARK);
        sigv4_add_word(&text, query[i].value);
        texts[i] = strbuf_take(&text);
    }
    if (count > 0)
        qsort(texts, count, sizeof(texts[0]), by_text);
    for (size_t i = 0; i < count; i++) {
        char *mark = strchr(texts[i], PAIR_MARK);
        if (mark) /* it is missing when the text was cut, and then so is the request */
            *mark = '=';
        strbuf_add_fmt(out, "%s%s", i ? "&" : "", texts[i]);
        free(texts[i]);
    }
}

/* --- headers --------------------------------------------------------------------------------- */

/* Those that are signed, with names in lower case, sorted. */
struct signed_headers {
    struct sigv4_pair pairs[SIGV4_PAIRS_MAX + OWN_PAIRS]; /* names are owned */
    size_t count;
};

static void headers_add(struct signed_headers *headers, const char *name, const char *value)
{
    char *lower = xstrdup(name);
    BUG_ON(headers->count == ARRAY_LEN(headers->pairs));
    for (char *c = lower; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    headers->pairs[headers->count++] = (struct sigv4_pair){lower, value};
}

static int by_name(const void *a, const void *b)
{
    const struct sigv4_pair *left = a, *right = b;
    int order = strcmp(left->name, right->name);
    return order ? order : strcmp(left->value, right->value);
}

static void headers_sort(struct signed_headers *headers)
{
    qsort(headers->pairs, headers->count, sizeof(headers->pairs[0]), by_name);
}

static void headers_release(struct signed_headers *headers)
{
    for (size_t i = 0; i < headers->count; i++)
        free((char *)headers->pairs[i].name);
}

#define scoped_headers __attribute__((cleanup(headers_release)))

static void add_names(struct strbuf *out, const struct signed_headers *headers)
{
    for (size_t i = 0; i < headers->count; i++)
        strbuf_add_fmt(out, "%s%s", i ? ";" : "", headers->pairs[i].name);
}

/* Spaces around it go, and several in a row are one. */
static void add_value(struct strbuf *out, const char *value)
{
    value += strspn(value, " \t");
    for (; *value; value++) {
        bool is_space = *value == ' ' || *value == '\t';
        if (is_space && (value[1] == ' ' || value[1] == '\t' || value[1] == '\0'))
            continue;
        strbuf_add_char(out, is_space ? ' ' : *value);
    }
}

static void add_headers(struct strbuf *out, const struct signed_headers *headers)
{
    for (size_t i = 0; i < headers->count; i++) {
        strbuf_add_fmt(out, "%s:", headers->pairs[i].name);
        add_value(out, headers->pairs[i].value);
        strbuf_add_char(out, '\n');
    }
}

/* --- signing --------------------------------------------------------------------------------- */

void sigv4_hash(const void *data, size_t len, char hex[SIGV4_HASH_BYTES])
{
    uint8_t hash[HASH_SIZE];
    BUG_ON(!EVP_Digest(len ? data : "", len, hash, NULL, EVP_sha256(), NULL));
    format_hex(hash, sizeof(hash), hex);
}

static void hmac(uint8_t out[HASH_SIZE], const void *key, size_t key_len, const char *text)
{
    size_t len = 0;
    BUG_ON(!EVP_Q_mac(NULL, "HMAC", NULL, "SHA256", NULL, key, key_len, (const unsigned char *)text,
                      strlen(text), out, HASH_SIZE, &len) ||
           len != HASH_SIZE);
}

/* What a signature is bound to: day, region, service. */
static void format_scope(const struct sigv4_keys *keys, const char *date, char out[SCOPE_BYTES])
{
    snprintf(out, SCOPE_BYTES, "%.*s/%s/%s/aws4_request", DAY_LEN, date, keys->region,
             keys->service);
}

static void derive_key(const struct sigv4_keys *keys, const char *date, uint8_t key[HASH_SIZE])
{
    char secret[SECRET_MAX + 8];
    char day[DAY_LEN + 1];
    int len = snprintf(secret, sizeof(secret), "AWS4%s", keys->secret_key);
    snprintf(day, sizeof(day), "%.*s", DAY_LEN, date);
    BUG_ON(len < 0 || (size_t)len >= sizeof(secret));
    hmac(key, secret, (size_t)len, day);
    hmac(key, key, HASH_SIZE, keys->region);
    hmac(key, key, HASH_SIZE, keys->service);
    hmac(key, key, HASH_SIZE, "aws4_request");
    OPENSSL_cleanse(secret, sizeof(secret));
}

static void format_date(int64_t time_s, char out[SIGV4_DATE_BYTES])
{
    struct tm tm;
    time_t when = (time_t)time_s;
    if (!gmtime_r(&when, &tm) || strftime(out, SIGV4_DATE_BYTES, "%Y%m%dT%H%M%SZ", &tm) == 0)
        snprintf(out, SIGV4_DATE_BYTES, "19700101T000000Z");
}

/* The hex signature of a request with this query; false: it was too large. */
static bool make_signature(const struct sigv4_keys *keys, const struct sigv4_request *r,
                           const char *query, const struct signed_headers *headers,
                           const char *date, char hex[SIGV4_HASH_BYTES])
{
    scoped_strbuf struct strbuf text;
    char scope[SCOPE_BYTES], hash[SIGV4_HASH_BYTES];
    uint8_t key[HASH_SIZE], signature[HASH_SIZE];
    strbuf_init(&text, SIGV4_REQUEST_MAX_BYTES);
    strbuf_add_fmt(&text, "%s\n%s\n%s\n", r->method, r->path, query);
    add_headers(&text, headers);
    strbuf_add_char(&text, '\n');
    add_names(&text, headers);
    strbuf_add_fmt(&text, "\n%s", r->payload_hash);
    if (text.overflow)
        return false;
    sigv4_hash(text.data, text.len, hash);
    format_scope(keys, date, scope);
    strbuf_clear(&text);
    strbuf_add_fmt(&text, ALGORITHM "\n%s\n%s\n%s", date, scope, hash);
    derive_key(keys, date, key);
    hmac(signature, key, sizeof(key), strbuf_str(&text));
    OPENSSL_cleanse(key, sizeof(key));
    format_hex(signature, sizeof(signature), hex);
    return true;
}

bool sigv4_sign(const struct sigv4_keys *keys, const struct sigv4_request *r,
                char date[SIGV4_DATE_BYTES], struct strbuf *out)
{
    scoped_headers struct signed_headers headers = {.count = 0};
    scoped_strbuf struct strbuf query;
    char scope[SCOPE_BYTES], signature[SIGV4_HASH_BYTES];
    BUG_ON(r->header_count > SIGV4_PAIRS_MAX || r->query_count > SIGV4_PAIRS_MAX);
    format_date(r->time_s, date);
    headers_add(&headers, "host", r->host);
    headers_add(&headers, "x-amz-date", date);
    if (keys->session_token)
        headers_add(&headers, "x-amz-security-token", keys->session_token);
    for (size_t i = 0; i < r->header_count; i++)
        headers_add(&headers, r->headers[i].name, r->headers[i].value);
    headers_sort(&headers);
    strbuf_init(&query, SIGV4_REQUEST_MAX_BYTES);
    sigv4_add_query(&query, r->query, r->query_count);
    if (query.overflow || !make_signature(keys, r, strbuf_str(&query), &headers, date, signature))
        return false;
    format_scope(keys, date, scope);
    strbuf_add_fmt(out, ALGORITHM " Credential=%s/%s, SignedHeaders=", keys->access_key, scope);
    add_names(out, &headers);
    strbuf_add_fmt(out, ", Signature=%s", signature);
    return !out->overflow;
}

bool sigv4_presign(const struct sigv4_keys *keys, const struct sigv4_request *r, unsigned expires_s,
                   struct strbuf *out)
{
    scoped_headers struct signed_headers headers = {.count = 0};
    scoped_strbuf struct strbuf query, names;
    struct sigv4_pair pairs[SIGV4_PAIRS_MAX + OWN_PAIRS];
    char date[SIGV4_DATE_BYTES], scope[SCOPE_BYTES], expires[16], signature[SIGV4_HASH_BYTES];
    scoped_free char *credential = NULL;
    size_t count = r->query_count;
    BUG_ON(r->header_count > SIGV4_PAIRS_MAX || count > SIGV4_PAIRS_MAX || expires_s < 1 ||
           expires_s > SIGV4_PRESIGN_MAX_S);
    format_date(r->time_s, date);
    format_scope(keys, date, scope);
    credential = xasprintf("%s/%s", keys->access_key, scope);
    snprintf(expires, sizeof(expires), "%u", expires_s);
    headers_add(&headers, "host", r->host);
    for (size_t i = 0; i < r->header_count; i++)
        headers_add(&headers, r->headers[i].name, r->headers[i].value);
    headers_sort(&headers);
    strbuf_init(&names, SIGV4_REQUEST_MAX_BYTES);
    add_names(&names, &headers);

    for (size_t i = 0; i < count; i++)
        pairs[i] = r->query[i];
    pairs[count++] = (struct sigv4_pair){"X-Amz-Algorithm", ALGORITHM};
    pairs[count++] = (struct sigv4_pair){"X-Amz-Credential", credential};
    pairs[count++] = (struct sigv4_pair){"X-Amz-Date", date};
    pairs[count++] = (struct sigv4_pair){"X-Amz-Expires", expires};
    pairs[count++] = (struct sigv4_pair){"X-Amz-SignedHeaders", strbuf_str(&names)};
    if (keys->session_token)
        pairs[count++] = (struct sigv4_pair){"X-Amz-Security-Token", keys->session_token};
    strbuf_init(&query, SIGV4_REQUEST_MAX_BYTES);
    sigv4_add_query(&query, pairs, count);
    if (query.overflow || names.overflow ||
        !make_signature(keys, r, strbuf_str(&query), &headers, date, signature))
        return false;
    strbuf_add_fmt(out, "%s&X-Amz-Signature=%s", strbuf_str(&query), signature);
    return !out->overflow;
}
