/* store_pack.c - records as bytes, for the ledger
 *
 * A record is its fields one after the other, each with the length of its name, that of its value,
 * and both. The records of its list come as values of fields that have LIST for a name. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/memory.h"
#include "store/store_field.h"

#define LIST ":" /* no column is called so */

struct item_head {
    uint32_t name_len, len;
};

/* --- packing --------------------------------------------------------------------------------- */

static void add_item(struct strbuf *out, const char *name, const void *value, size_t len)
{
    const struct item_head head = {(uint32_t)strlen(name), (uint32_t)len};
    strbuf_add(out, &head, sizeof(head));
    strbuf_add(out, name, head.name_len);
    strbuf_add(out, value, len);
}

static void pack_field(struct strbuf *out, const struct store_field *f, const void *record)
{
    const void *at = store_field_at(f, record);
    const char *text = f->kind == STORE_FIELD_TEXT    ? *(const char *const *)at
                       : f->kind == STORE_FIELD_STATE ? f->words[*(const unsigned *)at]
                                                      : NULL;
    const struct store_blob *blob = at;
    switch (f->kind) {
    case STORE_FIELD_TEXT:
    case STORE_FIELD_STATE:
        if (text)
            add_item(out, f->name, text, strlen(text));
        break;
    case STORE_FIELD_BLOB:
        if (blob->data)
            add_item(out, f->name, blob->data, blob->len);
        break;
    case STORE_FIELD_I64:
    case STORE_FIELD_U64:
        add_item(out, f->name, at, sizeof(uint64_t));
        break;
    case STORE_FIELD_BOOL:
        add_item(out, f->name, at, sizeof(bool));
        break;
    }
}

void store_record_pack(struct strbuf *out, const struct store_type *type, const void *record)
{
    for (size_t i = 0; i < type->count; i++)
        pack_field(out, &type->fields[i], record);
    const struct store_list *list = type->inner ? store_list_at(type, record) : NULL;
    for (size_t i = 0; list && i < list->count; i++) {
        scoped_strbuf struct strbuf one;
        strbuf_init(&one, out->max);
        store_record_pack(&one, type->inner, (const char *)list->items + i * type->inner->size);
        add_item(out, LIST, one.data, one.len);
    }
}

void store_record_mark(struct strbuf *out, const char *word)
{
    add_item(out, word, "", 0);
}

/* --- unpacking ------------------------------------------------------------------------------- */

struct item {
    const char *name;
    size_t name_len;
    const char *value;
    size_t len;
};

/* False: nothing that was packed looks so. */
static bool take_item(const char **data, size_t *left, struct item *out)
{
    struct item_head head;
    if (*left < sizeof(head))
        return false;
    memcpy(&head, *data, sizeof(head));
    if ((uint64_t)head.name_len + head.len > *left - sizeof(head))
        return false;
    *out = (struct item){*data + sizeof(head), head.name_len, *data + sizeof(head) + head.name_len,
                         head.len};
    *data += sizeof(head) + head.name_len + head.len;
    *left -= sizeof(head) + head.name_len + head.len;
    return true;
}

static bool is_called(const struct item *item, const char *name)
{
    return strlen(name) == item->name_len && memcmp(item->name, name, item->name_len) == 0;
}

static const struct store_field *find_field(const struct store_type *type, const struct item *item)
{
    for (size_t i = 0; i < type->count; i++) {
        if (is_called(item, type->fields[i].name))
            return &type->fields[i];
    }
    return NULL;
}

static bool unpack_number(const struct item *item, void *at, size_t size)
{
    if (item->len != size)
        return false;
    memcpy(at, item->value, size);
    return true;
}

/* Text ends where its zero is; a second value of one name would be nobody's. */
static bool unpack_text(const struct item *item, const char **at)
{
    if (*at || memchr(item->value, '\0', item->len))
        return false;
    *at = xstrndup(item->value, item->len);
    return true;
}

static bool unpack_blob(const struct item *item, struct store_blob *at)
{
    if (at->data)
        return false;
    char *copy = xmalloc(item->len + 1);
    memcpy(copy, item->value, item->len);
    *at = (struct store_blob){copy, item->len};
    return true;
}

static bool unpack_state(const struct item *item, const char *const *words, unsigned *at)
{
    for (unsigned i = 0; words[i]; i++) {
        if (is_called(&(struct item){item->value, item->len, NULL, 0}, words[i])) {
            *at = i;
            return true;
        }
    }
    return false;
}

static bool unpack_bool(const struct item *item, bool *at)
{
    *at = item->len == 1 && item->value[0] == 1;
    return item->len == 1;
}

static bool unpack_field(const struct store_field *f, const struct item *item, void *record)
{
    void *at = store_field_at(f, record);
    switch (f->kind) {
    case STORE_FIELD_TEXT:
        return unpack_text(item, at);
    case STORE_FIELD_STATE:
        return unpack_state(item, f->words, at);
    case STORE_FIELD_BLOB:
        return unpack_blob(item, at);
    case STORE_FIELD_I64:
    case STORE_FIELD_U64:
        return unpack_number(item, at, sizeof(uint64_t));
    case STORE_FIELD_BOOL:
        return unpack_bool(item, at);
    }
    return false;
}

static bool unpack_listed(const struct store_type *type, const struct item *item, void *record)
{
    struct store_list *list = store_list_at(type, record);
    size_t size = type->inner->size;
    void *one = store_record_unpack(type->inner, item->value, item->len);
    if (!one)
        return false;
    char *items = xrealloc((void *)list->items, (list->count + 1) * size);
    memcpy(items + list->count * size, one, size);
    *list = (struct store_list){items, list->count + 1};
    free(one); /* what it points to has moved with it */
    return true;
}

static bool is_whole(const struct store_type *type, const void *record)
{
    for (size_t i = 0; i < type->count; i++) {
        const struct store_field *f = &type->fields[i];
        if ((f->flags & STORE_FIELD_NEEDED) && !*(const char *const *)store_field_at(f, record))
            return false;
    }
    return true;
}

static bool unpack_item(const struct store_type *type, const struct item *item, void *record)
{
    const struct store_field *f = find_field(type, item);
    if (f)
        return unpack_field(f, item, record);
    return !type->inner || !is_called(item, LIST) || unpack_listed(type, item, record);
}

bool store_record_is_marked(const char *word, const void *data, size_t len)
{
    const char *at = data;
    struct item item;
    return take_item(&at, &len, &item) && is_called(&item, word);
}

void *store_record_unpack(const struct store_type *type, const void *data, size_t len)
{
    const char *at = data;
    void *record = xcalloc(1, type->size);
    struct item item;
    bool is_good = true;
    while (is_good && len > 0)
        is_good = take_item(&at, &len, &item) && unpack_item(type, &item, record);
    if (is_good && is_whole(type, record))
        return record;
    store_record_free(type, record);
    return NULL;
}
