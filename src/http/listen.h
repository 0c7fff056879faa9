/* listen.h - opens the socket of a listener; inside of http/ */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"

struct http_listen;

/* On success *out is owned by the caller; it does not block. */
MUST_CHECK int listen_open(int *out, const struct http_listen *where, struct error *err);
uint16_t listen_port(int fd); /* 0: it has none */
