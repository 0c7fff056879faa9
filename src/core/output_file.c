/* output_file.c - splice into a file, and the ring behind its head
 *
 * Byte n of the stream stands at offset n, until the file is full; from there on in the ring that
 * the second half is then. Both places are the same for the first round. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"

#define PIECE_BYTES (64 * KIB)

static size_t head_bytes(const struct output_file *f)
{
    return f->max_bytes - f->max_bytes / 2;
}

int output_file_open(struct output_file *f, size_t max_bytes, struct error *err)
{
    int fd = memfd_create("output", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return error_sys(err, "make a file for the output");
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL); /* what came stays */
    *f = (struct output_file){.fd = fd, .max_bytes = max_bytes};
    return 0;
}

void output_file_close(struct output_file *f)
{
    scoped_close_fd(&f->fd);
    f->fd = -1;
}

/* The size that stands behind a full file; it is at least what fits. */
static uint64_t read_total(const struct output_file *f)
{
    uint64_t total;
    if (pread(f->fd, &total, sizeof(total), (off_t)f->max_bytes) != sizeof(total))
        return f->max_bytes;
    return MAX(total, (uint64_t)f->max_bytes);
}

void output_file_adopt(struct output_file *f, int fd, size_t max_bytes)
{
    struct stat st;
    *f = (struct output_file){.fd = fd, .max_bytes = max_bytes};
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    f->total = (uint64_t)st.st_size > max_bytes ? read_total(f) : (uint64_t)st.st_size;
}

static bool write_at(const struct output_file *f, const void *data, size_t len, uint64_t at)
{
    return len == 0 || pwrite(f->fd, data, len, (off_t)at) == (ssize_t)len;
}

/* At the end of the file as it is, then round and round. */
static bool write_ring(const struct output_file *f, const char *data, size_t len)
{
    size_t head = head_bytes(f), ring = f->max_bytes - head;
    if (ring == 0)
        return true;
    uint64_t first = f->total;
    if (len > ring) { /* only its end can stay */
        first += len - ring;
        data += len - ring;
        len = ring;
    }
    size_t at = (size_t)((first - head) % ring);
    size_t piece = MIN(len, ring - at);
    return write_at(f, data, piece, head + at) && write_at(f, data + piece, len - piece, head);
}

bool output_file_add(struct output_file *f, const void *data, size_t len)
{
    size_t linear = f->total < f->max_bytes ? MIN(len, f->max_bytes - (size_t)f->total) : 0;
    if (!write_at(f, data, linear, f->total))
        return false;
    f->total += linear;
    if (len == linear)
        return true;
    if (!write_ring(f, (const char *)data + linear, len - linear))
        return false;
    f->total += len - linear;
    return write_at(f, &f->total, sizeof(f->total), f->max_bytes);
}

/* What fits goes by itself. */
static ssize_t fill_linear(struct output_file *f, int pipe_fd, void *buffer, size_t size)
{
    loff_t at = (loff_t)f->total;
    ssize_t n =
        splice(pipe_fd, NULL, f->fd, &at, MIN(size, f->max_bytes - f->total), SPLICE_F_NONBLOCK);
    if (n <= 0)
        return n;
    ssize_t got = pread(f->fd, buffer, (size_t)n, (off_t)f->total);
    f->total += (uint64_t)n;
    return got;
}

ssize_t output_file_fill(struct output_file *f, int pipe_fd, void *buffer, size_t size)
{
    if (f->total < f->max_bytes)
        return fill_linear(f, pipe_fd, buffer, size);
    ssize_t n = read(pipe_fd, buffer, size);
    if (n > 0)
        (void)!output_file_add(f, buffer, (size_t)n); /* that of a cut output is worth a try */
    return n;
}

struct replay {
    const struct output_file *file;
    struct output *out;
    uint64_t offset;
    output_file_fn fn;
    void *ctx;
};

/* `count` bytes of the stream from `number` on, which stand at `at`. */
static void replay_range(const struct replay *r, uint64_t number, uint64_t at, uint64_t count)
{
    static char buffer[PIECE_BYTES];
    while (count > 0) {
        ssize_t n = pread(r->file->fd, buffer, MIN(sizeof(buffer), count), (off_t)at);
        if (n <= 0)
            return;
        output_add(r->out, buffer, (size_t)n);
        uint64_t known = r->offset > number ? MIN(r->offset - number, (uint64_t)n) : 0;
        if (r->fn && known < (uint64_t)n)
            r->fn(r->ctx, buffer + known, (size_t)n - known);
        number += (uint64_t)n;
        at += (uint64_t)n;
        count -= (uint64_t)n;
    }
}

void output_file_replay(const struct output_file *f, struct output *out, uint64_t offset,
                        output_file_fn fn, void *ctx)
{
    const struct replay r = {.file = f, .out = out, .offset = offset, .fn = fn, .ctx = ctx};
    size_t head = head_bytes(f), ring = f->max_bytes - head;
    if (f->total <= f->max_bytes) {
        replay_range(&r, 0, 0, f->total);
        return;
    }
    uint64_t first = f->total - ring; /* of the tail */
    size_t at = ring ? (size_t)((first - head) % ring) : 0;
    replay_range(&r, 0, 0, head);
    output_skip(out, first - head);
    replay_range(&r, first, head + at, ring - at);
    replay_range(&r, first + ring - at, head, at);
}
