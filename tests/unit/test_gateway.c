/* test_gateway.c - the link to a proxy that the test plays: ready, dying, and talking nonsense */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/gateway.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scoped.h"
#include "check.h"
#include "stage.h"

#define SANDBOX     7
#define NEIGHBOUR   8
#define BYTES_MAX   1000
#define PATIENCE_MS 10000
#define PAUSE_MS    10000 /* longer than any before another try */

struct scene {
    struct loop *loop;
    struct spawner_client spawner;
    struct gateway *gateway;
    struct passage *passage; /* of SANDBOX */
    struct vault *vault;     /* of all passages; NULL: none */
    int proxy;               /* its end of the link; -1: none */
    unsigned told;
    struct error err; /* msg "": its way is open */
    unsigned fds;     /* that were open before */
};

static void on_told(void *ctx, const struct error *err)
{
    struct scene *s = ctx;
    s->told++;
    s->err = err ? *err : (struct error){0};
}

static struct passage *open_passage(struct scene *s, uint64_t sandbox)
{
    struct egress_rule items[2] = {{.name = "example.com", .port = 8443},
                                   {.name = "example.org", .flags = EGRESS_BELOW}};
    const struct network_rules rules = {.items = items, .count = ARRAY_LEN(items)};
    const struct passage_order order = {
        .sandbox = sandbox, .who = "ses_1", .rules = &rules, .vault = s->vault};
    struct passage *p = passage_open(s->gateway, &order, on_told, s);
    memset(items, 'x', sizeof(items)); /* they are borrowed for the call only */
    return p;
}

static void begin(struct scene *s)
{
    struct error err;
    stage_begin();
    *s = (struct scene){.proxy = -1};
    assert_int_equal(loop_open(&s->loop, &err), 0);
    s->fds = check_count_fds();
    const struct gateway_order order = {
        .loop = s->loop, .spawner = &s->spawner, .bytes_max = BYTES_MAX, .connections_max = 3};
    s->gateway = gateway_new(&order);
    assert_false(stage_is_asked(&s->spawner, SPAWN_PROXY)); /* nobody wants out yet */
    s->passage = open_passage(s, SANDBOX);
}

/* Nothing is left: no timer, no descriptor. */
static void end(struct scene *s)
{
    passage_free(s->passage);
    gateway_free(s->gateway);
    scoped_close_fd(&s->proxy);
    assert_false(stage_has_timers());
    check_fds(s->fds);
    loop_free(s->loop);
}

static void give_proxy(struct scene *s)
{
    struct spawn_message m = {.verb = SPAWN_PROXY};
    int pair[2];
    scoped_close_fd(&s->proxy);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
                     0);
    s->proxy = pair[0];
    stage_reply(&s->spawner, SPAWN_PROXY, &m, &pair[1], 1);
}

static void give_door(struct scene *s)
{
    struct spawn_message m = {.verb = SPAWN_EGRESS};
    int door = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(door >= 0);
    stage_reply(&s->spawner, SPAWN_EGRESS, &m, &door, 1);
    stage_settle(s->loop);
}

static void say(struct scene *s, const struct egress_message *m, size_t len)
{
    assert_int_equal(fd_send(s->proxy, m, len, NULL, 0), 0);
    stage_settle(s->loop);
}

static void say_verb(struct scene *s, uint32_t verb)
{
    const struct egress_message m = {.verb = verb, .sandbox = SANDBOX};
    say(s, &m, egress_size(verb));
}

/* What the proxy hears next, with so many descriptors. */
static struct egress_message hear(struct scene *s, uint32_t verb, size_t fd_count)
{
    struct egress_message m = {0};
    int fds[FD_PASS_MAX];
    size_t count = 0;
    ssize_t len = fd_recv(s->proxy, &m, sizeof(m), fds, &count);
    for (size_t i = 0; len > 0 && i < count; i++)
        close(fds[i]);
    assert_int_equal(m.verb, verb);
    assert_int_equal(len, egress_size(verb));
    assert_int_equal(count, fd_count);
    return m;
}

static void hear_passage(struct scene *s, uint64_t sandbox)
{
    struct egress_message m = hear(s, EGRESS_RULE, 0);
    assert_true(m.sandbox == sandbox && m.rule.port == 8443 && m.rule.flags == 0);
    assert_string_equal(m.rule.name, "example.com");
    m = hear(s, EGRESS_RULE, 0);
    assert_true(m.sandbox == sandbox && m.rule.port == 0 && m.rule.flags == EGRESS_BELOW);
    assert_string_equal(m.rule.name, "example.org");
    m = hear(s, EGRESS_OPEN, 1);
    assert_true(m.sandbox == sandbox && m.open.bytes_max == BYTES_MAX);
    assert_int_equal(m.open.connections_max, 3);
}

static bool has_hung_up(struct scene *s)
{
    char byte;
    struct pollfd end = {.fd = s->proxy, .events = POLLIN}; /* another thread hangs up */
    return poll(&end, 1, PATIENCE_MS) == 1 && recv(s->proxy, &byte, 1, MSG_DONTWAIT) == 0;
}

static void begin_open(struct scene *s)
{
    begin(s);
    give_proxy(s);
    say_verb(s, EGRESS_READY);
    give_door(s);
    hear_passage(s, SANDBOX);
    assert_true(s->told == 1 && s->err.msg[0] == '\0');
}

static void test_open(void **state)
{
    (void)state;
    struct scene s;
    begin(&s);
    struct passage *second = open_passage(&s, NEIGHBOUR);
    assert_int_equal(s.spawner.count, 1); /* one proxy for all */
    give_proxy(&s);
    stage_settle(s.loop);
    assert_false(stage_is_asked(&s.spawner, SPAWN_EGRESS)); /* it is not confined yet */
    say_verb(&s, EGRESS_READY);
    assert_int_equal(s.spawner.count, 2);
    assert_int_equal(s.told, 0);
    give_door(&s);
    give_door(&s);
    hear_passage(&s, NEIGHBOUR);
    hear_passage(&s, SANDBOX);
    assert_int_equal(s.told, 2);
    passage_free(second);
    stage_settle(s.loop);
    assert_int_equal(hear(&s, EGRESS_CLOSE, 0).sandbox, NEIGHBOUR);
    end(&s);
}

typedef const struct egress_denied *news_fn(struct passage *);

static void check_news(enum egress_verb verb, news_fn *read, news_fn *read_other)
{
    struct scene s;
    struct egress_message m = {.verb = verb, .sandbox = NEIGHBOUR};
    begin_open(&s);
    memset(&m.denied, 'x', sizeof(m.denied)); /* without an end */
    say(&s, &m, egress_size(m.verb));
    assert_null(read(s.passage)); /* somebody else's */
    m.sandbox = SANDBOX;
    assert_int_equal(fd_send(s.proxy, &m, egress_size(m.verb), NULL, 0), 0);
    const struct egress_denied *news = read(s.passage); /* without a turn of the loop */
    assert_non_null(news);
    assert_int_equal(strlen(news->host), sizeof(news->host) - 1);
    assert_int_equal(strlen(news->rule), sizeof(news->rule) - 1);
    assert_null(read_other(s.passage));
    passage_clear(s.passage);
    assert_null(read(s.passage));
    end(&s);
}

static void test_denied(void **state)
{
    (void)state;
    check_news(EGRESS_DENIED, passage_denied, passage_failed);
    check_news(EGRESS_FAILED, passage_failed, passage_denied);
}

static void test_again(void **state)
{
    (void)state;
    struct scene s;
    begin_open(&s);
    for (int i = 0; i < 3; i++) {
        scoped_close_fd(&s.proxy);
        stage_settle(s.loop);
        assert_false(stage_is_asked(&s.spawner, SPAWN_PROXY)); /* not in one breath */
        stage_advance(s.loop, PAUSE_MS);
        give_proxy(&s);
        say_verb(&s, EGRESS_READY);
        give_door(&s);
        hear_passage(&s, SANDBOX);
        assert_int_equal(s.told, 1); /* it goes on as if nothing had been */
    }
    end(&s);
}

static void test_no_proxy(void **state)
{
    (void)state;
    struct scene s;
    begin(&s);
    stage_reply(&s.spawner, SPAWN_PROXY, NULL, NULL, 0);
    assert_true(s.told == 1 && strstr(s.err.msg, "the spawner is gone"));
    stage_advance(s.loop, PAUSE_MS);
    assert_true(stage_is_asked(&s.spawner, SPAWN_PROXY)); /* for the next one */
    stage_reply(&s.spawner, SPAWN_PROXY, NULL, NULL, 0);
    end(&s);
}

static void test_stillborn(void **state)
{
    (void)state;
    struct scene s;
    begin(&s);
    give_proxy(&s);
    scoped_close_fd(&s.proxy);
    stage_settle(s.loop);
    assert_true(s.told == 1 && s.err.code == ERROR_UNAVAILABLE);
    assert_non_null(strstr(s.err.msg, "could not be started"));
    end(&s);
}

static void test_no_door(void **state)
{
    (void)state;
    struct scene s;
    begin(&s);
    give_proxy(&s);
    say_verb(&s, EGRESS_READY);
    stage_reply(&s.spawner, SPAWN_EGRESS, NULL, NULL, 0);
    assert_true(s.told == 1 && strstr(s.err.msg, "the spawner is gone"));
    end(&s);
}

static void test_late(void **state)
{
    (void)state;
    struct scene s;
    begin(&s);
    give_proxy(&s);
    say_verb(&s, EGRESS_READY);
    passage_free(s.passage);
    s.passage = NULL;
    give_door(&s); /* for nobody: nothing is passed on */
    assert_int_equal(recv(s.proxy, &(char){0}, 1, MSG_DONTWAIT), -1);
    assert_true(errno == EAGAIN && s.told == 0);
    end(&s);
}

/* --- secrets ---------------------------------------------------------------------------------- */

static struct vault *make_vault(void)
{
    static char name[] = "TOKEN", value[] = "the value", host[] = "example.com:8443";
    static char *hosts[] = {host};
    static const struct egress_rule allowed = {.name = "example.com", .port = 8443};
    const struct network_rules rules = {.items = (struct egress_rule *)&allowed, .count = 1};
    struct secret_wish wish = {name, value, {hosts, 1}};
    const struct param_list wishes = {&wish, 1};
    struct vault *v;
    struct error err;
    assert_int_equal(vault_make(&v, &wishes, &rules, NULL, &err), 0);
    return v;
}

static void hear_secret(struct scene *s)
{
    hear(s, EGRESS_RULE, 0);
    hear(s, EGRESS_RULE, 0);
    struct egress_message m = hear(s, EGRESS_SECRET, 0);
    assert_int_equal(m.sandbox, SANDBOX);
    assert_string_equal(m.secret.value, "the value");
    assert_memory_equal(m.secret.placeholder, EGRESS_PLACEHOLDER, sizeof(EGRESS_PLACEHOLDER) - 1);
    m = hear(s, EGRESS_SECRET_HOST, 0);
    assert_string_equal(m.rule.name, "example.com");
}

/* The scene of a sandbox with a secret, up to where the proxy has heard all. */
static void begin_with_secret(struct scene *s)
{
    begin(s);
    passage_free(s->passage);
    s->vault = make_vault();
    s->passage = open_passage(s, SANDBOX);
    vault_free(take_ptr(&s->vault)); /* borrowed for the call only */
    give_proxy(s);
    say_verb(s, EGRESS_READY);
    give_door(s);
    hear_secret(s);
    hear(s, EGRESS_OPEN, 1);
    assert_int_equal(s->told, 0); /* nobody could make TLS with it yet */
}

static void test_secret(void **state)
{
    (void)state;
    struct scene s;
    struct egress_message m = {.verb = EGRESS_AUTHORITY,
                               .sandbox = SANDBOX,
                               .authority = {.certificate_len = 3, .certificate = "abc"}};
    begin_with_secret(&s);
    assert_null(vault_authority(passage_vault(s.passage)));
    say(&s, &m, egress_size(m.verb));
    assert_true(s.told == 1 && s.err.msg[0] == '\0');
    assert_memory_equal(vault_authority(passage_vault(s.passage)), &m.authority,
                        sizeof(m.authority));

    scoped_close_fd(&s.proxy); /* the next one goes on with it */
    stage_settle(s.loop);
    stage_advance(s.loop, PAUSE_MS);
    give_proxy(&s);
    say_verb(&s, EGRESS_READY);
    give_door(&s);
    hear_secret(&s);
    const struct egress_message again = hear(&s, EGRESS_AUTHORITY, 0);
    assert_memory_equal(&again.authority, &m.authority, sizeof(m.authority));
    hear(&s, EGRESS_OPEN, 1);
    assert_int_equal(s.told, 1);
    say(&s, &m, egress_size(m.verb)); /* a second one is none */
    assert_true(has_hung_up(&s));
    end(&s);
}

static void test_lost_before_authority(void **state)
{
    (void)state;
    struct scene s;
    const struct egress_message empty = {.verb = EGRESS_AUTHORITY, .sandbox = SANDBOX};
    begin_with_secret(&s);
    say(&s, &empty, egress_size(empty.verb));
    assert_true(has_hung_up(&s));
    assert_int_equal(s.told, 0); /* the next proxy may do better */
    stage_advance(s.loop, PAUSE_MS);
    give_proxy(&s);
    say_verb(&s, EGRESS_READY);
    give_door(&s);
    hear_secret(&s);
    end(&s);
}

static void test_unasked(void **state)
{
    (void)state;
    struct scene s;
    begin_open(&s);
    const struct egress_message m = {
        .verb = EGRESS_AUTHORITY, .sandbox = SANDBOX, .authority = {.certificate_len = 3}};
    say(&s, &m, egress_size(m.verb));
    assert_true(has_hung_up(&s));
    end(&s);
}

static void test_trust(void **state)
{
    (void)state;
    struct scene s;
    struct error err;
    int fd;
    begin(&s);
    assert_int_equal(fd_make_file(&fd, "trust", "x", 1, &err), 0);
    gateway_give_trust(s.gateway, fd);
    give_proxy(&s);
    say_verb(&s, EGRESS_READY);
    assert_int_equal(hear(&s, EGRESS_TRUST, 1).sandbox, 0);
    give_door(&s);
    hear_passage(&s, SANDBOX);
    end(&s);
}

/* --- a proxy that was taken over -------------------------------------------------------------- */

struct nonsense {
    const char *name;
    bool is_ready; /* before it */
    uint32_t verb;
    int more; /* than the size of the verb */
};

static const struct nonsense nonsense[] = {
    {"hangs up on a proxy that tells a denial before it is ready", false, EGRESS_DENIED, 0},
    {"hangs up on a proxy that is ready twice", true, EGRESS_READY, 0},
    {"hangs up on a proxy that gives rules", true, EGRESS_RULE, 0},
    {"hangs up on a proxy that opens", true, EGRESS_OPEN, 0},
    {"hangs up on a denial that is cut", true, EGRESS_DENIED, -1},
    {"hangs up on a greeting that is too long", false, EGRESS_READY, 1},
    {"hangs up on a message that is too long for all", true, EGRESS_DENIED, 100},
    {"hangs up on a proxy that gives secrets", true, EGRESS_SECRET, 0},
    {"hangs up on a verb that there is none", true, EGRESS_VERB_COUNT, 16},
    {"hangs up on a verb that is none", true, 0, 4},
};

static void test_nonsense(void **state)
{
    const struct nonsense *row = *state;
    struct scene s;
    char text[sizeof(struct egress_message) + 200] = {0};
    begin(&s);
    give_proxy(&s);
    if (row->is_ready) {
        say_verb(&s, EGRESS_READY);
        give_door(&s);
        hear_passage(&s, SANDBOX);
    }
    memcpy(text, &row->verb, sizeof(row->verb));
    size_t len = egress_size(row->verb) + (size_t)row->more;
    assert_int_equal(fd_send(s.proxy, text, len, NULL, 0), 0);
    stage_settle(s.loop);
    assert_true(has_hung_up(&s));
    assert_null(passage_denied(s.passage));
    end(&s);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "opens every passage when the one proxy is confined", test_open);
    check_one(&check, "keeps the last denial and failure of each, whatever its text is",
              test_denied);
    check_one(&check, "starts a dead proxy again and tells it everything", test_again);
    check_one(&check, "tells who waits that there is no proxy, and tries again", test_no_proxy);
    check_one(&check, "tells who waits that the proxy died at its start", test_stillborn);
    check_one(&check, "tells who waits that there is no door", test_no_door);
    check_one(&check, "takes a door that nobody wants any more", test_late);
    check_one(&check, "tells secrets, and waits for who signs for their hosts", test_secret);
    check_one(&check, "has another proxy make an authority when one is none",
              test_lost_before_authority);
    check_one(&check, "hangs up on an authority that nobody asked for", test_unasked);
    check_one(&check, "tells whom to trust before anything else", test_trust);
    check_rows(&check, nonsense, test_nonsense);
    return check_run(&check, "gateway");
}
