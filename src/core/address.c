/* address.c - texts in, numbers out; what is not plainly an address is refused */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/address.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/macros.h"
#include "base/parse.h"
#include "base/strbuf.h"

#define UNIX_PREFIX "unix:"
#define PORT_MAX    65535

static const struct {
    const char *word, *host;
} words[] = {
    {"", "0.0.0.0"},
    {"*", "0.0.0.0"},
    {"localhost", "127.0.0.1"},
};

static bool parse_port(const char *text, uint16_t *out)
{
    uint64_t value;
    if (!parse_u64(text, &value) || value > PORT_MAX)
        return false;
    *out = (uint16_t)value;
    return true;
}

/* In the kernel's own way of writing it. */
static bool set_v4(struct address *out, const char *text)
{
    struct in_addr address;
    if (inet_pton(AF_INET, text, &address) != 1)
        return false;
    inet_ntop(AF_INET, &address, out->host, sizeof(out->host));
    out->is_loopback = ntohl(address.s_addr) >> 24 == 127;
    out->is_any = address.s_addr == htonl(INADDR_ANY);
    return true;
}

static bool set_v6(struct address *out, const char *text)
{
    struct in6_addr address;
    if (inet_pton(AF_INET6, text, &address) != 1)
        return false;
    inet_ntop(AF_INET6, &address, out->host, sizeof(out->host));
    out->is_loopback = IN6_IS_ADDR_LOOPBACK(&address);
    out->is_any = IN6_IS_ADDR_UNSPECIFIED(&address);
    return true;
}

static bool set_host(struct address *out, const char *text, size_t len)
{
    char host[ADDRESS_HOST_BYTES + 2];
    if (len >= sizeof(host))
        return false;
    memcpy(host, text, len);
    host[len] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcmp(host, words[i].word) == 0)
            return set_v4(out, words[i].host);
    }
    if (host[0] != '[')
        return set_v4(out, host);
    if (len < 2 || host[len - 1] != ']')
        return false;
    host[len - 1] = '\0';
    return set_v6(out, host + 1);
}

static bool parse_tcp(struct address *out, const char *text)
{
    const char *colon = strrchr(text, ':');
    if (!colon)
        return parse_port(text, &out->port) && set_v4(out, "127.0.0.1");
    return parse_port(colon + 1, &out->port) && set_host(out, text, (size_t)(colon - text));
}

static int parse_unix(struct address *out, const char *path, struct error *err)
{
    size_t len = strlen(path);
    if (path[0] != '/')
        return error_set(err, ERROR_INVALID, "option 'listen': 'unix:%.80s' needs an absolute path",
                         path);
    if (len >= sizeof(out->path))
        return error_set(
            err, ERROR_INVALID,
            "option 'listen': the path of a socket has at most %zu bytes, this one %zu",
            sizeof(out->path) - 1, len);
    memcpy(out->path, path, len + 1);
    out->is_loopback = true;
    return 0;
}

int address_parse(struct address *out, const char *text, struct error *err)
{
    struct address parsed = {.port = 0};
    if (strncmp(text, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0) {
        if (parse_unix(&parsed, text + strlen(UNIX_PREFIX), err) < 0)
            return -1;
    } else if (!parse_tcp(&parsed, text)) {
        error_set(err, ERROR_INVALID, "option 'listen': '%.80s' is no address to listen at", text);
        return error_hint(err, "127.0.0.1:8080, [::1]:8080, 8080, :8080 for every address, or "
                               "unix:/path");
    }
    *out = parsed;
    return 0;
}

void address_add_url(const struct address *a, bool is_tls, struct strbuf *out)
{
    bool is_v6 = strchr(a->host, ':') != NULL;
    const char *host = a->host;
    if (!*host) {
        strbuf_add_fmt(out, UNIX_PREFIX "%s", a->path);
        return;
    }
    if (a->is_any)
        host = is_v6 ? "::1" : "127.0.0.1";
    strbuf_add_fmt(out, "%s://%s%s%s:%u", is_tls ? "https" : "http", is_v6 ? "[" : "", host,
                   is_v6 ? "]" : "", a->port);
}

bool address_is_origin(const char *text)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
        size_t len = strlen(schemes[i]);
        if (strncmp(text, schemes[i], len) == 0)
            return text[len] != '\0' && strpbrk(text + len, "/?#@ \\") == NULL;
    }
    return false;
}
