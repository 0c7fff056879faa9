/* answered.c - a handler of the api called alone: what it answers is kept, and nobody is asked */
/* SPDX-License-Identifier: Apache-2.0 */
#include "answered.h"

#include <string.h>

#include "check.h"

struct answered answered;

void __wrap_api_answer(struct api_call *call, int status, json_t *document);
void __wrap_api_fail(struct api_call *call, const struct error *err);

void __wrap_api_answer(struct api_call *call, int status, json_t *document)
{
    (void)call;
    answered_release();
    answered.status = status;
    answered.document = document;
}

void __wrap_api_fail(struct api_call *call, const struct error *err)
{
    (void)call;
    answered.status = error_info(err->code)->http_status;
    answered.failure = *err;
}

void answered_ask(const struct api_group *group, const char *id, struct api_call *call)
{
    for (size_t i = 0; i < group->count; i++) {
        if (strcmp(group->rows[i].id, id) == 0) {
            group->rows[i].handler(call);
            return;
        }
    }
    fail_msg("no route '%s'", id);
}

void answered_release(void)
{
    json_decref(answered.document);
    answered.document = NULL;
}
