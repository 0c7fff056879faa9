/* fixture_offer.c - the suite's prompts and resources */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "fixture.h"

static const char *argument(const struct mcp_call *call, const char *name)
{
    const char *text = json_string_value(json_object_get(mcp_raw_arguments(call), name));
    return text ? text : "";
}

/* --- prompts ---------------------------------------------------------------------------------- */

static json_t *say(json_t *content)
{
    return json_pack("{s:s, s:o}", "role", "user", "content", content);
}

static json_t *say_text(const char *text)
{
    return say(mcp_text_content(text, strlen(text)));
}

static void answer(struct mcp_call *call, json_t *first, json_t *second)
{
    json_t *messages = json_pack("[o]", first);
    if (second)
        json_array_append_new(messages, second);
    mcp_answer(call, json_pack("{s:o}", "messages", messages));
}

static void get_simple(struct mcp_call *call)
{
    answer(call, say_text("This is a simple prompt for testing."), NULL);
}

static void get_with_arguments(struct mcp_call *call)
{
    scoped_free char *text = xasprintf("Prompt with arguments: arg1='%s', arg2='%s'",
                                       argument(call, "arg1"), argument(call, "arg2"));
    answer(call, say_text(text), NULL);
}

static void get_with_resource(struct mcp_call *call)
{
    answer(call,
           say(json_pack("{s:s, s:{s:s, s:s, s:s}}", "type", "resource", "resource", "uri",
                         argument(call, "resourceUri"), "mimeType", "text/plain", "text",
                         "Embedded resource content for testing.")),
           say_text("Please process the embedded resource above."));
}

static void get_with_image(struct mcp_call *call)
{
    answer(call, say(mcp_media_content("image", "image/png", FIXTURE_PNG)),
           say_text("Please analyze the image above."));
}

static void get_with_input(struct mcp_call *call)
{
    if (mcp_input(call, "user_context")) {
        answer(call, say_text("A prompt that was asked for first."), NULL);
        return;
    }
    mcp_need_input(call,
                   fixture_ask("user_context", "elicitation/create",
                               "{\"message\": \"What context should the prompt use?\","
                               " \"requestedSchema\": {\"type\": \"object\", \"properties\":"
                               " {\"context\": {\"type\": \"string\"}}, \"required\":"
                               " [\"context\"]}}"),
                   NULL);
}

#define PROMPT(id, words, args, function)                                                          \
    static const struct mcp_prompt id = {                                                          \
        .name = #id, .description = (words), .arguments = (args), .get = (function)}

static const struct mcp_prompt_argument two[] = {
    {"arg1", "First test argument", true}, {"arg2", "Second test argument", true}, {0}};
static const struct mcp_prompt_argument uri[] = {{"resourceUri", "What to embed", true}, {0}};
PROMPT(test_simple_prompt, "A text", NULL, get_simple);
PROMPT(test_prompt_with_arguments, "A text with two arguments", two, get_with_arguments);
PROMPT(test_prompt_with_embedded_resource, "A resource in it", uri, get_with_resource);
PROMPT(test_prompt_with_image, "An image in it", NULL, get_with_image);
PROMPT(test_input_required_result_prompt, "Asks the client first", NULL, get_with_input);

const struct mcp_prompt *const fixture_prompts[] = {&test_simple_prompt,
                                                    &test_prompt_with_arguments,
                                                    &test_prompt_with_embedded_resource,
                                                    &test_prompt_with_image,
                                                    &test_input_required_result_prompt,
                                                    NULL};

void fixture_complete(struct mcp_call *call)
{
    mcp_answer(call, json_pack("{s:{s:[s, s], s:i, s:b}}", "completion", "values", "paris", "party",
                               "total", 2, "hasMore", false));
}

/* --- resources -------------------------------------------------------------------------------- */

static const struct mcp_resource static_text = {"test://static-text", "static-text", NULL,
                                                "A text that stays", "text/plain"};
static const struct mcp_resource static_binary = {"test://static-binary", "static-binary", NULL,
                                                  "A picture that stays", "image/png"};
static const struct mcp_resource watched = {"test://watched-resource", "watched", NULL,
                                            "A text that changes", "text/plain"};
static const struct mcp_resource data = {"test://template/{id}/data", "data", NULL,
                                         "Data by its id", "application/json"};

const struct mcp_resource *const fixture_resources[] = {&static_text, &static_binary, &watched,
                                                        NULL};
const struct mcp_resource *const fixture_templates[] = {&data, NULL};

static const struct {
    const char *uri, *mime, *member, *value;
} contents[] = {
    {"test://static-text", "text/plain", "text",
     "This is the content of the static text resource."},
    {"test://static-binary", "image/png", "blob", FIXTURE_PNG},
    {"test://watched-resource", "text/plain", "text", "Somebody watches this."},
};

static bool read_template(struct mcp_call *call, const char *text)
{
    char id[64], end[8];
    if (sscanf(text, "test://template/%63[^/]/%7s", id, end) != 2 || strcmp(end, "data") != 0)
        return false;
    scoped_free char *body =
        xasprintf("{\"id\":\"%s\",\"templateTest\":true,\"data\":\"Data for ID: %s\"}", id, id);
    mcp_answer_contents(call, json_pack("[{s:s, s:s, s:s}]", "uri", text, "mimeType",
                                        "application/json", "text", body));
    return true;
}

void fixture_read(struct mcp_call *call, const char *text)
{
    for (size_t i = 0; i < ARRAY_LEN(contents); i++) {
        if (strcmp(contents[i].uri, text) != 0)
            continue;
        mcp_answer_contents(call,
                            json_pack("[{s:s, s:s, s:s}]", "uri", text, "mimeType",
                                      contents[i].mime, contents[i].member, contents[i].value));
        return;
    }
    if (!read_template(call, text))
        mcp_not_found(call, text);
}
