/* dispatch.h - from the parts of a request to its handler; inside of http/, called by conn.c */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "http/refusal.h"

struct http_conn;

void dispatch_head(struct http_conn *conn); /* the head is complete */
void dispatch_body(struct http_conn *conn, const char *data, size_t len);
void dispatch_end(struct http_conn *conn); /* the request is complete */

/* It goes wrong: an answer as long as none has begun, and the end of the connection. */
void dispatch_fault(struct http_conn *conn, enum refusal refusal);
