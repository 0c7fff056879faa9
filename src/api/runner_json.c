/* runner_json.c - one object for each language of each image */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/runner_json.h"

#include <string.h>

#include "image/module.h"

static json_t *words_json(const struct runner_words *words)
{
    json_t *list = json_array();
    for (size_t i = 0; i < words->count; i++)
        json_array_append_new(list, json_text(words->items[i], strlen(words->items[i])));
    return list;
}

static json_t *packages_json(const struct runner *r)
{
    scoped_packages struct module_packages found;
    json_t *list = json_array();
    module_list(r, &found);
    for (size_t i = 0; i < found.count; i++)
        json_array_append_new(list, json_pack("{s:s, s:s}", "name", found.items[i].name, "version",
                                              found.items[i].version));
    return list;
}

/* Runner:
 *   language      string
 *   version       string|null, of its interpreter
 *   image         string
 *   aliases       [string]: other names of the language
 *   extensions    [string]: of its files
 *   has_sessions  boolean: else it is for single runs only
 *   packages      [{"name", "version"}]: that its image brings along; others by `requirements` */
static json_t *runner_json(const struct catalog *catalog, const struct runner *r)
{
    return json_pack("{s:s, s:o, s:s, s:o, s:o, s:b, s:o}", "language", r->language, "version",
                     json_text_or_null(r->version), "image", r->image, "aliases",
                     words_json(&r->aliases), "extensions", words_json(&r->extensions),
                     "has_sessions", catalog_has_sessions(catalog, r), "packages",
                     packages_json(r));
}

json_t *runner_json_list(const struct catalog *catalog)
{
    const struct runner_list *list = catalog_runners(catalog);
    json_t *runners = json_array();
    for (size_t i = 0; i < list->count; i++)
        json_array_append_new(runners, runner_json(catalog, &list->items[i]));
    return json_pack("{s:o}", "runners", runners);
}
