/* large_page.c - moves memory by copying it aside and mapping the copy in its place
 *
 * Nothing may be allocated, and nothing written to but the stack, from the copy of a piece until it
 * is in its place: such a change would be lost. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "large_page.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/scoped.h"

#define PAGE_BYTES  4096ul
#define LARGE_BYTES LARGE_PAGE_BYTES

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* since Linux 6.1 */
#endif

char *large_page_map(size_t size)
{
    char *room = mmap(NULL, size + LARGE_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)room % LARGE_BYTES;
    if (before > 0)
        munmap(room, before);
    munmap(room + before + size, LARGE_BYTES - before);
    if (madvise(room + before, size, MADV_HUGEPAGE) == 0)
        return room + before;
    munmap(room + before, size);
    return NULL;
}

bool large_page_collapse(char *at, size_t size)
{
    bool is_large = madvise(at, size, MADV_COLLAPSE) == 0;
    return madvise(at, size, MADV_NOHUGEPAGE) == 0 && is_large;
}

/* --- what is moved ---------------------------------------------------------------------------- */

#define PIECES_MAX  512
#define BATCH_BYTES (32 * MIB) /* which are there twice for a moment */
#define TEXT_BYTES  (1 * MIB)  /* half for the list of mappings, half for words about pages */

struct piece {
    uintptr_t start, end;
    int rights;
    size_t offset; /* of its copy */
};

struct gathering {
    struct piece pieces[PIECES_MAX];
    size_t count;
    struct piece code; /* mappings of a file that follow each other, so far */
    char *text;        /* TEXT_BYTES */
    int pages_fd;
    const char *except, *except_end;
};

static void push_piece(struct gathering *g, uintptr_t start, uintptr_t end, int rights)
{
    struct piece *last = g->count > 0 ? &g->pieces[g->count - 1] : NULL;
    if (last && last->end == start && last->rights == rights && end - last->start <= BATCH_BYTES)
        last->end = end;
    else if (g->count < PIECES_MAX)
        g->pieces[g->count++] = (struct piece){.start = start, .end = end, .rights = rights};
}

static void add_piece(struct gathering *g, uintptr_t start, uintptr_t end, int rights)
{
    while (end - start > BATCH_BYTES) {
        uintptr_t cut = (start + BATCH_BYTES) / LARGE_BYTES * LARGE_BYTES;
        push_piece(g, start, cut, rights);
        start = cut;
    }
    push_piece(g, start, end, rights);
}

/* How many of these pages this process has used. The first half of the text is being read. */
static size_t count_used(const struct gathering *g, uintptr_t start, uintptr_t end)
{
    const uint64_t *words = (const uint64_t *)(const void *)(g->text + TEXT_BYTES / 2);
    size_t used = 0, at_once = TEXT_BYTES / 2 / sizeof(*words);
    for (size_t page = start / PAGE_BYTES; page < end / PAGE_BYTES;) {
        size_t wanted = MIN(at_once, end / PAGE_BYTES - page);
        ssize_t n = pread(g->pages_fd, g->text + TEXT_BYTES / 2, wanted * sizeof(*words),
                          (off_t)(page * sizeof(*words)));
        if (n <= 0)
            return 0;
        size_t got = (size_t)n / sizeof(*words);
        for (size_t i = 0; i < got; i++)
            used += words[i] >> 63;
        page += got;
    }
    return used;
}

/* Code and constants, where a large page fits and at least an eighth of it is used. */
static void end_code(struct gathering *g)
{
    const struct piece *c = &g->code;
    uintptr_t at = c->start + -c->start % LARGE_BYTES;
    for (; c->end >= LARGE_BYTES && at <= c->end - LARGE_BYTES; at += LARGE_BYTES) {
        if (count_used(g, at, at + LARGE_BYTES) * 8 >= LARGE_BYTES / PAGE_BYTES)
            add_piece(g, at, at + LARGE_BYTES, PROT_READ | PROT_EXEC);
    }
    g->code = (struct piece){0};
}

static void add_mapping(struct gathering *g, uintptr_t start, uintptr_t end, const char *rights,
                        const char *name)
{
    bool is_file = *name == '/', is_heap = strncmp(name, "[heap]", 6) == 0;
    bool is_plain = rights[3] == 'p' && rights[0] == 'r' && (is_file || is_heap || *name == '\n');
    bool is_code = is_plain && is_file && rights[1] == '-';
    if (!is_code || start != g->code.end)
        end_code(g);
    if (is_code) {
        g->code = (struct piece){.start = g->code.end ? g->code.start : start, .end = end};
        return;
    }
    bool is_left_out = start < (uintptr_t)g->except_end && end > (uintptr_t)g->except;
    if (is_plain && memcmp(rights, "rw-", 3) == 0 && !is_left_out &&
        count_used(g, start, end) * 2 >= (end - start) / PAGE_BYTES)
        add_piece(g, start, end, PROT_READ | PROT_WRITE);
}

/* "start-end rights offset device inode    name" */
static bool read_line(struct gathering *g, const char *line)
{
    char *at;
    uintptr_t start = strtoul(line, &at, 16);
    if (*at != '-')
        return false;
    uintptr_t end = strtoul(at + 1, &at, 16);
    const char *rights = at + 1, *name = rights;
    for (int words = 0; words < 4; words++)
        name = strchr(name, ' ') + 1;
    add_mapping(g, start, end, rights, name + strspn(name, "0123456789 "));
    return true;
}

static bool find_pieces(struct gathering *g)
{
    scoped_fd int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n = fd < 0 ? -1 : 1;
    while (n > 0 && len < TEXT_BYTES / 2 - 1) {
        n = read(fd, g->text + len, TEXT_BYTES / 2 - 1 - len);
        len += n > 0 ? (size_t)n : 0;
    }
    if (n != 0)
        return false;
    g->text[len] = '\0';
    for (const char *line = g->text; *line; line = strchr(line, '\n') + 1) {
        if (!read_line(g, line))
            return false;
    }
    end_code(g);
    return g->count > 0;
}

/* --- moving ----------------------------------------------------------------------------------- */

/* Large ones lie as in their place, so that they stay in large pages there; the others side by
 * side. -> the size of all. */
static size_t place(struct piece *pieces, size_t count)
{
    size_t at = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < count; i++) {
            struct piece *p = &pieces[i];
            size_t size = p->end - p->start;
            if ((size >= LARGE_BYTES) != (pass == 0))
                continue;
            if (pass == 0)
                at += (p->start - at) % LARGE_BYTES;
            p->offset = at;
            at += size;
        }
    }
    return at + -at % LARGE_BYTES;
}

static bool fill_large(char *room, size_t size)
{
    for (size_t at = 0; at < size; at += LARGE_BYTES)
        room[at] = 0;
    return large_page_collapse(room, size);
}

/* What cannot be moved stays as it was, unless the kernel runs out of memory for its own lists in
 * the last call, behind the end of the old mapping: then this process dies of it, before it has
 * made anything. */
static void move(const struct piece *p, char *copy)
{
    size_t size = p->end - p->start;
    void *to = (void *)p->start;
    memcpy(copy, to, size);
    if (mprotect(copy, size, p->rights) == 0)
        (void)!mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to);
}

static bool move_batch(struct piece *pieces, size_t count)
{
    size_t size = place(pieces, count);
    char *room = large_page_map(size);
    if (!room)
        return false;
    bool is_large = fill_large(room, size);
    for (size_t i = 0; is_large && i < count; i++)
        move(&pieces[i], room + pieces[i].offset);
    munmap(room, size); /* what was not moved, and between */
    return is_large;
}

static bool move_all(struct gathering *g)
{
    bool is_any = false;
    for (size_t first = 0, last; first < g->count; first = last) {
        size_t size = 0;
        for (last = first; last < g->count; last++) {
            size += g->pieces[last].end - g->pieces[last].start;
            if (last > first && size > BATCH_BYTES)
                break;
        }
        is_any |= move_batch(g->pieces + first, last - first);
    }
    return is_any;
}

bool large_page_gather(const char *except, const char *except_end)
{
    struct gathering g = {.except = except, .except_end = except_end};
    scoped_fd int pages_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    /* shared, and so none of the pieces */
    g.text = mmap(NULL, TEXT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (g.text == MAP_FAILED)
        return false;
    g.pages_fd = pages_fd;
    bool is_done = pages_fd >= 0 && find_pieces(&g) && move_all(&g);
    munmap(g.text, TEXT_BYTES);
    return is_done;
}
