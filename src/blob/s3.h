/* s3.h - blobs as objects of a bucket: AWS S3, or what speaks its protocol
 *
 * Small blobs are one PUT; larger ones a multipart upload that appears when it is complete, and of
 * which nothing is left when it is not. What fails for a reason that may pass (connections, 5xx) is
 * tried again with growing pauses; a download goes on where it broke off. A clock that differs from
 * the server's is found out and made up for. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "blob/blob.h"
#include "event/loop.h"

struct http_client;

enum s3_addressing {
    S3_ADDRESSING_AUTO,    /* virtual at Amazon, path elsewhere */
    S3_ADDRESSING_PATH,    /* https://host/bucket/key */
    S3_ADDRESSING_VIRTUAL, /* https://bucket.host/key */
};

struct s3_order {
    const char *endpoint; /* http[s]://HOST[:PORT]; NULL: Amazon's of the region */
    const char *bucket;
    const char *region; /* NULL: us-east-1 */
    const char *access_key, *secret_key;
    const char *session_token; /* NULL: none */
    const char *prefix;        /* before each key, "cove/"; NULL: none */
    enum s3_addressing addressing;
    uint64_t part_bytes; /* 0: 5 MiB, the least that S3 takes; for tests */
    uint64_t pause_ms;   /* before the first retry, at most; 0: 250 */
    unsigned attempts;   /* 0: 6 */
};

/* What is wrong with the options, by their names; nothing is sent. */
MUST_CHECK int s3_check(const struct s3_order *order, struct error *err);

/* The port that the endpoint is at, for who confines the process. The order was checked. */
unsigned s3_port(const struct s3_order *order);

/* What stands behind the scheme of an endpoint; NULL: it is none of ours. */
const char *s3_authority(const char *endpoint);

/* `client` is borrowed for as long as the blob lives, the order for the call. */
MUST_CHECK int s3_open(struct blob **out, struct loop *loop, struct http_client *client,
                       const struct s3_order *order, struct error *err);
