/* terminal.h - the protocol between a host and the keeper of one terminal inside a sandbox
 *
 * A SOCK_SEQPACKET pair of its own for each terminal; each datagram is one struct terminal_frame,
 * for TERMINAL_BYTES followed by at most TERMINAL_BYTES_MAX of them. The keeper is our code and a
 * child of cove-init's. Code inside can kill it, which ends the terminal, but cannot speak for it;
 * and what it says is about code that can do what it likes, so a host believes none of it.
 *
 * Closing the channel ends the terminal and everything that was started in it. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#define TERMINAL_BYTES_MAX 4096
#define TERMINAL_SIDE_MAX  1000 /* most columns, and most rows */

enum terminal_frame_type {
    TERMINAL_BYTES = 1, /* both ways: typed, printed */
    TERMINAL_SIZE,      /* to it: columns, rows */
    TERMINAL_STARTED,   /* from it: the shell runs */
    TERMINAL_FAILED,    /* from it, or from init: error; nothing runs, and nothing follows */
    TERMINAL_EXITED,    /* from it: the shell's end; nothing is left of it, and nothing follows */
};

struct terminal_frame {
    uint32_t type;
    uint16_t columns, rows;
    int32_t error; /* an errno */
    int32_t exit_code;
    int32_t signal; /* 0: it exited */
};
