/* plane_terminal.c - terminals in the sessions that live here */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plane_inside.h"
#include "core/terminal.h"

int plane_open_terminal(struct terminal **out, struct plane *p, const struct plane_caller *who,
                        const char *word, const struct terminal_order *order, struct error *err)
{
    struct session *session = plane_use(p, who, word, err);
    if (!session)
        return -1;
    struct terminal_order full = *order;
    full.env = live_find(p, who, word)->env;
    return terminal_open(out, session, &full, err);
}
