/* session_preload.c - what a template wants imported, where it may come from packages
 *
 * Packages are code of whoever asked for them: no zygote loads it, which many sandboxes come from,
 * but each sandbox for itself, sealed already, and mostly before anybody waits for it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/session_inside.h"

#define NAMES_MAX (16 * KIB)

void session_forget_preload(struct session *s)
{
    if (!s->is_preloading)
        return;
    s->is_preloading = false;
    s->question.error = (struct error){0};
}

static void fail(struct session *s, struct error *err)
{
    error_word(err, "preload_failed");
    error_hint(err, "have the template's preload changed, or its requirements");
    guest_kill(s->guest);
    session_fail(s, err);
}

static int ask(struct session *s, struct error *err)
{
    scoped_strbuf struct strbuf names;
    strbuf_init(&names, NAMES_MAX);
    for (const char *const *name = s->template->preload; *name; name++)
        strbuf_add_fmt(&names, "%s\n", *name);
    return kernel_send(s->kernel, KERNEL_IMPORT, ++s->generation, strbuf_str(&names), names.len,
                       NULL, 0, err);
}

void session_preload(struct session *s)
{
    struct error err;
    if (!s->template->preload) {
        session_on_ready(s);
        return;
    }
    s->is_preloading = true;
    s->question.error = (struct error){0};
    if (ask(s, &err) < 0)
        fail(s, &err);
}

/* Once modules are loaded, frames may be theirs: content, as ever. */
void session_preload_on_frame(struct session *s, const struct frame_message *m)
{
    struct error err;
    if (m->type == KERNEL_ERROR)
        session_take_refusal(s, m);
    if (m->type != KERNEL_DONE || session_is_ending(s))
        return;
    err = s->question.error;
    session_forget_preload(s);
    if (err.msg[0]) {
        err.code = ERROR_INVALID;
        error_wrap(&err, "preload");
        fail(s, &err);
    } else
        session_on_ready(s);
}
