/* fuzz_frame.c - what is joined is what came, in order, and of no request that was never made
 *
 * The input is a list of datagrams, each after two bytes: its length, and how far the host's
 * generation goes on before it. Each comes from memory of exactly its size. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/frame.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "fuzz.h"

#define MODEL_MAX (64 * KIB)

/* The body as it should be, put together without looking at what the inbox does. */
struct model {
    char body[MODEL_MAX];
    size_t len;
    struct kernel_frame first;
    bool is_open;
    uint32_t asked;
};

static void check_whole(struct model *model, const struct kernel_frame *f,
                        const struct frame_message *m)
{
    BUG_ON(m->len != model->len || memcmp(m->body, model->body, m->len) != 0);
    BUG_ON(m->type != model->first.type || m->generation != f->generation);
    BUG_ON(m->generation > model->asked ||
           m->flags & ~(unsigned)(KERNEL_FIRST | KERNEL_MAIN | KERNEL_LAST));
    BUG_ON(m->flags != (model->first.flags & ~(unsigned)KERNEL_MORE));
    BUG_ON(m->type == KERNEL_DONE && m->len != sizeof(int32_t));
}

/* False when the channel is over. */
static bool add_frame(struct frame_inbox *inbox, struct model *model, const char *at, size_t len,
                      size_t *used)
{
    struct frame_message m;
    struct kernel_frame f;
    const char *why = NULL;
    enum frame_answer answer = frame_inbox_add(inbox, at, len, used, &m, &why);
    BUG_ON((answer == FRAME_BAD) != (why != NULL));
    if (answer == FRAME_BAD)
        return false;
    BUG_ON(*used < sizeof(f) || *used > len);
    memcpy(&f, at, sizeof(f));
    if (!model->is_open) {
        model->first = f;
        model->len = 0;
    }
    memcpy(model->body + model->len, at + sizeof(f), *used - sizeof(f));
    model->len += *used - sizeof(f);
    model->is_open = f.flags & KERNEL_MORE;
    BUG_ON(model->is_open != (answer == FRAME_PART));
    if (answer == FRAME_WHOLE)
        check_whole(model, &f, &m);
    return true;
}

static bool add(struct frame_inbox *inbox, struct model *model, const uint8_t *data, size_t len)
{
    char *datagram = xmalloc(len + (len == 0));
    size_t used = 0, at = 0;
    bool is_good = true;
    memcpy(datagram, data, len);
    do {
        is_good = add_frame(inbox, model, datagram + at, len - at, &used);
        at += used;
    } while (is_good && at < len);
    free(datagram);
    return is_good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct model model; /* one thread */
    struct frame_inbox inbox;
    if (size > MODEL_MAX)
        return 0;
    model.len = 0;
    model.is_open = false;
    model.asked = 0;
    frame_inbox_init(&inbox);
    while (size >= 2) {
        size_t len = MIN((size_t)data[0], size - 2);
        model.asked += data[1];
        frame_inbox_expect(&inbox, model.asked);
        if (!add(&inbox, &model, data + 2, len))
            break;
        if (data[1] & 1)
            frame_inbox_forget(&inbox);
        data += 2 + len;
        size -= 2 + len;
    }
    frame_inbox_release(&inbox);
    return 0;
}
