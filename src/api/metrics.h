/* metrics.h - counters, gauges and histograms in fixed memory, and their text for Prometheus
 *
 * One table (metrics.c) says which there are, and by which labels they are told apart. The values
 * of every label are known before anything is counted and are ours: no name that a client chose
 * gets here. Counting costs no memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/scoped.h"
#include "core/verdict.h"

struct metrics;
struct strbuf;

#define METRICS_TYPE          "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_MAX_BYTES     (4 * 1024 * 1024) /* of the text */
#define METRICS_LABELS_MAX    3
#define METRICS_TEMPLATES_MAX 128

enum metric {
    METRIC_BUILD,
    METRIC_TIER,
    METRIC_LAYER,             /* enum layer */
    METRIC_KERNEL_FEATURE,    /* enum linux_feature */
    METRIC_CREATE_SECONDS,    /* pooled */
    METRIC_EXECUTION_SECONDS, /* METRIC_STATE() */
    METRIC_EXECUTIONS,        /* METRIC_STATE(), stateless */
    METRIC_REASONS,           /* METRIC_REASON() */
    METRIC_EXECUTION_CPU,
    METRIC_SESSIONS, /* enum store_session_state */
    METRIC_RUNNING,
    METRIC_QUEUED,
    METRIC_SANDBOXES,
    METRIC_SANDBOXES_MAX,
    METRIC_POOL_PARKED, /* these by template, as in metrics_name_template() */
    METRIC_POOL_CREATING,
    METRIC_POOL_TARGET,
    METRIC_POOL_TAKEN,
    METRIC_POOL_MISSED,
    METRIC_POOL_COLD,
    METRIC_HTTP_REQUESTS, /* route, enum method, METRIC_CLASS() */
    METRIC_HTTP_SECONDS,  /* route */
    METRIC_HTTP_BYTES_IN,
    METRIC_HTTP_BYTES_OUT,
    METRIC_HTTP_CONNECTIONS,
    METRIC_HTTP_ACCEPTED,
    METRIC_HTTP_REFUSED,
    METRIC_STORE_QUEUE,
    METRIC_STORE_COMMITS,
    METRIC_STORE_WRITES,
    METRIC_STORE_FAILURES,
    METRIC_STORE_FAILING,
    METRIC_STORE_MEMORY,
    METRIC_LOG_DROPPED,
    METRIC_PROCESS_CPU, /* of this process: filled in here */
    METRIC_PROCESS_RESIDENT,
    METRIC_HEAP,
    METRIC_PROCESS_VIRTUAL,
    METRIC_PROCESS_FDS,
    METRIC_PROCESS_FDS_MAX,
    METRIC_PROCESS_THREADS,
    METRIC_PROCESS_START,
    METRIC_COUNT
};

/* Where in a label's values something stands. */
#define METRIC_STATE(state)  ((size_t)((state)-EXECUTION_COMPLETED)) /* of one that has ended */
#define METRIC_REASON(kind)  ((size_t)((kind)-REASON_TIMEOUT))       /* other than none */
#define METRIC_CLASS(status) ((size_t)((status) / 100)) /* 0: the peer left before the answer */

/* `routes` are the ids of routes, constants; the place behind the last is for requests that found
 * none. To be called before the process confines itself: it holds a file of /proc open. */
struct metrics *metrics_new(const char *const *routes, size_t count);
void metrics_free(struct metrics *metrics);
SCOPED_DEFINE(metrics)

/* The series of a metric, by the places in its labels: METRIC_AT(route, method, class). */
#define METRIC_AT(...) ((const size_t[METRICS_LABELS_MAX]){__VA_ARGS__})
#define METRIC_PLAIN   METRIC_AT(0)

void metrics_add(struct metrics *metrics, enum metric metric, const size_t *at, double amount);
void metrics_set(struct metrics *metrics, enum metric metric, const size_t *at, double value);
void metrics_observe(struct metrics *metrics, enum metric metric, const size_t *at, double value);

/* The templates that there are now, by their ids; those that do not fit are left out. */
void metrics_forget_templates(struct metrics *metrics);
bool metrics_name_template(struct metrics *metrics, const char *id, size_t *at);

/* Text of exposition format 0.0.4. Series of a sparse metric that nothing has happened to are not
 * told. */
void metrics_write(struct metrics *metrics, struct strbuf *out);
