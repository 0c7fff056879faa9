/* native.c - where the spawner keeps its slots: /run/cove for root, the user's own place otherwise
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/native.h"

#include <sys/stat.h>

#include "base/memory.h"
#include "cli/folders.h"
#include "cli/identity.h"
#include "image/image_store.h"

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
    if (folders_make(dir, 0700, err) < 0)
        return -1;
    *out = take_ptr(&dir);
    return 0;
}

static int start(struct spawner_client **out, const struct cli *cli, struct loop *loop,
                 const char *egress, spawner_reply_fn hello, spawner_event_fn event, void *ctx,
                 struct error *err)
{
    const struct identity proxy =
        egress ? identity_of_proxy() : (struct identity){0}; /* which reads files */
    scoped_free char *program = cli_spawner_path(cli);
    scoped_free char *run = NULL;
    if (native_run_dir(&run, cli, err) < 0)
        return -1;
    const char *dirs[IMAGE_STORE_DIRS], *stores[IMAGE_STORE_DIRS] = {NULL};
    char *paths[IMAGE_STORE_DIRS] = {NULL};
    image_store_dirs(cli->config.data_dir, dirs);
    for (size_t i = 0; dirs[i]; i++)
        stores[i] = paths[i] = xasprintf("%s/images", dirs[i]);
    scoped_free char *layers = xasprintf("%s/layers", cli->config.data_dir);
    const struct spawner_settings settings = {.program = program,
                                              .layers = layers,
                                              .run_dir = run,
                                              .cgroup_parent = cli->config.cgroup_parent,
                                              .cpu_burst_milli = cli->config.cpus_burst_milli,
                                              .stores = stores,
                                              .egress = egress,
                                              .egress_uid = proxy.uid,
                                              .egress_gid = proxy.gid};
    int status = spawner_client_open(out, loop, &settings, hello, event, ctx, err);
    for (size_t i = 0; paths[i]; i++)
        free(paths[i]);
    return status;
}

int native_open(struct spawner_client **out, const struct cli *cli, struct loop *loop,
                spawner_reply_fn hello, spawner_event_fn event, void *ctx, struct error *err)
{
    return start(out, cli, loop, NULL, hello, event, ctx, err);
}

int native_open_with_egress(struct spawner_client **out, const struct cli *cli, struct loop *loop,
                            spawner_reply_fn hello, spawner_event_fn event, void *ctx,
                            struct error *err)
{
    scoped_free char *path = cli_program_path(cli, "cove-egress");
    scoped_free char *egress = realpath(path, NULL);
    if (!egress)
        return error_sys(err, "find the egress proxy '%s'", path);
    return start(out, cli, loop, egress, hello, event, ctx, err);
}
