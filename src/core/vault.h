/* vault.h - the secrets of one sandbox, which sees placeholders in their place
 *
 * A vault has the values, the placeholders, the hosts that each belongs to, and the authority that
 * signs for these hosts, once the proxy has made it. It is given to the proxy, and to the spawner
 * as a memory file for the next host of the sandbox. Nothing of it is written to a disk, and no
 * value is told by any function here but vault_secret(). */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/scoped.h"
#include "codec/params.h"
#include "core/network.h"

#define VAULT_TRUST_PATH ".cove/ca.pem" /* in the workspace: whom programs inside trust */

/* What somebody asks for. */
struct secret_wish {
    char *name;
    char *value;
    struct param_strings hosts;
};

extern const struct param_table secret_table;

/* The row of a request that takes them. */
#define SECRETS_ROW(at)                                                                            \
    {                                                                                              \
        .name = "secrets", .type = PARAM_LIST, .offset = (at), .max_len = EGRESS_SECRETS_MAX,      \
        .is_secret = true, .table = &secret_table,                                                 \
        .help = "Values that programs inside know by placeholders alone; the proxy fills them in " \
                "on the way to their hosts."                                                       \
    }

struct vault;

/* *out is NULL when there are none. ERROR_INVALID names the secret, and never shows its value: a
 * host must be among `rules`, a name not among `env`. */
MUST_CHECK int vault_make(struct vault **out, const struct param_list *wishes,
                          const struct network_rules *rules, const struct param_map *env,
                          struct error *err);
struct vault *vault_copy(const struct vault *vault); /* of NULL: NULL */
void vault_free(struct vault *vault);                /* NULL is fine */
SCOPED_DEFINE(vault)

/* New: [{"name": ..., "hosts": [...]}], as it was asked for. */
json_t *vault_wishes_json(const struct param_list *wishes);

/* NAME=VALUE, NULL-terminated, owned: the placeholders, where to find whom to trust, and `own`
 * which wins; `own` is taken. Of no vault: `own`. */
char **vault_env(const struct vault *vault, char **own);

/* A new memory file: whom programs inside trust. Those of this machine, and the vault's authority,
 * which must be there. */
MUST_CHECK int vault_trust_file(const struct vault *vault, int *out, uint64_t *size,
                                struct error *err);

/* As a memory file, for another process; and back. `fd` is borrowed. */
MUST_CHECK int vault_save(const struct vault *vault, int *out, struct error *err);
MUST_CHECK int vault_load(struct vault **out, int fd, struct error *err);

/* --- for the proxy ---------------------------------------------------------------------------- */

size_t vault_count(const struct vault *vault); /* of NULL: 0 */
const struct egress_secret *vault_secret(const struct vault *vault, size_t index);
const struct egress_rule *vault_hosts(const struct vault *vault, size_t index, size_t *count);
const struct egress_authority *vault_authority(const struct vault *vault); /* NULL: none yet */
/* False: these bytes are none, or there is one. */
bool vault_set_authority(struct vault *vault, const struct egress_authority *authority);
