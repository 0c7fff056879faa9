/* inside.c - the way in and out of questions to a session */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/inside.h"

#include <stdio.h>
#include <string.h>

#include "core/kernel_answer.h"

#define BAD_GATEWAY 502 /* what stands behind this server gave an answer that is none */

struct session *inside_begin(struct inside *in, struct api_call *call)
{
    struct error err;
    struct plane *plane = api_of(call)->plane;
    const char *word = api_parameter(call, "id");
    struct session *session = plane_use(plane, api_caller(call), word, &err);
    if (!session) {
        api_fail(call, &err);
        return NULL;
    }
    *in = (struct inside){.call = call, .api = api_of(call)};
    snprintf(in->id, sizeof(in->id), "%s", plane_session_id(plane, api_caller(call), word));
    return session;
}

struct session *inside_session(const struct inside *in)
{
    struct error ignored;
    return plane_use(in->api->plane, api_caller(in->call), in->id, &ignored);
}

void inside_answer(const struct inside *in, int status, json_t *document)
{
    if (document)
        api_answer(in->call, status, document);
    else
        api_answer_empty(in->call, status);
    plane_go_on(in->api->plane, in->id);
}

/* It is not this server that is out of order: the session is, or what runs in it. */
static void explain(const struct inside *in, struct error *err)
{
    const struct session *session = inside_session(in);
    if (!session)
        error_word(err, "session_terminated");
    else if (session_info(session)->state == SESSION_FAILED)
        error_word(err, "session_failed");
    if (err->word && strcmp(err->word, KERNEL_ANSWER_INVALID) != 0)
        err->code = ERROR_CONFLICT;
}

static void fail_as_gateway(struct api_call *call, const struct error *err)
{
    struct http_request *r = api_take(call);
    if (r)
        http_fail_as(r, &(struct http_error){.status = BAD_GATEWAY,
                                             .code = KERNEL_ANSWER_INVALID,
                                             .message = err->msg,
                                             .hint = "reset the session if it goes on"});
}

void inside_fail(const struct inside *in, const struct error *why)
{
    struct error err = *why;
    if (err.code == ERROR_UNAVAILABLE)
        explain(in, &err);
    if (err.code == ERROR_UNAVAILABLE)
        fail_as_gateway(in->call, &err);
    else
        api_fail(in->call, &err);
    plane_go_on(in->api->plane, in->id);
}
