/* upload_form.c - the reader of the form makes steps, and errands take them as they can
 *
 * The reader cannot stop in the middle of a buffer, and a file needs its porter's word before the
 * next one begins. So steps wait in a queue, which one read of the body fills at most, and the body
 * is not read on before it is empty. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/upload_form.h"

#include <stdlib.h>
#include <string.h>

#include "api/file_json.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "codec/multipart.h"
#include "core/errand.h"

#define STEPS_MAX  (1024 * KIB) /* of one read: its bytes, and the names of its parts */
#define PATH_FIELD "path"

enum step_kind { STEP_BEGIN, STEP_DATA, STEP_END };

struct step {
    enum step_kind kind;
    size_t len; /* of what is behind it: a path, or bytes */
};

struct upload_form {
    struct api_call *call;
    struct multipart *form;
    struct errand *errand; /* of the file that comes; NULL: none */
    struct strbuf steps;
    size_t at;          /* of the next step */
    struct strbuf path; /* where the next file is to go, by the field before it; "": by its name */
    bool is_path;       /* the part that comes is that field */
    bool is_ending;     /* the last file was committed, and its end is not told yet */
    bool is_read;       /* the body is */
    bool overwrites;
    json_t *files;
    char *session, *directory, *current;
};

static void free_form(struct upload_form *u)
{
    if (u->errand)
        errand_close(u->errand);
    multipart_free(u->form);
    strbuf_release(&u->steps);
    strbuf_release(&u->path);
    json_decref(u->files);
    free(u->session);
    free(u->directory);
    free(u->current);
    free(u);
}

static void fail(struct upload_form *u, const struct error *err)
{
    api_on_gone(u->call, NULL, NULL);
    api_fail(u->call, err);
    free_form(u);
}

static void on_gone(void *ctx)
{
    struct upload_form *u = ctx;
    api_take(u->call);
    free_form(u);
}

/* --- steps ------------------------------------------------------------------------------------ */

static int add_step(struct upload_form *u, enum step_kind kind, const void *data, size_t len,
                    struct error *err)
{
    const struct step step = {kind, len};
    strbuf_add(&u->steps, &step, sizeof(step));
    strbuf_add(&u->steps, data, len);
    return u->steps.overflow ? error_set(err, ERROR_TOO_LARGE, "the form has too many parts") : 0;
}

static int on_part(void *ctx, const struct multipart_part *part, struct error *err)
{
    struct upload_form *u = ctx;
    u->is_path = !part->filename;
    if (u->is_path) {
        strbuf_clear(&u->path);
        if (strcmp(part->name, PATH_FIELD) == 0)
            return 0;
        error_set(err, ERROR_INVALID, "'%.100s' is a field that is not known", part->name);
        return error_hint(err, "files have a filename; '" PATH_FIELD "' says where the next goes");
    }
    const char *name = u->path.len > 0 ? strbuf_str(&u->path) : part->filename;
    scoped_free char *path = file_join(u->directory, name);
    strbuf_clear(&u->path);
    return add_step(u, STEP_BEGIN, path, strlen(path) + 1, err);
}

static int on_part_data(void *ctx, const void *data, size_t len, struct error *err)
{
    struct upload_form *u = ctx;
    if (!u->is_path)
        return add_step(u, STEP_DATA, data, len, err);
    strbuf_add(&u->path, data, len);
    return u->path.overflow ? error_set(err, ERROR_INVALID, "the path is too long") : 0;
}

static int on_part_end(void *ctx, struct error *err)
{
    struct upload_form *u = ctx;
    return u->is_path ? 0 : add_step(u, STEP_END, NULL, 0, err);
}

static const struct multipart_events form_events = {
    .begin = on_part, .data = on_part_data, .end = on_part_end};

/* --- files ------------------------------------------------------------------------------------ */

static void go_on(struct upload_form *u);

static void on_entry(void *ctx, const struct errand_entry *entry)
{
    struct upload_form *u = ctx;
    json_array_append_new(u->files, file_json(u->session, u->current, entry));
}

static void on_drained(void *ctx)
{
    go_on(ctx);
}

static void on_ended(void *ctx, const struct errand_end *end)
{
    struct upload_form *u = ctx;
    struct error err = end->error;
    u->errand = NULL;
    u->is_ending = false;
    if (err.msg[0]) {
        error_wrap(&err, "'%.200s'", u->current);
        fail(u, &err);
    } else {
        go_on(u);
    }
}

static const struct errand_events events = {
    .entry = on_entry, .drained = on_drained, .ended = on_ended};

static int begin_file(struct upload_form *u, const char *path, struct error *err)
{
    const struct errand_order order = {.op = FILES_WRITE,
                                       .flags = FILES_PARENTS | (u->overwrites ? FILES_REPLACE : 0),
                                       .path = path,
                                       .mode = 0644,
                                       .events = &events,
                                       .ctx = u};
    free(u->current);
    u->current = xstrdup(path);
    return plane_open_errand(&u->errand, api_of(u->call)->plane, api_caller(u->call), u->session,
                             &order, err);
}

/* False: wait, or it went wrong. */
static bool take_step(struct upload_form *u, struct error *err)
{
    struct step step;
    memcpy(&step, u->steps.data + u->at, sizeof(step));
    const char *data = u->steps.data + u->at + sizeof(step);
    u->at += sizeof(step) + step.len;
    switch (step.kind) {
    case STEP_BEGIN:
        return begin_file(u, data, err) == 0;
    case STEP_DATA:
        return errand_write(u->errand, data, step.len);
    case STEP_END:
        u->is_ending = true;
        errand_commit(u->errand);
        return false;
    }
    return false;
}

static void finish(struct upload_form *u)
{
    struct error err;
    if (json_array_size(u->files) == 0) {
        error_set(&err, ERROR_INVALID, "the form has no file");
        error_word(&err, "multipart_invalid");
        error_hint(&err, "send one with -F file=@NAME");
        fail(u, &err);
        return;
    }
    api_on_gone(u->call, NULL, NULL);
    api_answer(u->call, 201, json_pack("{s:o}", "files", take_ptr(&u->files)));
    free_form(u);
}

static void go_on(struct upload_form *u)
{
    struct error err = {0};
    while (u->at < u->steps.len && !u->is_ending) {
        if (take_step(u, &err))
            continue;
        if (err.msg[0])
            fail(u, &err);
        return;
    }
    if (u->is_ending)
        return;
    strbuf_clear(&u->steps);
    u->at = 0;
    if (u->is_read)
        finish(u);
    else
        http_body_resume(api_request(u->call));
}

static void on_body(void *ctx, const void *data, size_t len)
{
    struct upload_form *u = ctx;
    struct error err;
    u->is_read = len == 0;
    if (len > 0 ? multipart_add(u->form, data, len, &err) : multipart_end(u->form, &err)) {
        fail(u, &err);
        return;
    }
    http_body_pause(api_request(u->call));
    go_on(u);
}

void upload_form_begin(struct api_call *call, const char *session, const char *directory,
                       bool overwrites)
{
    struct error err;
    struct upload_form *u = xcalloc(1, sizeof(*u));
    *u = (struct upload_form){.call = call,
                              .overwrites = overwrites,
                              .files = json_array(),
                              .session = xstrdup(session),
                              .directory = xstrdup(directory)};
    strbuf_init(&u->steps, STEPS_MAX);
    strbuf_init(&u->path, GUEST_PATH_MAX);
    const char *type = http_header(api_request(call), "content-type");
    if (!plane_use(api_of(call)->plane, api_caller(call), session, &err) ||
        multipart_open(&u->form, type, &form_events, u, &err) < 0) {
        free_form(u);
        api_fail(call, &err);
        return;
    }
    api_on_gone(call, on_gone, u);
    http_body_start(api_request(call), on_body, u);
}
