/* framing.c - the head is collected line by line and looked at before llhttp sees it, whole
 *
 * Two readers must agree on every head: ours, which knows only lines and bytes, and llhttp. It gets
 * the head in one piece, so each name and value it tells lies in one piece, too, and they are
 * ended with NULs where they stand. Each message has a parser in its first state: nothing of one
 * request can linger into the next. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/framing.h"

#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/parse.h"

#define HEAD_FIRST_BYTES 1024
#define HEAD_KEEP_BYTES  4096 /* a larger head gives its memory back */

static enum framing_step refuse(struct framing *f, enum refusal refusal)
{
    f->refusal = refusal;
    return FRAMING_BAD;
}

/* --- what llhttp tells ---------------------------------------------------------------------- */

static struct framing *framing_of(llhttp_t *parser)
{
    return parser->data;
}

static int fail(llhttp_t *parser, enum refusal refusal)
{
    framing_of(parser)->refusal = refusal;
    llhttp_set_error_reason(parser, refusal_info(refusal)->code);
    return HPE_USER;
}

static int on_name(llhttp_t *parser, const char *at, size_t len)
{
    (void)len;
    struct framing *f = framing_of(parser);
    if (f->has_head)
        return fail(parser, REFUSAL_TRAILER);
    if (f->head.header_count == FRAMING_HEADER_MAX)
        return fail(parser, REFUSAL_HEADERS_TOO_LARGE);
    f->head.headers[f->head.header_count++] = (struct framing_header){.name = at};
    return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t len)
{
    struct framing *f = framing_of(parser);
    if (f->has_head)
        return fail(parser, REFUSAL_TRAILER);
    struct framing_header *header = &f->head.headers[f->head.header_count - 1];
    if (len > 0 && header->value)
        return fail(parser, REFUSAL_HEADER); /* in two pieces: nothing that passed our look is */
    if (len > 0)
        header->value = at;
    return 0;
}

static int on_head(llhttp_t *parser)
{
    struct framing *f = framing_of(parser);
    f->has_head = true;
    f->head.is_kept_alive = llhttp_should_keep_alive(parser);
    f->head.is_upgrade = parser->upgrade;
    /* An upgrade is for the handler to accept. Until then this is a request like any other; llhttp
     * would take what follows for another protocol at once. */
    parser->upgrade = 0;
    return 0;
}

static int on_chunk(llhttp_t *parser)
{
    framing_of(parser)->chunks++;
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
    struct framing *f = framing_of(parser);
    if (len == 0)
        return 0;
    f->body = at;
    f->body_len = len;
    f->body_bytes += len;
    return HPE_PAUSED;
}

static int on_end(llhttp_t *parser)
{
    framing_of(parser)->has_end = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_headers_complete = on_head,
    .on_chunk_header = on_chunk,
    .on_body = on_body,
    .on_message_complete = on_end,
};

struct llhttp_fault {
    llhttp_errno_t code;
    enum refusal refusal;
};

static const struct llhttp_fault llhttp_faults[] = {
    {HPE_INVALID_METHOD, REFUSAL_METHOD},
    {HPE_INVALID_URL, REFUSAL_TARGET},
    {HPE_INVALID_VERSION, REFUSAL_VERSION},
    {HPE_INVALID_HEADER_TOKEN, REFUSAL_HEADER},
    {HPE_INVALID_CONTENT_LENGTH, REFUSAL_CONTENT_LENGTH},
    {HPE_UNEXPECTED_CONTENT_LENGTH, REFUSAL_CONTENT_LENGTH},
    {HPE_INVALID_TRANSFER_ENCODING, REFUSAL_TRANSFER_ENCODING},
    {HPE_INVALID_CHUNK_SIZE, REFUSAL_CHUNK},
};

static enum framing_step refuse_llhttp(struct framing *f, llhttp_errno_t code)
{
    if (f->refusal) /* one of the functions above knew better */
        return FRAMING_BAD;
    for (size_t i = 0; i < ARRAY_LEN(llhttp_faults); i++) {
        if (llhttp_faults[i].code == code)
            return refuse(f, llhttp_faults[i].refusal);
    }
    return refuse(f, f->has_head ? REFUSAL_CHUNK : REFUSAL_SYNTAX);
}

/* --- rules for headers ---------------------------------------------------------------------- */

static enum refusal judge_host(struct framing_head *head, const char *value)
{
    head->host = value;
    return *value ? REFUSAL_NONE : REFUSAL_HOST;
}

static enum refusal judge_length(struct framing_head *head, const char *value)
{
    size_t len = strlen(value);
    if (len == 0 || len > FRAMING_LENGTH_MAX_DIGITS || (value[0] == '0' && len > 1) ||
        !parse_u64(value, &head->content_length))
        return REFUSAL_CONTENT_LENGTH;
    return REFUSAL_NONE;
}

static enum refusal judge_transfer(struct framing_head *head, const char *value)
{
    if (strcasecmp(value, "chunked") != 0 || head->is_http_1_0)
        return REFUSAL_TRANSFER_ENCODING;
    /* Some servers do not know a tab for a blank here, and would see another encoding. */
    for (const char *before = value - 1; *before; before--) {
        if (*before == '\t')
            return REFUSAL_TRANSFER_ENCODING;
    }
    head->is_chunked = true;
    return REFUSAL_NONE;
}

static enum refusal judge_expect(struct framing_head *head, const char *value)
{
    head->expects_continue = !head->is_http_1_0; /* RFC 9110 10.1.1: ignored in 1.0 */
    return strcasecmp(value, "100-continue") == 0 ? REFUSAL_NONE : REFUSAL_EXPECTATION;
}

static enum refusal judge_encoding(struct framing_head *head, const char *value)
{
    (void)head;
    return strcasecmp(value, "identity") == 0 ? REFUSAL_NONE : REFUSAL_CONTENT_ENCODING;
}

struct header_rule {
    const char *name;
    enum refusal (*judge)(struct framing_head *head, const char *value); /* NULL: any value */
};

/* What may come once: the second one would be read by somebody else than the first. */
static const struct header_rule header_rules[] = {
    {"host", judge_host},
    {"content-length", judge_length},
    {"transfer-encoding", judge_transfer},
    {"expect", judge_expect},
    {"content-encoding", judge_encoding},
    {"authorization", NULL},
    {"content-type", NULL},
    {"idempotency-key", NULL},
    {"last-event-id", NULL},
    {"origin", NULL},
    {"range", NULL},
    {"sec-fetch-site", NULL},
    {"sec-websocket-key", NULL},
    {"sec-websocket-version", NULL},
    {"upgrade", NULL},
    {"x-api-key", NULL},
};

static enum refusal judge_header(struct framing_head *head, const struct framing_header *header,
                                 unsigned *seen)
{
    for (size_t i = 0; i < ARRAY_LEN(header_rules); i++) {
        const struct header_rule *rule = &header_rules[i];
        if (strcmp(rule->name, header->name) != 0)
            continue;
        if (*seen & 1U << i)
            return i == 0 ? REFUSAL_HOST : REFUSAL_REPEATED;
        *seen |= 1U << i;
        return rule->judge ? rule->judge(head, header->value) : REFUSAL_NONE;
    }
    return REFUSAL_NONE;
}

/* Ends names and values with NULs, names in lower case. Both lie in one line of the head, where the
 * value is followed by blanks at most. */
static void finish_header(struct framing_header *header)
{
    static const char nothing[] = "";
    char *name = (char *)header->name;
    char *colon = name + strcspn(name, ":");
    for (char *c = name; c < colon; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + 'a' - 'A' : *c);
    *colon = '\0';
    if (!header->value) {
        header->value = nothing;
        return;
    }
    char *end = (char *)header->value + strcspn(header->value, "\r");
    while (end > header->value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *end = '\0';
}

static enum refusal judge_headers(struct framing *f)
{
    struct framing_head *head = &f->head;
    unsigned seen = 0;
    enum refusal refusal = REFUSAL_NONE;
    for (size_t i = 0; i < head->header_count && !refusal; i++) {
        finish_header(&head->headers[i]);
        refusal = judge_header(head, &head->headers[i], &seen);
        if (f->is_proxy && refusal == REFUSAL_CONTENT_ENCODING)
            refusal = REFUSAL_NONE; /* for whom it is meant to decode */
    }
    if (!refusal && !head->host && !f->is_proxy)
        return REFUSAL_HOST;
    if (!refusal && head->is_chunked && head->content_length != FRAMING_NO_LENGTH)
        return REFUSAL_TRANSFER_ENCODING;
    return refusal;
}

/* --- the head, line by line ----------------------------------------------------------------- */

static bool is_token_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!is_token_char(text[i]))
            return false;
    }
    return len > 0;
}

/* "HTTP/1.1" and nothing after it. */
static enum refusal read_version(struct framing_head *head, const char *text)
{
    if (strcmp(text, "HTTP/1.1") != 0 && strcmp(text, "HTTP/1.0") != 0) {
        bool is_some_version = strncmp(text, "HTTP/", 5) == 0 && text[5] >= '0' && text[5] <= '9' &&
                               strspn(text + 5, "0123456789.") == strlen(text + 5);
        return is_some_version ? REFUSAL_VERSION : REFUSAL_REQUEST_LINE;
    }
    head->is_http_1_0 = text[7] == '0';
    return REFUSAL_NONE;
}

/* `line` is NUL-terminated for the time of this call; it is given to llhttp as it came. */
static enum refusal read_request_line(struct framing *f, const char *line)
{
    struct framing_head *head = &f->head;
    size_t method_len = strcspn(line, " ");
    const char *target = line + method_len + 1;
    if (!is_token(line, method_len) || !line[method_len])
        return REFUSAL_REQUEST_LINE;
    size_t target_len = strcspn(target, " ");
    if (target_len == 0 || !target[target_len] || strpbrk(target, "\t#"))
        return REFUSAL_REQUEST_LINE;
    enum refusal refusal = read_version(head, target + target_len + 1);
    if (refusal)
        return refusal;
    head->method = method_find(line, method_len);
    if (head->method == METHOD_COUNT && !f->is_proxy)
        return REFUSAL_METHOD;
    if (target_len > FRAMING_TARGET_MAX_BYTES)
        return REFUSAL_TARGET_TOO_LONG;
    return f->is_proxy || target[0] == '/' ? REFUSAL_NONE : REFUSAL_TARGET;
}

static bool has_odd_byte(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)line[i];
        if ((c < 0x20 && c != '\t') || c >= 0x7f)
            return true;
    }
    return false;
}

/* A header line begins with its name and a colon, with nothing between them. */
static enum refusal read_header_line(const struct framing *f, const char *line)
{
    if (line[0] == ' ' || line[0] == '\t')
        return REFUSAL_FOLD;
    if (f->line_count > FRAMING_HEADER_MAX)
        return REFUSAL_HEADERS_TOO_LARGE;
    size_t name_len = strcspn(line, ":");
    return line[name_len] && is_token(line, name_len) ? REFUSAL_NONE : REFUSAL_HEADER;
}

/* Looks at the line that has just been completed; *is_last for the empty one. */
static enum refusal read_line(struct framing *f, bool *is_last)
{
    char *line = f->bytes + f->line;
    size_t len = f->len - f->line - 1; /* without LF */
    if (len == 0 || line[len - 1] != '\r')
        return REFUSAL_LINE_END;
    len--;
    if (has_odd_byte(line, len))
        return memchr(line, '\r', len) ? REFUSAL_LINE_END
               : f->line_count         ? REFUSAL_HEADER
                                       : REFUSAL_REQUEST_LINE;
    *is_last = len == 0 && f->line_count > 0;
    if (len == 0 && f->line_count == 0) { /* RFC 9112 2.2: forgive one line end before it all */
        if (f->has_blank_line)
            return REFUSAL_REQUEST_LINE;
        f->has_blank_line = true;
        f->len = 0;
        return REFUSAL_NONE;
    }
    line[len] = '\0';
    enum refusal refusal = *is_last             ? REFUSAL_NONE
                           : f->line_count == 0 ? read_request_line(f, line)
                                                : read_header_line(f, line);
    line[len] = '\r';
    f->line = f->len;
    f->line_count++;
    return refusal;
}

static bool append(struct framing *f, const char *data, size_t len)
{
    if (len > FRAMING_HEAD_MAX_BYTES - f->len)
        return false;
    if (f->len + len > f->cap) {
        size_t cap = f->cap ? f->cap : HEAD_FIRST_BYTES;
        while (cap < f->len + len)
            cap *= 2;
        f->bytes = xrealloc(f->bytes, cap);
        f->cap = cap;
    }
    memcpy(f->bytes + f->len, data, len);
    f->len += len;
    return true;
}

/* The complete head, to llhttp. It must end where ours ends, with as many headers as we saw. */
static enum framing_step parse_head(struct framing *f)
{
    llhttp_init(&f->parser, HTTP_REQUEST, &settings);
    f->parser.data = f;
    llhttp_errno_t code = llhttp_execute(&f->parser, f->bytes, f->len);
    if (code != HPE_OK && !(code == HPE_PAUSED && f->has_end))
        return refuse_llhttp(f, code);
    if (!f->has_head || f->head.header_count != f->line_count - 2)
        return refuse(f, REFUSAL_SYNTAX);
    enum refusal refusal = judge_headers(f);
    if (refusal)
        return refuse(f, refusal);
    char *target = f->bytes + strcspn(f->bytes, " ");
    *target++ = '\0';
    target[strcspn(target, " ")] = '\0';
    f->head.verb = f->bytes;
    f->head.target = target;
    f->is_told = true;
    return FRAMING_HEAD;
}

static enum framing_step next_of_head(struct framing *f, const char *data, size_t len, size_t *used)
{
    while (*used < len) {
        const char *at = data + *used;
        const char *end = memchr(at, '\n', len - *used);
        size_t part = end ? (size_t)(end - at) + 1 : len - *used;
        bool is_last = false;
        if (!append(f, at, part))
            return refuse(f, f->line_count ? REFUSAL_HEADERS_TOO_LARGE : REFUSAL_TARGET_TOO_LONG);
        *used += part;
        enum refusal refusal = end ? read_line(f, &is_last) : REFUSAL_NONE;
        if (refusal)
            return refuse(f, refusal);
        if (is_last)
            return parse_head(f);
    }
    return FRAMING_MORE;
}

/* --- the body ------------------------------------------------------------------------------- */

/* Lengths, extensions and line ends of chunks must stay small beside the chunks. */
static bool has_too_much_slack(const struct framing *f)
{
    uint64_t slack = f->body_fed - f->body_bytes;
    return slack > FRAMING_CHUNK_SLACK_BYTES + f->chunks * FRAMING_CHUNK_SLACK_EACH_BYTES;
}

static void note_tail(struct framing *f, const char *data, size_t len)
{
    f->tail[0] = len > 1 ? data[len - 2] : len == 1 ? f->tail[1] : f->tail[0];
    f->tail[1] = len > 0 ? data[len - 1] : f->tail[1];
}

static enum framing_step next_of_body(struct framing *f, const char *data, size_t len, size_t *used)
{
    if (llhttp_get_errno(&f->parser) == HPE_PAUSED)
        llhttp_resume(&f->parser);
    llhttp_errno_t code = llhttp_execute(&f->parser, data, len);
    if (code != HPE_OK && code != HPE_PAUSED)
        return refuse_llhttp(f, code);
    *used = code == HPE_OK ? len : (size_t)(llhttp_get_error_pos(&f->parser) - data);
    f->body_fed += *used;
    note_tail(f, data, *used);
    /* llhttp takes a plain LF for the empty line after the last chunk. */
    if (f->head.is_chunked &&
        (has_too_much_slack(f) || (f->has_end && memcmp(f->tail, "\r\n", 2) != 0)))
        return refuse(f, REFUSAL_CHUNK);
    if (f->body)
        return FRAMING_BODY;
    return f->has_end ? FRAMING_END : FRAMING_MORE;
}

enum framing_step framing_next(struct framing *f, const char *data, size_t len, size_t *used,
                               const char **body, size_t *body_len)
{
    BUG_ON(f->refusal);
    *used = 0;
    if (!f->is_told)
        return next_of_head(f, data, len, used);
    if (f->has_end)
        return FRAMING_END;
    enum framing_step step = next_of_body(f, data, len, used);
    if (step == FRAMING_BODY) {
        *body = f->body;
        *body_len = f->body_len;
        f->body = NULL;
    }
    return step;
}

/* --- life ----------------------------------------------------------------------------------- */

static void reset(struct framing *f)
{
    char *bytes = f->bytes;
    size_t cap = f->cap;
    /* Not the array of headers: it is large, and its count says what is in it. */
    memset(&f->refusal, 0, sizeof(*f) - offsetof(struct framing, refusal));
    f->head.method = METHOD_COUNT;
    f->head.verb = NULL;
    f->head.target = NULL;
    f->head.host = NULL;
    f->head.header_count = 0;
    f->head.content_length = FRAMING_NO_LENGTH;
    f->head.is_chunked = f->head.expects_continue = f->head.is_upgrade = false;
    f->head.is_http_1_0 = f->head.is_kept_alive = false;
    f->bytes = bytes;
    f->cap = cap;
}

void framing_init(struct framing *f)
{
    f->bytes = NULL;
    f->cap = 0;
    f->is_proxy = false;
    reset(f);
}

void framing_init_proxy(struct framing *f)
{
    framing_init(f);
    f->is_proxy = true;
}

void framing_release(struct framing *f)
{
    free(f->bytes);
    f->bytes = NULL;
    f->cap = 0;
    reset(f);
}

void framing_again(struct framing *f)
{
    if (f->cap > HEAD_KEEP_BYTES)
        framing_release(f);
    else
        reset(f);
}

bool framing_is_begun(const struct framing *f)
{
    return f->len > 0 || f->has_blank_line;
}

const char *framing_find(const struct framing_head *head, const char *name)
{
    for (size_t i = 0; i < head->header_count; i++) {
        if (strcmp(head->headers[i].name, name) == 0)
            return head->headers[i].value;
    }
    return NULL;
}

bool framing_list_has(const char *list, const char *token)
{
    size_t want = strlen(token);
    while (*list) {
        list += strspn(list, " \t,");
        size_t len = strcspn(list, ",");
        size_t bare = len;
        while (bare > 0 && (list[bare - 1] == ' ' || list[bare - 1] == '\t'))
            bare--;
        if (bare == want && strncasecmp(list, token, want) == 0)
            return true;
        list += len;
    }
    return false;
}
