/* authority.c - labels and numbers, and nothing that is almost one */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/authority.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "base/macros.h"

#define LABEL_MAX 63
#define NAME_MAX  253
#define PORT_MAX  65535

static bool parse_port(const char *text, size_t len, uint16_t *out)
{
    unsigned value = 0;
    if (len == 0 || len > 5 || text[0] == '0')
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    *out = (uint16_t)value;
    return value <= PORT_MAX;
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static bool is_label(const char *text, size_t len)
{
    if (len == 0 || len > LABEL_MAX || text[0] == '-' || text[len - 1] == '-')
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!is_name_char(text[i]))
            return false;
    }
    return true;
}

/* No top-level domain is a number. What ends in one is an address, in a form that inet_aton() may
 * know and we do not. */
static bool is_number(const char *label)
{
    bool is_hex = label[0] == '0' && label[1] == 'x';
    const char *digits = is_hex ? "0123456789abcdef" : "0123456789";
    const char *from = label + (is_hex ? 2 : 0);
    return from[strspn(from, digits)] == '\0';
}

static bool is_name(const char *name)
{
    const char *last = name;
    for (const char *at = name;;) {
        size_t len = strcspn(at, ".");
        if (!is_label(at, len))
            return false;
        last = at;
        if (!at[len])
            break;
        at += len + 1;
    }
    return !is_number(last);
}

static bool take_address(struct authority *out, int family, const char *text)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    char canonical[INET6_ADDRSTRLEN];
    if (inet_pton(family, text, bytes) != 1 ||
        !inet_ntop(family, bytes, canonical, sizeof(canonical)))
        return false;
    memcpy(out->name, canonical, strlen(canonical) + 1);
    out->is_address = true;
    return true;
}

static bool take_name(struct authority *out, const char *text, size_t len)
{
    char name[AUTHORITY_NAME_BYTES];
    if (len > 1 && text[len - 1] == '.')
        len--;
    if (len == 0 || len > NAME_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\0')
            return false;
        name[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 'a' - 'A' : text[i]);
    }
    name[len] = '\0';
    if (take_address(out, AF_INET, name))
        return true;
    memcpy(out->name, name, len + 1);
    return is_name(name);
}

static bool take_bracketed(struct authority *out, const char *text, size_t len)
{
    char inside[INET6_ADDRSTRLEN];
    if (len < 2 || len - 2 >= sizeof(inside) || memchr(text, '\0', len))
        return false;
    memcpy(inside, text + 1, len - 2);
    inside[len - 2] = '\0';
    return take_address(out, AF_INET6, inside);
}

bool authority_parse(struct authority *out, const char *text, size_t len)
{
    struct authority host = {.port = 0};
    const char *bracket = len > 0 && text[0] == '[' ? memchr(text, ']', len) : NULL;
    size_t name_len;
    if (bracket) {
        name_len = (size_t)(bracket - text) + 1;
    } else {
        const char *colon = memchr(text, ':', len);
        name_len = colon ? (size_t)(colon - text) : len;
    }
    if (name_len < len &&
        (text[name_len] != ':' || !parse_port(text + name_len + 1, len - name_len - 1, &host.port)))
        return false;
    if (!(bracket ? take_bracketed(&host, text, name_len) : take_name(&host, text, name_len)))
        return false;
    *out = host;
    return true;
}

bool authority_parse_url(struct authority *out, const char *text, const char *scheme,
                         const char **rest)
{
    size_t scheme_len = strlen(scheme);
    if (strncasecmp(text, scheme, scheme_len) != 0 || strncmp(text + scheme_len, "://", 3) != 0)
        return false;
    const char *authority = text + scheme_len + 3;
    size_t len = strcspn(authority, "/?#");
    if (!authority_parse(out, authority, len)) /* an "@" is in no name */
        return false;
    *rest = authority + len;
    return true;
}

bool authority_is_below(const char *name, const char *domain)
{
    size_t len = strlen(name), domain_len = strlen(domain);
    return len > domain_len + 1 && name[len - domain_len - 1] == '.' &&
           strcmp(name + len - domain_len, domain) == 0;
}
