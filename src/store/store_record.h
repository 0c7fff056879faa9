/* store_record.h - what the store keeps: plain records, their states, and which may follow which
 *
 * Text and bytes in a record are borrowed: by a call until it returns, by an answer until its
 * callback returns. Times are wall clock in ns, 0: not yet. JSON is written and read by the callers
 * and opaque here, but for `metadata`. An owner is the id of an API key, "" the operator. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_HASH_BYTES 32 /* of SHA-256 */

struct store_blob {
    const void *data; /* NULL: none */
    size_t len;
};

/* Records that are written together with the one they are in, in one commit or not at all. In
 * answers there are none. */
struct store_list {
    const void *items;
    size_t count;
};

/* --- states ---------------------------------------------------------------------------------- */

enum store_session_state {
    STORE_SESSION_CREATING,
    STORE_SESSION_READY,
    STORE_SESSION_BUSY,
    STORE_SESSION_FAILED,
    STORE_SESSION_TERMINATING,
    STORE_SESSION_TERMINATED,
    STORE_SESSION_STATES,
};

enum store_execution_state {
    STORE_EXECUTION_QUEUED,
    STORE_EXECUTION_RUNNING,
    STORE_EXECUTION_COMPLETED,
    STORE_EXECUTION_FAILED,
    STORE_EXECUTION_TIMEOUT,
    STORE_EXECUTION_CANCELLED,
    STORE_EXECUTION_LOST,
    STORE_EXECUTION_STATES,
};

enum store_attempt_state { STORE_ATTEMPT_UNDER_WAY, STORE_ATTEMPT_DONE, STORE_ATTEMPT_STATES };

#define STORE_BIT(state) (1u << (state))

extern const char *const store_session_names[STORE_SESSION_STATES + 1]; /* NULL at the end */
extern const char *const store_execution_names[STORE_EXECUTION_STATES + 1];
extern const char *const store_attempt_names[STORE_ATTEMPT_STATES + 1];

/* A change that keeps the state is legal until the record has ended. */
bool store_session_may(enum store_session_state from, enum store_session_state to);
bool store_execution_may(enum store_execution_state from, enum store_execution_state to);

/* Whether a record in this state is over (has `ended_ns`), is not, or may be either: a session that
 * failed keeps its sandbox for a reset, or has lost it and is over. */
bool store_session_fits(enum store_session_state state, int64_t ended_ns);
bool store_execution_fits(enum store_execution_state state, int64_t ended_ns);

/* The index of a word, or -1. */
int store_state_find(const char *const *names, const char *word);

/* --- records --------------------------------------------------------------------------------- */

/* What a session takes of its owner's quota while it has not ended. */
struct store_amounts {
    uint64_t sessions; /* 1 in a session; in a quota and in usage their number */
    uint64_t cpu_milli;
    uint64_t memory_bytes;
    uint64_t disk_bytes;
};

struct store_session {
    const char *id;
    const char *owner;
    const char *name; /* chosen by its user, unique among the owner's live ones; NULL: none */
    enum store_session_state state;
    const char *template_id; /* must exist when the session is added; NULL: none */
    const char *language;
    const char *node; /* which holds it, and since which of its epochs: together the lease */
    uint64_t epoch;
    struct store_amounts takes; /* `sessions` is filled in */
    int64_t created_ns, last_used_ns;
    int64_t expires_ns; /* 0: never */
    int64_t ended_ns;
    const char *metadata;     /* JSON object, by whose members lists are filtered; NULL: none */
    const char *doc;          /* JSON, the rest of the session's object */
    struct store_blob resume; /* what another process needs to go on with it */
};

struct store_execution {
    const char *id;
    const char *session_id; /* NULL: stateless */
    const char *owner;
    enum store_execution_state state;
    const char *language;
    const char *node;
    uint64_t epoch;
    bool is_idempotent;
    uint64_t attempts; /* counts each time it is queued again */
    int64_t created_ns, started_ns, ended_ns;
    int64_t heartbeat_ns;
    const char *request;         /* JSON: what to run, should it be run again; lists leave it out */
    const char *doc;             /* JSON: the result; lists leave it out */
    struct store_list artifacts; /* of struct store_artifact: what it left */
};

struct store_template {
    const char *id;
    const char *name; /* unique */
    const char *doc;  /* JSON */
    uint64_t version; /* filled in: 1, and one more with each change */
    int64_t created_ns, updated_ns;
};

struct store_key {
    const char *id; /* the public part of the key */
    const char *name;
    struct store_blob hash; /* STORE_HASH_BYTES; the key itself is nowhere */
    const char *scopes;
    struct store_amounts quota; /* 0: no limit */
    uint64_t rate_per_minute;   /* 0: no limit */
    int64_t created_ns, last_used_ns;
    int64_t expires_ns; /* 0: never */
    int64_t revoked_ns;
};

/* One POST with an Idempotency-Key; owner, route and key together name it. */
struct store_attempt {
    const char *owner, *route, *key;
    struct store_blob hash; /* of the request, STORE_HASH_BYTES */
    enum store_attempt_state state;
    const char *resource; /* the id of what is being made */
    const char *node;     /* who works on it */
    uint64_t epoch;
    uint64_t status;      /* done: of the response */
    const char *response; /* done: its body */
    int64_t created_ns, expires_ns;
    bool is_mine; /* in an answer: the caller is to carry it out */
};

struct store_artifact {
    const char *execution_id;
    const char *path; /* with the execution's id it names the artifact */
    const char *mime;
    const char *place; /* where its bytes are at rest; NULL: nowhere */
    uint64_t size, mode;
    int64_t modified_ns;
    struct store_blob sha256; /* none: it could not be read */
};

struct store_checkpoint {
    const char *id, *session_id;
    const char *name; /* NULL: none */
    const char *doc;
    bool is_lost;
    int64_t created_ns;
};

/* The files of a session at rest; they outlive it. */
struct store_workspace {
    const char *id; /* of the session */
    const char *owner;
    uint64_t bytes, chunks;
    int64_t created_ns; /* when it was first begun to be saved */
    int64_t saved_ns;   /* when it was last saved whole; 0: not yet */
};

struct store_node {
    const char *id;
    uint64_t epoch;
    int64_t heartbeat_ns;
    const char *doc; /* JSON: capacity, load */
};

/* What is at rest and old, oldest first. */
struct store_stale {
    int64_t
        before_ns; /* artifacts: of executions that ended before this, as their sessions did... */
    bool is_any;   /* ...or whose sessions may be alive. Workspaces: last saved before this */
    uint64_t limit;
};

/* What retention has removed, for whoever keeps bytes under this id. */
struct store_removed {
    const char *kind; /* "session", "execution" */
    const char *id;
};
