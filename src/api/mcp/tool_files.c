/* tool_files.c - upload_file, list_artifacts, read_artifact */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/file_json.h"
#include "api/mcp/reading.h"
#include "api/mcp/room.h"
#include "api/mcp/show.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "codec/base64.h"
#include "core/errand.h"
#include "core/mime.h"

#define TEXT_MAX       (512 * KIB)
#define FILE_LINES_MAX (32 * KIB) /* of one file in a list */
#define LINK_MAX       (24 * KIB)
#define LIST_MAX       200
#define DOCUMENT_MAX   (256 * MIB)
#define PIECE_BYTES    (256 * KIB) /* less than may wait */
#define FILE_MODE      0644

static bool is_execution(const char *text)
{
    return id_is_valid(ID_EXECUTION, text);
}

#define EXECUTION_ROW(of)                                                                           \
    {                                                                                               \
        .name = "execution_id", .type = PARAM_STRING, .offset = offsetof(of, execution),            \
        .max_len = ID_BYTES, .check = is_execution, .pattern = "^exe_[0-9a-z]{26}$",                \
        .help =                                                                                     \
            "The execution that run_code has told: files as it left them, also when their session " \
            "has ended. Either this or session_id."                                                 \
    }

/* Exactly one of the two. */
static bool check_place(struct mcp_call *call, const char *session, const char *execution)
{
    struct error err;
    if (!session != !execution)
        return true;
    error_set(&err, ERROR_INVALID,
              "give either execution_id (files as an execution left them) or session_id (files as "
              "they are in a session now)%s",
              session ? ", not both" : "");
    mcp_answer_complaint(call, &err);
    return false;
}

/* --- upload_file ------------------------------------------------------------------------------ */

struct upload_wish {
    char *session, *path, *content, *content_base64;
};

struct upload {
    struct mcp_call *call;
    struct errand *errand; /* NULL: not under way */
    uint8_t *bytes;
    size_t len, sent;
};

static void free_upload(struct upload *u)
{
    if (u->errand)
        errand_close(u->errand);
    free(u->bytes);
    free(u);
}

static void fail_upload(struct upload *u, const struct error *err)
{
    toolbox_fail(u->call, err);
    free_upload(u);
}

static void send_on(void *ctx)
{
    struct upload *u = ctx;
    bool is_welcome = true;
    while (is_welcome && u->sent < u->len) {
        size_t piece = MIN(PIECE_BYTES, u->len - u->sent);
        is_welcome = errand_write(u->errand, u->bytes + u->sent, piece);
        u->sent += piece;
    }
    if (is_welcome)
        errand_commit(u->errand);
}

static void on_uploaded(void *ctx, const struct errand_end *end)
{
    struct upload *u = ctx;
    const struct upload_wish *wish = mcp_arguments(u->call);
    u->errand = NULL;
    if (end->error.msg[0]) {
        fail_upload(u, &end->error);
        return;
    }
    scoped_free char *text =
        xasprintf("%s '%s' (%zu bytes) in session '%s'.", end->is_created ? "Wrote" : "Replaced",
                  wish->path, u->len, wish->session);
    toolbox_answer_text(u->call, text,
                        json_pack("{s:s, s:s, s:I, s:b}", "session_id", wish->session, "path",
                                  wish->path, "size", (json_int_t)u->len, "created",
                                  end->is_created));
    free_upload(u);
}

static const struct errand_events upload_events = {.drained = send_on, .ended = on_uploaded};

static void on_upload_room(void *ctx, const struct error *cause)
{
    struct upload *u = ctx;
    struct error err;
    const struct upload_wish *wish = mcp_arguments(u->call);
    const struct errand_order order = {.op = FILES_WRITE,
                                       .flags = FILES_PARENTS | FILES_REPLACE,
                                       .path = wish->path,
                                       .mode = FILE_MODE,
                                       .events = &upload_events,
                                       .ctx = u};
    if (cause)
        fail_upload(u, cause);
    else if (plane_open_errand(&u->errand, toolbox_api(u->call)->plane, toolbox_caller(u->call),
                               wish->session, &order, &err) < 0)
        fail_upload(u, &err);
    else
        send_on(u);
}

static int refuse_path(const char *path, struct error *err)
{
    error_set(err, ERROR_INVALID, "path: '%.200s' is not a path below the workspace", path);
    return error_hint(err,
                      "relative to the working directory, without '..', such as out/chart.png");
}

static int read_bytes(struct upload *u, const struct upload_wish *wish, struct error *err)
{
    if (!wish->content == !wish->content_base64)
        return error_set(err, ERROR_INVALID, "needs either content (text) or content_base64%s",
                         wish->content ? ", not both" : "");
    if (!errand_path_is_valid(wish->path))
        return refuse_path(wish->path, err);
    const char *text = wish->content ? wish->content : wish->content_base64;
    size_t len = strlen(text);
    u->bytes = xmalloc(len + 1);
    u->len = len;
    if (wish->content)
        memcpy(u->bytes, text, len);
    else if (!base64_decode(text, len, u->bytes, &u->len))
        return error_set(err, ERROR_INVALID, "content_base64: '%.40s%s' is not base64", text,
                         len > 40 ? "..." : "");
    return 0;
}

static void run_upload(struct mcp_call *call)
{
    struct error err;
    const struct upload_wish *wish = mcp_arguments(call);
    struct upload *u = xcalloc(1, sizeof(*u));
    u->call = call;
    if (read_bytes(u, wish, &err) < 0) {
        fail_upload(u, &err);
        return;
    }
    const struct room_wish room = {.session = wish->session};
    room_enter(call, &room, on_upload_room, u);
}

/* --- list_artifacts --------------------------------------------------------------------------- */

struct list_wish {
    char *session, *execution, *path;
};

/* One line for a model, and one more where it can be fetched. `file` is of the shape "ToolFile". */
static void add_file(struct strbuf *out, const json_t *file)
{
    const char *url = json_string_value(json_object_get(file, "download_url"));
    const char *time = json_string_value(json_object_get(file, "modified_at"));
    const char *path = json_string_value(json_object_get(file, "path"));
    const char *mime = json_string_value(json_object_get(file, "mime_type"));
    const char *kind = json_string_value(json_object_get(file, "kind"));
    strbuf_add_str(out, "- ");
    show_name(out, path);
    if (!mime) {
        bool is_folder = strcmp(kind, errand_kind_name(ERRAND_DIRECTORY)) == 0;
        strbuf_add_fmt(out, "%s (%s)\n", is_folder ? "/" : "", kind);
        return;
    }
    strbuf_add_fmt(out, " (%s, %lld bytes, %s)%s%s\n", mime,
                   (long long)json_integer_value(json_object_get(file, "size")), time ? time : "",
                   url ? "\n  download_url: " : "", url ? url : "");
}

/* Takes `files`. Names and addresses may be long, so the text may have fewer than there are. */
static void tell_files(struct mcp_call *call, json_t *files, bool has_more, const char *more,
                       const char *none)
{
    size_t i;
    json_t *file;
    scoped_strbuf struct strbuf out;
    strbuf_init(&out, TEXT_MAX);
    json_array_foreach(files, i, file)
    {
        if (out.len > TEXT_MAX - FILE_LINES_MAX)
            break;
        add_file(&out, file);
    }
    if (i < json_array_size(files))
        strbuf_add_fmt(&out, "and %zu more, whose names are too long for this list.\n",
                       json_array_size(files) - i);
    if (has_more)
        strbuf_add_str(&out, more);
    if (json_array_size(files) == 0)
        strbuf_add_str(&out, none);
    toolbox_answer_text(call, strbuf_str(&out),
                        json_pack("{s:o, s:b}", "files", files, "truncated", has_more));
}

static void on_listed_execution(void *ctx, const char *text, size_t len, const struct error *cause)
{
    struct mcp_call *call = ctx;
    struct error err;
    size_t i;
    json_t *file;
    scoped_json json_t *document = NULL;
    const struct json_limits limits = {.max_bytes = DOCUMENT_MAX, .has_nul = true};
    if (cause || json_parse(&document, text, len, &limits, &err) < 0) {
        toolbox_fail(call, cause ? cause : &err);
        return;
    }
    json_t *files = json_array();
    json_array_foreach(json_object_get(document, "artifacts"), i, file)
    {
        json_object_set_new(file, "kind", json_string(errand_kind_name(ERRAND_FILE)));
        json_object_del(file, "sha256");
        if (!toolbox_api(call)->has_address) /* one at a socket is of no use to anybody */
            json_object_set_new(file, "download_url", json_null());
        json_array_append(files, file);
    }
    const json_t *cut = json_object_get(json_object_get(document, "truncated"), "artifacts");
    tell_files(call, files, json_is_true(cut), "There were more, which are not kept.\n",
               "The execution left no files.");
}

struct listing {
    struct mcp_call *call;
    json_t *files;
    char *id; /* of the session */
};

static json_t *make_link(const struct listing *l, const char *path)
{
    const struct api *api = toolbox_api(l->call);
    const struct links *links = api->has_address ? api->links : NULL;
    const struct links_target target = {.session = l->id, .execution = "", .path = path};
    int64_t expires_ns;
    scoped_strbuf struct strbuf url;
    strbuf_init(&url, LINK_MAX);
    if (!links || !links_add(links, &url, &target, 0, clock_wall_ns(), &expires_ns))
        return json_null();
    return json_string(strbuf_str(&url));
}

static void on_entry(void *ctx, const struct errand_entry *e)
{
    struct listing *l = ctx;
    char time[CLOCK_TEXT_BYTES];
    const struct list_wish *wish = mcp_arguments(l->call);
    bool is_file = e->kind == ERRAND_FILE;
    scoped_free char *path = file_join(wish->path ? wish->path : "", e->name);
    clock_format(e->mtime_ns, time);
    json_array_append_new(
        l->files,
        json_pack("{s:o, s:s, s:I, s:o, s:s, s:o}", "path", json_text(path, strlen(path)), "kind",
                  errand_kind_name(e->kind), "size", (json_int_t)e->size, "mime_type",
                  json_text_or_null(is_file ? mime_of(path) : NULL), "modified_at", time,
                  "download_url", is_file ? make_link(l, path) : json_null()));
}

static void free_listing(struct listing *l)
{
    json_decref(l->files);
    free(l->id);
    free(l);
}

static void on_listed_session(void *ctx, const struct errand_end *end)
{
    struct listing *l = ctx;
    if (end->error.msg[0])
        toolbox_fail(l->call, &end->error);
    else
        tell_files(l->call, take_ptr(&l->files), end->has_more,
                   "There are more: list them with run_code.\n", "There are no files here.");
    free_listing(l);
}

static const struct errand_events list_events = {.entry = on_entry, .ended = on_listed_session};

static void list_session(struct mcp_call *call, const struct list_wish *wish)
{
    struct error err;
    struct errand *errand;
    struct listing *l = xcalloc(1, sizeof(*l));
    const struct plane_caller *who = toolbox_caller(call);
    struct plane *plane = toolbox_api(call)->plane;
    const struct errand_order order = {.op = FILES_LIST,
                                       .path = wish->path ? wish->path : "",
                                       .count = LIST_MAX,
                                       .events = &list_events,
                                       .ctx = l};
    l->call = call;
    l->files = json_array();
    if (plane_open_errand(&errand, plane, who, wish->session, &order, &err) < 0) {
        toolbox_fail(call, &err);
        free_listing(l);
        return;
    }
    l->id = xstrdup(plane_session_id(plane, who, wish->session));
}

static void run_list(struct mcp_call *call)
{
    const struct list_wish *wish = mcp_arguments(call);
    if (!check_place(call, wish->session, wish->execution))
        return;
    struct error err;
    if (wish->path && !errand_path_is_valid(wish->path)) {
        refuse_path(wish->path, &err);
        toolbox_fail(call, &err);
        return;
    }
    if (!toolbox_check_scope(call, wish->session ? SCOPE_FILES : SCOPE_SESSIONS_READ))
        return;
    if (wish->session)
        list_session(call, wish);
    else
        plane_get_execution(toolbox_api(call)->plane, toolbox_caller(call), wish->execution,
                            on_listed_execution, call);
}

/* --- read_artifact ---------------------------------------------------------------------------- */

static const char *const streams[] = {"stdout", "stderr", NULL};

struct read_wish {
    char *session, *execution, *path;
    int stream;
    bool has_stream;
    int64_t offset, limit;
};

static void run_read(struct mcp_call *call)
{
    const struct read_wish *wish = mcp_arguments(call);
    if (!check_place(call, wish->session, wish->execution))
        return;
    struct error err;
    if (wish->has_stream == (wish->path != NULL) || (wish->has_stream && wish->session)) {
        error_set(&err, ERROR_INVALID,
                  "give either path (a file), or stream (\"stdout\" or \"stderr\") with "
                  "execution_id");
        mcp_answer_complaint(call, &err);
        return;
    }
    if (!toolbox_check_scope(call, wish->session ? SCOPE_FILES : SCOPE_SESSIONS_READ))
        return;
    reading_begin(call,
                  &(struct reading_order){.execution = wish->execution,
                                          .session = wish->session,
                                          .path = wish->path,
                                          .stream = wish->has_stream ? streams[wish->stream] : NULL,
                                          .offset = (uint64_t)wish->offset,
                                          .limit = (uint64_t)wish->limit});
}

/* --- the tables ------------------------------------------------------------------------------- */

/* clang-format off */
#define PATH_ROW(of, needed, words) \
    {.name = "path", .type = PARAM_STRING, .is_required = (needed), .offset = offsetof(of, path), .max_len = GUEST_PATH_MAX, \
     .example = "\"out/chart.png\"", .help = (words)}

static const struct param upload_rows[] = {
    SESSION_ROW(struct upload_wish, true),
    PATH_ROW(struct upload_wish, true, "Where it is put, relative to the working directory of run_code."),
    {.name = "content", .type = PARAM_STRING, .offset = offsetof(struct upload_wish, content), .max_len = WISH_CODE_MAX,
     .example = "\"a,b\\n1,2\\n\"", .help = "Its text. Either this or content_base64."},
    {.name = "content_base64", .type = PARAM_STRING, .offset = offsetof(struct upload_wish, content_base64),
     .max_len = 4 * WISH_CODE_MAX, .help = "Its bytes, as base64."},
};
static const struct param_table upload_table = PARAM_TABLE(struct upload_wish, "UploadFile", upload_rows);
const struct mcp_tool tool_upload_file = {
    .name = "upload_file", .title = "Put a file into a session",
    .description = "Writes a file into the workspace of a session, which is made when its name is new. What was there is replaced.\n"
                   "Example: {\"session_id\": \"analysis\", \"path\": \"data.csv\", \"content\": \"a,b\\n1,2\\n\"}",
    .example = "{\"session_id\": \"analysis\", \"path\": \"data.csv\", \"content\": \"a,b\\n1,2\\n\"}",
    .hints = MCP_DESTRUCTIVE | MCP_IDEMPOTENT, .params = &upload_table, .scope = SCOPE_FILES | SCOPE_SESSIONS_WRITE, .run = run_upload,
};

static const struct param list_rows[] = {
    EXECUTION_ROW(struct list_wish),
    SESSION_ROW(struct list_wish, false),
    PATH_ROW(struct list_wish, false, "Of a session: a folder in it; without one, the working directory."),
};
static const struct param_table list_table = PARAM_TABLE(struct list_wish, "ListArtifacts", list_rows);
const struct mcp_tool tool_list_artifacts = {
    .name = "list_artifacts", .title = "List files",
    .description = "Lists the files that an execution made or changed, or those that are in a session now: name, type, size, time, and "
                   "where there is one, an address where the user can download each for a while.\n"
                   "Example: {\"session_id\": \"analysis\"}",
    .example = "{\"session_id\": \"analysis\"}",
    .hints = MCP_READ_ONLY | MCP_IDEMPOTENT, .params = &list_table, .run = run_list,
};

static const struct param read_rows[] = {
    EXECUTION_ROW(struct read_wish),
    SESSION_ROW(struct read_wish, false),
    PATH_ROW(struct read_wish, false, "The file. Either this or stream."),
    {.name = "stream", .type = PARAM_CHOICE, .offset = offsetof(struct read_wish, stream),
     .has_offset = offsetof(struct read_wish, has_stream), .choices = streams,
     .help = "What an execution printed, instead of a file."},
    {.name = "offset", .type = PARAM_INTEGER, .offset = offsetof(struct read_wish, offset), .max = 1e15, .example = "65536",
     .help = "Bytes to leave out at the beginning."},
    {.name = "limit", .type = PARAM_INTEGER, .offset = offsetof(struct read_wish, limit), .min = 1, .max = READING_TEXT_MAX,
     .example = "16384", .help = "Bytes to read at most; without it, 64 KiB of a text and all of a picture."},
};
static const struct param_table read_table = PARAM_TABLE(struct read_wish, "ReadArtifact", read_rows);
const struct mcp_tool tool_read_artifact = {
    .name = "read_artifact", .title = "Read a file",
    .description = "Reads a file that run_code made, or what it printed: text by ranges, pictures as pictures.\n"
                   "Example: {\"session_id\": \"analysis\", \"path\": \"chart.png\"}",
    .example = "{\"session_id\": \"analysis\", \"path\": \"chart.png\"}",
    .hints = MCP_READ_ONLY | MCP_IDEMPOTENT, .params = &read_table, .run = run_read,
};
/* clang-format on */
