/* answered.h - a handler of the api called alone: what it answers is kept, and nobody is asked */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/api_inside.h"

/* The last answer, or failure. */
extern struct answered {
    int status;
    json_t *document; /* of the last answer that had one */
    struct error failure;
} answered;

/* Calls the handler of the route with this id, as for `call`. */
void answered_ask(const struct api_group *group, const char *id, struct api_call *call);
void answered_release(void);
