/* slot.c - open-file-description locks as an allocator that survives any crash */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/slot.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/scoped.h"

#define PARENT_MASK ((uint64_t)(1ull << 40) - 1)

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

static int lock_byte(int fd, short type, off_t at)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &lock);
}

bool slot_is_held(const struct slot_table *table, unsigned slot)
{
    return slot < table->count && table->held[slot / 8] & 1 << slot % 8;
}

bool slot_try(struct slot_table *table, unsigned slot)
{
    if (slot >= table->count || slot_is_held(table, slot))
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

int slot_table_join(struct slot_table *table, uint64_t parent, struct error *err)
{
    table->parent = SLOT_COUNT_MAX + (off_t)(parent & PARENT_MASK);
    struct flock lock = {
        .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = table->parent, .l_len = 1};
    /* Whoever has it alone removes empty groups, and waits for nothing. */
    while (fcntl(table->fd, F_OFD_SETLKW, &lock) < 0) {
        if (errno != EINTR)
            return error_sys(err, "lock the parent of cgroups");
    }
    return 0;
}

bool slot_table_claim(struct slot_table *table)
{
    return table->parent && lock_byte(table->fd, F_WRLCK, table->parent) == 0;
}

void slot_table_share(struct slot_table *table)
{
    lock_byte(table->fd, F_RDLCK, table->parent);
}
