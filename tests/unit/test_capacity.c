/* test_capacity.c - who is admitted, who is refused and with which words, and who gives way */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/capacity.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "check.h"
#include "core/machine.h"

#define SEATS 8

/* --- a machine of our own -------------------------------------------------------------------- */

static struct machine machine;
static int looks;
static bool is_blind;
static int64_t now_ns;

int __wrap_machine_read(struct machine *out, const char *root, struct error *err);
int64_t __wrap_clock_now_ns(void);

int __wrap_machine_read(struct machine *out, const char *root, struct error *err)
{
    assert_string_equal(root, "");
    looks++;
    if (is_blind)
        return error_set(err, ERROR_UNAVAILABLE, "cannot see");
    *out = machine;
    return 0;
}

int64_t __wrap_clock_now_ns(void)
{
    return now_ns;
}

static void pass_ms(int64_t ms)
{
    now_ns += ms * 1000000;
}

static int setup(void **state)
{
    (void)state;
    machine = (struct machine){.memory_bytes = 8 * GIB,
                               .available_bytes = 4 * GIB,
                               .pids_max = 32768,
                               .pids_now = 100,
                               .files_max = 20000};
    looks = 0;
    is_blind = false;
    now_ns = 1000000000;
    return 0;
}

static const struct spawn_limits limits = {.memory_bytes = 256 * MIB, .pids = 128};

static struct capacity *open_capacity(uint64_t max)
{
    struct capacity *c;
    struct error err;
    const struct capacity_order order = {.max_sandboxes = max};
    assert_int_equal(capacity_open(&c, &order, &err), 0);
    return c;
}

/* --- one by one ------------------------------------------------------------------------------ */

/* The rows change one thing of a machine on which there is room. */
struct refusal_case {
    const char *name;
    struct machine machine; /* 0: as ever */
    struct spawn_limits limits;
    uint64_t max, live;  /* live: seats that are taken before */
    const char *message; /* NULL: there is room */
    const char *hint;
};

static const struct refusal_case refusals[] = {
    {"there is room", {0}, {0}, 0, 0, NULL, NULL},
    {"the last of the sandboxes", {0}, {0}, 3, 2, NULL, NULL},
    {"one sandbox too many",
     {0},
     {0},
     3,
     3,
     "no room for another sandbox: sandboxes: 0 of 3 left, and it may need 1",
     "--max-sandboxes"},
    {"as many by themselves as memory holds idle ones",
     {.memory_bytes = 4 * MIB},
     {0},
     0,
     1,
     "no room for another sandbox: sandboxes: 0 of 1 left, and it may need 1",
     "--max-sandboxes"},
    {"just enough memory for its promise and the reserve",
     {.available_bytes = (512 + 256 + 2) * MIB},
     {0},
     0,
     0,
     NULL,
     NULL},
    {"a megabyte too little",
     {.available_bytes = (512 + 256 + 1) * MIB},
     {0},
     0,
     0,
     "no room for another sandbox: memory: 257M of 8G left, and it may need 258M",
     "--memory"},
    {"less than the reserve",
     {.available_bytes = 100 * MIB},
     {0},
     0,
     0,
     "no room for another sandbox: memory: 0 of 8G left, and it may need 258M",
     "--memory"},
    {"a promise beyond a quarter of the machine is a ceiling",
     {.available_bytes = 3 * GIB},
     {.memory_bytes = 64 * GIB},
     0,
     0,
     NULL,
     NULL},
    {"and needs that quarter",
     {.available_bytes = 2 * GIB},
     {.memory_bytes = 64 * GIB},
     0,
     0,
     "no room for another sandbox: memory: 1536M of 8G left, and it may need 2050M",
     "--memory"},
    {"few processes are left",
     {.pids_max = 1000, .pids_now = 700},
     {0},
     0,
     0,
     "no room for another sandbox: processes: 50 of 1000 left, and it may need 130",
     "kernel.pid_max"},
    {"just enough of them", {.pids_max = 1000, .pids_now = 620}, {0}, 0, 0, NULL, NULL},
    {"open files for one more", {.files_max = 16}, {0}, 0, 3, NULL, NULL},
    {"open files for none",
     {.files_max = 16},
     {0},
     0,
     4,
     "no room for another sandbox: open files: 0 of 16 left, and it may need 3",
     "ulimit -n"},
};

#define OR(value, otherwise) ((value) ? (value) : (otherwise))

static void apply(const struct refusal_case *row)
{
    const struct machine *m = &row->machine;
    machine = (struct machine){
        .memory_bytes = OR(m->memory_bytes, machine.memory_bytes),
        .available_bytes = OR(m->available_bytes, machine.available_bytes),
        .pids_max = OR(m->pids_max, machine.pids_max),
        .pids_now = OR(m->pids_now, machine.pids_now),
        .files_max = OR(m->files_max, machine.files_max),
    };
}

static void test_refusal(void **state)
{
    const struct refusal_case *row = *state;
    struct capacity_seat seats[SEATS] = {0}, seat = {0};
    struct error err = {.msg = ""};
    setup(NULL);
    apply(row);
    struct spawn_limits asked = limits;
    asked.memory_bytes = OR(row->limits.memory_bytes, asked.memory_bytes);
    struct capacity *c = open_capacity(row->max);
    for (size_t i = 0; i < row->live; i++)
        assert_int_equal(capacity_take(c, &seats[i], &limits, &err), 0);
    assert_int_equal(capacity_has_room(c, &asked), row->message == NULL);
    int status = capacity_take(c, &seat, &asked, &err);
    if (row->message) {
        assert_int_equal(status, -1);
        assert_int_equal(err.code, ERROR_LIMIT);
        assert_string_equal(err.msg, row->message);
        assert_non_null(strstr(err.hint, row->hint));
        assert_true(err.retry_ms > 0);
        assert_null(seat.capacity);
    } else {
        assert_int_equal(status, 0);
    }
    capacity_give(&seat);
    for (size_t i = 0; i < SEATS; i++)
        capacity_give(&seats[i]);
    capacity_free(c);
}

/* --- in time --------------------------------------------------------------------------------- */

static void test_looks(void **state)
{
    (void)state;
    struct capacity_seat seats[SEATS] = {0};
    struct error err;
    struct capacity *c = open_capacity(0);
    assert_int_equal(looks, 1);
    for (size_t i = 0; i < SEATS; i++) {
        pass_ms(10);
        assert_int_equal(capacity_take(c, &seats[i], &limits, &err), 0);
    }
    assert_int_equal(looks, 1);
    pass_ms(20);
    assert_true(capacity_has_room(c, &limits));
    assert_int_equal(looks, 2);
    for (size_t i = 0; i < SEATS; i++)
        capacity_give(&seats[i]);
    capacity_free(c);
}

/* Room for two idle ones and a promise: the figures do not show who came since. */
static void test_unseen(void **state)
{
    (void)state;
    struct capacity_seat seats[3] = {0};
    struct error err;
    machine.available_bytes = (512 + 256 + 4) * MIB;
    struct capacity *c = open_capacity(0);
    assert_int_equal(capacity_take(c, &seats[0], &limits, &err), 0);
    assert_int_equal(capacity_take(c, &seats[1], &limits, &err), 0);
    assert_int_equal(capacity_take(c, &seats[2], &limits, &err), -1);
    pass_ms(200); /* the new figures contain none of them: they are still being made */
    assert_false(capacity_has_room(c, &limits));
    capacity_settle(&seats[0]);
    capacity_settle(&seats[1]);
    pass_ms(200); /* now they would, and the machine has as much as before */
    assert_true(capacity_has_room(c, &limits));
    machine.available_bytes -= 4 * MIB;
    pass_ms(200);
    assert_false(capacity_has_room(c, &limits));
    capacity_give(&seats[0]); /* counts at once, before the machine tells */
    assert_true(capacity_has_room(c, &limits));
    capacity_give(&seats[1]);
    capacity_free(c);
}

static void test_blind(void **state)
{
    (void)state;
    struct capacity *c;
    struct capacity_seat seat = {0};
    struct error err;
    const struct capacity_order order = {0};
    is_blind = true;
    assert_int_equal(capacity_open(&c, &order, &err), -1);
    assert_int_equal(err.code, ERROR_UNAVAILABLE);
    is_blind = false;
    c = open_capacity(0);
    is_blind = true;
    pass_ms(200);
    assert_int_equal(capacity_take(c, &seat, &limits, &err), -1);
    assert_int_equal(err.code, ERROR_UNAVAILABLE);
    assert_false(capacity_has_room(c, &limits));
    capacity_free(c);
}

static void test_none(void **state)
{
    (void)state;
    struct capacity_seat seat = {0};
    struct error err;
    assert_int_equal(capacity_take(NULL, &seat, &limits, &err), 0);
    assert_true(capacity_has_room(NULL, &limits));
    capacity_settle(&seat);
    capacity_give(&seat);
    assert_int_equal(looks, 0);
}

static void test_twice(void **state)
{
    (void)state;
    struct capacity_seat seat = {0};
    struct capacity_info info;
    struct error err;
    struct capacity *c = open_capacity(7);
    assert_int_equal(capacity_take(c, &seat, &limits, &err), 0);
    capacity_settle(&seat);
    capacity_settle(&seat);
    capacity_get_info(c, &info);
    assert_int_equal(info.live, 1);
    assert_int_equal(info.max_sandboxes, 7);
    capacity_give(&seat);
    capacity_give(&seat);
    capacity_get_info(c, &info);
    assert_int_equal(info.live, 0);
    capacity_free(c);
}

/* --- giving way ------------------------------------------------------------------------------ */

struct stock {
    struct capacity_seat seats[SEATS];
    size_t count;
};

static bool on_yield(void *ctx)
{
    struct stock *stock = ctx;
    if (stock->count == 0)
        return false;
    capacity_give(&stock->seats[--stock->count]);
    return true;
}

static void fill(struct stock *stock, struct capacity *c, size_t count)
{
    struct error err;
    while (stock->count < count)
        assert_int_equal(capacity_take(c, &stock->seats[stock->count++], &limits, &err), 0);
    capacity_add_yielder(c, on_yield, stock);
}

static void test_yield(void **state)
{
    (void)state;
    struct stock one = {0}, two = {0};
    struct capacity_seat seats[5] = {0};
    struct error err;
    struct capacity *c = open_capacity(4);
    fill(&one, c, 2);
    fill(&two, c, 2);
    assert_false(capacity_has_room(c, &limits)); /* who only asks makes nobody go */
    assert_int_equal(one.count + two.count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(capacity_take(c, &seats[i], &limits, &err), 0);
        assert_int_equal(one.count + two.count, 3 - i); /* one at a time, no more than needed */
    }
    assert_int_equal(capacity_take(c, &seats[4], &limits, &err), -1);
    assert_int_equal(err.code, ERROR_LIMIT);
    for (size_t i = 0; i < 4; i++)
        capacity_give(&seats[i]);
    capacity_free(c);
}

static void test_yield_for_memory(void **state)
{
    (void)state;
    struct stock stock = {0};
    struct capacity_seat seat = {0};
    struct error err;
    struct capacity *c = open_capacity(0);
    fill(&stock, c, 4);
    for (size_t i = 0; i < stock.count; i++)
        capacity_settle(&stock.seats[i]);
    machine.available_bytes = (512 + 256 - 2) * MIB; /* two of them must go */
    pass_ms(200);
    assert_int_equal(capacity_take(c, &seat, &limits, &err), 0);
    assert_int_equal(stock.count, 2);
    capacity_remove_yielder(c, &stock);
    machine.available_bytes = 0;
    pass_ms(200);
    capacity_give(&seat);
    assert_int_equal(capacity_take(c, &seat, &limits, &err), -1);
    assert_int_equal(stock.count, 2); /* nobody asked it any more */
    while (on_yield(&stock))
        ;
    capacity_free(c);
}

/* All of them together hold less than what is lacking: they stay. */
static void test_yield_in_vain(void **state)
{
    (void)state;
    struct stock stock = {0};
    struct capacity_seat seat = {0};
    struct error err;
    struct capacity *c = open_capacity(0);
    fill(&stock, c, 4);
    for (size_t i = 0; i < stock.count; i++)
        capacity_settle(&stock.seats[i]);
    machine.available_bytes = (512 + 256 + 2 - 9) * MIB;
    pass_ms(200);
    assert_int_equal(capacity_take(c, &seat, &limits, &err), -1);
    assert_int_equal(err.code, ERROR_LIMIT);
    assert_int_equal(stock.count, 4);
    while (on_yield(&stock))
        ;
    capacity_free(c);
}

int main(void)
{
    static const struct {
        const char *name;
        void (*test)(void **state);
    } tests[] = {
        {"looks at the machine at most ten times a second", test_looks},
        {"counts those that the figures do not show", test_unseen},
        {"a machine that tells nothing carries nothing", test_blind},
        {"without a capacity there is always room", test_none},
        {"a seat is given back once", test_twice},
        {"parked ones give way before anybody is refused", test_yield},
        {"as many of them as the memory asks for", test_yield_for_memory},
        {"but none where that would not help", test_yield_in_vain},
    };
    struct check check = {0};
    check_rows(&check, refusals, test_refusal);
    for (size_t i = 0; i < ARRAY_LEN(tests); i++)
        check_one(&check, tests[i].name, tests[i].test);
    for (size_t i = 0; i < check.count; i++)
        check.tests[i].setup_func = setup;
    return check_run(&check, "capacity");
}
