/* run_result.h - the answer to run_code: text, pictures, links, and data where it is wanted
 *
 * Pictures that the code saved are shown like those that it displayed, so they are fetched first,
 * as far as there is room for them. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/json.h"

struct mcp_call;

#define RUN_RESULT_PICTURE_BYTES (1024 * 1024) /* of one file; larger ones are only named */

/* Answers the call, now or soon; takes `document`, an execution as REST tells it. */
void run_result_begin(struct mcp_call *call, json_t *document);
