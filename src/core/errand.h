/* errand.h - errands with the files of a live session
 *
 * An errand is run by a porter: a process inside the sandbox, with its seal, its limits and its
 * rights, that reads and writes below the workspace and follows no link. The host opens nothing. An
 * errand has nothing to do with executions: it works while one runs, in a session whose interpreter
 * is gone, and wakes one that is frozen. While errands are open the session is not idle; while
 * those that write are, it is neither saved nor forked. They end with the session, and with a
 * rollback, and none outlives its host.
 *
 * Paths are relative to the workspace: see errand_path_is_valid(). All that is told is content. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/session.h"
#include "wire/files.h"

#define ERRAND_STALL_MS 30000 /* for the porter to give a sign of life while it is waited for */

#define ERRAND_WAITING_MAX (1024 * KIB) /* bytes that wait to be taken */

struct errand;

enum errand_kind { ERRAND_FILE, ERRAND_DIRECTORY, ERRAND_LINK, ERRAND_SPECIAL };
const char *errand_kind_name(enum errand_kind kind); /* "file", "directory", "link", "special" */

/* Plain data. */
struct errand_entry {
    const char *name; /* LIST: of any bytes but NUL and slash; else "" */
    enum errand_kind kind;
    unsigned mode; /* permissions */
    uint64_t size;
    uint64_t inode;
    int64_t mtime_ns, ctime_ns; /* wall clock */
};

#define ERRAND_TAG_BYTES 64
/* What changes whenever the file does: for an ETag, without its quotes. */
void errand_entry_tag(const struct errand_entry *entry, char out[ERRAND_TAG_BYTES]);

/* Plain data. */
struct errand_end {
    bool is_created;    /* WRITE, MKDIR, MOVE: there was nothing of that name */
    bool has_more;      /* LIST: there are names behind the last that was told */
    struct error error; /* msg "": all went well */
};

struct errand_events {
    /* LIST: one of the names. READ: it is open; what is no regular file ends with an error after
     * this, any other waits for errand_go(). Else: how it is now. */
    void (*entry)(void *ctx, const struct errand_entry *entry);
    void (*bytes)(void *ctx, const void *data, size_t len); /* READ, PACK: borrowed */
    void (*drained)(void *ctx);                             /* WRITE, UNPACK: more is welcome */
    void (*ended)(void *ctx, const struct errand_end *end); /* the last call; it is freed */
};

struct errand_order {
    enum files_op op;
    unsigned flags;    /* FILES_PARENTS, FILES_REPLACE, FILES_RECURSIVE */
    const char *path;  /* "": the workspace itself (STAT, LIST, PACK, UNPACK) */
    const char *other; /* MOVE: where to. LIST: the name behind which it begins; NULL: none */
    uint32_t count;    /* LIST: 1 to FILES_PAGE_MAX */
    unsigned mode;     /* WRITE: permissions of a new file; one that is replaced leaves its own */
    const struct errand_events *events; /* borrowed until the end */
    void *ctx;
};

/* Relative; no empty, "." or ".." part, no NUL, parts of at most 255 bytes, shorter than
 * GUEST_PATH_MAX. Any other byte may be in a name. */
bool errand_path_is_valid(const char *path);

/* A session that is ready, busy or failed. `ended` follows, not from inside the call. ERROR_LIMIT:
 * FILES_PORTERS_MAX are open already. */
MUST_CHECK int errand_open(struct errand **out, struct session *session,
                           const struct errand_order *order, struct error *err);

/* Ends it where it is; nobody is told. Also from inside its events. What was not committed has
 * never been. */
void errand_close(struct errand *errand);

/* READ, once, after `entry`: within the size that was told. `ended` has an error when the file
 * became shorter, so less than that came. */
void errand_go(struct errand *errand, uint64_t offset, uint64_t length);

/* WRITE, UNPACK. Copies. False: enough waits, and `drained` follows; who goes on before that, for
 * ERRAND_WAITING_MAX, has a bug. */
bool errand_write(struct errand *errand, const void *data, size_t len);
void errand_commit(struct errand *errand); /* that was all; once */

/* Whether `bytes` may come. What is not taken makes the porter wait. */
void errand_pause(struct errand *errand);
void errand_resume(struct errand *errand);
