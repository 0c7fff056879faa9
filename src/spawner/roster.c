/* roster.c - two lists, a table by id, and an epoll set of pidfds
 *
 * A pidfd is in the set exactly while its sandbox is at rest and not reaped. It is taken out before
 * it is closed: a child that we have just cloned still holds copies of all our descriptors, and
 * with them the kernel would keep telling of one that is no more. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/roster.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "base/scoped.h"

#define KILL_AGAIN_NS (100 * 1000000ll)

void roster_init(struct roster *r)
{
    *r = (struct roster){.epoll_fd = epoll_create1(EPOLL_CLOEXEC), .deadline_ns = INT64_MAX};
}

void roster_release(struct roster *r)
{
    scoped_close_fd(&r->epoll_fd);
    r->epoll_fd = -1;
}

/* --- by id ----------------------------------------------------------------------------------- */

static struct sandbox **bucket_of(struct roster *r, uint64_t id)
{
    return &r->by_id[id % ROSTER_BUCKETS];
}

struct sandbox *roster_find(const struct roster *r, uint64_t id)
{
    struct sandbox *sb = r->by_id[id % ROSTER_BUCKETS];
    while (sb && sb->id != id)
        sb = sb->next_by_id;
    return sb && sb->state != SANDBOX_ENDING ? sb : NULL;
}

static void forget_id(struct roster *r, struct sandbox *sb)
{
    struct sandbox **at = bucket_of(r, sb->id);
    while (*at && *at != sb)
        at = &(*at)->next_by_id;
    if (*at)
        *at = sb->next_by_id;
}

static bool holds_pid(const struct sandbox *list, pid_t pid)
{
    while (list && list->child.pid != pid)
        list = list->next;
    return list;
}

static void find_lower(const struct sandbox *list, uint64_t after, const struct sandbox **best)
{
    for (const struct sandbox *sb = list; sb; sb = sb->next) {
        if (sb->id > after && (!*best || sb->id < (*best)->id) && sb->state != SANDBOX_ENDING)
            *best = sb;
    }
}

const struct sandbox *roster_next(const struct roster *roster, uint64_t after)
{
    const struct sandbox *best = NULL;
    find_lower(roster->busy, after, &best);
    find_lower(roster->resting, after, &best);
    return best;
}

struct sandbox *roster_first(const struct roster *roster)
{
    return roster->busy ? roster->busy : roster->resting;
}

struct sandbox *roster_after(const struct roster *roster, const struct sandbox *sb)
{
    return sb->next || sb->is_resting ? sb->next : roster->resting;
}

bool roster_has_pid(const struct roster *r, pid_t pid)
{
    return holds_pid(r->busy, pid) || holds_pid(r->resting, pid);
}

/* --- resting --------------------------------------------------------------------------------- */

static bool watch(struct roster *r, struct sandbox *sb)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = sb}};
    sb->is_watched = epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, sb->child.pid_fd, &event) == 0;
    return sb->is_watched;
}

static void unwatch(struct roster *r, struct sandbox *sb)
{
    if (sb->is_watched)
        epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, sb->child.pid_fd, NULL);
    sb->is_watched = false;
}

/* Nothing is to be done about it before its pid 1 ends, or the client says so. */
static bool may_rest(const struct sandbox *sb)
{
    if (sb->child.pid == 0)
        return false;
    switch (sb->state) {
    case SANDBOX_SEALING:
        return false;
    case SANDBOX_LIVE:
        return sb->plan.has_memory_cgroup; /* else its memory is watched */
    case SANDBOX_OVER:
        return true;
    case SANDBOX_ENDING:
        return !sb->is_reaped;
    }
    return false;
}

static void add_busy(struct roster *r, struct sandbox *sb)
{
    sb->next = r->busy;
    r->busy = sb;
    r->busy_count++;
}

static void leave_busy(struct roster *r, struct sandbox *sb)
{
    struct sandbox **at = &r->busy;
    while (*at != sb)
        at = &(*at)->next;
    *at = sb->next;
    r->busy_count--;
}

static void rest(struct roster *r, struct sandbox *sb)
{
    if (!sb->is_reaped && !watch(r, sb))
        return; /* it stays where it is polled for */
    leave_busy(r, sb);
    sb->is_resting = true;
    sb->back = &r->resting;
    sb->next = r->resting;
    if (sb->next)
        sb->next->back = &sb->next;
    r->resting = sb;
    r->resting_count++;
    r->deadline_ns = MIN(r->deadline_ns, sb->deadline_ns);
}

static void wake(struct roster *r, struct sandbox *sb)
{
    unwatch(r, sb);
    sb->is_resting = false;
    *sb->back = sb->next;
    if (sb->next)
        sb->next->back = sb->back;
    r->resting_count--;
    add_busy(r, sb);
}

void roster_add(struct roster *r, struct sandbox *sb)
{
    struct sandbox **bucket = bucket_of(r, sb->id);
    sb->next_by_id = *bucket;
    *bucket = sb;
    add_busy(r, sb);
    roster_update(r, sb);
}

void roster_update(struct roster *r, struct sandbox *sb)
{
    bool should_rest = may_rest(sb);
    if (sb->is_resting && sb->is_reaped)
        unwatch(r, sb);
    if (should_rest && !sb->is_resting)
        rest(r, sb);
    else if (!should_rest && sb->is_resting)
        wake(r, sb);
}

void roster_wake_all(struct roster *r)
{
    while (r->resting)
        wake(r, r->resting);
}

/* --- in every turn --------------------------------------------------------------------------- */

size_t roster_exits(struct roster *r, struct sandbox *out[ROSTER_EXITS])
{
    struct epoll_event events[ROSTER_EXITS];
    int n = r->epoll_fd < 0 ? 0 : epoll_wait(r->epoll_fd, events, ROSTER_EXITS, 0);
    for (int i = 0; i < n; i++)
        out[i] = events[i].data.ptr;
    return n < 0 ? 0 : (size_t)n;
}

void roster_check_deadlines(struct roster *r, int64_t now, void (*over)(struct sandbox *sb))
{
    if (now < r->deadline_ns)
        return;
    r->deadline_ns = INT64_MAX;
    for (struct sandbox *sb = r->resting; sb; sb = sb->next) {
        if (sb->is_reaped || sb->state == SANDBOX_ENDING)
            continue;
        if (now >= sb->deadline_ns)
            over(sb);
        r->deadline_ns = MIN(r->deadline_ns, MAX(sb->deadline_ns, now + KILL_AGAIN_NS));
    }
}

static bool is_needed(const struct roster *r, const struct sandbox *sb)
{
    for (const struct sandbox *k = roster_first(r); sb->brood && k; k = roster_after(r, k)) {
        if (k->brood == sb->brood && !k->is_reaped)
            return true;
    }
    return false;
}

void roster_remove_ended(struct roster *r, struct host *host,
                         void (*gone)(void *ctx, uint64_t id, uint32_t serial,
                                      const struct spawn_stats *last),
                         void *ctx)
{
    for (struct sandbox **at = &r->busy; *at;) {
        struct sandbox *sb = *at, *next = sb->next;
        const uint64_t id = sb->id;
        const uint32_t serial = sb->destroy_serial;
        const struct spawn_stats last = sb->last;
        bool is_ended = sb->state == SANDBOX_ENDING && sb->is_reaped;
        if (is_ended)
            forget_id(r, sb); /* nobody finds one that ends, anyway */
        bool was_held = sb->is_held;
        sb->is_held = is_ended && is_needed(r, sb);
        if (sb->is_held && !was_held) {
            sandbox_empty(sb, host);
            sb->destroy_serial = 0; /* told now, and not once more */
            gone(ctx, id, serial, &last);
        }
        if (sb->is_held) {
            at = &sb->next;
            continue;
        }
        if (is_ended && sandbox_try_remove(sb, host)) {
            *at = next;
            r->busy_count--;
            gone(ctx, id, serial, &last);
        } else {
            at = &sb->next;
        }
    }
}
