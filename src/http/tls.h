/* tls.h - certificate and key of a listener: TLS 1.2 and newer, HTTP/1.1 only */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "base/scoped.h"

struct tls;
struct ssl_st;

/* Reads a PEM chain and its key. On success *out is owned by the caller and must outlive every
 * listener that uses it. */
MUST_CHECK int tls_open(struct tls **out, const char *cert_path, const char *key_path,
                        struct error *err);
void tls_free(struct tls *tls);
SCOPED_DEFINE(tls)

/* New server side of a connection on `*fd`, which is borrowed and read at each use. */
struct ssl_st *tls_accept(struct tls *tls, const int *fd);
