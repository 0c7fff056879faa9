/* run_text.h - what came of code, for a model: the document of an execution as content
 *
 * Pure. Short things are told whole; of long output head and tail, with the true size and how to
 * read the rest. Nothing is left out without saying so. What a program printed or named stays
 * content: see show.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/json.h"

struct strbuf;

#define RUN_TEXT_STDOUT_BYTES  (24 * 1024) /* of one stream, in the text */
#define RUN_TEXT_STDERR_BYTES  (12 * 1024)
#define RUN_TEXT_RESULT_BYTES  (12 * 1024) /* of one value... */
#define RUN_TEXT_RESULTS_BYTES (36 * 1024) /* ...and of all */
#define RUN_TEXT_FILES_MAX     32
#define RUN_TEXT_IMAGES_MAX    8
#define RUN_TEXT_IMAGE_BYTES   (2 * 1024 * 1024) /* of all images together, as base64 */

/* The pictures that are told with an execution: objects with "mime" and "data" (base64), those of
 * files with their "path". */
struct run_images {
    json_t *list;
    bool is_cut; /* among the results there were more, or some that were none */
};

/* Those among the results, as many as there is room for; the list is new. */
void run_text_images(const json_t *document, struct run_images *out);
/* Whether one of so many bytes, as base64, can be put behind those in the list. */
bool run_text_has_room(const struct run_images *images, size_t bytes);

/* New: an array of content. `document` is an execution as REST tells it; `has_links`: the client
 * knows links to resources. */
json_t *run_text_content(const json_t *document, const struct run_images *images, bool has_links);

/* The address of a file that an execution left, as MCP has it. */
#define RUN_TEXT_URI "cove://executions/"
void run_text_add_uri(struct strbuf *out, const char *execution, const char *path);
bool run_text_has_uri(const char *path); /* some names have no address */

/* The first `max` bytes of `text` at most, without half a character at the end. */
size_t run_text_cut(const char *text, size_t len, size_t max);
