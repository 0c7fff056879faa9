/* pipes.c - fresh pipes, and a few in stock */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/scoped.h"

static void close_pair(const int fds[2])
{
    close(fds[0]);
    close(fds[1]);
}

/* A pipe belongs to who made it, which is nobody inside; but programs open /dev/stdout by name. */
int pipes_open(int fds[2], struct error *err)
{
    if (pipe2(fds, O_CLOEXEC) < 0)
        return error_sys(err, "make pipe");
    if (fchmod(fds[0], 0666) < 0) {
        error_sys(err, "share a pipe");
        close_pair(fds);
        return -1;
    }
    return 0;
}

/* Of a new pipe all flags are known. The end that goes inside shall wait, so this is not pipe2()'s
 * to set. */
int pipes_open_output(int fds[2], struct error *err)
{
    if (pipes_open(fds, err) < 0)
        return -1;
    if (fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0) {
        error_sys(err, "prepare a pipe");
        close_pair(fds);
        return -1;
    }
    return 0;
}

static int make(struct pipes_set *out, struct error *err)
{
    int input[2];
    if (pipes_open(input, err) < 0)
        return -1;
    close(input[1]);
    scoped_fd int end = input[0];
    if (pipes_open_output(out->outputs[0], err) < 0)
        return -1;
    if (pipes_open_output(out->outputs[1], err) < 0) {
        close_pair(out->outputs[0]);
        return -1;
    }
    out->input = take_fd(&end);
    return 0;
}

static void close_spent(struct pipes *pipes)
{
    while (pipes->spent_count > 0)
        close(pipes->spent[--pipes->spent_count]);
}

void pipes_release(struct pipes *pipes)
{
    struct pipes_set set;
    close_spent(pipes);
    while (pipes_take(pipes, &set)) {
        close(set.input);
        close_pair(set.outputs[0]);
        close_pair(set.outputs[1]);
    }
}

bool pipes_take(struct pipes *pipes, struct pipes_set *out)
{
    if (pipes->count == 0)
        return false;
    *out = pipes->sets[--pipes->count];
    return true;
}

void pipes_leave(struct pipes *pipes, int fd)
{
    if (pipes->spent_count == PIPES_SPENT)
        close_spent(pipes);
    pipes->spent[pipes->spent_count++] = fd;
}

void pipes_restock(struct pipes *pipes)
{
    struct error ignored;
    close_spent(pipes);
    if (pipes->count < PIPES_STOCK && make(&pipes->sets[pipes->count], &ignored) == 0)
        pipes->count++;
}
