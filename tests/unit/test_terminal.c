/* test_terminal.c - the host's end of a terminal, with its keeper played by the test */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "world.h"

#define LOG_MAX (4 * MIB)

/* A session with one terminal, and all that was told of it. */
struct desk {
    struct world w;
    struct terminal *terminal;
    struct error error; /* of the last that was refused */
    int keeper;         /* its end of the channel */
    struct strbuf told;
    const char *close_at; /* the event at which its owner closes it */
    char strings[4096];   /* of the request, with a line end for each NUL */
    int value;
};

static struct message {
    struct terminal_frame frame;
    char bytes[TERMINAL_BYTES_MAX + 1];
} message;

static void tell(struct desk *d, const char *event, const void *data, size_t len)
{
    strbuf_add_str(&d->told, event);
    strbuf_add(&d->told, data, len);
    strbuf_add_str(&d->told, ";");
    if (d->close_at && strcmp(d->close_at, event) == 0)
        terminal_close(take_ptr(&d->terminal));
}

static void on_started(void *ctx)
{
    tell(ctx, "started", "", 0);
}

static void on_output(void *ctx, const void *data, size_t len)
{
    tell(ctx, "output ", data, len);
}

static void on_drained(void *ctx)
{
    tell(ctx, "drained", "", 0);
}

static void on_ended(void *ctx, const struct terminal_end *end)
{
    struct desk *d = ctx;
    char text[600];
    int len = snprintf(text, sizeof(text), "%d %d %s", end->exit_code, end->signal, end->error.msg);
    d->terminal = NULL;
    tell(d, "ended ", text, (size_t)len);
}

static const struct terminal_events events = {
    .started = on_started, .output = on_output, .drained = on_drained, .ended = on_ended};

static int try_open(struct desk *d, uint64_t idle_ms)
{
    static char own[] = "PATH=/mine", term[] = "TERM=theirs", *const env[] = {own, term, NULL};
    const struct terminal_order order = {.kind = "vt100",
                                         .columns = 80,
                                         .rows = 24,
                                         .env = env,
                                         .idle_ms = idle_ms,
                                         .events = &events,
                                         .ctx = d};
    return terminal_open(&d->terminal, d->w.session, &order, &d->error);
}

static void hear_request(struct desk *d)
{
    struct {
        struct guest_message m;
        char strings[4096];
    } request;
    int fds[FD_PASS_MAX];
    size_t count;
    assert_true(fd_recv(d->w.init, &request, sizeof(request), fds, &count) > 0);
    assert_int_equal(request.m.verb, GUEST_TERMINAL);
    assert_int_equal(count, 1);
    d->keeper = fds[0];
    d->value = request.m.value;
    for (uint32_t i = 0; i < request.m.strings_len; i++)
        d->strings[i] = request.strings[i] ? request.strings[i] : '\n';
    d->strings[request.m.strings_len] = '\0';
}

static void begin(struct desk *d, uint64_t idle_ms)
{
    static const char *const env[] = {"PATH=/bin", "HOME=/tmp", "TERM=dumb", NULL};
    *d = (struct desk){.keeper = -1};
    strbuf_init(&d->told, LOG_MAX);
    world_init(&d->w);
    d->w.template.env = env;
    world_open_sealed(&d->w);
    world_become_ready(&d->w);
    assert_int_equal(try_open(d, idle_ms), 0);
    hear_request(d);
}

static void say_bytes(struct desk *d, enum terminal_frame_type type, const char *bytes)
{
    message.frame = (struct terminal_frame){.type = type};
    memcpy(message.bytes, bytes, strlen(bytes));
    assert_true(send(d->keeper, &message, sizeof(message.frame) + strlen(bytes), 0) > 0);
    world_settle(&d->w);
}

static void say(struct desk *d, const struct terminal_frame *frame)
{
    assert_int_equal(send(d->keeper, frame, sizeof(*frame), 0), sizeof(*frame));
    world_settle(&d->w);
}

static void start(struct desk *d)
{
    say(d, &(struct terminal_frame){.type = TERMINAL_STARTED});
}

/* The next frame to the keeper; -1: none. Answers how many bytes came with it. */
static ssize_t hear(struct desk *d)
{
    ssize_t n = recv(d->keeper, &message, sizeof(message), MSG_DONTWAIT);
    return n < 0 ? -1 : n - (ssize_t)sizeof(message.frame);
}

static void end(struct desk *d)
{
    scoped_close_fd(&d->keeper);
    world_close(&d->w);
    strbuf_release(&d->told);
}

static void assert_told(const struct desk *d, const char *text)
{
    assert_int_equal(d->told.len, strlen(text));
    assert_memory_equal(d->told.data ? d->told.data : "", text, d->told.len);
}

/* --- its life -------------------------------------------------------------------------------- */

static void test_request(void **state)
{
    (void)state;
    struct desk d;
    begin(&d, 0);
    assert_int_equal(d.value, 80 << 16 | 24);
    assert_string_equal(d.strings,
                        "/workspace\n/bin/bash\n/bin/sh\nHOME=/tmp\nPATH=/mine\nTERM=vt100\n");
    assert_int_equal(session_info(d.w.session)->terminal_count, 1);
    end(&d);
}

static void test_life(void **state)
{
    (void)state;
    struct desk d;
    begin(&d, 0);
    start(&d);
    start(&d); /* once more changes nothing */
    say_bytes(&d, TERMINAL_BYTES, "hello");
    say_bytes(&d, TERMINAL_BYTES, "");
    say(&d, &(struct terminal_frame){.type = TERMINAL_EXITED, .exit_code = 3});
    assert_told(&d, "started;output hello;ended 3 0 ;");
    assert_int_equal(session_info(d.w.session)->terminal_count, 0);
    assert_int_equal(recv(d.keeper, &message, sizeof(message), 0), 0); /* its channel is closed */
    end(&d);
}

struct end_case {
    const char *name;
    struct terminal_frame frame;
    size_t len; /* 0: the channel is closed */
    const char *told;
};

static const struct end_case ends[] = {
    {"a signal is told", {.type = TERMINAL_EXITED, .signal = 9}, 20, "ended 0 9 ;"},
    {"a code that is none is cut",
     {.type = TERMINAL_EXITED, .exit_code = 0x1ff},
     20,
     "ended 255 0 ;"},
    {"too many of them",
     {.type = TERMINAL_FAILED, .error = EBUSY},
     20,
     "ended 0 0 the session has 4 terminals already;"},
    {"no shell",
     {.type = TERMINAL_FAILED, .error = ENOENT},
     20,
     "ended 0 0 the image has no shell;"},
    {"no room for a process",
     {.type = TERMINAL_FAILED, .error = EAGAIN},
     20,
     "ended 0 0 the terminal cannot be started: the session has as many processes as it may;"},
    {"a keeper that was killed", {0}, 0, "ended 0 0 the terminal was killed;"},
    {"a frame that is too short",
     {.type = TERMINAL_BYTES},
     19,
     "ended 0 0 the terminal was killed;"},
    {"a type that is none", {.type = 0}, 20, "ended 0 0 the terminal was killed;"},
    {"a type that is too high", {.type = 99}, 20, "ended 0 0 the terminal was killed;"},
    {"what is ours to say", {.type = TERMINAL_SIZE}, 20, "ended 0 0 the terminal spoke nonsense;"},
};

static void test_end(void **state)
{
    const struct end_case *c = *state;
    struct desk d;
    begin(&d, 0);
    if (c->len)
        assert_int_equal(send(d.keeper, &c->frame, c->len, 0), c->len);
    else
        scoped_close_fd(&d.keeper);
    world_settle(&d.w);
    assert_told(&d, c->told);
    if (!c->len)
        d.keeper = -1;
    end(&d);
}

static void test_output_before_start(void **state)
{
    (void)state;
    struct desk d;
    begin(&d, 0);
    say_bytes(&d, TERMINAL_BYTES, "early");
    start(&d);
    assert_told(&d, "started;");
    end(&d);
}

static const struct close_case {
    const char *name, *event;
} close_cases[] = {
    {"its owner may close it when it starts", "started"},
    {"its owner may close it when it prints", "output "},
    {"its owner may let it end", NULL},
};

static void test_close_inside(void **state)
{
    struct desk d;
    begin(&d, 0);
    d.close_at = ((const struct close_case *)*state)->event;
    message.frame = (struct terminal_frame){.type = TERMINAL_STARTED};
    assert_true(send(d.keeper, &message, sizeof(message.frame), 0) > 0);
    for (int i = 0; i < 3; i++) {
        message.frame.type = TERMINAL_BYTES;
        assert_true(send(d.keeper, &message, sizeof(message.frame) + 1, 0) > 0);
    }
    message.frame = (struct terminal_frame){.type = TERMINAL_EXITED};
    assert_true(send(d.keeper, &message, sizeof(message.frame), 0) > 0);
    world_settle(&d.w);
    assert_int_equal(session_info(d.w.session)->terminal_count, 0);
    assert_null(d.terminal);
    end(&d);
}

/* --- what is typed --------------------------------------------------------------------------- */

static void test_typed(void **state)
{
    (void)state;
    static char text[300000];
    struct desk d;
    size_t heard = 0;
    begin(&d, 0);
    start(&d);
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)(i * 7 + i / 251);
    assert_false(terminal_write(d.terminal, text, sizeof(text)));
    terminal_resize(d.terminal, 100, 30);
    bool has_size = false;
    for (int turn = 0; turn < 1000 && heard < sizeof(text); turn++) {
        for (ssize_t n; (n = hear(&d)) >= 0;) {
            assert_true(n <= TERMINAL_BYTES_MAX);
            if (message.frame.type == TERMINAL_SIZE) {
                has_size = message.frame.columns == 100 && message.frame.rows == 30;
                assert_true(heard < sizeof(text)); /* it did not wait for all of them */
                continue;
            }
            assert_int_equal(message.frame.type, TERMINAL_BYTES);
            assert_memory_equal(message.bytes, text + heard, (size_t)n);
            heard += (size_t)n;
        }
        world_settle(&d.w);
    }
    assert_int_equal(heard, sizeof(text));
    assert_true(has_size);
    assert_told(&d, "started;drained;");
    assert_true(terminal_write(d.terminal, "x", 1));
    end(&d);
}

static void test_overflow(void **state)
{
    (void)state;
    static const char text[TERMINAL_TYPED_MAX / 2];
    struct desk d;
    begin(&d, 0);
    start(&d);
    for (int i = 0; i < 4; i++)
        assert_false(terminal_write(d.terminal, text, sizeof(text)));
    assert_told(&d, "started;"); /* not from inside */
    world_advance(&d.w, 1);
    assert_told(&d, "started;ended 0 0 more was typed than the terminal takes;");
    end(&d);
}

static void test_pause(void **state)
{
    (void)state;
    struct desk d;
    begin(&d, 0);
    start(&d);
    terminal_pause(d.terminal);
    say_bytes(&d, TERMINAL_BYTES, "a");
    say_bytes(&d, TERMINAL_BYTES, "b");
    assert_told(&d, "started;");
    terminal_resume(d.terminal);
    world_settle(&d.w);
    assert_told(&d, "started;output a;output b;");
    end(&d);
}

/* --- beside the session ---------------------------------------------------------------------- */

static void test_idle(void **state)
{
    (void)state;
    struct desk d;
    begin(&d, 1000);
    start(&d);
    world_advance(&d.w, 999);
    terminal_write(d.terminal, "x", 1);
    world_advance(&d.w, 999);
    say_bytes(&d, TERMINAL_BYTES, "y");
    world_advance(&d.w, 999);
    assert_told(&d, "started;output y;");
    world_advance(&d.w, 1);
    assert_told(&d, "started;output y;ended 0 0 nothing was typed or printed for 1 s;");
    end(&d);
}

static void test_session_is_not_idle(void **state)
{
    (void)state;
    struct desk d;
    begin(&d, 0);
    d.w.template.idle_ms = 500;
    d.w.template.idle_freeze_ms = 100;
    world_kernel_dies(&d.w, 1, 0); /* which counts it anew */
    world_advance(&d.w, 5000);
    world_assert_state(&d.w, SESSION_FAILED);
    assert_false(session_info(d.w.session)->is_frozen);
    terminal_close(d.terminal);
    world_advance(&d.w, 499);
    world_assert_state(&d.w, SESSION_FAILED);
    world_advance(&d.w, 1);
    world_assert_state(&d.w, SESSION_TERMINATING);
    end(&d);
}

static void test_four(void **state)
{
    (void)state;
    struct desk d;
    int keepers[GUEST_TERMINALS_MAX];
    begin(&d, 0);
    keepers[0] = d.keeper;
    for (int i = 1; i < GUEST_TERMINALS_MAX; i++) {
        assert_int_equal(try_open(&d, 0), 0);
        hear_request(&d);
        keepers[i] = d.keeper;
    }
    assert_int_equal(try_open(&d, 0), -1);
    assert_int_equal(d.error.code, ERROR_LIMIT);
    for (int i = 1; i < GUEST_TERMINALS_MAX; i++)
        close(keepers[i]);
    d.keeper = keepers[0];
    end(&d);
}

static void test_states(void **state)
{
    (void)state;
    struct desk d;
    begin(&d, 0);
    start(&d);
    assert_int_equal(session_checkpoint(d.w.session, NULL, NULL, NULL, &d.error), -1);
    session_freeze(d.w.session);
    assert_false(session_info(d.w.session)->is_frozen);
    session_close(d.w.session);
    assert_told(&d, "started;ended 0 0 the session ended;");
    assert_int_equal(try_open(&d, 0), -1);
    assert_int_equal(d.error.code, ERROR_CONFLICT);
    end(&d);
}

static void test_creating(void **state)
{
    (void)state;
    struct desk d = {.keeper = -1};
    strbuf_init(&d.told, LOG_MAX);
    world_init(&d.w);
    world_open_sealed(&d.w);
    assert_int_equal(try_open(&d, 0), -1);
    assert_int_equal(d.error.code, ERROR_CONFLICT);
    world_become_ready(&d.w);
    end(&d);
}

/* The spawner, which could not spare it, is asked later. */
static void test_kill(void **state)
{
    (void)state;
    struct desk d;
    begin(&d, 0);
    world_execute(&d.w);
    session_interrupt(d.w.session);
    session_interrupt(d.w.session);
    world_advance(&d.w, 99);
    assert_false(world_is_asked(&d.w, SPAWN_CULL));
    world_advance(&d.w, 1);
    assert_true(world_is_asked(&d.w, SPAWN_CULL));
    world_reply(&d.w, SPAWN_CULL, (struct spawn_stats){0});
    end(&d);
}

static void test_kinds(void **state)
{
    (void)state;
    static const char *const good[] = {"xterm-256color", "vt100", "screen.xterm_x+y"};
    static const char *const bad[] = {
        "", "a b", "a=b", "a/b", "\n", "é", "a23456789012345678901234567890123"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(terminal_kind_is_valid(good[i]));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(terminal_kind_is_valid(bad[i]));
}

int main(void)
{
    struct check check = {.count = 0};
    signal(SIGPIPE, SIG_IGN);
    check_one(&check, "init is asked for a shell, with size and variables", test_request);
    check_one(&check, "it starts, prints and ends", test_life);
    check_rows(&check, ends, test_end);
    check_one(&check, "nothing is printed before it has started", test_output_before_start);
    check_rows(&check, close_cases, test_close_inside);
    check_one(&check, "what is typed waits, in order, and a new size does not", test_typed);
    check_one(&check, "who types on and on is stopped", test_overflow);
    check_one(&check, "nothing is told while it is paused", test_pause);
    check_one(&check, "it ends when nothing moves", test_idle);
    check_one(&check, "a session with a terminal is not idle", test_session_is_not_idle);
    check_one(&check, "four at a time", test_four);
    check_one(&check, "it ends with its session, which is not saved meanwhile", test_states);
    check_one(&check, "a session that is not there yet has none", test_creating);
    check_one(&check, "a kill gives init the time to spare it", test_kill);
    check_one(&check, "kinds of terminals", test_kinds);
    return check_run(&check, "terminal");
}
