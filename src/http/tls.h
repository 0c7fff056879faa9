/* tls.h - TLS 1.2 and newer, HTTP/1.1 only: certificate and key of a listener, or whom to trust */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "base/scoped.h"

struct tls;
struct ssl_st;
struct x509_st;
struct x509_store_st;
struct evp_pkey_st;

/* Reads a PEM chain and its key. On success *out is owned by the caller and must outlive every
 * listener that uses it. */
MUST_CHECK int tls_open(struct tls **out, const char *cert_path, const char *key_path,
                        struct error *err);
/* The same with a certificate that is at hand; borrowed for the call. */
MUST_CHECK int tls_open_with(struct tls **out, struct x509_st *certificate, struct evp_pkey_st *key,
                             struct error *err);
/* For connections of our own, to hosts whose certificates one of `trusted` vouches for; borrowed
 * for the call. */
MUST_CHECK int tls_open_client(struct tls **out, struct x509_store_st *trusted, struct error *err);
void tls_free(struct tls *tls);
SCOPED_DEFINE(tls)

/* New server side of a connection on `*fd`, which is borrowed and read at each use. */
struct ssl_st *tls_accept(struct tls *tls, const int *fd);

/* New client side, which goes on only when the certificate is valid for `host`, a name or an
 * address as codec/authority.h spells them. */
struct ssl_st *tls_connect(struct tls *tls, const int *fd, const char *host, bool is_address);
