/* trust.h - whose certificates are believed when a secret is on its way to a host
 *
 * Those of the system, and those that the operator adds. The system's file is opened before the
 * program is confined, and read when somebody first needs it. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "base/scoped.h"

struct tls;
struct trust;

/* A system without any is fine. */
struct trust *trust_new(void);
void trust_free(struct trust *trust);
SCOPED_DEFINE(trust)

/* Takes `fd`, a memory file with certificates in PEM. False: it is too late, or there was one. */
bool trust_add(struct trust *trust, int fd);

/* The client side of TLS, borrowed; NULL with *err when nobody is believed. */
struct tls *trust_client(struct trust *trust, struct error *err);
