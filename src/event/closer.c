/* closer.c - a list of descriptors, and threads that take from it
 *
 * A thread that has nothing to do for a while ends, so an idle server has none. One that stands in
 * a close ends with the process, for which no close waits. The threads use nothing but the list. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "event/closer.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"

#define PATIENCE_S  2 /* for the next descriptor */
#define STACK_BYTES (256 * 1024)

struct closer {
    pthread_mutex_t lock; /* of all the rest */
    pthread_cond_t added;
    int *fds;
    size_t count, cap;
    unsigned threads, idle;
    bool is_over; /* the last thread frees it */
};

/* Called with the lock, which goes with it. */
static void free_if_last(struct closer *c)
{
    bool is_last = c->is_over && c->threads == 0;
    pthread_mutex_unlock(&c->lock);
    if (!is_last)
        return;
    pthread_cond_destroy(&c->added);
    pthread_mutex_destroy(&c->lock);
    free(c->fds);
    free(c);
}

/* Called with the lock. False: nothing came for a while, or nothing will. */
static bool wait_for_one(struct closer *c)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PATIENCE_S;
    int status = 0;
    c->idle++;
    while (c->count == 0 && !c->is_over && status == 0)
        status = pthread_cond_timedwait(&c->added, &c->lock, &until);
    c->idle--;
    return c->count > 0;
}

static void *serve(void *closer)
{
    struct closer *c = closer;
    pthread_mutex_lock(&c->lock);
    while (wait_for_one(c)) {
        int fd = c->fds[--c->count];
        pthread_mutex_unlock(&c->lock);
        close(fd);
        pthread_mutex_lock(&c->lock);
    }
    c->threads--;
    free_if_last(c);
    return NULL;
}

/* Called with the lock. Signals are for the loop. One that cannot be had is tried with the next
 * descriptor again. */
static void add_thread(struct closer *c)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, &attributes, serve, c) == 0)
        c->threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

struct closer *closer_new(void)
{
    struct closer *c = xcalloc(1, sizeof(*c));
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->added, &attributes);
    pthread_condattr_destroy(&attributes);
    return c;
}

void closer_free(struct closer *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->is_over = true;
    pthread_cond_broadcast(&c->added);
    free_if_last(c);
}

void closer_add(struct closer *c, int fd)
{
    pthread_mutex_lock(&c->lock);
    if (c->count == c->cap) {
        c->cap = c->cap ? 2 * c->cap : 64;
        c->fds = xrealloc(c->fds, c->cap * sizeof(*c->fds));
    }
    c->fds[c->count++] = fd;
    if (c->idle > 0)
        pthread_cond_signal(&c->added);
    if (c->count > c->idle && c->threads < CLOSER_THREADS_MAX)
        add_thread(c);
    pthread_mutex_unlock(&c->lock);
}
