/* serving.h - becoming a server: that of `cove serve`, and the private one of `cove mcp` */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/cli.h"

/* Becomes the server that the options describe; comes back only when that fails. A private one ends
 * with its standard input, and its log is its standard error, whatever the options say. */
MUST_CHECK int serving_become(struct cli *cli, bool is_private, struct error *err);
