/* keep.c - what is held for a client that may die
 *
 * Only pipes, files in memory and unix sockets are taken. In the queue of such a socket anything
 * may lie, so none is closed here.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/keep.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"

static bool is_unix_socket(int fd)
{
    int domain;
    socklen_t size = sizeof(domain);
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

static void clear(struct keep *keep, size_t slot, struct discard *discard)
{
    while (keep->counts[slot] > 0)
        discard_add(discard, &keep->fds[slot][--keep->counts[slot]]);
}

int keep_set(struct keep *keep, struct discard *discard, const struct spawn_keep *order,
             const int *fds, struct spawn_failure *failure)
{
    *failure = (struct spawn_failure){.code = ERROR_INVALID, .layer = -1, .step = "kept fds"};
    if (order->slot >= SPAWN_KEEP_SLOTS || order->count > SPAWN_KEEP_FDS || order->has_note > 1)
        return -1;
    for (size_t i = 0; i < order->count; i++) {
        if (!discard_is_harmless(fds[i]) && !is_unix_socket(fds[i]))
            return -1;
    }
    clear(keep, order->slot, discard);
    memcpy(keep->fds[order->slot], fds, order->count * sizeof(fds[0]));
    keep->counts[order->slot] = order->count;
    memcpy(keep->label, order->label, sizeof(keep->label));
    if (order->has_note)
        memcpy(keep->note, order->note, sizeof(keep->note));
    return 0;
}

void keep_release(struct keep *keep, struct discard *discard)
{
    for (size_t slot = 0; slot < SPAWN_KEEP_SLOTS; slot++)
        clear(keep, slot, discard);
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
