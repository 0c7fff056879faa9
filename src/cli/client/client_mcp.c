/* client_mcp.c - `cove mcp --connect`: bytes between standard input and output and a server */
/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/client/client.h"
#include "cli/pump.h"

_Static_assert(PUMP_AGAIN == LINK_AGAIN && PUMP_BROKEN == LINK_NO_END, "one is the other's");

static bool on_signal(struct pump_aside *aside)
{
    (void)aside;
    return true;
}

int client_mcp(struct client *c, void *options, int argc, char **argv, struct error *err)
{
    sigset_t set;
    (void)options, (void)argc, (void)argv;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    scoped_fd int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        return error_sys(err, "watch signals");
    if (link_upgrade(c->link, "/mcp", "mcp-lines", err) < 0)
        return -1;
    struct pump_order order = {
        .in_fd = STDIN_FILENO,
        .out_fd = STDOUT_FILENO,
        .end = {.fd = link_fd(c->link),
                .read = link_read,
                .write = link_write,
                .finish = link_finish,
                .ctx = c->link},
        .asides = {{.fd = signals, .ready = on_signal}, {.fd = -1}},
    };
    if (pump_run(&order) != PUMP_LOST)
        return 0;
    return error_set(err, ERROR_UNAVAILABLE, "the server at '%.200s' has ended the connection",
                     link_address(c->link));
}

/* The address is the command's own option, and that of the others is not asked. */
int mcp_run(struct cli *cli, void *options, int argc, char **argv)
{
    const struct mcp_options *o = options;
    cli->config.json = false; /* standard output is not for our own words */
    if (!o->connect)
        return cli_misuse(cli, "cove-client needs --connect");
    free(cli->config.server);
    cli->config.server = xstrdup(o->connect);
    return remote_run(cli, REMOTE_MCP, options, argc, argv);
}
