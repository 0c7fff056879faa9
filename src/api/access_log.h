/* access_log.h - one line of the log for each request, and for each execution, at its end
 *
 * A server's own faults are warnings, all else is information.
 * {"message": "request", "request", "method", "route", "status", "ms", "bytes_in", "bytes_out",
 *  "owner", "peer"}: no path, no query, no header. `route` is the id of the row, null when none was
 * found; `status` 0: the peer left before the answer; `owner` the id of the key, "" the operator,
 * null nobody.
 * {"message": "execution ended", "execution", "session", "owner", "state", "reason", "ms",
 *  "cpu_ms"}: nothing of its code or output. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/api.h"

struct http_record;

/* `row` is the record's, or NULL. */
void access_log_request(const struct log *log, const struct http_record *record,
                        const struct api_route *row);
void access_log_execution(const struct log *log, const struct plane_ending *ending);
