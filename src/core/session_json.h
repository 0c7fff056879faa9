/* session_json.h - the session object, the same at every door */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/json.h"
#include "core/session.h"

json_t *session_json(const struct session_info *info, const char *language); /* new */
json_t *checkpoint_json(const struct checkpoint_info *info);                 /* new */
