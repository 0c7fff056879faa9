/* restart_client.c - a client that cove-spawner starts and that a test drives; see restart_test.py
 *
 *   restart_client SOCKET RECIPES
 *
 * Terminals are numbered by the test; their bytes go as base64.
 *
 * Connects to an abstract socket, takes a JSON object per line and answers with events, one per
 * line. The test is its store: what it asks for as a record it hands to the next one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/parse.h"
#include "codec/base64.h"
#include "core/execution_json.h"
#include "core/session.h"
#include "core/terminal.h"
#include "core/warm.h"
#include "image/image_store.h"
#include "image/runner.h"
#include "runtime/keeper.h"

#define LINE_MAX_BYTES (4 * MIB)
#define TERMINALS_MAX  8

static struct {
    struct loop *loop;
    struct spawner_client *spawner;
    struct session *session;
    struct session_template template;
    struct runner_list runners;
    struct runner_kernel kernel;
    struct warm *warm; /* NULL: kernels start cold */
    struct cell_request request;
    char *code;
    json_t *listed;
    const char *recipes;
    struct client_terminal {
        int number;
        struct terminal *terminal; /* NULL: closed */
    } terminals[TERMINALS_MAX];
    int test; /* the socket to the test */
    struct error error;
} me;

static void die(const char *what)
{
    fprintf(stderr, "restart_client: %s: %s\n", what, me.error.msg);
    _exit(1);
}

static void say(json_t *event)
{
    scoped_json json_t *owned = event;
    if (json_write(me.test, owned, JSON_STYLE_COMPACT, &me.error) < 0)
        die("answer");
}

/* --- what is told ---------------------------------------------------------------------------- */

static void on_changed(void *ctx, struct session *s)
{
    (void)ctx;
    const struct session_info *info = session_info(s);
    say(json_pack("{ss ss ss ss}", "event", "changed", "id", info->id, "state",
                  session_state_name(info->state), "error", info->error.msg));
}

static void on_output(void *ctx, enum execution_stream stream, const void *data, size_t len)
{
    (void)ctx;
    say(json_pack("{ss si so}", "event", "output", "stream", (int)stream, "text",
                  json_text(data, len)));
}

static void on_ended(void *ctx, const struct execution *e)
{
    (void)ctx;
    say(json_pack("{ss so}", "event", "ended", "execution", execution_json(e, "any")));
}

static const struct session_events session_events = {.changed = on_changed};
static const struct execution_events execution_events = {.output = on_output, .ended = on_ended};

static void on_event(void *ctx, const struct spawn_message *m)
{
    (void)ctx;
    if (!m)
        die("the spawner went away");
    if (me.warm)
        warm_on_event(me.warm, m);
    if (me.session)
        session_on_event(me.session, m);
}

static void on_hello(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    (void)ctx;
    (void)fds;
    if (!m) {
        me.error = *err;
        die("hello");
    }
    say(json_pack("{ss si}", "event", "hello", "pid", (int)getpid()));
}

/* --- what is asked --------------------------------------------------------------------------- */

static const char *get_text(const json_t *line, const char *key)
{
    const char *text = json_string_value(json_object_get(line, key));
    return text ? text : "";
}

/* What checkpoints need; -1: there are none. */
static int open_copier(const char *path)
{
    scoped_fd int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    int copy = memfd_create("copier", MFD_CLOEXEC);
    if (copy < 0 || sendfile(copy, file, NULL, 4 * MIB) <= 0)
        die("copier");
    return copy;
}

static void load_template(const json_t *line)
{
    const char *language = get_text(line, "language");
    static const char *env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", NULL};
    const char *dirs[IMAGE_STORE_DIRS];
    scoped_free char *text = NULL;
    image_store_dirs(IMAGE_STORE_SYSTEM_DIR, dirs);
    if (runner_list_load(&me.runners, dirs, &me.error) < 0)
        die("runners");
    const struct runner *runner = runner_find(&me.runners, language, &me.error);
    if (!runner || runner_find_kernel(&me.kernel, runner, me.recipes, &me.error) < 0 ||
        fd_read_file(me.kernel.text, &text, 4 * MIB, &me.error) < 0)
        die(language);
    int fd = memfd_create("kernel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || fd_write_all(fd, text, strlen(text), &me.error) < 0 ||
        lseek(fd, 0, SEEK_SET) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        die("kernel text");
    struct session_template *t = &me.template;
    memcpy(t->image, runner->digest, sizeof(t->image));
    t->argv = (const char *const *)me.kernel.command.items;
    t->env = env;
    t->kernel_fd = fd;
    t->copier_fd = open_copier(get_text(line, "copier"));
    t->is_plain = me.kernel.is_plain;
    t->limits = (struct spawn_limits){.memory_bytes = 256 * MIB,
                                      .disk_bytes = 64 * MIB,
                                      .inodes = 16384,
                                      .cpu_milli = 1000,
                                      .pids = 64,
                                      .open_files = 1024,
                                      .lifetime_ms = 600 * 1000};
}

static void set_request(const json_t *line)
{
    free(me.code);
    me.code = xstrdup(get_text(line, "code"));
    me.request = (struct cell_request){
        .code = me.code,
        .code_len = strlen(me.code),
        .stdin_fd = -1,
        .timeout_ms = (uint64_t)json_integer_value(json_object_get(line, "timeout_ms")),
        .output_bytes = (size_t)json_integer_value(json_object_get(line, "output_bytes")),
        .wants_artifacts = true,
        .wants_usage = true,
        .keeps_now = json_is_true(json_object_get(line, "keeps_now")),
    };
}

static void open_session(void *ctx)
{
    (void)ctx;
    me.template.zygote = me.warm ? warm_zygote(me.warm) : 0;
    if (me.session || (me.warm && !me.template.zygote))
        return;
    if (session_open(&me.session, me.loop, me.spawner, &me.template, &session_events, NULL,
                     &me.error) < 0)
        die("open");
    session_keep(me.session);
}

static void op_open(const json_t *line)
{
    const struct warm_order order = {
        .template = &me.template, .memory_bytes = 512 * MIB, .changed = open_session};
    load_template(line);
    if (!json_is_true(json_object_get(line, "is_warm")))
        open_session(NULL);
    else if (warm_open(&me.warm, me.loop, me.spawner, &order, &me.error) < 0)
        die("warm");
}

static void op_execute(const json_t *line)
{
    set_request(line);
    if (session_execute(me.session, &me.request, false, &execution_events, NULL, &me.error) < 0)
        say(json_pack("{ss ss}", "event", "refused", "message", me.error.msg));
}

static void op_record(const json_t *line)
{
    (void)line;
    struct session_record record;
    char hex[2 * sizeof(record) + 1], label[2 * sizeof(record.label) + 1];
    session_get_record(me.session, &record);
    format_hex((const uint8_t *)&record, sizeof(record), hex);
    format_hex(record.label, sizeof(record.label), label);
    say(json_pack("{ss ss ss}", "event", "record", "record", hex, "label", label));
}

static void op_attach(const json_t *line)
{
    struct session_record record;
    const struct session_resumption resumption = {.request = &me.request,
                                                  .events = &execution_events};
    load_template(line);
    set_request(line);
    if (!parse_hex(get_text(line, "record"), (uint8_t *)&record, sizeof(record)))
        die("record");
    if (json_is_true(json_object_get(line, "from_start")))
        record.execution.told[0] = record.execution.told[1] = 0;
    if (session_attach(&me.session, me.loop, me.spawner, &me.template, &record, &resumption,
                       &session_events, NULL, &me.error) < 0)
        die("attach");
}

static void on_entry(void *ctx, uint64_t id, const struct spawn_entry *entry,
                     const struct error *err)
{
    (void)ctx;
    char label[2 * SPAWN_LABEL_BYTES + 1];
    if (!entry) {
        if (err)
            die("list");
        say(json_pack("{ss so}", "event", "list", "entries", take_ptr(&me.listed)));
        return;
    }
    format_hex(entry->label, sizeof(entry->label), label);
    json_array_append_new(me.listed, json_pack("{sI ss si}", "id", (json_int_t)id, "label", label,
                                               "state", (int)entry->state));
}

static void op_list(const json_t *line)
{
    (void)line;
    me.listed = json_array();
    keeper_list(me.spawner, on_entry, NULL);
}

static void op_reset(const json_t *line)
{
    (void)line;
    if (session_reset(me.session, &me.error) < 0)
        die("reset");
}

static void op_interrupt(const json_t *line)
{
    (void)line;
    session_interrupt(me.session);
}

static void op_detach(const json_t *line)
{
    (void)line;
    struct session_record record;
    session_detach(take_ptr(&me.session), &record);
    _exit(75);
}

static void op_close(const json_t *line)
{
    (void)line;
    session_close(me.session);
}

static void op_end(const json_t *line)
{
    (void)line;
    _exit(0);
}

static void op_refuse(const json_t *line)
{
    (void)line;
    _exit(SPAWN_REFUSAL);
}

static void on_checkpoint(void *ctx, const struct checkpoint_info *info, const struct error *err)
{
    (void)ctx;
    (void)info;
    say(json_pack("{ss ss}", "event", "checkpoint", "message", err ? err->msg : ""));
}

static void op_checkpoint(const json_t *line)
{
    if (session_checkpoint(me.session, get_text(line, "name"), on_checkpoint, NULL, &me.error) < 0)
        on_checkpoint(NULL, NULL, &me.error);
}

static void op_rollback(const json_t *line)
{
    if (session_rollback(me.session, get_text(line, "name"), on_checkpoint, NULL, &me.error) < 0)
        on_checkpoint(NULL, NULL, &me.error);
}

static void op_freeze(const json_t *line)
{
    (void)line;
    session_freeze(me.session);
    say(json_pack("{ss sb}", "event", "frozen", "is_frozen", session_info(me.session)->is_frozen));
}

/* --- terminals ------------------------------------------------------------------------------- */

static void on_terminal_started(void *ctx)
{
    const struct client_terminal *t = ctx;
    say(json_pack("{ss si}", "event", "started", "number", t->number));
}

static void on_terminal_output(void *ctx, const void *data, size_t len)
{
    const struct client_terminal *t = ctx;
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, LINE_MAX_BYTES);
    base64_add(&text, data, len);
    say(json_pack("{ss si ss}", "event", "printed", "number", t->number, "data",
                  strbuf_str(&text)));
}

static void on_terminal_drained(void *ctx)
{
    const struct client_terminal *t = ctx;
    say(json_pack("{ss si}", "event", "drained", "number", t->number));
}

static void on_terminal_ended(void *ctx, const struct terminal_end *end)
{
    struct client_terminal *t = ctx;
    t->terminal = NULL;
    say(json_pack("{ss si si si ss}", "event", "over", "number", t->number, "exit_code",
                  end->exit_code, "signal", end->signal, "message", end->error.msg));
}

static const struct terminal_events terminal_events = {
    .started = on_terminal_started,
    .output = on_terminal_output,
    .drained = on_terminal_drained,
    .ended = on_terminal_ended,
};

static unsigned get_number(const json_t *line, const char *key)
{
    return (unsigned)json_integer_value(json_object_get(line, key));
}

static struct client_terminal *get_terminal(const json_t *line)
{
    return &me.terminals[get_number(line, "number") % TERMINALS_MAX];
}

static void op_terminal(const json_t *line)
{
    static char env[] = "WHO=the test", *const list[] = {env, NULL};
    struct client_terminal *t = get_terminal(line);
    const struct terminal_order order = {.events = &terminal_events,
                                         .ctx = t,
                                         .env = list,
                                         .kind = get_text(line, "kind"),
                                         .columns = get_number(line, "columns"),
                                         .rows = get_number(line, "rows"),
                                         .idle_ms = get_number(line, "idle_ms")};
    t->number = (int)get_number(line, "number");
    if (terminal_open(&t->terminal, me.session, &order, &me.error) < 0)
        on_terminal_ended(t, &(struct terminal_end){.error = me.error});
}

static void op_type(const json_t *line)
{
    struct client_terminal *t = get_terminal(line);
    const char *text = get_text(line, "data");
    scoped_free uint8_t *data = xmalloc(BASE64_DECODED_MAX_LEN(strlen(text)) + 1);
    size_t len;
    if (!base64_decode(text, strlen(text), data, &len))
        die("base64");
    if (t->terminal && terminal_write(t->terminal, data, len))
        on_terminal_drained(t);
}

static void op_resize(const json_t *line)
{
    struct client_terminal *t = get_terminal(line);
    if (t->terminal)
        terminal_resize(t->terminal, get_number(line, "columns"), get_number(line, "rows"));
}

static void op_hold(const json_t *line)
{
    struct client_terminal *t = get_terminal(line);
    if (t->terminal)
        (json_is_true(json_object_get(line, "is_held")) ? terminal_pause
                                                        : terminal_resume)(t->terminal);
}

static void op_hangup(const json_t *line)
{
    struct client_terminal *t = get_terminal(line);
    if (t->terminal)
        terminal_close(take_ptr(&t->terminal));
}

static const struct {
    const char *name;
    void (*run)(const json_t *line);
} ops[] = {
    {"open", op_open},         {"execute", op_execute},     {"record", op_record},
    {"attach", op_attach},     {"list", op_list},           {"reset", op_reset},
    {"detach", op_detach},     {"interrupt", op_interrupt}, {"close", op_close},
    {"end", op_end},           {"refuse", op_refuse},       {"checkpoint", op_checkpoint},
    {"rollback", op_rollback}, {"freeze", op_freeze},       {"terminal", op_terminal},
    {"type", op_type},         {"resize", op_resize},       {"hold", op_hold},
    {"hangup", op_hangup},
};

static void obey(const char *text, size_t len)
{
    const struct json_limits limits = {.max_bytes = LINE_MAX_BYTES};
    scoped_json json_t *line = NULL;
    if (json_parse(&line, text, len, &limits, &me.error) < 0)
        die("line");
    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        if (strcmp(ops[i].name, get_text(line, "op")) == 0)
            ops[i].run(line);
    }
}

static void on_line(void *ctx, unsigned events)
{
    (void)events;
    struct strbuf *b = ctx;
    static char buffer[65536];
    ssize_t n = read(me.test, buffer, sizeof(buffer));
    if (n <= 0)
        _exit(1);
    for (ssize_t i = 0; i < n; i++) {
        if (buffer[i] != '\n') {
            strbuf_add_char(b, buffer[i]);
            continue;
        }
        obey(strbuf_str(b), b->len);
        strbuf_clear(b);
    }
}

static int connect_to(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t len = strlen(name);
    if (len + 1 >= sizeof(address.sun_path))
        die("name");
    memcpy(address.sun_path + 1, name, len);
    if (connect(fd, (struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)) < 0)
        die("connect");
    return fd;
}

int main(int argc, char **argv)
{
    struct strbuf line;
    struct loop_watch *watch;
    if (argc != 3)
        return 64;
    signal(SIGPIPE, SIG_IGN);
    strbuf_init(&line, LINE_MAX_BYTES);
    me.recipes = argv[2];
    int fd = connect_to(argv[1]);
    me.test = fcntl(fd, F_DUPFD_CLOEXEC, 3); /* one to write to, which blocks... */
    if (loop_open(&me.loop, &me.error) < 0 ||
        spawner_client_join(&me.spawner, me.loop, SPAWN_CLIENT_FD, on_hello, on_event, NULL,
                            &me.error) < 0 ||
        loop_watch_new(&watch, me.loop, fd, LOOP_READ, on_line, &line, &me.error) < 0)
        die("start");
    fcntl(fd, F_SETFL, 0); /* ...since the loop's flag is that of both */
    loop_run(me.loop);
    return 1;
}
