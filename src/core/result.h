/* result.h - what an execution in a session showed: values, pictures, and the exception it raised
 *
 * All of it comes from the kernel: content, never fact. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/budget.h"

#define RESULTS_MAX      1000
#define RESULT_FORMS_MAX 16

/* One representation; text is UTF-8, or meant to be. */
struct result_form {
    char *mime;
    char *data; /* NUL-terminated for convenience; may hold others */
    size_t len;
};

struct result {
    bool is_main; /* the value of the last expression */
    struct result_form *forms;
    size_t count;
};

struct result_list {
    struct result *items;
    size_t count;
    bool is_cut;           /* there were more, or something that was none */
    bool is_skipping;      /* the last that began was one too many */
    size_t held;           /* bytes of all forms */
    struct budget *budget; /* for them; NULL: without an end */
};

struct exception {
    char *name; /* NULL: none was raised */
    char *value;
    char *traceback;
};

/* A zeroed one is fine. Its budget stays. */
void result_list_release(struct result_list *list);
void exception_release(struct exception *e);

/* Takes the body of a DATA: mime NUL bytes. False when nothing was kept of it: it is none, there
 * are too many, or the budget is used up. */
bool result_list_add(struct result_list *list, bool is_new, bool is_main, const char *body,
                     size_t len);

/* There was one that is lost. */
void result_list_skip(struct result_list *list, bool is_new);

size_t result_list_bytes(const struct result_list *list);

/* By MIME type; NULL when the result has no such form. */
const struct result_form *result_get(const struct result *result, const char *mime);
