/* mime.c - extensions and types */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/mime.h"

#include <string.h>
#include <strings.h>

#include "base/macros.h"

static const struct {
    const char *extension;
    const char *type;
} types[] = {
    {"txt", "text/plain"},
    {"log", "text/plain"},
    {"md", "text/markdown"},
    {"csv", "text/csv"},
    {"tsv", "text/tab-separated-values"},
    {"html", "text/html"},
    {"htm", "text/html"},
    {"css", "text/css"},
    {"py", "text/x-python"},
    {"js", "text/javascript"},
    {"mjs", "text/javascript"},
    {"ts", "text/typescript"},
    {"sh", "text/x-shellscript"},
    {"tex", "text/x-tex"},
    {"json", "application/json"},
    {"ndjson", "application/x-ndjson"},
    {"xml", "application/xml"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"pdf", "application/pdf"},
    {"zip", "application/zip"},
    {"gz", "application/gzip"},
    {"tar", "application/x-tar"},
    {"sqlite", "application/vnd.sqlite3"},
    {"parquet", "application/vnd.apache.parquet"},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {"png", "image/png"},
    {"jpg", "image/jpeg"},
    {"jpeg", "image/jpeg"},
    {"gif", "image/gif"},
    {"webp", "image/webp"},
    {"svg", "image/svg+xml"},
    {"mp3", "audio/mpeg"},
    {"wav", "audio/wav"},
    {"mp4", "video/mp4"},
    {"webm", "video/webm"},
};

const char *mime_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *dot = strrchr(slash ? slash : path, '.');
    for (size_t i = 0; dot && i < ARRAY_LEN(types); i++) {
        if (strcasecmp(dot + 1, types[i].extension) == 0)
            return types[i].type;
    }
    return "application/octet-stream";
}
