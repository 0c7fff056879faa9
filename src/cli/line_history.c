/* line_history.c - one entry per line, newlines in it as \n
 *
 * Entries are appended in one write under a lock, so that instances do not lose each other's lines.
 * When the file has grown too long, who opens it next writes a shorter one beside it and renames:
 * whoever waited for the lock of the old one then finds that it is no longer the file of that name,
 * and opens again. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/line_history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/strbuf.h"

#define FILE_MAX_BYTES (16 * MIB)
#define SLACK          (LINE_HISTORY_MAX / 4) /* the file may be that much longer */
#define OPEN_TRIES     10

struct line_history {
    char *path; /* NULL: none */
    char *entries[LINE_HISTORY_MAX];
    size_t count;
};

/* --- the list -------------------------------------------------------------------------------- */

static void keep(struct line_history *h, char *entry)
{
    if (h->count == LINE_HISTORY_MAX) {
        free(h->entries[0]);
        memmove(h->entries, h->entries + 1, sizeof(h->entries) - sizeof(h->entries[0]));
        h->count--;
    }
    h->entries[h->count++] = entry;
}

size_t line_history_count(const struct line_history *h)
{
    return h->count;
}

const char *line_history_get(const struct line_history *h, size_t i)
{
    return h->entries[i];
}

static bool has_prefix(const char *entry, const char *prefix)
{
    return strncmp(entry, prefix, strlen(prefix)) == 0;
}

static bool has_part(const char *entry, const char *part)
{
    return strstr(entry, part) != NULL;
}

static bool find(const struct line_history *h, size_t *at, bool is_newer,
                 bool (*matches)(const char *, const char *), const char *text, const char *but)
{
    size_t i = *at;
    while (is_newer ? i + 1 < h->count : i > 0) {
        i = is_newer ? i + 1 : i - 1;
        if (matches(h->entries[i], text) && (!but || strcmp(h->entries[i], but) != 0)) {
            *at = i;
            return true;
        }
    }
    return false;
}

bool line_history_find_prefix(const struct line_history *h, size_t *i, bool is_newer,
                              const char *prefix, const char *but)
{
    return find(h, i, is_newer, has_prefix, prefix, but);
}

bool line_history_find_part(const struct line_history *h, size_t *i, bool is_newer,
                            const char *part, const char *but)
{
    return find(h, i, is_newer, has_part, part, but);
}

/* --- the file -------------------------------------------------------------------------------- */

static void add_encoded(struct strbuf *out, const char *entry)
{
    for (; *entry; entry++) {
        if (*entry == '\n' || *entry == '\\')
            strbuf_add_char(out, '\\');
        strbuf_add_char(out, *entry == '\n' ? 'n' : *entry);
    }
    strbuf_add_char(out, '\n');
}

static char *decode(const char *line, size_t len)
{
    char *entry = xmalloc(len + 1);
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (line[i] == '\\' && i + 1 < len)
            entry[n++] = line[++i] == 'n' ? '\n' : line[i];
        else
            entry[n++] = line[i];
    }
    entry[n] = '\0';
    return entry;
}

/* The file of that name, locked; -1 when it cannot be had. */
static int open_locked(const char *path)
{
    for (int i = 0; i < OPEN_TRIES; i++) {
        struct stat mine, named;
        scoped_fd int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 || fstat(fd, &mine) < 0 || !S_ISREG(mine.st_mode) || flock(fd, LOCK_EX) < 0)
            return -1;
        if (stat(path, &named) == 0 && named.st_dev == mine.st_dev && named.st_ino == mine.st_ino)
            return take_fd(&fd);
    }
    return -1;
}

static size_t load(struct line_history *h, const char *text)
{
    size_t lines = 0;
    for (const char *end; (end = strchr(text, '\n')); text = end + 1) {
        size_t len = (size_t)(end - text);
        lines++;
        if (len > 0 && len <= LINE_HISTORY_MAX_LINE * 2)
            keep(h, decode(text, len));
    }
    return lines;
}

static void shorten(const struct line_history *h)
{
    struct error ignored;
    scoped_strbuf struct strbuf text;
    scoped_free char *temp = xasprintf("%s.%ld", h->path, (long)getpid());
    strbuf_init(&text, FILE_MAX_BYTES);
    for (size_t i = 0; i < h->count; i++)
        add_encoded(&text, h->entries[i]);
    scoped_fd int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    if (text.overflow || fd_write_all(fd, strbuf_str(&text), text.len, &ignored) < 0 ||
        fsync(fd) < 0 || rename(temp, h->path) < 0)
        unlink(temp);
}

static void make_folders(const char *path)
{
    scoped_free char *folder = xstrdup(path);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)!mkdir(folder, 0700); /* there already, mostly; else opening the file tells */
        *slash = '/';
    }
}

struct line_history *line_history_new(const char *path)
{
    struct error ignored;
    struct line_history *h = xcalloc(1, sizeof(*h));
    if (!path)
        return h;
    make_folders(path);
    scoped_fd int fd = open_locked(path);
    if (fd < 0)
        return h;
    h->path = xstrdup(path);
    scoped_free char *text = NULL;
    if (fd_read_text(fd, &text, FILE_MAX_BYTES, &ignored) == 0 &&
        load(h, text) > LINE_HISTORY_MAX + SLACK)
        shorten(h);
    return h;
}

void line_history_free(struct line_history *h)
{
    if (!h)
        return;
    for (size_t i = 0; i < h->count; i++)
        free(h->entries[i]);
    free(h->path);
    free(h);
}

void line_history_add(struct line_history *h, const char *text, size_t len)
{
    struct error ignored;
    if (len == 0 || memchr(text, '\0', len) ||
        (h->count > 0 && strlen(h->entries[h->count - 1]) == len &&
         memcmp(h->entries[h->count - 1], text, len) == 0))
        return;
    keep(h, xstrndup(text, len));
    if (!h->path || len > LINE_HISTORY_MAX_LINE)
        return;
    scoped_strbuf struct strbuf line;
    strbuf_init(&line, FILE_MAX_BYTES);
    add_encoded(&line, h->entries[h->count - 1]);
    scoped_fd int fd = open_locked(h->path);
    if (fd >= 0)
        (void)!fd_write_all(fd, strbuf_str(&line), line.len, &ignored);
}

char *line_history_path(const char *language)
{
    const char *given = getenv("COVE_HISTORY"), *state = getenv("XDG_STATE_HOME"),
               *home = getenv("HOME");
    if (given)
        return given[0] ? xstrdup(given) : NULL;
    if (state && state[0] == '/')
        return xasprintf("%s/cove/history-%s", state, language);
    return home && home[0] == '/' ? xasprintf("%s/.local/state/cove/history-%s", home, language)
                                  : NULL;
}
