/* mcp_meta.h - which version a request speaks, and whether its headers say what it says
 *
 * Pure: looks at one message and the headers it came with. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "mcp/mcp_inside.h"

/* What is wrong: for rpc_error(). `data` is owned. */
struct mcp_refusal {
    int code, status;
    char text[256];
    json_t *data;
};

/* NULL with *out: it cannot be served. `agreed` is what the conversation has agreed on (NULL:
 * nothing, or there is none). */
const struct mcp_version *mcp_meta_version(const struct rpc_message *message,
                                           const struct mcp_delivery *delivery,
                                           const struct mcp_version *agreed,
                                           struct mcp_refusal *out);

/* In the modern era headers repeat parts of the request, for those in between who do not read
 * bodies; they must not be deceived. `named_by`: the parameter that Mcp-Name repeats, or NULL.
 * `schema`: of the tool that is called; NULL: none is. */
bool mcp_meta_check_headers(const struct rpc_message *message, const struct mcp_delivery *delivery,
                            const char *named_by, const json_t *schema, struct mcp_refusal *out);

/* Whether a header says this text: without blanks around it, and as "=?base64?...?=" where it could
 * not be written otherwise. */
bool mcp_meta_header_is(const char *header, const char *text);
