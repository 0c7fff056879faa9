/* fuzz_show.c - what a program prints and how it names files, and whether bytes are a picture
 *
 * Whatever comes in, what goes out is text without control characters, and no line of it is one of
 * ours. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/mcp/show.h"
#include "api/mcp/visible.h"
#include "base/macros.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "fuzz.h"

static void check_plain(const struct strbuf *text, bool has_lines)
{
    BUG_ON(!utf8_is_valid(strbuf_str(text), text->len));
    for (size_t i = 0; i < text->len; i++) {
        unsigned char c = (unsigned char)text->data[i];
        bool is_blank = c == '\n' || c == '\t' || (c == '\r' && text->data[i + 1] == '\n');
        BUG_ON(c < 0x20 && !(has_lines && is_blank));
        BUG_ON(c == 0x7f);
    }
}

static void try_output(const uint8_t *data, size_t size)
{
    scoped_strbuf struct strbuf clean, out;
    strbuf_init(&clean, 4 * size + 16); /* as JSON has it, which is where it comes from */
    strbuf_init(&out, 16 * size + 16);
    utf8_add_clean(&clean, data, size);
    show_output(&out, strbuf_str(&clean), clean.len);
    BUG_ON(out.overflow);
    check_plain(&out, true);
    BUG_ON(show_has_lookalike(strbuf_str(&out), out.len));
}

static void try_name(const uint8_t *data, size_t size)
{
    scoped_strbuf struct strbuf out;
    scoped_free char *name = xstrndup((const char *)data, size);
    strbuf_init(&out, 16 * SHOW_NAME_BYTES);
    show_name(&out, name);
    BUG_ON(out.overflow);
    check_plain(&out, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *mime = visible_type(data, size);
    BUG_ON(mime && !visible_is_type(mime));
    try_output(data, size);
    try_name(data, size);
    return 0;
}
