/* s3_check.c - what is wrong with the options of a bucket; apart, since who starts a server asks,
 * too
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "base/parse.h"
#include "blob/s3.h"

#define HOST_MAX_BYTES 255
#define PORT_MAX       65535
#define HTTP_PORT      80
#define HTTPS_PORT     443

#define LOWER  "abcdefghijklmnopqrstuvwxyz0123456789"
#define LETTER LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

static bool consists_of(const char *text, const char *characters)
{
    return text[strspn(text, characters)] == '\0';
}

/* Printable ASCII without spaces: it goes into a header. */
static bool is_key_text(const char *text)
{
    for (; *text; text++) {
        if (*text <= ' ' || *text >= 0x7f)
            return false;
    }
    return true;
}

const char *s3_authority(const char *endpoint)
{
    if (strncmp(endpoint, "https://", 8) == 0)
        return endpoint + 8;
    return strncmp(endpoint, "http://", 7) == 0 ? endpoint + 7 : NULL;
}

/* 0: there is none, or what is there is none. */
static unsigned port_of(const char *authority)
{
    uint64_t port = 0;
    const char *bracket = strchr(authority, ']'); /* of an IPv6 address */
    const char *colon = strrchr(bracket ? bracket : authority, ':');
    return colon && parse_u64(colon + 1, &port) && port <= PORT_MAX ? (unsigned)port : 0;
}

static bool is_endpoint(const char *endpoint)
{
    const char *authority = s3_authority(endpoint);
    if (!authority || !*authority || strlen(authority) > HOST_MAX_BYTES ||
        !consists_of(authority, LETTER "-._:[]"))
        return false;
    const char *bracket = strchr(authority, ']');
    return !strchr(bracket ? bracket : authority, ':') || port_of(authority) > 0;
}

static bool is_bucket(const char *bucket)
{
    size_t len = strlen(bucket);
    return len >= 3 && len <= 63 && consists_of(bucket, LOWER ".-") &&
           isalnum((unsigned char)bucket[0]) && isalnum((unsigned char)bucket[len - 1]);
}

static bool is_prefix(const char *prefix)
{
    return strlen(prefix) <= BLOB_KEY_MAX_BYTES / 2 && blob_prefix_is_valid(prefix);
}

static bool is_region(const char *region)
{
    return *region && strlen(region) < 64 && consists_of(region, LETTER "-_");
}

/* A secret's value is not told. */
static int refuse(struct error *err, const char *option, const char *value, const char *hint)
{
    if (value)
        error_set(err, ERROR_INVALID, "option '%s': '%s' is not allowed", option, value);
    else
        error_set(err, ERROR_INVALID, "option '%s' is missing or not allowed", option);
    return error_hint(err, "%s", hint);
}

int s3_check(const struct s3_order *o, struct error *err)
{
    if (!o->bucket || !is_bucket(o->bucket))
        return refuse(err, "s3-bucket", o->bucket,
                      "3 to 63 of small letters, digits, '-' and '.', as S3 has it");
    if (o->endpoint && !is_endpoint(o->endpoint))
        return refuse(err, "s3-endpoint",
                      s3_authority(o->endpoint) && strchr(o->endpoint, '@') ? NULL : o->endpoint,
                      "http[s]://HOST[:PORT], with nothing behind it and no user in it");
    if (o->region && !is_region(o->region))
        return refuse(err, "s3-region", o->region, "like us-east-1");
    if (o->prefix && !is_prefix(o->prefix))
        return refuse(err, "s3-prefix", o->prefix,
                      "letters, digits, '-', '_', '.', with slashes between them, like cove/");
    if (!o->access_key || !is_key_text(o->access_key))
        return refuse(err, "s3-access-key", NULL, "set it (COVE_S3_ACCESS_KEY): printable ASCII");
    if (!o->secret_key || !is_key_text(o->secret_key))
        return refuse(err, "s3-secret-key", NULL,
                      "set it (COVE_S3_SECRET_KEY, or a file by COVE_S3_SECRET_KEY_FILE): "
                      "printable ASCII");
    if (o->session_token && !is_key_text(o->session_token))
        return refuse(err, "s3-session-token", NULL, "printable ASCII without spaces");
    return 0;
}

unsigned s3_port(const struct s3_order *o)
{
    const char *endpoint = o->endpoint ? o->endpoint : "https://";
    unsigned port = port_of(s3_authority(endpoint));
    return port ? port : strncmp(endpoint, "https:", 6) == 0 ? HTTPS_PORT : HTTP_PORT;
}
