/* session_keep.c - what the next host needs to go on with a session */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/session_inside.h"

#include <string.h>

#include "runtime/keeper.h"

/* An interpreter that has heard of nothing does not know the last execution either. Should its end
 * not be written before our own, the next host has to know that it has run. */
static void hand_over(struct session *s)
{
    struct cell_record over = s->unwritten;
    if (s->is_channel_kept || !s->sandbox || !s->kernel)
        return;
    over.generation = 0;
    const int fd = kernel_fd(s->kernel);
    keeper_put_noted(s->spawner, s->sandbox, s->label, KEEPER_CHANNEL, &fd, 1,
                     s->has_unwritten ? &over : NULL, sizeof(over));
    s->is_channel_kept = true;
}

void session_keep_channel(struct session *s)
{
    if (s->is_kept)
        hand_over(s);
}

/* Letters of its id, behind the prefix: enough that no two sandboxes of a machine have the same. */
static void set_label(struct session *s)
{
    memcpy(s->label, strchr(s->info.id, '_') + 1, sizeof(s->label));
}

void session_keep(struct session *s)
{
    s->is_kept = true;
    set_label(s);
    hand_over(s);
}

void session_keep_early(struct session *s)
{
    set_label(s);
    hand_over(s);
}

void session_get_record(const struct session *s, struct session_record *out)
{
    *out = (struct session_record){
        .sandbox = s->sandbox,
        .generation = s->generation,
        .created_ns = s->info.created_ns,
        .last_used_ns = s->info.last_used_ns,
        .create_ms = s->info.create_ms,
        .before = s->before,
        .newest_ns = s->newest_ns,
        .last_number = s->last_number,
        .has_execution = s->cell != NULL,
    };
    memcpy(out->id, s->info.id, sizeof(out->id));
    memcpy(out->label, s->label, sizeof(out->label));
    if (s->cell)
        cell_get_record(s->cell, &out->execution);
}

void session_detach(struct session *s, struct session_record *out)
{
    session_get_record(s, out);
    family_end(s, "the session has another host"); /* who knows nothing of them */
    session_free(s);
}
