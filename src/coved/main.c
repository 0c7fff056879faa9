/* main.c - coved: everything that parses what strangers send, with no power over the host
 *
 * Started by cove-spawner, which `cove serve` becomes: over fd 3 it asks for sandboxes, in its
 * environment it finds its options. Status 0 ends everything; any other, and it is started again,
 * and goes on with the sandboxes that are there. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "codec/json.h"
#include "coved/coved.h"
#include "coved/greet.h"

#define LARGE_BYTES (1 << 20) /* a block that is given back as soon as it is free */

/* Left to itself, the allocator raises both bounds with every large block that it meets, to 32 MiB
 * for each thread: the server would stay as large as its worst minute. upkeep.c sees to the rest.
 */
static void bound_heap(void)
{
    mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
    mallopt(M_TRIM_THRESHOLD, LARGE_BYTES);
}

static int load(struct coved *c, int argc, char **argv, struct error *err)
{
    struct option_set *const sets[] = {&c->options};
    int count = argc > 0 ? argc - 1 : 0;
    if (option_apply_flags(sets, 1, &count, argv + 1, false, err) < 0 ||
        config_load_given(&c->config, &c->options, err) < 0)
        return -1;
    if (count > 0)
        return error_set(err, ERROR_INVALID, "coved takes no arguments");
    c->log.level = c->config.log_level;
    return 0;
}

int main(int argc, char **argv)
{
    struct coved c = {.log = {.fd = 2, .level = LOG_LEVEL_INFO},
                      .trust_fd = -1,
                      .listen_fd = -1,
                      .started_ns = clock_now_ns()};
    struct error err;
    c.log.loss = &c.log_loss;
    c.is_log_terminal = getenv("COVE_LOG_TERMINAL") != NULL;
    bound_heap();
    signal(SIGPIPE, SIG_IGN);
    json_set_alloc_funcs(xmalloc, free);
    option_set_init(&c.options, config_options, config_option_count, &c.config);
    if (load(&c, argc, argv, &err) < 0) {
        greet_failure(&c, &err);
        c.status = SPAWN_REFUSAL;
    } else if (start_begin(&c) == 0) {
        loop_run(c.loop);
    }
    stop_release(&c);
    option_set_release(&c.options);
    return c.status;
}
