/* answer.c - what is said to the client, and what when nobody listens */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "base/scoped.h"
#include "spawner/spawner.h"

/* Standard error is that of our client. Whoever reads it to its end should not have to wait for
 * what is left to be removed. (Sanitizers have something to say at the end.) */
static void leave_stderr(void)
{
#ifndef __SANITIZE_ADDRESS__
    if (dup2(STDOUT_FILENO, STDERR_FILENO) < 0) /* which is /dev/null */
        return;
#endif
}

/* Without another to come, its sandboxes end with it. The next one has serials of its own. */
void answer_lose_client(struct spawner *s, bool must_die)
{
    if (!s->serve.is_on) {
        s->is_stopping = true;
        leave_stderr();
        return;
    }
    serve_on_lost(&s->serve, must_die);
    discard_add(&s->host.discard, &s->client_fd);
    s->phase = PHASE_NEW;
    for (struct sandbox *sb = s->roster.busy; sb; sb = sb->next)
        sb->destroy_serial = 0;
    for (struct sandbox *sb = s->roster.resting; sb; sb = sb->next)
        sb->destroy_serial = 0;
    for (struct zygote *z = s->zygotes; z; z = z->next)
        z->destroy_serial = 0;
    for (struct apart *a = s->aparts; a; a = a->next)
        a->serial = 0;
    for (struct layer_seal *l = s->layer_seals; l; l = l->next)
        l->serial = 0;
}

void answer_send(struct spawner *s, struct spawn_message *m, const int *fds, size_t fd_count)
{
    if (s->client_fd < 0 || fd_send(s->client_fd, m, sizeof(*m), fds, fd_count) == 0)
        return;
    /* One that will have a successor may be gone, but what it asked for last is still to be done;
     * behind that its end is read. Only one that does not read any more is lost here. */
    if (!s->serve.is_on || errno == EAGAIN)
        answer_lose_client(s, true);
}

struct spawn_message answer_reply_to(uint32_t serial, enum spawn_verb verb, uint64_t sandbox)
{
    return (struct spawn_message){
        .serial = serial, .verb = verb, .flags = SPAWN_REPLY, .sandbox = sandbox};
}

void answer_failure(struct spawner *s, uint32_t serial, enum spawn_verb verb,
                    const struct spawn_failure *failure)
{
    struct spawn_message m = answer_reply_to(serial, verb, 0);
    m.flags |= SPAWN_FAILED;
    m.failure = *failure;
    answer_send(s, &m, NULL, 0);
}
