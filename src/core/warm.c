/* warm.c - at most two zygotes: the one in use, and the one that will replace it */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/warm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "codec/json.h"
#include "core/stdio.h"

#define RETRY_MIN_MS 500
#define RETRY_MAX_MS 60000
#define WORDS_MAX    4096 /* kept of what a zygote prints */

struct warm {
    struct loop *loop;
    struct spawner_client *spawner;
    struct warm_order order;
    int config_fd;
    uint64_t current;  /* in use; 0: none */
    uint64_t starting; /* not warm yet; 0: none */
    bool is_asking;    /* the spawner owes us an answer */
    bool is_stopping;
    struct stdio *words;
    struct output kept[2];
    struct loop_timer *timer; /* retry, or rotate */
    uint64_t pause_ms;
    struct error error;
};

static void start(struct warm *w);

static void on_timer(void *ctx)
{
    start(ctx);
}

static void set_timer(struct warm *w, uint64_t ms)
{
    loop_timer_free(w->timer);
    w->timer = ms ? loop_timer_new(w->loop, ms, on_timer, w) : NULL;
}

static void on_gone(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    (void)ctx;
    (void)m;
    (void)fds;
    (void)err;
}

static void end_zygote(struct warm *w, uint64_t *zygote)
{
    struct spawn_message m = {.verb = SPAWN_DESTROY, .sandbox = *zygote};
    if (*zygote)
        spawner_client_ask(w->spawner, &m, on_gone, NULL);
    *zygote = 0;
}

static void drop_words(struct warm *w)
{
    stdio_free(take_ptr(&w->words));
    for (int i = 0; i < 2; i++)
        output_release(&w->kept[i]);
}

static void fail(struct warm *w, const struct error *err)
{
    w->error = *err;
    if (w->words) {
        scoped_strbuf struct strbuf words;
        strbuf_init(&words, 2 * WORDS_MAX);
        stdio_read_now(w->words);
        output_text(&w->kept[1], &words);
        error_hint(&w->error, "%s", strbuf_str(&words));
        drop_words(w);
    }
    w->starting = 0;
    if (w->is_stopping)
        return;
    w->pause_ms = MIN(MAX(2 * w->pause_ms, (uint64_t)RETRY_MIN_MS), (uint64_t)RETRY_MAX_MS);
    set_timer(w, w->pause_ms);
    w->order.changed(w->order.ctx);
}

static void on_asked(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    (void)fds;
    struct warm *w = ctx;
    w->is_asking = false;
    if (m)
        w->starting = m->sandbox;
    else
        fail(w, err);
}

/* Nobody wants what was asked for. */
static void on_unwanted(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    (void)fds, (void)err;
    struct spawn_message end = {.verb = SPAWN_DESTROY, .sandbox = m ? m->sandbox : 0};
    if (m)
        spawner_client_ask(ctx, &end, on_gone, NULL);
}

static void on_words_ended(void *ctx)
{
    (void)ctx;
}

static int ask(struct warm *w, struct error *err)
{
    int streams[3];
    const struct session_template *t = w->order.template;
    struct spawn_message m = {.verb = SPAWN_ZYGOTE};
    const struct stdio_order order = {
        .stdin_fd = -1,
        .outputs = {&w->kept[0], &w->kept[1]},
        .ended = on_words_ended,
        .ctx = w,
    };
    drop_words(w);
    for (int i = 0; i < 2; i++)
        output_init(&w->kept[i], WORDS_MAX);
    if (stdio_new(&w->words, w->loop, &order, streams, err) < 0)
        return -1;
    memcpy(m.create.image, t->image, sizeof(m.create.image));
    m.create.limits = t->limits;
    m.create.limits.memory_bytes = w->order.memory_bytes;
    m.create.flags = t->allow_degraded ? SPAWN_ALLOW_DEGRADED : 0;
    const int fds[SPAWN_ZYGOTE_FDS] = {t->kernel_fd, w->config_fd, streams[2]};
    w->is_asking = true;
    spawner_client_ask_with(w->spawner, &m, fds, SPAWN_ZYGOTE_FDS, on_asked, w);
    for (int i = 0; i < 3; i++)
        close(streams[i]);
    return 0;
}

static void start(struct warm *w)
{
    struct error err;
    if (w->is_asking || w->starting || w->is_stopping)
        return;
    if (ask(w, &err) < 0)
        fail(w, &err);
}

static void on_warm(struct warm *w)
{
    end_zygote(w, &w->current);
    w->current = w->starting;
    w->starting = 0;
    w->pause_ms = 0;
    w->error = (struct error){0};
    set_timer(w, w->order.rotate_ms);
    w->order.changed(w->order.ctx);
}

void warm_on_event(struct warm *w, const struct spawn_message *m)
{
    struct error err;
    if (!m) {
        w->current = w->starting = 0;
        set_timer(w, 0);
        return;
    }
    if (m->sandbox == 0 || (m->sandbox != w->current && m->sandbox != w->starting))
        return;
    if (m->verb == SPAWN_SEALED && !(m->flags & SPAWN_FAILED)) {
        on_warm(w);
        return;
    }
    if (m->flags & SPAWN_FAILED)
        spawner_client_explain(w->spawner, m, &err);
    else
        error_set(&err, ERROR_UNAVAILABLE, "the warm interpreter has ended");
    if (m->sandbox == w->current)
        w->current = 0;
    fail(w, &err);
}

/* {"env": {...}, "preload": [...]}: for the zygote alone, nobody on the way reads it. */
static int make_config(const struct warm_order *order, struct error *err)
{
    scoped_json json_t *env = json_object();
    scoped_json json_t *preload = json_array();
    for (const char *const *v = order->template->env; v && *v; v++) {
        const char *equals = strchr(*v, '=');
        scoped_free char *name = xstrndup(*v, (size_t)(equals - *v));
        json_object_set_new(env, name, json_text(equals + 1, strlen(equals + 1)));
    }
    for (const char *const *p = order->preload; p && *p; p++)
        json_array_append_new(preload, json_text(*p, strlen(*p)));
    scoped_json json_t *config = json_pack("{s:O, s:O}", "env", env, "preload", preload);
    scoped_fd int fd = memfd_create("zygote", MFD_CLOEXEC);
    if (fd < 0)
        return error_sys(err, "make memory file");
    if (json_write(fd, config, JSON_STYLE_COMPACT, err) < 0)
        return -1;
    return take_fd(&fd);
}

int warm_open(struct warm **out, struct loop *loop, struct spawner_client *spawner,
              const struct warm_order *order, struct error *err)
{
    struct warm *w = xcalloc(1, sizeof(*w));
    w->loop = loop;
    w->spawner = spawner;
    w->order = *order;
    w->config_fd = make_config(order, err);
    if (w->config_fd < 0) {
        warm_free(w);
        return -1;
    }
    start(w);
    *out = w;
    return 0;
}

void warm_free(struct warm *w)
{
    if (!w)
        return;
    set_timer(w, 0);
    drop_words(w);
    scoped_close_fd(&w->config_fd);
    free(w);
}

void warm_stop(struct warm *w)
{
    w->is_stopping = true;
    set_timer(w, 0);
    if (w->is_asking) /* we may be gone by then, or both of us before it is answered */
        spawner_client_redirect(w->spawner, w, on_unwanted, w->spawner);
    w->is_asking = false;
    end_zygote(w, &w->current);
    end_zygote(w, &w->starting);
}

uint64_t warm_zygote(const struct warm *w)
{
    return w->current;
}

const struct error *warm_error(const struct warm *w)
{
    return &w->error;
}
