/* remote_exec.c - `cove` becomes cove-client, with the same command line */
/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/scoped.h"
#include "cli/cli.h"

int remote_run(struct cli *cli, enum remote_verb verb, void *options, int argc, char **argv)
{
    (void)verb, (void)options, (void)argc, (void)argv; /* it reads them again */
    struct error err;
    scoped_free char *path = cli_program_path(cli, "cove-client");
    execv(path, cli->argv);
    error_sys(&err, "start '%s'", path);
    error_hint(&err, "it is part of an installation of cove with libcurl");
    return cli_fail(cli, &err);
}
