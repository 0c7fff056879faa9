/* execution_json.c - from facts to the documented shape */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/execution_json.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/parse.h"
#include "base/scoped.h"
#include "codec/base64.h"
#include "codec/sha256.h"
#include "core/mime.h"

static json_t *json_time(int64_t wall_ns)
{
    char text[CLOCK_TEXT_BYTES];
    if (wall_ns == 0)
        return json_null();
    clock_format(wall_ns, text);
    return json_string(text);
}

static json_t *json_milli(double ms)
{
    return json_real((double)(int64_t)(ms * 1000 + 0.5) / 1000);
}

static json_t *json_signal(int signal)
{
    const char *name = signal ? sigabbrev_np(signal) : NULL;
    char text[24];
    if (signal == 0)
        return json_null();
    if (name)
        snprintf(text, sizeof(text), "SIG%s", name);
    else
        snprintf(text, sizeof(text), "%d", signal);
    return json_string(text);
}

/* Time is told in seconds, everything else in its own unit. */
static json_t *json_amount(enum reason_kind kind, uint64_t value)
{
    if (value == 0)
        return json_null();
    return kind == REASON_TIMEOUT ? json_real((double)value / 1000) : json_number(value);
}

static json_t *json_reason(const struct verdict *v)
{
    if (v->kind == REASON_NONE)
        return json_null();
    return json_pack("{s:s, s:o, s:o, s:o, s:o}", "kind", reason_kind_name(v->kind), "limit",
                     json_amount(v->kind, v->limit), "used", json_amount(v->kind, v->used),
                     "message", json_text_or_null(v->message), "hint",
                     json_text_or_null(v->hint[0] ? v->hint : NULL));
}

static json_t *json_output(const struct output *o)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, output_kept(o) + 128);
    output_text(o, &text);
    return json_text(strbuf_str(&text), text.len);
}

static void add_truncated(json_t *object, const char *name, const struct output *o)
{
    if (output_is_cut(o))
        json_object_set_new(object, name,
                            json_pack("{s:o, s:o}", "kept_bytes", json_number(output_kept(o)),
                                      "total_bytes", json_number(o->total)));
}

static json_t *json_truncated(const struct execution *e)
{
    json_t *object = json_object();
    add_truncated(object, "stdout", &e->out);
    add_truncated(object, "stderr", &e->err);
    if (e->results.is_cut)
        json_object_set_new(object, "results", json_true());
    if (e->artifacts.is_cut)
        json_object_set_new(object, "artifacts", json_true());
    return object;
}

static json_t *json_artifact(const struct artifact *a)
{
    char hex[SHA256_HEX_BYTES];
    format_hex(a->sha256, SHA256_BYTES, hex);
    return json_pack("{s:o, s:o, s:s, s:o, s:o, s:n}", "path", json_text(a->path, strlen(a->path)),
                     "size", json_number(a->size), "mime_type", mime_of(a->path), "sha256",
                     json_text_or_null(a->has_content ? hex : NULL), "modified_at",
                     json_time(a->mtime_ns), "download_url");
}

static json_t *json_artifacts(const struct execution *e)
{
    json_t *list = json_array();
    for (size_t i = 0; i < e->artifacts.count; i++)
        json_array_append_new(list, json_artifact(&e->artifacts.items[i]));
    return list;
}

/* Text goes as it is, anything else as base64. */
static bool is_text(const char *mime)
{
    static const char *const texts[] = {"application/json", "application/javascript",
                                        "image/svg+xml"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (strcmp(mime, texts[i]) == 0)
            return true;
    }
    return strncmp(mime, "text/", 5) == 0;
}

static json_t *json_form(const struct result_form *form)
{
    if (is_text(form->mime))
        return json_text(form->data, form->len);
    scoped_strbuf struct strbuf encoded;
    strbuf_init(&encoded, BASE64_ENCODED_LEN(form->len) + 1);
    base64_add(&encoded, form->data, form->len);
    return json_text(strbuf_str(&encoded), encoded.len);
}

json_t *result_json(const struct result *r)
{
    json_t *data = json_object();
    for (size_t f = 0; f < r->count; f++)
        json_object_set_new(data, r->forms[f].mime, json_form(&r->forms[f]));
    return json_pack("{s:b, s:o}", "main", r->is_main, "data", data);
}

static json_t *json_results(const struct execution *e)
{
    json_t *list = json_array();
    for (size_t i = 0; i < e->results.count; i++)
        json_array_append_new(list, result_json(&e->results.items[i]));
    return list;
}

static json_t *json_exception(const struct exception *e)
{
    if (!e->name)
        return json_null();
    return json_pack("{s:o, s:o, s:o}", "name", json_text(e->name, strlen(e->name)), "value",
                     json_text(e->value, strlen(e->value)), "traceback",
                     json_text(e->traceback, strlen(e->traceback)));
}

json_t *execution_json(const struct execution *e, const char *language)
{
    const struct facts *f = &e->facts;
    bool has_code = f->has_ended && f->signal == 0;
    json_t *object = json_pack("{s:s, s:n, s:s, s:s}", "id", e->id, "session_id", "language",
                               language, "state", execution_state_name(e->verdict.state));
    json_object_set_new(object, "exit_code", has_code ? json_integer(f->exit_code) : json_null());
    json_object_set_new(object, "signal", json_signal(f->signal));
    json_object_set_new(object, "reason", json_reason(&e->verdict));
    json_object_set_new(object, "stdout", json_output(&e->out));
    json_object_set_new(object, "stderr", json_output(&e->err));
    json_object_set_new(object, "truncated", json_truncated(e));
    json_object_set_new(object, "results", json_results(e));
    json_object_set_new(object, "error", json_exception(&e->exception));
    json_object_set_new(object, "artifacts", json_artifacts(e));
    json_object_set_new(object, "usage",
                        json_pack("{s:o, s:o}", "cpu_ms",
                                  json_milli((double)f->stats.cpu_us / 1000), "peak_memory_bytes",
                                  json_number(f->stats.memory_peak_bytes)));
    json_object_set_new(object, "created_at", json_time(e->created_ns));
    json_object_set_new(object, "started_at", json_time(e->started_ns));
    json_object_set_new(object, "ended_at", json_time(e->ended_ns));
    json_object_set_new(object, "duration_ms", json_milli(e->duration_ms));
    return object;
}

static void cut_stream(json_t *object, const char *name, const struct output *o, size_t max_bytes)
{
    struct output less;
    if (output_kept(o) <= max_bytes)
        return;
    output_cut(&less, o, max_bytes);
    json_object_set_new(object, name, json_output(&less));
    add_truncated(json_object_get(object, "truncated"), name, &less);
    output_release(&less);
}

void execution_json_cut(json_t *object, const struct execution *e, size_t max_bytes)
{
    cut_stream(object, "stdout", &e->out, max_bytes);
    cut_stream(object, "stderr", &e->err, max_bytes);
}
