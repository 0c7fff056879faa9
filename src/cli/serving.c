/* serving.c - becoming cove-spawner, which starts coved and starts it again
 *
 * Everything that needs this user's power is done here, before any request: the options are read,
 * the server's folder is made and given to its user. From then on there is the spawner, which has
 * power and reads nothing, and coved, which reads everything and has none. Options go to coved as
 * an environment: files that only root may read need not be readable by it, and secrets are in no
 * list of processes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serving.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/parse.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "cli/cli.h"
#include "cli/folders.h"
#include "cli/identity.h"
#include "cli/native.h"
#include "core/builder.h"
#include "core/server_config.h"
#include "image/image_store.h"

#define USER_NAME      "cove"
#define TEXT_MAX_BYTES (64 * KIB)
#define WARM_MEMORY_BYTES                                                                          \
    (512 * MIB) /* what a warm interpreter may have, whatever sandboxes may                        \
                 */
#define ARGUMENTS_MAX 48

/* --- as whom ---------------------------------------------------------------------------------- */

static int choose_user(const struct config *c, struct identity *out, struct error *err)
{
    uint64_t number;
    if (c->user && parse_u64(c->user, &number) && number < UINT32_MAX) {
        *out = (struct identity){(uid_t)number, (gid_t)number};
    } else if (c->user) {
        if (!identity_find(c->user, out))
            return error_set(err, ERROR_INVALID, "option 'user': there is no user '%s'", c->user);
    } else if (!identity_find(USER_NAME, out)) {
        *out = identity_of_nobody(1);
    }
    if (out->uid == 0 || out->gid == 0) {
        error_set(err, ERROR_INVALID, "option 'user': the server must not run as root");
        return error_hint(err, "leave it out, or name a user of its own");
    }
    return 0;
}

/* --- its folder ------------------------------------------------------------------------------- */

/* Nothing inside is touched: it belongs to a user whom root does not trust. */
static int give_folder(const char *path, const struct identity *who, struct error *err)
{
    struct stat st;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return error_sys(err, "make '%s'", path);
    scoped_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_sys(err, "open '%s'", path);
    if (st.st_uid != who->uid && st.st_uid != geteuid()) {
        error_set(err, ERROR_INVALID, "'%s' belongs to uid %u, and the server is to run as uid %u",
                  path, (unsigned)st.st_uid, (unsigned)who->uid);
        return error_hint(err, "chown -R %u:%u %s, or name the other one by --user",
                          (unsigned)who->uid, (unsigned)who->gid, path);
    }
    if ((st.st_uid != who->uid && fchown(fd, who->uid, who->gid) < 0) || fchmod(fd, 0700) < 0)
        return error_sys(err, "give '%s' to the server", path);
    return 0;
}

/* --- what it must reach ----------------------------------------------------------------------- */

/* The folder on the way that its user cannot enter, or the path itself when it cannot be read:
 * tried as that user, by fsuid. NULL: all is well. */
static char *find_barrier(const char *path, const struct identity *who)
{
    char *barrier = NULL;
    scoped_free char *part = xstrdup(path);
    size_t entered = 1; /* length of the folder that the next one is looked for in */
    int gid = setfsgid(who->gid), uid = setfsuid(who->uid);
    for (char *at = part; at && !barrier;) {
        at = strchr(at + 1, '/');
        if (at)
            *at = '\0';
        scoped_fd int fd = open(part, O_PATH | O_CLOEXEC);
        if (fd < 0 && errno == EACCES)
            barrier = xstrndup(part, entered);
        entered = strlen(part);
        if (at)
            *at = '/';
    }
    scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (!barrier && fd < 0 && errno == EACCES)
        barrier = xstrdup(path);
    setfsuid((uid_t)uid);
    setfsgid((gid_t)gid);
    return barrier;
}

static int check_reach(const char *path, const struct identity *who, struct error *err)
{
    scoped_free char *barrier = find_barrier(path, who);
    if (!barrier)
        return 0;
    error_set(err, ERROR_DENIED,
              "the server runs as uid %u, which cannot reach '%s': '%s' is closed to it",
              (unsigned)who->uid, path, barrier);
    return error_hint(err, "chmod o+x the folders above it, or install Cove (`make install`) and "
                           "keep its data in a public place");
}

/* --- its options ------------------------------------------------------------------------------ */

struct words {
    char *items[ARGUMENTS_MAX + 1]; /* owned, NULL-terminated */
    size_t count;
};

static void words_add(struct words *w, char *word)
{
    BUG_ON(w->count >= ARGUMENTS_MAX);
    w->items[w->count++] = word;
}

/* As the option would be given to it; secrets too. */
static char *variable(const struct option_set *set, size_t row)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, TEXT_MAX_BYTES);
    option_add_environment_name(&set->rows[row], &text);
    strbuf_add_char(&text, '=');
    if (set->rows[row].flags & OPTION_SECRET)
        strbuf_add_str(&text, *(char *const *)((const char *)set->target + set->rows[row].offset));
    else
        option_add_value(set, row, &text);
    return xstrdup(strbuf_str(&text));
}

/* What sanitizers are told, and whether a terminal shows colours. */
static bool is_passed_on(const char *variable)
{
    static const char *const names[] = {
        "ASAN_OPTIONS=", "UBSAN_OPTIONS=", "LSAN_OPTIONS=", "NO_COLOR="};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    }
    return false;
}

/* Nothing else of our own environment, which may hold anything. */
static char **make_environment(const struct cli *cli, const char *recipes)
{
    const struct option_set *set = &cli->config_set;
    size_t count = 0, most = set->count + 5;
    for (char **e = environ; *e; e++)
        most++;
    char **list = xcalloc(most, sizeof(*list));
    for (char **e = environ; *e; e++) {
        if (is_passed_on(*e))
            list[count++] = xstrdup(*e);
    }
    for (size_t i = 0; i < set->count; i++) {
        bool is_place = strcmp(set->rows[i].name, "data-dir") == 0 ||
                        strcmp(set->rows[i].name, "recipes-dir") == 0;
        if (set->rows[i].flags & OPTION_ENV && option_is_set(set, i) && !is_place)
            list[count++] = variable(set, i);
    }
    list[count++] = xasprintf("COVE_DATA_DIR=%s", cli->config.data_dir);
    list[count++] = xasprintf("COVE_RECIPES_DIR=%s", recipes);
    if (isatty(STDERR_FILENO)) /* the server has a pipe of the spawner's there */
        list[count++] = xstrdup("COVE_LOG_TERMINAL=1");
    return list;
}

/* The spawner checks every number again, against these. Zygotes and builds of packages may need
 * more than what anybody can ask for. */
static void add_ceilings(struct words *w, const struct config *c)
{
    struct spawn_limits build;
    builder_limits(&build, c->build_disk_bytes);
    uint64_t memory = MAX(build.memory_bytes, (uint64_t)WARM_MEMORY_BYTES);
    uint64_t cpus = MAX(c->cpus_max_milli, (uint64_t)build.cpu_milli);
    char burst[FORMAT_BYTES];
    words_add(w, xasprintf("--max-memory=%" PRIu64, MAX(c->memory_max_bytes, memory)));
    words_add(w, xasprintf("--max-disk=%" PRIu64, MAX(c->disk_max_bytes, build.disk_bytes)));
    words_add(w, xasprintf("--max-inodes=%" PRIu64, MAX(c->inodes_max, build.inodes)));
    words_add(w, xasprintf("--max-cpus=%" PRIu64 ".%03" PRIu64, cpus / 1000, cpus % 1000));
    format_milli(c->cpus_burst_milli, burst);
    words_add(w, xasprintf("--cpus-burst=%s", burst));
    words_add(w, xasprintf("--max-pids=%" PRIu64, MAX(c->pids_max, (uint64_t)build.pids)));
    words_add(w, xasprintf("--max-open-files=%" PRIu64,
                           MAX(c->open_files_max, (uint64_t)build.open_files)));
    words_add(w, xasprintf("--max-lifetime=%" PRIu64 "ms", c->ttl_max_ms));
}

struct serving {
    struct cli *cli;
    struct identity who;
    struct identity proxy;                                /* whom the egress proxy runs as */
    char *spawner, *program, *egress, *recipes, *run_dir; /* run_dir NULL: the spawner's own */
    bool is_private;
};

static void make_arguments(const struct serving *s, struct words *w)
{
    const struct config *c = &s->cli->config;
    const char *dirs[IMAGE_STORE_DIRS];
    words_add(w, xstrdup(s->spawner));
    words_add(w, xasprintf("--serve=%s", s->program));
    if (geteuid() == 0) {
        words_add(w, xasprintf("--uid=%u", (unsigned)s->who.uid));
        words_add(w, xasprintf("--gid=%u", (unsigned)s->who.gid));
    }
    words_add(w, xasprintf("--egress=%s", s->egress));
    if (geteuid() == 0) {
        words_add(w, xasprintf("--egress-uid=%u", (unsigned)s->proxy.uid));
        words_add(w, xasprintf("--egress-gid=%u", (unsigned)s->proxy.gid));
    }
    if (s->run_dir)
        words_add(w, xasprintf("--run-dir=%s", s->run_dir));
    if (c->cgroup_parent)
        words_add(w, xasprintf("--cgroup-parent=%s", c->cgroup_parent));
    if (s->is_private)
        words_add(w, xstrdup("--lifeline"));
    image_store_dirs(c->data_dir, dirs);
    for (size_t i = 0; dirs[i]; i++)
        words_add(w, xasprintf("--store=%s/images", dirs[i]));
    words_add(w, xasprintf("--layers=%s/layers", c->data_dir));
    words_add(w, xasprintf("--watch=%" PRIu64 "ms", c->watchdog_ms));
    add_ceilings(w, c);
    words_add(w, xstrdup("--"));
    if (c->json)
        words_add(w, xstrdup("--json"));
}

/* --- the command ------------------------------------------------------------------------------ */

/* Relative paths would be looked for from elsewhere, and links on the way are resolved once. */
static int make_data_dir(struct serving *s, struct error *err)
{
    struct config *c = &s->cli->config;
    /* Readable for all when root makes them: the server looks for images there. */
    if (folders_make(c->data_dir, geteuid() == 0 ? 0755 : 0700, err) < 0)
        return -1;
    char *full = realpath(c->data_dir, NULL);
    if (!full)
        return error_sys(err, "find '%s'", c->data_dir);
    free(c->data_dir);
    c->data_dir = full;
    scoped_free char *folder = server_config_dir(c);
    return give_folder(folder, &s->who, err);
}

static int find_programs(struct serving *s, struct error *err)
{
    scoped_free char *program = cli_program_path(s->cli, "coved");
    scoped_free char *recipes = cli_recipes_dir(s->cli);
    s->spawner = cli_spawner_path(s->cli);
    s->program = realpath(program, NULL);
    if (!s->program)
        return error_sys(err, "find the server '%s'", program);
    scoped_free char *egress = cli_program_path(s->cli, "cove-egress");
    s->egress = realpath(egress, NULL);
    if (!s->egress)
        return error_sys(err, "find the egress proxy '%s'", egress);
    s->recipes = realpath(recipes, NULL);
    if (!s->recipes)
        return error_sys(err, "find the recipes '%s'", recipes);
    return native_run_dir(&s->run_dir, s->cli, err);
}

static int check_reaches(const struct serving *s, struct error *err)
{
    scoped_free char *folder = server_config_dir(&s->cli->config);
    const char *const paths[] = {s->program, s->recipes, folder};
    for (size_t i = 0; geteuid() == 0 && i < ARRAY_LEN(paths); i++) {
        if (check_reach(paths[i], &s->who, err) < 0)
            return -1;
    }
    return 0;
}

/* Opened with our rights, and inherited: the server itself could not. */
static int redirect_log(const struct cli *cli, struct error *err)
{
    if (cli->log.fd != STDERR_FILENO && dup2(cli->log.fd, STDERR_FILENO) < 0)
        return error_sys(err, "write the log to '%s'", cli->config.log_file);
    return 0;
}

static int prepare(struct serving *s, struct error *err)
{
    struct address listen;
    if (server_config_check(&s->cli->config, &listen, err) < 0)
        return -1;
    if (geteuid() == 0 && choose_user(&s->cli->config, &s->who, err) < 0)
        return -1;
    s->proxy = identity_of_proxy();
    if (s->proxy.uid == s->who.uid && geteuid() == 0)
        return error_set(err, ERROR_INVALID, "option 'user': %u is the egress proxy's",
                         (unsigned)s->who.uid);
    if (make_data_dir(s, err) < 0 || find_programs(s, err) < 0 || check_reaches(s, err) < 0)
        return -1;
    return s->is_private ? 0 : redirect_log(s->cli, err);
}

static int become(const struct serving *s, struct error *err)
{
    struct words words = {.count = 0};
    make_arguments(s, &words);
    char **environment = make_environment(s->cli, s->recipes);
    execve(s->spawner, words.items, environment);
    error_sys(err, "start '%s'", s->spawner);
    for (char **e = environment; *e; e++)
        free(*e);
    free(environment);
    for (size_t i = 0; i < words.count; i++)
        free(words.items[i]);
    return -1;
}

int serving_become(struct cli *cli, bool is_private, struct error *err)
{
    struct serving s = {.cli = cli, .who = {geteuid(), getegid()}, .is_private = is_private};
    int status = prepare(&s, err) < 0 ? -1 : become(&s, err);
    free(s.spawner);
    free(s.program);
    free(s.egress);
    free(s.recipes);
    free(s.run_dir);
    return status;
}
