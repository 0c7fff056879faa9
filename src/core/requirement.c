/* requirement.c - one walk along a text for each kind of index */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/requirement.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/strbuf.h"

#define FORMAT                                                                                     \
    "cove package layer 1" /* another one when the same words shall mean something else */

static bool is_word(char c)
{
    return isascii((unsigned char)c) && isalnum((unsigned char)c);
}

static bool is_name_char(char c)
{
    return is_word(c) || (c && strchr("._-", c));
}

/* --- python: name[extra,...] versions ; marker  (PEP 508) ----------------------------------------
 */

static void skip_blanks(const char **at)
{
    *at += strspn(*at, " \t");
}

/* Runs of "-", "_" and "." are one "-" to an index, and case is nothing (PEP 503). */
static bool take_python_name(const char **at, struct strbuf *out)
{
    const char *p = *at;
    if (!is_word(*p))
        return false;
    while (is_name_char(*p)) {
        size_t run = strspn(p, "._-");
        if (run > 0 && !is_word(p[run]))
            return false; /* a name ends in a letter or a digit */
        if (run > 0)
            strbuf_add_str(out, "-");
        p += run;
        strbuf_add_char(out, (char)tolower((unsigned char)*p++));
    }
    *at = p;
    return true;
}

static bool take_extras(const char **at, struct strbuf *out)
{
    if (**at != '[')
        return true;
    strbuf_add_str(out, "[");
    do {
        ++*at;
        skip_blanks(at);
        if (!take_python_name(at, out))
            return false;
        skip_blanks(at);
        if (**at == ',')
            strbuf_add_str(out, ",");
    } while (**at == ',');
    if (*(*at)++ != ']')
        return false;
    strbuf_add_str(out, "]");
    return true;
}

/* What stands behind the name, without blanks; how versions compare is the installer's affair. */
static bool take_versions(const char **at, struct strbuf *out)
{
    static const char first[] = "<>=!~(", others[] = "<>=!~,*+()._-";
    skip_blanks(at);
    if (**at && **at != ';' && !strchr(first, **at))
        return false;
    for (; **at && **at != ';'; ++*at) {
        if (!is_word(**at) && !strchr(others, **at) && !strchr(" \t", **at))
            return false;
        if (!strchr(" \t", **at))
            strbuf_add(out, *at, 1);
    }
    return true;
}

static bool take_marker(const char **at, struct strbuf *out)
{
    static const char others[] = "<>=!~._-'\"()";
    if (**at != ';')
        return true;
    strbuf_add_str(out, ";");
    ++*at;
    skip_blanks(at);
    for (; **at; ++*at) {
        bool is_blank = strchr(" \t", **at);
        if (!is_word(**at) && !strchr(others, **at) && !is_blank)
            return false;
        bool is_idle = is_blank && strchr(" \t", (*at)[1]); /* the end counts as a blank */
        if (!is_idle)
            strbuf_add(out, is_blank ? " " : *at, 1);
    }
    return true;
}

static bool read_python(const char *text, struct strbuf *out)
{
    skip_blanks(&text);
    bool is_good = take_python_name(&text, out);
    skip_blanks(&text);
    return is_good && take_extras(&text, out) && take_versions(&text, out) &&
           take_marker(&text, out) && !*text;
}

/* --- npm: name, @scope/name, either with @versions ----------------------------------------------
 */

static bool take_npm_name(const char **at, struct strbuf *out)
{
    const char *p = *at;
    if (!is_word(*p))
        return false;
    while (is_name_char(*p))
        p++;
    if (p[-1] == '.') /* before a slash it could be taken for a way up */
        return false;
    strbuf_add(out, *at, (size_t)(p - *at));
    *at = p;
    return true;
}

/* A range of versions or a tag; ":" and "/" would make an address of it. */
static bool take_npm_versions(const char **at, struct strbuf *out)
{
    static const char others[] = "<>=~^*|+._- ";
    if (!**at)
        return true;
    if (*(*at)++ != '@' || !**at || **at == ' ' || **at == '-' || **at == '.')
        return false;
    strbuf_add_str(out, "@");
    for (; **at; ++*at) {
        if (!is_word(**at) && !strchr(others, **at))
            return false;
        strbuf_add(out, *at, 1);
    }
    return true;
}

static bool read_npm(const char *text, struct strbuf *out)
{
    if (*text == '@') {
        strbuf_add_str(out, "@");
        text++;
        if (!take_npm_name(&text, out) || *text++ != '/')
            return false;
        strbuf_add_str(out, "/");
    }
    return take_npm_name(&text, out) && take_npm_versions(&text, out) && !*text;
}

/* --- sets ---------------------------------------------------------------------------------------
 */

static const struct {
    const char *name;
    bool (*read)(const char *text, struct strbuf *out);
    const char *hint;
} kinds[] = {
    [RUNNER_INDEX_PYTHON] =
        {"python", read_python,
         "a name with versions, as in \"pandas==2.2\" or \"httpx[http2]>=0.27\"; "
         "no options, files or addresses"},
    [RUNNER_INDEX_NPM] = {"npm", read_npm,
                          "a name with a version, as in \"left-pad@1.3.0\" or \"@scope/name@^2\"; "
                          "no options, files or addresses"},
};

static int add(struct requirement_set *set, enum runner_index index, const char *text,
               struct error *err)
{
    scoped_strbuf struct strbuf form;
    strbuf_init(&form, 2 * REQUIREMENT_MAX_BYTES);
    if (strlen(text) > REQUIREMENT_MAX_BYTES || !kinds[index].read(text, &form)) {
        error_set(err, ERROR_INVALID, "requirements: '%.80s' is not one that can be taken", text);
        error_word(err, "invalid_requirement");
        return error_hint(err, "%s", kinds[index].hint);
    }
    set->items[set->count++] = xstrdup(strbuf_str(&form));
    return 0;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort(struct requirement_set *set)
{
    size_t kept = 0;
    qsort(set->items, set->count, sizeof(*set->items), compare);
    for (size_t i = 0; i < set->count; i++) {
        if (kept > 0 && strcmp(set->items[kept - 1], set->items[i]) == 0)
            free(set->items[i]);
        else
            set->items[kept++] = set->items[i];
    }
    set->count = kept;
}

int requirement_set_make(struct requirement_set *out, enum runner_index index, char *const *wanted,
                         size_t count, struct error *err)
{
    if (count > REQUIREMENTS_MAX)
        return error_set(err, ERROR_INVALID, "requirements: has %zu; at most %d are taken", count,
                         REQUIREMENTS_MAX);
    scoped_requirements struct requirement_set set = {0};
    set.items = xcalloc(count + 1, sizeof(*set.items));
    for (size_t i = 0; i < count; i++) {
        if (add(&set, index, wanted[i], err) < 0)
            return -1;
    }
    sort(&set);
    *out = set;
    set = (struct requirement_set){0};
    return 0;
}

void requirement_set_release(struct requirement_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        free(set->items[i]);
    free(set->items);
    *set = (struct requirement_set){0};
}

/* With the byte that ends it, so that no two lists read the same. */
static void add_text(struct sha256 *hash, const char *text, size_t len)
{
    sha256_add(hash, text, len);
    sha256_add(hash, "", 1);
}

/* https://name:password@host/path: whoever asks with which name gets the same packages. */
static void add_address(struct sha256 *hash, const char *address)
{
    const char *scheme_end = strstr(address, "://");
    const char *host = scheme_end ? scheme_end + 3 : address;
    size_t len = strcspn(host, "/?#");
    const char *at = memrchr(host, '@', len);
    sha256_add(hash, address, (size_t)(host - address));
    add_text(hash, at ? at + 1 : host, strlen(at ? at + 1 : host));
}

void requirement_set_digest(const struct requirement_set *set, const uint8_t image[SHA256_BYTES],
                            enum runner_index index, const char *address, uint8_t out[SHA256_BYTES])
{
    scoped(sha256) struct sha256 *hash = sha256_new();
    add_text(hash, FORMAT, strlen(FORMAT));
    sha256_add(hash, image, SHA256_BYTES);
    add_text(hash, kinds[index].name, strlen(kinds[index].name));
    add_address(hash, address);
    for (size_t i = 0; i < set->count; i++)
        add_text(hash, set->items[i], strlen(set->items[i]));
    sha256_end(hash, out);
}
