/* test_builder.c - one build for all who want the same; nobody's leaving, and no failure, is for
 * good */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/builder.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"
#include "core/run.h"

/* --- a world without sandboxes --------------------------------------------------------------- */

#define RUNS_MAX 16

struct run {
    const struct run_request *request;
    const struct execution_events *events;
    void *ctx;
};

static struct run runs[RUNS_MAX];
static size_t run_count, asked, freed;
static struct {
    spawner_reply_fn reply;
    void *ctx;
} questions[RUNS_MAX];

int __wrap_run_begin(struct run **out, struct loop *loop, struct spawner_client *spawner,
                     const struct run_request *request, const struct execution_events *events,
                     void *ctx, struct error *err);
int __wrap_run_begin(struct run **out, struct loop *loop, struct spawner_client *spawner,
                     const struct run_request *request, const struct execution_events *events,
                     void *ctx, struct error *err)
{
    (void)loop, (void)spawner, (void)err;
    assert_true(run_count < RUNS_MAX);
    runs[run_count] = (struct run){.request = request, .events = events, .ctx = ctx};
    close(request->stdin_fd);
    *out = &runs[run_count++];
    return 0;
}

void __wrap_run_free(struct run *run);
void __wrap_run_free(struct run *run)
{
    freed += run != NULL;
}

void __wrap_run_on_event(struct run *run, const struct spawn_message *m);
void __wrap_run_on_event(struct run *run, const struct spawn_message *m)
{
    (void)run, (void)m;
}

void __wrap_spawner_client_ask(struct spawner_client *client, struct spawn_message *m,
                               spawner_reply_fn reply, void *ctx);
void __wrap_spawner_client_ask(struct spawner_client *client, struct spawn_message *m,
                               spawner_reply_fn reply, void *ctx)
{
    (void)client;
    assert_int_equal(m->verb, SPAWN_FIND_LAYER);
    questions[asked].reply = reply;
    questions[asked++].ctx = ctx;
}

static void answer(size_t question, bool is_there)
{
    const struct spawn_message m = {.verb = SPAWN_FIND_LAYER};
    struct error err;
    error_set(&err, ERROR_NOT_FOUND, "none");
    questions[question].reply(questions[question].ctx, is_there ? &m : NULL, NULL,
                              is_there ? NULL : &err);
}

static void end_run(size_t run, enum reason_kind kind, const char *words)
{
    struct execution e = {.verdict = {.kind = kind}};
    output_init(&e.out, 65536);
    output_init(&e.err, 65536);
    output_add(&e.err, words, strlen(words));
    runs[run].events->ended(runs[run].ctx, &e);
    output_release(&e.out);
    output_release(&e.err);
}

/* --- who waits ------------------------------------------------------------------------------- */

struct told {
    unsigned times;
    struct error err; /* msg "": it went well */
};

static void on_told(void *ctx, const struct error *err)
{
    struct told *told = ctx;
    told->times++;
    if (err)
        told->err = *err;
}

static char *folder;
static struct packages_source source;

static struct builder *open_builder(void)
{
    struct builder *b;
    run_count = asked = freed = 0;
    folder = check_temp_dir();
    check_put_file(folder, "install.py", "pass");
    check_put_file(folder, "pip.whl", "wheel");
    source = (struct packages_source){.recipes_dir = folder, .installers_dir = folder};
    const struct builder_order order = {
        .source = &source, .timeout_ms = 1000, .network = {.most = NETWORK_PACKAGES}};
    struct error err;
    assert_int_equal(builder_open(&b, &order, &err), 0);
    return b;
}

static void close_builder(struct builder *b)
{
    builder_free(b);
    check_remove_dir(folder);
}

static struct builder_waiter *need(struct builder *b, uint8_t digest, struct told *told)
{
    static char *requirements[] = {(char *)"humanize"},
                *command[] = {(char *)"/usr/bin/python3", NULL},
                *tools[] = {(char *)"uv", (char *)"pip.whl", NULL};
    scoped_free char *text = xasprintf("%s/install.py", folder);
    const struct packages packages = {.set = {requirements, 1},
                                      .installer = {.command = {command, 1},
                                                    .tools = {tools, 2},
                                                    .text = text,
                                                    .name = (char *)"install.py"},
                                      .language = (char *)"python",
                                      .digest = {digest}};
    return builder_need(b, &packages, on_told, told);
}

static void test_found(void **state)
{
    (void)state;
    struct builder *b = open_builder();
    struct told told = {0};
    need(b, 1, &told);
    assert_int_equal(told.times, 0);
    answer(0, true);
    assert_int_equal(told.times, 1);
    assert_string_equal(told.err.msg, "");
    assert_int_equal(run_count, 0);
    close_builder(b);
}

static void test_once(void **state)
{
    (void)state;
    struct builder *b = open_builder();
    struct told a = {0}, c = {0}, d = {0}, other = {0};
    need(b, 1, &a);
    struct builder_waiter *leaver = need(b, 1, &c);
    answer(0, false);
    need(b, 1, &d); /* while it runs */
    assert_int_equal(asked, 1);
    assert_int_equal(run_count, 1);
    assert_int_equal(runs[0].request->layer->digest[0], 1);
    const struct run_request *request = runs[0].request; /* its program, the first tool there is */
    assert_string_equal(request->inputs[0].path, ".cove/install.py");
    assert_string_equal(request->inputs[request->input_count - 1].path, ".cove/pip.whl");
    need(b, 2, &other);
    answer(1, false);
    assert_int_equal(run_count, 2);
    builder_forget(leaver);
    end_run(0, REASON_NONE, "");
    assert_int_equal(a.times, 1);
    assert_int_equal(c.times, 0); /* and the build went on without him */
    assert_int_equal(d.times, 1);
    assert_int_equal(other.times, 0);
    assert_int_equal(freed, 1);
    close_builder(b);
}

static void test_again(void **state)
{
    (void)state;
    struct builder *b = open_builder();
    struct told first = {0}, second = {0};
    need(b, 1, &first);
    answer(0, false);
    end_run(0, REASON_EXIT, "ERROR: no \x1b[31msuch\x1b[0m package\n");
    assert_int_equal(first.times, 1);
    assert_int_equal(first.err.code, ERROR_INVALID);
    assert_string_equal(first.err.word, "install_failed");
    assert_non_null(strstr(first.err.msg, "such"));
    assert_null(strchr(first.err.msg, '\x1b'));
    need(b, 1, &second);
    assert_int_equal(asked, 2);
    answer(1, false);
    end_run(1, REASON_NONE, "");
    assert_string_equal(second.err.msg, "");
    assert_int_equal(second.times, 1);
    close_builder(b);
}

static void test_words(void **state)
{
    (void)state;
    struct builder *b = open_builder();
    struct told told = {0};
    char *many = xcalloc(1, 60001);
    for (size_t i = 0; i < 60000; i++)
        many[i] = i % 50 == 49 ? '\n' : 'x';
    memcpy(many + 59990, "the last", 8);
    need(b, 1, &told);
    answer(0, false);
    end_run(0, REASON_TIMEOUT, many);
    free(many);
    assert_string_equal(told.err.word, "install_timeout");
    assert_int_equal(told.err.code, ERROR_TIMEOUT);
    assert_non_null(strstr(told.err.msg, "the last"));
    assert_true(strlen(told.err.msg) < sizeof(told.err.msg) - 1);
    close_builder(b);
}

/* An installer that cleans up behind itself has room again; only its words tell. */
static void test_no_space(void **state)
{
    (void)state;
    struct builder *b = open_builder();
    struct told told = {0};
    char *many = xcalloc(1, 2001);
    memset(many, 'x', 2000);
    memcpy(many, "OSError: [Errno 28] No space left on device\n", 44);
    need(b, 1, &told);
    answer(0, false);
    end_run(0, REASON_EXIT, many);
    free(many);
    assert_string_equal(told.err.word, "install_too_large");
    assert_int_equal(told.err.code, ERROR_TOO_LARGE);
    close_builder(b);
}

static void test_refused(void **state)
{
    (void)state;
    struct builder *b = open_builder();
    struct told told = {0};
    need(b, 1, &told);
    answer(0, false);
    struct execution e = {.verdict = {.kind = REASON_INFRASTRUCTURE}};
    error_set(&e.error, ERROR_DENIED, "the packages have a link that leads out of them");
    runs[0].events->ended(runs[0].ctx, &e);
    assert_string_equal(told.err.word, "install_refused");
    assert_string_equal(told.err.msg, e.error.msg);
    close_builder(b);
}

static void test_queue(void **state)
{
    (void)state;
    struct builder *b = open_builder();
    struct told told[6] = {{0}};
    for (size_t i = 0; i < 6; i++) {
        need(b, (uint8_t)(i + 1), &told[i]);
        answer(i, false);
    }
    assert_int_equal(run_count, 4); /* at a time */
    end_run(2, REASON_EXIT, "");
    assert_int_equal(run_count, 5);
    assert_int_equal(runs[4].request->layer->digest[0], 5); /* who came first */
    end_run(4, REASON_NONE, "");
    assert_int_equal(run_count, 6);
    close_builder(b);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "one that is there is not built", test_found);
    check_one(&check, "those who want the same wait for one build", test_once);
    check_one(&check, "a failure is told in the installer's words, and tried again", test_again);
    check_one(&check, "of many words the last ones are kept", test_words);
    check_one(&check, "a full disk is told by its words", test_no_space);
    check_one(&check, "what the seal refused is told", test_refused);
    check_one(&check, "four build at a time", test_queue);
    return check_run(&check, "builder");
}
