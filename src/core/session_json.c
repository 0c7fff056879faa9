/* session_json.c - from a session to the documented shape */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/session_json.h"

#include "base/clock.h"

json_t *checkpoint_json(const struct checkpoint_info *info)
{
    char created[CLOCK_TEXT_BYTES];
    clock_format(info->created_ns, created);
    return json_pack("{s:s, s:o, s:s, s:b, s:f}", "id", info->id, "name",
                     json_text_or_null(info->name[0] ? info->name : NULL), "created_at", created,
                     "lost", info->is_lost, "took_ms", info->took_ms);
}

json_t *session_json(const struct session_info *info, const char *language)
{
    char created[CLOCK_TEXT_BYTES], used[CLOCK_TEXT_BYTES];
    clock_format(info->created_ns, created);
    clock_format(info->last_used_ns, used);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:{s:f}}", "id", info->id, "state",
                     session_state_name(info->state), "language", language, "created_at", created,
                     "last_used_at", used, "timings", "create_ms", info->create_ms);
}
