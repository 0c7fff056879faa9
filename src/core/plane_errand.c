/* plane_errand.c - errands with the files of the sessions that live here */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/errand.h"
#include "core/plane_inside.h"

int plane_open_errand(struct errand **out, struct plane *p, const struct plane_caller *who,
                      const char *word, const struct errand_order *order, struct error *err)
{
    struct session *session = plane_use(p, who, word, err);
    return session ? errand_open(out, session, order, err) : -1;
}
