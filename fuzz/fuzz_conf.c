/* fuzz_conf.c - entries are trimmed, whole and in bounds */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/conf.h"

#include <ctype.h>
#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "fuzz.h"

static bool is_trimmed(const char *text)
{
    size_t len = strlen(text);
    return len == 0 || (!isspace((unsigned char)text[0]) && !isspace((unsigned char)text[len - 1]));
}

static int check_entry(void *ctx, const char *section, const char *key, const char *value,
                       struct error *err)
{
    size_t *left = ctx;
    BUG_ON(*key == '\0' || strchr(key, '='));
    BUG_ON(!is_trimmed(section) || !is_trimmed(key) || !is_trimmed(value));
    BUG_ON(strchr(value, '\n'));
    if (strcmp(key, "stop") == 0)
        return error_set(err, ERROR_INVALID, "stopped");
    BUG_ON(*left == 0); /* more entries than bytes */
    --*left;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scoped_free char *text = xstrndup((const char *)data, size);
    struct error err = {.msg = ""};
    size_t left = size;
    if (conf_parse("input", text, check_entry, &left, &err) < 0)
        BUG_ON(strncmp(err.msg, "input:", 6) != 0);
    return 0;
}
