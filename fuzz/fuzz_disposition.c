/* fuzz_disposition.c - whatever a name is, the header is one line with one reading */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/disposition.h"

#include <string.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "codec/header_value.h"
#include "fuzz.h"

static int hex(char c)
{
    return c <= '9' ? c - '0' : c - 'A' + 10;
}

/* What a browser would save it as. */
static void check_encoded(const char *text)
{
    static const char prefix[] = "UTF-8''";
    scoped_strbuf struct strbuf name;
    strbuf_init(&name, 1024);
    BUG_ON(strncmp(text, prefix, strlen(prefix)) != 0);
    for (text += strlen(prefix); *text; text++) {
        char c = *text;
        if (c == '%') {
            c = (char)(hex(text[1]) << 4 | hex(text[2]));
            text += 2;
        }
        strbuf_add_char(&name, c);
    }
    BUG_ON(name.len == 0 || name.len > 255 || !utf8_is_valid(name.data, name.len));
    for (size_t i = 0; i < name.len; i++)
        BUG_ON((unsigned char)name.data[i] < 0x20 || name.data[i] == '/' || name.data[i] == '\\');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, DISPOSITION_MAX_BYTES);
    disposition_add(&text, DISPOSITION_ATTACHMENT, data, size);
    BUG_ON(text.overflow);
    for (size_t i = 0; i < text.len; i++)
        BUG_ON(text.data[i] < 0x20 || text.data[i] >= 0x7f);
    struct header_value value;
    BUG_ON(header_value_parse(&value, text.data));
    const char *plain = header_value_find(&value, "filename");
    const char *encoded = header_value_find(&value, "filename*");
    BUG_ON(strcmp(value.word, "attachment") != 0 || !plain || !*plain || strchr(plain, '/'));
    BUG_ON(value.count != (encoded ? 2u : 1u));
    if (encoded)
        check_encoded(encoded);
    return 0;
}
