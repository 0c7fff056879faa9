/* news.c - what sandboxes, zygotes and helpers do by themselves, and what is due for them */
/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "box/memwatch.h"
#include "spawner/spawner.h"

static bool is_known(const struct spawner *s, pid_t pid)
{
    if (pid == s->serve.pid || pid == s->starter.pid || pid == s->proxy.pid ||
        pid == s->host.discard.pid || roster_has_pid(&s->roster, pid))
        return true;
    for (const struct zygote *z = s->zygotes; z; z = z->next) {
        if (z->process.pid == pid || z->shell->child.pid == pid)
            return true;
    }
    for (const struct apart *a = s->aparts; a; a = a->next) {
        if (a->pid == pid)
            return true;
    }
    for (const struct layer_seal *l = s->layer_seals; l; l = l->next) {
        if (l->pid == pid)
            return true;
    }
    return false;
}

/* A process that a zygote has made is our child. If it was killed before its first word, by the
 * lack of memory perhaps, nobody knows of it; but it would keep its pid namespace from ending. At
 * our own end there is nothing to wait for: one may have been stopped before it had a group. */
static void reap_strangers(const struct spawner *s)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
    FILE *list = fopen(path, "re");
    siginfo_t info;
    for (int pid; list && fscanf(list, "%d", &pid) == 1;) {
        if (is_known(s, pid))
            continue;
        if (s->is_stopping)
            kill(pid, SIGKILL);
        waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG);
    }
    if (list)
        fclose(list);
}

void news_on_report(struct spawner *s, struct sandbox *sb)
{
    struct spawn_message m = {.verb = SPAWN_SEALED, .sandbox = sb->id};
    if (sandbox_on_report(sb, &s->host.discard, &m.failure) < 0) {
        m.flags = SPAWN_FAILED;
        answer_send(s, &m, NULL, 0);
        sandbox_kill(sb);
    } else if (sb->state == SANDBOX_LIVE) {
        sandbox_set_baseline(sb);
        m.sealed = sandbox_sealed(sb);
        answer_send(s, &m, NULL, 0);
    }
    roster_update(&s->roster, sb);
}

void news_on_exit(struct spawner *s, struct sandbox *sb)
{
    sandbox_on_exit(sb);
    if (sb->state == SANDBOX_OVER) {
        struct spawn_message m = {.verb = SPAWN_EXITED, .sandbox = sb->id};
        m.stats = sb->last;
        answer_send(s, &m, NULL, 0);
    }
    roster_update(&s->roster, sb);
}

static void tell_failure(struct spawner *s, uint64_t id, const struct spawn_failure *failure)
{
    struct spawn_message m = {.verb = SPAWN_SEALED, .flags = SPAWN_FAILED, .sandbox = id};
    m.failure = *failure;
    answer_send(s, &m, NULL, 0);
}

static void tell_zygote_end(struct spawner *s, const struct zygote *z)
{
    struct spawn_message m = {.verb = SPAWN_EXITED, .sandbox = z->id};
    m.stats.is_over = 1;
    answer_send(s, &m, NULL, 0);
}

void news_on_zygote(struct spawner *s, struct zygote *z, const struct pollfd *polls)
{
    struct spawn_failure failure;
    struct spawn_message m = {.verb = SPAWN_SEALED, .sandbox = z->id};
    switch (zygote_on_poll(z, &s->host, polls, &failure)) {
    case ZYGOTE_NO_NEWS:
        break;
    case ZYGOTE_IS_READY:
        m.sealed =
            (struct spawn_sealed){.layers = z->shell->layers, .host_uid = z->shell->plan.uid};
        answer_send(s, &m, NULL, 0);
        break;
    case ZYGOTE_FAILED:
        tell_failure(s, z->id, &failure);
        break;
    case ZYGOTE_EXITED:
        tell_zygote_end(s, z);
        break;
    }
}

/* A helper has ended; its slot in the list is *at. */
void news_on_apart(struct spawner *s, struct apart **at)
{
    struct apart *a = *at;
    struct spawn_failure failure;
    struct spawn_message m = answer_reply_to(a->serial, SPAWN_APART, a->sandbox);
    *at = a->next;
    s->apart_count--;
    bool is_apart = apart_finish(a, &s->roster, &failure) == 0;
    if (m.serial == 0)
        return; /* who asked is gone */
    if (is_apart)
        answer_send(s, &m, NULL, 0);
    else
        answer_failure(s, m.serial, SPAWN_APART, &failure);
}

void news_on_layer_seal(struct spawner *s, struct layer_seal **at)
{
    struct layer_seal *seal = *at;
    struct spawn_failure failure;
    struct spawn_message m = answer_reply_to(seal->serial, SPAWN_SEAL_LAYER, seal->sandbox);
    *at = seal->next;
    s->layer_seal_count--;
    bool is_sealed = layer_seal_finish(seal, &s->host.layers, &failure) == 0;
    if (m.serial && is_sealed)
        answer_send(s, &m, NULL, 0);
    else if (m.serial)
        answer_failure(s, m.serial, SPAWN_SEAL_LAYER, &failure);
}

void news_on_gone(void *ctx, uint64_t id, uint32_t serial, const struct spawn_stats *last)
{
    struct spawn_message m = answer_reply_to(serial, SPAWN_DESTROY, id);
    m.stats = *last;
    if (serial)
        answer_send(ctx, &m, NULL, 0);
}

/* What is due for each: its end, or another spare sandbox. */
void news_tend_zygotes(struct spawner *s)
{
    int64_t now = clock_now_ns();
    for (struct zygote **at = &s->zygotes; *at;) {
        struct zygote *z = *at, *next = z->next;
        if (z->state == ZYGOTE_ENDING)
            verbs_end_spare(s, zygote_take_spare(z));
        if (zygote_is_closing(z) || s->is_stopping)
            reap_strangers(s);
        if (z->destroy_serial && z->is_reaped) {
            struct spawn_message m = answer_reply_to(z->destroy_serial, SPAWN_DESTROY, z->id);
            m.stats.is_over = 1;
            answer_send(s, &m, NULL, 0);
            z->destroy_serial = 0;
        }
        if (zygote_try_remove(z, &s->host)) {
            *at = next;
            s->zygote_count--;
            continue;
        }
        zygote_refill(z, &s->host);
        sandbox_expire_groups(z->shell, &s->host, now);
        at = &z->next;
    }
}

static void check_zygotes(struct spawner *s, int64_t now)
{
    static const struct spawn_failure late = {
        .code = ERROR_UNAVAILABLE, .layer = -1, .step = "the zygote was not ready in time"};
    for (struct zygote *z = s->zygotes; z; z = z->next) {
        if (z->state == ZYGOTE_ENDING || now < z->deadline_ns)
            continue;
        if (z->state == ZYGOTE_READY)
            tell_zygote_end(s, z);
        else
            tell_failure(s, z->id, &late);
        zygote_end(z);
    }
}

/* A zygote that does not answer is ended; what waits for it fails with it. */
static void end_stuck(struct spawner *s, struct sandbox *sb)
{
    for (struct zygote *z = s->zygotes; z; z = z->next) {
        if (z->shell == sb->shell && z->state == ZYGOTE_READY) {
            tell_zygote_end(s, z);
            zygote_end(z);
        }
    }
    sb->is_late = true;
    sandbox_kill(sb);
}

static void end_life(struct sandbox *sb)
{
    sb->lifetime_over = true;
    sandbox_kill(sb);
}

void news_check_deadlines(struct spawner *s)
{
    int64_t now = clock_now_ns();
    check_zygotes(s, now);
    roster_check_deadlines(&s->roster, now, end_life);
    for (struct sandbox *sb = s->roster.busy; sb; sb = sb->next) {
        if (sandbox_waits_for_zygote(sb) && now >= sb->seal_deadline_ns)
            end_stuck(s, sb);
        if (sb->is_reaped || sb->state == SANDBOX_ENDING)
            continue;
        if (now >= sb->deadline_ns)
            end_life(sb);
        if (!sb->plan.has_memory_cgroup && sb->state == SANDBOX_LIVE) {
            uint64_t bytes =
                memwatch_sum(sb->child.pid, sb->root.storage_fd, sb->plan.limits.memory_bytes);
            sb->memory_seen_bytes = MAX(sb->memory_seen_bytes, bytes);
            if (bytes > sb->plan.limits.memory_bytes) {
                sb->killed_for_memory = true;
                sandbox_kill(sb);
            }
        }
    }
}
