/* outputs.h - what tools answer as data, beside the text: for hosts whose programs read results
 *
 * By option only. Schemas and values are those of REST; what REST does not have is told in shapes
 * of its own. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/json.h"

#define OUTPUTS_STREAM_BYTES  (1024 * 1024) /* of stdout and of stderr */
#define OUTPUTS_RESULTS_BYTES (1024 * 1024)

/* The shapes that only tools have. */
#define OUTPUTS_FILE_LIST "ToolFileList"
#define OUTPUTS_READING   "ToolReading"
#define OUTPUTS_UPLOAD    "ToolUpload"

/* Owned: the schema of a shape, of REST or of tools, as text; complete in itself. */
char *outputs_schema(const char *shape);

/* New: `document`, an execution as REST tells it, without what is content already (pictures, bytes
 * of files) and within the bounds above; what is cut says so. */
json_t *outputs_execution(const json_t *document);
