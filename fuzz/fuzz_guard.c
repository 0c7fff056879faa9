/* fuzz_guard.c - no Host but ours passes, and no Origin but ours and the listed one
 *
 * The input is a byte of flags, a Host and an Origin, each up to a line end. What passes is judged
 * by a second, simpler reading. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/guard.h"

#include <ctype.h>
#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "fuzz.h"

static const char *const hosts[] = {"cove.test", "port.test:8443", NULL};
static const char *const origins[] = {"https://console.test", NULL};
static const struct guard guard = {hosts, origins};

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);
    return len >= end_len && strcasecmp(text + len - end_len, end) == 0;
}

/* The host without its port, if that may pass at all. */
static void check_host(const char *host)
{
    scoped_free char *name = xstrdup(host);
    char *port = strrchr(name, ']') ? strrchr(name, ']') + 1 : strchr(name, ':');
    if (port)
        *port = '\0';
    bool is_loopback = strcasecmp(name, "localhost") == 0 || ends_with(name, ".localhost") ||
                       strncmp(name, "127.", 4) == 0 || strcmp(name, "[::1]") == 0;
    bool is_listed = strcasecmp(name, "cove.test") == 0 || strcasecmp(host, "port.test:8443") == 0;
    BUG_ON(!is_loopback && !is_listed);
    for (const char *c = host; *c; c++)
        BUG_ON(!isalnum((unsigned char)*c) && !strchr("-._:[]", *c));
}

/* Our own origin is the host that was asked for, with a scheme before it. */
static void check_origin(const struct guard_question *q)
{
    const char *scheme = q->is_tls ? "https://" : "http://";
    BUG_ON(strncmp(q->origin, scheme, strlen(scheme)) != 0);
    const char *from = q->origin + strlen(scheme);
    size_t name_len = q->host[0] == '[' ? strcspn(q->host, "]") + 1 : strcspn(q->host, ":");
    BUG_ON(strncasecmp(from, q->host, name_len) != 0);
    BUG_ON(from[name_len] != '\0' && from[name_len] != ':');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    scoped_free char *host = xstrndup((const char *)data + 1, size - 1);
    char *origin = strchr(host, '\n');
    if (origin)
        *origin++ = '\0';
    struct guard_question q = {.host = host,
                               .origin = origin,
                               .fetch_site = data[0] & 1 ? "cross-site" : NULL,
                               .is_tls = data[0] & 2,
                               .is_safe = data[0] & 4};
    enum guard_answer answer = guard_check(&guard, &q);
    if (answer == GUARD_PASS || answer == GUARD_PASS_FOREIGN)
        check_host(host);
    if (answer == GUARD_PASS && origin)
        check_origin(&q);
    BUG_ON(answer == GUARD_PASS_FOREIGN && strcasecmp(origin, origins[0]) != 0);
    BUG_ON(answer == GUARD_PASS && !origin && q.fetch_site && !q.is_safe);
    return 0;
}
