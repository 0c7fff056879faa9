/* shim.c - the two translators, and the loop that carries
 *
 * Nothing in here waits for one side while the other may have something to say: the channel and the
 * stream do not block, and what cannot be passed on is kept up to a bound. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "init/shim.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "base/memory.h"
#include "wire/kernel.h"

#define HEADER_BYTES sizeof(struct kernel_frame)
#define NOTE_BYTES   1024 /* what the note that something was cut, and DONE, may take */
#define WORDS_MAX    5

static const char cut_note[] = "text/plain\0[more than 16 MiB of results: the rest was dropped]";
static const char too_long[] = "{\"name\": \"TooLarge\", \"value\": \"more than 16 MiB of code\", "
                               "\"traceback\": \"\"}";

/* --- buffers --------------------------------------------------------------------------------- */

static void append(struct shim_buffer *b, const void *bytes, size_t len)
{
    if (len == 0)
        return;
    if (b->len + len > b->cap) {
        b->cap = MAX(b->len + len, MAX(2 * b->cap, 4 * KIB));
        b->data = xrealloc(b->data, b->cap);
    }
    memcpy(b->data + b->len, bytes, len);
    b->len += len;
}

/* Forgets what has been sent; gives memory back when nothing is left. */
static void forget_sent(struct shim_buffer *b)
{
    b->len -= b->sent;
    if (b->len == 0 && b->cap > 64 * KIB) {
        free(b->data);
        *b = (struct shim_buffer){0};
        return;
    }
    if (b->len > 0)
        memmove(b->data, b->data + b->sent, b->len);
    b->sent = 0;
}

/* On an ACK, or the request that implies it. What could not be sent yet stays. */
static void forget_answer(struct shim *s)
{
    s->whole -= s->to_host.sent;
    forget_sent(&s->to_host);
}

static void close_streams(struct shim *s)
{
    for (size_t i = 0; i < SHIM_STREAMS; i++) {
        if (s->streams[i] >= 0)
            close(s->streams[i]);
        s->streams[i] = -1;
    }
}

void shim_init(struct shim *s)
{
    *s = (struct shim){.streams = {-1, -1, -1}};
}

void shim_release(struct shim *s)
{
    close_streams(s);
    free(s->to_kernel.data);
    free(s->to_host.data);
    free(s->request.data);
    shim_init(s);
}

/* --- answers: frames for the host ------------------------------------------------------------ */

static void frame_begin(struct shim *s)
{
    const struct kernel_frame header = {.type = s->answer_type,
                                        .flags = s->answer_flags,
                                        .generation =
                                            s->answer_type == KERNEL_READY ? 0 : s->generation};
    append(&s->to_host, &header, sizeof(header));
}

static void frame_end(struct shim *s, uint16_t more)
{
    struct kernel_frame header;
    char *at = s->to_host.data + s->whole; /* need not be aligned */
    memcpy(&header, at, sizeof(header));
    header.length = (uint32_t)(s->to_host.len - s->whole - sizeof(header));
    header.flags |= more;
    memcpy(at, &header, sizeof(header));
    s->whole = s->to_host.len;
}

/* A full frame waits for the next byte: only that one tells that there is MORE. */
static void frame_put(struct shim *s, const char *bytes, size_t len)
{
    while (len > 0) {
        size_t room = s->whole + KERNEL_FRAME_MAX - s->to_host.len;
        if (room == 0) {
            frame_end(s, KERNEL_MORE);
            frame_begin(s);
            continue;
        }
        size_t n = MIN(room, len);
        append(&s->to_host, bytes, n);
        bytes += n;
        len -= n;
    }
}

static void frame_whole(struct shim *s, uint16_t type, uint16_t flags, const void *body, size_t len)
{
    s->answer_type = type;
    s->answer_flags = flags;
    frame_begin(s);
    frame_put(s, body, len);
    frame_end(s, 0);
    s->answer_type = 0;
}

static void finish(struct shim *s, int32_t code)
{
    if (s->is_cut)
        frame_whole(s, KERNEL_DATA, KERNEL_FIRST | KERNEL_LAST, cut_note, sizeof(cut_note) - 1);
    close_streams(s); /* before DONE: with it, output is complete */
    frame_whole(s, KERNEL_DONE, 0, &code, sizeof(code));
    s->is_busy = false;
}

/* --- answers: lines of the kernel ------------------------------------------------------------ */

/* Decimal digits, perhaps behind a minus; no more than `max` on either side of 0. */
static bool parse_number(const char *word, int64_t max, int64_t *out)
{
    int64_t value = 0;
    bool is_negative = *word == '-';
    word += is_negative;
    if (*word == '\0')
        return false;
    for (; *word; word++) {
        if (*word < '0' || *word > '9')
            return false;
        value = value * 10 + (*word - '0');
        if (value > max)
            return false;
    }
    *out = is_negative ? -value : value;
    return true;
}

/* Those that are not there are empty. */
static size_t split(char *line, char *words[WORDS_MAX])
{
    static char none[] = "";
    size_t count = 0;
    char *rest = line;
    for (char *word; count < WORDS_MAX && (word = strsep(&rest, " "));)
        words[count++] = word;
    for (size_t i = count; i < WORDS_MAX; i++)
        words[i] = none;
    return rest ? 0 : count; /* 0: too many */
}

static const struct {
    const char *name;
    size_t words;
} answers[] = {
    /* NOLINTNEXTLINE(misc-redundant-expression): the first of a table */
    [KERNEL_READY - KERNEL_READY] = {"READY", 3}, /* length, generation */
    [KERNEL_DATA - KERNEL_READY] = {"DATA", 5},   /* length, generation, flags, MIME type */
    [KERNEL_ERROR - KERNEL_READY] = {"ERROR", 3}, /* length, generation */
    [KERNEL_REPLY - KERNEL_READY] = {"REPLY", 3}, /* length, generation */
    [KERNEL_DONE - KERNEL_READY] = {"DONE", 4},   /* 0, generation, code */
};

static uint16_t find_answer(const char *name, size_t words)
{
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        if (strcmp(answers[i].name, name) == 0 && answers[i].words == words)
            return (uint16_t)(KERNEL_READY + i);
    }
    return 0;
}

/* What is said unasked is dropped, and so is the late answer to an earlier request. */
static bool is_asked(const struct shim *s, uint16_t type, int64_t generation)
{
    return type == KERNEL_READY ? !s->has_greeted : s->is_busy && generation == s->generation;
}

static bool has_room(struct shim *s, uint64_t body)
{
    uint64_t cost = body + (body / KERNEL_BODY_MAX + 1) * HEADER_BYTES;
    if (s->to_host.len + cost > SHIM_ANSWER_MAX - NOTE_BYTES) {
        s->is_cut = true;
        return false;
    }
    return true;
}

static void end_answer(struct shim *s)
{
    if (s->answer_type)
        frame_end(s, 0);
    s->answer_type = 0;
}

static bool begin_answer(struct shim *s)
{
    char *words[WORDS_MAX];
    int64_t length, generation, code = 0, flags = 0;
    size_t count = split(s->line, words);
    uint16_t type = count > 0 ? find_answer(words[0], count) : 0;
    if (!type || !parse_number(words[1], UINT32_MAX, &length) || length < 0 ||
        !parse_number(words[2], UINT32_MAX, &generation))
        return false;
    bool is_taken = is_asked(s, type, generation);
    if (type == KERNEL_DONE) {
        if (length != 0 || !parse_number(words[3], INT32_MAX, &code))
            return false;
        if (is_taken)
            finish(s, (int32_t)code);
        return true;
    }
    size_t mime_len = 0;
    if (type == KERNEL_DATA) {
        const int most = KERNEL_FIRST | KERNEL_MAIN | KERNEL_LAST;
        if (!parse_number(words[3], most, &flags) || flags < 0 || flags & KERNEL_MORE)
            return false;
        mime_len = strlen(words[4]) + 1;
    }
    s->body_left = (uint64_t)length;
    s->answer_type = is_taken && has_room(s, s->body_left + mime_len) ? type : 0;
    if (s->answer_type) {
        s->answer_flags = (uint16_t)flags;
        s->has_greeted |= type == KERNEL_READY;
        frame_begin(s);
        if (mime_len)
            frame_put(s, words[4], mime_len);
    }
    if (s->body_left == 0)
        end_answer(s);
    return true;
}

/* Bytes of a header line; *used says how many. False when the line cannot be. */
static bool take_line(struct shim *s, const char *bytes, size_t len, size_t *used)
{
    const char *end = memchr(bytes, '\n', len);
    size_t n = end ? (size_t)(end - bytes) : len;
    if (n >= sizeof(s->line) - s->line_len || memchr(bytes, '\0', n))
        return false;
    memcpy(s->line + s->line_len, bytes, n);
    s->line_len += n;
    *used = n + (end != NULL);
    if (!end)
        return true;
    s->line[s->line_len] = '\0';
    s->line_len = 0;
    return begin_answer(s);
}

bool shim_take_bytes(struct shim *s, const char *bytes, size_t len)
{
    while (len > 0) {
        size_t n = MIN(len, s->body_left);
        if (s->body_left == 0) {
            if (!take_line(s, bytes, len, &n))
                return false;
        } else {
            if (s->answer_type)
                frame_put(s, bytes, n);
            s->body_left -= n;
            if (s->body_left == 0)
                end_answer(s);
        }
        bytes += n;
        len -= n;
    }
    return true;
}

/* --- requests -------------------------------------------------------------------------------- */

/* Bodies of two parts with a NUL between them: one is a word of the line, the other the body. */
enum word_place { WORD_NONE, WORD_FIRST, WORD_LAST };

static const struct {
    const char *name;
    enum word_place word;
} requests[] = {
    [KERNEL_SET] = {"SET", WORD_FIRST},        /* name */
    [KERNEL_EXECUTE] = {"EXECUTE", WORD_NONE}, /* the streams instead */
    [KERNEL_VARIABLES] = {"VARIABLES", WORD_NONE},
    [KERNEL_VARIABLE] = {"VARIABLE", WORD_LAST},  /* format */
    [KERNEL_COMPLETE] = {"COMPLETE", WORD_FIRST}, /* cursor */
    [KERNEL_IS_WHOLE] = {"IS_WHOLE", WORD_NONE},
};

static bool is_word(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    }
    return len > 0 && len <= 32;
}

static bool pass_on(struct shim *s, uint32_t generation)
{
    const char *body = s->request.data, *word = "";
    size_t len = s->request.len, word_len = 0;
    enum word_place place = requests[s->type].word;
    const char *nul = place == WORD_NONE || len == 0 ? NULL : memchr(body, '\0', len);
    if (place != WORD_NONE && !nul)
        return false;
    if (nul) {
        size_t first = (size_t)(nul - body), last = len - first - 1;
        word = place == WORD_FIRST ? body : nul + 1;
        word_len = place == WORD_FIRST ? first : last;
        body = place == WORD_FIRST ? nul + 1 : body;
        len = place == WORD_FIRST ? last : first;
        if (!is_word(word, word_len))
            return false;
    }
    char line[SHIM_LINE_MAX];
    int n = snprintf(line, sizeof(line), "%s %zu %u%s%.*s", requests[s->type].name, len, generation,
                     word_len ? " " : "", (int)word_len, word);
    for (size_t i = 0; i < SHIM_STREAMS && s->type == KERNEL_EXECUTE; i++)
        n += snprintf(line + n, sizeof(line) - (size_t)n, " /proc/%d/fd/%d", getpid(),
                      s->streams[i]);
    line[n++] = '\n';
    append(&s->to_kernel, line, (size_t)n);
    append(&s->to_kernel, body ? body : "", len);
    return true;
}

/* A request has come in whole. */
static bool take_request(struct shim *s, uint32_t generation)
{
    if (s->type != KERNEL_SET) {
        forget_answer(s);
        s->generation = generation;
        s->is_busy = true;
        s->is_cut = false;
    }
    /* A SET has no answer; and none fits into the middle of a READY that still comes. */
    bool is_good = !s->is_too_long || (s->type != KERNEL_SET && !s->answer_type);
    if (s->is_too_long && is_good) {
        frame_whole(s, KERNEL_ERROR, 0, too_long, sizeof(too_long) - 1);
        finish(s, 1);
    } else if (is_good) {
        is_good = pass_on(s, generation);
    }
    s->request.sent = s->request.len;
    forget_sent(&s->request);
    s->is_too_long = false;
    s->type = 0;
    return is_good;
}

static bool take_streams(struct shim *s, const int *fds, size_t count)
{
    if (count != SHIM_STREAMS || s->is_busy)
        return false;
    close_streams(s);
    memcpy(s->streams, fds, sizeof(s->streams));
    return true;
}

static bool take_piece(struct shim *s, const struct kernel_frame *f, const char *body)
{
    if (f->type >= ARRAY_LEN(requests) || !requests[f->type].name || s->is_busy ||
        (s->type && s->type != f->type))
        return false;
    s->type = f->type;
    s->is_too_long |= s->request.len + f->length > SHIM_REQUEST_MAX;
    if (!s->is_too_long)
        append(&s->request, body, f->length);
    return f->flags & KERNEL_MORE || take_request(s, f->generation);
}

/* For another host: what it did not ask itself begins anew, a request that has no end is none. */
static void begin_anew(struct shim *s)
{
    if (s->type == KERNEL_EXECUTE)
        close_streams(s);
    s->request.sent = s->request.len;
    forget_sent(&s->request);
    s->is_too_long = false;
    s->type = 0;
    s->owes_synced = true;
    s->to_host.sent = 0;
}

bool shim_take_frame(struct shim *s, const void *frame, size_t len, const int *fds, size_t count)
{
    struct kernel_frame f;
    bool has_streams = false, is_good = len >= sizeof(f);
    if (is_good) {
        memcpy(&f, frame, sizeof(f));
        is_good = f.length == len - sizeof(f) && !(f.flags & ~KERNEL_MORE);
    }
    if (is_good && f.type == KERNEL_EXECUTE && !s->type)
        is_good = has_streams = take_streams(s, fds, count);
    for (size_t i = 0; i < count && !has_streams; i++)
        close(fds[i]);
    if (!is_good)
        return false;
    if (f.type == KERNEL_SYNC) {
        begin_anew(s);
    } else if (f.type == KERNEL_ACK) {
        if (f.generation == s->generation && !s->is_busy)
            forget_answer(s);
    } else {
        return take_piece(s, &f, (const char *)frame + sizeof(f));
    }
    return true;
}

/* --- the loop -------------------------------------------------------------------------------- */

static char io_buffer[KERNEL_FRAME_MAX];

static bool is_later(void)
{
    return errno == EAGAIN || errno == EINTR;
}

/* Each of these answers false when its side has ended. */

static bool receive_frame(struct shim *s, int channel)
{
    int fds[FD_PASS_MAX];
    size_t count = 0;
    ssize_t n = fd_recv(channel, io_buffer, sizeof(io_buffer), fds, &count);
    if (n <= 0)
        return n < 0 && is_later();
    return shim_take_frame(s, io_buffer, (size_t)n, fds, count);
}

static bool receive_bytes(struct shim *s, int kernel)
{
    ssize_t n = recv(kernel, io_buffer, sizeof(io_buffer), 0);
    if (n <= 0)
        return n < 0 && is_later();
    return shim_take_bytes(s, io_buffer, (size_t)n);
}

static bool send_synced(struct shim *s, int channel)
{
    const struct kernel_frame synced = {.type = KERNEL_SYNCED, .generation = s->generation};
    if (fd_send(channel, &synced, sizeof(synced), NULL, 0) < 0)
        return false;
    s->owes_synced = false;
    return true;
}

static bool send_frames(struct shim *s, int channel)
{
    if (s->owes_synced && !send_synced(s, channel))
        return is_later();
    while (s->to_host.sent < s->whole) {
        const char *at = s->to_host.data + s->to_host.sent;
        struct kernel_frame header;
        memcpy(&header, at, sizeof(header));
        if (fd_send(channel, at, sizeof(header) + header.length, NULL, 0) < 0)
            return is_later();
        s->to_host.sent += sizeof(header) + header.length;
    }
    return true;
}

static bool send_bytes(struct shim *s, int kernel)
{
    struct shim_buffer *b = &s->to_kernel;
    ssize_t n = send(kernel, b->data + b->sent, b->len - b->sent, MSG_NOSIGNAL);
    if (n < 0)
        return is_later();
    b->sent += (size_t)n;
    if (b->sent == b->len)
        forget_sent(b);
    return true;
}

/* The kernel has ended: what it said before is still the host's. */
static void say_the_rest(struct shim *s, int channel)
{
    struct pollfd p = {.fd = channel, .events = POLLOUT};
    close_streams(s);
    while (s->to_host.sent < s->whole && send_frames(s, channel) && poll(&p, 1, -1) >= 0)
        ;
}

static void carry(struct shim *s, int channel, int kernel)
{
    struct pollfd p[2] = {{.fd = channel}, {.fd = kernel}};
    for (;;) {
        bool has_bytes = s->to_kernel.sent < s->to_kernel.len;
        if (has_bytes && !send_bytes(s, kernel))
            return say_the_rest(s, channel);
        if (!send_frames(s, channel))
            return;
        has_bytes = s->to_kernel.sent < s->to_kernel.len;
        /* A host that sends faster than the kernel reads waits. */
        p[0].events = (short)((s->to_kernel.len < SHIM_REQUEST_MAX ? POLLIN : 0) |
                              (s->to_host.sent < s->whole || s->owes_synced ? POLLOUT : 0));
        p[1].events = (short)(POLLIN | (has_bytes ? POLLOUT : 0));
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return;
        if (p[0].revents & ~POLLOUT && !receive_frame(s, channel))
            return;
        if (p[1].revents & ~POLLOUT && !receive_bytes(s, kernel))
            return say_the_rest(s, channel);
    }
}

void shim_run(int channel_fd, int kernel_fd)
{
    struct shim s;
    shim_init(&s);
    if (fd_set_nonblock(channel_fd) == 0 && fd_set_nonblock(kernel_fd) == 0)
        carry(&s, channel_fd, kernel_fd);
    shim_release(&s);
    close(channel_fd);
    close(kernel_fd);
}
