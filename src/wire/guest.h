/* guest.h - the protocol between a host client and cove-init, pid 1 of a sandbox
 *
 * A SOCK_SEQPACKET pair; each datagram is one struct guest_message, for GUEST_START followed by the
 * program's strings. cove-init is our code, but it lives inside: what it says of an exit is
 * believed (the tenant can neither signal, trace nor impersonate it), what it relays of files is
 * content. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#define GUEST_CONTROL_FD    3
#define GUEST_START_FDS     5            /* most fds of a start; at least 3 */
#define GUEST_STRINGS_MAX   (160 * 1024) /* bytes of argv, environment and directory of one start */
#define GUEST_ARGS_MAX      1024         /* most arguments, and most variables */
#define GUEST_PATH_MAX      4096
#define GUEST_KEEP_MAX      96   /* pids that one GUEST_KILL lets live */
#define GUEST_TERMINALS_MAX 4    /* that a host may have open at a time */
#define GUEST_KEEPERS_MAX   8    /* of terminals, those that are about to end included */
#define GUEST_UID           1000 /* what code inside sees where user namespaces are to be had */
#define GUEST_WORKSPACE     "/workspace"

enum guest_verb {
    GUEST_READY = 1,  /* from init: sealed and waiting */
    GUEST_START,      /* fds: those that the program gets as 0, 1, 2 and, for a kernel, 3 and 4 (see
                       * kernel.h). Strings: cwd, argv..., env..., each NUL-ended */
    GUEST_STARTED,    /* from init: value = 0, or the errno of exec */
    GUEST_EXITED,     /* from init: the program's end, as waitid() tells it */
    GUEST_SIGNAL,     /* value: to the program's process group */
    GUEST_KILL,       /* every process but init, at once; the program's end follows. Strings: pids
                       * (int32) that stay, beside terminals and porters. value: enum
                       * guest_kill_flags */
    GUEST_FILES,      /* value: enum guest_files_op; fds: in, out (any, when not used) */
    GUEST_FILES_DONE, /* from init: value = 0, or an errno */
    GUEST_ADOPT, /* value: a pid inside, of a child of init's: it is the program from now on, as if
                  * started here, and the end of the one before it is told no more */
    GUEST_ADOPTED,  /* from init: value = 0, or ECHILD when there is no such child (any more) */
    GUEST_KILLED,   /* from init: the GUEST_KILL that wanted an answer is done */
    GUEST_TELL,     /* for a host that took over from another: what is the program doing? */
    GUEST_TOLD,     /* from init: value = 1 when it runs, else its end, as in GUEST_EXITED. All that
                     * was said before is of no use */
    GUEST_TERMINAL, /* a terminal beside the program. fd: its channel, on which all that follows is
                     * told (see terminal.h). value: columns << 16 | rows. Strings: as of
                     * GUEST_START, but each argument is a shell, of which the first that is there
                     * is run */
    GUEST_PORTER,   /* an errand with files. fd: its channel, on which all is told: see files.h */
};

enum guest_kill_flags {
    GUEST_KILL_TELL = 1 << 0,      /* GUEST_KILLED is wanted when none can run any more */
    GUEST_KILL_TERMINALS = 1 << 1, /* terminals and porters end, too */
};

enum guest_files_op {
    GUEST_FILES_PUT = 1,  /* `in` brings entries with content; they keep their mtime */
    GUEST_FILES_PUT_NOW,  /* the same, all of it in a memory file: init does it without a fork, and
                           * after a failure refuses the GUEST_START that follows */
    GUEST_FILES_LIST,     /* `out` gets one entry per file of the workspace, no content */
    GUEST_FILES_LIST_NOW, /* the same into a memory file: init does it without a fork, and answers
                           * E2BIG when there is more than a glance can see */
    GUEST_FILES_GET,      /* `in` brings entries that name files, `out` gets them with content */
    GUEST_FILES_PACK,     /* `out` gets the whole workspace; strings and ECHILD as of SAVE */
    GUEST_FILES_UNPACK,   /* `in` brings that, into an empty workspace */
    GUEST_FILES_SAVE, /* copies the workspace beside it. argc: the copy's number, a new one; envc:
                       * that of the copy which it was saved to or restored from last, 0: none.
                       * Strings: as of GUEST_KILL. ECHILD: there are more processes than those and
                       * the program */
    GUEST_FILES_RESTORE, /* makes the workspace what the copy argc is */
    GUEST_FILES_FORGET /* removes the copy argc, and kills the pids envc and exit_code; 0: nobody */
};

struct guest_message {
    uint32_t verb;
    int32_t value;
    int32_t exit_code; /* EXITED: when it exited */
    int32_t signal;    /* EXITED: when a signal ended it */
    uint32_t argc;     /* START */
    uint32_t envc;
    uint32_t strings_len;
    uint32_t flags; /* START: enum guest_start_flags. FILES: comes back in its FILES_DONE */
    int64_t
        since_ns; /* LIST, LIST_NOW: only what changed at this time of the wall clock, or later */
};

enum guest_start_flags {
    GUEST_START_PLAIN = 1 << 0, /* fd 3 is a stream in the plain form of the kernel protocol: a shim
                                 * that init starts too stands between it and the channel */
};

enum guest_file_flags {
    GUEST_FILE_END = 1 << 0,       /* last of the stream; no path */
    GUEST_FILE_TRUNCATED = 1 << 1, /* with END: there was more than the worker looks at or tells */
    GUEST_FILE_MISSING = 1 << 2,   /* GET: could not be read as a regular file; no content */
};

/* In front of each file of a stream; then path_len bytes of path, then (PUT, GET) size bytes. */
struct guest_file {
    uint32_t flags;
    uint32_t mode; /* st_mode: type and permissions */
    uint32_t path_len;
    uint32_t reserved;
    uint64_t size;
    int64_t mtime_ns;
    int64_t ctime_ns;
};
