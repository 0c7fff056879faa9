/* loop.c - what the spawner waits for, and in which order it looks at what came */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "spawner/spawner.h"

#define REMOVE_RETRY_MS 2
#define MEMWATCH_MS     10
#define LAST_WORDS_MAX  4096

static int next_timeout_ms(const struct spawner *s)
{
    int64_t wait = INT32_MAX, now = clock_now_ns(), due = serve_due_ns(&s->serve);
    if (s->is_stopping && !s->has_stopped)
        return 0; /* the client was found gone by the last answers of a turn */
    if (due < INT64_MAX && !s->is_stopping)
        wait = MIN(wait, MAX((due - now) / 1000000 + 1, 0));
    if (s->roster.deadline_ns != INT64_MAX)
        wait = MIN(wait, MAX((s->roster.deadline_ns - now) / 1000000 + 1, 0));
    if (s->starter.turns)
        wait = MIN(wait, STARTER_TURN_MS);
    if (log_writer_due_ns(&s->log_writer) < INT64_MAX)
        wait = MIN(wait, MAX((log_writer_due_ns(&s->log_writer) - now) / 1000000 + 1, 0));
    if (discard_wait_ms(&s->host.discard) >= 0)
        wait = MIN(wait, discard_wait_ms(&s->host.discard));
    for (const struct sandbox *sb = s->roster.busy; sb; sb = sb->next) {
        if (sb->state == SANDBOX_ENDING && sb->is_reaped && !sb->is_held)
            wait = MIN(wait, REMOVE_RETRY_MS);
        else if (sb->state == SANDBOX_LIVE && !sb->plan.has_memory_cgroup)
            wait = MIN(wait, MEMWATCH_MS);
        if (!sb->is_reaped && sb->state != SANDBOX_ENDING)
            wait = MIN(wait, MAX((sb->deadline_ns - now) / 1000000 + 1, 0));
        if (sandbox_waits_for_zygote(sb))
            wait = MIN(wait, MAX((sb->seal_deadline_ns - now) / 1000000 + 1, 0));
    }
    for (const struct zygote *z = s->zygotes; z; z = z->next) {
        if (spare_groups_due_ns(&z->shell->groups) < INT64_MAX)
            wait = MIN(wait, MAX((spare_groups_due_ns(&z->shell->groups) - now) / 1000000 + 1, 0));
        if (z->state != ZYGOTE_ENDING)
            wait = MIN(wait, MAX((z->deadline_ns - now) / 1000000 + 1, 0));
        else if (zygote_is_closing(z))
            wait = MIN(wait, REMOVE_RETRY_MS);
    }
    return wait == INT32_MAX ? -1 : (int)wait;
}

static void stop_all(struct spawner *s)
{
    s->has_stopped = true;
    roster_wake_all(&s->roster);
    for (struct sandbox *sb = s->roster.busy; sb; sb = sb->next) {
        if (sb->state != SANDBOX_ENDING)
            sandbox_end(sb);
    }
    for (struct zygote *z = s->zygotes; z; z = z->next) {
        if (z->state != ZYGOTE_ENDING)
            zygote_end(z);
    }
    for (const struct layer_seal *l = s->layer_seals; l; l = l->next)
        layer_seal_cancel(l);
}

/* Not while somebody waits for a sandbox: what a crash left has time until one runs. */
static void sweep_once(struct spawner *s)
{
    const struct roster *r = &s->roster;
    const struct sandbox *last = r->busy ? r->busy : r->resting;
    bool is_idle = last && last->state != SANDBOX_SEALING;
    if (s->has_swept || s->is_broken || (!is_idle && !s->is_stopping))
        return;
    s->has_swept = true;
    /* The one of a single run is not worth a look at every name. */
    bool is_single = last && r->busy_count + r->resting_count == 1;
    if (!is_single || !cgroup_tree_holds_one(&s->host.cgroups, last->tree))
        host_sweep(&s->host);
}

/* A client that we have started is asked to leave first: it may want to save something. */
static void begin_to_stop(struct spawner *s)
{
    if (!s->serve.is_on || !serve_ask_to_stop(&s->serve))
        s->is_stopping = true;
}

static void on_signal(struct spawner *s, int signal_fd)
{
    struct signalfd_siginfo drained;
    (void)!read(signal_fd, &drained, sizeof(drained));
    begin_to_stop(s);
}

/* Who started us is gone, however that came. What may have been written there is not read. */
static void on_lifeline(struct spawner *s)
{
    s->lifeline_fd = -1;
    begin_to_stop(s);
}

/* What it sent before its death counts: it may have begun what it had us keep. */
static void hear_last_words(struct spawner *s)
{
    struct pollfd p = {.fd = s->client_fd, .events = POLLIN};
    for (int i = 0; i < LAST_WORDS_MAX && s->client_fd >= 0 && poll(&p, 1, 0) > 0; i++)
        verbs_on_client(s);
}

/* Whether a client has labelled one, to find it again: only those are worth waiting for the next.
 */
static bool has_kept(const struct spawner *s)
{
    static const uint8_t none[SPAWN_LABEL_BYTES];
    const struct roster *r = &s->roster;
    for (const struct sandbox *sb = roster_first(r); sb; sb = roster_after(r, sb)) {
        if (memcmp(sb->keep.label, none, sizeof(none)) != 0)
            return true;
    }
    return false;
}

/* What stood in its way may pass, and sandboxes that are kept are worth waiting for that, but not
 * for longer than for a client. */
static void on_refusal(struct spawner *s)
{
    bool is_kept = has_kept(s);
    s->is_refused = !is_kept || serve_is_hopeless(&s->serve);
    if (s->is_refused && is_kept)
        log_words(&s->log, "cove-spawner: every client has refused to start for the whole grace "
                           "time, each with its reason: giving up, and removing their sandboxes");
}

/* Starts clients and mourns them. */
static void tend_client(struct spawner *s, bool has_news)
{
    if (has_news)
        hear_last_words(s);
    enum serve_news news = has_news ? serve_on_poll(&s->serve) : SERVE_NO_NEWS;
    if (news != SERVE_NO_NEWS)
        answer_lose_client(s, false);
    if (news == SERVE_HAS_REFUSED)
        on_refusal(s);
    if (news == SERVE_IS_OVER || s->is_refused)
        s->is_stopping = true;
    if (s->is_stopping)
        return;
    if (serve_on_time(&s->serve)) {
        log_words(&s->log, "cove-spawner: no client within the grace time");
        s->is_alone = s->is_stopping = true;
    } else {
        serve_start(&s->serve, &s->starter, &s->client_group, &s->client_fd);
    }
    if (s->serve.is_on && s->starter.is_gone) { /* waiting would only be waiting */
        log_words(&s->log, "cove-spawner: the process that starts clients was killed: no client "
                           "can follow");
        s->is_alone = s->is_stopping = true;
    }
}

/* Where each stands in the list of what is polled. */
enum {
    POLL_CLIENT,
    POLL_SIGNALS,
    POLL_SERVED,
    POLL_PROXY,
    POLL_RESTING,
    POLL_LIFELINE,
    POLL_DISCARD,
    POLL_LOG_WRITER,
    POLL_OTHERS
};

static size_t fill_polls(struct spawner *s, int signal_fd)
{
    size_t needed = POLL_OTHERS + s->apart_count + s->layer_seal_count +
                    s->zygote_count * ZYGOTE_POLLS + s->roster.busy_count;
    size_t n = POLL_OTHERS;
    if (s->poll_cap < needed) {
        s->poll_cap = 2 * needed;
        s->polls = xrealloc(s->polls, s->poll_cap * sizeof(*s->polls));
    }
    s->polls[POLL_CLIENT] =
        (struct pollfd){.fd = s->is_stopping ? -1 : s->client_fd, .events = POLLIN};
    s->polls[POLL_SIGNALS] = (struct pollfd){.fd = signal_fd, .events = POLLIN};
    s->polls[POLL_SERVED] = (struct pollfd){.fd = s->serve.pid_fd, .events = POLLIN};
    s->polls[POLL_PROXY] = (struct pollfd){.fd = s->proxy.pid_fd, .events = POLLIN};
    s->polls[POLL_RESTING] = (struct pollfd){.fd = s->roster.epoll_fd, .events = POLLIN};
    s->polls[POLL_LIFELINE] = (struct pollfd){.fd = s->lifeline_fd, .events = 0}; /* its end only */
    s->polls[POLL_DISCARD] = (struct pollfd){.fd = s->host.discard.pid_fd, .events = POLLIN};
    s->polls[POLL_LOG_WRITER] = (struct pollfd){.fd = s->log_writer.pid_fd, .events = POLLIN};
    for (const struct apart *a = s->aparts; a; a = a->next)
        s->polls[n++] = (struct pollfd){.fd = a->pid_fd, .events = POLLIN};
    for (const struct layer_seal *l = s->layer_seals; l; l = l->next)
        s->polls[n++] = (struct pollfd){.fd = l->pid_fd, .events = POLLIN};
    for (struct zygote *z = s->zygotes; z; z = z->next, n += ZYGOTE_POLLS)
        zygote_get_polls(z, &s->polls[n]);
    for (struct sandbox *sb = s->roster.busy; sb; sb = sb->next) {
        bool is_report;
        s->polls[n++] =
            (struct pollfd){.fd = sandbox_get_poll_fd(sb, &is_report), .events = POLLIN};
    }
    return n;
}

/* What was polled for, in the same order. Who comes to rest here leaves the list. */
static void serve_busy(struct spawner *s)
{
    size_t i = POLL_OTHERS;
    for (struct apart **at = &s->aparts; *at; i++) {
        if (s->polls[i].revents)
            news_on_apart(s, at);
        else
            at = &(*at)->next;
    }
    for (struct layer_seal **at = &s->layer_seals; *at; i++) {
        if (s->polls[i].revents)
            news_on_layer_seal(s, at);
        else
            at = &(*at)->next;
    }
    for (struct zygote *z = s->zygotes; z; z = z->next, i += ZYGOTE_POLLS)
        news_on_zygote(s, z, &s->polls[i]);
    for (struct sandbox *sb = s->roster.busy, *next; sb; sb = next, i++) {
        bool is_report;
        next = sb->next;
        if (!s->polls[i].revents || sandbox_get_poll_fd(sb, &is_report) < 0)
            continue;
        if (is_report)
            news_on_report(s, sb);
        else
            news_on_exit(s, sb);
    }
}

static void serve_resting(struct spawner *s)
{
    struct sandbox *ended[ROSTER_EXITS];
    size_t count = roster_exits(&s->roster, ended);
    for (size_t i = 0; i < count; i++)
        news_on_exit(s, ended[i]);
}

void loop_turn(struct spawner *s, int signal_fd)
{
    starter_on_turn(&s->starter);
    if (poll(s->polls, fill_polls(s, signal_fd), next_timeout_ms(s)) < 0 && errno != EINTR)
        s->is_stopping = true;
    serve_busy(s);
    if (s->polls[POLL_RESTING].revents)
        serve_resting(s);
    news_check_deadlines(s);
    if (s->polls[POLL_CLIENT].revents && s->client_fd >= 0)
        verbs_on_client(s);
    if (s->polls[POLL_SIGNALS].revents)
        on_signal(s, signal_fd);
    if (s->polls[POLL_LIFELINE].revents)
        on_lifeline(s);
    if (s->polls[POLL_PROXY].revents)
        proxy_on_poll(&s->proxy);
    tend_client(s, s->polls[POLL_SERVED].revents);
    if (s->is_stopping)
        stop_all(s);
    roster_remove_ended(&s->roster, &s->host, news_on_gone, s);
    news_tend_zygotes(s);
    sweep_once(s);
    if (s->polls[POLL_DISCARD].revents)
        discard_on_poll(&s->host.discard);
    discard_begin(&s->host.discard);
    if (s->polls[POLL_LOG_WRITER].revents)
        log_writer_on_poll(&s->log_writer);
    log_writer_on_time(&s->log_writer);
    log_tell_loss(&s->log);
}
