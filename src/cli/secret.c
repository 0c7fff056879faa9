/* secret.c - names and hosts from the options, values from the environment or from files */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/secret.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"

#define FILE_MAX_BYTES (64 * KIB)

/* Without the line end that editors leave. */
static int read_file(const char *path, struct strbuf *out, struct error *err)
{
    char bytes[4 * KIB];
    ssize_t n;
    scoped_fd int fd = fd_open_regular(path, err);
    if (fd < 0)
        return -1;
    while ((n = read(fd, bytes, sizeof(bytes))) > 0)
        strbuf_add(out, bytes, (size_t)n);
    explicit_bzero(bytes, sizeof(bytes));
    if (n < 0)
        return error_sys(err, "read '%s'", path);
    if (out->overflow)
        return error_set(err, ERROR_INVALID, "'%s' is too large for a secret", path);
    while (out->len > 0 && strchr("\r\n", out->data[out->len - 1]))
        out->data[--out->len] = '\0';
    return 0;
}

static int find_value(const char *name, struct strbuf *out, struct error *err)
{
    scoped_free char *file_name = xasprintf("%s_FILE", name);
    const char *value = getenv(name), *path = getenv(file_name);
    if (value) {
        strbuf_add_str(out, value);
        return 0;
    }
    if (path)
        return read_file(path, out, err);
    error_set(err, ERROR_INVALID, "--secret %s: there is no variable %s, nor %s", name, name,
              file_name);
    return error_hint(err, "export it, or name the file that has it in %s", file_name);
}

static json_t *split_hosts(const char *text)
{
    json_t *hosts = json_array();
    for (const char *end; *text; text = *end ? end + 1 : end) {
        end = strchrnul(text, ',');
        if (end > text)
            json_array_append_new(hosts, json_text(text, (size_t)(end - text)));
    }
    return hosts;
}

static int add_secret(json_t *list, const char *text, struct error *err)
{
    const char *equals = strchr(text, '=');
    scoped_strbuf struct strbuf value;
    strbuf_init(&value, FILE_MAX_BYTES);
    if (!equals || equals == text || !equals[1]) {
        error_set(err, ERROR_INVALID, "--secret '%.80s' is not NAME=HOST[,HOST]", text);
        return error_hint(err, "the value comes from the variable NAME, not from here");
    }
    scoped_free char *name = xstrndup(text, (size_t)(equals - text));
    if (find_value(name, &value, err) < 0)
        return -1;
    json_t *one =
        json_pack("{s:s, s:o, s:o}", "name", name, "value",
                  json_text(strbuf_str(&value), value.len), "hosts", split_hosts(equals + 1));
    json_array_append_new(list, one);
    if (value.data)
        explicit_bzero(value.data, value.len);
    return 0;
}

json_t *secret_read_all(const struct option_list *options, struct error *err)
{
    scoped_json json_t *list = json_array();
    for (size_t i = 0; i < options->count; i++) {
        if (add_secret(list, options->items[i], err) < 0)
            return NULL;
    }
    return json_incref(list);
}
