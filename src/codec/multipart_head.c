/* multipart_head.c - three headers count, others are passed over */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/multipart_head.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "codec/header_value.h"
#include "codec/multipart.h"

#define HINT "send multipart/form-data as RFC 7578 says, for instance by curl -F file=@data.csv"

int multipart_refuse(struct error *err, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    error_set(err, ERROR_INVALID, "the form cannot be read: %s", text);
    error_hint(err, "%s", HINT);
    return error_word(err, "multipart_invalid");
}

void multipart_head_release(struct multipart_head *head)
{
    free(head->name);
    free(head->filename);
    free(head->type);
    *head = (struct multipart_head){0};
}

/* NULL, or why this is no path for a file in a workspace. */
static const char *path_fault(const char *path)
{
    if (!*path)
        return "is empty";
    if (strlen(path) > MULTIPART_PATH_MAX_BYTES)
        return "is too long";
    if (strchr(path, '\\'))
        return "has a backslash";
    for (const char *at = path, *next; at; at = next) {
        size_t len = strcspn(at, "/");
        next = at[len] ? at + len + 1 : NULL;
        if (len == 0)
            return "begins or ends with a slash, or has two in a row";
        if ((len == 1 && at[0] == '.') || (len == 2 && memcmp(at, "..", 2) == 0))
            return "has a '.' or '..' segment";
        if (len > 255)
            return "has a name of more than 255 bytes";
    }
    return NULL;
}

static int take_disposition(struct multipart_head *head, struct header_value *value,
                            struct error *err)
{
    const char *name = header_value_find(value, "name");
    const char *filename = header_value_find(value, "filename");
    if (strcmp(value->word, "form-data") != 0)
        return multipart_refuse(err, "a part is '%.40s' where it must be form-data", value->word);
    if (!name)
        return multipart_refuse(err, "a part has no name");
    if (!*name || strlen(name) > MULTIPART_NAME_MAX_BYTES)
        return multipart_refuse(err, "the name of a part must have 1 to %d bytes",
                                MULTIPART_NAME_MAX_BYTES);
    /* RFC 7578 section 4.2 forbids it; with both, two readers would see two names. */
    if (header_value_find(value, "filename*"))
        return multipart_refuse(err,
                                "'filename*' of part '%.60s' is not allowed: send filename "
                                "as UTF-8",
                                name);
    const char *fault = filename ? path_fault(filename) : NULL;
    if (fault)
        return multipart_refuse(err, "the file name '%.100s' %s", filename, fault);
    head->name = xstrdup(name);
    head->filename = filename ? xstrdup(filename) : NULL;
    return 0;
}

static int take_type(struct multipart_head *head, struct header_value *value, struct error *err)
{
    if (strncmp(value->word, "multipart/", strlen("multipart/")) == 0)
        return multipart_refuse(err, "a part is a form itself ('%.60s')", value->word);
    head->type = xstrdup(value->word);
    return 0;
}

static int take_encoding(struct multipart_head *head, struct header_value *value, struct error *err)
{
    static const char *const none[] = {"binary", "8bit", "7bit"};
    (void)head;
    for (size_t i = 0; i < ARRAY_LEN(none); i++) {
        if (strcmp(value->word, none[i]) == 0)
            return 0;
    }
    return multipart_refuse(err, "a part is encoded as '%.40s': send its bytes as they are",
                            value->word);
}

static const struct {
    const char *name;
    int (*take)(struct multipart_head *head, struct header_value *value, struct error *err);
} headers[] = {
    {"content-disposition", take_disposition},
    {"content-type", take_type},
    {"content-transfer-encoding", take_encoding},
};

int multipart_head_add(struct multipart_head *head, char *line, size_t len, struct error *err)
{
    struct header_value value;
    char *colon = strchr(line, ':');
    if (memchr(line, '\0', len))
        return multipart_refuse(err, "a header of a part has a NUL");
    if (!colon || !header_is_token(line, (size_t)(colon - line)))
        return multipart_refuse(err, "a part has a header that is none: '%.60s'", line);
    *colon = '\0';
    for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
        if (strcasecmp(line, headers[i].name) != 0)
            continue;
        if (head->seen & 1u << i)
            return multipart_refuse(err, "a part has the header '%s' twice", headers[i].name);
        head->seen |= 1u << i;
        const char *wrong = header_value_parse(&value, colon + 1);
        if (wrong)
            return multipart_refuse(err, "'%s' of a part %s", headers[i].name, wrong);
        return headers[i].take(head, &value, err);
    }
    return 0;
}

int multipart_head_check(const struct multipart_head *head, struct error *err)
{
    if (!head->name)
        return multipart_refuse(err, "a part has no Content-Disposition");
    return 0;
}

/* bchars of RFC 2046; a blank may not be the last. */
static bool is_boundary(const char *text)
{
    size_t len = strlen(text);
    if (len == 0 || len > MULTIPART_BOUNDARY_MAX || text[len - 1] == ' ')
        return false;
    return strspn(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                        "'()+_,-./:=? ") == len;
}

int multipart_boundary(char **out, const char *type, struct error *err)
{
    struct header_value value;
    if (!type)
        return multipart_refuse(err, "the request has no Content-Type");
    scoped_free char *copy = xstrdup(type);
    const char *wrong = header_value_parse(&value, copy);
    if (wrong)
        return multipart_refuse(err, "the Content-Type %s", wrong);
    if (strcmp(value.word, "multipart/form-data") != 0)
        return multipart_refuse(err, "the Content-Type is '%.60s', not multipart/form-data",
                                value.word);
    const char *boundary = header_value_find(&value, "boundary");
    if (!boundary)
        return multipart_refuse(err, "the Content-Type names no boundary");
    if (!is_boundary(boundary))
        return multipart_refuse(err,
                                "the boundary must have 1 to %d letters, digits or '()+_,-./:=?",
                                MULTIPART_BOUNDARY_MAX);
    *out = xstrdup(boundary);
    return 0;
}
