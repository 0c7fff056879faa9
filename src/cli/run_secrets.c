/* run_secrets.c - from options to a vault, read as a request would bring them */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_secrets.h"

#include "base/macros.h"
#include "cli/secret.h"
#include "core/server_config.h"

int run_secrets_open(struct vault **out, const struct option_list *options,
                     const struct network_rules *rules, struct error *err)
{
    static const struct param rows[] = {SECRETS_ROW(0)};
    static const struct param_table table = PARAM_TABLE(struct param_list, "Secrets", rows);
    struct param_list wishes;
    *out = NULL;
    if (options->count == 0)
        return 0;
    json_t *list = secret_read_all(options, err);
    scoped_json json_t *body = list ? json_pack("{s:o}", "secrets", list) : NULL;
    if (!body || params_read(&wishes, &table, body, err) < 0)
        return -1;
    int status = vault_make(out, &wishes, rules, NULL, err);
    params_release(&wishes, &table);
    return status;
}

int run_secrets_trust(struct gateway *gateway, const struct config *config, struct error *err)
{
    int fd;
    if (server_config_trust(config, &fd, err) < 0)
        return -1;
    gateway_give_trust(gateway, fd);
    return 0;
}
