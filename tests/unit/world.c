/* world.c - a session, and all that it talks to */
/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "runtime/file_stream.h"

void world_settle(struct world *w)
{
    stage_settle(w->loop);
}

void world_advance(struct world *w, uint64_t ms)
{
    stage_advance(w->loop, ms);
}

bool world_is_asked(const struct world *w, enum spawn_verb verb)
{
    return stage_is_asked(&w->spawner, verb);
}

static void on_changed(void *ctx, struct session *session)
{
    struct world *w = ctx;
    strbuf_add_str(&w->states, session_state_name(session_info(session)->state));
    strbuf_add_char(&w->states, ' ');
}

const struct session_events world_session_events = {.changed = on_changed};

static void on_ended(void *ctx, const struct execution *e)
{
    struct world_request *r = ctx;
    struct world *w = r->w;
    struct strbuf text;
    assert_true(w->ended_count < WORLD_ENDED_MAX);
    struct world_ended *end = &w->ended[w->ended_count++];
    *end = (struct world_ended){.state = e->verdict.state,
                                .kind = e->verdict.kind,
                                .exit_code = e->facts.exit_code,
                                .who = r->who,
                                .artifacts_cut = e->artifacts.is_cut,
                                .has_results = e->results.count > 0,
                                .is_unbegun = e->is_unbegun};
    snprintf(end->message, sizeof(end->message), "%s", e->verdict.message);
    if (e->out.head.max > 0) { /* one that was refused has none */
        strbuf_init(&text, 4096);
        output_text(&e->out, &text);
        snprintf(end->out, sizeof(end->out), "%s", strbuf_str(&text));
        strbuf_release(&text);
    }
    if (w->is_closing_at_end)
        session_close(w->session);
}

const struct execution_events world_execution_events = {.ended = on_ended};

static void add_told(struct world *w, char mark, const char *data, size_t len)
{
    size_t at = strlen(w->told);
    snprintf(w->told + at, sizeof(w->told) - at, "%c%.*s ", mark, (int)len, data);
}

static void on_told_output(void *ctx, enum execution_stream stream, const void *data, size_t len)
{
    struct world_request *r = ctx;
    (void)stream;
    add_told(r->w, '>', data, len);
}

static void on_told_result(void *ctx, const struct result *result)
{
    struct world_request *r = ctx;
    for (size_t i = 0; i < result->count; i++)
        add_told(r->w, i == 0 ? '=' : '|', result->forms[i].data, result->forms[i].len);
}

const struct execution_events world_streamed_events = {
    .output = on_told_output, .result = on_told_result, .ended = on_ended};

void world_on_answer(void *ctx, const char *body, size_t len, const struct error *err)
{
    struct world *w = ctx;
    w->answers++;
    strbuf_clear(&w->answer);
    w->answer_error = err ? *err : (struct error){.msg = ""};
    if (!err)
        strbuf_add(&w->answer, body, len);
}

static const char *const argv[] = {"/kernel", NULL};

void world_init(struct world *w)
{
    struct error err;
    stage_begin();
    *w = (struct world){.init = -1,
                        .channel = -1,
                        .streams = {-1, -1, -1},
                        .cell = {-1, -1, -1},
                        .given = {-1, -1},
                        .events = &world_execution_events};
    assert_int_equal(loop_open(&w->loop, &err), 0);
    loop_free(w->loop); /* the first one of a process keeps descriptors of its own */
    w->fds_before = check_count_fds();
    assert_int_equal(loop_open(&w->loop, &err), 0);
    strbuf_init(&w->states, 64 * KIB);
    strbuf_init(&w->answer, 64 * KIB);
    w->template = (struct session_template){.argv = argv,
                                            .env = argv + 1,
                                            .kernel_fd = -1,
                                            .limits = {.memory_bytes = WORLD_MEMORY_BYTES,
                                                       .disk_bytes = WORLD_MEMORY_BYTES / 2,
                                                       .pids = 10}};
}

void world_assert_state(const struct world *w, enum session_state state)
{
    assert_string_equal(session_state_name(session_info(w->session)->state),
                        session_state_name(state));
}

/* --- the spawner says ------------------------------------------------------------------------ */

void world_reply_with(struct world *w, enum spawn_verb verb, struct spawn_message *m, int fd)
{
    stage_reply(&w->spawner, verb, m, &fd, 1);
}

void world_reply(struct world *w, enum spawn_verb verb, struct spawn_stats stats)
{
    struct spawn_message m = {
        .verb = (uint16_t)verb, .flags = SPAWN_REPLY, .sandbox = WORLD_SANDBOX};
    m.stats = stats;
    world_reply_with(w, verb, &m, -1);
}

void world_tell(struct world *w, enum spawn_verb verb, struct spawn_stats stats)
{
    struct spawn_message m = {.verb = (uint16_t)verb, .sandbox = WORLD_SANDBOX};
    if (verb == SPAWN_EXITED)
        m.stats = stats;
    session_on_event(w->session, &m);
}

/* --- cove-init says, and hears --------------------------------------------------------------- */

void world_init_says(struct world *w, enum guest_verb verb, int value, int exit_code, int signal)
{
    const struct guest_message m = {
        .verb = verb, .value = value, .exit_code = exit_code, .signal = signal};
    assert_int_equal(send(w->init, &m, sizeof(m), MSG_NOSIGNAL), sizeof(m));
    world_settle(w);
}

/* The next word to init, or 0; its fds are closed, those of a start are kept. */
enum guest_verb world_init_hears(struct world *w, int *value)
{
    static struct {
        struct guest_message m;
        char strings[GUEST_STRINGS_MAX];
    } request;
    int fds[FD_PASS_MAX];
    size_t count;
    assert_int_equal(fd_set_nonblock(w->init), 0);
    ssize_t n = fd_recv(w->init, &request, sizeof(request), fds, &count);
    if (n <= 0)
        return 0;
    if (value)
        *value = request.m.value;
    if (request.m.verb == GUEST_FILES)
        w->files_epoch = request.m.flags;
    if (request.m.verb == GUEST_START) {
        assert_int_equal(count, 4);
        for (size_t i = 0; i < 4; i++) {
            int *slot = i < 3 ? &w->streams[i] : &w->channel;
            scoped_close_fd(slot);
            *slot = fds[i];
        }
        count = 0;
    }
    if (request.m.verb == GUEST_FILES && request.m.value == GUEST_FILES_LIST_NOW) {
        struct strbuf list;
        strbuf_init(&list, 1 * KIB);
        const struct guest_file folder = {.mode = S_IFDIR, .ctime_ns = w->listed_ns};
        if (w->listed_ns)
            file_stream_add_entry(&list, &folder, "folder");
        file_stream_add_end(&list);
        assert_int_equal(pwrite(fds[1], list.data, list.len, 0), list.len);
        strbuf_release(&list);
    }
    while (count > 0)
        close(fds[--count]);
    return request.m.verb;
}

void world_expect_init(struct world *w, enum guest_verb verb, int value)
{
    int got = 0;
    assert_int_equal(world_init_hears(w, &got), verb);
    if (verb == GUEST_SIGNAL || verb == GUEST_FILES)
        assert_int_equal(got, value);
}

void world_init_lists(struct world *w)
{
    size_t count = w->ended_count;
    world_settle(w);
    assert_int_equal(w->ended_count, count);
    world_expect_init(w, GUEST_FILES, GUEST_FILES_LIST_NOW);
    const struct guest_message m = {.verb = GUEST_FILES_DONE, .flags = w->files_epoch};
    assert_int_equal(send(w->init, &m, sizeof(m), MSG_NOSIGNAL), sizeof(m));
    world_settle(w);
}

void world_expect_silence(struct world *w)
{
    assert_int_equal(world_init_hears(w, NULL), 0);
}

/* After what is left of the old one was killed, which may be told more than once. */
void world_expect_start(struct world *w)
{
    enum guest_verb verb = world_init_hears(w, NULL);
    while (verb == GUEST_KILL)
        verb = world_init_hears(w, NULL);
    assert_int_equal(verb, GUEST_START);
}

/* --- the kernel says, and hears -------------------------------------------------------------- */

void world_say(struct world *w, unsigned type, unsigned flags, uint32_t generation,
               const void *body, size_t len)
{
    char datagram[1024];
    const struct kernel_frame f = {.length = (uint32_t)len,
                                   .type = (uint16_t)type,
                                   .flags = (uint16_t)flags,
                                   .generation = generation};
    memcpy(datagram, &f, sizeof(f));
    memcpy(datagram + sizeof(f), body, len);
    (void)!send(w->channel, datagram, sizeof(f) + len, MSG_NOSIGNAL);
    world_settle(w);
}

void world_show(struct world *w, unsigned flags, uint32_t generation, const char *text)
{
    char body[64];
    int len = snprintf(body, sizeof(body), "text/plain%c%s", '\0', text);
    world_say(w, KERNEL_DATA, flags, generation, body, (size_t)len);
}

void world_say_done(struct world *w, uint32_t generation, int32_t code)
{
    world_say(w, KERNEL_DONE, 0, generation, &code, sizeof(code));
}

/* Takes a frame of that type, and answers its generation. */
uint32_t world_hear(struct world *w, enum kernel_frame_type type)
{
    static char datagram[KERNEL_FRAME_MAX];
    struct kernel_frame f;
    int fds[FD_PASS_MAX];
    size_t count;
    assert_int_equal(fd_set_nonblock(w->channel), 0);
    ssize_t n = fd_recv(w->channel, datagram, sizeof(datagram), fds, &count);
    assert_true(n >= (ssize_t)sizeof(f));
    memcpy(&f, datagram, sizeof(f));
    assert_int_equal(f.type, type);
    bool is_copy = type == KERNEL_CHECKPOINT || type == KERNEL_FORK;
    int *kept = is_copy ? w->given : w->cell;
    assert_int_equal(count, type == KERNEL_EXECUTE ? 3 : is_copy ? 2 : 0);
    for (size_t i = 0; i < count; i++) {
        scoped_close_fd(&kept[i]);
        kept[i] = fds[i];
    }
    return f.generation;
}

void world_close_cell(struct world *w)
{
    for (int i = 0; i < 3; i++) {
        scoped_close_fd(&w->cell[i]);
        w->cell[i] = -1;
    }
}

/* --- a life ---------------------------------------------------------------------------------- */

void world_open_sealed(struct world *w)
{
    struct error err;
    int pair[2];
    struct spawn_message m = {.verb = SPAWN_CREATE, .flags = SPAWN_REPLY, .sandbox = WORLD_SANDBOX};
    assert_int_equal(session_open(&w->session, w->loop, &w->spawner, &w->template,
                                  &world_session_events, w, &err),
                     0);
    world_assert_state(w, SESSION_CREATING);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    w->init = pair[1];
    world_reply_with(w, SPAWN_CREATE, &m, pair[0]);
    world_tell(w, SPAWN_SEALED, (struct spawn_stats){0});
    world_expect_init(w, GUEST_START, 0);
}

void world_become_ready(struct world *w)
{
    world_init_says(w, GUEST_STARTED, 0, 0, 0);
    world_say(w, KERNEL_READY, 0, 0, "{}", 2);
    world_assert_state(w, SESSION_READY);
}

void world_open(struct world *w)
{
    world_init(w);
    world_open_sealed(w);
    world_become_ready(w);
}

void world_close(struct world *w)
{
    session_close(w->session);
    while (world_is_asked(w, SPAWN_DESTROY))
        world_reply(w, SPAWN_DESTROY, (struct spawn_stats){0});
    world_advance(w, 1); /* one without a sandbox needs no answer, only a turn */
    world_assert_state(w, SESSION_TERMINATED);
    assert_true(w->states.len >= 11 &&
                strcmp(w->states.data + w->states.len - 11, "terminated ") == 0);
    while (w->spawner.count > 0) /* an answer that comes after the end does no harm */
        world_reply(w, w->spawner.asks[0].m.verb, (struct spawn_stats){0});
    session_free(take_ptr(&w->session));
    world_release(w);
}

void world_release(struct world *w)
{
    scoped_close_fd(&w->init);
    scoped_close_fd(&w->channel);
    for (int i = 0; i < 2; i++)
        scoped_close_fd(&w->given[i]);
    for (int i = 0; i < 3; i++)
        scoped_close_fd(&w->streams[i]);
    world_close_cell(w);
    world_settle(w);
    loop_free(w->loop);
    strbuf_release(&w->states);
    strbuf_release(&w->answer);
    assert_false(stage_has_timers());
    check_fds(w->fds_before);
}

int world_try_execute(struct world *w, bool may_queue, int stdin_fd, struct error *err)
{
    struct world_request *r = &w->requests[w->request_count];
    *r = (struct world_request){.w = w, .who = (int)w->request_count++};
    r->cell = (struct cell_request){
        .code = "1", .code_len = 1, .stdin_fd = stdin_fd, .timeout_ms = 1000, .output_bytes = 1000};
    return session_execute(w->session, &r->cell, may_queue, w->events, r, err);
}

/* Begins one, and answers its generation. */
uint32_t world_execute(struct world *w)
{
    struct error err;
    assert_int_equal(world_try_execute(w, false, -1, &err), 0);
    world_assert_state(w, SESSION_BUSY);
    return world_hear(w, KERNEL_EXECUTE);
}

const struct world_ended *world_last_ended(const struct world *w, size_t count)
{
    assert_int_equal(w->ended_count, count);
    return &w->ended[count - 1];
}

/* The kernel dies; init tells how. */
void world_kernel_dies(struct world *w, int exit_code, int signal)
{
    close(take_fd(&w->channel));
    world_settle(w);
    world_init_says(w, GUEST_EXITED, 0, exit_code, signal);
    while (world_init_hears(w, NULL) == GUEST_KILL)
        ;
    if (world_is_asked(w, SPAWN_STATS))
        world_reply(w, SPAWN_STATS, (struct spawn_stats){0});
}

void world_reset(struct world *w)
{
    struct error err;
    assert_int_equal(session_reset(w->session, &err), 0);
}
