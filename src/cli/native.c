/* native.c - where the spawner keeps its slots: /run/cove for root, the user's own place otherwise
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/native.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "image/image_store.h"

static int make_dirs(const char *path, struct error *err)
{
    scoped_free char *part = xstrdup(path);
    for (char *slash = part; (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        if (mkdir(part, 0700) < 0 && errno != EEXIST)
            return error_sys(err, "make '%s'", part);
        *slash = '/';
    }
    if (mkdir(part, 0700) < 0 && errno != EEXIST)
        return error_sys(err, "make '%s'", part);
    return 0;
}

int native_run_dir(char **out, const struct cli *cli, struct error *err)
{
    const char *xdg = getenv("XDG_RUNTIME_DIR");
    struct stat st;
    scoped_free char *dir = NULL;
    if (geteuid() == 0) {
        *out = NULL;
        return 0;
    }
    if (xdg && xdg[0] == '/' && stat(xdg, &st) == 0 && st.st_uid == geteuid())
        dir = xasprintf("%s/cove", xdg);
    else
        dir = xasprintf("%s/run", cli->config.data_dir);
    if (make_dirs(dir, err) < 0)
        return -1;
    *out = take_ptr(&dir);
    return 0;
}

int native_open(struct spawner_client **out, const struct cli *cli, struct loop *loop,
                spawner_reply_fn hello, spawner_event_fn event, void *ctx, struct error *err)
{
    scoped_free char *program = cli_spawner_path(cli);
    scoped_free char *run = NULL;
    if (native_run_dir(&run, cli, err) < 0)
        return -1;
    const char *dirs[IMAGE_STORE_DIRS], *stores[IMAGE_STORE_DIRS] = {NULL};
    char *paths[IMAGE_STORE_DIRS] = {NULL};
    image_store_dirs(cli->config.data_dir, dirs);
    for (size_t i = 0; dirs[i]; i++)
        stores[i] = paths[i] = xasprintf("%s/images", dirs[i]);
    const struct spawner_settings settings = {.program = program,
                                              .run_dir = run,
                                              .cgroup_parent = cli->config.cgroup_parent,
                                              .stores = stores};
    int status = spawner_client_open(out, loop, &settings, hello, event, ctx, err);
    for (size_t i = 0; paths[i]; i++)
        free(paths[i]);
    return status;
}
