/* pages.c - how much one sandbox tells another through pages of a file of the image, which both
 * have from one page cache; run by bench/pages
 *
 *   pages WAY send|receive FILE SECONDS
 *
 * futex: a word of a page that both have mapped is waited on by one and woken by the other.
 * mapped: whether anybody else has a page mapped stands in /proc/self/pagemap.
 * cached: whether a page was in memory is told by the count of major faults. Once: then it is.
 *
 * What is sent are numbers that both draw alike. The sender of the first two goes on until it is
 * ended. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "guard.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#define PAGE        4096ul
#define SYMBOLS     128 /* what futex_waitv() takes */
#define SYMBOL_BITS 7
#define ACK         512 /* words of the first page */
#define FRAME       1024
#define TAKEN       0ul /* the page by which the receiver says that it has looked */
#define HERE        1ul /* the sender's, that a frame is there; which begins behind it */
#define CACHED_MAX  4096
#define EXCLUSIVE   (1ull << 56) /* of an entry of pagemap: nobody else has this page mapped */
#define CALL_WAITV  449

static const uint32_t *words;
static size_t page_count;
static int file, pagemap;
static uint64_t state = 88172645463325252ull; /* both draw the same numbers */
static double begun, seconds;
static size_t bit_count, wrong;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void fail(const char *what)
{
    say(what, -1);
    exit(1);
}

static void *map(size_t first, size_t count, int flags)
{
    void *at = mmap(NULL, count * PAGE, PROT_READ, flags, file, (off_t)(first * PAGE));
    if (at == MAP_FAILED)
        fail("mmap");
    madvise(at, count * PAGE, MADV_RANDOM); /* nothing is read that was not asked for */
    return at;
}

static uint8_t touch(const void *at)
{
    return *(const volatile uint8_t *)at;
}

/* --- by futexes ------------------------------------------------------------------------------- */

static long futex(unsigned word, int op, const struct timespec *wait)
{
    return syscall(SYS_futex, words + word, op, op == FUTEX_WAKE ? 1 : words[word], wait, NULL, 0);
}

/* Until somebody was there to be woken. */
static void wake(unsigned word)
{
    while (futex(word, FUTEX_WAKE, NULL) == 0)
        sched_yield();
}

static void wait_for(unsigned word)
{
    while (futex(word, FUTEX_WAIT, NULL) < 0) {
        if (errno != EINTR)
            fail("wait");
    }
}

static unsigned wait_for_any(void)
{
    struct {
        uint64_t value, address;
        uint32_t flags, reserved;
    } list[SYMBOLS] = {{0}};
    for (unsigned i = 0; i < SYMBOLS; i++) {
        list[i].value = words[i];
        list[i].address = (uintptr_t)(words + i);
        list[i].flags = 2; /* 32 bits, and not private */
    }
    long which;
    while ((which = syscall(CALL_WAITV, list, SYMBOLS, 0, NULL, 0)) < 0) {
        if (errno != EINTR && errno != EAGAIN)
            fail("waitv");
    }
    return (unsigned)which;
}

static bool send_by_futex(void)
{
    wake((unsigned)(draw() % SYMBOLS));
    wait_for(ACK);
    return true;
}

static bool receive_by_futex(void)
{
    unsigned got = wait_for_any(), sent = (unsigned)(draw() % SYMBOLS);
    wrong += (size_t)__builtin_popcount(got ^ sent);
    bit_count += SYMBOL_BITS;
    wake(ACK);
    return true;
}

/* --- by who has a page mapped ----------------------------------------------------------------- */

static const char *watched; /* what the other one maps besides, and we never do twice */
static void *own_flag;

static void look(uint64_t *into, size_t first, size_t count)
{
    off_t at = (off_t)(((uintptr_t)watched / PAGE + first) * sizeof(*into));
    if (pread(pagemap, into, count * sizeof(*into), at) != (ssize_t)(count * sizeof(*into)))
        fail("pagemap");
}

/* The first page that is watched is the other one's flag. */
static void wait_shown(bool is)
{
    uint64_t entry;
    do {
        sched_yield();
        look(&entry, 0, 1);
    } while (!(entry & EXCLUSIVE) != is);
}

static void show(size_t flag, bool is)
{
    if (own_flag)
        munmap(own_flag, PAGE);
    own_flag = NULL;
    if (is) {
        own_flag = map(flag, 1, MAP_SHARED);
        touch(own_flag);
    }
}

static bool send_by_map(void)
{
    static bool phase;
    void *place = mmap(NULL, FRAME * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < FRAME; i++) {
        if (!(draw() & 1))
            continue;
        void *at = (char *)place + i * PAGE;
        if (mmap(at, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, file,
                 (off_t)((HERE + 1 + i) * PAGE)) == MAP_FAILED)
            fail("mmap");
        touch(at);
    }
    phase = !phase;
    show(HERE, phase);
    wait_shown(phase);
    munmap(place, FRAME * PAGE);
    return true;
}

static bool receive_by_map(void)
{
    static bool phase;
    static uint64_t entries[FRAME];
    phase = !phase;
    wait_shown(phase);
    look(entries, 1, FRAME);
    for (size_t i = 0; i < FRAME; i++)
        wrong += (entries[i] & EXCLUSIVE ? 0u : 1u) != (draw() & 1);
    bit_count += FRAME;
    show(TAKEN, phase);
    return true;
}

/* --- by what is in memory --------------------------------------------------------------------- */

static long major_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_majflt;
}

static size_t cached_count(void)
{
    return page_count - 1 < CACHED_MAX ? page_count - 1 : CACHED_MAX;
}

/* A futex says when: that a page is in memory has no clock. */
static bool send_by_cache(void)
{
    size_t count = cached_count();
    char *at = map(1, count, MAP_SHARED);
    for (size_t i = 0; i < count; i++) {
        if (draw() & 1)
            touch(at + i * PAGE);
    }
    wake(0);
    return false;
}

static bool receive_by_cache(void)
{
    size_t count = cached_count();
    wait_for(0);
    char *at = map(1, count, MAP_SHARED);
    for (size_t i = 0; i < count; i++) {
        long before = major_faults();
        touch(at + i * PAGE);
        wrong += (major_faults() == before) != (draw() & 1);
    }
    bit_count += count;
    return false;
}

/* --- either side ------------------------------------------------------------------------------ */

static const struct way {
    const char *name;
    bool (*send)(void), (*receive)(void);
} ways[] = {
    {"futex", send_by_futex, receive_by_futex},
    {"mapped", send_by_map, receive_by_map},
    {"cached", send_by_cache, receive_by_cache},
};

static void run(const struct way *way, bool sends)
{
    alarm((unsigned)seconds + 20); /* the other one may be gone */
    begun = now();
    while ((sends || now() - begun < seconds) && (sends ? way->send() : way->receive()))
        continue;
    double took = now() - begun;
    fact("bits", "%zu", bit_count);
    fact("wrong", "%zu", wrong);
    fact("bits_per_second", "%.0f", (double)bit_count / took);
}

int main(int argc, char **argv)
{
    struct stat st;
    guard();
    if (argc != 5 || (file = open(argv[3], O_RDONLY)) < 0 || fstat(file, &st) < 0)
        fail("file");
    page_count = (size_t)st.st_size / PAGE;
    pagemap = open("/proc/self/pagemap", O_RDONLY);
    seconds = strtod(argv[4], NULL);
    words = map(0, 1, MAP_SHARED); /* not in memory yet, and nobody's until it is touched */
    if (strcmp(argv[1], "mapped") != 0)
        watched = NULL;
    else if (strcmp(argv[2], "send") == 0)
        watched = map(TAKEN, 1, MAP_SHARED | MAP_POPULATE);
    else
        watched = map(HERE, 1 + FRAME, MAP_SHARED | MAP_POPULATE);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (strcmp(ways[i].name, argv[1]) == 0)
            run(&ways[i], strcmp(argv[2], "send") == 0);
    }
    return finish();
}
