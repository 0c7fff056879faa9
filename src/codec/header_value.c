/* header_value.c - one pass from left to right; text is cut where it stands */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/header_value.h"

#include <string.h>

#include "base/utf8.h"

static bool is_token_char(char c)
{
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return true;
    return c && strchr("!#$%&'*+-.^_`|~", c);
}

bool header_is_token(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!is_token_char(text[i]))
            return false;
    }
    return len > 0;
}

static void lower(char *text)
{
    for (; *text; text++) {
        if (*text >= 'A' && *text <= 'Z')
            *text = (char)(*text - 'A' + 'a');
    }
}

static char *skip_blanks(char *at)
{
    return at + strspn(at, " \t");
}

static bool has_control(const char *text)
{
    for (; *text; text++) {
        if (((unsigned char)*text < 0x20 && *text != '\t') || *text == 0x7f)
            return true;
    }
    return false;
}

/* The quoted text at `at`, unescaped in place; *end is behind its last quote. NULL: it has none. */
static char *take_quoted(char *at, char **end)
{
    char *begin = at + 1, *to = begin;
    for (at = begin; *at && *at != '"'; at++) {
        if (at[0] == '\\' && (at[1] == '"' || at[1] == '\\'))
            at++;
        *to++ = *at;
    }
    if (!*at)
        return NULL;
    *end = at + 1;
    *to = '\0'; /* on the last quote, or before it */
    return begin;
}

/* Takes the parameter at *at, and moves behind it. */
static const char *take_param(struct header_value *out, char **at)
{
    char *name = *at, *equals = strchr(name, '=');
    if (!equals || !header_is_token(name, (size_t)(equals - name)))
        return "has a parameter without a name or a value";
    *equals = '\0';
    lower(name);
    if (header_value_find(out, name))
        return "has a parameter twice";
    if (out->count == HEADER_PARAMS_MAX)
        return "has too many parameters";
    char *value = equals + 1, *end = value;
    if (*value == '"') {
        value = take_quoted(value, &end);
        if (!value)
            return "has a quote that does not end";
    } else {
        end += strcspn(value, "; \t");
        if (!header_is_token(value, (size_t)(end - value)))
            return "has a value that needs quotes";
    }
    char *next = skip_blanks(end);
    if (*next && *next != ';')
        return "has something behind a value";
    bool is_last = !*next;
    *end = '\0'; /* only now: it may be the semicolon */
    out->params[out->count++] = (struct header_param){name, value};
    *at = is_last ? next : next + 1;
    return NULL;
}

static bool is_word(const char *word)
{
    const char *slash = strchr(word, '/');
    if (!slash)
        return header_is_token(word, strlen(word));
    return header_is_token(word, (size_t)(slash - word)) &&
           header_is_token(slash + 1, strlen(slash + 1));
}

const char *header_value_parse(struct header_value *out, char *text)
{
    if (has_control(text) || !utf8_is_valid(text, strlen(text)))
        return "has a control character or bytes that are not UTF-8";
    out->count = 0;
    char *word = skip_blanks(text);
    char *at = word + strcspn(word, "; \t"), *end = at;
    at = skip_blanks(at);
    bool has_params = *at == ';';
    if (*at && !has_params)
        return "has a blank in its first word";
    *end = '\0';
    if (!is_word(word))
        return "does not begin with a word";
    lower(word);
    out->word = word;
    if (has_params)
        at++;
    const char *wrong = NULL;
    while (!wrong && *(at = skip_blanks(at)))
        wrong = take_param(out, &at);
    return wrong;
}

const char *header_value_find(const struct header_value *value, const char *name)
{
    for (size_t i = 0; i < value->count; i++) {
        if (strcmp(value->params[i].name, name) == 0)
            return value->params[i].value;
    }
    return NULL;
}
