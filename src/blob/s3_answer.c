/* s3_answer.c - a table of paths, and where the text of each goes */
/* SPDX-License-Identifier: Apache-2.0 */
#include "blob/s3_answer.h"

#include <expat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/macros.h"
#include "base/memory.h"
#include "base/parse.h"

#define DEPTH_MAX  8
#define PATH_BYTES 256
#define TIME_END   300 /* years from 1900 on that nanoseconds have room for */

enum kind { KIND_TEXT, KIND_WORD, KIND_ETAG, KIND_BOOL, KIND_KEY, KIND_ID, KIND_SIZE, KIND_TIME };

/* Those up to KIND_BOOL are of the answer, the rest of the item that is being read. */
static const struct {
    const char *path;
    enum kind kind;
    size_t offset, size;
} fields[] = {
#define AT(field) offsetof(struct s3_answer, field), sizeof(((struct s3_answer *)NULL)->field)
    {"Error/Code", KIND_WORD, AT(code)},
    {"Error/Region", KIND_WORD, AT(region)},
    {"InitiateMultipartUploadResult/UploadId", KIND_TEXT, AT(upload_id)},
    {"CompleteMultipartUploadResult/ETag", KIND_ETAG, AT(etag)},
    {"ListBucketResult/IsTruncated", KIND_BOOL, AT(is_truncated)},
    {"ListMultipartUploadsResult/IsTruncated", KIND_BOOL, AT(is_truncated)},
#undef AT
    {"ListBucketResult/Contents/Key", KIND_KEY, 0, 0},
    {"ListBucketResult/Contents/ETag", KIND_ID, 0, 0},
    {"ListBucketResult/Contents/Size", KIND_SIZE, 0, 0},
    {"ListBucketResult/Contents/LastModified", KIND_TIME, 0, 0},
    {"ListMultipartUploadsResult/Upload/Key", KIND_KEY, 0, 0},
    {"ListMultipartUploadsResult/Upload/UploadId", KIND_ID, 0, 0},
    {"ListMultipartUploadsResult/Upload/Initiated", KIND_TIME, 0, 0},
};

static const char *const item_paths[] = {"ListBucketResult/Contents",
                                         "ListMultipartUploadsResult/Upload"};

struct reading {
    XML_Parser parser;
    struct s3_answer *out;
    struct s3_item item;
    char path[PATH_BYTES];
    unsigned depth;
    char text[S3_TEXT_BYTES];
    size_t text_len;
    bool is_bad;
};

/* --- values ---------------------------------------------------------------------------------- */

int64_t s3_time_ns(const char *text)
{
    static const char *const formats[] = {"%Y-%m-%dT%H:%M:%S", "%a, %d %b %Y %H:%M:%S"};
    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        struct tm tm = {0};
        if (strptime(text, formats[i], &tm) && tm.tm_year >= 70 && tm.tm_year < TIME_END)
            return (int64_t)timegm(&tm) * 1000000000ll;
    }
    return 0;
}

static char *without_quotes(char *text)
{
    size_t len = strlen(text);
    if (len < 2 || text[0] != '"' || text[len - 1] != '"')
        return text;
    text[len - 1] = '\0';
    return text + 1;
}

/* Codes go into messages of ours. */
static bool is_word(const char *text)
{
    return text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")] ==
           '\0';
}

static void replace(char **text, const char *with)
{
    free(*text);
    *text = xstrdup(with);
}

static void take_value(struct reading *r, enum kind kind, void *field, size_t size)
{
    switch (kind) {
    case KIND_WORD:
        snprintf(field, size, "%s", is_word(r->text) ? r->text : "");
        return;
    case KIND_TEXT:
    case KIND_ETAG:
        snprintf(field, size, "%s", kind == KIND_ETAG ? without_quotes(r->text) : r->text);
        return;
    case KIND_BOOL:
        *(bool *)field = strcmp(r->text, "true") == 0;
        return;
    case KIND_KEY:
        replace(&r->item.key, r->text);
        return;
    case KIND_ID:
        replace(&r->item.etag, without_quotes(r->text));
        return;
    case KIND_SIZE:
        r->is_bad |= !parse_u64(r->text, &r->item.size);
        return;
    case KIND_TIME:
        r->item.modified_ns = s3_time_ns(r->text);
        return;
    }
}

static void release_item(struct s3_item *item)
{
    free(item->key);
    free(item->etag);
    *item = (struct s3_item){0};
}

static void keep_item(struct reading *r)
{
    struct s3_answer *out = r->out;
    if (!r->item.key || out->count == S3_ITEMS_MAX) {
        r->is_bad = true;
        return;
    }
    if (!r->item.etag)
        r->item.etag = xstrdup("");
    out->items = xrealloc(out->items, (out->count + 1) * sizeof(*out->items));
    out->items[out->count++] = r->item;
    r->item = (struct s3_item){0};
}

/* --- what expat finds ------------------------------------------------------------------------- */

static void stop(struct reading *r)
{
    r->is_bad = true;
    XML_StopParser(r->parser, XML_FALSE);
}

static void XMLCALL on_start(void *ctx, const XML_Char *name, const XML_Char **attributes)
{
    struct reading *r = ctx;
    size_t len = strlen(r->path);
    (void)attributes;
    if (++r->depth > DEPTH_MAX || len + strlen(name) + 2 > sizeof(r->path)) {
        stop(r);
        return;
    }
    snprintf(r->path + len, sizeof(r->path) - len, "%s%s", len ? "/" : "", name);
    if (r->depth == 1)
        snprintf(r->out->root, sizeof(r->out->root), "%s", name);
    r->text_len = 0;
}

static void XMLCALL on_text(void *ctx, const XML_Char *text, int len)
{
    struct reading *r = ctx;
    if (len < 0 || (size_t)len >= sizeof(r->text) - r->text_len) {
        stop(r);
        return;
    }
    memcpy(r->text + r->text_len, text, (size_t)len);
    r->text_len += (size_t)len;
}

static void XMLCALL on_end(void *ctx, const XML_Char *name)
{
    struct reading *r = ctx;
    (void)name;
    r->text[r->text_len] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (strcmp(r->path, fields[i].path) == 0)
            take_value(r, fields[i].kind, (char *)r->out + fields[i].offset, fields[i].size);
    }
    for (size_t i = 0; i < ARRAY_LEN(item_paths); i++) {
        if (strcmp(r->path, item_paths[i]) == 0)
            keep_item(r);
    }
    char *slash = strrchr(r->path, '/');
    *(slash ? slash : r->path) = '\0';
    r->depth--;
    r->text_len = 0;
    if (r->is_bad)
        stop(r);
}

/* Entities of a document type are how a small document becomes a large one. */
static void XMLCALL on_doctype(void *ctx, const XML_Char *name, const XML_Char *system_id,
                               const XML_Char *public_id, int has_internal)
{
    (void)name;
    (void)system_id;
    (void)public_id;
    (void)has_internal;
    stop(ctx);
}

bool s3_answer_parse(struct s3_answer *out, const char *data, size_t len)
{
    struct reading r = {.out = out, .parser = XML_ParserCreate("UTF-8")};
    *out = (struct s3_answer){0};
    BUG_ON(!r.parser);
    XML_SetUserData(r.parser, &r);
    XML_SetElementHandler(r.parser, on_start, on_end);
    XML_SetCharacterDataHandler(r.parser, on_text);
    XML_SetStartDoctypeDeclHandler(r.parser, on_doctype);
    bool is_whole = len <= S3_ANSWER_BYTES &&
                    XML_Parse(r.parser, data, (int)len, XML_TRUE) == XML_STATUS_OK && !r.is_bad;
    XML_ParserFree(r.parser);
    release_item(&r.item);
    return is_whole;
}

void s3_answer_release(struct s3_answer *answer)
{
    for (size_t i = 0; i < answer->count; i++)
        release_item(&answer->items[i]);
    free(answer->items);
    answer->items = NULL;
    answer->count = 0;
}
