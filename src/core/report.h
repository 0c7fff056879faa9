/* report.h - what executors outside of this process say of their executions and sessions
 *
 * Each report may come twice and has one effect: an ending stays the first that was told. What runs
 * in a sandbox of this machine is seen from here, and nobody else can say how it went. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/plane.h"

struct reason_report {
    int kind;
    bool has_limit, has_used;
    double limit, used;
    char *message, *hint;
};

struct exception_report {
    char *name, *value, *traceback;
};

struct usage_report {
    double cpu_ms;
    uint64_t peak_memory_bytes;
};

struct shown_report {
    bool is_main;
    struct param_map data;
};

struct cut_stream_report {
    uint64_t kept_bytes, total_bytes;
};

struct cut_report {
    bool results, artifacts;
    bool has_stdout, has_stderr;
    struct cut_stream_report stdout_cut, stderr_cut;
};

struct result_report {
    int state; /* completed, failed, timeout, cancelled */
    bool has_exit_code, has_reason, has_error;
    int64_t exit_code;
    char *signal;
    char *stdout_text, *stderr_text;
    struct reason_report reason;
    struct param_list results; /* struct shown_report */
    struct exception_report error;
    struct usage_report usage;
    struct cut_report truncated;
    double duration_ms;
};

/* The fields of an execution that it tells, as a new object; ERROR_INVALID: they cannot all be so.
 * Its state is `*state` in the store. */
MUST_CHECK int report_fields(json_t **out, enum store_execution_state *state,
                             const struct result_report *report, struct error *err);

struct status_report {
    int state; /* 0: running */
};

struct artifact_report {
    char *path, *mime_type, *sha256;
    uint64_t size;
};

struct artifacts_report {
    struct param_list artifacts; /* struct artifact_report */
};

struct container_report {
    char *node;    /* ready: which holds it */
    char *problem; /* exited: why */
};

extern const struct param_table status_report_table, result_report_table, artifacts_report_table,
    ready_report_table, exited_report_table;

/* The document as it is then. */
void report_running(struct plane *plane, const char *id, plane_fn fn, void *ctx);
void report_heartbeat(struct plane *plane, const char *id, plane_fn fn, void *ctx);
void report_result(struct plane *plane, const char *id, const struct result_report *report,
                   plane_fn fn, void *ctx);
void report_artifacts(struct plane *plane, const char *id, const struct artifacts_report *report,
                      plane_fn fn, void *ctx);
void report_ready(struct plane *plane, const char *id, const struct container_report *report,
                  plane_fn fn, void *ctx);
void report_exited(struct plane *plane, const char *id, const struct container_report *report,
                   plane_fn fn, void *ctx);
