/* report.c - reports become changes in the store; the store refuses what comes too late */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/parse.h"
#include "core/mime.h"
#include "core/plane_inside.h"

#define REPORTED_MAX 1000
#define HEX_PATTERN  "^[0-9a-f]{64}$"

/* --- what they say ---------------------------------------------------------------------------- */

static bool is_hash(const char *text)
{
    uint8_t hash[STORE_HASH_BYTES];
    return parse_hex(text, hash, sizeof(hash));
}

/* clang-format off */
static const char *const running_names[] = {"running", NULL};
static const struct param status_rows[] = {
    {.name = "state", .type = PARAM_CHOICE, .offset = offsetof(struct status_report, state), .choices = running_names,
     .preset = "\"running\"", .help = "An ending is told by its result."},
};
const struct param_table status_report_table = PARAM_TABLE(struct status_report, "StatusReport", status_rows);

#define AT(field) offsetof(struct artifact_report, field)
static const struct param artifact_rows[] = {
    {.name = "path", .type = PARAM_STRING, .is_required = true, .offset = AT(path), .max_len = 4095, .check = job_is_path,
     .example = "\"out.png\"", .help = "Relative to the workspace."},
    {.name = "size", .type = PARAM_SIZE, .is_required = true, .offset = AT(size), .max = 1e15, .example = "18211", .help = "Bytes."},
    {.name = "mime_type", .type = PARAM_STRING, .offset = AT(mime_type), .max_len = 127, .help = "Its type; else by its name."},
    {.name = "sha256", .type = PARAM_STRING, .offset = AT(sha256), .max_len = 64, .check = is_hash, .pattern = HEX_PATTERN,
     .help = "Of its bytes."},
};
#undef AT
static const struct param_table artifact_table = PARAM_TABLE(struct artifact_report, "ArtifactReport", artifact_rows);

static const struct param artifacts_rows[] = {
    {.name = "artifacts", .type = PARAM_LIST, .is_required = true, .offset = offsetof(struct artifacts_report, artifacts),
     .max_len = REPORTED_MAX, .example = "[{\"path\": \"out.png\", \"size\": 18211}]", .table = &artifact_table, .help = "Files that it made or changed."},
};
const struct param_table artifacts_report_table =
    PARAM_TABLE(struct artifacts_report, "ArtifactsReport", artifacts_rows);

static const struct param ready_rows[] = {
    {.name = "node", .type = PARAM_STRING, .offset = offsetof(struct container_report, node), .max_len = 64,
     .check = template_name_is_valid, .help = "That holds it."},
};
const struct param_table ready_report_table = PARAM_TABLE(struct container_report, "ContainerReady", ready_rows);

static const struct param exited_rows[] = {
    {.name = "problem", .type = PARAM_STRING, .offset = offsetof(struct container_report, problem), .max_len = 500,
     .help = "Why, when that is not what was asked for."},
};
const struct param_table exited_report_table = PARAM_TABLE(struct container_report, "ContainerExited", exited_rows);
/* clang-format on */

/* --- carrying out ----------------------------------------------------------------------------- */

static const struct plane_caller everybody = {.owner = "", .sees_all = true};

struct reporting {
    struct plane *plane;
    char id[ID_BYTES];
    bool is_session;
    plane_fn fn;
    void *ctx;
    size_t left; /* writes that are under way */
    struct error err;
    bool has_failed;
};

static struct reporting *begin(struct plane *p, const char *id, bool is_session, plane_fn fn,
                               void *ctx)
{
    struct reporting *r = xcalloc(1, sizeof(*r));
    *r = (struct reporting){.plane = p, .is_session = is_session, .fn = fn, .ctx = ctx, .left = 1};
    snprintf(r->id, sizeof(r->id), "%s", id);
    return r;
}

/* What comes too late has no effect, and is no error: it may be the second time. */
static void on_written(void *ctx, const struct store_answer *answer)
{
    struct reporting *r = ctx;
    if (answer && answer->err && answer->err->code != ERROR_CONFLICT && !r->has_failed) {
        r->has_failed = true;
        r->err = *answer->err;
        if (r->err.code == ERROR_NOT_FOUND)
            error_word(&r->err, r->is_session ? "session_not_found" : "execution_not_found");
    }
    if (--r->left > 0)
        return;
    if (r->has_failed)
        plane_fail(r->fn, r->ctx, &r->err);
    else if (r->is_session)
        plane_get(r->plane, &everybody, r->id, r->fn, r->ctx);
    else
        plane_get_execution(r->plane, &everybody, r->id, r->fn, r->ctx);
    free(r);
}

/* What runs here is not for others to tell about. */
static bool is_ours(const struct plane *p, const char *id, plane_fn fn, void *ctx)
{
    struct error err;
    const struct map_node *node = map_find(&p->sessions, id), *job = map_find(&p->jobs, id);
    if (!node && !job)
        return false;
    error_set(&err, ERROR_CONFLICT, "'%.64s' runs in a sandbox of this machine", id);
    error_word(&err, "not_reported");
    plane_fail(fn, ctx, &err);
    return true;
}

static void change(struct plane *p, const struct store_execution_change *change, plane_fn fn,
                   void *ctx)
{
    store_change_execution(p->order.store, change, on_written,
                           begin(p, change->id, false, fn, ctx));
}

void report_running(struct plane *p, const char *id, plane_fn fn, void *ctx)
{
    int64_t now = clock_wall_ns();
    if (!is_ours(p, id, fn, ctx))
        change(p,
               &(struct store_execution_change){.id = id,
                                                .from = STORE_BIT(STORE_EXECUTION_QUEUED),
                                                .to = STORE_EXECUTION_RUNNING,
                                                .started_ns = now,
                                                .heartbeat_ns = now},
               fn, ctx);
}

void report_heartbeat(struct plane *p, const char *id, plane_fn fn, void *ctx)
{
    if (!is_ours(p, id, fn, ctx))
        change(p,
               &(struct store_execution_change){.id = id,
                                                .from = STORE_BIT(STORE_EXECUTION_RUNNING),
                                                .to = STORE_EXECUTION_RUNNING,
                                                .heartbeat_ns = clock_wall_ns()},
               fn, ctx);
}

/* The result needs what is known of it already: its session, its language, when it began. */
struct ending {
    struct reporting *reporting;
    json_t *fields;
    enum store_execution_state state;
};

static void write_result(struct ending *e, const char *text, size_t len)
{
    struct error err;
    struct reporting *r = e->reporting;
    scoped_json json_t *document = NULL;
    const struct json_limits limits = {.max_bytes = len};
    int64_t now = clock_wall_ns();
    if (json_parse(&document, text, len, &limits, &err) < 0) {
        r->has_failed = true;
        r->err = err;
        on_written(r, NULL);
        return;
    }
    json_object_update(document, e->fields);
    json_object_set_new(document, "ended_at", plane_time(now));
    scoped_free char *doc = plane_dump(json_incref(document), &len);
    const struct store_execution_change change = {
        .id = r->id, .to = e->state, .ended_ns = now, .doc = doc};
    store_change_execution(r->plane->order.store, &change, on_written, r);
}

static void on_known(void *ctx, const char *text, size_t len, const struct error *err)
{
    scoped_free struct ending *e = ctx;
    struct reporting *r = e->reporting;
    if (err) {
        r->has_failed = true;
        r->err = *err;
        on_written(r, NULL);
    } else {
        write_result(e, text, len);
    }
    json_decref(e->fields);
}

void report_result(struct plane *p, const char *id, const struct result_report *report, plane_fn fn,
                   void *ctx)
{
    struct error err;
    json_t *fields;
    enum store_execution_state state;
    if (is_ours(p, id, fn, ctx))
        return;
    if (report_fields(&fields, &state, report, &err) < 0) {
        plane_fail(fn, ctx, &err);
        return;
    }
    struct ending *e = xcalloc(1, sizeof(*e));
    *e = (struct ending){
        .reporting = begin(p, id, false, fn, ctx), .fields = fields, .state = state};
    plane_get_execution(p, &everybody, id, on_known, e);
}

void report_artifacts(struct plane *p, const char *id, const struct artifacts_report *report,
                      plane_fn fn, void *ctx)
{
    if (is_ours(p, id, fn, ctx))
        return;
    struct reporting *r = begin(p, id, false, fn, ctx);
    const struct artifact_report *list = report->artifacts.items;
    for (size_t i = 0; i < report->artifacts.count; i++) {
        uint8_t hash[STORE_HASH_BYTES];
        struct store_artifact row = {.execution_id = id,
                                     .path = list[i].path,
                                     .mime = list[i].mime_type ? list[i].mime_type
                                                               : mime_of(list[i].path),
                                     .size = list[i].size};
        if (list[i].sha256 && parse_hex(list[i].sha256, hash, sizeof(hash)))
            row.sha256 = (struct store_blob){hash, sizeof(hash)};
        r->left++;
        store_put_artifact(p->order.store, &row, on_written, r);
    }
    on_written(r, NULL);
}

void report_ready(struct plane *p, const char *id, const struct container_report *report,
                  plane_fn fn, void *ctx)
{
    if (is_ours(p, id, fn, ctx))
        return;
    const struct store_session_change change = {.id = id,
                                                .from = STORE_BIT(STORE_SESSION_CREATING),
                                                .to = STORE_SESSION_READY,
                                                .new_node = report->node,
                                                .last_used_ns = clock_wall_ns()};
    store_change_session(p->order.store, &change, on_written, begin(p, id, true, fn, ctx));
}

void report_exited(struct plane *p, const char *id, const struct container_report *report,
                   plane_fn fn, void *ctx)
{
    if (is_ours(p, id, fn, ctx))
        return;
    const struct store_session_change change = {.id = id,
                                                .to = report->problem ? STORE_SESSION_FAILED
                                                                      : STORE_SESSION_TERMINATED,
                                                .ended_ns = clock_wall_ns()};
    store_change_session(p->order.store, &change, on_written, begin(p, id, true, fn, ctx));
}
