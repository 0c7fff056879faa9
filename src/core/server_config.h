/* server_config.h - what the options of a server say together
 *
 * A row of the table can judge its own value only. What two of them must agree on is checked here:
 * by `cove serve`, whose user sees it at once, and again by coved, which believes nobody. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "blob/s3.h"
#include "core/address.h"
#include "core/config.h"
#include "core/template.h"

/* Each failure names the option, its value and what to do. */
MUST_CHECK int server_config_check(const struct config *config, struct address *listen,
                                   struct error *err);

/* What a database-url stands for: a path, owned by the caller. */
MUST_CHECK int server_config_database(const struct config *config, char **out, struct error *err);

/* False: blobs are kept on the disk. The texts in *out are borrowed from `config`. */
bool server_config_s3(const struct config *config, struct s3_order *out);

void server_config_bounds(const struct config *config, struct template_bounds *out);

/* What sandboxes may reach; borrows from the configuration. */
struct network_bounds server_config_network(const struct config *config);

/* A new memory file with what the option egress-ca names; -1 without one. */
MUST_CHECK int server_config_trust(const struct config *config, int *out, struct error *err);

/* The option state-dir, or <data-dir>/server: all that the server itself writes. Owned by the
 * caller. */
char *server_config_dir(const struct config *config);
