/* storage.c - opens the back end, and asks one that fails whether it still does */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coved/storage.h"

#include <stdlib.h>

#include "base/memory.h"
#include "blob/disk.h"
#include "blob/spool.h"
#include "core/archive.h"
#include "http/curl_library.h"
#include "http/http_client.h"
#include "store/store.h"

#define ASK_MS    15000 /* between two looks at one that fails */
#define PROBE_KEY "probe"

struct storage {
    const struct config *config;
    bool is_s3;
    struct s3_order s3;
    struct storage_order order;
    struct curl_library *library;
    struct http_client *client;
    struct blob *blob;
    struct blob *near, *spool; /* with a bucket: the folder, and the way from there */
    struct loop_timer *timer;
    bool has_failed; /* and it was logged */
    const char *files[12];
};

/* For names of hosts, and for certificates. A link of resolv.conf leads to the last one. */
static const char *const network_files[] = {
    "/etc/resolv.conf",     "/etc/hosts",     "/etc/nsswitch.conf", "/etc/gai.conf",
    "/etc/host.conf",       "/etc/ssl/certs", "/etc/ssl/cert.pem",  "/usr/share/ca-certificates",
    "/run/systemd/resolve",
};

int storage_prepare(struct storage **out, const struct config *config, struct error *err)
{
    scoped(storage) struct storage *s = xcalloc(1, sizeof(*s));
    s->config = config;
    s->is_s3 = server_config_s3(config, &s->s3);
    if (s->is_s3) {
        size_t count = 0;
        for (; count < ARRAY_LEN(network_files); count++)
            s->files[count] = network_files[count];
        s->files[count] = config->s3_ca;
        if (curl_library_open(&s->library, err) < 0)
            return error_wrap(err, "option 's3-bucket'");
    }
    *out = take_ptr(&s);
    return 0;
}

unsigned storage_port(const struct storage *s)
{
    return s->is_s3 ? s3_port(&s->s3) : 0;
}

const char *const *storage_files(const struct storage *s)
{
    return s->files;
}

/* --- does it work? -----------------------------------------------------------------------------
 */

static void on_time(void *ctx);

/* Told once when it begins to fail, and once when it is over. */
static void on_probe(void *ctx, const struct error *err, const struct blob_page *page)
{
    struct storage *s = ctx;
    struct blob_health health;
    (void)page;
    blob_get_health(s->blob, &health);
    if (err && !s->has_failed)
        log_error(s->order.log, "blobs cannot be kept", LOG_STR("error", health.why),
                  LOG_STR("hint", err->hint));
    else if (!err && s->has_failed)
        log_info(s->order.log, "blobs can be kept again");
    s->has_failed = err != NULL;
    s->timer = loop_timer_new(s->order.loop, ASK_MS, on_time, s);
}

static void ask(struct storage *s)
{
    blob_list(s->blob, &(struct blob_list_order){.prefix = PROBE_KEY, .limit = 1}, on_probe, s);
}

static void on_time(void *ctx)
{
    struct storage *s = ctx;
    struct blob_health health;
    loop_timer_free(take_ptr(&s->timer));
    blob_get_health(s->blob, &health);
    if (health.is_failing || s->has_failed)
        ask(s);
    else
        s->timer = loop_timer_new(s->order.loop, ASK_MS, on_time, s);
}

/* --- open and end ----------------------------------------------------------------------------- */

static int open_disk(struct storage *s, struct blob **out, struct error *err)
{
    scoped_free char *dir = xasprintf("%s/blobs", s->order.dir);
    const struct disk_order order = {.dir = dir,
                                     .is_full_sync = s->config->sync == STORE_SYNC_FULL};
    return disk_open(out, s->order.loop, &order, err);
}

static int open_s3(struct storage *s, struct error *err)
{
    const struct http_client_config config = {.ca_file = s->config->s3_ca};
    if (http_client_open(&s->client, s->order.loop, s->library, &config, err) < 0)
        return -1;
    if (s3_open(&s->blob, s->order.loop, s->client, &s->s3, err) < 0 ||
        open_disk(s, &s->near, err) < 0)
        return -1;
    const struct spool_order order = {.loop = s->order.loop,
                                      .log = s->order.log,
                                      .near = s->near,
                                      .far = s->blob,
                                      .prefix = ARCHIVE_PREFIX};
    s->spool = spool_new(&order);
    return 0;
}

int storage_open(struct storage *s, const struct storage_order *order, struct error *err)
{
    s->order = *order;
    if ((s->is_s3 ? open_s3(s, err) : open_disk(s, &s->blob, err)) < 0)
        return -1;
    ask(s);
    return 0;
}

struct blob *storage_blob(struct storage *s)
{
    return s->blob;
}

struct blob *storage_artifacts(struct storage *s)
{
    return s->spool ? s->spool : s->blob;
}

void storage_free(struct storage *s)
{
    if (!s)
        return;
    loop_timer_free(s->timer);
    blob_free(s->spool);
    blob_free(s->near);
    blob_free(s->blob);
    http_client_free(s->client);
    curl_library_free(s->library);
    free(s);
}
