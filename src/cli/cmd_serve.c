/* cmd_serve.c - `cove serve`: becomes cove-spawner, which starts coved and starts it again
 *
 * Everything that needs this user's power is done here, before any request: the options are read,
 * the server's folder is made and given to its user. From then on there is the spawner, which has
 * power and reads nothing, and coved, which reads everything and has none. Options go to coved as
 * an environment: files that only root may read need not be readable by it, and secrets are in no
 * list of processes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

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
#include "cli/native.h"
#include "core/server_config.h"
#include "image/image_store.h"

#define USER_NAME        "cove"
#define SANDBOX_FIRST    1900000000u /* the numbers of sandboxes, as in src/box/power.c */
#define SANDBOX_COUNT    65536u
#define PASSWD           "/etc/passwd"
#define TEXT_MAX_BYTES   (64 * KIB)
#define PASSWD_MAX_BYTES (16 * MIB)
#define WARM_MEMORY_BYTES                                                                          \
    (512 * MIB) /* what a warm interpreter may have, whatever sandboxes may                        \
                 */
#define ARGUMENTS_MAX 48

/* --- as whom ---------------------------------------------------------------------------------- */

struct identity {
    uid_t uid;
    gid_t gid;
};

/* The line of this name: name:password:uid:gid:... The C library's functions would load others. */
static bool find_user(const char *name, struct identity *out)
{
    struct error err;
    scoped_free char *text = NULL;
    if (fd_read_file(PASSWD, &text, PASSWD_MAX_BYTES, &err) < 0)
        return false;
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        const char *found = strsep(&line, ":");
        (void)strsep(&line, ":");
        const char *uid_text = strsep(&line, ":"), *gid_text = strsep(&line, ":");
        uint64_t uid, gid;
        if (strcmp(found, name) != 0 || !uid_text || !gid_text || !parse_u64(uid_text, &uid) ||
            !parse_u64(gid_text, &gid) || uid >= UINT32_MAX || gid >= UINT32_MAX)
            continue;
        *out = (struct identity){(uid_t)uid, (gid_t)gid};
        return true;
    }
    return false;
}

/* The one below those of sandboxes, which nobody else has either. Where this user namespace maps no
 * such numbers, sandboxes have the upper half of its largest range. */
static uid_t number_of_nobody(void)
{
    struct error err;
    scoped_free char *text = NULL;
    uint64_t first = SANDBOX_FIRST, best = 0;
    if (fd_read_file("/proc/self/uid_map", &text, TEXT_MAX_BYTES, &err) < 0)
        return (uid_t)first - 1;
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        uint64_t inside, count;
        if (sscanf(line, "%" SCNu64 " %*u %" SCNu64, &inside, &count) != 2)
            continue;
        if (inside < SANDBOX_FIRST && inside + count >= SANDBOX_FIRST + SANDBOX_COUNT)
            return SANDBOX_FIRST - 1;
        if (count > best) {
            best = count;
            first = inside + count - MIN(count / 2, SANDBOX_COUNT);
        }
    }
    return (uid_t)first - 1;
}

static int choose_user(const struct config *c, struct identity *out, struct error *err)
{
    uint64_t number;
    if (c->user && parse_u64(c->user, &number) && number < UINT32_MAX) {
        *out = (struct identity){(uid_t)number, (gid_t)number};
    } else if (c->user) {
        if (!find_user(c->user, out))
            return error_set(err, ERROR_INVALID, "option 'user': there is no user '%s'", c->user);
    } else if (!find_user(USER_NAME, out)) {
        uid_t uid = number_of_nobody();
        *out = (struct identity){uid, uid};
    }
    if (out->uid == 0 || out->gid == 0) {
        error_set(err, ERROR_INVALID, "option 'user': the server must not run as root");
        return error_hint(err, "leave it out, or name a user of its own");
    }
    return 0;
}

/* --- its folder ------------------------------------------------------------------------------- */

/* Readable for all when root makes them: the server looks for images there. */
static int make_folders(const char *path, mode_t mode, struct error *err)
{
    scoped_free char *part = xstrdup(path);
    for (char *at = part; at;) {
        at = strchr(at + 1, '/');
        if (at)
            *at = '\0';
        if (mkdir(part, mode) < 0 && errno != EEXIST)
            return error_sys(err, "make '%s'", part);
        if (at)
            *at = '/';
    }
    return 0;
}

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
    extern char **environ;
    const struct option_set *set = &cli->config_set;
    size_t count = 0, most = set->count + 4;
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
    return list;
}

/* The spawner checks every number again, against these. */
static void add_ceilings(struct words *w, const struct config *c)
{
    words_add(w, xasprintf("--max-memory=%" PRIu64,
                           MAX(c->memory_max_bytes, (uint64_t)WARM_MEMORY_BYTES)));
    words_add(w, xasprintf("--max-disk=%" PRIu64, c->disk_max_bytes));
    words_add(w, xasprintf("--max-inodes=%" PRIu64, c->inodes_max));
    words_add(w, xasprintf("--max-cpus=%" PRIu64 ".%03" PRIu64, c->cpus_max_milli / 1000,
                           c->cpus_max_milli % 1000));
    words_add(w, xasprintf("--max-pids=%" PRIu64, c->pids_max));
    words_add(w, xasprintf("--max-open-files=%" PRIu64, c->open_files_max));
    words_add(w, xasprintf("--max-lifetime=%" PRIu64 "ms", c->ttl_max_ms));
}

struct serving {
    struct cli *cli;
    struct identity who;
    char *spawner, *program, *recipes, *run_dir; /* run_dir NULL: the spawner's own */
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
    if (s->run_dir)
        words_add(w, xasprintf("--run-dir=%s", s->run_dir));
    words_add(w, xasprintf("--cgroup-parent=%s", c->cgroup_parent));
    image_store_dirs(c->data_dir, dirs);
    for (size_t i = 0; dirs[i]; i++)
        words_add(w, xasprintf("--store=%s/images", dirs[i]));
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
    if (make_folders(c->data_dir, geteuid() == 0 ? 0755 : 0700, err) < 0)
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
    if (make_data_dir(s, err) < 0 || find_programs(s, err) < 0 || check_reaches(s, err) < 0)
        return -1;
    return redirect_log(s->cli, err);
}

static int run(struct cli *cli, void *options, int argc, char **argv)
{
    struct serving s = {.cli = cli, .who = {geteuid(), getegid()}};
    struct words words = {.count = 0};
    struct error err;
    (void)options;
    (void)argc;
    (void)argv;
    if (prepare(&s, &err) == 0) {
        make_arguments(&s, &words);
        char **environment = make_environment(cli, s.recipes);
        execve(s.spawner, words.items, environment);
        error_sys(&err, "start '%s'", s.spawner);
        for (char **e = environment; *e; e++)
            free(*e);
        free(environment);
    }
    for (size_t i = 0; i < words.count; i++)
        free(words.items[i]);
    free(s.spawner);
    free(s.program);
    free(s.recipes);
    free(s.run_dir);
    return cli_fail(cli, &err);
}

const struct command cmd_serve = {
    .name = "serve",
    .summary = "Start the server: the HTTP control plane",
    .usage = "[OPTIONS]",
    .description =
        "Listens at 127.0.0.1:8080 unless told otherwise, and prints the address, where the "
        "token is, and a command to try. The token is made at the first start and kept in the "
        "data directory. A server that other machines can reach needs one that was set by "
        "COVE_TOKEN.\n\n"
        "What answers requests runs as a user without privileges; started by root as the "
        "user `cove` if there is one, else under a number that nobody has. It is started "
        "again when it dies, and finds its sessions as they were.\n\n"
        "  cove serve --listen 127.0.0.1:9000\n"
        "  COVE_TOKEN_FILE=/etc/cove/token cove serve --listen :8443 \\\n"
        "    --tls-cert /etc/cove/cert.pem --tls-key /etc/cove/key.pem\n\n"
        "SIGTERM and Ctrl-C let requests that run come to their end, then remove every sandbox.",
    .config_group = CONFIG_GROUP_ALL,
    .has_no_arguments = true,
    .run = run,
};
