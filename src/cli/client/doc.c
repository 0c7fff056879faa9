/* doc.c - members with presets, and figures for people */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/doc.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/macros.h"

#define SECOND_NS 1000000000ll

const char *doc_text(const json_t *object, const char *key, const char *preset)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : preset;
}

double doc_number(const json_t *object, const char *key, double preset)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : preset;
}

bool doc_has(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value && !json_is_null(value);
}

const json_t *doc_at(const json_t *object, const char *path)
{
    char key[64];
    while (object && *path) {
        size_t len = strcspn(path, ".");
        BUG_ON(len >= sizeof(key));
        memcpy(key, path, len);
        key[len] = '\0';
        object = json_object_get(object, key);
        path += len + (path[len] == '.');
    }
    return object;
}

int64_t doc_time(const json_t *object, const char *key)
{
    struct tm parts = {0};
    const char *text = doc_text(object, key, "");
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &parts);
    return end ? (int64_t)timegm(&parts) * SECOND_NS : 0;
}

void doc_format_span(int64_t from_ns, int64_t to_ns, char out[DOC_TEXT_BYTES])
{
    static const struct {
        int64_t seconds, most;
        const char *unit;
    } units[] = {{1, 120, "s"}, {60, 120 * 60, "m"}, {3600, 48 * 3600, "h"}, {86400, 0, "d"}};
    if (from_ns == 0 || to_ns == 0) {
        snprintf(out, DOC_TEXT_BYTES, "-");
        return;
    }
    int64_t seconds = MAX(to_ns - from_ns, 0) / SECOND_NS;
    size_t i = 0;
    while (units[i].most > 0 && seconds >= units[i].most)
        i++;
    snprintf(out, DOC_TEXT_BYTES, "%lld%s", (long long)(seconds / units[i].seconds), units[i].unit);
}

void doc_format_bytes(double bytes, char out[DOC_TEXT_BYTES])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    size_t unit = 0;
    if (bytes <= 0) {
        snprintf(out, DOC_TEXT_BYTES, "-");
        return;
    }
    for (; bytes >= 999.5 && unit + 1 < ARRAY_LEN(units); unit++)
        bytes /= 1000;
    snprintf(out, DOC_TEXT_BYTES, unit > 0 && bytes < 9.95 ? "%.1f %s" : "%.0f %s", bytes,
             units[unit]);
}
