/* shim.h - between the frames of a kernel's channel and the plain form of them
 *
 * Shells and many interpreters can neither read datagrams nor take a descriptor that is sent to
 * them. For those a process of its own, the shim, holds the channel: it puts requests together and
 * writes them as a line and a body to a stream, keeps the descriptors of an execution open so that
 * the kernel opens them by path, and cuts answers into frames, counts, numbers and keeps them.
 * docs/PROTOCOL-kernel.md, "The plain form", is the whole text.
 *
 * The shim is dumpable, since only then may the kernel open /proc/PID/fd of it, and with that as
 * much in the tenant's hands as the kernel itself: what it sends is content. Any bytes of the
 * kernel's make at worst a frame of nonsense or the end of the shim; its memory is bounded. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHIM_ANSWER_MAX  (16u << 20) /* bytes of frames kept for one request */
#define SHIM_REQUEST_MAX (16u << 20)
#define SHIM_LINE_MAX    256
#define SHIM_STREAMS     3 /* stdin, stdout, stderr of an execution */

struct shim_buffer {
    char *data;
    size_t len, cap;
    size_t sent; /* how much of it has gone out */
};

struct shim {
    struct shim_buffer to_kernel;
    struct shim_buffer to_host; /* frames: all since the last request, sent or not */
    size_t whole;               /* end of the last finished frame in to_host */
    bool owes_synced;           /* in front of them */

    /* the request that is being put together, or under way */
    struct shim_buffer request;
    uint32_t generation;
    uint16_t type; /* of the frames that have come with MORE; 0: none */
    bool is_too_long, is_busy;
    int streams[SHIM_STREAMS]; /* -1: none */

    /* the answer that is being taken apart */
    char line[SHIM_LINE_MAX];
    size_t line_len;
    uint64_t body_left;
    uint16_t answer_type, answer_flags; /* type 0: between two answers, or one that is dropped */
    bool has_greeted, is_cut;
};

void shim_init(struct shim *s);
void shim_release(struct shim *s); /* closes the streams it still has */

/* One datagram of the host with its fds, which are taken. False when it cannot be. */
bool shim_take_frame(struct shim *s, const void *frame, size_t len, const int *fds, size_t count);

/* Any number of bytes of the kernel's. False when they cannot be. */
bool shim_take_bytes(struct shim *s, const char *bytes, size_t len);

/* Carries both ways until one side ends or cannot be understood. Both fds are taken, and stop
 * blocking. */
void shim_run(int channel_fd, int kernel_fd);
