/* prepare.h - what coved needs before anything else: paths, its confinement, its secrets */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "coved/coved.h"

/* Checks the options and finds all paths. */
MUST_CHECK int prepare_paths(struct coved *c, struct error *err);

/* Listens, with nobody to answer yet: whoever comes waits. Another program at the same place is
 * found out before anything was changed. */
MUST_CHECK int prepare_socket(struct coved *c, struct error *err);
struct http_listen prepare_where(const struct coved *c); /* borrowed from c */

/* Reads and loads what cannot be later (the certificate, libcurl if it is needed), and gives up the
 * rest. One thread until then. */
MUST_CHECK int prepare_confinement(struct coved *c, struct error *err);

/* Tokens that nobody has given, and the name of this node. */
MUST_CHECK int prepare_secrets(struct coved *c, struct error *err);

/* Which hosts and origins may come in. */
void prepare_guard(struct coved *c, struct guard *out);

/* c->address and c->url, when the port is known. */
void prepare_urls(struct coved *c);
