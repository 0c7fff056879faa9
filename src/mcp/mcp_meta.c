/* mcp_meta.c - marks of the modern era decide; without any, a request is one of the legacy era */
/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/mcp_meta.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/parse.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "codec/base64.h"

#define HEADER_VERSION "mcp-protocol-version"
#define HEADER_METHOD  "mcp-method"
#define HEADER_NAME    "mcp-name"
#define HEADER_PARAM   "mcp-param-"
#define SCHEMA_HEADER  "x-mcp-header"
#define BASE64_BEGIN   "=?base64?"
#define BASE64_END     "?="
#define NAME_MAX_BYTES 128

static bool refuse(struct mcp_refusal *out, int code, json_t *data, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
static bool refuse(struct mcp_refusal *out, int code, json_t *data, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    *out = (struct mcp_refusal){.code = code, .status = MCP_STATUS_BAD_REQUEST, .data = data};
    vsnprintf(out->text, sizeof(out->text), fmt, args);
    va_end(args);
    return false;
}

static const char *header_of(const struct mcp_delivery *d, const char *name)
{
    return d->header ? d->header(d->ctx, name) : NULL;
}

/* --- the version ------------------------------------------------------------------------------ */

/* No mark in the message: a header may still be one. */
static const struct mcp_version *
legacy_version(const char *header, const struct mcp_version *agreed, struct mcp_refusal *out)
{
    const struct mcp_version *said = header ? mcp_version_find(header) : NULL;
    if (header && said && said->era == MCP_MODERN) {
        refuse(out, RPC_INVALID_PARAMS, NULL,
               "params._meta: '" MCP_KEY_VERSION "' is missing, which version %s needs", header);
        return NULL;
    }
    if (header && !said) {
        refuse(out, RPC_UNSUPPORTED_VERSION,
               json_pack("{s:o, s:o}", "supported", mcp_version_names(MCP_MODERN), "requested",
                         json_text(header, strlen(header))),
               "MCP-Protocol-Version: '%.64s' is not spoken here", header);
        return NULL;
    }
    return agreed ? agreed : said ? said : mcp_version_newest(MCP_LEGACY);
}

static const struct mcp_version *modern_version(const json_t *meta, const char *text,
                                                struct mcp_refusal *out)
{
    const struct mcp_version *version = mcp_version_find(text);
    if (!version || version->era != MCP_MODERN) {
        refuse(
            out, RPC_UNSUPPORTED_VERSION,
            json_pack("{s:o, s:s}", "supported", mcp_version_names(MCP_MODERN), "requested", text),
            "version '%.64s' is not spoken in this way", text);
        return NULL;
    }
    if (!json_is_object(json_object_get(meta, MCP_KEY_CAPABILITIES))) {
        refuse(out, RPC_INVALID_PARAMS, NULL,
               "params._meta: '" MCP_KEY_CAPABILITIES "' must be an object");
        return NULL;
    }
    return version;
}

const struct mcp_version *mcp_meta_version(const struct rpc_message *m,
                                           const struct mcp_delivery *d,
                                           const struct mcp_version *agreed,
                                           struct mcp_refusal *out)
{
    const json_t *meta = json_object_get(m->params, MCP_META);
    const json_t *mark = json_object_get(meta, MCP_KEY_VERSION);
    const char *header = header_of(d, HEADER_VERSION), *text = json_string_value(mark);
    if (!mark)
        return legacy_version(header, agreed, out);
    if (!text) {
        refuse(out, RPC_INVALID_PARAMS, NULL, "params._meta: '" MCP_KEY_VERSION "' must be text");
        return NULL;
    }
    if (d->header && (!header || strcmp(header, text) != 0)) {
        refuse(out, RPC_HEADER_MISMATCH, NULL,
               "MCP-Protocol-Version: must be '%.64s' as in params._meta", text);
        return NULL;
    }
    return modern_version(meta, text, out);
}

/* --- headers ---------------------------------------------------------------------------------- */

static size_t trim(const char **text)
{
    *text += strspn(*text, " \t");
    size_t len = strlen(*text);
    while (len > 0 && strchr(" \t", (*text)[len - 1]))
        len--;
    return len;
}

static bool is_encoded(const char *text, size_t len)
{
    size_t begin = strlen(BASE64_BEGIN), end = strlen(BASE64_END);
    return len >= begin + end && strncmp(text, BASE64_BEGIN, begin) == 0 &&
           strncmp(text + len - end, BASE64_END, end) == 0;
}

bool mcp_meta_header_is(const char *header, const char *text)
{
    size_t len = trim(&header), want = strlen(text), plain_len;
    if (!is_encoded(header, len))
        return len == want && memcmp(header, text, len) == 0;
    header += strlen(BASE64_BEGIN);
    len -= strlen(BASE64_BEGIN) + strlen(BASE64_END);
    scoped_free uint8_t *plain = xmalloc(BASE64_DECODED_MAX_LEN(len) + 1);
    return base64_decode(header, len, plain, &plain_len) && plain_len == want &&
           memcmp(plain, text, want) == 0;
}

static bool check_one(const struct mcp_delivery *d, const char *name, const char *text,
                      struct mcp_refusal *out)
{
    const char *header = header_of(d, name);
    if (header && mcp_meta_header_is(header, text))
        return true;
    return refuse(out, RPC_HEADER_MISMATCH, NULL, "%s: %s '%.100s' of the body", name,
                  header ? "is not the" : "is missing, with the", text);
}

/* Numbers are the same when they have the same value, however they are written. */
static bool number_is(const char *header, const json_t *value)
{
    char *end;
    scoped_free char *text = xstrndup(header, trim(&header));
    double said = strtod(text, &end);
    return *text && !*end && said == json_number_value(value);
}

static bool check_param(const struct mcp_delivery *d, const char *suffix, const json_t *value,
                        struct mcp_refusal *out)
{
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof(name), HEADER_PARAM "%s", suffix);
    for (char *c = name; *c; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + 'a' - 'A' : *c);
    if (json_is_string(value))
        return check_one(d, name, json_string_value(value), out);
    if (json_is_boolean(value))
        return check_one(d, name, json_is_true(value) ? "true" : "false", out);
    const char *header = header_of(d, name);
    if (json_is_number(value) && !(header && number_is(header, value)))
        return refuse(out, RPC_HEADER_MISMATCH, NULL, "%s: does not have the number of the body",
                      name);
    return true;
}

static bool check_params(const struct rpc_message *m, const struct mcp_delivery *d,
                         const json_t *schema, struct mcp_refusal *out)
{
    const char *key;
    json_t *row;
    json_t *rows = json_object_get(schema, "properties");
    const json_t *arguments = json_object_get(m->params, "arguments");
    json_object_foreach(rows, key, row)
    {
        const char *suffix = json_string_value(json_object_get(row, SCHEMA_HEADER));
        const json_t *value = json_object_get(arguments, key);
        if (suffix && value && !check_param(d, suffix, value, out))
            return false;
    }
    return true;
}

bool mcp_meta_check_headers(const struct rpc_message *m, const struct mcp_delivery *d,
                            const char *named_by, const json_t *schema, struct mcp_refusal *out)
{
    const char *name = named_by ? json_string_value(json_object_get(m->params, named_by)) : NULL;
    if (!d->header)
        return true;
    return check_one(d, HEADER_METHOD, m->method, out) &&
           (!name || check_one(d, HEADER_NAME, name, out)) &&
           (!schema || check_params(m, d, schema, out));
}
