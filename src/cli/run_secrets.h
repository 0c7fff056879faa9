/* run_secrets.h - secrets of a `cove run`, and whom its proxy trusts */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/config.h"
#include "core/gateway.h"

/* *out is owned, and NULL without options. */
MUST_CHECK int run_secrets_open(struct vault **out, const struct option_list *options,
                                const struct network_rules *rules, struct error *err);

MUST_CHECK int run_secrets_trust(struct gateway *gateway, const struct config *config,
                                 struct error *err);
