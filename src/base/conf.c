/* conf.c - one line, one entry; an unknown shape is an error with its line number, never skipped */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/conf.h"

#include <ctype.h>
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t len = strlen(text);
    while (len > 0 && isspace((unsigned char)text[len - 1]))
        text[--len] = '\0';
    return text;
}

/* A # begins a comment at the start of a line or after a blank, so that values may hold one. */
static void cut_comment(char *line)
{
    for (char *p = line; *p; p++) {
        if (*p == '#' && (p == line || isspace((unsigned char)p[-1]))) {
            *p = '\0';
            return;
        }
    }
}

/* Only the first word is repeated: what follows "token" may be one. */
static int refuse_line(const char *name, unsigned number, const char *line, struct error *err)
{
    int len = (int)MIN(strcspn(line, " \t"), (size_t)60);
    return error_set(err, ERROR_INVALID, "%s:%u: '%.*s' is not 'key = value'", name, number, len,
                     line);
}

int conf_parse(const char *name, char *text, conf_entry_fn entry, void *ctx, struct error *err)
{
    const char *section = "";
    unsigned number = 0;

    for (char *next = NULL, *raw = text; raw; raw = next) {
        next = strchr(raw, '\n');
        if (next)
            *next++ = '\0';
        number++;
        cut_comment(raw);
        char *line = trim(raw);
        if (!*line)
            continue;

        size_t len = strlen(line);
        if (line[0] == '[' && line[len - 1] == ']') {
            line[len - 1] = '\0';
            section = trim(line + 1);
            continue;
        }
        char *equals = strchr(line, '=');
        if (!equals || equals == line)
            return refuse_line(name, number, line, err);
        *equals = '\0';
        if (entry(ctx, section, trim(line), trim(equals + 1), err) < 0)
            return error_wrap(err, "%s:%u", name, number);
    }
    return 0;
}

int conf_read(int dir_fd, const char *name, conf_entry_fn entry, void *ctx, struct error *err)
{
    scoped_fd int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_sys(err, "open '%s'", name);
    scoped_free char *text = NULL;
    if (fd_read_text(fd, &text, CONF_FILE_MAX_BYTES, err) < 0)
        return error_wrap(err, "read '%s'", name);
    return conf_parse(name, text, entry, ctx, err);
}
