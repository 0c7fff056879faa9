/* s3_error.c - what S3 says, in words of ours: what is wrong and what to do
 *
 * Only S3's code is told, never its message: servers put into it what they were sent. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "blob/s3_inside.h"

#define RETRY_MS 5000

#define HINT_KEYS                                                                                  \
    "set s3-access-key and s3-secret-key (COVE_S3_ACCESS_KEY, COVE_S3_SECRET_KEY) of a user who "  \
    "may use the bucket"
#define HINT_RIGHTS                                                                                \
    "allow s3:GetObject, s3:PutObject, s3:DeleteObject, s3:ListBucket and "                        \
    "s3:AbortMultipartUpload on the bucket"
#define HINT_TOKEN  "give a new s3-session-token (COVE_S3_SESSION_TOKEN), with its keys"
#define HINT_REGION "set s3-region (COVE_S3_REGION) to the region of the bucket"
#define HINT_BUCKET "make the bucket, or set s3-bucket (COVE_S3_BUCKET) to one that is there"
#define HINT_CLOCK  "set the clock of this machine, or of the storage, by NTP"
#define HINT_FULL   "free space in the storage; what was kept before is untouched"
#define HINT_DEAD                                                                                  \
    "see whether the storage runs and s3-endpoint (COVE_S3_ENDPOINT) is its address; it is tried " \
    "again with every request"

static const struct row {
    int status;       /* 0: any */
    const char *code; /* NULL: any */
    enum error_code error;
    const char *word, *message, *hint;
} rows[] = {
    {0, "NoSuchBucket", ERROR_UNAVAILABLE, "storage_misconfigured", "there is no such bucket",
     HINT_BUCKET},
    {0, "NoSuchKey", ERROR_NOT_FOUND, "blob_not_found", "there is none", NULL},
    {0, "InvalidAccessKeyId", ERROR_UNAVAILABLE, "storage_denied", "the access key is not known",
     HINT_KEYS},
    {0, "XAdminUserNotFound", ERROR_UNAVAILABLE, "storage_denied", "the access key is not known",
     HINT_KEYS},
    {0, "SignatureDoesNotMatch", ERROR_UNAVAILABLE, "storage_denied",
     "the secret key is not the one of the access key", HINT_KEYS},
    {0, "ExpiredToken", ERROR_UNAVAILABLE, "storage_denied", "the session token has expired",
     HINT_TOKEN},
    {0, "InvalidToken", ERROR_UNAVAILABLE, "storage_denied", "the session token is not valid",
     HINT_TOKEN},
    {0, "InvalidTokenId", ERROR_UNAVAILABLE, "storage_denied", "the session token is not valid",
     HINT_TOKEN},
    {0, "RequestTimeTooSkewed", ERROR_UNAVAILABLE, "storage_clock",
     "its clock and ours differ too much", HINT_CLOCK},
    {0, "AuthorizationHeaderMalformed", ERROR_UNAVAILABLE, "storage_misconfigured",
     "the bucket is in another region", HINT_REGION},
    {0, "PermanentRedirect", ERROR_UNAVAILABLE, "storage_misconfigured",
     "the bucket is in another region", HINT_REGION},
    {0, "XMinioStorageFull", ERROR_UNAVAILABLE, "storage_full", "the storage is full", HINT_FULL},
    {0, "QuotaExceeded", ERROR_UNAVAILABLE, "storage_full", "the quota of the storage is used up",
     HINT_FULL},
    {507, NULL, ERROR_UNAVAILABLE, "storage_full", "the storage is full", HINT_FULL},
    {301, NULL, ERROR_UNAVAILABLE, "storage_misconfigured", "the bucket is in another region",
     HINT_REGION},
    {403, NULL, ERROR_UNAVAILABLE, "storage_denied", "the keys may not do this", HINT_RIGHTS},
    {401, NULL, ERROR_UNAVAILABLE, "storage_denied", "the keys are refused", HINT_KEYS},
    {404, "", ERROR_NOT_FOUND, "blob_not_found", "there is none", NULL}, /* of a HEAD */
    {416, NULL, ERROR_INVALID, "range_not_satisfiable", "it has no such bytes", NULL},
    {412, NULL, ERROR_UNAVAILABLE, "storage_unavailable", "it was replaced while it was read",
     "read it again"},
    {0, NULL, ERROR_UNAVAILABLE, "storage_unavailable", "the storage cannot do it", HINT_DEAD},
};

static const struct row *find_row(const struct s3_failure *f)
{
    for (const struct row *row = rows;; row++) {
        if ((row->status == 0 || row->status == f->status) &&
            (!row->code || strcmp(row->code, f->code) == 0))
            return row;
    }
}

static const struct row silent = {
    0, NULL, ERROR_UNAVAILABLE, "storage_unavailable", "the storage does not answer", HINT_DEAD};

int s3_error(struct error *err, const struct s3_failure *f)
{
    const struct row *row = f->is_silent ? &silent : find_row(f);
    char object[BLOB_KEY_MAX_BYTES + 16] = "blobs";
    char proof[96] = "";
    if (f->key)
        snprintf(object, sizeof(object), "blob '%s'", f->key);
    if (!f->is_silent)
        snprintf(proof, sizeof(proof), " (%d%s%s)", f->status, f->code[0] ? " " : "", f->code);
    error_set(err, row->error, "%s %s: %s%s", f->what, object, row->message, proof);
    error_word(err, row->word);
    if (row->error == ERROR_UNAVAILABLE)
        err->retry_ms = RETRY_MS;
    if (f->region[0])
        return error_hint(err, "set s3-region (COVE_S3_REGION) to '%s'", f->region);
    return row->hint ? error_hint(err, "%s", row->hint) : -1;
}

bool s3_error_passes(const struct s3_failure *f)
{
    return f->is_silent || f->status == 429 ||
           (f->status >= 500 && f->status != 501 && f->status != 507) ||
           strcmp(f->code, "RequestTimeout") == 0 || strcmp(f->code, "SlowDown") == 0;
}
