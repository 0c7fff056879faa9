/* catalog.h - the templates that sessions are made from, each with its recipe and its pool
 *
 * A template that is replaced or removed goes on for the sessions that were made from it: each of
 * them holds its kind, and what nobody holds is closed. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/pool.h"
#include "core/recipe.h"
#include "core/template.h"

struct catalog;
struct catalog_kind;

/* Borrowed as long as the catalog lives. */
struct catalog_order {
    struct loop *loop;
    const struct log *log; /* NULL: none */
    struct spawner_client *spawner;
    struct capacity *capacity;    /* NULL: no limit */
    const char *const *data_dirs; /* stores of images, NULL-terminated */
    const char *recipes_dir;
    const char *copier;
    struct builder *builder; /* of packages, and where they come from; NULL: there are none */
    const struct packages_source *packages;
    struct template_bounds bounds;
    uint64_t idle_freeze_ms; /* 0: unused sessions go on */
    bool allow_degraded;
};

MUST_CHECK int catalog_open(struct catalog **out, const struct catalog_order *order,
                            struct error *err);

/* From now on pools are filled before anybody asks, where templates say so. Until then whoever goes
 * on with an earlier process's sandboxes can tell them from ours. */
MUST_CHECK int catalog_start(struct catalog *catalog, struct error *err);

/* Closes every pool; `closed` comes once, later. Kinds that are held live on until let go. */
void catalog_close(struct catalog *catalog, void (*closed)(void *ctx), void *ctx);
void catalog_free(struct catalog *catalog); /* after that, or with the spawner gone */
SCOPED_DEFINE(catalog)

/* What there is to run, as of the last look at the stores. Borrowed until the next one. */
const struct runner_list *catalog_runners(const struct catalog *catalog);
/* Looks again; *has_changed: images have come, gone, or become others. Kinds stay as they are. */
MUST_CHECK int catalog_look(struct catalog *catalog, bool *has_changed, struct error *err);

/* Whether sessions can be made of it: its language, image, kernel and limits. ERROR_INVALID says
 * what is wrong, ERROR_NOT_FOUND which language or image is missing. */
MUST_CHECK int catalog_check(const struct catalog *catalog, const struct template_spec *spec,
                             struct error *err);

/* Adds it, or replaces the one with this id. The document is one that template_table reads. */
MUST_CHECK int catalog_put(struct catalog *catalog, const char *id, const json_t *document,
                           struct error *err);
void catalog_remove(struct catalog *catalog, const char *id); /* none is fine */

/* By id or by name; held by the catalog. NULL with *err: which ones there are. */
struct catalog_kind *catalog_find(const struct catalog *catalog, const char *word,
                                  struct error *err);

/* All of them, in no order: from NULL to NULL. */
struct catalog_kind *catalog_next(const struct catalog *catalog, const struct catalog_kind *kind);

/* Whether its language has sessions, or only single runs. */
bool catalog_has_sessions(const struct catalog *catalog, const struct runner *runner);

/* Whether one kernel of one image knows both languages, as Node's does. */
bool catalog_is_same_kernel(const struct catalog *catalog, const struct runner *a,
                            const struct runner *b);

/* --- one kind of sessions --------------------------------------------------------------------- */

const char *catalog_id(const struct catalog_kind *kind);
const struct template_spec *catalog_spec(const struct catalog_kind *kind);
const struct spawn_limits *catalog_limits(const struct catalog_kind *kind);
json_t *catalog_requirements(const struct catalog_kind *kind); /* its packages, in one form; new */
/* Where its packages would come from. ERROR_INVALID: its language has none. */
MUST_CHECK int catalog_find_index(const struct catalog_kind *kind, enum runner_index *out,
                                  struct error *err);
bool catalog_get_pool(const struct catalog_kind *kind, struct pool_info *out); /* false: none yet */

/* What a session has that others of its kind have not; either may be NULL. */
struct catalog_extra {
    const struct resource_spec *over;
    const struct param_strings *requirements; /* beside the template's */
};

/* A session of this kind: parked ones first, when it asks for nothing else than they have. *held is
 * the kind that it is of, with its own limits and packages, to be let go when the session is gone.
 */
MUST_CHECK int catalog_take(struct catalog_kind *kind, const struct catalog_extra *extra,
                            struct session **out, struct catalog_kind **held, bool *is_parked,
                            const struct session_events *events, void *ctx, struct error *err);

/* The limits that it would have, to be compared before anything is taken; refused as there. */
MUST_CHECK int catalog_reckon(const struct catalog_kind *kind, const struct resource_spec *over,
                              struct spawn_limits *out, struct error *err);

/* For a session that another process has made, of the template `id`: with the limits that it has,
 * as far as they are allowed now, and in its own language, whatever became of the template. */
MUST_CHECK int catalog_revive(struct catalog *catalog, const char *id, const char *language,
                              const struct resource_spec *limits, struct catalog_kind **held,
                              struct error *err);
/* The kind itself, or one of its own with other limits. */
MUST_CHECK int catalog_hold(struct catalog_kind *kind, const struct resource_spec *over,
                            struct catalog_kind **held, struct error *err);
const struct session_template *catalog_template(const struct catalog_kind *kind);
void catalog_let_go(struct catalog_kind *kind);

/* To be told of every event: the sandboxes of its pools are unknown to others. */
void catalog_on_event(struct catalog *catalog, const struct spawn_message *m);
