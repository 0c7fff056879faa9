/* fuzz_multipart.c - the same parts, whole or byte by byte; names that pass are safe
 *
 * The first line of the input is the Content-Type. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/multipart.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "fuzz.h"

static void check_text(const char *text)
{
    BUG_ON(!utf8_is_valid(text, strlen(text)));
    for (; *text; text++)
        BUG_ON(((unsigned char)*text < 0x20 && *text != '\t') || *text == 0x7f);
}

static void check_path(const char *path)
{
    size_t len = strlen(path);
    check_text(path);
    BUG_ON(len == 0 || path[0] == '/' || path[len - 1] == '/' || strchr(path, '\\'));
    BUG_ON(strstr(path, "//") || strstr(path, "/../") || strncmp(path, "../", 3) == 0);
    BUG_ON(strcmp(path, "..") == 0 || (len >= 3 && strcmp(path + len - 3, "/..") == 0));
}

static int on_begin(void *ctx, const struct multipart_part *part, struct error *err)
{
    (void)err;
    check_text(part->name);
    if (part->filename)
        check_path(part->filename);
    strbuf_add_fmt(ctx, "<%s,%s,%s>", part->name, part->filename ? part->filename : "-",
                   part->type ? part->type : "-");
    return 0;
}

static int on_data(void *ctx, const void *data, size_t len, struct error *err)
{
    (void)err;
    BUG_ON(len == 0);
    strbuf_add(ctx, data, len);
    return 0;
}

static int on_end(void *ctx, struct error *err)
{
    (void)err;
    strbuf_add_str(ctx, "</>");
    return 0;
}

/* The length of what was told before it failed depends on the pieces only in a body's last bytes,
 * so it is compared for forms that are whole. */
static int read_all(struct strbuf *got, const char *type, const char *bytes, size_t size,
                    size_t piece)
{
    static const struct multipart_events events = {on_begin, on_data, on_end};
    scoped(multipart) struct multipart *form = NULL;
    struct error err;
    if (multipart_open(&form, type, &events, got, &err) < 0)
        return -1;
    for (size_t i = 0; i < size; i += piece) {
        if (multipart_add(form, bytes + i, MIN(piece, size - i), &err) < 0)
            return -1;
    }
    return multipart_end(form, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size > 0 ? memchr(data, '\n', size) : NULL;
    size_t head = end ? (size_t)(end - data) : size;
    scoped_free char *type = xstrndup((const char *)data, head);
    const char *body = (const char *)data + head + (end ? 1 : 0);
    size_t len = size - head - (end ? 1 : 0);
    static const size_t pieces[] = {1, 2, 13};
    scoped_strbuf struct strbuf whole;
    strbuf_init(&whole, 64 * MIB);
    int status = read_all(&whole, type, body, len, len ? len : 1);
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        scoped_strbuf struct strbuf cut;
        strbuf_init(&cut, 64 * MIB);
        BUG_ON(read_all(&cut, type, body, len, pieces[i]) != status);
        BUG_ON(status == 0 && (whole.len != cut.len ||
                               memcmp(strbuf_str(&whole), strbuf_str(&cut), whole.len) != 0));
    }
    return 0;
}
