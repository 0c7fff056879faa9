/* guard.c - a host is taken apart once, strictly; then it is only compared
 *
 * Everything that is not plainly allowed is refused: "null" origins, origins with a path, a user or
 * a trailing dot, numbers that other programs would read as 127.0.0.1 (0x7f.1, 2130706433). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/guard.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/parse.h"

#define PORT_MAX 65535

struct authority {
    char name[GUARD_HOST_MAX_BYTES + 1]; /* lower case; an IPv6 address in its brackets */
    uint32_t port;                       /* 0: none was written */
};

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

/* Letters, digits and hyphens in labels that are not empty. */
static bool is_name(const char *name, size_t len)
{
    bool is_label_open = false;
    for (size_t i = 0; i < len; i++) {
        if (!is_name_char(name[i]) || (name[i] == '.' && !is_label_open))
            return false;
        is_label_open = name[i] != '.';
    }
    return is_label_open;
}

static bool is_ipv6(const char *text, size_t len)
{
    char inner[INET6_ADDRSTRLEN];
    struct in6_addr address;
    if (len < 2 || text[0] != '[' || text[len - 1] != ']' || len - 2 >= sizeof(inner))
        return false;
    memcpy(inner, text + 1, len - 2);
    inner[len - 2] = '\0';
    return inet_pton(AF_INET6, inner, &address) == 1;
}

/* ":8080" or nothing. */
static bool parse_port(const char *text, uint32_t *port)
{
    uint64_t value = 0;
    if (!*text) {
        *port = 0;
        return true;
    }
    if (text[0] != ':' || text[1] == '0' || !parse_u64(text + 1, &value) || value == 0 ||
        value > PORT_MAX)
        return false;
    *port = (uint32_t)value;
    return true;
}

static bool parse_authority(struct authority *out, const char *text)
{
    size_t len = text[0] == '[' ? strcspn(text, "]") + 1 : strcspn(text, ":");
    if (len > GUARD_HOST_MAX_BYTES || len > strlen(text))
        return false;
    for (size_t i = 0; i < len; i++)
        out->name[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 'a' - 'A' : text[i]);
    out->name[len] = '\0';
    if (!is_name(out->name, len) && !is_ipv6(out->name, len))
        return false;
    return parse_port(text + len, &out->port);
}

static bool is_loopback(const char *name)
{
    static const char below[] = ".localhost";
    struct in_addr address;
    size_t len = strlen(name);
    if (strcmp(name, "localhost") == 0 || strcmp(name, "[::1]") == 0)
        return true;
    if (len >= sizeof(below) && strcmp(name + len - (sizeof(below) - 1), below) == 0)
        return true;
    /* inet_pton() takes four plain numbers only, unlike what resolvers accept. */
    return inet_pton(AF_INET, name, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

static bool is_our_host(const struct guard *guard, const struct authority *host)
{
    struct authority listed;
    if (is_loopback(host->name))
        return true;
    for (const char *const *row = guard->hosts; row && *row; row++) {
        if (strcmp(*row, "*") == 0)
            return true;
        if (parse_authority(&listed, *row) && strcmp(listed.name, host->name) == 0 &&
            (listed.port == 0 || listed.port == host->port))
            return true;
    }
    return false;
}

struct scheme {
    const char *prefix;
    uint32_t port;
    bool is_tls;
};

static const struct scheme schemes[] = {{"http://", 80, false}, {"https://", 443, true}};

static const struct scheme *find_scheme(const char *origin)
{
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        if (strncmp(origin, schemes[i].prefix, strlen(schemes[i].prefix)) == 0)
            return &schemes[i];
    }
    return NULL;
}

static bool is_own_origin(const struct authority *host, const char *origin, bool is_tls)
{
    struct authority from;
    const struct scheme *scheme = find_scheme(origin);
    if (!scheme || scheme->is_tls != is_tls ||
        !parse_authority(&from, origin + strlen(scheme->prefix)))
        return false;
    uint32_t own_port = host->port ? host->port : scheme->port;
    uint32_t from_port = from.port ? from.port : scheme->port;
    return own_port == from_port && strcmp(host->name, from.name) == 0;
}

static bool is_listed_origin(const struct guard *guard, const char *origin)
{
    for (const char *const *row = guard->origins; row && *row; row++) {
        if (strcasecmp(*row, origin) == 0)
            return true;
    }
    return false;
}

enum guard_answer guard_check(const struct guard *guard, const struct guard_question *question)
{
    struct authority host;
    if (!parse_authority(&host, question->host))
        return GUARD_BAD_HOST;
    if (!is_our_host(guard, &host))
        return GUARD_FOREIGN_HOST;
    if (question->origin) {
        if (is_own_origin(&host, question->origin, question->is_tls))
            return GUARD_PASS;
        return is_listed_origin(guard, question->origin) ? GUARD_PASS_FOREIGN
                                                         : GUARD_FOREIGN_ORIGIN;
    }
    /* A browser that hides the origin still says that another site is behind the request. A link
     * to us that somebody follows is such a request, too, and changes nothing. */
    bool is_foreign = question->fetch_site && strcmp(question->fetch_site, "cross-site") == 0;
    return is_foreign && !question->is_safe ? GUARD_FOREIGN_ORIGIN : GUARD_PASS;
}
