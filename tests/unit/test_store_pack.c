/* test_store_pack.c - every type of record there and back; what is cut or doubled is none */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"
#include "store/store_field.h"

static const struct store_artifact left[] = {
    {.execution_id = "exe_1", .path = "a", .place = "there", .size = 5, .sha256 = {"12", 2}},
    {.execution_id = "exe_1", .path = "b", .modified_ns = -7},
};

static const struct store_execution whole = {
    .id = "exe_1",
    .session_id = NULL,
    .owner = "",
    .state = STORE_EXECUTION_TIMEOUT,
    .language = "python",
    .epoch = 3,
    .is_idempotent = true,
    .created_ns = 1,
    .ended_ns = INT64_MAX,
    .doc = "{}",
    .artifacts = {left, 2},
};

static struct strbuf packed_of(const struct store_execution *e)
{
    struct strbuf b;
    strbuf_init(&b, 1 * MIB);
    store_record_pack(&b, &store_type_execution, e);
    return b;
}

static void test_round(void **state)
{
    (void)state;
    scoped_strbuf struct strbuf b = packed_of(&whole);
    struct store_execution *e = store_record_unpack(&store_type_execution, b.data, b.len);
    assert_non_null(e);
    assert_string_equal(e->id, "exe_1");
    assert_null(e->session_id);
    assert_string_equal(e->owner, "");
    assert_int_equal(e->state, STORE_EXECUTION_TIMEOUT);
    assert_true(e->is_idempotent);
    assert_int_equal(e->epoch, 3);
    assert_true(e->ended_ns == INT64_MAX);
    assert_string_equal(e->doc, "{}");
    assert_int_equal(e->artifacts.count, 2);
    const struct store_artifact *items = e->artifacts.items;
    assert_string_equal(items[0].place, "there");
    assert_int_equal(items[0].sha256.len, 2);
    assert_memory_equal(items[0].sha256.data, "12", 2);
    assert_null(items[1].sha256.data);
    assert_int_equal(items[1].modified_ns, -7);
    scoped_strbuf struct strbuf again = packed_of(e);
    assert_int_equal(again.len, b.len);
    assert_memory_equal(again.data, b.data, b.len);
    store_record_free(&store_type_execution, e);
}

/* Cut between two fields it may be a record of a version that had fewer; it is never more. */
static void test_cut(void **state)
{
    (void)state;
    scoped_strbuf struct strbuf b = packed_of(&whole);
    size_t good = 0;
    for (size_t len = 0; len < b.len; len++) {
        scoped_free char *part = xmalloc(len + 1); /* of this size, for the sanitizer */
        memcpy(part, b.data, len);
        struct store_execution *e = store_record_unpack(&store_type_execution, part, len);
        good += e != NULL;
        store_record_free(&store_type_execution, e);
    }
    assert_int_equal(good, 12); /* of 14 items: with its id and owner it is one */
}

static void test_other_version(void **state)
{
    (void)state;
    scoped_strbuf struct strbuf b = packed_of(&whole);
    const struct {
        uint32_t name_len, len;
        char text[8];
    } news = {4, 4, ":newabcd"};
    strbuf_add(&b, &news, 16);
    struct store_execution *e = store_record_unpack(&store_type_execution, b.data, b.len);
    assert_non_null(e); /* a field that is not known is left out */
    store_record_free(&store_type_execution, e);
}

static void test_bad(void **state)
{
    (void)state;
    scoped_strbuf struct strbuf b = packed_of(&whole);
    scoped_strbuf struct strbuf again = packed_of(&whole);
    size_t len = b.len;
    strbuf_add(&b, again.data, again.len); /* every field twice */
    assert_null(store_record_unpack(&store_type_execution, b.data, b.len));
    char *state_word = memmem(b.data, len, "timeout", 7);
    assert_non_null(state_word);
    memcpy(state_word, "tim", 3);
    state_word[0] = 'T';
    assert_null(store_record_unpack(&store_type_execution, b.data, len));
    assert_null(store_record_unpack(&store_type_execution, "", 0)); /* has no id */
}

/* A mark is in front of a record or it is none, and unpacking takes no notice of it. */
static void test_mark(void **state)
{
    (void)state;
    scoped_strbuf struct strbuf plain = packed_of(&whole), marked;
    strbuf_init(&marked, 1 * MIB);
    store_record_mark(&marked, ":mark");
    strbuf_add(&marked, plain.data, plain.len);
    assert_true(store_record_is_marked(":mark", marked.data, marked.len));
    assert_false(store_record_is_marked(":mar", marked.data, marked.len));
    assert_false(store_record_is_marked(":mark", marked.data, 4));
    assert_false(store_record_is_marked(":mark", plain.data, plain.len));
    strbuf_add(&plain, marked.data, marked.len);
    assert_false(store_record_is_marked(":mark", plain.data, plain.len));
    struct store_execution *e = store_record_unpack(&store_type_execution, marked.data, marked.len);
    assert_non_null(e);
    assert_string_equal(e->id, whole.id);
    store_record_free(&store_type_execution, e);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "there and back", test_round);
    check_one(&check, "what is cut", test_cut);
    check_one(&check, "of another version", test_other_version);
    check_one(&check, "no record", test_bad);
    check_one(&check, "with a mark", test_mark);
    return check_run(&check, "store_pack");
}
