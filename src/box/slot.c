/* slot.c - open-file-description locks as an allocator that survives any crash */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/slot.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/scoped.h"

int slot_table_open(struct slot_table *table, const char *dir, unsigned count, struct error *err)
{
    BUG_ON(count == 0 || count > SLOT_COUNT_MAX);
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return error_sys(err, "make '%s'", dir);
    scoped_fd int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    if (dir_fd < 0 || fstat(dir_fd, &st) < 0)
        return error_sys(err, "open '%s'", dir);
    if (st.st_uid != geteuid() || (st.st_mode & 022))
        return error_set(err, ERROR_DENIED, "'%s' can be written by others", dir);

    int fd = openat(dir_fd, "slots", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_sys(err, "open '%s/slots'", dir);
    unsigned start = 0;
    (void)!getrandom(&start, sizeof(start), 0); /* any number will do */
    *table = (struct slot_table){.fd = fd, .count = count, .next = start % count};
    return 0;
}

void slot_table_close(struct slot_table *table)
{
    close(table->fd);
    table->fd = -1;
}

static int lock_byte(int fd, short type, unsigned slot)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &lock);
}

bool slot_try(struct slot_table *table, unsigned slot)
{
    if (slot >= table->count || table->held[slot / 8] & 1 << slot % 8)
        return false;
    if (lock_byte(table->fd, F_WRLCK, slot) < 0)
        return false;
    table->held[slot / 8] |= (uint8_t)(1 << slot % 8);
    return true;
}

int slot_acquire(struct slot_table *table, unsigned *slot, struct error *err)
{
    for (unsigned i = 0; i < table->count; i++) {
        unsigned candidate = (table->next + i) % table->count;
        if (slot_try(table, candidate)) {
            table->next = (candidate + 1) % table->count;
            *slot = candidate;
            return 0;
        }
    }
    return error_set(err, ERROR_UNAVAILABLE, "all %u sandbox slots are taken", table->count);
}

void slot_release(struct slot_table *table, unsigned slot)
{
    lock_byte(table->fd, F_UNLCK, slot);
    table->held[slot / 8] &= (uint8_t) ~(1 << slot % 8);
}
