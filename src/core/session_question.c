/* session_question.c - what is asked about a namespace, one question at a time */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/session_inside.h"

#include <signal.h>
#include <string.h>

#include "codec/json.h"

#define QUESTION_MS       5000
#define QUESTION_GRACE_MS 1000
#define ANSWER_MAX        (17 * MIB)

void session_end_question(struct session *s, const struct error *err)
{
    struct question *q = &s->question;
    session_answer_fn fn = q->fn;
    scoped_strbuf struct strbuf body = q->body;
    const struct error *why = q->error.msg[0] ? &q->error : err; /* what came first explains it */
    struct error local;
    if (!why && !q->is_answered) {
        error_set(&local, ERROR_UNAVAILABLE, "the interpreter gave no answer");
        why = &local;
    }
    q->fn = NULL;
    q->body = (struct strbuf){0};
    fn(q->ctx, why ? NULL : strbuf_str(&body), why ? 0 : body.len, why);
}

static void on_question_stuck(void *ctx)
{
    struct session *s = ctx;
    guest_kill(s->guest); /* the end of the kernel follows */
}

static void on_question_late(void *ctx)
{
    struct session *s = ctx;
    error_set(&s->question.error, ERROR_TIMEOUT, "the interpreter did not answer within %d s",
              QUESTION_MS / 1000);
    guest_signal(s->guest, SIGINT);
    session_set_timer(s, QUESTION_GRACE_MS, on_question_stuck);
}

void session_expect_answer(struct session *s)
{
    session_set_timer(s, QUESTION_MS, on_question_late);
}

void session_take_refusal(struct session *s, const struct frame_message *m)
{
    struct question *q = &s->question;
    struct error err;
    scoped_json json_t *value = NULL;
    const struct json_limits limits = {.max_bytes = ANSWER_MAX};
    if (q->error.msg[0])
        return;
    if (json_parse(&value, m->body, m->len, &limits, &err) < 0)
        value = json_object();
    const char *name = json_string_value(json_object_get(value, "name"));
    const char *text = json_string_value(json_object_get(value, "value"));
    /* as python and bash, and as Node calls it */
    bool is_unknown =
        name && (strcmp(name, "NameError") == 0 || strcmp(name, "ReferenceError") == 0);
    error_set(&q->error, is_unknown ? ERROR_NOT_FOUND : ERROR_INVALID, "%.60s: %.300s",
              name ? name : "error", text ? text : "");
}

void session_question_on_frame(struct session *s, const struct frame_message *m)
{
    struct question *q = &s->question;
    switch (m->type) {
    case KERNEL_REPLY:
    case KERNEL_DATA:
        if (q->is_answered)
            return; /* the first form is the one */
        q->is_answered = true;
        strbuf_add(&q->body, m->body, m->len);
        break;
    case KERNEL_ERROR:
        session_take_refusal(s, m);
        break;
    case KERNEL_DONE:
        session_enter(s, SESSION_READY);
        session_end_question(s, NULL);
        session_begin_next(s);
        break;
    default:
        break;
    }
}

static int ask(struct session *s, enum kernel_frame_type question, const void *body, size_t len,
               const int *fds, size_t fd_count, session_answer_fn fn, void *ctx, struct error *err)
{
    if (s->info.state != SESSION_READY)
        return session_refuse(s, err);
    if (kernel_send(s->kernel, question, ++s->generation, body, len, fds, fd_count, err) < 0)
        return -1;
    s->question = (struct question){.fn = fn, .ctx = ctx};
    strbuf_init(&s->question.body, ANSWER_MAX);
    session_enter(s, SESSION_BUSY);
    session_expect_answer(s);
    return 0;
}

int session_ask(struct session *s, enum kernel_frame_type question, const void *body, size_t len,
                session_answer_fn fn, void *ctx, struct error *err)
{
    return ask(s, question, body, len, NULL, 0, fn, ctx, err);
}

int session_ask_with(struct session *s, enum kernel_frame_type question, const int *fds,
                     size_t fd_count, session_answer_fn fn, void *ctx, struct error *err)
{
    return ask(s, question, NULL, 0, fds, fd_count, fn, ctx, err);
}
