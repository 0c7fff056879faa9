/* builder.c - a list of builds, each with those who wait for it */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/builder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "codec/json.h"
#include "core/run.h"

#define BUILDS_AT_ONCE 4
#define INPUTS_MAX     8
#define OUTPUT_BYTES   (64 * KIB)
#define WORDS_BYTES    380      /* of the installer's, in an error */
#define HANDED         ".cove/" /* where the installer finds what is handed in */

enum build_state { BUILD_LOOKING, BUILD_WAITING, BUILD_RUNNING };

struct builder_waiter {
    struct builder_waiter *next;
    struct build *build;
    builder_fn fn; /* NULL: he has left */
    void *ctx;
};

struct build {
    struct build *next;
    struct builder *builder;
    enum build_state state;
    uint8_t image[SPAWN_DIGEST_BYTES];
    struct run_layer layer;
    char *text, *name; /* of the installer's program */
    char **tools;      /* NULL-terminated */
    char **argv, **env;
    char *list; /* requirements, one a line */
    struct execution_input inputs[INPUTS_MAX];
    struct run_request request;
    struct run *run;
    struct builder_waiter *waiters;
};

struct builder {
    struct builder_order order;
    struct network_rules rules;
    struct build *builds;
    size_t count, running;
};

/* --- one build ------------------------------------------------------------------------------- */

static char **copy_words(const struct runner_words *words)
{
    char **copy = xcalloc(words->count + 1, sizeof(*copy));
    for (size_t i = 0; i < words->count; i++)
        copy[i] = xstrdup(words->items[i]);
    return copy;
}

static void free_words(char **words)
{
    for (char **word = words; word && *word; word++)
        free(*word);
    free(words);
}

static char *join_lines(const struct requirement_set *set)
{
    scoped_strbuf struct strbuf lines;
    strbuf_init(&lines, (size_t)REQUIREMENTS_MAX * 2 * REQUIREMENT_MAX_BYTES);
    for (size_t i = 0; i < set->count; i++)
        strbuf_add_fmt(&lines, "%s\n", set->items[i]);
    return strbuf_take(&lines);
}

static const struct network_spec only_packages = {.policy = NETWORK_PACKAGES};

/* Installers find proxy and index by their own variables. */
static char **make_env(const struct builder *builder)
{
    static char *const own[] = {(char *)"PATH=/usr/local/bin:/usr/bin:/bin", (char *)"HOME=/tmp",
                                (char *)"LANG=C.UTF-8", NULL};
    return network_env(&only_packages, &builder->rules, &builder->order.network, own);
}

static void drop_inputs(struct build *b)
{
    for (size_t i = 0; i < b->request.input_count; i++) {
        free(b->inputs[i].path);
        scoped_close_fd(&b->inputs[i].fd);
    }
    b->request.input_count = 0;
}

static void free_build(struct build *b)
{
    run_free(b->run);
    drop_inputs(b);
    scoped_close_fd(&b->layer.note_fd);
    free_words(b->tools);
    free_words(b->argv);
    free_words(b->env);
    free(b->text);
    free(b->name);
    free(b->list);
    while (b->waiters) {
        struct builder_waiter *w = b->waiters;
        b->waiters = w->next;
        free(w);
    }
    free(b);
}

/* What people are told of the layer later; the spawner keeps it unread. */
static int make_note(const struct packages *p, struct error *err)
{
    scoped_json json_t *list = json_array();
    for (size_t i = 0; i < p->set.count; i++)
        json_array_append_new(list, json_string(p->set.items[i]));
    scoped_json json_t *note = json_pack("{s:s, s:O, s:I}", "language", p->language, "requirements",
                                         list, "created_ns", (json_int_t)clock_wall_ns());
    scoped_fd int fd = memfd_create("note", MFD_CLOEXEC);
    if (fd < 0)
        return error_sys(err, "make memory file");
    return json_write(fd, note, JSON_STYLE_COMPACT, err) < 0 ? -1 : take_fd(&fd);
}

static struct build *new_build(struct builder *builder, const struct packages *p)
{
    struct build *b = xcalloc(1, sizeof(*b));
    struct error ignored; /* a layer without a note is a layer */
    b->builder = builder;
    b->layer.note_fd = make_note(p, &ignored);
    memcpy(b->layer.digest, p->digest, sizeof(b->layer.digest));
    memcpy(b->image, p->image, sizeof(b->image));
    b->text = xstrdup(p->installer.text);
    b->name = xstrdup(p->installer.name);
    b->tools = copy_words(&p->installer.tools);
    b->argv = copy_words(&p->installer.command);
    b->env = make_env(builder);
    b->list = join_lines(&p->set);
    b->next = builder->builds;
    builder->builds = b;
    builder->count++;
    return b;
}

static void remove_build(struct build *b)
{
    struct builder *builder = b->builder;
    struct build **at = &builder->builds;
    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
    builder->count--;
    if (b->state == BUILD_RUNNING)
        builder->running--;
    free_build(b);
}

static void start_waiting(struct builder *builder);

/* The end of a build, for all who wait. It is out of the list first: who is told may ask again. */
static void end_build(struct build *b, const struct error *err)
{
    struct builder *builder = b->builder;
    struct builder_waiter *waiters = b->waiters;
    b->waiters = NULL;
    remove_build(b);
    while (waiters) {
        struct builder_waiter *w = waiters;
        waiters = w->next;
        if (w->fn)
            w->fn(w->ctx, err);
        free(w);
    }
    start_waiting(builder);
}

/* --- what is handed in ----------------------------------------------------------------------- */

/* A copy in memory: several builds may read at a time, each from the beginning. */
static int copy_file(int *out, const char *path, struct error *err)
{
    scoped_fd int file = open(path, O_RDONLY | O_CLOEXEC);
    scoped_fd int copy = memfd_create("installer", MFD_CLOEXEC);
    struct stat st;
    if (file < 0 || copy < 0 || fstat(file, &st) < 0)
        return error_sys(err, "open '%s'", path);
    for (off_t left = st.st_size; left > 0;) {
        ssize_t n = sendfile(copy, file, NULL, (size_t)left);
        if (n <= 0)
            return error_sys(err, "copy '%s'", path);
        left -= n;
    }
    if (lseek(copy, 0, SEEK_SET) < 0)
        return error_sys(err, "copy '%s'", path);
    *out = take_fd(&copy);
    return 0;
}

static int hand_in(struct build *b, const char *path, const char *name, mode_t mode,
                   struct error *err)
{
    struct stat st;
    int fd = -1;
    if (copy_file(&fd, path, err) < 0)
        return -1;
    BUG_ON(fstat(fd, &st) < 0 || b->request.input_count == INPUTS_MAX);
    b->inputs[b->request.input_count++] = (struct execution_input){
        .path = xasprintf(HANDED "%s", name),
        .fd = fd,
        .size = (uint64_t)st.st_size,
        .mode = mode,
        .mtime_ns = clock_wall_ns(),
    };
    return 0;
}

/* The first tool that Cove has is enough; with none, the image may have one. */
static int hand_in_all(struct build *b, struct error *err)
{
    if (hand_in(b, b->text, b->name, 0644, err) < 0)
        return -1;
    if (access(BUILDER_CERTIFICATES, R_OK) == 0 &&
        hand_in(b, BUILDER_CERTIFICATES, "ca.pem", 0644, err) < 0)
        return -1;
    for (char **tool = b->tools; *tool; tool++) {
        scoped_free char *path =
            xasprintf("%s/%s", b->builder->order.source->installers_dir, *tool);
        if (access(path, R_OK) == 0)
            return hand_in(b, path, *tool, 0755, err);
    }
    return 0;
}

/* --- running --------------------------------------------------------------------------------- */

/* The last whole lines of what it said, as many as fit; and nothing that would move a cursor. True
 * when it said somewhere that the disk is full: an installer that cleans up leaves no other trace
 * of that. */
static bool take_words(char words[WORDS_BYTES + 1], const struct output *output)
{
    scoped_strbuf struct strbuf raw, text;
    strbuf_init(&raw, 2 * OUTPUT_BYTES);
    strbuf_init(&text, 8 * OUTPUT_BYTES);
    output_text(output, &raw);
    utf8_add_clean(&text, strbuf_str(&raw), raw.len);
    const char *all = strbuf_str(&text);
    size_t len = text.len;
    while (len > 0 && strchr(" \n\t", all[len - 1]))
        len--;
    const char *end = all + len, *from = len > WORDS_BYTES ? end - WORDS_BYTES : all;
    const char *line = from > all ? memchr(from, '\n', (size_t)(end - from)) : NULL;
    from = line ? line + 1 : from;
    while (from < end && ((unsigned char)*from & 0xc0) == 0x80)
        from++; /* not in the middle of a letter */
    for (; from < end; from++)
        *words++ = *from == '\n' ? ';' : (unsigned char)*from < ' ' ? ' ' : *from;
    *words = '\0';
    return strstr(all, "No space left on device") || strstr(all, "ENOSPC");
}

/* Installers tell it as a package that is not there. */
static void explain_unreached(struct error *err, const char *host, const char *words)
{
    error_set(err, ERROR_UNAVAILABLE, "the packages cannot be fetched: %s%s%s", host,
              words[0] ? "; the installer says: " : "", words);
    error_word(err, "index_unreachable");
    error_hint(err, "try again; if it stays so, the operator finds 'egress failed' in the log");
}

static void explain(struct error *err, const struct execution *e)
{
    static const struct ending {
        enum reason_kind kind;
        enum error_code code;
        const char *word, *text, *hint;
    } endings[] = {
        {REASON_TIMEOUT, ERROR_TIMEOUT, "install_timeout", "the packages took too long to install",
         "try again, ask for fewer, or have the operator raise build-timeout"},
        {REASON_DISK, ERROR_TOO_LARGE, "install_too_large", "the packages are too large",
         "ask for fewer, or have the operator raise build-disk"},
        {REASON_OOM, ERROR_TOO_LARGE, "install_too_large", "the packages need too much memory",
         "ask for fewer, or have the operator raise build-disk"},
        {REASON_NONE, ERROR_INVALID, "install_failed", "the packages cannot be installed",
         "what the installer said is above: look for the name and the version"},
    };
    char words[WORDS_BYTES + 1];
    const struct ending *it = endings;
    bool is_full = take_words(words, e->err.total ? &e->err : &e->out);
    enum reason_kind kind =
        is_full && e->verdict.kind == REASON_EXIT ? REASON_DISK : e->verdict.kind;
    if (kind == REASON_EXIT && e->facts.unreached[0]) {
        explain_unreached(err, e->facts.unreached, words);
        return;
    }
    while (it->kind != kind && it->kind != REASON_NONE)
        it++;
    error_set(err, it->code, "%s%s%s", it->text, words[0] ? ": " : "", words);
    error_word(err, it->word);
    error_hint(err, "%s", it->hint);
}

static void on_ended(void *ctx, const struct execution *e)
{
    struct error err;
    if (e->verdict.kind == REASON_NONE) {
        end_build(ctx, NULL);
        return;
    }
    err = e->error;
    if (!err.msg[0])
        explain(&err, e);
    else if (err.code == ERROR_DENIED)
        error_word(&err, "install_refused");
    else if (err.code == ERROR_TOO_LARGE)
        error_word(&err, "install_too_large");
    end_build(ctx, &err);
}

static void on_output(void *ctx, enum execution_stream stream, const void *data, size_t len)
{
    const struct build *b = ctx;
    (void)stream;
    if (b->builder->order.said)
        b->builder->order.said(b->builder->order.ctx, data, len);
}

static const struct execution_events build_events = {.output = on_output, .ended = on_ended};

static int fill_request(struct build *b, struct error *err)
{
    const struct builder_order *o = &b->builder->order;
    b->request = (struct run_request){
        .argv = (const char *const *)b->argv,
        .env = (const char *const *)b->env,
        .inputs = b->inputs,
        .stdin_fd = -1,
        .limits = o->limits,
        .timeout_ms = o->timeout_ms,
        .output_bytes = OUTPUT_BYTES,
        .allow_degraded = o->allow_degraded,
        .capacity = o->capacity,
        .wants_usage = true,
        .layer = &b->layer,
        .gateway = o->gateway,
        .rules = &b->builder->rules,
    };
    memcpy(b->request.image, b->image, sizeof(b->request.image));
    if (b->layer.note_fd < 0)
        return error_set(err, ERROR_UNAVAILABLE, "make memory file");
    return fd_make_file(&b->request.stdin_fd, "requirements", b->list, strlen(b->list), err) < 0
               ? -1
               : hand_in_all(b, err);
}

static void start(struct build *b)
{
    struct error err;
    const struct builder_order *o = &b->builder->order;
    if (fill_request(b, &err) < 0) {
        scoped_close_fd(&b->request.stdin_fd);
        end_build(b, &err);
        return;
    }
    if (run_begin(&b->run, o->loop, o->spawner, &b->request, &build_events, b, &err) < 0) {
        end_build(b, &err);
        return;
    }
    b->state = BUILD_RUNNING;
    b->builder->running++;
}

/* The oldest first: new ones stand at the front of the list. */
static void start_waiting(struct builder *builder)
{
    while (builder->running < BUILDS_AT_ONCE) {
        struct build *oldest = NULL;
        for (struct build *b = builder->builds; b; b = b->next)
            oldest = b->state == BUILD_WAITING ? b : oldest;
        if (!oldest)
            return;
        start(oldest);
    }
}

static void on_found(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    (void)fds;
    struct build *b = ctx;
    if (m || err->code != ERROR_NOT_FOUND) {
        end_build(b, m ? NULL : err);
        return;
    }
    b->state = BUILD_WAITING;
    start_waiting(b->builder);
}

/* --- the interface --------------------------------------------------------------------------- */

static struct build *find(const struct builder *builder, const uint8_t digest[SPAWN_DIGEST_BYTES])
{
    struct build *b = builder->builds;
    while (b && memcmp(b->layer.digest, digest, SPAWN_DIGEST_BYTES) != 0)
        b = b->next;
    return b;
}

static void look(struct build *b)
{
    struct spawn_message m = {.verb = SPAWN_FIND_LAYER};
    memcpy(m.layer.digest, b->layer.digest, sizeof(m.layer.digest));
    spawner_client_ask(b->builder->order.spawner, &m, on_found, b);
}

struct builder_waiter *builder_need(struct builder *builder, const struct packages *packages,
                                    builder_fn fn, void *ctx)
{
    struct build *b = find(builder, packages->digest);
    if (!b) {
        b = new_build(builder, packages);
        look(b);
    }
    struct builder_waiter *w = xcalloc(1, sizeof(*w));
    *w = (struct builder_waiter){.next = b->waiters, .build = b, .fn = fn, .ctx = ctx};
    b->waiters = w;
    return w;
}

void builder_forget(struct builder_waiter *w)
{
    w->fn = NULL; /* the build frees it */
}

void builder_on_event(struct builder *builder, const struct spawn_message *m)
{
    for (struct build *b = builder->builds, *next; b; b = next) {
        next = b->next; /* an event may be its end */
        if (b->run)
            run_on_event(b->run, m);
    }
}

void builder_limits(struct spawn_limits *out, uint64_t disk_bytes)
{
    *out = (struct spawn_limits){
        .memory_bytes = 2 * disk_bytes + 256 * MIB,
        .disk_bytes = disk_bytes,
        .inodes = 200000,
        .cpu_milli = 2000,
        .pids = 256,
        .open_files = 1024,
    };
}

int builder_open(struct builder **out, const struct builder_order *order, struct error *err)
{
    scoped(builder) struct builder *builder = xcalloc(1, sizeof(*builder));
    builder->order = *order;
    if (network_rules_make(&builder->rules, &only_packages, &order->network, err) < 0)
        return error_wrap(err, "packages cannot be installed");
    *out = take_ptr(&builder);
    return 0;
}

void builder_free(struct builder *builder)
{
    while (builder && builder->builds) {
        struct build *b = builder->builds;
        builder->builds = b->next;
        free_build(b);
    }
    if (builder)
        network_rules_release(&builder->rules);
    free(builder);
}
