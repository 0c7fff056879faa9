/* multipart.c - a small machine over pieces of any size
 *
 * A delimiter is CR LF "--" boundary. Its only CR is its first byte (a boundary has none), so when
 * a match breaks off, what matched was data, and the next match can begin no earlier than at the
 * byte that broke it: no byte is ever looked at twice, and what matched need not be kept. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/multipart.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "codec/multipart_head.h"
#include "codec/sha256.h"

enum state {
    AT_START,      /* the first delimiter, with or without its CR LF */
    AFTER_IT,      /* two bytes behind a delimiter: CR LF or "--" */
    IN_HEADERS,    /* lines up to an empty one */
    IN_BODY,       /* bytes up to a delimiter */
    AFTER_THE_LAST /* nothing, or CR LF */
};

struct multipart {
    const struct multipart_events *events;
    void *ctx;
    enum state state;
    char *delimiter;
    size_t delimiter_len;
    size_t matched; /* bytes of the delimiter; of CR LF behind the last */
    char pair[2];   /* AFTER_IT */
    size_t pair_len;
    struct strbuf line; /* of headers */
    size_t head_bytes;  /* of the lines before it */
    struct multipart_head head;
    uint8_t (*seen)[SHA256_BYTES]; /* of the names */
    size_t part_count;
    bool has_begun; /* its first byte came */
    bool is_broken;
};

int multipart_open(struct multipart **out, const char *type, const struct multipart_events *events,
                   void *ctx, struct error *err)
{
    scoped_free char *boundary = NULL;
    if (multipart_boundary(&boundary, type, err) < 0)
        return -1;
    struct multipart *form = xcalloc(1, sizeof(*form));
    form->events = events;
    form->ctx = ctx;
    form->delimiter = xasprintf("\r\n--%s", boundary);
    form->delimiter_len = strlen(form->delimiter);
    form->matched = 2; /* most forms begin without the line end */
    strbuf_init(&form->line, MULTIPART_HEADERS_MAX_BYTES + 1);
    *out = form;
    return 0;
}

void multipart_free(struct multipart *form)
{
    if (!form)
        return;
    multipart_head_release(&form->head);
    strbuf_release(&form->line);
    free(form->delimiter);
    free(form->seen);
    free(form);
}

static void enter(struct multipart *form, enum state state)
{
    form->state = state;
    form->matched = 0;
    form->pair_len = 0;
    form->head_bytes = 0;
}

/* --- where each state goes: each takes some of `bytes`, and answers how much, or -1 -------------
 */

static ssize_t at_start(struct multipart *form, const char *bytes, size_t len, struct error *err)
{
    size_t used = 0;
    /* One line end in front of it is fine, a second one is not, however the bytes are cut. */
    if (!form->has_begun && bytes[0] == '\r')
        form->matched = 0;
    form->has_begun = true;
    while (used < len && form->matched < form->delimiter_len) {
        if (bytes[used] != form->delimiter[form->matched])
            return multipart_refuse(err, "it does not begin with its boundary");
        used++;
        form->matched++;
    }
    if (form->matched == form->delimiter_len)
        enter(form, AFTER_IT);
    return (ssize_t)used;
}

static int begin_part(struct multipart *form, struct error *err)
{
    if (form->part_count == MULTIPART_PARTS_MAX) {
        error_set(err, ERROR_TOO_LARGE, "the form has more than %d parts", MULTIPART_PARTS_MAX);
        return error_hint(err, "send it as several requests");
    }
    multipart_head_release(&form->head);
    enter(form, IN_HEADERS);
    return 0;
}

static ssize_t after_it(struct multipart *form, const char *bytes, size_t len, struct error *err)
{
    size_t used = 0;
    while (used < len && form->pair_len < sizeof(form->pair))
        form->pair[form->pair_len++] = bytes[used++];
    if (form->pair_len < sizeof(form->pair))
        return (ssize_t)used;
    if (memcmp(form->pair, "--", 2) == 0)
        enter(form, AFTER_THE_LAST);
    else if (memcmp(form->pair, "\r\n", 2) != 0)
        return multipart_refuse(err, "something follows a boundary on its line");
    else if (begin_part(form, err) < 0)
        return -1;
    return (ssize_t)used;
}

/* Notes the name of the part: a file's, or else a field's. */
static int note_name(struct multipart *form, struct error *err)
{
    const struct multipart_head *head = &form->head;
    const char *name = head->filename ? head->filename : head->name;
    scoped(sha256) struct sha256 *hash = sha256_new();
    uint8_t digest[SHA256_BYTES];
    sha256_add(hash, head->filename ? "f" : "n", 1);
    sha256_add(hash, name, strlen(name));
    sha256_end(hash, digest);
    for (size_t i = 0; i < form->part_count; i++) {
        if (memcmp(form->seen[i], digest, SHA256_BYTES) == 0)
            return multipart_refuse(err, "the %s '%.100s' comes twice",
                                    head->filename ? "file" : "field", name);
    }
    size_t count = form->part_count++;
    if ((count & (count + 1)) == 0) /* grows at 0, 1, 3, 7, ... */
        form->seen = xrealloc(form->seen, (2 * count + 2) * sizeof(*form->seen));
    memcpy(form->seen[count], digest, SHA256_BYTES);
    return 0;
}

static int end_head(struct multipart *form, struct error *err)
{
    const struct multipart_head *head = &form->head;
    if (multipart_head_check(head, err) < 0 || note_name(form, err) < 0)
        return -1;
    enter(form, IN_BODY);
    return form->events->begin(
        form->ctx, &(struct multipart_part){head->name, head->filename, head->type}, err);
}

/* A line is whole, with its line feed. */
static int end_line(struct multipart *form, struct error *err)
{
    char *line = form->line.data;
    size_t len = form->line.len;
    if (len < 2 || line[len - 2] != '\r')
        return multipart_refuse(err, "a line of a part's headers does not end with CR LF");
    line[len - 2] = '\0';
    form->head_bytes += len;
    int status =
        len == 2 ? end_head(form, err) : multipart_head_add(&form->head, line, len - 2, err);
    strbuf_clear(&form->line);
    return status;
}

static ssize_t in_headers(struct multipart *form, const char *bytes, size_t len, struct error *err)
{
    const char *end = memchr(bytes, '\n', len);
    size_t used = end ? (size_t)(end - bytes) + 1 : len;
    strbuf_add(&form->line, bytes, used);
    if (form->line.overflow || form->head_bytes + form->line.len > MULTIPART_HEADERS_MAX_BYTES)
        return error_set(err, ERROR_TOO_LARGE, "the headers of a part have more than %d bytes",
                         MULTIPART_HEADERS_MAX_BYTES);
    if (end && end_line(form, err) < 0)
        return -1;
    return (ssize_t)used;
}

static int tell_data(struct multipart *form, const char *bytes, size_t len, struct error *err)
{
    return len == 0 ? 0 : form->events->data(form->ctx, bytes, len, err);
}

/* Goes on with a match that has begun. */
static ssize_t in_match(struct multipart *form, const char *bytes, size_t len, struct error *err)
{
    size_t used = 0;
    while (used < len && form->matched < form->delimiter_len &&
           bytes[used] == form->delimiter[form->matched]) {
        used++;
        form->matched++;
    }
    if (form->matched == form->delimiter_len) {
        enter(form, AFTER_IT);
        return form->events->end(form->ctx, err) < 0 ? -1 : (ssize_t)used;
    }
    if (used == len)
        return (ssize_t)used;
    size_t was = form->matched;
    form->matched = 0;
    return tell_data(form, form->delimiter, was, err) < 0 ? -1 : (ssize_t)used;
}

static ssize_t in_body(struct multipart *form, const char *bytes, size_t len, struct error *err)
{
    if (form->matched > 0)
        return in_match(form, bytes, len, err);
    /* A CR that begins no delimiter stays in the run, so that data goes on in large pieces. */
    size_t used = 0;
    const char *cr;
    while ((cr = memchr(bytes + used, '\r', len - used))) {
        size_t at = (size_t)(cr - bytes), rest = MIN(len - at, form->delimiter_len);
        if (memcmp(cr, form->delimiter, rest) == 0) {
            form->matched = 1; /* the rest of it is matched from here on */
            return tell_data(form, bytes, at, err) < 0 ? -1 : (ssize_t)at + 1;
        }
        used = at + 1;
    }
    return tell_data(form, bytes, len, err) < 0 ? -1 : (ssize_t)len;
}

static ssize_t after_the_last(struct multipart *form, const char *bytes, size_t len,
                              struct error *err)
{
    for (size_t i = 0; i < len; i++) {
        if (form->matched == 2 || bytes[i] != "\r\n"[form->matched++])
            return multipart_refuse(err, "something follows its last boundary");
    }
    return (ssize_t)len;
}

static ssize_t (*const steps[])(struct multipart *form, const char *bytes, size_t len,
                                struct error *err) = {
    [AT_START] = at_start,
    [AFTER_IT] = after_it,
    [IN_HEADERS] = in_headers,
    [IN_BODY] = in_body,
    [AFTER_THE_LAST] = after_the_last,
};

int multipart_add(struct multipart *form, const void *bytes, size_t len, struct error *err)
{
    BUG_ON(form->is_broken);
    for (const char *at = bytes; len > 0;) {
        ssize_t used = steps[form->state](form, at, len, err);
        if (used < 0) {
            form->is_broken = true;
            return -1;
        }
        at += used;
        len -= (size_t)used;
    }
    return 0;
}

int multipart_end(struct multipart *form, struct error *err)
{
    BUG_ON(form->is_broken);
    if (form->state != AFTER_THE_LAST)
        return multipart_refuse(err, "it ends before its last boundary");
    return 0;
}
