/* sqlite_wal.c - frames of the log are held back until the one that commits
 *
 * A frame is a header of 24 bytes and a page, and SQLite writes each by a call of its own. Nobody
 * looks at them before the last one is there: readers, checkpoints and recovery end at the last
 * commit, and that is told in shared memory only after the write of its frame has returned. So
 * frames may wait in memory as long as these hold:
 *
 * 1. A frame that commits (the second word of its header is not zero) is never held: when its page
 *    comes, all that is held goes to the file by one write, and how that ends is the answer.
 * 2. Frames are held only while the connection has the log's write lock, and what is left of them
 *    when it gives the lock back was rolled back, and is dropped. Written later, it could destroy
 *    what another program has committed to the same place.
 * 3. What is held is one piece, from the header of a frame on, and each part of it was written at
 *    the end of the write before. Headers that are written over (SQLite corrects the sums of a
 *    transaction that wrote a page twice) have no page behind them that could set them free, and
 *    are no such writes: the last before them was of the page that commits, behind all of them.
 * 4. The file never differs from what SQLite was told, as far as it can see: whatever looks at
 *    bytes that are held, or writes elsewhere, has them written first.
 * 5. When a write fails, SQLite gives the whole transaction up, and what is held is dropped. When a
 *    read fails because of what had to be written for it, the transaction may go on: then it is
 *    kept, and tried again.
 *
 * No method of the default VFS is wrapped that need not be. Its files stay as they are, with a copy
 * of their table of methods in which a few are ours; the copy and our state are in the memory
 * behind them. So locks, shared memory and the errno of the last failure are the default VFS's. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite_wal.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define LOG_HEAD_BYTES   32 /* of the file; the size of a page is its third word */
#define FRAME_HEAD_BYTES 24
#define PAGE_MIN_BYTES   512
#define PAGE_MAX_BYTES   65536
#define HELD_MAX_BYTES   (16 * (FRAME_HEAD_BYTES + 4096))
#define WRITE_LOCK       0 /* its slot in the shared memory, by the format of the WAL-index */

_Static_assert(HELD_MAX_BYTES >= FRAME_HEAD_BYTES + PAGE_MAX_BYTES, "a frame fits");
/* The unix VFS takes the length of a write modulo this. */
_Static_assert(HELD_MAX_BYTES < 0x20000, "it is one write");

/* Behind the file of a log; file->pMethods points to its first member. */
struct wal_log {
    sqlite3_io_methods methods;
    const sqlite3_io_methods *base;
    struct wal_db *db; /* whose log it is; borrowed, closed after it */
    bool is_locked;    /* the connection may write */
    sqlite3_int64 end; /* of the last write, held or not */
    int frame_bytes;   /* 0: not known yet */
    int held;          /* bytes before `end` that are not in the file */
    unsigned char *bytes;
};

/* Behind the file of a database. */
struct wal_db {
    sqlite3_io_methods methods;
    const sqlite3_io_methods *base;
    struct wal_log *log; /* borrowed; NULL: not open */
};

static struct wal_log *log_of(const sqlite3_file *file)
{
    return (struct wal_log *)file->pMethods;
}

static struct wal_db *db_of(const sqlite3_file *file)
{
    return (struct wal_db *)file->pMethods;
}

static uint32_t get_word(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* --- what is held ---------------------------------------------------------------------------- */

static sqlite3_int64 held_from(const struct wal_log *log)
{
    return log->end - log->held;
}

static void drop_held(struct wal_log *log)
{
    log->end = held_from(log);
    log->held = 0;
}

static int write_held(struct wal_log *log, sqlite3_file *file)
{
    if (log->held == 0)
        return SQLITE_OK;
    int code = log->base->xWrite(file, log->bytes, log->held, held_from(log));
    if (code == SQLITE_OK)
        log->held = 0;
    return code;
}

static void hold(struct wal_log *log, const void *data, int len)
{
    if (!log->bytes)
        log->bytes = xmalloc(HELD_MAX_BYTES);
    memcpy(log->bytes + log->held, data, (size_t)len);
    log->held += len;
    log->end += len;
}

/* Whole frames are held, and the last of them commits. */
static bool holds_commit(const struct wal_log *log)
{
    if (log->held % log->frame_bytes != 0)
        return false;
    return get_word(log->bytes + log->held - log->frame_bytes + 4) != 0;
}

/* --- which writes are held ------------------------------------------------------------------- */

static void set_page_size(struct wal_log *log, const unsigned char word[4])
{
    uint32_t size = get_word(word);
    bool is_valid = size >= PAGE_MIN_BYTES && size <= PAGE_MAX_BYTES;
    log->frame_bytes = is_valid ? FRAME_HEAD_BYTES + (int)size : 0;
}

/* From the head of the log, which this connection writes or which is there. */
static void learn_page_size(struct wal_log *log, sqlite3_file *file, const void *data, int len,
                            sqlite3_int64 at)
{
    unsigned char word[4];
    if (at == 0 && len == LOG_HEAD_BYTES)
        set_page_size(log, (const unsigned char *)data + 8);
    else if (log->frame_bytes == 0 && log->base->xRead(file, word, sizeof(word), 8) == SQLITE_OK)
        set_page_size(log, word);
}

static bool is_frame_head(const struct wal_log *log, int len, sqlite3_int64 at)
{
    return len == FRAME_HEAD_BYTES && at >= LOG_HEAD_BYTES &&
           (at - LOG_HEAD_BYTES) % log->frame_bytes == 0;
}

/* A page is held only with its header: what is held ends in one, or in a whole frame. */
static bool is_page_of_held(const struct wal_log *log, int len)
{
    return len == log->frame_bytes - FRAME_HEAD_BYTES &&
           log->held % log->frame_bytes == FRAME_HEAD_BYTES;
}

static bool may_hold(const struct wal_log *log, int len, sqlite3_int64 at)
{
    if (!log->is_locked || log->frame_bytes == 0 || at != log->end)
        return false;
    return is_frame_head(log, len, at) || is_page_of_held(log, len);
}

/* --- the methods of a log -------------------------------------------------------------------- */

static int write_through(struct wal_log *log, sqlite3_file *file, const void *data, int len,
                         sqlite3_int64 at)
{
    int code = write_held(log, file);
    if (code == SQLITE_OK)
        code = log->base->xWrite(file, data, len, at);
    if (code == SQLITE_OK)
        log->end = at + len;
    return code;
}

static int write_later(struct wal_log *log, sqlite3_file *file, const void *data, int len)
{
    /* There is room for the page of each header that is held. */
    bool is_full = len == FRAME_HEAD_BYTES && log->held + log->frame_bytes > HELD_MAX_BYTES;
    int code = is_full ? write_held(log, file) : SQLITE_OK;
    if (code != SQLITE_OK)
        return code;
    hold(log, data, len);
    return holds_commit(log) ? write_held(log, file) : SQLITE_OK;
}

static int log_write(sqlite3_file *file, const void *data, int len, sqlite3_int64 at)
{
    struct wal_log *log = log_of(file);
    learn_page_size(log, file, data, len, at);
    int code = may_hold(log, len, at) ? write_later(log, file, data, len)
                                      : write_through(log, file, data, len, at);
    if (code != SQLITE_OK)
        drop_held(log);
    return code;
}

static int log_read(sqlite3_file *file, void *data, int len, sqlite3_int64 at)
{
    struct wal_log *log = log_of(file);
    int code = at + len > held_from(log) ? write_held(log, file) : SQLITE_OK;
    return code == SQLITE_OK ? log->base->xRead(file, data, len, at) : code;
}

static int log_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    struct wal_log *log = log_of(file);
    int code = write_held(log, file);
    return code == SQLITE_OK ? log->base->xTruncate(file, size) : code;
}

static int log_sync(sqlite3_file *file, int flags)
{
    struct wal_log *log = log_of(file);
    int code = write_held(log, file);
    return code == SQLITE_OK ? log->base->xSync(file, flags) : code;
}

static int log_file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    struct wal_log *log = log_of(file);
    int code = write_held(log, file);
    return code == SQLITE_OK ? log->base->xFileSize(file, size) : code;
}

/* What is held here has not been committed, and never will be. */
static int log_close(sqlite3_file *file)
{
    struct wal_log *log = log_of(file);
    free(log->bytes);
    log->db->log = NULL;
    return log->base->xClose(file);
}

/* --- the methods of a database --------------------------------------------------------------- */

static int db_shm_lock(sqlite3_file *file, int slot, int count, int flags)
{
    struct wal_db *db = db_of(file);
    bool is_ours = slot == WRITE_LOCK && (flags & SQLITE_SHM_EXCLUSIVE) && db->log;
    /* Before the lock is free: from then on others may write to the same place. */
    if (is_ours && (flags & SQLITE_SHM_UNLOCK)) {
        drop_held(db->log);
        db->log->is_locked = false;
    }
    int code = db->base->xShmLock(file, slot, count, flags);
    if (is_ours && (flags & SQLITE_SHM_LOCK) && code == SQLITE_OK)
        db->log->is_locked = true;
    return code;
}

/* --- opening --------------------------------------------------------------------------------- */

static void begin_db(sqlite3_file *file, struct wal_db *db)
{
    *db = (struct wal_db){.methods = *file->pMethods, .base = file->pMethods};
    db->methods.xShmLock = db_shm_lock;
    file->pMethods = &db->methods;
}

static void begin_log(sqlite3_file *file, struct wal_log *log, struct wal_db *db)
{
    *log = (struct wal_log){.methods = *file->pMethods, .base = file->pMethods, .db = db};
    log->methods.iVersion = 1; /* it is never mapped */
    log->methods.xClose = log_close;
    log->methods.xRead = log_read;
    log->methods.xWrite = log_write;
    log->methods.xTruncate = log_truncate;
    log->methods.xSync = log_sync;
    log->methods.xFileSize = log_file_size;
    file->pMethods = &log->methods;
    db->log = log;
}

struct wal_vfs {
    sqlite3_vfs vfs; /* a copy of the other, but for its name, size and xOpen */
    sqlite3_vfs *base;
    size_t base_bytes; /* of one of its files, so that what follows is aligned */
};

/* Other files than these two are the default VFS's alone; so are those whose table of methods is of
 * an older version, shorter than the one that is copied. */
static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *given)
{
    const struct wal_vfs *v = (const struct wal_vfs *)vfs;
    int code = v->base->xOpen(v->base, name, file, flags, given);
    if (code != SQLITE_OK || file->pMethods->iVersion < 3)
        return code;
    void *behind = (char *)file + v->base_bytes;
    if (flags & SQLITE_OPEN_MAIN_DB)
        begin_db(file, behind);
    sqlite3_file *db = flags & SQLITE_OPEN_WAL ? sqlite3_database_file_object(name) : NULL;
    if (db && db->pMethods->xShmLock == db_shm_lock)
        begin_log(file, behind, db_of(db));
    return code;
}

/* SQLite's list of VFSs is one for the process, and so is this entry of it. */
static struct wal_vfs wal_vfs;
static const char *wal_vfs_name; /* NULL: not in the list */
static pthread_once_t wal_vfs_once = PTHREAD_ONCE_INIT;

static void wal_vfs_register(void)
{
    sqlite3_vfs *base = sqlite3_vfs_find(NULL);
    if (!base)
        return;
    size_t align = _Alignof(struct wal_log);
    size_t base_bytes = ((size_t)base->szOsFile + align - 1) / align * align;
    wal_vfs = (struct wal_vfs){.vfs = *base, .base = base, .base_bytes = base_bytes};
    wal_vfs.vfs.pNext = NULL;
    wal_vfs.vfs.zName = "cove-wal";
    wal_vfs.vfs.szOsFile = (int)(base_bytes + MAX(sizeof(struct wal_log), sizeof(struct wal_db)));
    wal_vfs.vfs.xOpen = vfs_open;
    if (sqlite3_vfs_register(&wal_vfs.vfs, 0) == SQLITE_OK)
        wal_vfs_name = wal_vfs.vfs.zName;
}

const char *sqlite_wal_vfs(void)
{
    pthread_once(&wal_vfs_once, wal_vfs_register);
    return wal_vfs_name;
}
