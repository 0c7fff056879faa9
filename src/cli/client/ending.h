/* ending.h - the local end of a copy: a file, standard input or output, or a directory
 *
 * A directory is packed and unpacked by the system's tar. What comes is unpacked behind a fence:
 * nothing is written outside of the directory, by whatever links, and only files, directories and
 * links are made. A file that comes is there when it is whole. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct ending {
    int fd;
    pid_t tar;        /* 0: none */
    char *path;       /* of the file that is to be; NULL: none */
    char *draft;      /* where it is until then */
    int64_t size;     /* of what is read; -1: not known */
    unsigned mode;    /* the same: its permissions */
    bool is_standard; /* input or output */
};

/* What is there: a file, a directory (packed), or "-". To be ended with ending_release(). */
MUST_CHECK int ending_open_source(struct ending *out, const char *path, struct error *err);

/* A file, or "-". */
MUST_CHECK int ending_open_file(struct ending *out, const char *path, struct error *err);

/* A directory, made when it is not there, into which an archive is unpacked. From then on this
 * process can write nowhere else. */
MUST_CHECK int ending_open_tree(struct ending *out, const char *path, struct error *err);

/* All was read or written: the file has its name, and tar has ended well. */
MUST_CHECK int ending_finish(struct ending *ending, struct error *err);

/* What was not finished leaves nothing of a file. */
void ending_release(struct ending *ending);
