/* test_chunk.c - chunks and their list: what was written is read, and nothing else */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/chunk.h"

#include <string.h>

#include "base/memory.h"
#include "check.h"

static char *make_data(size_t len, unsigned seed)
{
    char *data = xmalloc(len);
    for (size_t i = 0; i < len; i++)
        data[i] = (char)((i * 2654435761u + seed) >> (i % 11));
    return data;
}

static const struct size_case {
    const char *name;
    size_t len;
} size_cases[] = {
    {"packs one byte", 1},
    {"packs some", 4097},
    {"packs the most", CHUNK_BYTES},
};

static void test_round(void **state)
{
    const struct size_case *row = *state;
    scoped_free char *data = make_data(row->len, 7);
    scoped_strbuf struct strbuf packed, back;
    uint8_t name[SHA256_BYTES];
    struct error err;
    strbuf_init(&packed, CHUNK_PACKED_MAX);
    strbuf_init(&back, CHUNK_BYTES);
    chunk_name(data, row->len, name);
    chunk_pack(data, row->len, &packed);
    assert_int_equal(chunk_unpack(packed.data, packed.len, name, row->len, &back, &err), 0);
    assert_int_equal(back.len, row->len);
    assert_memory_equal(back.data, data, row->len);
}

static void assert_broken(const struct strbuf *packed, const uint8_t *name, size_t len)
{
    scoped_strbuf struct strbuf back;
    struct error err;
    strbuf_init(&back, CHUNK_BYTES);
    assert_int_equal(chunk_unpack(packed->data, packed->len, name, len, &back, &err), -1);
    assert_string_equal(err.word, "chunk_broken");
    assert_int_equal(back.len, 0);
}

static void test_broken_chunk(void **state)
{
    (void)state;
    scoped_free char *data = make_data(5000, 1);
    scoped_strbuf struct strbuf packed;
    uint8_t name[SHA256_BYTES];
    strbuf_init(&packed, CHUNK_PACKED_MAX);
    chunk_name(data, 5000, name);
    chunk_pack(data, 5000, &packed);
    assert_broken(&packed, name, 4999);
    assert_broken(&packed, name, 5001);
    name[3] ^= 1;
    assert_broken(&packed, name, 5000);
    name[3] ^= 1;
    for (size_t i = 0; i < packed.len; i += 7) { /* every flip is seen */
        packed.data[i] ^= 0x20;
        assert_broken(&packed, name, 5000);
        packed.data[i] ^= 0x20;
    }
    strbuf_add_char(&packed, 'x');
    assert_broken(&packed, name, 5000);
    packed.len -= 2;
    assert_broken(&packed, name, 5000);
    packed.len = 0;
    assert_broken(&packed, name, 5000);
}

static void fill(struct chunk_list *list, size_t count)
{
    uint8_t name[SHA256_BYTES] = {0};
    *list = (struct chunk_list){.owner = "key_abc", .saved_ns = 1234567890123456789};
    for (size_t i = 0; i < count; i++) {
        memcpy(name, &i, sizeof(i));
        assert_true(chunk_list_add(list, name, i + 1));
    }
}

static void test_list(void **state)
{
    (void)state;
    for (size_t count = 0; count < 40; count++) {
        scoped_chunk_list struct chunk_list list, back = {0};
        scoped_strbuf struct strbuf text;
        struct error err;
        strbuf_init(&text, CHUNK_LIST_MAX_BYTES);
        fill(&list, count);
        chunk_list_write(&list, &text);
        assert_int_equal(chunk_list_parse(&back, text.data, text.len, &err), 0);
        assert_string_equal(back.owner, "key_abc");
        assert_int_equal(back.saved_ns, 1234567890123456789);
        assert_int_equal(back.bytes, count * (count + 1) / 2);
        assert_int_equal(back.count, count);
        for (size_t i = 0; i < count; i++) {
            assert_true(chunk_list_has(&list, back.entries[i].name));
            assert_int_equal(back.entries[i].len, i + 1);
        }
    }
}

static void assert_bad_list(const char *data, size_t len)
{
    struct chunk_list list = {0};
    struct error err;
    assert_int_equal(chunk_list_parse(&list, data, len, &err), -1);
    assert_string_equal(err.word, "chunk_list_broken");
    assert_null(list.entries);
}

static void test_bad_list(void **state)
{
    (void)state;
    scoped_chunk_list struct chunk_list list;
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, CHUNK_LIST_MAX_BYTES);
    fill(&list, 3);
    chunk_list_write(&list, &text);
    for (size_t len = 0; len < text.len; len++)
        assert_bad_list(text.data, len);
    for (size_t i = 0; i < text.len; i++) {
        text.data[i] ^= 1;
        assert_bad_list(text.data, text.len);
        text.data[i] ^= 1;
    }
    list.bytes++; /* a hash that is right does not make it true */
    strbuf_clear(&text);
    chunk_list_write(&list, &text);
    assert_bad_list(text.data, text.len);
    list.bytes--;
    list.entries[1].len = CHUNK_BYTES + 1;
    list.bytes += CHUNK_BYTES - 1;
    strbuf_clear(&text);
    chunk_list_write(&list, &text);
    assert_bad_list(text.data, text.len);
}

static void test_limit(void **state)
{
    (void)state;
    scoped_chunk_list struct chunk_list list;
    uint8_t name[SHA256_BYTES] = {0};
    fill(&list, CHUNK_LIST_MAX);
    assert_false(chunk_list_add(&list, name, 1));
}

int main(void)
{
    static struct check check;
    check_rows(&check, size_cases, test_round);
    check_one(&check, "unpacks nothing that is broken", test_broken_chunk);
    check_one(&check, "reads the list that it wrote", test_list);
    check_one(&check, "reads no list that is broken or lies", test_bad_list);
    check_one(&check, "takes so many chunks and no more", test_limit);
    return check_run(&check, "chunk");
}
