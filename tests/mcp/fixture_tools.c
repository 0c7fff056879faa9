/* fixture_tools.c - the suite's tools: fixed answers, steps in time, questions to the client */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "fixture.h"

#define WAV   "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
#define IMAGE "{\"type\": \"image\", \"mimeType\": \"image/png\", \"data\": \"" FIXTURE_PNG "\"}"

static json_t *parse(const char *text)
{
    json_t *value = json_loads(text, 0, NULL);
    BUG_ON(!value);
    return value;
}

json_t *fixture_ask(const char *key, const char *method, const char *params)
{
    return json_pack("{s:{s:s, s:o}}", key, "method", method, "params", parse(params));
}

/* --- fixed answers ---------------------------------------------------------------------------- */

/* clang-format off */
static const struct {
    const char *tool, *content;
} answers[] = {
    {"test_simple_text", "[{\"type\": \"text\", \"text\": \"This is a simple text response for testing.\"}]"},
    {"test_image_content", "[" IMAGE "]"},
    {"test_audio_content", "[{\"type\": \"audio\", \"mimeType\": \"audio/wav\", \"data\": \"" WAV "\"}]"},
    {"test_embedded_resource", "[{\"type\": \"resource\", \"resource\": {\"uri\": \"test://embedded-resource\","
     " \"mimeType\": \"text/plain\", \"text\": \"This is an embedded resource content.\"}}]"},
    {"test_multiple_content_types", "[{\"type\": \"text\", \"text\": \"Multiple content types test:\"}, " IMAGE ","
     " {\"type\": \"resource\", \"resource\": {\"uri\": \"test://mixed-content-resource\", \"mimeType\":"
     " \"application/json\", \"text\": \"{\\\"test\\\":\\\"data\\\",\\\"value\\\":123}\"}}]"},
};
/* clang-format on */

static void run_fixed(struct mcp_call *call)
{
    const char *name = mcp_call_tool(call)->name;
    size_t i = 0;
    while (i < ARRAY_LEN(answers) && strcmp(answers[i].tool, name) != 0)
        i++;
    if (i < ARRAY_LEN(answers))
        mcp_answer(call, mcp_tool_result(parse(answers[i].content)));
    else
        mcp_answer_text(call, name);
}

static void run_error(struct mcp_call *call)
{
    mcp_answer_error(call, "This tool intentionally returns an error for testing");
}

static void run_missing_capability(struct mcp_call *call)
{
    if (mcp_has_capability(call, "sampling"))
        mcp_answer_text(call, "The client has it.");
    else
        mcp_fail_capability(call, "sampling");
}

static void run_tool_change(struct mcp_call *call)
{
    const struct fixture *f = mcp_ctx(call);
    mcp_tell_changed(f->server, MCP_TELLS_TOOLS);
    mcp_answer_text(call, "told");
}

static void run_prompt_change(struct mcp_call *call)
{
    const struct fixture *f = mcp_ctx(call);
    mcp_tell_changed(f->server, MCP_TELLS_PROMPTS);
    mcp_answer_text(call, "told");
}

/* --- steps in time ---------------------------------------------------------------------------- */

struct step {
    unsigned delay_ms;
    double progress; /* of 100 */
    const char *log;
    bool breaks; /* the stream */
};

struct walk {
    struct mcp_call *call;
    const struct step *at, *end;
    struct loop_timer *timer;
};

static void free_walk(struct walk *w)
{
    loop_timer_free(w->timer);
    free(w);
}

static void on_step(void *ctx);

static void wait_for_step(struct walk *w)
{
    const struct fixture *f = mcp_ctx(w->call);
    loop_timer_free(w->timer);
    w->timer = loop_timer_new(f->loop, w->at->delay_ms, on_step, w);
}

static void on_step(void *ctx)
{
    struct walk *w = ctx;
    const struct step *step = w->at++;
    if (step->log)
        mcp_log(w->call, MCP_INFO, "fixture", step->log);
    else
        mcp_progress(w->call, step->progress, 100, NULL);
    if (step->breaks)
        mcp_break_stream(w->call);
    if (w->at < w->end) {
        wait_for_step(w);
        return;
    }
    mcp_answer_text(w->call, "All steps are done.");
    free_walk(w);
}

static void on_cancel(void *ctx)
{
    struct walk *w = ctx;
    mcp_answer_text(w->call, "");
    free_walk(w);
}

static const struct step logging[] = {{1, 0, "Tool execution started", false},
                                      {50, 0, "Tool processing data", false},
                                      {50, 0, "Tool execution completed", false}};
static const struct step progress[] = {
    {1, 0, NULL, false}, {50, 50, NULL, false}, {50, 100, NULL, false}};
static const struct step reconnection[] = {
    {1, 1, NULL, true}, {100, 50, NULL, false}, {100, 100, NULL, false}};

static void walk(struct mcp_call *call, const struct step *steps, size_t count)
{
    struct walk *w = xcalloc(1, sizeof(*w));
    *w = (struct walk){.call = call, .at = steps, .end = steps + count};
    mcp_on_cancel(call, on_cancel, w);
    wait_for_step(w);
}

static void run_logging(struct mcp_call *call)
{
    walk(call, logging, ARRAY_LEN(logging));
}

static void run_progress(struct mcp_call *call)
{
    walk(call, progress, ARRAY_LEN(progress));
}

static void run_reconnection(struct mcp_call *call)
{
    walk(call, reconnection, ARRAY_LEN(reconnection));
}

/* --- questions -------------------------------------------------------------------------------- */

/* clang-format off */
#define FORM(words, properties, required) \
    "{\"message\": \"" words "\", \"requestedSchema\": {\"type\": \"object\", \"properties\": {" properties "}, \"required\": [" required "]}}"
#define NAME_FORM(words) FORM(words, "\"name\": {\"type\": \"string\"}", "\"name\"")
#define OK_FORM          FORM("Please confirm", "\"ok\": {\"type\": \"boolean\"}", "\"ok\"")
#define SAMPLE(words, tokens) \
    "{\"messages\": [{\"role\": \"user\", \"content\": {\"type\": \"text\", \"text\": \"" words "\"}}], \"maxTokens\": " tokens "}"

/* The questions of a tool; those of one round have the same number. */
static const struct question {
    const char *tool, *key, *method, *params;
    int round;
    bool has_state;
} questions[] = {
    {"test_input_required_result_elicitation", "user_name", "elicitation/create", NAME_FORM("What is your name?"), 1, false},
    {"test_streaming_elicitation", "user_name", "elicitation/create", NAME_FORM("What is your name?"), 1, false},
    {"test_input_required_result_sampling", "capital_question", "sampling/createMessage", SAMPLE("What is the capital of France?", "100"), 1, false},
    {"test_input_required_result_list_roots", "client_roots", "roots/list", "{}", 1, false},
    {"test_input_required_result_request_state", "confirm", "elicitation/create", OK_FORM, 1, true},
    {"test_input_required_result_tampered_state", "confirm", "elicitation/create", OK_FORM, 1, true},
    {"test_input_required_result_multiple_inputs", "user_name", "elicitation/create", NAME_FORM("What is your name?"), 1, true},
    {"test_input_required_result_multiple_inputs", "greeting", "sampling/createMessage", SAMPLE("Generate a greeting", "50"), 1, true},
    {"test_input_required_result_multiple_inputs", "client_roots", "roots/list", "{}", 1, true},
    {"test_input_required_result_multi_round", "step1", "elicitation/create", NAME_FORM("Step 1: What is your name?"), 1, true},
    {"test_input_required_result_multi_round", "step2", "elicitation/create",
     FORM("Step 2: What is your favorite color?", "\"color\": {\"type\": \"string\"}", "\"color\""), 2, true},
    {"test_input_required_result_capabilities", "user_name", "elicitation/create", NAME_FORM("What is your name?"), 1, false},
    {"test_input_required_result_capabilities", "capital_question", "sampling/createMessage", SAMPLE("What is the capital of France?", "100"), 1, false},
    {"test_sampling", "answer", "sampling/createMessage", SAMPLE("A prompt for testing", "100"), 1, false},
    {"test_elicitation", "answer", "elicitation/create",
     FORM("Please tell", "\"username\": {\"type\": \"string\", \"description\": \"User's response\"},"
          " \"email\": {\"type\": \"string\", \"description\": \"User's email address\"}", "\"username\", \"email\""), 1, false},
    {"test_elicitation_sep1034_defaults", "answer", "elicitation/create",
     FORM("Please check", "\"name\": {\"type\": \"string\", \"default\": \"John Doe\"}, \"age\": {\"type\": \"integer\", \"default\": 30},"
          " \"score\": {\"type\": \"number\", \"default\": 95.5}, \"status\": {\"type\": \"string\", \"enum\":"
          " [\"active\", \"inactive\", \"pending\"], \"default\": \"active\"}, \"verified\": {\"type\": \"boolean\", \"default\": true}", ""), 1, false},
    {"test_elicitation_sep1330_enums", "answer", "elicitation/create",
     FORM("Please choose", "\"untitledSingle\": {\"type\": \"string\", \"enum\": [\"option1\", \"option2\", \"option3\"]},"
          " \"titledSingle\": {\"type\": \"string\", \"oneOf\": [{\"const\": \"value1\", \"title\": \"First Option\"},"
          " {\"const\": \"value2\", \"title\": \"Second Option\"}, {\"const\": \"value3\", \"title\": \"Third Option\"}]},"
          " \"legacyEnum\": {\"type\": \"string\", \"enum\": [\"opt1\", \"opt2\", \"opt3\"], \"enumNames\":"
          " [\"Option One\", \"Option Two\", \"Option Three\"]},"
          " \"untitledMulti\": {\"type\": \"array\", \"items\": {\"type\": \"string\", \"enum\": [\"option1\", \"option2\", \"option3\"]}},"
          " \"titledMulti\": {\"type\": \"array\", \"items\": {\"anyOf\": [{\"const\": \"value1\", \"title\": \"First Choice\"},"
          " {\"const\": \"value2\", \"title\": \"Second Choice\"}, {\"const\": \"value3\", \"title\": \"Third Choice\"}]}}", ""), 1, false},
};
/* clang-format on */

static bool can_ask(const struct mcp_call *call, const struct question *q)
{
    return strcmp(q->method, "roots/list") == 0
               ? mcp_has_capability(call, "roots")
               : mcp_has_capability(call, q->method[0] == 's' ? "sampling" : "elicitation");
}

/* The questions that are open in a round; an empty object: none is. */
static json_t *open_questions(const struct mcp_call *call, int round, bool *has_state)
{
    json_t *open = json_object();
    const char *tool = mcp_call_tool(call)->name;
    bool is_careful = strcmp(tool, "test_input_required_result_capabilities") == 0;
    for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
        const struct question *q = &questions[i];
        if (strcmp(q->tool, tool) != 0 || q->round != round || mcp_input(call, q->key) ||
            (is_careful && !can_ask(call, q)))
            continue;
        scoped_json json_t *one = fixture_ask(q->key, q->method, q->params);
        json_object_update(open, one);
        *has_state = q->has_state;
    }
    return open;
}

static void tell_answer(struct mcp_call *call)
{
    scoped_strbuf struct strbuf text;
    const json_t *answer = mcp_input(call, "answer");
    strbuf_init(&text, 64 * KIB);
    strbuf_add_str(&text, "state-ok. Elicitation completed. User response, LLM response: ");
    if (answer)
        json_add(&text, answer, JSON_STYLE_COMPACT);
    mcp_answer_text(call, strbuf_str(&text));
}

/* Round by round; what the state says was answered before is not asked again. */
static void run_questions(struct mcp_call *call)
{
    bool has_state = false;
    int done = (int)json_integer_value(json_object_get(mcp_state(call), "done"));
    for (int round = done + 1; round <= 2; round++) {
        json_t *open = open_questions(call, round, &has_state);
        if (json_object_size(open) > 0) {
            mcp_need_input(call, open, has_state ? json_pack("{s:i}", "done", round - 1) : NULL);
            return;
        }
        json_decref(open);
    }
    tell_answer(call);
}

/* --- the table -------------------------------------------------------------------------------- */

/* clang-format off */
#define MESSAGE_SCHEMA(name) \
    "{\"type\": \"object\", \"properties\": {\"" name "\": {\"type\": \"string\", \"description\": \"Words\"}}, \"required\": [\"" name "\"]}"
#define HEADER_SCHEMA \
    "{\"type\": \"object\", \"properties\": {\"region\": {\"type\": \"string\", \"description\": \"Repeated in a header\", \"x-mcp-header\": \"Region\"}}}"
#define RICH_SCHEMA \
    "{\"$schema\": \"https://json-schema.org/draft/2020-12/schema\", \"type\": \"object\", \"$defs\": {\"address\": {\"$anchor\":" \
    " \"addressDef\", \"type\": \"object\", \"properties\": {\"street\": {\"type\": \"string\"}, \"city\": {\"type\": \"string\"}}}}," \
    " \"properties\": {\"name\": {\"type\": \"string\"}, \"address\": {\"$ref\": \"#/$defs/address\"}, \"contactMethod\": {\"type\":" \
    " \"string\", \"enum\": [\"phone\", \"email\"]}, \"phone\": {\"type\": \"string\"}, \"email\": {\"type\": \"string\"}}," \
    " \"allOf\": [{\"anyOf\": [{\"required\": [\"phone\"]}, {\"required\": [\"email\"]}]}]," \
    " \"if\": {\"properties\": {\"contactMethod\": {\"const\": \"phone\"}}, \"required\": [\"contactMethod\"]}," \
    " \"then\": {\"required\": [\"phone\"]}, \"else\": {\"required\": [\"email\"]}, \"additionalProperties\": false}"

#define TOOL(id, function)         static const struct mcp_tool id = {.name = #id, .description = "For the suite: " #id, .run = (function)}
#define TOOL_WITH(id, function, s) static const struct mcp_tool id = {.name = #id, .description = "For the suite: " #id, .run = (function), .schema = (s)}
TOOL(test_simple_text, run_fixed);
TOOL(test_image_content, run_fixed);
TOOL(test_audio_content, run_fixed);
TOOL(test_embedded_resource, run_fixed);
TOOL(test_multiple_content_types, run_fixed);
TOOL(test_error_handling, run_error);
TOOL(test_missing_capability, run_missing_capability);
TOOL(test_trigger_tool_change, run_tool_change);
TOOL(test_trigger_prompt_change, run_prompt_change);
TOOL(test_tool_with_logging, run_logging);
TOOL(test_logging_tool, run_logging);
TOOL(test_tool_with_progress, run_progress);
TOOL(test_reconnection, run_reconnection);
TOOL(test_streaming_elicitation, run_questions);
TOOL(test_elicitation_sep1034_defaults, run_questions);
TOOL(test_elicitation_sep1330_enums, run_questions);
TOOL(test_input_required_result_elicitation, run_questions);
TOOL(test_input_required_result_sampling, run_questions);
TOOL(test_input_required_result_list_roots, run_questions);
TOOL(test_input_required_result_request_state, run_questions);
TOOL(test_input_required_result_tampered_state, run_questions);
TOOL(test_input_required_result_multiple_inputs, run_questions);
TOOL(test_input_required_result_multi_round, run_questions);
TOOL(test_input_required_result_capabilities, run_questions);
TOOL_WITH(test_sampling, run_questions, MESSAGE_SCHEMA("prompt"));
TOOL_WITH(test_elicitation, run_questions, MESSAGE_SCHEMA("message"));
TOOL_WITH(test_header, run_fixed, HEADER_SCHEMA);
TOOL_WITH(json_schema_2020_12_tool, run_fixed, RICH_SCHEMA);
/* clang-format on */

const struct mcp_tool *const fixture_tools[] = {
    &test_simple_text,
    &test_image_content,
    &test_audio_content,
    &test_embedded_resource,
    &test_multiple_content_types,
    &test_error_handling,
    &test_missing_capability,
    &test_trigger_tool_change,
    &test_trigger_prompt_change,
    &test_tool_with_logging,
    &test_logging_tool,
    &test_tool_with_progress,
    &test_reconnection,
    &test_streaming_elicitation,
    &test_elicitation_sep1034_defaults,
    &test_elicitation_sep1330_enums,
    &test_input_required_result_elicitation,
    &test_input_required_result_sampling,
    &test_input_required_result_list_roots,
    &test_input_required_result_request_state,
    &test_input_required_result_tampered_state,
    &test_input_required_result_multiple_inputs,
    &test_input_required_result_multi_round,
    &test_input_required_result_capabilities,
    &test_sampling,
    &test_elicitation,
    &test_header,
    &json_schema_2020_12_tool,
    &greet,
    &slow_compute,
    &failing_job,
    &protocol_error_job,
    &confirm_delete,
    &multi_input,
    &test_tool_with_task,
    NULL,
};
