/* cmd_serve.c - `cove serve` */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include "cli/cli.h"
#include "cli/serving.h"

static int run(struct cli *cli, void *options, int argc, char **argv)
{
    struct error err;
    (void)options;
    (void)argc;
    (void)argv;
    (void)!serving_become(cli, false, &err); /* comes back with an error only */
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
