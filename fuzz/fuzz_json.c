/* fuzz_json.c - what is parsed can be printed and parsed again; any bytes become a valid string */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/json.h"

#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "fuzz.h"

static const struct json_limits limits = {.max_bytes = 1 * MIB, .max_depth = 16};
static const struct json_limits wide = {.max_bytes = 64 * MIB, .max_depth = 17};

static void reparse(const json_t *value)
{
    struct error err;
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, wide.max_bytes);
    json_add(&text, value, JSON_STYLE_COMPACT);
    BUG_ON(!utf8_is_valid(strbuf_str(&text), text.len));
    scoped_json json_t *again = NULL;
    BUG_ON(json_parse(&again, strbuf_str(&text), text.len, &wide, &err) < 0);
    BUG_ON(!json_equal(value, again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err;
    scoped_json json_t *value = NULL;
    if (json_parse(&value, (const char *)data, size, &limits, &err) == 0)
        reparse(value);
    else
        BUG_ON(!utf8_is_valid(err.msg, strlen(err.msg))); /* it is told as JSON */

    scoped_json json_t *string = json_text((const char *)data, size);
    BUG_ON(!utf8_is_valid(json_string_value(string), json_string_length(string)));
    return 0;
}
