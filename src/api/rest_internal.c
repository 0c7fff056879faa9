/* rest_internal.c - /internal: where executors outside of this process report */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/routes.h"
#include "base/macros.h"
#include "core/report.h"

#define REPORT_MAX (16 * MIB)

static void on_running(struct api_call *call)
{
    report_running(api_of(call)->plane, api_parameter(call, "id"), api_answer_as, call);
}

static void on_heartbeat(struct api_call *call)
{
    report_heartbeat(api_of(call)->plane, api_parameter(call, "id"), api_answer_as, call);
}

static void on_result(struct api_call *call)
{
    report_result(api_of(call)->plane, api_parameter(call, "id"), api_body(call), api_answer_as,
                  call);
}

static void on_artifacts(struct api_call *call)
{
    report_artifacts(api_of(call)->plane, api_parameter(call, "id"), api_body(call), api_answer_as,
                     call);
}

static void on_ready(struct api_call *call)
{
    report_ready(api_of(call)->plane, api_parameter(call, "id"), api_body(call), api_answer_as,
                 call);
}

static void on_exited(struct api_call *call)
{
    report_exited(api_of(call)->plane, api_parameter(call, "id"), api_body(call), api_answer_as,
                  call);
}

static const struct api_reply execution_reply[] = {
    {200, "Execution", NULL, "The execution as it is then."}, {0}};
static const struct api_reply session_reply[] = {
    {200, "Session", NULL, "The session as it is then."}, {0}};
static const int errors[] = {404, 409, 413, 0};

/* clang-format off */
#define EXECUTION_ROW(word, op, text) \
    .method = METHOD_POST, .pattern = "/internal/executions/{id}/" word, .scope = SCOPE_INTERNAL, .id = (op), \
    .tag = "internal", .summary = (text), .replies = execution_reply, .errors = errors
#define SESSION_ROW(word, op, text) \
    .method = METHOD_POST, .pattern = "/internal/sessions/{id}/" word, .scope = SCOPE_INTERNAL, .id = (op), \
    .tag = "internal", .summary = (text), .replies = session_reply, .errors = errors

static const struct api_route rows[] = {
    {EXECUTION_ROW("status", "reportRunning", "An executor has begun"), .handler = on_running,
     .body_max = 64 * KIB, .body = &status_report_table},
    {EXECUTION_ROW("heartbeat", "reportHeartbeat", "An executor lives"), .handler = on_heartbeat},
    {EXECUTION_ROW("result", "reportResult", "An executor has ended"), .handler = on_result,
     .body_max = REPORT_MAX, .body = &result_report_table},
    {EXECUTION_ROW("artifacts", "reportArtifacts", "What an execution made"), .handler = on_artifacts,
     .body_max = REPORT_MAX, .body = &artifacts_report_table},
    {SESSION_ROW("container_ready", "reportContainerReady", "A container is ready"), .handler = on_ready,
     .body_max = 64 * KIB, .body = &ready_report_table},
    {SESSION_ROW("container_exited", "reportContainerExited", "A container is gone"), .handler = on_exited,
     .body_max = 64 * KIB, .body = &exited_report_table},
};
/* clang-format on */
const struct api_group rest_internal_group = {rows, ARRAY_LEN(rows)};
