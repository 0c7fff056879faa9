/* resources.c - files and output of executions, as addresses that clients can read
 *
 * cove://executions/ID/files/PATH, .../stdout, .../stderr */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/mcp/reading.h"
#include "api/mcp/run_text.h"
#include "base/memory.h"
#include "codec/url.h"

/* --- reading ---------------------------------------------------------------------------------- */

void toolbox_read_resource(struct mcp_call *call, const char *uri)
{
    struct url url;
    char id[ID_BYTES] = "";
    size_t prefix = strlen("cove:/");
    scoped_free char *text =
        strncmp(uri, RUN_TEXT_URI, strlen(RUN_TEXT_URI)) == 0 ? xstrdup(uri + prefix) : NULL;
    const char *rest = text && !url_parse(&url, text, NULL) && url.pair_count == 0
                           ? url.path + strlen("/executions/")
                           : NULL;
    size_t len = rest ? strcspn(rest, "/") : 0;
    if (len > 0 && len < sizeof(id) && rest[len] == '/') {
        memcpy(id, rest, len);
        rest += len + 1;
    }
    bool is_file = rest && strncmp(rest, "files/", strlen("files/")) == 0;
    bool is_stream = rest && (strcmp(rest, "stdout") == 0 || strcmp(rest, "stderr") == 0);
    if (!id_is_valid(ID_EXECUTION, id) || !(is_file || is_stream) ||
        !toolbox_has_scope(call, SCOPE_SESSIONS_READ)) {
        mcp_not_found(call, uri);
        return;
    }
    reading_begin(call, &(struct reading_order){.execution = id,
                                                .path = is_file ? rest + strlen("files/") : NULL,
                                                .stream = is_stream ? rest : NULL,
                                                .uri = uri});
}

/* --- templates -------------------------------------------------------------------------------- */

/* clang-format off */
static const struct mcp_resource file_template = {
    RUN_TEXT_URI "{execution_id}/files/{path}", "file", "A file that an execution left",
    "As it was at the end of the execution; kept for a while after the session has ended.", NULL};
static const struct mcp_resource stdout_template = {
    RUN_TEXT_URI "{execution_id}/stdout", "stdout", "What an execution printed", "As far as the server keeps it.", "text/plain"};
static const struct mcp_resource stderr_template = {
    RUN_TEXT_URI "{execution_id}/stderr", "stderr", "What an execution printed as errors", "As far as the server keeps it.", "text/plain"};
const struct mcp_resource *const toolbox_templates[] = {&file_template, &stdout_template, &stderr_template, NULL};
/* clang-format on */
