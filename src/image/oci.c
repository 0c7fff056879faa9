/* oci.c - index.json leads to a manifest, the manifest to the configuration
 *
 * All of it was written by whoever made the image: each step checks what it reads, and a digest
 * must be plain hex before it becomes part of a path. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "image/oci.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/parse.h"
#include "base/scoped.h"
#include "codec/json.h"
#include "codec/sha256.h"
#include "image/tree.h"

#define DIGEST_PREFIX  "sha256:"
#define WORDS_MAX      64
#define LABEL_RUNNER   "sandbox.runner"
#define LABEL_LANGUAGE "sandbox.language"

static int read_json(json_t **out, int layout_fd, const char *path, struct error *err)
{
    static const struct json_limits limits = {.max_bytes = OCI_JSON_MAX_BYTES};
    scoped_fd int fd = tree_open(layout_fd, path, O_RDONLY | O_NONBLOCK);
    scoped_free char *text = NULL;
    if (fd < 0)
        return error_sys(err, "open '%s'", path);
    if (fd_read_text(fd, &text, OCI_JSON_MAX_BYTES, err) < 0 ||
        json_parse(out, text, strlen(text), &limits, err) < 0)
        return error_wrap(err, "read '%s'", path);
    return 0;
}

/* Reads the blob that the descriptor {"digest": "sha256:..."} names. */
static int read_blob(json_t **out, int layout_fd, const json_t *descriptor, struct error *err)
{
    const char *text = json_string_value(json_object_get(descriptor, "digest"));
    uint8_t digest[SHA256_BYTES];
    if (!text || strncmp(text, DIGEST_PREFIX, strlen(DIGEST_PREFIX)) != 0 ||
        !parse_hex(text + strlen(DIGEST_PREFIX), digest, sizeof(digest)))
        return error_set(err, ERROR_INVALID, "the image names a part by no sha256 digest");
    char hex[SHA256_HEX_BYTES];
    format_hex(digest, sizeof(digest), hex);
    scoped_free char *path = xasprintf("blobs/sha256/%s", hex);
    return read_json(out, layout_fd, path, err);
}

/* Adds the strings of an array; null and absence are an empty one. */
static int add_words(struct arguments *out, const json_t *object, const char *key,
                     struct error *err)
{
    const json_t *array = json_object_get(object, key);
    size_t index;
    json_t *item;
    if (!array || json_is_null(array))
        return 0;
    if (!json_is_array(array))
        return error_set(err, ERROR_INVALID, "the image's '%s' is not a list", key);
    json_array_foreach(array, index, item)
    {
        if (!json_is_string(item))
            return error_set(err, ERROR_INVALID, "the image's '%s' holds more than text", key);
        if (out->count == WORDS_MAX)
            return error_set(err, ERROR_LIMIT, "the image's '%s' has more than %d words", key,
                             WORDS_MAX);
        arguments_add(out, "%s", json_string_value(item));
    }
    return 0;
}

static int read_config(struct oci_config *config, const json_t *image, struct error *err)
{
    const json_t *settings = json_object_get(image, "config");
    const json_t *labels = json_object_get(settings, "Labels");
    const char *runner = json_string_value(json_object_get(labels, LABEL_RUNNER));
    const char *language = json_string_value(json_object_get(labels, LABEL_LANGUAGE));
    config->is_runner = runner && strcmp(runner, "true") == 0;
    config->language = language ? xstrdup(language) : NULL;
    if (add_words(&config->command, settings, "Entrypoint", err) < 0 ||
        add_words(&config->command, settings, "Cmd", err) < 0)
        return -1;
    return add_words(&config->env, settings, "Env", err);
}

int oci_config_read(struct oci_config *out, int layout_fd, struct error *err)
{
    scoped_json json_t *index = NULL, *manifest = NULL, *image = NULL;
    struct oci_config config = {0};
    if (read_json(&index, layout_fd, "index.json", err) < 0)
        return -1;
    const json_t *first = json_array_get(json_object_get(index, "manifests"), 0);
    if (read_blob(&manifest, layout_fd, first, err) < 0 ||
        read_blob(&image, layout_fd, json_object_get(manifest, "config"), err) < 0)
        return -1;
    if (read_config(&config, image, err) < 0) {
        oci_config_release(&config);
        return -1;
    }
    *out = config;
    return 0;
}

void oci_config_release(struct oci_config *config)
{
    arguments_release(&config->command);
    arguments_release(&config->env);
    free(config->language);
    *config = (struct oci_config){0};
}
