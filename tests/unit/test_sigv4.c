/* test_sigv4.c - the published vectors: AWS' test suite for the signer, and the examples of S3 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/sigv4.h"

#include <stdio.h>
#include <string.h>

#include "check.h"

#define EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define MAY_2013   1369353600 /* 20130524T000000Z */
#define AUG_2015   1440938160 /* 20150830T123600Z */

/* Published as examples: they open nothing. */
static const struct sigv4_keys suite_keys = {.access_key = "AKIDEXAMPLE",
                                             .secret_key =
                                                 "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                                             .region = "us-east-1",
                                             .service = "service"};
static const struct sigv4_keys s3_keys = {.access_key = "AKIAIOSFODNN7EXAMPLE",
                                          .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                                          .region = "us-east-1",
                                          .service = "s3"};

#define PAIRS 5

struct sign_case {
    const char *name;
    const char *method, *path;
    struct sigv4_pair query[PAIRS], headers[PAIRS];
    const char *body;
    const char *names, *signature;
};

static const struct sign_case suite_cases[] = {
    {"get-vanilla",
     "GET",
     "/",
     {{0}},
     {{0}},
     "",
     "host;x-amz-date",
     "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
    {"post-vanilla",
     "POST",
     "/",
     {{0}},
     {{0}},
     "",
     "host;x-amz-date",
     "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
    {"get-vanilla-query-order-key-case",
     "GET",
     "/",
     {{"Param2", "value2"}, {"Param1", "value1"}},
     {{0}},
     "",
     "host;x-amz-date",
     "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
    {"get-vanilla-empty-query-key",
     "GET",
     "/",
     {{"Param1", "value1"}},
     {{0}},
     "",
     "host;x-amz-date",
     "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"},
    {"get-vanilla-query-unreserved",
     "GET",
     "/",
     {{"-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
       "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"}},
     {{0}},
     "",
     "host;x-amz-date",
     "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
    {"get-vanilla-utf8-query",
     "GET",
     "/",
     {{"\xe1\x88\xb4", "bar"}},
     {{0}},
     "",
     "host;x-amz-date",
     "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
    {"get-utf8",
     "GET",
     "/\xe1\x88\xb4",
     {{0}},
     {{0}},
     "",
     "host;x-amz-date",
     "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
    {"get-unreserved",
     "GET",
     "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
     {{0}},
     {{0}},
     "",
     "host;x-amz-date",
     "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
    {"get-header-value-trim",
     "GET",
     "/",
     {{0}},
     {{"My-Header1", " value1"}, {"My-Header2", " \"a   b   c\""}},
     "",
     "host;my-header1;my-header2;x-amz-date",
     "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
    {"post-header-value-case",
     "POST",
     "/",
     {{0}},
     {{"My-Header1", "VALUE1"}},
     "",
     "host;my-header1;x-amz-date",
     "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d"},
    {"post-x-www-form-urlencoded",
     "POST",
     "/",
     {{0}},
     {{"Content-Type", "application/x-www-form-urlencoded"}},
     "Param1=value1",
     "content-type;host;x-amz-date",
     "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
};

/* As S3's documentation has them, with the hash of the body as a header. */
static const struct sign_case s3_cases[] = {
    {"S3: GET with a range",
     "GET",
     "/test.txt",
     {{0}},
     {{"Range", "bytes=0-9"}, {"x-amz-content-sha256", EMPTY_HASH}},
     "",
     "host;range;x-amz-content-sha256;x-amz-date",
     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
    {"S3: PUT",
     "PUT",
     "/test$file.text",
     {{0}},
     {{"Date", "Fri, 24 May 2013 00:00:00 GMT"},
      {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
      {"x-amz-content-sha256", "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"}},
     "Welcome to Amazon S3.",
     "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
     "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
    {"S3: GET of a sub-resource",
     "GET",
     "/",
     {{"lifecycle", ""}},
     {{"x-amz-content-sha256", EMPTY_HASH}},
     "",
     "host;x-amz-content-sha256;x-amz-date",
     "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
    {"S3: GET of a list",
     "GET",
     "/",
     {{"max-keys", "2"}, {"prefix", "J"}},
     {{"x-amz-content-sha256", EMPTY_HASH}},
     "",
     "host;x-amz-content-sha256;x-amz-date",
     "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
};

static size_t count_of(const struct sigv4_pair pairs[PAIRS])
{
    size_t count = 0;
    while (count < PAIRS && pairs[count].name)
        count++;
    return count;
}

struct signing {
    struct strbuf path, out;
    char hash[SIGV4_HASH_BYTES], date[SIGV4_DATE_BYTES];
    struct sigv4_request request;
};

static void prepare(struct signing *s, const struct sign_case *row)
{
    *s = (struct signing){0};
    strbuf_init(&s->path, KIB);
    strbuf_init(&s->out, 8 * KIB);
    sigv4_add_path(&s->path, row->path);
    sigv4_hash(row->body, strlen(row->body), s->hash);
    s->request = (struct sigv4_request){.method = row->method,
                                        .path = strbuf_str(&s->path),
                                        .query = row->query,
                                        .query_count = count_of(row->query),
                                        .headers = row->headers,
                                        .header_count = count_of(row->headers),
                                        .payload_hash = s->hash};
}

static void release(struct signing *s)
{
    strbuf_release(&s->path);
    strbuf_release(&s->out);
}

static void check_signature(const struct sign_case *row, const struct sigv4_keys *keys,
                            const char *host, int64_t when, const char *start)
{
    struct signing s;
    char wanted[512];
    prepare(&s, row);
    s.request.host = host;
    s.request.time_s = when;
    assert_true(sigv4_sign(keys, &s.request, s.date, &s.out));
    snprintf(wanted, sizeof(wanted), "%s, SignedHeaders=%s, Signature=%s", start, row->names,
             row->signature);
    assert_string_equal(strbuf_str(&s.out), wanted);
    release(&s);
}

static void test_suite(void **state)
{
    check_signature(*state, &suite_keys, "example.amazonaws.com", AUG_2015,
                    "AWS4-HMAC-SHA256 "
                    "Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request");
}

static void test_s3(void **state)
{
    check_signature(*state, &s3_keys, "examplebucket.s3.amazonaws.com", MAY_2013,
                    "AWS4-HMAC-SHA256 "
                    "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request");
}

static void test_presign(void **state)
{
    (void)state;
    scoped_strbuf struct strbuf out;
    strbuf_init(&out, 8 * KIB);
    const struct sigv4_request request = {.method = "GET",
                                          .host = "examplebucket.s3.amazonaws.com",
                                          .path = "/test.txt",
                                          .payload_hash = SIGV4_UNSIGNED,
                                          .time_s = MAY_2013};
    assert_true(sigv4_presign(&s3_keys, &request, 86400, &out));
    assert_string_equal(
        strbuf_str(&out),
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524"
        "%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400"
        "&X-Amz-SignedHeaders=host&X-Amz-Signature="
        "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");
}

static void test_token(void **state)
{
    (void)state;
    struct signing s;
    struct sigv4_keys keys = suite_keys;
    keys.session_token = "a+token/";
    prepare(&s, &suite_cases[0]);
    s.request.host = "example.amazonaws.com";
    s.request.time_s = AUG_2015;
    assert_true(sigv4_sign(&keys, &s.request, s.date, &s.out));
    assert_non_null(
        strstr(strbuf_str(&s.out), "SignedHeaders=host;x-amz-date;x-amz-security-token"));
    strbuf_clear(&s.out);
    assert_true(sigv4_presign(&keys, &s.request, 1, &s.out));
    assert_non_null(strstr(strbuf_str(&s.out), "&X-Amz-Security-Token=a%2Btoken%2F&"));
    release(&s);
}

/* "=" sorts after digits, names that begin with each other must not mix with it. */
static void test_query_order(void **state)
{
    (void)state;
    static const struct sigv4_pair query[] = {{"a1", "x"}, {"a", "z"}, {"a-b", "x"}, {"a", "b c"}};
    scoped_strbuf struct strbuf out;
    strbuf_init(&out, KIB);
    sigv4_add_query(&out, query, ARRAY_LEN(query));
    assert_string_equal(strbuf_str(&out), "a=b%20c&a=z&a-b=x&a1=x");
}

static void test_too_large(void **state)
{
    (void)state;
    static char large[SIGV4_REQUEST_MAX_BYTES + 1];
    struct signing s;
    memset(large, 'a', sizeof(large) - 1);
    prepare(&s, &suite_cases[0]);
    s.request.host = "example.amazonaws.com";
    s.request.path = large;
    assert_false(sigv4_sign(&suite_keys, &s.request, s.date, &s.out));
    assert_false(sigv4_presign(&suite_keys, &s.request, 1, &s.out));
    s.request.path = "/";
    s.request.query = &(struct sigv4_pair){"a", large};
    s.request.query_count = 1;
    assert_false(sigv4_sign(&suite_keys, &s.request, s.date, &s.out));
    release(&s);
}

int main(void)
{
    static struct check check;
    check_rows(&check, suite_cases, test_suite);
    check_rows(&check, s3_cases, test_s3);
    check_one(&check, "S3: presigned GET", test_presign);
    check_one(&check, "signs the token with the rest", test_token);
    check_one(&check, "sorts a query by name, then by value", test_query_order);
    check_one(&check, "refuses to sign what is too large", test_too_large);
    return check_run(&check, "sigv4");
}
