/* test_plane_quota.c - one sandbox more, or one too many: whose count, and which do not */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "core/plane_inside.h"

#define OWNER "key_a"

/* Each sandbox takes the same, by a kind of which the limits are all that matters. */
static const struct spawn_limits limits = {
    .cpu_milli = 500, .memory_bytes = 256 * MIB, .disk_bytes = 128 * MIB};
static int kind_is_here;
#define KIND ((struct catalog_kind *)(void *)&kind_is_here)

const struct spawn_limits *__wrap_catalog_limits(const struct catalog_kind *kind);

const struct spawn_limits *__wrap_catalog_limits(const struct catalog_kind *kind)
{
    assert_ptr_equal(kind, KIND);
    return &limits;
}

/* --- what there is ---------------------------------------------------------------------------- */

struct stage {
    struct plane plane;
    struct live lives[4];
    struct job jobs[4];
    size_t live_count, job_count;
};

static void put_live(struct stage *s, struct live live)
{
    struct live *l = &s->lives[s->live_count++];
    *l = live;
    snprintf(l->id, sizeof(l->id), "ses_%zu", s->live_count);
    map_add(&s->plane.sessions, &l->by_id, l->id);
}

static void put_job(struct stage *s, struct job job)
{
    struct job *j = &s->jobs[s->job_count++];
    *j = job;
    snprintf(j->id, sizeof(j->id), "exe_%zu", s->job_count);
    map_add(&s->plane.jobs, &j->by_id, j->id);
}

/* A session and a run of the owner; and all that looks like more of them. */
static void open_stage(struct stage *s)
{
    *s = (struct stage){0};
    put_live(s, (struct live){.owner = (char *)OWNER, .kind = KIND});
    put_live(s, (struct live){.owner = (char *)"key_b", .kind = KIND});
    put_live(s, (struct live){.owner = (char *)OWNER, .kind = KIND, .ended_ns = 1});
    put_live(s, (struct live){.owner = (char *)OWNER}); /* not made yet */
    put_job(s, (struct job){.owner = (char *)OWNER, .kind = KIND});
    put_job(s, (struct job){.owner = (char *)"", .kind = KIND});
    put_job(s, (struct job){.owner = (char *)OWNER, .kind = KIND, .is_told = true});
    put_job(s, (struct job){.owner = (char *)OWNER, .kind = KIND, .session_id = (char *)"ses_1"});
}

static void close_stage(struct stage *s)
{
    map_release(&s->plane.sessions);
    map_release(&s->plane.jobs);
}

/* --- whether there is room -------------------------------------------------------------------- */

struct quota_case {
    const char *name, *owner;
    struct store_amounts quota;
    const char *message; /* NULL: there is room */
};

static const struct quota_case quota_cases[] = {
    {"a quota of zeros is none", OWNER, {0}, NULL},
    {"the last one that fits is let pass",
     OWNER,
     {.sessions = 3, .cpu_milli = 1500, .memory_bytes = 768 * MIB, .disk_bytes = 384 * MIB},
     NULL},
    {"sandboxes are counted",
     OWNER,
     {.sessions = 2},
     "quota of the key: 2 sandboxes are in use, 1 more are above 2"},
    {"processors are counted",
     OWNER,
     {.sessions = 9, .cpu_milli = 1499},
     "quota of the key: 1000 milli-cores are in use, 500 more are above 1499"},
    {"memory is counted",
     OWNER,
     {.memory_bytes = 768 * MIB - 1},
     "quota of the key: 536870912 bytes of memory are in use, 268435456 more are above 805306367"},
    {"disk is counted",
     OWNER,
     {.disk_bytes = 384 * MIB - 1},
     "quota of the key: 268435456 bytes of disk are in use, 134217728 more are above 402653183"},
    {"another's sandboxes are another's", "key_b", {.sessions = 2}, NULL},
    {"who has none may have his first", "key_c", {.sessions = 1}, NULL},
    {"but not what alone is too much",
     "key_c",
     {.cpu_milli = 499},
     "quota of the key: 0 milli-cores are in use, 500 more are above 499"},
};

static void test_quota(void **state)
{
    const struct quota_case *c = *state;
    const struct plane_caller who = {.owner = c->owner, .quota = &c->quota};
    struct stage s;
    struct error err = {.msg = ""};
    open_stage(&s);
    assert_int_equal(plane_check_quota(&s.plane, &who, &limits, &err), c->message ? -1 : 0);
    if (c->message) {
        assert_string_equal(err.msg, c->message);
        assert_int_equal(err.code, ERROR_LIMIT);
        assert_string_equal(err.word, "quota_exceeded");
    }
    close_stage(&s);
}

static void test_no_quota(void **state)
{
    (void)state;
    struct stage s;
    struct error err;
    open_stage(&s);
    assert_int_equal(
        plane_check_quota(&s.plane, &(struct plane_caller){.owner = OWNER}, &limits, &err), 0);
    close_stage(&s);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, quota_cases, test_quota);
    check_one(&check, "who has no quota is not counted", test_no_quota);
    return check_run(&check, "plane_quota");
}
