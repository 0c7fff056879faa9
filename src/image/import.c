/* import.c - skopeo makes any source an OCI layout, umoci unpacks it, we look at its configuration
 *
 * The tools run in the draft's work folder and are given names without a colon there, since a colon
 * means something in theirs. What they unpack is scrubbed before anybody else can see it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "image/import.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/fd.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "image/arguments.h"
#include "image/draft.h"
#include "image/image_store.h"
#include "image/oci.h"
#include "image/runner.h"
#include "image/tree.h"

#define LISTING_MAX_BYTES (8 * MIB)
#define PATH_PRESET       "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

enum { AT_COPY = 5, AT_UNPACK = 35, AT_CONF = 65, AT_END = 70 };

/* --- which kind of source --------------------------------------------------------------------- */

static const struct kind {
    const char *transport; /* skopeo's word for it */
    const char *file;      /* that only this kind has */
} archive_kinds[] = {
    {"oci-archive", "oci-layout"},
    {"docker-archive", "manifest.json"},
};

static int take_listing(void *ctx, int stream, const char *data, size_t len, struct error *err)
{
    (void)err;
    if (stream == STDOUT_FILENO)
        strbuf_add(ctx, data, len);
    return 0;
}

static bool has_line(const char *text, const char *line)
{
    size_t len = strlen(line);
    for (const char *p = text; p; p = strchr(p, '\n')) {
        p += *p == '\n';
        p += strncmp(p, "./", 2) == 0 ? 2 : 0;
        if (strncmp(p, line, len) == 0 && (p[len] == '\n' || p[len] == '\0'))
            return true;
    }
    return false;
}

static const char *kind_of_archive(const char *path, struct error *err)
{
    const char *const argv[] = {"tar", "--list", "--file", path, NULL};
    scoped_strbuf struct strbuf names;
    strbuf_init(&names, LISTING_MAX_BYTES);
    struct process process = {.argv = argv, .output = take_listing, .ctx = &names};
    struct process_end end;
    if (process_run(&process, &end, err) < 0)
        return NULL;
    for (size_t i = 0; end.exit_status == 0 && i < ARRAY_LEN(archive_kinds); i++) {
        if (has_line(strbuf_str(&names), archive_kinds[i].file))
            return archive_kinds[i].transport;
    }
    error_set(err, ERROR_INVALID, "'%s' is not the archive of a container image", path);
    error_hint(err, "`docker save`, `podman save` and `skopeo copy` make such archives");
    return NULL;
}

static const char *kind_of_source(const char *path, struct error *err)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        error_sys(err, "open '%s'", path);
        return NULL;
    }
    if (!S_ISDIR(st.st_mode))
        return kind_of_archive(path, err);
    scoped_free char *mark = xasprintf("%s/oci-layout", path);
    if (access(mark, F_OK) == 0)
        return "oci";
    error_set(err, ERROR_INVALID, "the folder '%s' is not an OCI layout", path);
    error_hint(err, "it should hold the files 'oci-layout' and 'index.json'");
    return NULL;
}

/* --- tools ------------------------------------------------------------------------------------ */

static int run(const struct draft *draft, const char *const *argv, struct error *err)
{
    struct process process = {.argv = argv, .cwd = draft_work_dir(draft)};
    if (process_check(&process, err) == 0)
        return 0;
    if (err->sys_errno == ENOENT)
        error_hint(err, "install it: apt install %s", argv[0]);
    else
        err->code = ERROR_INVALID; /* the tool did not like the archive */
    return -1;
}

static int unpack(const struct draft *draft, const struct import_request *request,
                  struct error *err)
{
    const char *kind = kind_of_source(request->source, err);
    scoped_free char *absolute = realpath(request->source, NULL);
    if (!kind)
        return -1;
    scoped_free char *link = xasprintf("%s/source", draft_work_dir(draft));
    if (!absolute || symlink(absolute, link) < 0)
        return error_sys(err, "open '%s'", request->source);

    scoped_free char *from = xasprintf("%s:source", kind);
    const char *const copy[] = {"skopeo",
                                "--insecure-policy",
                                "--override-os",
                                "linux",
                                "copy",
                                "--quiet",
                                from,
                                "oci:layout:image",
                                NULL};
    progress_tell(&request->progress, "read the archive", AT_COPY);
    if (run(draft, copy, err) < 0)
        return -1;

    const char *const as_root[] = {"umoci",        "raw",    "unpack", "--image",
                                   "layout:image", "rootfs", NULL};
    const char *const as_user[] = {"umoci",   "raw",          "unpack", "--rootless",
                                   "--image", "layout:image", "rootfs", NULL};
    progress_tell(&request->progress, "unpack the layers", AT_UNPACK);
    if (run(draft, geteuid() == 0 ? as_root : as_user, err) < 0)
        return -1;
    scoped_free char *unpacked = xasprintf("%s/rootfs", draft_work_dir(draft));
    if (rename(unpacked, draft_root_dir(draft)) < 0)
        return error_sys(err, "move the root of the image");
    return 0;
}

/* --- runner.conf ------------------------------------------------------------------------------ */

static const char *path_of(const struct arguments *env)
{
    for (size_t i = 0; i < env->count; i++) {
        if (strncmp(env->items[i], "PATH=", 5) == 0)
            return env->items[i] + 5;
    }
    return PATH_PRESET;
}

static bool is_program(int root_fd, const char *path)
{
    struct stat st;
    scoped_fd int fd = tree_open_in_root(root_fd, path, O_PATH);
    return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111);
}

/* The owned absolute path of a program in the image; NULL with *err filled. */
static char *find_program(int root_fd, const char *name, const char *path, struct error *err)
{
    if (name[0] == '/')
        return xstrdup(name);
    for (; *path; path += *path == ':') {
        size_t len = strcspn(path, ":");
        scoped_free char *candidate = xasprintf("%.*s/%s", (int)len, path, name);
        path += len;
        if (candidate[0] == '/' && is_program(root_fd, candidate))
            return take_ptr(&candidate);
    }
    error_set(err, ERROR_INVALID, "the image's command '%.80s' is not in its PATH", name);
    return NULL;
}

/* conf files have no way to write these. */
static bool fits_line(const char *text)
{
    for (const char *p = text; *p; p++) {
        if ((unsigned char)*p < ' ' || (*p == '#' && (p == text || p[-1] == ' ')))
            return false;
    }
    return true;
}

static void add_word(struct strbuf *out, const char *word)
{
    if (*word && !strpbrk(word, " \"\\")) {
        strbuf_add_fmt(out, " %s", word);
        return;
    }
    strbuf_add_str(out, " \"");
    for (; *word; word++) {
        if (*word == '"' || *word == '\\')
            strbuf_add_char(out, '\\');
        strbuf_add_char(out, *word);
    }
    strbuf_add_char(out, '"');
}

static int add_command(struct strbuf *out, const struct oci_config *config, int root_fd,
                       struct error *err)
{
    if (config->command.count == 0) {
        error_set(err, ERROR_INVALID, "the image has neither an entry point nor a command");
        error_hint(err, "describe it in a " RUNNER_CONF " and give its folder with --runner");
        return -1;
    }
    scoped_free char *program =
        find_program(root_fd, config->command.items[0], path_of(&config->env), err);
    if (!program)
        return -1;
    strbuf_add_str(out, "command =");
    add_word(out, program);
    for (size_t i = 1; i < config->command.count; i++) {
        const char *word = config->command.items[i];
        if (!fits_line(word)) {
            error_set(err, ERROR_INVALID, "the image's command has a word that spans lines");
            error_hint(err, "describe it in a " RUNNER_CONF " and give its folder with --runner");
            return -1;
        }
        add_word(out, word);
    }
    strbuf_add_char(out, '\n');
    return 0;
}

static int derive_conf(struct strbuf *out, const struct draft *draft, const char *name,
                       struct error *err)
{
    scoped_free char *layout = xasprintf("%s/layout", draft_work_dir(draft));
    scoped_fd int layout_fd = open(layout, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scoped_fd int root_fd = tree_open(draft_image_fd(draft), "rootfs", O_RDONLY | O_DIRECTORY);
    __attribute__((cleanup(oci_config_release))) struct oci_config config = {0};
    if (layout_fd < 0 || root_fd < 0)
        return error_sys(err, "open the unpacked image");
    if (oci_config_read(&config, layout_fd, err) < 0)
        return -1;
    const char *language = config.is_runner && config.language ? config.language : name;
    if (!fits_line(language))
        return error_set(err, ERROR_INVALID, "the image's label for its language is no name");
    strbuf_add_fmt(out, "[%s]\n", language);
    if (add_command(out, &config, root_fd, err) < 0)
        return -1;
    for (size_t i = 0; i < config.env.count; i++) {
        if (fits_line(config.env.items[i]))
            strbuf_add_fmt(out, "env = %s\n", config.env.items[i]);
    }
    return 0;
}

static int read_given_conf(struct strbuf *out, const char *dir, struct error *err)
{
    scoped_free char *path = xasprintf("%s/" RUNNER_CONF, dir), *text = NULL;
    scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_sys(err, "open '%s'", path);
    if (fd_read_text(fd, &text, CONF_FILE_MAX_BYTES, err) < 0)
        return error_wrap(err, "read '%s'", path);
    strbuf_add_str(out, text);
    return 0;
}

static int write_conf(const struct draft *draft, const struct import_request *request,
                      struct error *err)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, CONF_FILE_MAX_BYTES);
    int answer = request->runner_dir ? read_given_conf(&text, request->runner_dir, err)
                                     : derive_conf(&text, draft, request->name, err);
    if (answer < 0)
        return -1;
    if (text.overflow)
        return error_set(err, ERROR_TOO_LARGE, "the image's configuration is too long");
    scoped_fd int fd =
        openat(draft_image_fd(draft), RUNNER_CONF, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_sys(err, "write '" RUNNER_CONF "'");
    return fd_write_all(fd, strbuf_str(&text), text.len, err);
}

static int import(const struct image_store *store, const struct import_request *request,
                  uint8_t digest[SHA256_BYTES], struct error *err)
{
    scoped(draft) struct draft *draft = NULL;
    const char *slash = strrchr(request->source, '/');
    scoped_free char *origin =
        xasprintf("import %s", slash && slash[1] ? slash + 1 : request->source);
    if (draft_open(&draft, store, err) < 0 || unpack(draft, request, err) < 0)
        return -1;
    progress_tell(&request->progress, "describe the runner", AT_CONF);
    if (write_conf(draft, request, err) < 0)
        return -1;
    return draft_commit(draft, request->name, origin, &request->progress, AT_END, digest, err);
}

int import_image(const struct image_store *store, const struct import_request *request,
                 uint8_t digest[SHA256_BYTES], struct error *err)
{
    if (!image_store_name_is_valid(request->name)) {
        error_set(err, ERROR_INVALID, "'%.80s' cannot be the name of an image", request->name);
        error_hint(err, "use small letters, digits, '.', '_' and '-'");
        return -1;
    }
    if (import(store, request, digest, err) < 0)
        return error_wrap(err, "import the image '%s'", request->name);
    return 0;
}
