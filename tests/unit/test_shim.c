/* test_shim.c - frames of the host become lines, lines of the kernel become frames */
/* SPDX-License-Identifier: Apache-2.0 */
#include "init/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"
#include "wire/kernel.h"

#define TEXT(text) text, sizeof(text) - 1

/* --- what the tests send and look at --------------------------------------------------------- */

static bool send_frame(struct shim *s, uint16_t type, uint16_t flags, uint32_t generation,
                       const char *body, size_t len)
{
    scoped_free char *frame = xmalloc(sizeof(struct kernel_frame) + len);
    const struct kernel_frame header = {
        .length = (uint32_t)len, .type = type, .flags = flags, .generation = generation};
    int fds[SHIM_STREAMS];
    size_t count = type == KERNEL_EXECUTE && !s->type ? SHIM_STREAMS : 0;
    for (size_t i = 0; i < count; i++)
        fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
    memcpy(frame, &header, sizeof(header));
    memcpy(frame + sizeof(header), body, len);
    return shim_take_frame(s, frame, sizeof(header) + len, fds, count);
}

static bool say(struct shim *s, const char *text)
{
    return shim_take_bytes(s, text, strlen(text));
}

/* Begins a request of that generation, so that answers are wanted. */
static void begin(struct shim *s, uint32_t generation)
{
    assert_true(send_frame(s, KERNEL_IS_WHOLE, 0, generation, TEXT("x")));
}

/* The frame at *at; moves on. */
static struct kernel_frame next_frame(const struct shim *s, size_t *at, const char **body)
{
    struct kernel_frame f;
    assert_true(*at + sizeof(f) <= s->whole);
    memcpy(&f, s->to_host.data + *at, sizeof(f));
    assert_true(f.length <= KERNEL_BODY_MAX);
    *body = s->to_host.data + *at + sizeof(f);
    *at += sizeof(f) + f.length;
    assert_true(*at <= s->whole);
    return f;
}

static void expect_frame(const struct shim *s, size_t *at, uint16_t type, uint16_t flags,
                         const char *body, size_t len)
{
    const char *found;
    struct kernel_frame f = next_frame(s, at, &found);
    assert_int_equal(f.type, type);
    assert_int_equal(f.flags, flags);
    assert_int_equal(f.length, len);
    assert_memory_equal(found, body, len);
}

static void expect_done(const struct shim *s, size_t *at, int32_t code)
{
    expect_frame(s, at, KERNEL_DONE, 0, (const char *)&code, sizeof(code));
}

static void expect_to_kernel(const struct shim *s, const char *text, size_t len)
{
    assert_int_equal(s->to_kernel.len, len);
    assert_memory_equal(s->to_kernel.data, text, len);
}

/* --- lines ----------------------------------------------------------------------------------- */

struct line_case {
    const char *name;
    const char *bytes;
    size_t len;
    bool is_good;
};

static const struct line_case line_cases[] = {
    {"data", TEXT("DATA 2 1 6 text/plain\nhi"), true},
    {"an error", TEXT("ERROR 2 1\n{}"), true},
    {"a reply", TEXT("REPLY 2 1\n{}"), true},
    {"a negative code", TEXT("DONE 0 1 -7\n"), true},
    {"an empty body", TEXT("ERROR 0 1\n"), true},
    {"half a line", TEXT("DAT"), true},
    {"no type", TEXT("\n"), false},
    {"an unknown type", TEXT("SHOUT 2\nhi"), false},
    {"a type of the host's", TEXT("EXECUTE 2\nhi"), false},
    {"no length", TEXT("ERROR  1\n"), false},
    {"a length with a sign", TEXT("ERROR -2 1\nhi"), false},
    {"a length with letters", TEXT("ERROR 2x 1\nhi"), false},
    {"a length beyond 32 bits", TEXT("ERROR 4294967296 1\n"), false},
    {"a length beyond 64 bits", TEXT("ERROR 99999999999999999999999999 1\n"), false},
    {"a word too many", TEXT("ERROR 2 1 3\nhi"), false},
    {"many words", TEXT("DATA 2 1 2 text/plain more words\nhi"), false},
    {"a word too few", TEXT("DATA 2 1 2\nhi"), false},
    {"a generation with letters", TEXT("ERROR 2 one\nhi"), false},
    {"a generation beyond 32 bits", TEXT("ERROR 2 4294967296\nhi"), false},
    {"MORE, which is the shim's to set", TEXT("DATA 2 1 3 text/plain\nhi"), false},
    {"unknown flags", TEXT("DATA 2 1 16 text/plain\nhi"), false},
    {"the last form", TEXT("DATA 2 1 14 text/plain\nhi"), true},
    {"the last form and MORE", TEXT("DATA 2 1 9 text/plain\nhi"), false},
    {"DONE with a body", TEXT("DONE 2 1 0\nhi"), false},
    {"a code beyond 32 bits", TEXT("DONE 0 1 2147483648\n"), false},
    {"a NUL in the line", TEXT("DONE 0\0 0\n"), false},
};

static void test_line(void **state)
{
    const struct line_case *row = *state;
    struct shim s;
    for (size_t step = 1; step <= row->len; step++) {
        bool is_good = true;
        shim_init(&s);
        begin(&s, 1);
        for (size_t at = 0; at < row->len && is_good; at += step)
            is_good = shim_take_bytes(&s, row->bytes + at, MIN(step, row->len - at));
        assert_int_equal(is_good, row->is_good);
        shim_release(&s);
    }
}

static void test_long_line(void **state)
{
    (void)state;
    struct shim s;
    char line[SHIM_LINE_MAX];
    shim_init(&s);
    memset(line, 'x', sizeof(line));
    assert_true(shim_take_bytes(&s, line, SHIM_LINE_MAX - 1));
    assert_false(shim_take_bytes(&s, line, 1));
    shim_release(&s);
}

/* --- answers --------------------------------------------------------------------------------- */

static void test_ready(void **state)
{
    (void)state;
    struct shim s;
    size_t at = 0;
    const char *body;
    shim_init(&s);
    assert_true(say(&s, "READY 2 0\n{}READY 2 0\n[]ERROR 2 1\n{}DONE 0 1 0\n"));
    struct kernel_frame f = next_frame(&s, &at, &body);
    assert_int_equal(f.type, KERNEL_READY);
    assert_int_equal(f.generation, 0);
    assert_memory_equal(body, "{}", 2);
    assert_int_equal(at, s.whole); /* the rest was said unasked */
    shim_release(&s);
}

static void test_ready_meets_a_request(void **state)
{
    (void)state;
    struct shim s;
    size_t at = 0;
    shim_init(&s);
    assert_true(say(&s, "READY 4 0\n{"));
    begin(&s, 1);
    assert_true(say(&s, "  }DONE 0 1 0\n"));
    expect_frame(&s, &at, KERNEL_READY, 0, TEXT("{  }"));
    expect_done(&s, &at, 0);
    shim_release(&s);
}

static void test_answer(void **state)
{
    (void)state;
    struct shim s;
    size_t at = 0;
    const char *body;
    shim_init(&s);
    begin(&s, 7);
    assert_true(say(&s, "DATA 5 7 6 text/plain\na\nb\ncDATA 0 7 8 text/html\nERROR 2 7\n{}"));
    assert_true(say(&s, "DONE 0 7 130\n"));
    expect_frame(&s, &at, KERNEL_DATA, KERNEL_FIRST | KERNEL_MAIN, TEXT("text/plain\0a\nb\nc"));
    expect_frame(&s, &at, KERNEL_DATA, KERNEL_LAST, TEXT("text/html\0"));
    expect_frame(&s, &at, KERNEL_ERROR, 0, TEXT("{}"));
    size_t last = at;
    expect_done(&s, &at, 130);
    assert_int_equal(at, s.whole);
    assert_int_equal(next_frame(&s, &last, &body).generation, 7);
    assert_true(say(&s, "DONE 0 7 1\nERROR 2 7\n{}")); /* nobody asked */
    assert_int_equal(at, s.whole);
    shim_release(&s);
}

static void test_late_answer(void **state)
{
    (void)state;
    struct shim s;
    size_t at = 0;
    shim_init(&s);
    begin(&s, 1);
    assert_true(say(&s, "DONE 0 1 0\n")); /* by code in the kernel's name */
    s.to_host.sent = s.whole;
    begin(&s, 2);
    assert_true(say(&s, "REPLY 2 1\n{}DONE 0 1 0\nREPLY 2 2\n[]DONE 0 2 0\n"));
    expect_frame(&s, &at, KERNEL_REPLY, 0, TEXT("[]"));
    expect_done(&s, &at, 0);
    assert_int_equal(at, s.whole);
    shim_release(&s);
}

/* Sends a REPLY of `len` bytes, checks its pieces, and answers how many there were. */
static size_t count_pieces(size_t len)
{
    struct shim s;
    size_t at = 0, have = 0, pieces = 0;
    const char *body;
    char line[64];
    struct kernel_frame f;
    scoped_free char *text = xmalloc(len);
    for (size_t i = 0; i < len; i++)
        text[i] = (char)(i * 31);
    shim_init(&s);
    begin(&s, 1);
    snprintf(line, sizeof(line), "REPLY %zu 1\n", len);
    assert_true(say(&s, line));
    assert_true(shim_take_bytes(&s, text, len));
    do {
        f = next_frame(&s, &at, &body);
        assert_int_equal(f.type, KERNEL_REPLY);
        assert_memory_equal(body, text + have, f.length);
        have += f.length;
        pieces++;
    } while (f.flags & KERNEL_MORE);
    assert_int_equal(have, len);
    assert_int_equal(at, s.whole);
    shim_release(&s);
    return pieces;
}

static void test_pieces(void **state)
{
    (void)state;
    assert_int_equal(count_pieces(1), 1);
    assert_int_equal(count_pieces(KERNEL_BODY_MAX), 1);
    assert_int_equal(count_pieces(KERNEL_BODY_MAX + 1), 2);
    assert_int_equal(count_pieces(2 * KERNEL_BODY_MAX), 2);
    assert_int_equal(count_pieces(5 * MIB), 5 * MIB / KERNEL_BODY_MAX + 1);
}

static void test_bound(void **state)
{
    (void)state;
    struct shim s;
    static char text[MIB];
    size_t at = 0, results = 0;
    const char *body;
    struct kernel_frame f;
    shim_init(&s);
    begin(&s, 1);
    for (int i = 0; i < 40; i++) {
        assert_true(say(&s, "DATA 1048576 1 2 text/plain\n"));
        assert_true(shim_take_bytes(&s, text, sizeof(text)));
    }
    assert_true(say(&s, "DONE 0 1 0\n"));
    assert_true(s.to_host.len <= SHIM_ANSWER_MAX);
    while ((f = next_frame(&s, &at, &body)).type != KERNEL_DONE)
        results += !(f.flags & KERNEL_MORE);
    assert_int_equal(results, 16); /* 15 of a MiB each, and the note */
    assert_int_equal(at, s.whole);
    begin(&s, 2); /* and the next one has all the room again */
    s.to_host.sent = s.whole;
    assert_false(s.is_cut);
    shim_release(&s);
}

static void test_huge_announcement(void **state)
{
    (void)state;
    struct shim s;
    size_t at = 0;
    shim_init(&s);
    begin(&s, 1);
    assert_true(say(&s, "DATA 4294967295 1 2 text/plain\nwhatever"));
    assert_int_equal(s.to_host.len, 0);
    assert_true(s.to_host.cap < MIB);
    s.body_left = 0; /* as if all had come */
    assert_true(say(&s, "DONE 0 1 0\n"));
    expect_frame(&s, &at, KERNEL_DATA, KERNEL_FIRST | KERNEL_LAST,
                 TEXT("text/plain\0[more than 16 MiB of results: the rest was dropped]"));
    expect_done(&s, &at, 0);
    shim_release(&s);
}

static void test_sync(void **state)
{
    (void)state;
    struct shim s;
    shim_init(&s);
    begin(&s, 1);
    assert_true(say(&s, "ERROR 2 1\n{}DONE 0 1 0\n"));
    s.to_host.sent = s.whole;
    assert_true(send_frame(&s, KERNEL_SYNC, 0, 0, "", 0));
    assert_int_equal(s.to_host.sent, 0);
    assert_true(s.owes_synced);
    s.to_host.sent = s.whole;
    assert_true(send_frame(&s, KERNEL_ACK, 0, 9, "", 0)); /* of another one */
    assert_int_equal(s.to_host.len, s.whole);
    assert_true(s.whole > 0);
    assert_true(send_frame(&s, KERNEL_ACK, 0, 1, "", 0));
    assert_int_equal(s.whole, 0);
    assert_true(send_frame(&s, KERNEL_SYNC, 0, 0, "", 0));
    assert_int_equal(s.whole, 0);
    shim_release(&s);
}

/* A host that died in the middle of a request: the next one's must not begin with its half. */
static void test_sync_in_a_request(void **state)
{
    (void)state;
    struct shim s;
    shim_init(&s);
    assert_true(send_frame(&s, KERNEL_VARIABLE, KERNEL_MORE, 1, "half", 4));
    assert_true(send_frame(&s, KERNEL_SYNC, 0, 0, "", 0));
    assert_int_equal(s.generation, 0);
    assert_true(send_frame(&s, KERNEL_IS_WHOLE, 0, 2, "x", 1));
    assert_int_equal(s.to_kernel.len, strlen("IS_WHOLE 1 2\nx"));
    assert_memory_equal(s.to_kernel.data, "IS_WHOLE 1 2\nx", s.to_kernel.len);
    shim_release(&s);
}

static void test_unsent_stays(void **state)
{
    (void)state;
    struct shim s;
    size_t at = 0;
    shim_init(&s);
    assert_true(say(&s, "READY 2 0\n{}"));
    begin(&s, 1); /* by a host that has not listened yet */
    assert_true(say(&s, "DONE 0 1 0\n"));
    expect_frame(&s, &at, KERNEL_READY, 0, TEXT("{}"));
    expect_done(&s, &at, 0);
    shim_release(&s);
}

/* --- requests -------------------------------------------------------------------------------- */

struct request_case {
    const char *name;
    uint16_t type;
    const char *body;
    size_t len;
    const char *line; /* NULL: refused */
    size_t line_len;
};

static const struct request_case request_cases[] = {
    {"SET has its name in the line", KERNEL_SET, TEXT("env\0A=b c"), TEXT("SET 5 1 env\nA=b c")},
    {"SET of an empty value", KERNEL_SET, TEXT("language\0"), TEXT("SET 0 1 language\n")},
    {"SET without a NUL", KERNEL_SET, TEXT("env"), NULL, 0},
    {"SET with a name of two words", KERNEL_SET, TEXT("a b\0c"), NULL, 0},
    {"VARIABLES", KERNEL_VARIABLES, TEXT(""), TEXT("VARIABLES 0 1\n")},
    {"VARIABLE has its format in the line", KERNEL_VARIABLE, TEXT("x y\0json"),
     TEXT("VARIABLE 3 1 json\nx y")},
    {"COMPLETE has its cursor in the line", KERNEL_COMPLETE, TEXT("12\0a.\0b"),
     TEXT("COMPLETE 4 1 12\na.\0b")},
    {"IS_WHOLE", KERNEL_IS_WHOLE, TEXT("if\n"), TEXT("IS_WHOLE 3 1\nif\n")},
    {"a type of the kernel's", KERNEL_DONE, TEXT("1234"), NULL, 0},
    {"an unknown type", 9, TEXT(""), NULL, 0},
    {"no type", 0, TEXT(""), NULL, 0},
};

static void test_request(void **state)
{
    const struct request_case *row = *state;
    struct shim s;
    shim_init(&s);
    assert_int_equal(send_frame(&s, row->type, 0, 1, row->body, row->len), row->line != NULL);
    if (row->line)
        expect_to_kernel(&s, row->line, row->line_len);
    shim_release(&s);
}

static void test_execute(void **state)
{
    (void)state;
    struct shim s;
    char text[256];
    int fds[SHIM_STREAMS];
    shim_init(&s);
    assert_true(send_frame(&s, KERNEL_EXECUTE, KERNEL_MORE, 1, TEXT("echo ")));
    assert_true(send_frame(&s, KERNEL_EXECUTE, 0, 1, TEXT("hi")));
    memcpy(fds, s.streams, sizeof(fds));
    int n = snprintf(text, sizeof(text),
                     "EXECUTE 7 1 /proc/%d/fd/%d /proc/%d/fd/%d /proc/%d/fd/%d\necho hi", getpid(),
                     fds[0], getpid(), fds[1], getpid(), fds[2]);
    expect_to_kernel(&s, text, (size_t)n);
    for (size_t i = 0; i < SHIM_STREAMS; i++)
        assert_true(fcntl(fds[i], F_GETFD) >= 0);
    assert_true(say(&s, "DONE 0 1 0\n"));
    for (size_t i = 0; i < SHIM_STREAMS; i++)
        assert_int_equal(fcntl(fds[i], F_GETFD), -1);
    shim_release(&s);
}

static void test_bad_frames(void **state)
{
    (void)state;
    struct shim s;
    struct kernel_frame f = {.type = KERNEL_EXECUTE, .generation = 1};
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    shim_init(&s);
    assert_false(shim_take_frame(&s, &f, sizeof(f), &fd, 1)); /* one stream is too few */
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_false(shim_take_frame(&s, &f, sizeof(f) - 1, NULL, 0));
    f = (struct kernel_frame){.type = KERNEL_VARIABLES, .length = 1};
    assert_false(shim_take_frame(&s, &f, sizeof(f), NULL, 0));
    f = (struct kernel_frame){.type = KERNEL_VARIABLES, .flags = KERNEL_FIRST};
    assert_false(shim_take_frame(&s, &f, sizeof(f), NULL, 0));
    begin(&s, 1);
    assert_false(send_frame(&s, KERNEL_VARIABLES, 0, 2, "", 0)); /* one at a time */
    shim_release(&s);
    shim_init(&s);
    assert_true(send_frame(&s, KERNEL_IS_WHOLE, KERNEL_MORE, 1, TEXT("a")));
    assert_false(send_frame(&s, KERNEL_VARIABLES, 0, 1, "", 0)); /* nothing in between */
    shim_release(&s);
}

static void test_long_request(void **state)
{
    (void)state;
    struct shim s;
    static char text[KERNEL_BODY_MAX];
    size_t at = 0;
    const char *body;
    shim_init(&s);
    for (size_t sent = 0; sent <= SHIM_REQUEST_MAX; sent += sizeof(text))
        assert_true(send_frame(&s, KERNEL_EXECUTE, KERNEL_MORE, 1, text, sizeof(text)));
    assert_true(send_frame(&s, KERNEL_EXECUTE, 0, 1, "", 0));
    assert_int_equal(s.to_kernel.len, 0);
    assert_int_equal(next_frame(&s, &at, &body).type, KERNEL_ERROR);
    expect_done(&s, &at, 1);
    begin(&s, 2); /* and goes on */
    expect_to_kernel(&s, TEXT("IS_WHOLE 1 2\nx"));
    shim_release(&s);

    shim_init(&s);
    assert_true(say(&s, "READY 9 0\n{")); /* no frame may begin in the middle of this one */
    for (size_t sent = 0; sent <= SHIM_REQUEST_MAX; sent += sizeof(text))
        assert_true(send_frame(&s, KERNEL_EXECUTE, KERNEL_MORE, 1, text, sizeof(text)));
    assert_false(send_frame(&s, KERNEL_EXECUTE, 0, 1, "", 0));
    assert_int_equal(s.whole, 0);
    shim_release(&s);
}

/* --- the loop -------------------------------------------------------------------------------- */

struct pair {
    int host, kernel; /* our ends */
    pid_t pid;
};

static void pair_open(struct pair *p)
{
    int channel[2], stream[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream), 0);
    p->pid = fork();
    if (p->pid == 0) {
        close(channel[0]);
        close(stream[0]);
        shim_run(channel[1], stream[1]);
        _exit(0);
    }
    close(channel[1]);
    close(stream[1]);
    p->host = channel[0];
    p->kernel = stream[0];
}

static void pair_ends(struct pair *p)
{
    int status;
    assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
    assert_int_equal(status, 0);
    close(p->host);
    close(p->kernel);
}

static void host_sends(struct pair *p, uint16_t type, uint32_t generation)
{
    const struct kernel_frame f = {.type = type, .generation = generation};
    assert_int_equal(fd_send(p->host, &f, sizeof(f), NULL, 0), 0);
}

static void kernel_reads(struct pair *p, const char *text)
{
    char found[64];
    assert_int_equal(fd_read_full(p->kernel, found, strlen(text)), strlen(text));
    assert_memory_equal(found, text, strlen(text));
}

static void kernel_says(struct pair *p, const char *text, size_t len)
{
    struct error err;
    assert_int_equal(fd_write_all(p->kernel, text, len, &err), 0);
}

/* Reads one datagram; answers the type, or 0 at the end. */
static uint16_t host_reads(struct pair *p)
{
    static char frame[KERNEL_FRAME_MAX];
    struct kernel_frame f;
    ssize_t n = recv(p->host, frame, sizeof(frame), 0);
    if (n <= 0)
        return 0;
    memcpy(&f, frame, sizeof(f));
    return f.type;
}

static void test_carries(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p);
    kernel_says(&p, TEXT("READY 2 0\n{}"));
    assert_int_equal(host_reads(&p), KERNEL_READY);
    host_sends(&p, KERNEL_VARIABLES, 1);
    kernel_reads(&p, "VARIABLES 0 1\n");
    kernel_says(&p, TEXT("REPLY 2 1\n{}DONE 0 1 0\n"));
    assert_int_equal(host_reads(&p), KERNEL_REPLY);
    assert_int_equal(host_reads(&p), KERNEL_DONE);
    host_sends(&p, KERNEL_SYNC, 0);
    assert_int_equal(host_reads(&p), KERNEL_SYNCED);
    assert_int_equal(host_reads(&p), KERNEL_REPLY);
    assert_int_equal(host_reads(&p), KERNEL_DONE);
    shutdown(p.kernel, SHUT_WR);
    assert_int_equal(host_reads(&p), 0);
    pair_ends(&p);
}

static void test_host_does_not_listen(void **state)
{
    (void)state;
    static char text[MIB];
    struct pair p;
    size_t frames = 0;
    pair_open(&p);
    host_sends(&p, KERNEL_VARIABLES, 1);
    kernel_reads(&p, "VARIABLES 0 1\n");
    for (int i = 0; i < 40; i++) { /* none of these waits for the host */
        kernel_says(&p, TEXT("DATA 1048576 1 2 text/plain\n"));
        kernel_says(&p, text, sizeof(text));
    }
    kernel_says(&p, TEXT("DONE 0 1 0\n"));
    shutdown(p.kernel, SHUT_WR); /* and what was said is not lost with the kernel */
    uint16_t type, last = 0;
    while ((type = host_reads(&p)) != 0) {
        last = type;
        frames++;
    }
    assert_int_equal(last, KERNEL_DONE);
    assert_true(frames > 15 * 16);
    pair_ends(&p);
}

static void test_host_goes(void **state)
{
    (void)state;
    struct pair p;
    char byte;
    pair_open(&p);
    shutdown(p.host, SHUT_RDWR);
    assert_int_equal(read(p.kernel, &byte, 1), 0);
    pair_ends(&p);
}

static void test_nonsense_ends_it(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p);
    kernel_says(&p, TEXT("\x01\x02\x03\n"));
    assert_int_equal(host_reads(&p), 0);
    pair_ends(&p);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, line_cases, test_line);
    check_one(&check, "a line that does not end is refused", test_long_line);
    check_one(&check, "READY comes once, and nothing unasked beside it", test_ready);
    check_one(&check, "READY is not lost when a request comes meanwhile",
              test_ready_meets_a_request);
    check_one(&check, "an answer has the generation of its request", test_answer);
    check_one(&check, "a late answer is not taken for the next one", test_late_answer);
    check_one(&check, "long bodies are cut, with MORE on all pieces but the last", test_pieces);
    check_one(&check, "at most 16 MiB for a request, and a note", test_bound);
    check_one(&check, "a length announced is not a length allocated", test_huge_announcement);
    check_one(&check, "SYNC says again what no ACK took away", test_sync);
    check_one(&check, "SYNC ends a request that has no end", test_sync_in_a_request);
    check_one(&check, "what could not be sent yet outlives a request", test_unsent_stays);
    check_rows(&check, request_cases, test_request);
    check_one(&check, "EXECUTE names its streams, and DONE closes them", test_execute);
    check_one(&check, "frames that cannot be are refused, their fds closed", test_bad_frames);
    check_one(&check, "a request beyond the bound is answered at once", test_long_request);
    check_one(&check, "carries both ways", test_carries);
    check_one(&check, "a host that does not listen blocks no kernel", test_host_does_not_listen);
    check_one(&check, "ends with the host", test_host_goes);
    check_one(&check, "ends on nonsense", test_nonsense_ends_it);
    return check_run(&check, "shim");
}
