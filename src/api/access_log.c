/* access_log.c - which fields there are, and nothing that a client could have put a secret into */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/access_log.h"

#include "http/http_server.h"

void access_log_request(const struct log *log, const struct http_record *r,
                        const struct api_route *row)
{
    const struct api_user *user = r->user;
    if (!log)
        return;
    struct log of_request = *log;
    of_request.request_id = r->id;
    LOG_AT(&of_request, r->status >= 500 ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "request",
           LOG_STR("method", r->method < METHOD_COUNT ? method_name(r->method) : NULL),
           LOG_STR("route", row ? row->id : NULL), LOG_INT("status", r->status),
           LOG_MS("ms", (double)r->duration_ns / 1e6), LOG_U64("bytes_in", r->bytes_in),
           LOG_U64("bytes_out", r->bytes_out), LOG_STR("owner", user ? user->caller.owner : NULL),
           LOG_STR("peer", r->peer));
}

void access_log_execution(const struct log *log, const struct plane_ending *ending)
{
    log_info(log, "execution ended", LOG_STR("execution", ending->id),
             LOG_STR("session", ending->session_id), LOG_STR("owner", ending->owner),
             LOG_STR("state", execution_state_name(ending->state)),
             LOG_STR("reason", reason_kind_name(ending->kind)), LOG_MS("ms", ending->duration_ms),
             LOG_MS("cpu_ms", (double)ending->cpu_us / 1e3));
}
