/* observe.h - the hooks by which metrics and the log hear of what happens, and the gauges */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/api.h"

struct http_record;
struct strbuf;

/* For all routes of api_groups; before the process confines itself. Ended by metrics_free(). */
struct metrics *observe_metrics(void);

/* http_server_config.on_end; ctx is the struct api_server. */
void observe_request(const struct http_record *record, void *ctx);

/* For plane_watch(); ctx is the struct api. */
extern const struct plane_events observe_plane;

/* Reads what is only known now, and adds the text of all metrics. */
void observe_write(const struct api *api, struct strbuf *out);
