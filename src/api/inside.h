/* inside.h - what several routes ask of what lives in a session
 *
 * A call that asks something of a session ends with that: by an answer, or by inside_fail(). The
 * session may end at any time, and its name go over to another, so it is held by its id. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/api.h"

struct inside {
    struct api_call *call;
    struct api *api;
    char id[ID_BYTES]; /* of the session */
};

/* The session of the route's {id}; *in is filled. NULL: the call was answered with the reason. */
struct session *inside_begin(struct inside *in, struct api_call *call);

/* Again, later; NULL: it has ended. */
struct session *inside_session(const struct inside *in);

/* Each of these ends the call; what waits for the session may begin. */
void inside_answer(const struct inside *in, int status, json_t *document); /* taken; NULL: none */
void inside_fail(const struct inside *in, const struct error *why);
