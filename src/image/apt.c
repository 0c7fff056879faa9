/* apt.c - reads /etc/os-release and /etc/apt; asks apt-config */
/* SPDX-License-Identifier: Apache-2.0 */
#include "image/apt.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/fd.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/scoped.h"
#include "base/strbuf.h"

#define RELEASE_FILE     "/etc/os-release"
#define SOURCE_FILE      "/etc/apt/sources.list"
#define SOURCE_DIR       "/etc/apt/sources.list.d"
#define SUITE_PRESET     "bookworm" /* on a host that is not Debian */
#define SUITE_MAX_BYTES  64
#define SOURCE_MAX_BYTES (256 * KIB)

static int read_codename(void *ctx, const char *section, const char *key, const char *value,
                         struct error *err)
{
    char *suite = ctx;
    (void)section;
    (void)err;
    if (strcmp(key, "VERSION_CODENAME") == 0) {
        value += *value == '"';
        snprintf(suite, SUITE_MAX_BYTES, "%.*s", (int)strcspn(value, "\""), value);
    }
    return 0;
}

/* Does the file name a source? A host keeps empty and commented-out ones too. */
static bool has_source(const char *path)
{
    scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    scoped_free char *text = NULL;
    struct error ignored;
    if (fd < 0 || fd_read_text(fd, &text, SOURCE_MAX_BYTES, &ignored) < 0)
        return false;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += strspn(line, "\n \t");
        if (strncmp(line, "deb ", 4) == 0 || strncmp(line, "deb\t", 4) == 0 ||
            strncmp(line, "URIs:", 5) == 0 || strncmp(line, "deb [", 5) == 0)
            return true;
    }
    return false;
}

static int is_source_name(const struct dirent *e)
{
    const char *dot = strrchr(e->d_name, '.');
    return e->d_name[0] != '.' && dot && (!strcmp(dot, ".list") || !strcmp(dot, ".sources"));
}

/* In the order in which apt reads them. */
static void add_source_files(struct arguments *argv)
{
    struct dirent **found = NULL;
    int count = scandir(SOURCE_DIR, &found, is_source_name, alphasort);
    for (int i = 0; i < count; i++) {
        scoped_free char *path = xasprintf("%s/%s", SOURCE_DIR, found[i]->d_name);
        if (has_source(path))
            arguments_add(argv, "%s", path);
        free(found[i]);
    }
    free(found);
}

void apt_add_target(struct arguments *argv, const char *target)
{
    char suite[SUITE_MAX_BYTES] = SUITE_PRESET;
    struct error ignored;
    (void)!conf_read(AT_FDCWD, RELEASE_FILE, read_codename, suite, &ignored);
    arguments_add(argv, "%s", suite);
    arguments_add(argv, "%s", target);
    if (has_source(SOURCE_FILE))
        arguments_add(argv, "%s", SOURCE_FILE);
    add_source_files(argv);
}

static int take_output(void *ctx, int stream, const char *data, size_t len, struct error *err)
{
    (void)err;
    if (stream == STDOUT_FILENO)
        strbuf_add(ctx, data, len);
    return 0;
}

static bool is_fetch_setting(const char *line)
{
    static const char *const wanted[] = {"Acquire::http", "Acquire::Retries", "Acquire::ForceIPv"};
    if (strstr(line, " \"\";"))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        if (strncmp(line, wanted[i], strlen(wanted[i])) == 0)
            return true;
    }
    return false;
}

/* apt-config prints what apt reads: each line is one setting. */
static void add_settings(struct strbuf *out)
{
    static const char *const dump[] = {"apt-config", "dump", "Acquire", NULL};
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, SOURCE_MAX_BYTES);
    struct process process = {.argv = dump, .output = take_output, .ctx = &text};
    struct process_end end;
    struct error ignored; /* a host without apt has no such settings */
    if (process_run(&process, &end, &ignored) < 0 || end.exit_status != 0 || text.len == 0)
        return;
    for (char *line = text.data, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (is_fetch_setting(line))
            strbuf_add_fmt(out, "%s\n", line);
    }
}

int apt_write_settings(const char *path, struct error *err)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, SOURCE_MAX_BYTES);
    add_settings(&text);
    /* Not more open than /etc/apt, where it comes from; as root the folder is closed to others. */
    scoped_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_sys(err, "write '%s'", path);
    return fd_write_all(fd, strbuf_str(&text), text.len, err);
}
