/* fuzz_kernel_answer.c - whatever an interpreter says, what is told of it is good JSON */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel_answer.h"

#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "fuzz.h"

static void check(int status, const json_t *answer, const struct error *err)
{
    if (status < 0) {
        BUG_ON(!utf8_is_valid(err->msg, strlen(err->msg)));
        BUG_ON(err->code != ERROR_TOO_LARGE && !err->word);
        return;
    }
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, 64 * MIB);
    json_add(&text, answer, JSON_STYLE_COMPACT);
    BUG_ON(!utf8_is_valid(strbuf_str(&text), text.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    scoped_json json_t *list = NULL;
    scoped_json json_t *value = NULL;
    int status = kernel_answer_variables(&list, (const char *)data, size, &err);
    check(status, list, &err);
    err = (struct error){0};
    status = kernel_answer_value(&value, (const char *)data, size, &err);
    check(status, value, &err);
    return 0;
}
