/* test_pool.c - a stock of sessions, on a machine that has room for a few
 *
 * Sessions and interpreters are of our own: they are ready when the test says so. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pool.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "check.h"
#include "core/crew.h"

/* --- sessions of our own --------------------------------------------------------------------- */

struct session {
    struct session *next;
    struct session_info info;
    struct capacity_seat seat;
    const struct session_events *events;
    void *ctx;
    unsigned rehearsals, settlings, keeps;
};

static struct session *sessions;
static uint64_t zygote; /* of the last that was opened */

int __wrap_session_open(struct session **out, struct loop *loop, struct spawner_client *spawner,
                        const struct session_template *template,
                        const struct session_events *events, void *ctx, struct error *err);
void __wrap_session_close(struct session *s);
void __wrap_session_give_way(struct session *s);
void __wrap_session_free(struct session *s);
void __wrap_session_give(struct session *s, const struct session_events *events, void *ctx);
void __wrap_session_on_event(struct session *s, const struct spawn_message *m);
const struct session_info *__wrap_session_info(const struct session *s);
void __wrap_session_rehearse(struct session *s);
void __wrap_session_forget_usage(struct session *s);
void __wrap_session_keep_early(struct session *s);

int __wrap_session_open(struct session **out, struct loop *loop, struct spawner_client *spawner,
                        const struct session_template *template,
                        const struct session_events *events, void *ctx, struct error *err)
{
    (void)loop;
    (void)spawner;
    struct session *s = xcalloc(1, sizeof(*s));
    zygote = template->zygote;
    if (capacity_take(template->capacity, &s->seat, &template->limits, err) < 0) {
        free(s);
        return -1;
    }
    s->events = events;
    s->ctx = ctx;
    s->next = sessions;
    sessions = *out = s;
    return 0;
}

void __wrap_session_close(struct session *s)
{
    s->info.state = SESSION_TERMINATING;
}

void __wrap_session_give_way(struct session *s)
{
    capacity_give(&s->seat);
    __wrap_session_close(s);
}

void __wrap_session_free(struct session *s)
{
    struct session **at = &sessions;
    while (*at && *at != s)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = s->next;
    capacity_give(&s->seat);
    free(s);
}

void __wrap_session_give(struct session *s, const struct session_events *events, void *ctx)
{
    s->events = events;
    s->ctx = ctx;
}

void __wrap_session_on_event(struct session *s, const struct spawn_message *m)
{
    (void)s;
    (void)m;
}

const struct session_info *__wrap_session_info(const struct session *s)
{
    return &s->info;
}

void __wrap_session_rehearse(struct session *s)
{
    assert_int_equal(s->settlings, 0);
    s->rehearsals++;
}

void __wrap_session_forget_usage(struct session *s)
{
    assert_int_equal(s->rehearsals, 1);
    s->settlings++;
}

void __wrap_session_keep_early(struct session *s)
{
    assert_int_equal(s->rehearsals, 1);
    s->keeps++;
}

static size_t count(enum session_state state)
{
    size_t n = 0;
    for (const struct session *s = sessions; s; s = s->next)
        n += s->info.state == state;
    return n;
}

/* --- interpreters of our own ------------------------------------------------------------------ */

struct crew {
    bool is_warm;
    struct error why;
    uint64_t made;
    unsigned ticks, asked;
    void (*changed)(void *ctx);
    void *ctx;
};

static struct crew crew;

int __wrap_crew_open(struct crew **out, struct loop *loop, struct spawner_client *spawner,
                     const struct warm_order *order, size_t max, struct error *err);
void __wrap_crew_stop(struct crew *c);
void __wrap_crew_free(struct crew *c);
void __wrap_crew_tick(struct crew *c, unsigned asked);
uint64_t __wrap_crew_find(const struct crew *c);
uint64_t __wrap_crew_next(struct crew *c);
const struct error *__wrap_crew_error(const struct crew *c);

int __wrap_crew_open(struct crew **out, struct loop *loop, struct spawner_client *spawner,
                     const struct warm_order *order, size_t max, struct error *err)
{
    (void)loop, (void)spawner, (void)err;
    assert_int_equal(max, 0);
    crew = (struct crew){.changed = order->changed, .ctx = order->ctx};
    *out = &crew;
    return 0;
}

void __wrap_crew_stop(struct crew *c)
{
    c->is_warm = false;
}

void __wrap_crew_free(struct crew *c)
{
    (void)c;
}

void __wrap_crew_tick(struct crew *c, unsigned asked)
{
    c->ticks++;
    c->asked += asked;
}

uint64_t __wrap_crew_find(const struct crew *c)
{
    return c->is_warm ? 1 : 0;
}

uint64_t __wrap_crew_next(struct crew *c)
{
    return c->is_warm ? ++c->made : 0;
}

const struct error *__wrap_crew_error(const struct crew *c)
{
    return &c->why;
}

/* All that are on their way somewhere arrive, and those that come of it. */
static void arrive(void)
{
    for (struct session *s = sessions, *next; s; s = next) {
        next = s->next;
        if (s->info.state == SESSION_CREATING)
            s->info.state = SESSION_READY;
        else if (s->info.state == SESSION_TERMINATING)
            s->info.state = SESSION_TERMINATED;
        else
            continue;
        s->events->changed(s->ctx, s);
        next = sessions; /* the list may be another now */
    }
}

/* --- the world ------------------------------------------------------------------------------- */

struct world {
    struct loop *loop;
    struct capacity *capacity;
    struct pool *pool;
    struct session_template template;
    struct session *users[8];
    size_t user_count;
};

static void on_changed(void *ctx, struct session *session)
{
    (void)ctx;
    (void)session;
}

static const struct session_events events = {.changed = on_changed};

static void open_world(struct world *w, uint64_t max, size_t parked)
{
    struct error err;
    const struct capacity_order order = {.max_sandboxes = max};
    *w = (struct world){.template = {.limits = {.memory_bytes = MIB, .pids = 1}}};
    assert_int_equal(loop_open(&w->loop, &err), 0);
    assert_int_equal(capacity_open(&w->capacity, &order, &err), 0);
    w->template.capacity = w->capacity;
    const struct pool_order pool = {
        .template = &w->template, .min_parked = parked, .max_parked = parked};
    assert_int_equal(pool_open(&w->pool, w->loop, NULL, &pool, &err), 0);
    arrive();
}

static int take(struct world *w, bool *is_parked, struct error *err)
{
    int status = pool_take(w->pool, &w->users[w->user_count], is_parked, &events, NULL, err);
    w->user_count += status == 0;
    return status;
}

static void close_world(struct world *w)
{
    pool_free(w->pool);
    while (w->user_count > 0)
        session_free(w->users[--w->user_count]);
    assert_null(sessions);
    capacity_free(w->capacity);
    loop_free(w->loop);
}

static void on_turn(void *ctx)
{
    loop_stop(ctx);
}

static void run_loop(struct world *w)
{
    struct loop_timer *timer = loop_timer_new(w->loop, 1, on_turn, w->loop);
    loop_run(w->loop);
    loop_timer_free(timer);
}

static void wait_for_creating(struct world *w, size_t wanted)
{
    while (count(SESSION_CREATING) != wanted)
        run_loop(w);
}

/* Those who are served first: nothing is made while enough is left... */
static void test_rest(void **state)
{
    (void)state;
    struct world w;
    bool is_parked;
    struct error err;
    open_world(&w, 8, 3);
    assert_int_equal(take(&w, &is_parked, &err), 0);
    assert_int_equal(take(&w, &is_parked, &err), 0);
    assert_int_equal(count(SESSION_CREATING), 0);
    assert_int_equal(take(&w, &is_parked, &err), 0);
    assert_true(is_parked);
    assert_int_equal(count(SESSION_CREATING), 2); /* ...but the last one is gone now */
    close_world(&w);
}

static void test_stock(void **state)
{
    (void)state;
    struct world w;
    struct pool_info info;
    bool is_parked;
    struct error err;
    open_world(&w, 8, 3);
    pool_get_info(w.pool, &info);
    assert_int_equal(info.parked, 3);
    assert_int_equal(take(&w, &is_parked, &err), 0);
    assert_true(is_parked);
    wait_for_creating(&w, 1); /* another takes its place */
    close_world(&w);
}

static size_t count_settled(void)
{
    size_t n = 0;
    for (const struct session *s = sessions; s; s = s->next)
        n += s->settlings;
    return n;
}

/* Those that nobody takes, once each; one that is taken at once does not. */
static void test_rehearsal(void **state)
{
    (void)state;
    struct world w;
    bool is_parked;
    struct error err;
    open_world(&w, 8, 3);
    assert_int_equal(take(&w, &is_parked, &err), 0);
    while (count_settled() < 2) {
        struct loop_timer *timer = loop_timer_new(w.loop, 1, on_turn, w.loop);
        loop_run(w.loop);
        loop_timer_free(timer);
    }
    assert_int_equal(w.users[0]->rehearsals, 0);
    assert_int_equal(w.users[0]->keeps, 0);
    assert_int_equal(take(&w, &is_parked, &err), 0);
    assert_int_equal(w.users[1]->rehearsals, 1);
    assert_int_equal(w.users[1]->keeps, 1);
    close_world(&w);
}

static uint64_t lend(void *borrower)
{
    const uint64_t *lent = borrower;
    return *lent;
}

/* One that was opened for somebody serves him first. */
static void test_lent(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    bool is_parked;
    uint64_t lent = 5;
    open_world(&w, 8, 0);
    pool_free(w.pool);
    const struct pool_order order = {
        .template = &w.template, .lent = lend, .borrower = &lent, .min_parked = 2, .max_parked = 2};
    assert_int_equal(pool_open(&w.pool, w.loop, NULL, &order, &err), 0);
    assert_int_equal(count(SESSION_CREATING), 0);
    assert_int_equal(take(&w, &is_parked, &err), 0);
    assert_false(is_parked);
    assert_int_equal(zygote, 5);
    assert_int_equal(pool_zygote(w.pool), 0); /* it is not its own to lend */
    arrive();
    zygote = 0;
    wait_for_creating(&w, 2);
    assert_int_equal(zygote, 5);
    arrive();

    lent = 0; /* what is started cold could not be forked */
    w.template.forks = 1;
    assert_int_equal(take(&w, &is_parked, &err), 0);
    assert_int_equal(take(&w, &is_parked, &err), 0);
    assert_true(is_parked);
    assert_int_equal(count(SESSION_CREATING), 0);
    lent = 6;
    wait_for_creating(&w, 2);
    assert_int_equal(zygote, 6);
    close_world(&w);
}

/* Each session is another's turn, whether it is for the stock or for somebody who waits. */
static void test_crew(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    bool is_parked;
    const struct warm_order warm = {.template = &w.template};
    open_world(&w, 8, 0);
    pool_free(w.pool);
    const struct pool_order order = {
        .template = &w.template, .warm = &warm, .min_parked = 2, .max_parked = 2};
    assert_int_equal(pool_open(&w.pool, w.loop, NULL, &order, &err), 0);
    assert_int_equal(count(SESSION_CREATING), 0); /* a cold start would only delay it */
    crew.is_warm = true;
    crew.changed(crew.ctx);
    assert_int_equal(count(SESSION_CREATING), 2);
    assert_int_equal(crew.made, 2);
    assert_int_equal(zygote, 2);
    assert_int_equal(take(&w, &is_parked, &err), 0);
    assert_false(is_parked);
    assert_int_equal(zygote, 3);
    arrive();
    assert_int_equal(take(&w, &is_parked, &err), 0);
    assert_true(is_parked);
    for (unsigned ticks = crew.ticks; crew.ticks < ticks + 2;)
        run_loop(&w);
    assert_int_equal(crew.asked, 2);
    assert_int_equal(pool_zygote(w.pool), 1);
    assert_int_equal(crew.made, 4);
    close_world(&w);
}

static size_t read_lines(int fd)
{
    char text[4096];
    size_t lines = 0;
    ssize_t n = read(fd, text, sizeof(text));
    for (ssize_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    return lines;
}

/* Told once when it goes missing, and once when it is there again, however often it is tried. */
static void test_cold(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    struct pool_info info;
    int ends[2];
    const struct warm_order warm = {.template = &w.template};
    assert_int_equal(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    const struct log log = {.fd = ends[1]};
    open_world(&w, 8, 0);
    pool_free(w.pool);
    const struct pool_order order = {
        .template = &w.template, .warm = &warm, .log = &log, .name = "tpl_one"};
    assert_int_equal(pool_open(&w.pool, w.loop, NULL, &order, &err), 0);
    pool_get_info(w.pool, &info);
    assert_true(info.wants_warm && !info.is_warm);
    assert_string_equal(info.cold.msg, ""); /* it starts */
    error_set(&crew.why, ERROR_UNAVAILABLE, "the warm interpreter has ended");
    for (int i = 0; i < 3; i++)
        crew.changed(crew.ctx);
    pool_get_info(w.pool, &info);
    assert_string_equal(info.cold.msg, "the warm interpreter has ended");
    assert_int_equal(read_lines(ends[0]), 1);
    crew.is_warm = true;
    crew.why = (struct error){0};
    for (int i = 0; i < 2; i++)
        crew.changed(crew.ctx);
    pool_get_info(w.pool, &info);
    assert_string_equal(info.cold.msg, "");
    assert_int_equal(read_lines(ends[0]), 1);
    close_world(&w);
    close(ends[0]);
    close(ends[1]);
}

static void test_room(void **state)
{
    (void)state;
    struct world w;
    struct pool_info info;
    open_world(&w, 2, 5);
    pool_get_info(w.pool, &info);
    assert_int_equal(info.parked, 2); /* it is not filled beyond what there is room for */
    assert_int_equal(info.creating, 0);
    assert_string_equal(info.error.msg, "");
    close_world(&w);
}

/* The sessions of another template need the room that this pool's stock has. */
static void test_gives_way(void **state)
{
    (void)state;
    struct world w;
    struct session_template other = {.limits = {.memory_bytes = MIB, .pids = 1}};
    struct error err;
    open_world(&w, 3, 3);
    other.capacity = w.capacity;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(
            session_open(&w.users[w.user_count++], w.loop, NULL, &other, &events, NULL, &err), 0);
        assert_int_equal(count(SESSION_TERMINATING), i + 1);
    }
    assert_int_equal(
        session_open(&w.users[w.user_count], w.loop, NULL, &other, &events, NULL, &err), -1);
    assert_int_equal(err.code, ERROR_LIMIT);
    arrive();
    assert_int_equal(count(SESSION_CREATING), 0); /* the stock does not come back meanwhile */
    assert_int_equal(count(SESSION_READY), 3);
    close_world(&w);
}

static void test_refused(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    bool is_parked;
    open_world(&w, 2, 0);
    assert_int_equal(take(&w, &is_parked, &err), 0);
    assert_int_equal(take(&w, &is_parked, &err), 0);
    assert_int_equal(take(&w, &is_parked, &err), -1);
    assert_int_equal(err.code, ERROR_LIMIT);
    session_free(w.users[--w.user_count]);
    assert_int_equal(take(&w, &is_parked, &err), 0);
    close_world(&w);
}

/* What was in the way is of no interest once one could be made again. */
static void test_error_passes(void **state)
{
    (void)state;
    struct world w;
    struct pool_info info;
    bool is_parked;
    struct error err;
    open_world(&w, 8, 1);
    assert_int_equal(take(&w, &is_parked, &err), 0);
    assert_int_equal(count(SESSION_CREATING), 1);
    error_set(&sessions->info.error, ERROR_UNAVAILABLE, "the disk is full");
    sessions->info.state = SESSION_FAILED;
    sessions->events->changed(sessions->ctx, sessions);
    arrive(); /* it is gone */
    pool_get_info(w.pool, &info);
    assert_int_equal(info.parked, 0);
    assert_string_equal(info.error.msg, "the disk is full");

    wait_for_creating(&w, 1);
    arrive();
    assert_int_equal(take(&w, &is_parked, &err), 0);
    assert_true(is_parked);
    pool_get_info(w.pool, &info);
    assert_int_equal(info.parked, 0);
    assert_string_equal(info.error.msg, "");
    close_world(&w);
}

static void free_pool(void *ctx)
{
    pool_free(*(struct pool **)ctx);
    *(struct pool **)ctx = NULL;
}

/* With nothing parked it ends within the call; the sanitizer sees who looks at it afterwards. */
static void test_freed_when_closed(void **state)
{
    (void)state;
    struct world w;
    open_world(&w, 1, 0);
    pool_close(w.pool, free_pool, &w.pool);
    assert_null(w.pool);
    close_world(&w);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "keeps a stock", test_stock);
    check_one(&check, "rests while those who took are served", test_rest);
    check_one(&check, "those that nobody takes rehearse", test_rehearsal);
    check_one(&check, "may be freed when it tells that it is closed", test_freed_when_closed);
    check_one(&check, "with another's interpreter, the first who asks comes first", test_lent);
    check_one(&check, "with several interpreters, each has its turn", test_crew);
    check_one(&check, "one that is missing is told of once", test_cold);
    check_one(&check, "stocks up only while there is room", test_room);
    check_one(&check, "what is parked gives way to what is asked for", test_gives_way);
    check_one(&check, "a session without room is refused", test_refused);
    check_one(&check, "a failure is told until one is ready again", test_error_passes);
    return check_run(&check, "pool");
}
