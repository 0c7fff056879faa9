/* sqlite_verbs.h - the calls of the store in SQL, each in the file of its record
 *
 * They run inside the transaction of their group, with the argument and the rows of their verb. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "store/sqlite_db.h"

typedef int sqlite_verb_fn(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                           struct error *err);

/* sqlite_session.c */
sqlite_verb_fn sqlite_add_session, sqlite_change_session, sqlite_get_usage;

/* sqlite_execution.c */
sqlite_verb_fn sqlite_add_execution, sqlite_change_execution, sqlite_put_artifact,
    sqlite_list_artifacts, sqlite_list_stale, sqlite_get_kept, sqlite_put_checkpoint,
    sqlite_remove_checkpoint;

/* sqlite_workspace.c */
sqlite_verb_fn sqlite_put_workspace, sqlite_remove_workspace, sqlite_list_stale_workspaces;

/* sqlite_template.c: what operators set up */
sqlite_verb_fn sqlite_add_template, sqlite_seed_template, sqlite_change_template,
    sqlite_remove_template, sqlite_add_key, sqlite_change_key;

/* sqlite_attempt.c, and what else keeps several nodes apart */
sqlite_verb_fn sqlite_begin_attempt, sqlite_end_attempt, sqlite_drop_attempt, sqlite_begin_node,
    sqlite_beat_node, sqlite_retain;

/* Of any record, by the type of the rows. */
sqlite_verb_fn sqlite_get_record, sqlite_list_records;
