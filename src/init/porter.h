/* porter.h - what the parts of a porter share: see wire/files.h
 *
 * A porter is a fork of init for one errand. It holds its channel and the workspace, and ends when
 * the host does: each function that sends or receives does not come back then. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "wire/files.h"
#include "wire/guest.h"

struct porter {
    struct files_frame order;
    char path[GUEST_PATH_MAX];
    char other[GUEST_PATH_MAX];
    int root;       /* the workspace */
    uint32_t flags; /* of the DONE */
};

/* One errand, by the channel in the place of GUEST_CONTROL_FD. */
void porter_serve(void);

void porter_tell_entry(const struct stat *st, const char *name);
void porter_tell_bytes(const void *data, size_t len); /* at most FILES_BYTES_MAX */
void porter_tell_alive(void);

/* The next frame from the host, which is in the porter's one buffer until the next call: *bytes are
 * behind it. */
const struct files_frame *porter_receive(const char **bytes, size_t *len);

/* FILES_BYTES that come until the COMMIT; 0 at that. Any other frame is the end of it. */
size_t porter_next_bytes(const char **bytes);

/* Errands; 0, or an errno. */
int porter_stat(struct porter *p);
int porter_list(struct porter *p);
int porter_read(struct porter *p);
int porter_write(struct porter *p);
int porter_mkdir(struct porter *p);
int porter_move(struct porter *p);
int porter_remove(struct porter *p);
int porter_pack(struct porter *p);
int porter_unpack(struct porter *p);

/* --- a file that is not there before it is whole ------------------------------------------------
 */

/* One without a name in the directory `at`; or -1. */
int porter_open_draft(int at);

/* Gives it that name in the same directory, and the place of what has it. *is_new: nothing had. 0,
 * or an errno; EEXIST when nothing may be replaced. */
int porter_name_draft(int draft, int at, const char *name, bool replaces, bool *is_new);
