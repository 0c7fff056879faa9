/* control.h - what the host of the sandboxes says: who there is, and what each may reach */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/scoped.h"
#include "event/loop.h"

struct control;

struct trust;

/* `fd` is our end of the link, taken; `trust` is borrowed. `ended` comes when it is closed, or
 * somebody breaks its rules: then there is nobody to proxy for. */
MUST_CHECK int control_open(struct control **out, struct loop *loop, int fd, struct trust *trust,
                            void (*ended)(void *), void *ctx, struct error *err);
void control_free(struct control *control); /* cuts everything */
SCOPED_DEFINE(control)
