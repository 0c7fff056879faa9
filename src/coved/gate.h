/* gate.h - who may pass: the operator's token and the internal one */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/api.h"
#include "base/scoped.h"

struct gate;

/* The secrets are borrowed for the call: only their hashes are kept. */
struct gate *gate_new(const char *token, const char *internal_token);
void gate_free(struct gate *gate);
SCOPED_DEFINE(gate)

/* Whether the request may go on, which then has its struct api_user; else it was answered. */
bool gate_check(const struct gate *gate, struct http_request *r, const struct api_route *row);
