/* prompts.c - three ways to begin, for people who choose them from a menu */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/mcp/toolbox.h"
#include "base/strbuf.h"

#define PROMPT_MAX (256 * KIB)

static const char *argument(const struct mcp_call *call, const char *name, const char *preset)
{
    const char *text = json_string_value(json_object_get(mcp_raw_arguments(call), name));
    return text && *text ? text : preset;
}

static void answer(struct mcp_call *call, const struct strbuf *text)
{
    mcp_answer(call, json_pack("{s:[{s:s, s:o}]}", "messages", "role", "user", "content",
                               mcp_text_content(strbuf_str(text), text->len)));
}

static void get_analyse(struct mcp_call *call)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, PROMPT_MAX);
    strbuf_add_fmt(&text,
                   "Analyse the data file '%s'. %s\n\nWork in one session of Cove (session_id "
                   "\"analysis\"):\n1. If the file is not in the session yet, put it there with "
                   "upload_file.\n2. Load it with run_code; look at columns, types, missing values "
                   "and a few rows before anything else.\n3. Compute what answers the question; "
                   "check surprising numbers a second way.\n4. Where a picture says more, save one "
                   "as a PNG and look at it with read_artifact.\n5. Tell the answer first, then "
                   "how you got it, then what is uncertain.\n",
                   argument(call, "file", "data.csv"), argument(call, "question", ""));
    answer(call, &text);
}

static void get_chart(struct mcp_call *call)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, PROMPT_MAX);
    strbuf_add_fmt(
        &text,
        "Draw a chart: %s\n\nUse run_code with session_id \"chart\" and matplotlib. Give "
        "it a title, labelled axes with units, and a size that can be read. Save it as "
        "chart.png, look at it with read_artifact, and mend what does not read well "
        "before you show it.\n",
        argument(call, "what", ""));
    answer(call, &text);
}

static void get_debug(struct mcp_call *call)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, PROMPT_MAX);
    strbuf_add_fmt(&text,
                   "This program fails:\n\n%s\n\n%s\n\nRun it with run_code until you see the same "
                   "failure. Find the cause by making the input smaller and by printing what you "
                   "assume, not by guessing. Then change as little as possible, run it again, and "
                   "show the cause, the change and the output that proves it.\n",
                   argument(call, "code", ""), argument(call, "error", ""));
    answer(call, &text);
}

/* clang-format off */
static const struct mcp_prompt_argument analyse_arguments[] = {
    {"file", "Path of the file in the session, or its name", true},
    {"question", "What you want to know", false},
    {0}};
static const struct mcp_prompt_argument chart_arguments[] = {{"what", "What the chart is to show, and of which data", true}, {0}};
static const struct mcp_prompt_argument debug_arguments[] = {
    {"code", "The program", true},
    {"error", "What goes wrong, or the message", false},
    {0}};
static const struct mcp_prompt analyse = {"analyse_data", "Analyse a data file", "Load a file, look at it, answer a question about it",
                                          analyse_arguments, get_analyse};
static const struct mcp_prompt chart = {"draw_chart", "Draw a chart", "Draw, look at it, and mend it", chart_arguments, get_chart};
static const struct mcp_prompt debug = {"debug_program", "Debug a failing program", "Reproduce, find the cause, prove the change",
                                        debug_arguments, get_debug};
const struct mcp_prompt *const toolbox_prompts[] = {&analyse, &chart, &debug, NULL};
/* clang-format on */
