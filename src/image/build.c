/* build.c - mmdebstrap with a recipe's hooks
 *
 * Packages are unpacked, never configured, so no maintainer script runs. apt and mmdebstrap read
 * the host's own package sources; nothing of them stays in the image (common/finish checks it).
 *
 * The recipe is copied to the work folder first: hooks of an ordinary user run under another uid,
 * which may have no way into the folder where the recipes lie. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "image/build.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/strbuf.h"
#include "image/apt.h"
#include "image/draft.h"
#include "image/image_store.h"
#include "image/runner.h"
#include "image/scratch.h"
#include "image/tree.h"

#define LIST_MAX_BYTES   (64 * KIB)
#define LINE_MAX_BYTES   (4 * KIB)
#define EPOCH_PRESET     "1704067200" /* times of files: the same in every build */
#define USER_WORK_PREFIX "cove-build-"

/* Percent of the whole at which the parts begin. */
enum {
    AT_PREPARE = 1,
    AT_UPDATE = 6,
    AT_DOWNLOAD = 10,
    AT_UNPACK = 45,
    AT_SHAPE = 65,
    AT_END = 85
};

struct build {
    const struct build_request *request;
    struct draft *draft;
    struct scratch *user_work; /* NULL as root: the draft's own folder does */
    const char *work_dir;      /* borrowed from one of the two */
    char *recipe_dir;          /* the copy */
    struct arguments environment;

    int log_fd;
    struct strbuf line; /* of output, not complete yet */
    char words[256];    /* the last error that a tool told, else its last line */
    bool has_error_words;
    unsigned packages; /* to download */
    unsigned percent;
    const char *phase;
};

static void build_release(struct build *build)
{
    scoped_close_fd(&build->log_fd);
    scratch_free(build->user_work);
    draft_free(build->draft);
    free(build->recipe_dir);
    arguments_release(&build->environment);
    strbuf_release(&build->line);
}

static void tell(struct build *build, const char *phase, unsigned percent)
{
    build->phase = phase;
    build->percent = MAX(build->percent, percent);
    progress_tell(&build->request->progress, phase, build->percent);
}

/* --- recipes ---------------------------------------------------------------------------------- */

static bool is_recipe(const char *dir, const char *name)
{
    scoped_free char *conf = xasprintf("%s/%s/" RUNNER_CONF, dir, name);
    return image_store_name_is_valid(name) && access(conf, R_OK) == 0;
}

struct recipe_listing {
    const char *dir;
    struct arguments *out;
};

static int visit_recipe(void *ctx, const struct tree_entry *entry, struct error *err)
{
    const struct recipe_listing *listing = ctx;
    (void)err;
    if (S_ISDIR(entry->st.st_mode) && is_recipe(listing->dir, entry->name))
        arguments_add(listing->out, "%s", entry->name);
    return TREE_SKIP;
}

int build_recipes(const char *recipes_dir, struct arguments *out, struct error *err)
{
    struct recipe_listing listing = {recipes_dir, out};
    scoped_fd int fd = open(recipes_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || tree_walk(fd, visit_recipe, &listing, err) < 0) {
        if (fd < 0)
            error_sys(err, "open the folder of recipes '%s'", recipes_dir);
        error_hint(err, "--recipes-dir names the folder that holds them");
        return -1;
    }
    return 0;
}

static int check_recipe(const struct build_request *request, struct error *err)
{
    scoped_arguments struct arguments names = {0};
    if (is_recipe(request->recipes_dir, request->name))
        return 0;
    if (build_recipes(request->recipes_dir, &names, err) < 0)
        return -1;
    scoped_strbuf struct strbuf list;
    strbuf_init(&list, LINE_MAX_BYTES);
    for (size_t i = 0; i < names.count; i++)
        strbuf_add_fmt(&list, "%s%s", i ? ", " : "", names.items[i]);
    error_set(err, ERROR_NOT_FOUND, "no recipe '%.80s' in '%s'", request->name,
              request->recipes_dir);
    error_hint(err, "recipes there: %s", names.count ? strbuf_str(&list) : "none");
    return -1;
}

/* --- running tools ---------------------------------------------------------------------------- */

/* What a line of mmdebstrap or apt says about how far it is. */
static const struct mark {
    const char *begin;
    const char *part; /* somewhere in the line; NULL: anything */
    const char *phase;
    unsigned percent;
} marks[] = {
    {"I: running apt-get update", NULL, "read the package lists", AT_UPDATE},
    {"I: downloading packages", NULL, "download packages", AT_DOWNLOAD},
    {"I: extracting archives", NULL, "unpack packages", AT_UNPACK},
    {"I: running --extract-hook", "/common/trim", "remove what is not needed", AT_SHAPE},
    {"I: running --extract-hook", "/customize", "shape the image", AT_SHAPE + 3},
    {"I: running --extract-hook", "/common/finish", "finish the image", AT_END - 5},
    {"I: creating tarball", NULL, "pack the image", AT_END - 3},
};

static void follow_download(struct build *build, const char *line)
{
    unsigned number = 0;
    const char *newly = strstr(line, " newly installed");
    if (newly) {
        while (newly > line && isdigit((unsigned char)newly[-1]))
            newly--;
        if (sscanf(newly, "%u", &number) == 1)
            build->packages = number;
    } else if (sscanf(line, "Get:%u ", &number) == 1 && build->packages > 0) {
        unsigned done = MIN(number, build->packages);
        tell(build, build->phase, AT_DOWNLOAD + done * (AT_UNPACK - AT_DOWNLOAD) / build->packages);
    }
}

static void follow_line(struct build *build, const char *line)
{
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        if (strncmp(line, marks[i].begin, strlen(marks[i].begin)) == 0 &&
            (!marks[i].part || strstr(line, marks[i].part)))
            tell(build, marks[i].phase, marks[i].percent);
    }
    follow_download(build, line);

    bool is_error = strncmp(line, "E: ", 3) == 0;
    /* The first error is the cause; what follows is mmdebstrap giving up. */
    if (*line && !build->has_error_words && strncmp(line, "I: ", 3) != 0) {
        snprintf(build->words, sizeof(build->words), "%.250s", is_error ? line + 3 : line);
        build->has_error_words = is_error;
    }
}

static int take_output(void *ctx, int stream, const char *data, size_t len, struct error *err)
{
    struct build *build = ctx;
    (void)stream;
    if (fd_write_all(build->log_fd, data, len, err) < 0)
        return error_wrap(err, "write the log");
    for (size_t i = 0; i < len; i++) {
        if (data[i] != '\n' && data[i] != '\r') {
            strbuf_add_char(&build->line, data[i]);
            continue;
        }
        follow_line(build, strbuf_str(&build->line));
        strbuf_clear(&build->line);
        build->line.overflow = false;
    }
    return 0;
}

static int run(struct build *build, const struct arguments *argv, const char *cwd,
               struct error *err)
{
    struct process process = {
        .argv = arguments_list(argv),
        .envp = arguments_list(&build->environment),
        .cwd = cwd,
        .output = take_output,
        .ctx = build,
    };
    struct process_end end;
    build->words[0] = '\0';
    build->has_error_words = false;
    if (process_run(&process, &end, err) < 0) {
        if (err->sys_errno == ENOENT)
            error_hint(err, "install it: apt install %s", argv->items[0]);
        return -1;
    }
    if (end.exit_status == 0)
        return 0;
    const char *slash = strrchr(argv->items[0], '/');
    return error_set(err, ERROR_UNAVAILABLE, "'%s' failed while it was to %s: %s",
                     slash ? slash + 1 : argv->items[0], build->phase,
                     build->words[0] ? build->words : "it did not say why");
}

static char *log_path(const struct image_store *store, const char *name)
{
    return xasprintf("%s/build-%s.log", image_store_path(store), name);
}

/* Keeps what the tools said, since the reason may be far above the last line. */
static void keep_log(struct build *build, const struct image_store *store, struct error *err)
{
    scoped_free char *from = xasprintf("%s/build.log", draft_image_dir(build->draft));
    scoped_free char *to = log_path(store, build->request->name);
    if (build->log_fd >= 0 && rename(from, to) == 0 && !err->hint[0])
        error_hint(err, "all that the tools said is in '%s'", to);
}

/* Of a build that went well nobody wants the log, nor that of a failure before it. */
static void drop_logs(const struct build *build, const struct image_store *store)
{
    scoped_free char *old = log_path(store, build->request->name);
    unlinkat(draft_image_fd(build->draft), "build.log", 0);
    unlink(old);
}

/* --- set-up ----------------------------------------------------------------------------------- */

static int open_work(struct build *build, struct error *err)
{
    build->work_dir = draft_work_dir(build->draft);
    if (geteuid() == 0)
        return 0;
    /* mmdebstrap's hooks run as a sub-id that may not enter our home. */
    const char *temp = getenv("TMPDIR");
    if (scratch_open(&build->user_work, temp && *temp ? temp : "/tmp", USER_WORK_PREFIX, 0755,
                     err) < 0)
        return -1;
    build->work_dir = scratch_path(build->user_work);
    return 0;
}

static void set_environment(struct build *build)
{
    static const char *const ours[] = {"COVE_RECIPE=", "COVE_WORK=", "LC_ALL=", "DEBIAN_FRONTEND="};
    for (char **item = environ; *item; item++) {
        bool is_ours = false;
        for (size_t i = 0; i < ARRAY_LEN(ours); i++)
            is_ours |= strncmp(*item, ours[i], strlen(ours[i])) == 0;
        if (!is_ours)
            arguments_add(&build->environment, "%s", *item);
    }
    arguments_add(&build->environment, "COVE_RECIPE=%s", build->recipe_dir);
    arguments_add(&build->environment, "COVE_WORK=%s", build->work_dir);
    arguments_add(&build->environment, "LC_ALL=C.UTF-8"); /* we read what the tools say */
    arguments_add(&build->environment, "DEBIAN_FRONTEND=noninteractive");
    if (!getenv("SOURCE_DATE_EPOCH"))
        arguments_add(&build->environment, "SOURCE_DATE_EPOCH=" EPOCH_PRESET);
}

static int copy_recipe(struct build *build, struct error *err)
{
    scoped_arguments struct arguments argv = {0};
    const char *const copy[] = {"cp", "-RL", "--", NULL};
    arguments_add_all(&argv, copy);
    arguments_add(&argv, "%s/common", build->request->recipes_dir);
    arguments_add(&argv, "%s/%s", build->request->recipes_dir, build->request->name);
    arguments_add(&argv, "%s", build->work_dir);
    build->phase = "copy the recipe";
    if (run(build, &argv, NULL, err) < 0)
        return -1;
    scoped_arguments struct arguments open_up = {0};
    const char *const chmod_argv[] = {"chmod", "-R", "a+rX", NULL};
    arguments_add_all(&open_up, chmod_argv);
    arguments_add(&open_up, "%s", build->work_dir);
    return run(build, &open_up, NULL, err);
}

static int set_up(struct build *build, const struct image_store *store, struct error *err)
{
    if (check_recipe(build->request, err) < 0 || draft_open(&build->draft, store, err) < 0 ||
        open_work(build, err) < 0)
        return -1;
    build->log_fd = openat(draft_image_fd(build->draft), "build.log",
                           O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (build->log_fd < 0)
        return error_sys(err, "write the log");
    build->recipe_dir = xasprintf("%s/%s", build->work_dir, build->request->name);
    set_environment(build);
    return copy_recipe(build, err);
}

static int prepare(struct build *build, struct error *err)
{
    scoped_arguments struct arguments argv = {0};
    arguments_add(&argv, "%s/prepare", build->recipe_dir);
    if (access(argv.items[0], X_OK) < 0)
        return 0;
    arguments_add(&argv, "%s", build->work_dir);
    tell(build, "fetch what is no package", AT_PREPARE);
    return run(build, &argv, build->work_dir, err);
}

/* --- mmdebstrap ------------------------------------------------------------------------------- */

/* Adds the words of a file to a list with commas; a missing file is empty. */
static int add_packages(struct strbuf *list, const char *path, struct error *err)
{
    scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return 0;
    scoped_free char *text = NULL;
    if (fd < 0)
        return error_sys(err, "open '%s'", path);
    if (fd_read_text(fd, &text, LIST_MAX_BYTES, err) < 0)
        return error_wrap(err, "read '%s'", path);
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        line[strcspn(line, "#")] = '\0';
        for (char *word = line + strspn(line, " \t\r"); *word; word += strspn(word, " \t\r")) {
            size_t len = strcspn(word, " \t\r");
            strbuf_add_fmt(list, "%s%.*s", list->len ? "," : "", (int)len, word);
            word += len;
        }
    }
    return 0;
}

static int add_include(struct build *build, struct arguments *argv, struct error *err)
{
    scoped_strbuf struct strbuf list;
    strbuf_init(&list, LIST_MAX_BYTES);
    scoped_free char *common = xasprintf("%s/common/packages", build->work_dir);
    scoped_free char *own = xasprintf("%s/packages", build->recipe_dir);
    scoped_free char *prepared = xasprintf("%s/packages", build->work_dir);
    if (add_packages(&list, common, err) < 0 || add_packages(&list, own, err) < 0 ||
        add_packages(&list, prepared, err) < 0)
        return -1;
    if (list.overflow)
        return error_set(err, ERROR_TOO_LARGE, "the recipe names too many packages");
    arguments_add(argv, "--include=%s", strbuf_str(&list));
    return 0;
}

static void add_hooks(const struct build *build, struct arguments *argv)
{
    arguments_add(argv, "--setup-hook=%s/common/setup", build->work_dir);
    arguments_add(argv, "--extract-hook=%s/common/trim", build->work_dir);
    scoped_free char *customize = xasprintf("%s/customize", build->recipe_dir);
    if (access(customize, X_OK) == 0)
        arguments_add(argv, "--extract-hook=%s", customize);
    arguments_add(argv, "--extract-hook=%s/common/finish", build->work_dir);
}

static int bootstrap(struct build *build, const char *target, struct error *err)
{
    static const char *const fixed[] = {"mmdebstrap", "--verbose", "--variant=extract",
                                        "--skip=cleanup", NULL};
    scoped_arguments struct arguments argv = {0};
    arguments_add_all(&argv, fixed);
    arguments_add(&argv, "--mode=%s", geteuid() == 0 ? "root" : "unshare");
    if (add_include(build, &argv, err) < 0)
        return -1;
    scoped_free char *settings = xasprintf("%s/apt.conf", build->work_dir);
    if (apt_write_settings(settings, err) < 0)
        return -1;
    arguments_add(&argv, "--aptopt=%s", settings);
    add_hooks(build, &argv);
    apt_add_target(&argv, target);
    tell(build, "read the package lists", AT_UPDATE);
    if (run(build, &argv, NULL, err) == 0)
        return 0;
    if (geteuid() != 0 && (strstr(err->msg, "uidmap") || strstr(err->msg, "subuid")))
        error_hint(err, "this needs the package uidmap and a range of ids for you in /etc/subuid "
                        "and /etc/subgid; or let root run `cove image build`");
    return -1;
}

/* As an ordinary user: mmdebstrap's archive becomes files of ours. */
static int unpack(struct build *build, const char *archive, struct error *err)
{
    static const char *const fixed[] = {"tar",
                                        "--extract",
                                        "--no-same-owner",
                                        "--same-permissions",
                                        "--delay-directory-restore",
                                        "--exclude=./dev/*",
                                        NULL};
    scoped_arguments struct arguments argv = {0};
    arguments_add_all(&argv, fixed);
    arguments_add(&argv, "--file=%s", archive);
    arguments_add(&argv, "--directory=%s", draft_root_dir(build->draft));
    if (mkdirat(draft_image_fd(build->draft), "rootfs", 0755) < 0)
        return error_sys(err, "make the root of the image");
    tell(build, "unpack the image", AT_END);
    if (run(build, &argv, NULL, err) < 0)
        return -1;
    if (unlink(archive) < 0)
        return error_sys(err, "remove '%s'", archive);
    return 0;
}

static int make_root(struct build *build, struct error *err)
{
    if (geteuid() == 0) {
        if (bootstrap(build, draft_root_dir(build->draft), err) < 0)
            return -1;
    } else {
        scoped_free char *archive = xasprintf("%s/root.tar", draft_work_dir(build->draft));
        if (bootstrap(build, archive, err) < 0 || unpack(build, archive, err) < 0)
            return -1;
    }
    /* The hooks leave it in the root, the one place that they can always write to. */
    if (renameat(draft_image_fd(build->draft), "rootfs/" RUNNER_CONF, draft_image_fd(build->draft),
                 RUNNER_CONF) < 0)
        return error_sys(err, "take '" RUNNER_CONF "' from the image");
    return 0;
}

int build_image(const struct image_store *store, const struct build_request *request,
                uint8_t digest[SHA256_BYTES], struct error *err)
{
    __attribute__((cleanup(build_release))) struct build build = {.request = request, .log_fd = -1};
    strbuf_init(&build.line, LINE_MAX_BYTES);
    err->hint[0] = '\0';
    if (set_up(&build, store, err) < 0 || prepare(&build, err) < 0 || make_root(&build, err) < 0) {
        if (build.draft)
            keep_log(&build, store, err);
        return error_wrap(err, "build the image '%s'", request->name);
    }
    drop_logs(&build, store);
    scoped_free char *source = xasprintf("recipe %s", request->name);
    if (draft_commit(build.draft, request->name, source, &request->progress, AT_END, digest, err) <
        0)
        return error_wrap(err, "build the image '%s'", request->name);
    return 0;
}
