/* keep.c - what is held for a client that may die
 *
 * Only kinds of fds are taken whose close() cannot wait for anybody: the last close of a file on a
 * remote file system, or of a socket that lingers, could stop the spawner for as long as it likes.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

static bool is_unix_socket(int fd)
{
    int domain;
    socklen_t size = sizeof(domain);
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

/* Only files in memory have seals. */
static bool is_memory_file(int fd)
{
    return fcntl(fd, F_GET_SEALS) >= 0;
}

static bool may_keep(int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return false;
    return S_ISFIFO(st.st_mode) || (S_ISSOCK(st.st_mode) && is_unix_socket(fd)) ||
           (S_ISREG(st.st_mode) && is_memory_file(fd));
}

static void clear(struct keep *keep, size_t slot)
{
    while (keep->counts[slot] > 0)
        close(keep->fds[slot][--keep->counts[slot]]);
}

int keep_set(struct keep *keep, const struct spawn_keep *order, const int *fds,
             struct spawn_failure *failure)
{
    *failure = (struct spawn_failure){.code = ERROR_INVALID, .layer = -1, .step = "kept fds"};
    if (order->slot >= SPAWN_KEEP_SLOTS || order->count > SPAWN_KEEP_FDS || order->has_note > 1)
        return -1;
    for (size_t i = 0; i < order->count; i++) {
        if (!may_keep(fds[i]))
            return -1;
    }
    clear(keep, order->slot);
    memcpy(keep->fds[order->slot], fds, order->count * sizeof(fds[0]));
    keep->counts[order->slot] = order->count;
    memcpy(keep->label, order->label, sizeof(keep->label));
    if (order->has_note)
        memcpy(keep->note, order->note, sizeof(keep->note));
    return 0;
}

void keep_release(struct keep *keep)
{
    for (size_t slot = 0; slot < SPAWN_KEEP_SLOTS; slot++)
        clear(keep, slot);
}

size_t keep_get(const struct keep *keep, struct spawn_entry *entry,
                int fds[SPAWN_KEEP_SLOTS * SPAWN_KEEP_FDS])
{
    size_t n = 0;
    memcpy(entry->label, keep->label, sizeof(entry->label));
    memcpy(entry->note, keep->note, sizeof(entry->note));
    for (size_t slot = 0; slot < SPAWN_KEEP_SLOTS; slot++) {
        entry->counts[slot] = keep->counts[slot];
        for (size_t i = 0; i < keep->counts[slot]; i++)
            fds[n++] = keep->fds[slot][i];
    }
    return n;
}
