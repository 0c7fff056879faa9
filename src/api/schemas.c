/* schemas.c - the shapes of answers: one table each, and no word that another table has */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/schemas.h"

#include <string.h>

#include "base/macros.h"
#include "core/errand.h"
#include "core/journal.h"
#include "core/linux_feature.h"
#include "core/scope.h"
#include "core/template.h"
#include "core/tier.h"
#include "core/verdict.h"
#include "store/store_record.h"
#include "wire/layer.h"

/* --- words ------------------------------------------------------------------------------------ */

static const char *session_state(size_t i)
{
    return store_session_names[i];
}

static const char *execution_state(size_t i)
{
    return store_execution_names[i];
}

static const char *reason_kind(size_t i)
{
    return i < REASON_INFRASTRUCTURE ? reason_kind_name((enum reason_kind)(i + 1)) : NULL;
}

static const char *event_name(size_t i)
{
    static const char *const others[] = {"missed", "heartbeat", NULL}; /* that are in no journal */
    return i < JOURNAL_KINDS ? journal_kind_name((enum journal_kind)i) : others[i - JOURNAL_KINDS];
}

/* What a key can have: the internal scope is the last one, and only the internal token's. */
static const char *key_scope(size_t i)
{
    return i < SCOPE_INDEX_INTERNAL ? scope_info((enum scope_index)i)->word : NULL;
}

static const char *tier_word(size_t i)
{
    return i < TIER_T3 ? tier_name((enum tier)(i + 1)) : NULL;
}

static const char *linux_feature_word(size_t i)
{
    return i < LINUX_FEATURE_COUNT ? linux_feature_name((enum linux_feature)i) : NULL;
}

static const char *layer_word(size_t i)
{
    return i < LAYER_COUNT ? layer_info((enum layer)i)->name : NULL;
}

static const char *condition(size_t i)
{
    static const char *const words[] = {"ok", "degraded", "failing", NULL};
    return words[i];
}

static const char *node_state(size_t i)
{
    static const char *const words[] = {"ready", "recovering", "draining", "lost", NULL};
    return words[i];
}

static const char *readiness(size_t i)
{
    return i == 0 ? "ready" : NULL;
}

static const char *runtime_name(size_t i)
{
    return i == 0 ? "native" : NULL;
}

static const char *value_encoding(size_t i)
{
    static const char *const words[] = {"json", "text", "base64", NULL};
    return words[i];
}

static const char *stream_name(size_t i)
{
    static const char *const words[] = {"stdout", "stderr", NULL};
    return words[i];
}

static const char *file_kind(size_t i)
{
    return i <= ERRAND_SPECIAL ? errand_kind_name((enum errand_kind)i) : NULL;
}

static const char *network_policy(size_t i)
{
    return network_table.rows[0].choices[i];
}

/* --- fields ----------------------------------------------------------------------------------- */

/* clang-format off */
#define CURSOR {"next_cursor", SHAPE_TEXT, SHAPE_NULL, .help = "Asks for the page after this one; null on the last."}

static const struct shape_field error_fields[] = {
    {"error", SHAPE_OBJECT, .of = "ErrorDetail"},
};
static const struct shape_field error_detail_fields[] = {
    {"code", SHAPE_TEXT, .of = "^[a-z][a-z0-9_]*$", .help = "For programs.", .example = "\"session_not_found\""},
    {"message", SHAPE_TEXT, .help = "For people."},
    {"hint", SHAPE_TEXT, SHAPE_NULL, .help = "What to do about it."},
    {"request_id", SHAPE_TEXT, SHAPE_NULL, .help = "The same as in X-Request-Id and in the log."},
};

static const struct shape_field session_fields[] = {
    {"id", SHAPE_ID, .id = ID_SESSION},
    {"name", SHAPE_TEXT, SHAPE_NULL, .help = "By which its owner finds it, too."},
    {"state", SHAPE_WORD, .words = session_state},
    {"template", SHAPE_TEXT, .help = "The name of the template that it was made from.", .example = "\"python\""},
    {"language", SHAPE_TEXT, .example = "\"python\""},
    {"resources", SHAPE_OBJECT, .of = "SessionResources"},
    {"requirements", SHAPE_TEXT, SHAPE_LIST, .help = "Packages that its sandbox has, those of its template included.",
     .example = "[\"humanize\"]"},
    {"network", SHAPE_OBJECT, .of = "SessionNetwork"},
    {"secrets", SHAPE_OBJECT, SHAPE_LIST | SHAPE_OPTIONAL, .of = "SessionSecret", .help = "Those that it has placeholders of."},
    {"env", SHAPE_TEXT, SHAPE_MAP, .help = "Variables of every execution in it."},
    {"idle_timeout", SHAPE_NUMBER, SHAPE_NULL, .help = "Seconds after which it ends when nobody uses it."},
    {"timings", SHAPE_OBJECT, SHAPE_NULL, .of = "SessionTimings"},
    {"metadata", SHAPE_TEXT, SHAPE_MAP, .help = "The client's own notes."},
    {"created_at", SHAPE_TIME},
    {"last_used_at", SHAPE_TIME, SHAPE_NULL},
    {"expires_at", SHAPE_TIME, SHAPE_NULL, .help = "When it ends, used or not; null: never."},
    {"ended_at", SHAPE_TIME, SHAPE_NULL},
    {"problem", SHAPE_TEXT, SHAPE_NULL, .help = "Why it failed or ended unasked."},
};
static const struct shape_field session_resources_fields[] = {
    {"memory_bytes", SHAPE_COUNT, .example = "268435456"},
    {"cpus", SHAPE_NUMBER, .example = "0.5"},
    {"pids", SHAPE_COUNT, .example = "128"},
    {"disk_bytes", SHAPE_COUNT, .example = "134217728"},
    {"forks", SHAPE_COUNT, .help = "How often it can be forked."},
};
static const struct shape_field session_network_fields[] = {
    {"policy", SHAPE_WORD, .words = network_policy},
    {"allow", SHAPE_TEXT, SHAPE_LIST | SHAPE_OPTIONAL, .help = "The hosts that the policy allow names."},
};
static const struct shape_field session_secret_fields[] = {
    {"name", SHAPE_TEXT, .help = "The variable that has the placeholder.", .example = "\"API_TOKEN\""},
    {"hosts", SHAPE_TEXT, SHAPE_LIST, .help = "Where the value goes.", .example = "[\"api.example.com\"]"},
};
static const struct shape_field session_timings_fields[] = {
    {"create_ms", SHAPE_NUMBER, .help = "From the request to a session that is ready."},
    {"pooled", SHAPE_BOOLEAN, .help = "It had been made in advance."},
};
static const struct shape_field session_list_fields[] = {
    {"sessions", SHAPE_OBJECT, SHAPE_LIST, .of = "Session"},
    CURSOR,
};

/* What an execution and its status have in common, in two parts. */
#define EXECUTION_HEAD \
    {"id", SHAPE_ID, .id = ID_EXECUTION}, \
    {"session_id", SHAPE_ID, SHAPE_NULL, .id = ID_SESSION, .help = "null: it had a sandbox of its own."}, \
    {"language", SHAPE_TEXT, .example = "\"python\""}, \
    {"state", SHAPE_WORD, .words = execution_state}, \
    {"exit_code", SHAPE_INTEGER, SHAPE_NULL, .help = "null: it has not ended, or a signal ended it."}, \
    {"signal", SHAPE_TEXT, SHAPE_NULL, .help = "The signal that ended it.", .example = "\"SIGKILL\""}, \
    {"reason", SHAPE_OBJECT, SHAPE_NULL, .of = "Reason"}
#define EXECUTION_TIMES \
    {"created_at", SHAPE_TIME}, \
    {"started_at", SHAPE_TIME, SHAPE_NULL}, \
    {"ended_at", SHAPE_TIME, SHAPE_NULL}, \
    {"duration_ms", SHAPE_NUMBER, SHAPE_NULL, .help = "Of the run alone."}

static const struct shape_field execution_fields[] = {
    EXECUTION_HEAD,
    {"stdout", SHAPE_TEXT, .help = "Its head and its tail, when it is longer than what is kept."},
    {"stderr", SHAPE_TEXT},
    {"truncated", SHAPE_OBJECT, .of = "Truncated"},
    {"results", SHAPE_OBJECT, SHAPE_LIST, .of = "Result"},
    {"error", SHAPE_OBJECT, SHAPE_NULL, .of = "Exception"},
    {"artifacts", SHAPE_OBJECT, SHAPE_LIST, .of = "Artifact"},
    {"usage", SHAPE_OBJECT, .of = "Usage"},
    {"limits_not_in_force", SHAPE_TEXT, SHAPE_OPTIONAL | SHAPE_LIST, .example = "[\"cpus\"]",
     .help = "Limits of its `resources` that nothing on this machine holds it to."},
    EXECUTION_TIMES,
    {"files", SHAPE_OBJECT, SHAPE_OPTIONAL | SHAPE_LIST, .of = "OutputFile",
     .help = "Of one without a session: its artifacts with what is in them."},
    {"requirements", SHAPE_TEXT, SHAPE_OPTIONAL | SHAPE_LIST, .help = "Of one without a session: the packages that it had."},
};
static const struct shape_field output_file_fields[] = {
    {"path", SHAPE_TEXT, .help = "Relative to the workspace."},
    {"size", SHAPE_COUNT},
    {"content", SHAPE_TEXT, SHAPE_OPTIONAL, .help = "Its text..."},
    {"content_base64", SHAPE_TEXT, SHAPE_OPTIONAL, .help = "...or its bytes..."},
    {"download_url", SHAPE_TEXT, SHAPE_OPTIONAL | SHAPE_NULL,
     .help = "...or, when it is too large to be sent along, a signed address; nothing of these: it is not kept."},
};
static const struct shape_field execution_status_fields[] = {
    EXECUTION_HEAD,
    EXECUTION_TIMES,
};
static const struct shape_field execution_summary_fields[] = {
    {"id", SHAPE_ID, .id = ID_EXECUTION},
    {"session_id", SHAPE_ID, SHAPE_NULL, .id = ID_SESSION},
    {"language", SHAPE_TEXT, .example = "\"python\""},
    {"state", SHAPE_WORD, .words = execution_state},
    {"created_at", SHAPE_TIME},
    {"started_at", SHAPE_TIME, SHAPE_NULL},
    {"ended_at", SHAPE_TIME, SHAPE_NULL},
};
static const struct shape_field execution_list_fields[] = {
    {"executions", SHAPE_OBJECT, SHAPE_LIST, .of = "ExecutionSummary"},
    CURSOR,
};
static const struct shape_field reason_fields[] = {
    {"kind", SHAPE_WORD, .words = reason_kind},
    {"limit", SHAPE_NUMBER, SHAPE_NULL, .help = "What it was allowed, in the unit of the kind: seconds, bytes, processes."},
    {"used", SHAPE_NUMBER, SHAPE_NULL},
    {"message", SHAPE_TEXT, SHAPE_NULL},
    {"hint", SHAPE_TEXT, SHAPE_NULL},
};
static const struct shape_field truncated_fields[] = {
    {"stdout", SHAPE_OBJECT, SHAPE_OPTIONAL, .of = "TruncatedStream"},
    {"stderr", SHAPE_OBJECT, SHAPE_OPTIONAL, .of = "TruncatedStream"},
    {"results", SHAPE_BOOLEAN, SHAPE_OPTIONAL, .help = "There were more than are kept."},
    {"artifacts", SHAPE_BOOLEAN, SHAPE_OPTIONAL, .help = "There were more than are kept."},
};
static const struct shape_field truncated_stream_fields[] = {
    {"kept_bytes", SHAPE_COUNT},
    {"total_bytes", SHAPE_COUNT},
};
static const struct shape_field result_fields[] = {
    {"main", SHAPE_BOOLEAN, .help = "It is the value of the last expression."},
    {"data", SHAPE_TEXT, SHAPE_MAP, .help = "Its forms by media type; those that are no text as base64.",
     .example = "{\"text/plain\": \"42\"}"},
};
static const struct shape_field exception_fields[] = {
    {"name", SHAPE_TEXT, .example = "\"ZeroDivisionError\""},
    {"value", SHAPE_TEXT, .example = "\"division by zero\""},
    {"traceback", SHAPE_TEXT},
};
static const struct shape_field artifact_fields[] = {
    {"path", SHAPE_TEXT, .help = "Relative to the workspace.", .example = "\"out.png\""},
    {"size", SHAPE_COUNT},
    {"mime_type", SHAPE_TEXT, .example = "\"image/png\""},
    {"sha256", SHAPE_TEXT, SHAPE_NULL, .of = "^[0-9a-f]{64}$", .help = "null: it could not be read, or is too large to be read before the answer; then it is there later."},
    {"modified_at", SHAPE_TIME, SHAPE_NULL},
    {"download_url", SHAPE_TEXT, SHAPE_NULL,
     .help = "A signed address that needs no token and expires; null: its bytes are not kept, or not any more."},
};
static const struct shape_field signed_file_fields[] = {
    {"path", SHAPE_TEXT},
    {"url", SHAPE_TEXT, .help = "It is the permission: who has it can read the file."},
    {"expires_at", SHAPE_TIME},
};
static const struct shape_field upload_fields[] = {
    {"id", SHAPE_ID, .id = ID_UPLOAD},
    {"method", SHAPE_TEXT, .help = "PUT"},
    {"url", SHAPE_TEXT, .help = "It is the permission: who has it can write this one object."},
    {"expires_at", SHAPE_TIME},
};
static const struct shape_field artifact_list_fields[] = {
    {"artifacts", SHAPE_OBJECT, SHAPE_LIST, .of = "Artifact"},
    {"truncated", SHAPE_BOOLEAN, .help = "There were more than are kept."},
};
static const struct shape_field usage_fields[] = {
    {"cpu_ms", SHAPE_NUMBER},
    {"peak_memory_bytes", SHAPE_COUNT},
};

/* As params_json() writes template_table. */
static const struct shape_field template_fields[] = {
    {"id", SHAPE_ID, .id = ID_TEMPLATE},
    {"name", SHAPE_TEXT, .example = "\"data-science\""},
    {"description", SHAPE_TEXT, SHAPE_NULL},
    {"language", SHAPE_TEXT, .example = "\"python\""},
    {"image", SHAPE_TEXT, SHAPE_NULL, .help = "null: the first that has the language."},
    {"resources", SHAPE_OBJECT, .of = "TemplateResources"},
    {"env", SHAPE_TEXT, SHAPE_MAP, .help = "Variables of every program in it."},
    {"preload", SHAPE_TEXT, SHAPE_LIST, .help = "Modules that are imported before a session is given out."},
    {"requirements", SHAPE_TEXT, SHAPE_LIST, .help = "Packages that its sandboxes have."},
    {"network", SHAPE_OBJECT, .of = "SessionNetwork"},
    {"pool", SHAPE_OBJECT, .of = "TemplatePool"},
    {"timeout", SHAPE_NUMBER, SHAPE_NULL, .help = "Seconds, of an execution that has no other."},
    {"output_bytes", SHAPE_COUNT, SHAPE_NULL, .help = "Kept of each stream of an execution that asks for no other amount."},
    {"ttl", SHAPE_NUMBER, SHAPE_NULL, .help = "Seconds after which a session ends, used or not."},
    {"idle_timeout", SHAPE_NUMBER, SHAPE_NULL, .help = "Seconds after which an unused session ends."},
    {"problem", SHAPE_TEXT, SHAPE_NULL, .help = "Why no session can be made of it now."},
    {"version", SHAPE_COUNT, .help = "One more with each change; the same as in ETag."},
    {"created_at", SHAPE_TIME},
    {"updated_at", SHAPE_TIME},
};
static const struct shape_field template_resources_fields[] = {
    {"memory_bytes", SHAPE_COUNT, SHAPE_NULL, .help = "null, here and below: the usual amount."},
    {"cpus", SHAPE_NUMBER, SHAPE_NULL},
    {"pids", SHAPE_COUNT, SHAPE_NULL},
    {"disk_bytes", SHAPE_COUNT, SHAPE_NULL},
    {"inodes", SHAPE_COUNT, SHAPE_NULL},
    {"open_files", SHAPE_COUNT, SHAPE_NULL},
    {"forks", SHAPE_COUNT, .help = "How often a session can be forked."},
};
static const struct shape_field template_pool_fields[] = {
    {"min", SHAPE_COUNT, .help = "Sessions that wait ready even when nobody asks."},
    {"max", SHAPE_COUNT, .help = "The most that wait when many ask."},
};
static const struct shape_field template_list_fields[] = {
    {"templates", SHAPE_OBJECT, SHAPE_LIST, .of = "Template"},
    CURSOR,
};

#define KEY_FIELDS \
    {"id", SHAPE_ID, .id = ID_KEY}, \
    {"name", SHAPE_TEXT, SHAPE_NULL, .example = "\"nightly evaluation\""}, \
    {"scopes", SHAPE_WORD, SHAPE_LIST, .words = key_scope, .help = "What it may do."}, \
    {"quota", SHAPE_OBJECT, .of = "KeyQuota"}, \
    {"rate_per_minute", SHAPE_COUNT, SHAPE_NULL, .help = "Requests; null: what the operator has set for all keys."}, \
    {"created_at", SHAPE_TIME}, \
    {"last_used_at", SHAPE_TIME, SHAPE_NULL}, \
    {"expires_at", SHAPE_TIME, SHAPE_NULL, .help = "null: when it is revoked."}, \
    {"revoked_at", SHAPE_TIME, SHAPE_NULL}
static const struct shape_field key_fields[] = {KEY_FIELDS};
static const struct shape_field new_key_fields[] = {
    KEY_FIELDS,
    {"key", SHAPE_TEXT, SHAPE_NULL, .help = "What clients show; told this once. null: it was told before."},
};
static const struct shape_field quota_fields[] = {
    {"sessions", SHAPE_COUNT, SHAPE_NULL, .help = "Live ones at a time; null, here and below: no limit."},
    {"cpus", SHAPE_NUMBER, SHAPE_NULL},
    {"memory_bytes", SHAPE_COUNT, SHAPE_NULL},
    {"disk_bytes", SHAPE_COUNT, SHAPE_NULL},
};
static const struct shape_field key_list_fields[] = {
    {"keys", SHAPE_OBJECT, SHAPE_LIST, .of = "Key"},
    CURSOR,
};

static const struct shape_field health_fields[] = {
    {"status", SHAPE_WORD, .words = condition, .help = "The worst of its components; without a token there is nothing else."},
    {"version", SHAPE_TEXT, SHAPE_OPTIONAL},
    {"uptime_seconds", SHAPE_NUMBER, SHAPE_OPTIONAL},
    {"tier", SHAPE_WORD, SHAPE_OPTIONAL | SHAPE_NULL, .words = tier_word, .help = "How strongly sandboxes are sealed."},
    {"layers", SHAPE_WORD, SHAPE_OPTIONAL | SHAPE_LIST, .words = layer_word, .help = "Of isolation, that hold here."},
    {"missing_layers", SHAPE_WORD, SHAPE_OPTIONAL | SHAPE_LIST, .words = layer_word, .help = "Those that do not."},
    {"missing_kernel_features", SHAPE_WORD, SHAPE_OPTIONAL | SHAPE_LIST, .words = linux_feature_word,
     .help = "What younger kernels have; without it other means stand in."},
    {"limits_not_in_force", SHAPE_TEXT, SHAPE_OPTIONAL | SHAPE_LIST, .help = "As in each execution.", .example = "[\"cpus\"]"},
    {"components", SHAPE_OBJECT, SHAPE_OPTIONAL, .of = "HealthComponents"},
    {"capacity", SHAPE_OBJECT, SHAPE_OPTIONAL, .of = "Capacity"},
    {"load", SHAPE_OBJECT, SHAPE_OPTIONAL, .of = "Load"},
};
static const struct shape_field health_components_fields[] = {
    {"database", SHAPE_OBJECT, .of = "HealthComponent"},
    {"storage", SHAPE_OBJECT, .of = "HealthComponent"},
    {"runtime", SHAPE_OBJECT, .of = "HealthComponent"},
    {"pools", SHAPE_OBJECT, .of = "HealthComponent"},
};
static const struct shape_field health_component_fields[] = {
    {"state", SHAPE_WORD, .words = condition},
    {"message", SHAPE_TEXT, SHAPE_NULL},
};
static const struct shape_field capacity_fields[] = {
    {"sessions", SHAPE_COUNT, .help = "Sandboxes that live, parked ones included."},
    {"max_sessions", SHAPE_COUNT, SHAPE_NULL},
};
static const struct shape_field load_fields[] = {
    {"sessions", SHAPE_COUNT},
    {"running", SHAPE_COUNT, .help = "Executions."},
    {"queued", SHAPE_COUNT, .help = "Executions that wait."},
};
static const struct shape_field ready_fields[] = {
    {"status", SHAPE_WORD, .words = readiness},
};

static const struct shape_field node_fields[] = {
    {"id", SHAPE_TEXT},
    {"state", SHAPE_WORD, .words = node_state, .help = "lost: it has not been heard of for a while."},
    {"self", SHAPE_BOOLEAN, .help = "It is the one that answers."},
    {"runtime", SHAPE_WORD, .words = runtime_name},
    {"version", SHAPE_TEXT, SHAPE_NULL},
    {"epoch", SHAPE_COUNT, .help = "How often it has begun."},
    {"heartbeat_at", SHAPE_TIME},
    {"capacity", SHAPE_OBJECT, SHAPE_NULL, .of = "Capacity"},
    {"load", SHAPE_OBJECT, SHAPE_NULL, .of = "Load"},
};
static const struct shape_field node_list_fields[] = {
    {"nodes", SHAPE_OBJECT, SHAPE_LIST, .of = "Node"},
};
static const struct shape_field runner_fields[] = {
    {"language", SHAPE_TEXT, .example = "\"python\""},
    {"version", SHAPE_TEXT, SHAPE_NULL, .help = "Of its interpreter."},
    {"image", SHAPE_TEXT},
    {"aliases", SHAPE_TEXT, SHAPE_LIST, .help = "Other names of the language."},
    {"extensions", SHAPE_TEXT, SHAPE_LIST, .help = "Of its files."},
    {"has_sessions", SHAPE_BOOLEAN, .help = "Else it is for single runs only."},
    {"packages", SHAPE_OBJECT, SHAPE_LIST, .of = "Package", .help = "That its image brings along; `requirements` asks for others."},
};
static const struct shape_field package_fields[] = {
    {"name", SHAPE_TEXT, .example = "\"numpy\""},
    {"version", SHAPE_TEXT, .example = "\"1.24.2\""},
};
static const struct shape_field runner_list_fields[] = {
    {"runners", SHAPE_OBJECT, SHAPE_LIST, .of = "Runner"},
};
static const struct shape_field container_fields[] = {
    {"id", SHAPE_ID, .id = ID_SESSION, .help = "That of the session in it."},
    {"runtime", SHAPE_WORD, .words = runtime_name},
    {"node", SHAPE_TEXT},
    {"sandbox", SHAPE_COUNT, .help = "As the spawner counts."},
    {"state", SHAPE_WORD, .words = session_state},
    {"frozen", SHAPE_BOOLEAN, .help = "It is idle, and its processes stand still."},
    {"template", SHAPE_TEXT},
    {"language", SHAPE_TEXT},
    {"owner", SHAPE_TEXT, .help = "The id of a key; empty: the operator."},
    {"created_at", SHAPE_TIME},
    {"last_used_at", SHAPE_TIME},
    {"limits", SHAPE_OBJECT, .of = "ContainerLimits"},
    {"usage", SHAPE_OBJECT, SHAPE_NULL, .of = "ContainerUsage", .help = "null in lists, and when it cannot be told."},
};
static const struct shape_field container_limits_fields[] = {
    {"memory_bytes", SHAPE_COUNT},
    {"disk_bytes", SHAPE_COUNT},
    {"inodes", SHAPE_COUNT},
    {"cpus", SHAPE_NUMBER},
    {"pids", SHAPE_COUNT},
    {"open_files", SHAPE_COUNT},
};
static const struct shape_field container_usage_fields[] = {
    {"cpu_ms", SHAPE_NUMBER},
    {"peak_memory_bytes", SHAPE_COUNT},
    {"disk_bytes", SHAPE_COUNT},
    {"pids", SHAPE_COUNT},
};
static const struct shape_field container_list_fields[] = {
    {"containers", SHAPE_OBJECT, SHAPE_LIST, .of = "Container"},
    CURSOR,
};
static const struct shape_field container_logs_fields[] = {
    {"id", SHAPE_ID, .id = ID_SESSION},
    {"entries", SHAPE_OBJECT, SHAPE_LIST, .of = "LogEntry", .help = "Oldest first."},
    {"dropped_bytes", SHAPE_COUNT, .help = "What was printed before."},
};
static const struct shape_field log_entry_fields[] = {
    {"time", SHAPE_TIME},
    {"stream", SHAPE_WORD, .words = stream_name},
    {"text", SHAPE_TEXT},
};

static const struct shape_field checkpoint_fields[] = {
    {"id", SHAPE_ID, .id = ID_CHECKPOINT},
    {"name", SHAPE_TEXT, SHAPE_NULL, .help = "By which it can be gone back to, too."},
    {"created_at", SHAPE_TIME},
    {"lost", SHAPE_BOOLEAN, .help = "It cannot be gone back to any more."},
    {"took_ms", SHAPE_NUMBER,
     .help = "The last that was done with it: making it, or going back to it."},
    {"session_id", SHAPE_ID, .id = ID_SESSION},
};
static const struct shape_field checkpoint_list_fields[] = {
    {"checkpoints", SHAPE_OBJECT, SHAPE_LIST, .of = "Checkpoint"},
    CURSOR,
};

static const struct shape_field variable_fields[] = {
    {"name", SHAPE_TEXT},
    {"mime_type", SHAPE_TEXT, .example = "\"application/json\""},
    {"encoding", SHAPE_WORD, .words = value_encoding, .help = "How value is to be read."},
    {"value", SHAPE_ANY},
};
static const struct shape_field variable_summary_fields[] = {
    {"name", SHAPE_TEXT},
    {"type", SHAPE_TEXT, .help = "As the language calls it.", .example = "\"DataFrame\""},
    {"size", SHAPE_COUNT, SHAPE_NULL, .help = "Bytes, where that is known."},
    {"shape", SHAPE_COUNT, SHAPE_NULL | SHAPE_LIST, .help = "Lengths of its dimensions."},
    {"preview", SHAPE_TEXT, .help = "The beginning of what the language prints."},
};
static const struct shape_field variable_list_fields[] = {
    {"variables", SHAPE_OBJECT, SHAPE_LIST, .of = "VariableSummary"},
    {"truncated", SHAPE_BOOLEAN, .help = "There are more."},
};

static const struct shape_field event_fields[] = {
    {"id", SHAPE_TEXT, SHAPE_OPTIONAL, .of = "^[0-9]+$", .help = "For Last-Event-ID."},
    {"event", SHAPE_WORD, .words = event_name},
    {"data", SHAPE_INNER, .of = "StartedEvent|OutputEvent|Result|Artifact|Execution|MissedEvent|HeartbeatEvent",
     .help = "JSON, by the kind of event: stdout and stderr have an OutputEvent, result a Result, artifact an Artifact, "
             "started a StartedEvent, ended the whole Execution, missed a MissedEvent, heartbeat (after 15 s of silence) a HeartbeatEvent."},
};
static const struct shape_field started_event_fields[] = {
    {"id", SHAPE_ID, .id = ID_EXECUTION},
    {"session_id", SHAPE_ID, SHAPE_NULL, .id = ID_SESSION},
    {"language", SHAPE_TEXT},
};
static const struct shape_field file_fields[] = {
    {"path", SHAPE_TEXT, .help = "In the workspace; bytes that are no UTF-8 are U+FFFD."},
    {"name", SHAPE_TEXT, .help = "The last part of it."},
    {"kind", SHAPE_WORD, .words = file_kind},
    {"size", SHAPE_COUNT, .help = "In bytes."},
    {"mode", SHAPE_TEXT, .of = "^[0-7]{4}$", .help = "Its permissions, in octal."},
    {"mime_type", SHAPE_TEXT, SHAPE_NULL, .help = "By its name; null for what is no file."},
    {"modified_at", SHAPE_TIME},
    {"etag", SHAPE_TEXT, SHAPE_NULL, .help = "Another one after each change; null for what is no file."},
    {"url", SHAPE_TEXT, SHAPE_NULL, .help = "Where it is; null when its name can be in no address."},
};
static const struct shape_field file_list_fields[] = {
    {"directory", SHAPE_TEXT, .help = "Empty: the workspace itself."},
    {"files", SHAPE_OBJECT, SHAPE_LIST, .of = "File"},
    CURSOR,
};
static const struct shape_field file_upload_fields[] = {
    {"files", SHAPE_OBJECT, SHAPE_LIST, .of = "File", .help = "In the order of the form."},
};
static const struct shape_field workspace_fields[] = {
    {"session_id", SHAPE_ID, .id = ID_SESSION, .help = "Of the session that it was saved from."},
    {"bytes", SHAPE_COUNT, .help = "Of its files and their names, before they are compressed."},
    {"chunks", SHAPE_COUNT, .help = "That it is kept in."},
    {"new_chunks", SHAPE_COUNT, SHAPE_OPTIONAL,
     .help = "Of a save: that had to be written, since they differ from the last one."},
    {"saved_at", SHAPE_TIME},
};
static const struct shape_field workspace_list_fields[] = {
    {"workspaces", SHAPE_OBJECT, SHAPE_LIST, .of = "Workspace"},
    CURSOR,
};
/* Described by its own specification, not here. */
static const struct shape_field openapi_fields[] = {
    {"openapi", SHAPE_TEXT, .of = "^3\\.1\\."},
    {"jsonSchemaDialect", SHAPE_TEXT},
    {"info", SHAPE_ANY, SHAPE_MAP},
    {"servers", SHAPE_ANY, SHAPE_LIST},
    {"tags", SHAPE_ANY, SHAPE_LIST},
    {"paths", SHAPE_ANY, SHAPE_MAP},
    {"components", SHAPE_ANY, SHAPE_MAP},
};
static const struct shape_field output_event_fields[] = {
    {"text", SHAPE_TEXT, .help = "What it printed; bytes that are no UTF-8 are U+FFFD."},
};
static const struct shape_field missed_event_fields[] = {
    {"events", SHAPE_COUNT, .help = "So many were dropped before they could be sent."},
};
static const struct shape_field heartbeat_event_fields[] = {
    {"at", SHAPE_TIME},
};
/* clang-format on */

/* --- the list --------------------------------------------------------------------------------- */

#define SHAPE(title, text, rows)                                                                   \
    {                                                                                              \
        title, text, rows, ARRAY_LEN(rows)                                                         \
    }

const struct shape schemas[] = {
    SHAPE("Session", "A sandbox that lives on from one execution to the next.", session_fields),
    SHAPE("SessionResources", "What its sandbox may use.", session_resources_fields),
    SHAPE("SessionSecret", "A secret of a session, without its value.", session_secret_fields),
    SHAPE("SessionNetwork", "What its sandbox may reach.", session_network_fields),
    SHAPE("SessionTimings", "How long it took to make it.", session_timings_fields),
    SHAPE("SessionList", "A page of sessions, newest first.", session_list_fields),
    SHAPE("Execution", "One run of one piece of code.", execution_fields),
    SHAPE("ExecutionStatus", "An execution without what it printed and made.",
          execution_status_fields),
    SHAPE("OutputFile", "A file that the execution made or changed, whole.", output_file_fields),
    SHAPE("ExecutionSummary", "An execution in a list.", execution_summary_fields),
    SHAPE("ExecutionList", "A page of executions, newest first.", execution_list_fields),
    SHAPE("Reason", "Why an execution did not complete, as the host saw it.", reason_fields),
    SHAPE("Truncated", "What is not all there.", truncated_fields),
    SHAPE("TruncatedStream", NULL, truncated_stream_fields),
    SHAPE("Result", "A value or a figure that the code has shown.", result_fields),
    SHAPE("Exception", "What the code raised, in its own words.", exception_fields),
    SHAPE("Artifact", "A file that the execution made or changed.", artifact_fields),
    SHAPE("SignedFile", "A signed address of a file.", signed_file_fields),
    SHAPE("Upload", "An address to upload a file to.", upload_fields),
    SHAPE("ArtifactList", "What an execution made.", artifact_list_fields),
    SHAPE("Usage", "What it used, as the host saw it.", usage_fields),
    SHAPE("Template", "A named recipe for sandboxes.", template_fields),
    SHAPE("TemplateResources", "What each sandbox may use.", template_resources_fields),
    SHAPE("TemplatePool", "How many sessions are made in advance.", template_pool_fields),
    SHAPE("TemplateList", "A page of templates.", template_list_fields),
    SHAPE("Checkpoint", "A session as it was, kept in its sandbox.", checkpoint_fields),
    SHAPE("CheckpointList", "A page of checkpoints, newest first.", checkpoint_list_fields),
    SHAPE("Variable", "The value of a variable, as the interpreter tells it.", variable_fields),
    SHAPE("VariableSummary", "A variable in a list.", variable_summary_fields),
    SHAPE("VariableList", "The variables of an interpreter.", variable_list_fields),
    SHAPE("File", "What a name in the workspace stands for.", file_fields),
    SHAPE("FileList", "A page of a directory.", file_list_fields),
    SHAPE("Workspace", "The files of a session at rest.", workspace_fields),
    SHAPE("WorkspaceList", "A page of them, newest first.", workspace_list_fields),
    SHAPE("FileUpload", "The files that a form brought.", file_upload_fields),
    SHAPE("Key", "An API key, without its text.", key_fields),
    SHAPE("NewKey", "An API key with its text.", new_key_fields),
    SHAPE("KeyQuota", "What its live sessions may take together.", quota_fields),
    SHAPE("KeyList", "A page of keys, newest first.", key_list_fields),
    SHAPE("Health", "How the server is.", health_fields),
    SHAPE("HealthComponents", NULL, health_components_fields),
    SHAPE("HealthComponent", NULL, health_component_fields),
    SHAPE("Capacity", "How many sandboxes there are and may be.", capacity_fields),
    SHAPE("Load", "What there is to do.", load_fields),
    SHAPE("Ready", "Requests are welcome.", ready_fields),
    SHAPE("Node", "A machine that holds sandboxes.", node_fields),
    SHAPE("NodeList", NULL, node_list_fields),
    SHAPE("Runner", "A language that code can be run in.", runner_fields),
    SHAPE("RunnerList", NULL, runner_list_fields),
    SHAPE("Package", NULL, package_fields),
    SHAPE("Container", "What an operator sees of a live session.", container_fields),
    SHAPE("ContainerLimits", NULL, container_limits_fields),
    SHAPE("ContainerUsage", NULL, container_usage_fields),
    SHAPE("ContainerList", NULL, container_list_fields),
    SHAPE("ContainerLogs", "What its executions printed last, as far as it is kept.",
          container_logs_fields),
    SHAPE("LogEntry", NULL, log_entry_fields),
    SHAPE("Event", "One event of a stream.", event_fields),
    SHAPE("StartedEvent", NULL, started_event_fields),
    SHAPE("OutputEvent", NULL, output_event_fields),
    SHAPE("MissedEvent", NULL, missed_event_fields),
    SHAPE("HeartbeatEvent", NULL, heartbeat_event_fields),
    SHAPE("OpenApi", "This document.", openapi_fields),
    SHAPE(SCHEMA_ERROR, "Every failure has this shape.", error_fields),
    SHAPE("ErrorDetail", NULL, error_detail_fields),
};
const size_t schema_count = ARRAY_LEN(schemas);

const struct shape *schema_find(const char *name)
{
    for (size_t i = 0; i < schema_count; i++) {
        if (strcmp(schemas[i].name, name) == 0)
            return &schemas[i];
    }
    return NULL;
}
