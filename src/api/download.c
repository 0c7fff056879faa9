/* download.c - the head is decided when the porter has opened the file, then bytes go through */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/download.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/auth.h"
#include "api/file_head.h"
#include "api/file_json.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "core/errand.h"
#include "core/mime.h"

#define TAR_TYPE "application/x-tar"

struct download {
    struct api_call *call;        /* until the head is sent */
    struct http_request *request; /* from then on */
    struct errand *errand;        /* NULL: it is over */
    struct auth_watch *watch;
    enum download_form form;
    char *path;
};

static void free_download(struct download *d)
{
    if (d->errand)
        errand_close(d->errand);
    auth_watch_free(d->watch);
    free(d->path);
    free(d);
}

/* --- the peer --------------------------------------------------------------------------------- */

static void on_gone(void *ctx)
{
    struct download *d = ctx;
    if (d->call)
        api_take(d->call);
    free_download(d);
}

static void on_drain(void *ctx)
{
    struct download *d = ctx;
    errand_resume(d->errand);
}

static void on_revoked(void *ctx)
{
    struct download *d = ctx;
    http_on_gone(d->request, NULL, NULL);
    http_stream_abort(d->request);
    free_download(d);
}

/* --- the head --------------------------------------------------------------------------------- */

/* The call becomes a request, on which the answer will go. */
static struct http_request *take_request(struct download *d)
{
    const struct api *api = api_of(d->call);
    d->watch = auth_watch_new(api->auth, api_caller(d->call)->owner, on_revoked, d);
    d->request = api_take(take_ptr(&d->call)); /* who has left is told by on_gone() */
    return d->request;
}

static void watch_peer(struct download *d)
{
    http_on_gone(d->request, on_gone, d);
    http_on_drain(d->request, on_drain, d);
}

/* A regular file is open: now everything about the answer is known. */
static void on_entry(void *ctx, const struct errand_entry *e)
{
    struct download *d = ctx;
    char etag[FILE_ETAG_BYTES];
    if (d->form != DOWNLOAD_FILE || e->kind != ERRAND_FILE)
        return; /* the reason follows */
    file_etag(e, etag);
    const struct file_head head = {.path = d->path,
                                   .type = mime_of(d->path),
                                   .etag = etag,
                                   .size = e->size,
                                   .modified_ns = e->mtime_ns,
                                   .is_shared = api_row(d->call)->flags & API_OPEN};
    struct http_request *r = take_request(d);
    struct range range = file_head_range(r, &head);
    if (file_head_settle(r, &head, range)) {
        free_download(d);
        return;
    }
    watch_peer(d);
    file_head_begin(r, &head, range);
    errand_go(d->errand, range.first, range.length);
}

static void begin_tar(struct download *d)
{
    struct http_request *r = take_request(d);
    scoped_free char *name = xasprintf("%s.tar", *d->path ? d->path : "workspace");
    watch_peer(d);
    file_head_add_name(r, name);
    file_head_add_fences(r, false);
    http_stream_begin(r, 200, TAR_TYPE, HTTP_LENGTH_UNKNOWN);
}

/* --- the body --------------------------------------------------------------------------------- */

static void on_bytes(void *ctx, const void *data, size_t len)
{
    struct download *d = ctx;
    if (!d->request)
        begin_tar(d);
    if (http_method(d->request) == METHOD_HEAD) {
        http_on_gone(d->request, NULL, NULL);
        http_stream_end(d->request);
        free_download(d);
        return;
    }
    if (!http_stream_write(d->request, data, len))
        errand_pause(d->errand);
}

static void on_ended(void *ctx, const struct errand_end *end)
{
    struct download *d = ctx;
    bool is_whole = end->error.msg[0] == '\0';
    d->errand = NULL;
    if (!d->request) {
        api_on_gone(d->call, NULL, NULL);
        api_fail(d->call, &end->error);
    } else {
        http_on_gone(d->request, NULL, NULL);
        if (is_whole)
            http_stream_end(d->request);
        else
            http_stream_abort(d->request); /* so that the peer sees that something is missing */
    }
    free_download(d);
}

static const struct errand_events events = {
    .entry = on_entry, .bytes = on_bytes, .ended = on_ended};

void download_begin(struct api_call *call, const struct plane_caller *who, const char *session,
                    const char *path, enum download_form form)
{
    struct error err;
    struct download *d = xcalloc(1, sizeof(*d));
    *d = (struct download){.call = call, .form = form, .path = xstrdup(path)};
    const struct errand_order order = {.op = form == DOWNLOAD_TAR ? FILES_PACK : FILES_READ,
                                       .path = path,
                                       .events = &events,
                                       .ctx = d};
    if (plane_open_errand(&d->errand, api_of(call)->plane, who, session, &order, &err) < 0) {
        free_download(d);
        api_fail(call, &err);
        return;
    }
    api_on_gone(call, on_gone, d);
}
