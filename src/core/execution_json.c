/* execution_json.c - from facts to the documented shape */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/execution_json.h"

#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/parse.h"
#include "base/scoped.h"
#include "codec/base64.h"
#include "codec/sha256.h"
#include "core/mime.h"
#include "core/tier.h"

#define TEXT_MAX   (SIZE_MAX / 4) /* all that it is made of is bounded */
#define TEXT_USUAL 640            /* of one that went well, without its output */

static json_t *json_time(int64_t wall_ns)
{
    char text[CLOCK_TEXT_BYTES];
    if (wall_ns == 0)
        return json_null();
    clock_format(wall_ns, text);
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

/* --- the document, written field by field ------------------------------------------------------
 */

struct view {
    const struct execution *e;
    const struct execution_names *names;
};

static void add_null(struct strbuf *out)
{
    strbuf_add(out, "null", 4);
}

static void add_string(struct strbuf *out, const char *text)
{
    json_add_text(out, text, strlen(text));
}

static void add_tree(struct strbuf *out, json_t *value)
{
    json_add(out, value, JSON_STYLE_COMPACT);
    json_decref(value);
}

static void add_number(struct strbuf *out, uint64_t value)
{
    char text[FORMAT_BYTES];
    if (value > INT64_MAX) {
        add_tree(out, json_number(value));
        return;
    }
    format_u64(value, text);
    strbuf_add_str(out, text);
}

static void add_time(struct strbuf *out, int64_t wall_ns)
{
    char text[CLOCK_TEXT_BYTES];
    if (wall_ns == 0) {
        add_null(out);
        return;
    }
    clock_format(wall_ns, text);
    add_string(out, text);
}

/* Thousandths, with no more digits than they need: 12.5, 3.0. What has more than 15 digits is
 * written as all reals are. */
static void add_milli(struct strbuf *out, double ms)
{
    int64_t us = (int64_t)(ms * 1000 + 0.5);
    if (us < 0 || us >= 1000000000000000) {
        add_tree(out, json_real((double)us / 1000));
        return;
    }
    const char digits[] = {(char)('0' + us / 100 % 10), (char)('0' + us / 10 % 10),
                           (char)('0' + us % 10)};
    size_t len = digits[2] != '0' ? 3 : digits[1] != '0' ? 2 : 1;
    add_number(out, (uint64_t)us / 1000);
    strbuf_add_char(out, '.');
    strbuf_add(out, digits, len);
}

static void add_id(struct strbuf *out, const struct view *v)
{
    add_string(out, v->names->id ? v->names->id : v->e->id);
}

static void add_session(struct strbuf *out, const struct view *v)
{
    if (v->names->session_id)
        add_string(out, v->names->session_id);
    else
        add_null(out);
}

static void add_language(struct strbuf *out, const struct view *v)
{
    add_string(out, v->names->language);
}

static void add_state(struct strbuf *out, const struct view *v)
{
    add_string(out, execution_state_name(v->e->verdict.state));
}

static void add_exit_code(struct strbuf *out, const struct view *v)
{
    const struct facts *f = &v->e->facts;
    if (f->has_ended && f->signal == 0)
        strbuf_add_fmt(out, "%d", f->exit_code);
    else
        add_null(out);
}

static void add_signal(struct strbuf *out, const struct view *v)
{
    int signal = v->e->facts.signal;
    const char *name = signal ? sigabbrev_np(signal) : NULL;
    if (signal == 0)
        add_null(out);
    else if (name)
        strbuf_add_fmt(out, "\"SIG%s\"", name);
    else
        strbuf_add_fmt(out, "\"%d\"", signal);
}

static void add_reason(struct strbuf *out, const struct view *v)
{
    add_tree(out, json_reason(&v->e->verdict));
}

static void add_output(struct strbuf *out, const struct output *o)
{
    if (output_kept(o) == o->head.len && !output_is_cut(o)) {
        json_add_text(out, strbuf_str(&o->head), o->head.len);
        return;
    }
    add_tree(out, json_output(o));
}

static void add_stdout(struct strbuf *out, const struct view *v)
{
    add_output(out, &v->e->out);
}

static void add_stderr(struct strbuf *out, const struct view *v)
{
    add_output(out, &v->e->err);
}

static void add_truncated_parts(struct strbuf *out, const struct view *v)
{
    add_tree(out, json_truncated(v->e));
}

static void add_results(struct strbuf *out, const struct view *v)
{
    add_tree(out, json_results(v->e));
}

static void add_exception(struct strbuf *out, const struct view *v)
{
    add_tree(out, json_exception(&v->e->exception));
}

static void add_artifacts(struct strbuf *out, const struct view *v)
{
    add_tree(out, json_artifacts(v->e));
}

static void add_usage(struct strbuf *out, const struct view *v)
{
    const struct spawn_stats *s = &v->e->facts.stats;
    strbuf_add_str(out, "{\"cpu_ms\":");
    add_milli(out, (double)s->cpu_us / 1000);
    strbuf_add_str(out, ",\"peak_memory_bytes\":");
    add_number(out, s->memory_peak_bytes);
    strbuf_add_char(out, '}');
}

static void add_missing_limits(struct strbuf *out, const struct view *v)
{
    const char *name;
    strbuf_add_char(out, '[');
    for (size_t i = 0; (name = tier_missing_limit(v->e->layers, i)); i++) {
        strbuf_add(out, ",", i > 0);
        add_string(out, name);
    }
    strbuf_add_char(out, ']');
}

static void add_created(struct strbuf *out, const struct view *v)
{
    add_time(out, v->names->created_ns ? v->names->created_ns : v->e->created_ns);
}

static void add_started(struct strbuf *out, const struct view *v)
{
    add_time(out, v->e->started_ns);
}

static void add_ended(struct strbuf *out, const struct view *v)
{
    add_time(out, v->e->ended_ns);
}

static void add_duration(struct strbuf *out, const struct view *v)
{
    add_milli(out, v->e->duration_ms);
}

static const struct {
    const char *name;
    void (*add)(struct strbuf *out, const struct view *v);
} fields[] = {
    {"id", add_id},
    {"session_id", add_session},
    {"language", add_language},
    {"state", add_state},
    {"exit_code", add_exit_code},
    {"signal", add_signal},
    {"reason", add_reason},
    {"stdout", add_stdout},
    {"stderr", add_stderr},
    {"truncated", add_truncated_parts},
    {"results", add_results},
    {"error", add_exception},
    {"artifacts", add_artifacts},
    {"usage", add_usage},
    {"limits_not_in_force", add_missing_limits},
    {"created_at", add_created},
    {"started_at", add_started},
    {"ended_at", add_ended},
    {"duration_ms", add_duration},
};

void execution_text(struct strbuf *out, const struct execution *e,
                    const struct execution_names *names)
{
    const struct view view = {.e = e, .names = names};
    strbuf_init(out, TEXT_MAX);
    strbuf_reserve(out, TEXT_USUAL + e->out.head.len + e->err.head.len);
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        strbuf_add_str(out, i == 0 ? "{\"" : ",\"");
        strbuf_add_str(out, fields[i].name);
        strbuf_add(out, "\":", 2);
        fields[i].add(out, &view);
    }
    strbuf_add_char(out, '}');
}

json_t *execution_json(const struct execution *e, const char *language)
{
    scoped_strbuf struct strbuf text;
    execution_text(&text, e, &(struct execution_names){.language = language});
    json_t *object = json_parse_own(text.data, text.len);
    BUG_ON(!object);
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
