/* secrets.h - values that a sandbox knows by placeholders alone, and the hosts that they belong to
 *
 * Pure. A placeholder is filled in nowhere but in the values of a request's headers, and only on
 * the way to a host of that secret. What comes back from there has the value covered up. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/strbuf.h"
#include "codec/authority.h"
#include "egress/policy.h"
#include "wire/egress.h"

struct secret {
    struct egress_secret text;
    struct policy secure, plain; /* by TLS, and without */
};

struct secrets { /* zeroed: none */
    struct secret *items[EGRESS_SECRETS_MAX];
    size_t count;
};

void secrets_release(struct secrets *secrets);

/* False: too many, or not of the form that is agreed on. A value has bytes from blank on, and tabs,
 * which no head of HTTP is broken by. */
bool secrets_add(struct secrets *secrets, const struct egress_secret *secret);
bool secrets_add_host(struct secrets *secrets, const struct egress_rule *host); /* of the last */

/* Those of one host; borrowed from the secrets. */
struct secrets_view {
    const struct secret *items[EGRESS_SECRETS_MAX];
    size_t count;
};
void secrets_choose(struct secrets_view *out, const struct secrets *secrets,
                    const struct authority *to, bool is_secure);

/* Adds the value of a header with all placeholders of the view filled in, also within what Basic
 * authentication encodes. `name` is in lower case. Answers whether there was any. */
bool secrets_fill(const struct secrets_view *view, const char *name, const char *value,
                  struct strbuf *out);

/* Puts asterisks over each value, in place: lengths stay as they were told. Answers how many bytes
 * are done with; behind them are those that may be the beginning of a value, to come again in front
 * of what follows. `is_last`: nothing follows, so all are. *covered, 0 at first, is carried along:
 * how many of those that come again lie under a value that began before them. */
size_t secrets_cover(const struct secrets_view *view, char *data, size_t len, bool is_last,
                     size_t *covered);
