/* secret.h - `--secret NAME=HOST[,HOST]`: what is to be kept from a sandbox, out of our environment
 *
 * A value never stands in an argument, where every user of a machine can read it. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"
#include "codec/json.h"

#define SECRET_OPTION_ROW(at)                                                                      \
    {                                                                                              \
        .name = "secret", .type = OPTION_LIST, .offset = (at), .arg = "NAME=HOST[,HOST]",          \
        .help = "Give the variable NAME as a placeholder; its value, from the environment or the " \
                "file that NAME_FILE names, is sent to these hosts alone"                          \
    }

/* New: [{"name": ..., "value": ..., "hosts": [...]}], as requests take them; NULL with *err. */
json_t *secret_read_all(const struct option_list *options, struct error *err);
