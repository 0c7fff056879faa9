/* ledger.c - numbered entries in a file that is written over from its beginning */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/strbuf.h"

struct head {
    uint64_t number;
    uint64_t len; /* of the body behind it */
    uint64_t sum; /* of the body, the number and the length */
};

struct ledger {
    int fd;
    off_t end; /* of what the database does not have */
    uint64_t last, written;
    struct strbuf waiting;
};

/* FNV-1a, over words: against writes that were cut off, not against anybody. */
static uint64_t sum_of(const struct head *head, const void *body)
{
    uint64_t sum = 0xcbf29ce484222325ull;
    const unsigned char *bytes = body;
    const uint64_t around[] = {head->number, head->len};
    for (size_t i = 0; i < ARRAY_LEN(around); i++)
        sum = (sum ^ around[i]) * 0x100000001b3ull;
    for (size_t i = 0; i < head->len; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, MIN(sizeof(word), head->len - i));
        sum = (sum ^ word) * 0x100000001b3ull;
        sum ^= sum >> 32;
    }
    return sum;
}

int ledger_open(struct ledger **out, const char *path, struct error *err)
{
    scoped(ledger) struct ledger *l = xcalloc(1, sizeof(*l));
    strbuf_init(&l->waiting, LEDGER_MAX_BYTES);
    l->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (l->fd < 0)
        return error_sys(err, "open '%s'", path);
    *out = take_ptr(&l);
    return 0;
}

void ledger_free(struct ledger *l)
{
    if (!l)
        return;
    strbuf_release(&l->waiting);
    if (l->fd >= 0)
        close(l->fd);
    free(l);
}

/* The body of the entry at `*at`, which becomes the place behind it; NULL: it ends here. */
static const void *next_entry(const char *text, size_t len, size_t *at, struct head *head)
{
    if (len - *at < sizeof(*head))
        return NULL;
    memcpy(head, text + *at, sizeof(*head));
    const char *body = text + *at + sizeof(*head);
    if (head->len > len - *at - sizeof(*head) || head->sum != sum_of(head, body))
        return NULL;
    *at += sizeof(*head) + head->len;
    return body;
}

static int read_all(const struct ledger *l, char **text, size_t *len, struct error *err)
{
    struct stat file;
    if (fstat(l->fd, &file) < 0)
        return error_sys(err, "stat the ledger");
    *len = (size_t)MIN(file.st_size, (off_t)LEDGER_MAX_BYTES);
    *text = xmalloc(*len + 1);
    ssize_t n = pread(l->fd, *text, *len, 0);
    if (n < 0)
        return error_sys(err, "read the ledger");
    *len = (size_t)n;
    return 0;
}

int ledger_read(struct ledger *l, uint64_t after, ledger_fn fn, void *ctx, struct error *err)
{
    scoped_free char *text = NULL;
    struct head head;
    const void *body;
    size_t len = 0, at = 0;
    if (read_all(l, &text, &len, err) < 0)
        return -1;
    l->last = 0;
    while ((body = next_entry(text, len, &at, &head)) && (!l->last || head.number == l->last + 1)) {
        if (head.number > after && fn(ctx, body, head.len, err) < 0)
            return -1;
        l->last = head.number;
    }
    l->last = l->written = MAX(l->last, after);
    l->end = 0;
    return 0;
}

uint64_t ledger_last(const struct ledger *l)
{
    return l->last;
}

bool ledger_add(struct ledger *l, const void *body, size_t len)
{
    struct head head = {.number = l->last + 1, .len = len};
    if ((size_t)l->end + l->waiting.len + sizeof(head) + len > LEDGER_MAX_BYTES)
        return false;
    head.sum = sum_of(&head, body);
    strbuf_add(&l->waiting, &head, sizeof(head));
    strbuf_add(&l->waiting, body, len);
    l->last = head.number;
    return true;
}

int ledger_write(struct ledger *l)
{
    ssize_t n = pwrite(l->fd, l->waiting.data, l->waiting.len, l->end);
    bool is_whole = n == (ssize_t)l->waiting.len;
    if (n >= 0 && !is_whole)
        errno = ENOSPC;
    if (is_whole) {
        l->end += n;
        l->written = l->last;
    }
    l->last = l->written; /* the numbers of what is not there are given again */
    strbuf_clear(&l->waiting);
    return is_whole ? 0 : -1;
}

void ledger_rewind(struct ledger *l)
{
    l->end = 0;
}

int ledger_empty(struct ledger *l, struct error *err)
{
    ledger_rewind(l);
    return ftruncate(l->fd, 0) < 0 ? error_sys(err, "empty the ledger") : 0;
}
