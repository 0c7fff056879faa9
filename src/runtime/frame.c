/* frame.c - checks and joins frames */
/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/frame.h"

#include <string.h>

#include "base/macros.h"

#define UNKNOWN_REQUESTS_MAX (1u << 20)

void frame_inbox_init(struct frame_inbox *inbox)
{
    *inbox = (struct frame_inbox){0};
    strbuf_init(&inbox->body, FRAME_MESSAGE_MAX);
}

static void empty(struct frame_inbox *inbox)
{
    budget_give(inbox->budget, inbox->body.len);
    strbuf_clear(&inbox->body);
    inbox->is_dropping = false;
}

void frame_inbox_release(struct frame_inbox *inbox)
{
    empty(inbox);
    strbuf_release(&inbox->body);
}

void frame_inbox_expect(struct frame_inbox *inbox, uint32_t generation)
{
    if (generation <= inbox->generation)
        return;
    inbox->generation = generation;
    inbox->total = 0;
}

void frame_inbox_await_sync(struct frame_inbox *inbox, uint32_t generation)
{
    inbox->generation = generation;
    inbox->awaits_sync = true;
}

static bool is_known(unsigned type)
{
    return type >= KERNEL_READY && type <= KERNEL_SYNCED;
}

/* Questions that nobody wrote down may have come after the last request that is known. */
static uint32_t highest_generation(const struct frame_inbox *inbox)
{
    uint32_t room = inbox->awaits_sync ? UNKNOWN_REQUESTS_MAX : 0;
    return inbox->generation + MIN(room, UINT32_MAX - inbox->generation);
}

static const char *find_fault(const struct frame_inbox *inbox, const struct kernel_frame *f,
                              size_t left)
{
    const unsigned known_flags = f->type == KERNEL_DONE
                                     ? KERNEL_UNTOUCHED
                                     : KERNEL_MORE | KERNEL_FIRST | KERNEL_MAIN | KERNEL_LAST;
    if (f->length > left)
        return "a frame that is longer than its datagram";
    if (!is_known(f->type))
        return "a frame of an unknown type";
    if (f->flags & ~known_flags || f->reserved != 0)
        return "a frame with unknown flags";
    if (f->type == KERNEL_DONE && f->length != sizeof(int32_t))
        return "a DONE that is none";
    if (f->type == KERNEL_SYNCED && (f->length || f->flags))
        return "a SYNCED that is none";
    if (f->generation > highest_generation(inbox))
        return "a frame of a request that was never made";
    if (f->type == KERNEL_SYNCED)
        return NULL; /* also in the middle of a body, which comes again */
    if (inbox->is_open && (f->type != inbox->open.type || f->generation != inbox->open.generation))
        return "a frame inside of another's body";
    return NULL;
}

static bool is_too_much(struct frame_inbox *inbox, const struct kernel_frame *f)
{
    inbox->total += f->length + sizeof(*f); /* empty frames count, too */
    return inbox->total > FRAME_REQUEST_MAX;
}

/* Only a SYNC of ours frees what an answer may have in all. */
static void begin_again(struct frame_inbox *inbox, const struct kernel_frame *f)
{
    inbox->is_open = false;
    empty(inbox);
    if (!inbox->awaits_sync)
        return;
    inbox->generation = MAX(inbox->generation, f->generation);
    inbox->awaits_sync = false;
    inbox->total = 0;
}

static void join(struct frame_inbox *inbox, const struct kernel_frame *f, const char *body)
{
    if (!inbox->is_open) {
        empty(inbox);
        inbox->open = *f;
    }
    if (!inbox->is_dropping && !budget_take(inbox->budget, inbox->body.len, f->length)) {
        empty(inbox);
        strbuf_release(&inbox->body);
        inbox->is_dropping = true;
    }
    if (!inbox->is_dropping)
        strbuf_add(&inbox->body, body, f->length);
    inbox->is_open = f->flags & KERNEL_MORE;
}

enum frame_answer frame_inbox_add(struct frame_inbox *inbox, const void *at, size_t len,
                                  size_t *used, struct frame_message *out, const char **why)
{
    struct kernel_frame f;
    *why = "a datagram without a frame";
    if (len < sizeof(f))
        return FRAME_BAD;
    memcpy(&f, at, sizeof(f));
    const char *body = (const char *)at + sizeof(f);
    *why = find_fault(inbox, &f, len - sizeof(f));
    if (*why)
        return FRAME_BAD;
    if (is_too_much(inbox, &f)) {
        *why = "more bytes than one request may answer";
        return FRAME_BAD;
    }
    *used = sizeof(f) + f.length;
    if (f.type == KERNEL_SYNCED)
        begin_again(inbox, &f);
    bool is_joined = inbox->is_open || f.flags & KERNEL_MORE;
    if (is_joined) {
        join(inbox, &f, body);
        if (inbox->body.overflow) {
            *why = "a message that is too long";
            return FRAME_BAD;
        }
        if (inbox->is_open)
            return FRAME_PART;
        f.flags = inbox->open.flags; /* those of the first frame count */
    }
    *out = (struct frame_message){
        .type = (enum kernel_frame_type)f.type,
        .flags = f.flags & ~(unsigned)KERNEL_MORE,
        .generation = f.generation,
        .body = is_joined ? strbuf_str(&inbox->body) : body,
        .len = is_joined ? inbox->body.len : f.length,
        .is_dropped = is_joined && inbox->is_dropping,
    };
    return FRAME_WHOLE;
}

void frame_inbox_forget(struct frame_inbox *inbox)
{
    if (inbox->is_open)
        return;
    empty(inbox);
    strbuf_release(&inbox->body);
}
