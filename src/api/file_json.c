/* file_json.c - names are a sandbox's to choose, so each has one safe form here */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/file_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "core/mime.h"

#define URL_MAX (4 * GUEST_PATH_MAX)

char *file_join(const char *directory, const char *name)
{
    return xasprintf("%s%s%s", directory, *directory && *name ? "/" : "", name);
}

void file_etag(const struct errand_entry *entry, char out[FILE_ETAG_BYTES])
{
    char tag[ERRAND_TAG_BYTES];
    errand_entry_tag(entry, tag);
    snprintf(out, FILE_ETAG_BYTES, "\"%s\"", tag);
}

bool file_mode_is_valid(const char *text)
{
    size_t len = strlen(text);
    return (len == 3 || (len == 4 && text[0] == '0')) && strspn(text, "01234567") == len;
}

unsigned file_mode_parse(const char *text)
{
    return (unsigned)strtoul(text, NULL, 8) & 0777;
}

static bool is_addressable(const char *path)
{
    for (const char *c = path; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return false;
    }
    return utf8_is_valid(path, strlen(path));
}

static void add_escaped(struct strbuf *out, const char *path)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
    for (const char *c = path; *c; c++) {
        char escaped[4];
        snprintf(escaped, sizeof(escaped), "%%%02X", (unsigned char)*c);
        if (strchr(plain, *c))
            strbuf_add_char(out, *c);
        else
            strbuf_add_str(out, escaped);
    }
}

bool file_json_add_url(struct strbuf *out, const char *session, const char *path)
{
    if (!*path || !is_addressable(path))
        return false;
    strbuf_add_str(out, API_PREFIX "/sessions/");
    add_escaped(out, session);
    strbuf_add_str(out, "/files/");
    add_escaped(out, path);
    return true;
}

static json_t *url_json(const char *session, const char *path)
{
    scoped_strbuf struct strbuf url;
    strbuf_init(&url, URL_MAX);
    return file_json_add_url(&url, session, path) ? json_string(strbuf_str(&url)) : json_null();
}

static json_t *time_json(int64_t wall_ns)
{
    char text[CLOCK_TEXT_BYTES];
    clock_format(wall_ns, text);
    return json_string(text);
}

json_t *file_json(const char *session, const char *path, const struct errand_entry *e)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char mode[8], etag[FILE_ETAG_BYTES];
    bool is_file = e->kind == ERRAND_FILE;
    snprintf(mode, sizeof(mode), "%04o", e->mode & 07777);
    file_etag(e, etag);
    return json_pack("{s:o, s:o, s:s, s:I, s:s, s:o, s:o, s:o, s:o}", "path",
                     json_text(path, strlen(path)), "name", json_text(name, strlen(name)), "kind",
                     errand_kind_name(e->kind), "size", (json_int_t)e->size, "mode", mode,
                     "mime_type", is_file ? json_string(mime_of(path)) : json_null(), "modified_at",
                     time_json(e->mtime_ns), "etag", is_file ? json_string(etag) : json_null(),
                     "url", url_json(session, path));
}
