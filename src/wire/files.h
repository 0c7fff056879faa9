/* files.h - the protocol between a host and the porter of one errand with a session's files
 *
 * A SOCK_SEQPACKET pair of its own for each errand; each datagram is one struct files_frame, with
 * at most FILES_BYTES_MAX behind it. The porter is our code and a child of cove-init's, with the
 * tenant's own rights: code inside can kill or stop it, which ends the errand, but cannot speak for
 * it. What it brings was written by code that can do what it likes, so all of it is content.
 *
 *   STAT    ORDER ->                                     <- ENTRY <- DONE
 *   LIST    ORDER ->                                     <- ENTRY, one for each name <- DONE
 *   READ    ORDER -> <- ENTRY (it is open)   GO ->       <- BYTES... <- DONE
 *   WRITE   ORDER -> BYTES... -> COMMIT ->               <- ENTRY <- DONE
 *   MKDIR   ORDER ->                                     <- ENTRY <- DONE
 *   MOVE    ORDER ->                                     <- ENTRY <- DONE
 *   REMOVE  ORDER ->                                     <- DONE
 *   PACK    ORDER ->                                     <- BYTES... <- DONE
 *   UNPACK  ORDER -> BYTES... -> COMMIT ->               <- DONE
 *
 * A DONE with an error may come at any time, also from init when there is no porter. Closing the
 * channel ends the errand: what was written without a COMMIT has never been. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#define FILES_BYTES_MAX   65536
#define FILES_PAGE_MAX    1000 /* names of one LIST */
#define FILES_NAME_MAX    255
#define FILES_PORTERS_MAX 8  /* that a host may have at a time in one sandbox */
#define FILES_CHILDREN    12 /* those that are about to end included */

enum files_op {
    FILES_STAT = 1,
    FILES_LIST,   /* the first `count` names behind `other`, in the order of their bytes */
    FILES_READ,   /* a regular file, or ENTRY and nothing more for what is none */
    FILES_WRITE,  /* a regular file with the permissions `mode`, all of it or nothing */
    FILES_MKDIR,  /* one that is there is fine */
    FILES_MOVE,   /* to `other` */
    FILES_REMOVE, /* what is no directory, or an empty one */
    FILES_PACK,   /* what is in a directory, as a tar stream */
    FILES_UNPACK, /* a tar stream into a directory, which is made */
    FILES_OPS
};

enum files_flags {
    FILES_PARENTS = 1 << 0,   /* ORDER: makes the directories above it */
    FILES_REPLACE = 1 << 1,   /* ORDER, MOVE and WRITE: what has that name may be replaced */
    FILES_RECURSIVE = 1 << 2, /* ORDER, REMOVE: with all that is in it */
    FILES_CREATED = 1 << 3,   /* DONE: there was none before */
    FILES_MORE = 1 << 4,      /* DONE, LIST: there are more names */
    FILES_CUT = 1 << 5,       /* DONE, PACK: something could not be read, and was left out */
};

enum files_frame_type {
    FILES_ORDER = 1, /* to it, the first: op, flags, and path NUL other NUL */
    FILES_GO,        /* to it: from `offset` on, `size` bytes */
    FILES_BYTES,     /* both ways */
    FILES_COMMIT,    /* to it: that was all */
    FILES_ENTRY,     /* from it: what is there, and for LIST the name */
    FILES_ALIVE,     /* from it: there is nothing to tell yet */
    FILES_DONE,      /* from it: error, flags; nothing follows */
};

struct files_frame {
    uint32_t type;
    uint32_t op;
    uint32_t flags;
    uint32_t count;
    int32_t error; /* an errno */
    uint32_t mode; /* st_mode */
    uint64_t size;
    uint64_t offset;
    uint64_t inode;
    int64_t mtime_ns, ctime_ns;
};
