/* job_begin.c - an execution begins in its session, or waits for what runs there */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "core/plane_inside.h"

/* Files that an answer waits for: reading a megabyte takes as long as a hundred small executions.
 */
#define HASHED_NOW_BYTES (2 * MIB)

#define YOUNG_MS 20 /* after which it is written down that it runs */

static void fill_request(struct job *j)
{
    const char *language = j->request.language;
    j->request = (struct cell_request){
        .id = j->id,
        .code = j->code,
        .code_len = j->code ? strlen(j->code) : 0,
        .language = language,
        .env = (const char *const *)j->env,
        .args = (const char *const *)j->args,
        .cwd = j->cwd,
        .inputs = j->inputs,
        .input_count = j->input_count,
        .stdin_fd = take_fd(&j->stdin_fd),
        .pipes = &j->plane->pipes,
        .timeout_ms = j->timeout_ms,
        .output_bytes = j->output_bytes,
        .wants_artifacts = true,
        .artifact_bytes = j->is_once ? HAUL_MAX_BYTES : HASHED_NOW_BYTES,
        .wants_usage = true,
        .keeps_now = j->session_id && j->mode != WISH_SYNC,
        .is_held = j->session_id != NULL,
    };
}

static void tell_started(const struct job *j)
{
    size_t len;
    if (!j->journal)
        return;
    scoped_free char *text =
        plane_dump(json_pack("{s:s, s:o, s:s}", "id", j->id, "session_id",
                             json_text_or_null(j->session_id), "language", j->language),
                   &len);
    journal_add(j->journal, JOURNAL_STARTED, text, len);
}

int job_begin(struct job *j, struct session *session, struct error *err)
{
    fill_request(j);
    if (session_execute(session, &j->request, false, &job_events, j, err) < 0)
        return -1;
    j->state = EXECUTION_RUNNING;
    j->started_ns = clock_wall_ns();
    j->plane->running++;
    tell_started(j);
    return 0;
}

static int begin_in(struct job *j, struct live *l, struct error *err)
{
    if (job_begin(j, l->session, err) < 0)
        return -1;
    l->running = j;
    return 0;
}

static bool is_free(const struct live *l)
{
    return l->session && !l->is_ending && !l->running && !l->first && !l->carrying[0] &&
           session_info(l->session)->state == SESSION_READY;
}

static void ignore(void *ctx, const struct store_answer *answer)
{
    (void)ctx, (void)answer;
}

/* The session's record first: the next process goes by it, and by the note that the spawner has,
 * for as long as this is not committed. */
static void write_begun(const struct job *j, struct live *l)
{
    const struct store_execution_change change = {
        .id = j->id,
        .node = j->plane->order.node,
        .epoch = j->plane->order.epoch,
        .to = STORE_EXECUTION_RUNNING,
        .started_ns = j->started_ns,
    };
    live_write(l);
    if (j->is_known)
        store_change_execution(j->plane->order.store, &change, ignore, NULL);
}

void job_next(struct live *l)
{
    struct error err;
    while (l->first && l->session && !l->is_ending && !l->running && !l->carrying[0] &&
           session_info(l->session)->state == SESSION_READY) {
        struct job *j = l->first;
        l->first = j->next;
        j->plane->queued--;
        if (begin_in(j, l, &err) < 0)
            job_end_unbegun(j, EXECUTION_FAILED, REASON_INFRASTRUCTURE, err.msg);
        else
            write_begun(j, l);
    }
}

void job_end_all(struct live *l, const char *why)
{
    while (l->first) {
        struct job *j = l->first;
        l->first = j->next;
        j->plane->queued--;
        job_end_unbegun(j, EXECUTION_CANCELLED, REASON_CANCELLED, why);
    }
}

static void queue(struct job *j, struct live *l)
{
    struct job **at = &l->first;
    while (*at)
        at = &(*at)->next;
    *at = j;
    j->next = NULL;
    j->state = EXECUTION_QUEUED;
    j->plane->queued++;
}

static int refuse_busy(const struct live *l, struct error *err)
{
    if (session_info(l->session)->state == SESSION_FAILED) {
        error_set(err, ERROR_CONFLICT, "the interpreter of the session is gone: %.300s",
                  l->problem ? l->problem : "it ended");
        error_word(err, "session_failed");
        return error_hint(err, "start a new one with POST /sessions/{id}/reset");
    }
    error_set(err, ERROR_CONFLICT, "the session runs something already");
    error_word(err, "session_busy");
    return error_hint(err, "wait for it, interrupt it, or ask with \"queue\": true");
}

int job_check_room(const struct plane *p, struct error *err)
{
    uint64_t count = p->running + p->starting;
    if (!p->order.max_executions || count < p->order.max_executions)
        return 0;
    error_set(err, ERROR_LIMIT, "%zu executions run already, as many as there may be",
              (size_t)count);
    error_word(err, "too_many_executions");
    error_hint(err, "try again when some have ended");
    err->retry_ms = 1000;
    return -1;
}

static size_t queue_length(const struct live *l)
{
    size_t count = 0;
    for (const struct job *j = l->first; j; j = j->next)
        count++;
    return count;
}

/* It runs nothing, but is being taken over, or reset: a moment that nobody has to know of. */
static bool is_returning(const struct live *l)
{
    return session_info(l->session)->state == SESSION_CREATING && !l->running && !l->first;
}

/* What it made is still being read; who asks has been told its end. */
static bool is_carrying(const struct live *l)
{
    return l->carrying[0] && !l->running && !l->first;
}

/* Begins it or has it wait. */
static int place(struct job *j, struct live *l, bool may_queue, struct error *err)
{
    if (is_free(l))
        return job_check_room(j->plane, err) < 0 ? -1 : begin_in(j, l, err);
    if (!(may_queue || is_returning(l) || is_carrying(l)) ||
        session_info(l->session)->state == SESSION_FAILED)
        return refuse_busy(l, err);
    if (queue_length(l) >= SESSION_QUEUE_MAX) {
        error_set(err, ERROR_LIMIT, "%d executions wait already", SESSION_QUEUE_MAX);
        return error_word(err, "queue_full");
    }
    queue(j, l);
    return 0;
}

static char *request_text(const struct code_wish *wish)
{
    size_t len;
    return plane_dump(params_json(wish, &code_wish_table), &len);
}

int job_make_id(char id[ID_BYTES], struct error *err)
{
    return id[0] ? 0 : id_make(ID_EXECUTION, id, err);
}

static struct live *find_live(struct plane *p, const struct plane_caller *who, const char *word,
                              struct error *err)
{
    return plane_use(p, who, word, err) ? live_find(p, who, word) : NULL;
}

void plane_execute(struct plane *p, const struct plane_caller *who, const char *word,
                   const struct code_wish *wish, char id[ID_BYTES], plane_fn fn, void *ctx)
{
    struct error err;
    struct live *l = find_live(p, who, word, &err);
    if (!l || job_make_id(id, &err) < 0) {
        plane_fail(fn, ctx, &err);
        return;
    }
    struct job *j = job_new(p, l->owner, id);
    j->session_id = xstrdup(l->id);
    j->live = l;
    if (job_fill(j, wish, l->kind, l->env, &err) < 0 || place(j, l, wish->may_queue, &err) < 0) {
        job_free(j);
        plane_fail(fn, ctx, &err);
        return;
    }
    j->fn = fn;
    j->ctx = ctx;
    if (j->mode != WISH_SYNC && (j->state == EXECUTION_QUEUED || !session_has_sent(l->session)))
        j->request_text = request_text(wish);
    if (j->mode != WISH_SYNC) {
        live_write(l);
        job_make_known(j, job_on_known, j);
    } else {
        j->timer = loop_timer_new(p->order.loop, YOUNG_MS, job_on_old, j);
    }
}

/* --- of an earlier process -------------------------------------------------------------------- */

struct job *job_of_record(struct plane *p, const struct store_execution *row)
{
    struct job *j = job_new(p, row->owner, row->id);
    j->session_id = row->session_id ? xstrdup(row->session_id) : NULL;
    j->language = xstrdup(row->language);
    j->state = (enum execution_state)row->state;
    j->created_ns = row->created_ns;
    j->started_ns = row->started_ns;
    j->is_idempotent = row->is_idempotent;
    j->is_known = true;
    j->mode = WISH_ASYNC;
    j->timeout_ms = p->order.timeout_ms;
    j->output_bytes = p->order.output_bytes;
    j->request_text = row->request ? xstrdup(row->request) : NULL;
    j->journal = journal_new(MAX(j->output_bytes, JOURNAL_MIN));
    return j;
}

const struct cell_request *job_attach(struct job *j, struct live *l)
{
    j->live = l;
    l->running = j;
    j->state = EXECUTION_RUNNING;
    j->plane->running++;
    fill_request(j);
    tell_started(j);
    return &j->request;
}

/* What was asked, from its record. Who listens already goes on with the same journal. */
static int fill_again(struct job *j, const struct live *l, struct error *err)
{
    struct code_wish wish = {0};
    scoped_json json_t *value = NULL;
    size_t len = j->request_text ? strlen(j->request_text) : 0;
    const struct json_limits limits = {.max_bytes = len};
    struct journal *journal = take_ptr(&j->journal);
    free(take_ptr(&j->language));
    error_set(err, ERROR_INTERNAL, "what was asked is not known any more");
    int answer = len == 0 || json_parse(&value, j->request_text, len, &limits, err) < 0 ||
                         params_read(&wish, &code_wish_table, value, err) < 0 ||
                         job_fill(j, &wish, l->kind, l->env, err) < 0
                     ? -1
                     : 0;
    params_release(&wish, &code_wish_table);
    if (!j->language)
        j->language = xstrdup(catalog_spec(l->kind)->language);
    if (j->journal)
        journal_drop(j->journal);
    j->journal = journal;
    return answer;
}

/* It was never begun: what was asked is still to be done. */
void job_queue(struct job *j, struct live *l)
{
    struct error err;
    if (fill_again(j, l, &err) < 0) {
        job_end_unbegun(j, EXECUTION_LOST, REASON_INFRASTRUCTURE, err.msg);
        return;
    }
    j->live = l;
    queue(j, l);
}

bool job_queue_first(struct job *j)
{
    struct error ignored;
    struct live *l = j->live;
    if (!l || !l->session || l->running != j || fill_again(j, l, &ignored) < 0)
        return false;
    l->running = NULL;
    j->next = l->first;
    l->first = j;
    j->state = EXECUTION_QUEUED;
    j->plane->queued++;
    return true;
}

void job_lose(struct job *j, const char *why)
{
    job_end_unbegun(j, EXECUTION_LOST, REASON_INFRASTRUCTURE, why);
}
