/* result.c - results in the order in which they came */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/result.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define MIME_MAX 127

static void result_release(struct result *r)
{
    for (size_t i = 0; i < r->count; i++) {
        free(r->forms[i].mime);
        free(r->forms[i].data);
    }
    free(r->forms);
}

void result_list_release(struct result_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        result_release(&list->items[i]);
    free(list->items);
    budget_give(list->budget, list->held);
    *list = (struct result_list){.budget = list->budget};
}

void exception_release(struct exception *e)
{
    free(e->name);
    free(e->value);
    free(e->traceback);
    *e = (struct exception){0};
}

static bool is_mime(const char *text, size_t len)
{
    const char *slash = memchr(text, '/', len);
    if (!slash || slash == text || len > MIME_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~' || text[i] == '"')
            return false;
    }
    return true;
}

static char *copy(const char *data, size_t len)
{
    char *out = xmalloc(len + 1);
    if (len > 0)
        memcpy(out, data, len);
    out[len] = '\0';
    return out;
}

/* The result that a form belongs to; NULL when that was one too many. */
static struct result *find_place(struct result_list *list, bool is_new, bool is_main)
{
    if (is_new || (list->count == 0 && !list->is_skipping)) {
        list->is_skipping = list->count == RESULTS_MAX;
        if (!list->is_skipping) {
            list->items = xrealloc(list->items, (list->count + 1) * sizeof(*list->items));
            list->items[list->count++] = (struct result){.is_main = is_main};
        }
    }
    if (list->is_skipping)
        return NULL;
    struct result *r = &list->items[list->count - 1];
    return r->count == RESULT_FORMS_MAX ? NULL : r;
}

void result_list_skip(struct result_list *list, bool is_new)
{
    list->is_cut = true;
    list->is_skipping |= is_new; /* what follows belongs to it */
}

bool result_list_add(struct result_list *list, bool is_new, bool is_main, const char *body,
                     size_t len)
{
    const char *nul = len > 0 ? memchr(body, '\0', len) : NULL;
    bool is_form = nul && is_mime(body, (size_t)(nul - body));
    struct result *r = is_form ? find_place(list, is_new, is_main) : NULL;
    if (r && !budget_take(list->budget, list->held, len)) {
        list->is_skipping |= r->count == 0; /* it has just begun */
        list->count -= r->count == 0;
        r = NULL;
    }
    if (!r) {
        list->is_cut = true;
        return false;
    }
    list->held += len;
    r->forms = xrealloc(r->forms, (r->count + 1) * sizeof(*r->forms));
    const char *data = nul + 1;
    size_t data_len = len - (size_t)(data - body);
    r->forms[r->count++] = (struct result_form){
        .mime = copy(body, (size_t)(nul - body)), .data = copy(data, data_len), .len = data_len};
    return true;
}

size_t result_list_bytes(const struct result_list *list)
{
    size_t sum = 0;
    for (size_t i = 0; i < list->count; i++) {
        for (size_t f = 0; f < list->items[i].count; f++)
            sum += list->items[i].forms[f].len;
    }
    return sum;
}

const struct result_form *result_get(const struct result *r, const char *mime)
{
    for (size_t i = 0; i < r->count; i++) {
        if (strcmp(r->forms[i].mime, mime) == 0)
            return &r->forms[i];
    }
    return NULL;
}
