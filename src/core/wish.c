/* wish.c - the tables of what can be asked for */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/wish.h"

#include "base/macros.h"

#define NAME_BYTES    64
#define PATH_BYTES    4096
#define VARIABLES_MAX 256
#define METADATA_MAX  64
#define ARGUMENTS_MAX 256
#define YEAR_S        (366.0 * 24 * 3600)
#define NAME_PATTERN  "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
#define ENV_PATTERN   "^[A-Za-z_][A-Za-z0-9_]{0,127}$"

static const char *const modes[] = {
    [WISH_ASYNC] = "async", [WISH_SYNC] = "sync", [WISH_STREAM] = "stream", NULL};

/* clang-format off */
#define AT(field) offsetof(struct session_wish, field)
static const struct param session_rows[] = {
    {.name = "template", .type = PARAM_STRING, .offset = AT(template), .max_len = NAME_BYTES,
     .check = template_name_is_valid, .pattern = NAME_PATTERN, .example = "\"python\"",
     .help = "The recipe of its sandbox, by name or id; without one, that of the language."},
    {.name = "language", .type = PARAM_STRING, .offset = AT(language), .max_len = NAME_BYTES,
     .check = template_name_is_valid, .pattern = NAME_PATTERN, .example = "\"python\"",
     .help = "Asks for the template of this name when no other is asked for; must be the template's language."},
    {.name = "name", .type = PARAM_STRING, .offset = AT(name), .max_len = NAME_BYTES,
     .check = template_name_is_valid, .pattern = NAME_PATTERN, .example = "\"analysis\"",
     .help = "By which it can be found instead of its id; unique among the live sessions of a key."},
    {.name = "ttl", .other_name = "ttl_seconds", .type = PARAM_SECONDS, .offset = AT(ttl_ms), .min = 1, .max = YEAR_S,
     .example = "3600", .help = "Seconds after which it ends, used or not."},
    {.name = "idle_timeout", .other_name = "idle_timeout_seconds", .type = PARAM_SECONDS, .offset = AT(idle_ms),
     .min = 1, .max = YEAR_S, .example = "600", .help = "Seconds after which it ends when nobody uses it."},
    {.name = "resources", .type = PARAM_OBJECT, .offset = AT(resources), .table = &resource_table,
     .help = "What its sandbox may use, where that differs from the template."},
    {.name = "network", .type = PARAM_OBJECT, .offset = AT(network), .has_offset = AT(has_network),
     .table = &network_table, .help = "What its sandbox may reach, where that differs from the template."},
    SECRETS_ROW(AT(secrets)),
    REQUIREMENTS_ROW(AT(requirements), "Packages that its sandbox has, beside those of the template."),
    {.name = "env", .type = PARAM_MAP, .offset = AT(env), .max_len = VARIABLES_MAX,
     .check = template_variable_is_valid, .pattern = ENV_PATTERN, .example = "{\"TZ\": \"UTC\"}",
     .help = "Variables of every execution in it."},
    {.name = "metadata", .type = PARAM_MAP, .offset = AT(metadata), .max_len = METADATA_MAX,
     .check = template_name_is_valid, .pattern = NAME_PATTERN, .example = "{\"user\": \"ada\"}",
     .help = "The client's own notes, by which sessions can be listed."},
};
#undef AT
const struct param_table session_wish_table = PARAM_TABLE(struct session_wish, "CreateSession", session_rows);

#define AT(field) offsetof(struct wish_file, field)
static const struct param file_rows[] = {
    {.name = "path", .type = PARAM_STRING, .is_required = true, .offset = AT(path), .max_len = PATH_BYTES,
     .example = "\"data/input.csv\"", .help = "Where it is put, relative to the workspace."},
    {.name = "content", .type = PARAM_STRING, .offset = AT(content), .max_len = WISH_CODE_MAX,
     .example = "\"a,b\\n1,2\\n\"", .help = "Its text."},
    {.name = "content_base64", .type = PARAM_STRING, .offset = AT(content_base64), .max_len = WISH_CODE_MAX,
     .help = "Its bytes, instead of text."},
};
#undef AT
static const struct param_table file_table = PARAM_TABLE(struct wish_file, "InputFile", file_rows);

#define AT(field) offsetof(struct code_wish, field)
#define CODE_ROW \
    {.name = "code", .type = PARAM_STRING, .is_required = true, .offset = AT(code), .max_len = WISH_CODE_MAX, \
     .example = "\"print(6 * 7)\"", .help = "The program."}
#define LANGUAGE_ROW(text) \
    {.name = "language", .type = PARAM_STRING, .offset = AT(language), .max_len = NAME_BYTES, \
     .check = template_name_is_valid, .pattern = NAME_PATTERN, .example = "\"python\"", .help = (text)}
#define COMMON_ROWS \
    {.name = "timeout", .other_name = "timeout_seconds", .type = PARAM_SECONDS, .offset = AT(timeout_ms), \
     .min = 0.001, .max = YEAR_S, .example = "30", .help = "Seconds after which it is ended."}, \
    OUTPUT_ROW(AT(output_bytes), "Bytes that are kept of each of stdout and stderr, head and tail; the rest is counted."), \
    {.name = "stdin", .type = PARAM_STRING, .offset = AT(stdin_text), .max_len = WISH_CODE_MAX, \
     .help = "What it reads from its standard input."}, \
    {.name = "files", .type = PARAM_LIST, .offset = AT(files), .max_len = WISH_FILES_MAX, .table = &file_table, \
     .help = "Files that are put into the workspace first."}, \
    {.name = "env", .type = PARAM_MAP, .offset = AT(env), .max_len = VARIABLES_MAX, \
     .check = template_variable_is_valid, .pattern = ENV_PATTERN, .help = "Variables of this execution alone."}, \
    {.name = "args", .type = PARAM_STRINGS, .offset = AT(args), .max_len = ARGUMENTS_MAX, .example = "[\"--fast\", \"in.csv\"]", \
     .help = "Arguments of this execution: sys.argv[1:] in python, process.argv.slice(2) in node, \"$@\" in bash."}, \
    {.name = "cwd", .type = PARAM_STRING, .offset = AT(cwd), .max_len = PATH_BYTES, .example = "\".\"", \
     .help = "The working directory of this execution, relative to the workspace; it must be there. Without one, where the code before it has left."}

static const struct param code_rows[] = {
    CODE_ROW,
    LANGUAGE_ROW("For sessions whose interpreter knows several; without one, the session's."),
    {.name = "mode", .type = PARAM_CHOICE, .offset = AT(mode), .choices = modes, .preset = "\"async\"",
     .help = "async answers at once with an id, sync with the result, stream with events as they come."},
    COMMON_ROWS,
    {.name = "queue", .type = PARAM_BOOLEAN, .offset = AT(may_queue), .preset = "false",
     .help = "Wait for what runs in the session, instead of being refused as session_busy."},
    {.name = "idempotent", .type = PARAM_BOOLEAN, .offset = AT(is_idempotent), .preset = "false",
     .help = "It may be run a second time when its executor is lost."},
};
const struct param_table code_wish_table = PARAM_TABLE(struct code_wish, "ExecuteInSession", code_rows);

static const struct param stateless_rows[] = {
    CODE_ROW,
    LANGUAGE_ROW("As listed by /runners; without one, python or the template's."),
    COMMON_ROWS,
    {.name = "template", .type = PARAM_STRING, .offset = AT(template), .max_len = NAME_BYTES,
     .check = template_name_is_valid, .pattern = NAME_PATTERN,
     .help = "The recipe of the sandbox, by name or id; without one, that of the language."},
    {.name = "resources", .type = PARAM_OBJECT, .offset = AT(resources), .table = &resource_table,
     .help = "What the sandbox may use, where that differs from the template."},
    {.name = "network", .type = PARAM_OBJECT, .offset = AT(network), .has_offset = AT(has_network),
     .table = &network_table, .help = "What the sandbox may reach, where that differs from the template."},
    SECRETS_ROW(AT(secrets)),
    REQUIREMENTS_ROW(AT(requirements), "Packages that the sandbox has, beside those of the template; installed once for all who ask for the same."),
};
const struct param_table stateless_wish_table = PARAM_TABLE(struct code_wish, "Execute", stateless_rows);
#undef AT
/* clang-format on */
