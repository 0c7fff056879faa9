/* etag.c - a list of quoted words, left to right */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/etag.h"

#include <stddef.h>
#include <string.h>

/* The quoted part, which weak comparison looks at. */
static const char *opaque(const char *etag)
{
    return strncmp(etag, "W/", 2) == 0 ? etag + 2 : etag;
}

bool etag_is_listed(const char *list, const char *etag)
{
    const char *want = opaque(etag);
    size_t want_len = strlen(want);
    list += strspn(list, " \t");
    if (list[0] == '*')
        return list[1 + strspn(list + 1, " \t")] == '\0';
    for (;;) {
        list += strspn(list, " \t,"); /* empty elements are to be passed over */
        const char *tag = opaque(list);
        const char *end = tag[0] == '"' ? strchr(tag + 1, '"') : NULL;
        if (!end)
            return false;
        if ((size_t)(end + 1 - tag) == want_len && memcmp(tag, want, want_len) == 0)
            return true;
        list = end + 1;
    }
}
