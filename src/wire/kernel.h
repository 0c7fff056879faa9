/* kernel.h - the frames between a host client and a kernel, the program that drives an interpreter
 *
 * docs/PROTOCOL-kernel.md is the whole text. In short: a SOCK_SEQPACKET pair, whole frames
 * in each datagram (one to the kernel, one or more from it), a fixed header and at most
 * KERNEL_BODY_MAX bytes; longer bodies go on in further frames. The kernel shares its process with
 * the tenant's code, so what comes from it is content and never a fact. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#define KERNEL_PROTOCOL   1
#define KERNEL_CHANNEL_FD 3 /* where a kernel finds its end */
#define KERNEL_PROGRAM_FD 4 /* where it finds its own text, when the image does not carry it */
#define KERNEL_FRAME_MAX  65536
#define KERNEL_BODY_MAX   (KERNEL_FRAME_MAX - 16)

enum kernel_frame_type {
    /* from the host; all but SET, ACK and SYNC are requests, and are answered by one DONE */
    KERNEL_SET = 1,    /* name NUL value: "language" or "env", for the execution that follows */
    KERNEL_EXECUTE,    /* the code; its first frame brings three fds: stdin, stdout, stderr */
    KERNEL_VARIABLES,  /* what the namespace holds -> REPLY */
    KERNEL_VARIABLE,   /* name NUL format ("json" or "text") -> DATA */
    KERNEL_COMPLETE,   /* cursor (decimal, in characters) NUL code -> REPLY */
    KERNEL_IS_WHOLE,   /* is this code finished, or does it want another line -> REPLY */
    KERNEL_ACK,        /* everything up to the DONE of this generation has arrived */
    KERNEL_SYNC,       /* say SYNCED, and again what was not acknowledged */
    KERNEL_CHECKPOINT, /* make a copy of yourself; fds: the copy's channel, and a program that may
                        * help to make it -> REPLY */
    KERNEL_FORK,       /* stand still, so that an heir can fork you; fds: the gate, and the program
                        * -> REPLY, when the gate is open again */
    KERNEL_IMPORT,     /* load these modules, one a line, for the code to come -> REPLY */

    /* from the kernel */
    KERNEL_READY = 64, /* JSON: protocol, language, version */
    KERNEL_DATA,       /* mime NUL bytes: one representation of a result */
    KERNEL_ERROR,      /* JSON: name, value, traceback */
    KERNEL_REPLY,      /* JSON */
    KERNEL_DONE,       /* int32: the exit code that the code asked for, or 0 */
    KERNEL_SYNCED,     /* empty; its generation is that of the last request. What follows is all of
                        * that answer from its beginning, what came before is of no use */
};

enum kernel_frame_flags {
    KERNEL_MORE = 1 << 0,  /* the body goes on in the next frame of this type and generation */
    KERNEL_FIRST = 1 << 1, /* DATA: begins a new result; without it, another form of the last */
    KERNEL_MAIN = 1 << 2,  /* DATA: the value of the last expression */
    KERNEL_LAST = 1 << 3,  /* DATA: the result has no further form, so it can be shown at once */
    KERNEL_UNTOUCHED = 1 << 4, /* DONE: no file of the workspace has changed */
};

/* What a copy is told on its channel: one byte. */
#define KERNEL_COPY_BEAR 'B' /* with the channel of a kernel to be -> its pid */
#define KERNEL_COPY_SPARE                                                                          \
    'S' /* fork in advance what the next BEAR needs -> its pid as spare, 0: no */
#define KERNEL_COPY_DROP 'D' /* that again; no answer */

/* And what it answers. */
struct kernel_copy_answer {
    int32_t pid; /* of the kernel, inside; -errno: there is none. 0: this is about the spare */
    int32_t spare;
};

/* Where a kernel stands while an heir forks it, in memory that both share. The heir is told
 * KERNEL_COPY_BEAR, as a copy is, answers like one, and ends. */
struct kernel_fork_point {
    void *resume[5];     /* __builtin_setjmp() */
    volatile int is_set; /* the kernel stands there now */
    int channel_fd;      /* in the fork: its channel */
};

#define KERNEL_GATE_STANDS 's' /* from the kernel */
#define KERNEL_GATE_OPEN   'o' /* to the kernel; the end of the gate says the same */

/* Little-endian, in front of every body. */
struct kernel_frame {
    uint32_t length; /* of the body */
    uint16_t type;
    uint16_t flags;
    uint32_t generation; /* of the request this belongs to; 0: none */
    uint32_t reserved;   /* 0 */
};

_Static_assert(sizeof(struct kernel_frame) == KERNEL_FRAME_MAX - KERNEL_BODY_MAX, "fixed size");
