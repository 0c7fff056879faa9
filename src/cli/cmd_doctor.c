/* cmd_doctor.c - `cove doctor`: which layers hold on this host, and what to do where they do not */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/cli.h"
#include "cli/native.h"
#include "cli/term.h"
#include "codec/json.h"
#include "core/tier.h"

/* How each layer was tried, and what helps when it is missing. */
static const struct {
    const char *probe;
    const char *remedy;
} advice[LAYER_COUNT] = {
    [LAYER_PID_NS] = {"cloned a process into one", "use a kernel with CONFIG_PID_NS"},
    [LAYER_MOUNT_NS] = {"cloned a process into one",
                        "run as root, or allow user namespaces; in a container, give it "
                        "CAP_SYS_ADMIN"},
    [LAYER_NET_NS] = {"cloned a process into one", "use a kernel with CONFIG_NET_NS"},
    [LAYER_IPC_NS] = {"cloned a process into one", "use a kernel with CONFIG_IPC_NS"},
    [LAYER_UTS_NS] = {"cloned a process into one", "use a kernel with CONFIG_UTS_NS"},
    [LAYER_CGROUP_NS] = {"cloned a process into one", "use a kernel with CONFIG_CGROUPS"},
    [LAYER_USER_NS] = {"cloned a process into one",
                       "sysctl user.max_user_namespaces=15000; on Debian also "
                       "kernel.unprivileged_userns_clone=1, on Ubuntu "
                       "kernel.apparmor_restrict_unprivileged_userns=0"},
    [LAYER_UID] = {"changed to an id of the range",
                   "install uidmap and give the user a range in /etc/subuid and /etc/subgid"},
    [LAYER_ROOT] = {"changed the root in a mount namespace",
                    "run as root, or allow user namespaces"},
    [LAYER_PROC] = {"mounted one with subset=pid and hidepid",
                    "in a container, unmask /proc (docker: --security-opt systempaths=unconfined)"},
    [LAYER_CAPS] = {"dropped all and looked", "report this: no known kernel refuses it"},
    [LAYER_NO_NEW_PRIVS] = {"set and read back", "use a kernel newer than 3.5"},
    [LAYER_SECCOMP] = {"loaded the filter and made a refused call",
                       "use a kernel with CONFIG_SECCOMP_FILTER"},
    [LAYER_LANDLOCK] = {"forbade itself a directory and tried to open it",
                        "boot with landlock in the lsm= list (kernel 5.13 or newer)"},
    [LAYER_RLIMITS] = {"set a limit and ran into it", "report this: no known kernel refuses it"},
    [LAYER_CG_MEMORY] =
        {"filled a small group until it was killed",
         "enable the memory controller (cgroup_enable=memory); rootless: systemd-run "
         "--user --scope -p Delegate=yes cove ..."},
    [LAYER_CG_PIDS] = {"forked in a group that was full",
                       "enable the pids controller; rootless: systemd-run --user --scope -p "
                       "Delegate=yes cove ..."},
    [LAYER_CG_CPU] = {"joined a group with a quota",
                      "enable the cpu controller; rootless: systemd-run --user --scope -p "
                      "Delegate=yes cove ..."},
    [LAYER_DISK] = {"filled a small tmpfs", "use a kernel with CONFIG_TMPFS"},
    [LAYER_OVERLAY] = {"mounted one and compared what it shows",
                       "use a kernel with CONFIG_OVERLAY_FS; else sandboxes share the image's "
                       "inodes, and see each other's watches and locks of files"},
};

struct doctor {
    struct cli *cli;
    struct loop *loop;
    struct spawner_client *spawner;
    bool is_rootless;
    int status;
};

static const char *need_word(enum layer_need need)
{
    static const char *const words[] = {
        [LAYER_EXTRA] = "extra", [LAYER_NEEDED] = "needed", [LAYER_ALWAYS] = "always needed"};
    return words[need];
}

/* Why a layer does not hold, in words. */
static void describe_failure(enum layer layer, const struct spawn_probe_reply *p, char *out,
                             size_t size)
{
    int error = p->layers[layer].sys_errno;
    if (p->layers[layer].state == SPAWN_PROBE_WEAKER)
        snprintf(out, size, "%s",
                 layer == LAYER_CG_MEMORY
                     ? "no cgroup of our own: the spawner watches and kills instead"
                     : "no cgroup of our own: RLIMIT_NPROC counts instead");
    else
        snprintf(out, size, "%s", strerror(error));
}

static void print_layer(const struct doctor *d, enum layer layer, const struct spawn_probe_reply *p)
{
    bool colour = term_has_colour(STDOUT_FILENO);
    const char *off = term_style(colour, TERM_PLAIN), *dim = term_style(colour, TERM_DIM);
    enum layer_need need = tier_need(layer, d->is_rootless);
    if (p->layers[layer].state == SPAWN_PROBE_HOLDS) {
        printf("  %s✓%s %-18s %s%s%s\n", term_style(colour, TERM_GREEN), off,
               layer_info(layer)->name, dim, advice[layer].probe, off);
        return;
    }
    char why[128];
    describe_failure(layer, p, why, sizeof(why));
    bool matters = need != LAYER_EXTRA;
    printf("  %s%s%s %-18s %s %s(%s)%s\n", term_style(colour, matters ? TERM_RED : TERM_YELLOW),
           matters ? "✗" : "-", off, layer_info(layer)->name, why, dim, need_word(need), off);
    printf("    %s%s%s\n", dim, advice[layer].remedy, off);
}

static const struct {
    const char *word; /* for programs */
    const char *text; /* NULL: nothing to say */
} places[] = {
    [SPAWN_PLACE_NONE] = {"none", NULL},
    [SPAWN_PLACE_OWN] = {"own", "in the group that cove was started in, whose limits hold for all"},
    [SPAWN_PLACE_ABOVE] = {"above",
                           "outside of the group that cove was started in, since others stand in "
                           "it: its limits do not hold. systemd-run --scope -p Delegate=yes cove "
                           "... gives it one of its own"},
    [SPAWN_PLACE_NAMED] = {"named", "as --cgroup-parent says"},
};

static unsigned place_of(const struct spawn_probe_reply *p)
{
    return p->cgroup_place < ARRAY_LEN(places) ? p->cgroup_place : SPAWN_PLACE_NONE;
}

static void print_report(const struct doctor *d, const struct spawn_probe_reply *p, enum tier tier)
{
    static const char *const cgroups[] = {"none", "version 1", "version 2",
                                          "version 1, and an empty version 2 for kill and freeze"};
    bool colour = term_has_colour(STDOUT_FILENO);
    const char *off = term_style(colour, TERM_PLAIN), *bold = term_style(colour, TERM_BOLD);
    printf("%sLayers%s (%s; cgroups: %s; landlock ABI %d)\n", bold, off,
           d->is_rootless ? "rootless" : "as root",
           p->cgroup_version < ARRAY_LEN(cgroups) ? cgroups[p->cgroup_version] : "?",
           p->landlock_abi);
    for (int layer = 0; layer < LAYER_COUNT; layer++)
        print_layer(d, (enum layer)layer, p);
    if (places[place_of(p)].text)
        printf("%sGroups%s of sandboxes are below %.*s: %s\n", bold, off, SPAWN_PATH_BYTES - 1,
               p->cgroup_path, places[place_of(p)].text);
    switch (tier) {
    case TIER_T1:
        printf("%sTier T1%s: root spawner, every layer holds\n", bold, off);
        break;
    case TIER_T2:
        printf("%sTier T2%s: rootless, every layer that it needs holds\n", bold, off);
        break;
    case TIER_T3:
        printf("%sTier T3%s: degraded; 'cove run' refuses without --allow-degraded\n", bold, off);
        break;
    case TIER_NONE:
        printf("%sNo tier%s: 'cove run' refuses here\n", bold, off);
        break;
    }
}

static json_t *layer_json(const struct doctor *d, enum layer layer,
                          const struct spawn_probe_reply *p)
{
    char why[128] = "";
    bool holds = p->layers[layer].state == SPAWN_PROBE_HOLDS;
    if (!holds)
        describe_failure(layer, p, why, sizeof(why));
    return json_pack("{s:s, s:b, s:b, s:s, s:s, s:o}", "name", layer_info(layer)->name, "holds",
                     holds, "required", tier_need(layer, d->is_rootless) != LAYER_EXTRA, "need",
                     need_word(tier_need(layer, d->is_rootless)), "detail",
                     holds ? advice[layer].probe : why, "hint",
                     json_text_or_null(holds ? NULL : advice[layer].remedy));
}

static int print_json(const struct doctor *d, const struct spawn_probe_reply *p, enum tier tier,
                      struct error *err)
{
    json_t *layers = json_array();
    char path[SPAWN_PATH_BYTES];
    snprintf(path, sizeof(path), "%.*s", SPAWN_PATH_BYTES - 1, p->cgroup_path);
    for (int layer = 0; layer < LAYER_COUNT; layer++)
        json_array_append_new(layers, layer_json(d, (enum layer)layer, p));
    scoped_json json_t *report =
        json_pack("{s:o, s:b, s:i, s:s, s:o, s:i, s:o}", "tier", json_text_or_null(tier_name(tier)),
                  "rootless", d->is_rootless, "cgroup_version", p->cgroup_version, "cgroup_place",
                  places[place_of(p)].word, "cgroup_path", json_text_or_null(path[0] ? path : NULL),
                  "landlock_abi", p->landlock_abi, "layers", layers);
    return json_write(STDOUT_FILENO, report, JSON_STYLE_PRETTY, err);
}

static void on_probed(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    (void)fds;
    struct doctor *d = ctx;
    struct error local;
    loop_stop(d->loop);
    if (!m) {
        d->status = cli_fail(d->cli, err);
        return;
    }
    enum tier tier = tier_of(tier_layers(&m->probe), d->is_rootless);
    d->status = tier == TIER_T1 || tier == TIER_T2 ? 0 : 1;
    if (!d->cli->config.json)
        print_report(d, &m->probe, tier);
    else if (print_json(d, &m->probe, tier, &local) < 0)
        d->status = cli_fail(d->cli, &local);
}

/* Without the power to begin, no layer can be tried: the reason is the whole report. */
static void report_no_power(struct doctor *d, const struct error *err)
{
    struct error local;
    d->status = 1;
    if (d->cli->config.json) {
        scoped_json json_t *layer =
            json_pack("{s:s, s:b, s:b, s:s, s:s, s:s}", "name", layer_info(LAYER_USER_NS)->name,
                      "holds", false, "required", true, "need", need_word(LAYER_ALWAYS), "detail",
                      err->msg, "hint", advice[LAYER_USER_NS].remedy);
        scoped_json json_t *report =
            json_pack("{s:n, s:b, s:[O]}", "tier", "rootless", geteuid() != 0, "layers", layer);
        if (json_write(STDOUT_FILENO, report, JSON_STYLE_PRETTY, &local) < 0)
            d->status = cli_fail(d->cli, &local);
        return;
    }
    printf("No tier: 'cove run' refuses here\n  ✗ %s\n    %s\n", err->msg,
           advice[LAYER_USER_NS].remedy);
}

static void on_hello(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    (void)fds;
    struct doctor *d = ctx;
    if (!m) {
        loop_stop(d->loop);
        if (err->code == ERROR_ISOLATION)
            report_no_power(d, err);
        else
            d->status = cli_fail(d->cli, err);
        return;
    }
    d->is_rootless = m->hello_reply.is_rootless;
    struct spawn_message probe = {.verb = SPAWN_PROBE};
    spawner_client_ask(d->spawner, &probe, on_probed, d);
}

static void on_event(void *ctx, const struct spawn_message *m)
{
    struct doctor *d = ctx;
    if (!m)
        loop_stop(d->loop);
}

static int run(struct cli *cli, void *options, int argc, char **argv)
{
    (void)options;
    (void)argc;
    (void)argv;
    struct error err;
    scoped(loop) struct loop *loop = NULL;
    if (loop_open(&loop, &err) < 0)
        return cli_fail(cli, &err);
    struct doctor d = {.cli = cli, .loop = loop, .status = 1};
    if (native_open(&d.spawner, cli, loop, on_hello, on_event, &d, &err) < 0)
        return cli_fail(cli, &err);
    loop_run(loop);
    spawner_client_free(d.spawner);
    return d.status;
}

const struct command cmd_doctor = {
    .name = "doctor",
    .summary = "Try every isolation layer on this host",
    .usage = "[--json]",
    .description =
        "Tries each layer in a throw-away process and says which hold, which do not, and "
        "what to do about it. Exits with 0 only when the default tier holds: T1 as "
        "root, T2 as an ordinary user.",
    .has_no_arguments = true,
    .run = run,
};
