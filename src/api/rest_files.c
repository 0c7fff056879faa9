/* rest_files.c - /sessions/{id}/files: what is in the workspace, and how it is changed */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/download.h"
#include "api/file_json.h"
#include "api/routes.h"
#include "api/upload_body.h"
#include "api/upload_form.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "core/errand.h"

#define FORM_ROOM_BYTES (1024 * KIB) /* what a form may have beside its files */
#define PATH_PATTERN    "^[^/]"      /* the rest is for a check to decide */
#define CURSOR_MAX      (2 * FILES_NAME_MAX)

enum form { FORM_RAW, FORM_TAR, FORM_JSON };

struct list_wish {
    char *directory, *cursor;
    int64_t limit;
    int form;
};

struct read_wish {
    int form;
};

struct write_wish {
    char *mode;
    bool overwrites;
};

struct form_wish {
    char *directory;
    bool overwrites;
};

struct unpack_wish {
    char *directory;
};

struct delete_wish {
    bool is_recursive;
};

struct mkdir_wish {
    char *path;
};

struct move_wish {
    char *from, *to;
    bool overwrites;
};

static const char *const list_forms[] = {"json", "tar", NULL};
static const char *const read_forms[] = {
    [FORM_RAW] = "raw", [FORM_TAR] = "tar", [FORM_JSON] = "json", NULL};

static bool is_cursor(const char *text)
{
    size_t len = strlen(text);
    return len >= 2 && len % 2 == 0 && strspn(text, "0123456789abcdef") == len;
}

/* clang-format off */
#define DIRECTORY_ROW(wish, sentence)                                                              \
    {.name = "directory", .type = PARAM_STRING, .offset = offsetof(struct wish, directory), .check = errand_path_is_valid, \
     .max_len = GUEST_PATH_MAX - 1, .pattern = PATH_PATTERN, .help = (sentence)}
#define OVERWRITE_ROW(wish)                                                                        \
    {.name = "overwrite", .type = PARAM_BOOLEAN, .offset = offsetof(struct wish, overwrites), .preset = "true", \
     .help = "Whether a file of that name is replaced; else it is a conflict."}

static const struct param list_rows[] = {
    DIRECTORY_ROW(list_wish, "What is in this directory; left out: in the workspace itself."),
    {.name = "limit", .type = PARAM_INTEGER, .offset = offsetof(struct list_wish, limit), .min = 1, .max = FILES_PAGE_MAX,
     .preset = "100", .help = "Most files of a page."},
    {.name = "cursor", .type = PARAM_STRING, .offset = offsetof(struct list_wish, cursor), .max_len = CURSOR_MAX,
     .check = is_cursor, .pattern = "^([0-9a-f]{2})+$", .help = "The next_cursor of the page before."},
    {.name = "format", .type = PARAM_CHOICE, .offset = offsetof(struct list_wish, form), .choices = list_forms,
     .preset = "\"json\"", .help = "tar: all of it, with all below it, as an archive."},
};
static const struct param_table list_table = PARAM_TABLE(struct list_wish, "ListFiles", list_rows);

static const struct param read_rows[] = {
    {.name = "format", .type = PARAM_CHOICE, .offset = offsetof(struct read_wish, form), .choices = read_forms,
     .preset = "\"raw\"", .help = "raw: its bytes. json: what is known about it. tar: a directory as an archive."},
};
static const struct param_table read_table = PARAM_TABLE(struct read_wish, "ReadFile", read_rows);

static const struct param write_rows[] = {
    {.name = "mode", .type = PARAM_STRING, .offset = offsetof(struct write_wish, mode), .max_len = 4,
     .check = file_mode_is_valid, .pattern = "^0?[0-7]{3}$", .preset = "\"644\"",
     .help = "Its permissions, in octal, when it is new."},
    OVERWRITE_ROW(write_wish),
};
static const struct param_table write_table = PARAM_TABLE(struct write_wish, "WriteFile", write_rows);

static const struct param form_rows[] = {
    DIRECTORY_ROW(form_wish, "Where the files go; left out: into the workspace itself."),
    OVERWRITE_ROW(form_wish),
};
static const struct param_table form_table = PARAM_TABLE(struct form_wish, "UploadFiles", form_rows);

static const struct param unpack_rows[] = {
    DIRECTORY_ROW(unpack_wish, "Where its files go; left out: into the workspace itself."),
};
static const struct param_table unpack_table = PARAM_TABLE(struct unpack_wish, "UnpackFiles", unpack_rows);

static const struct param delete_rows[] = {
    {.name = "recursive", .type = PARAM_BOOLEAN, .offset = offsetof(struct delete_wish, is_recursive), .preset = "false",
     .help = "Whether a directory goes with all that is in it."},
};
static const struct param_table delete_table = PARAM_TABLE(struct delete_wish, "DeleteFile", delete_rows);

#define PATH_ROW(wish, field, word, sentence)                                                      \
    {.name = (word), .type = PARAM_STRING, .offset = offsetof(struct wish, field), .is_required = true, \
     .check = errand_path_is_valid, .max_len = GUEST_PATH_MAX - 1, .pattern = PATH_PATTERN, .example = "\"data/in.csv\"", \
     .help = (sentence)}

static const struct param mkdir_rows[] = {
    PATH_ROW(mkdir_wish, path, "path", "Relative to the workspace."),
};
static const struct param_table mkdir_table = PARAM_TABLE(struct mkdir_wish, "MakeDirectory", mkdir_rows);

static const struct param move_rows[] = {
    PATH_ROW(move_wish, from, "from", "What is moved; relative to the workspace."),
    PATH_ROW(move_wish, to, "to", "Where to, its new name included."),
    {.name = "overwrite", .type = PARAM_BOOLEAN, .offset = offsetof(struct move_wish, overwrites), .preset = "false",
     .help = "Whether a file of that name is replaced; else it is a conflict."},
};
static const struct param_table move_table = PARAM_TABLE(struct move_wish, "MoveFile", move_rows);
/* clang-format on */

/* --- an errand that ends with a document -------------------------------------------------------
 */

struct task {
    struct api_call *call;
    struct errand *errand;
    enum files_op op;
    char *path; /* of what it is about; of LIST: the directory */
    json_t *files, *file;
    char *last; /* name of a list */
};

static void free_task(struct task *t)
{
    json_decref(t->files);
    json_decref(t->file);
    free(t->path);
    free(t->last);
    free(t);
}

/* What was begun goes on to its end: it may have happened already. */
static void on_gone(void *ctx)
{
    struct task *t = ctx;
    if (t->op != FILES_LIST && t->op != FILES_STAT)
        return;
    errand_close(t->errand);
    api_take(t->call);
    free_task(t);
}

static void on_entry(void *ctx, const struct errand_entry *entry)
{
    struct task *t = ctx;
    const char *session = api_parameter(t->call, "id");
    if (t->op == FILES_LIST) {
        scoped_free char *path = file_join(t->path, entry->name);
        json_array_append_new(t->files, file_json(session, path, entry));
        free(t->last);
        t->last = xstrdup(entry->name);
    } else {
        json_decref(t->file);
        t->file = file_json(session, t->path, entry);
    }
}

static json_t *make_cursor(const char *name)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, CURSOR_MAX);
    for (const char *c = name; *c; c++)
        strbuf_add_fmt(&text, "%02x", (unsigned char)*c);
    return json_string(strbuf_str(&text));
}

static void answer_list(struct task *t, bool has_more)
{
    bool is_last = !has_more || !t->last;
    json_t *document =
        json_pack("{s:o, s:O, s:o}", "directory", json_text(t->path, strlen(t->path)), "files",
                  t->files, "next_cursor", is_last ? json_null() : make_cursor(t->last));
    api_answer(t->call, 200, document);
}

static void on_ended(void *ctx, const struct errand_end *end)
{
    struct task *t = ctx;
    if (end->error.msg[0])
        api_fail(t->call, &end->error);
    else if (t->op == FILES_LIST)
        answer_list(t, end->has_more);
    else if (t->op == FILES_REMOVE)
        api_answer_empty(t->call, 204);
    else
        api_answer(t->call, t->op == FILES_MKDIR && end->is_created ? 201 : 200,
                   json_incref(t->file));
    free_task(t);
}

static const struct errand_events events = {.entry = on_entry, .ended = on_ended};

/* `about` is the path that the answer names. */
static void run(struct api_call *call, const struct errand_order *order, const char *about)
{
    struct error err;
    struct errand_order full = *order;
    struct task *t = xcalloc(1, sizeof(*t));
    *t =
        (struct task){.call = call, .op = order->op, .path = xstrdup(about), .files = json_array()};
    full.events = &events;
    full.ctx = t;
    if (plane_open_errand(&t->errand, api_of(call)->plane, api_caller(call),
                          api_parameter(call, "id"), &full, &err) < 0) {
        free_task(t);
        api_fail(call, &err);
        return;
    }
    api_on_gone(call, on_gone, t);
}

/* --- handlers --------------------------------------------------------------------------------- */

/* A folder's path may end with a slash, as addresses do. */
static char *path_of(const struct api_call *call)
{
    char *path = xstrdup(api_parameter(call, "path"));
    size_t len = strlen(path);
    if (len > 0 && path[len - 1] == '/')
        path[len - 1] = '\0';
    return path;
}

static int hex_digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* Two digits a byte, as is_cursor() has seen. */
static void read_cursor(const char *cursor, char out[FILES_NAME_MAX + 1])
{
    size_t len = 0;
    for (; cursor && cursor[2 * len]; len++)
        out[len] = (char)(hex_digit(cursor[2 * len]) << 4 | hex_digit(cursor[2 * len + 1]));
    out[len] = '\0';
}

static void on_list(struct api_call *call)
{
    const struct list_wish *wish = api_query(call);
    const char *directory = wish->directory ? wish->directory : "";
    char after[FILES_NAME_MAX + 1];
    if (wish->form == FORM_TAR) {
        download_begin(call, api_caller(call), api_parameter(call, "id"), directory, DOWNLOAD_TAR);
        return;
    }
    read_cursor(wish->cursor, after);
    const struct errand_order order = {
        .op = FILES_LIST, .path = directory, .other = after, .count = (uint32_t)wish->limit};
    run(call, &order, directory);
}

static void on_read(struct api_call *call)
{
    const struct read_wish *wish = api_query(call);
    scoped_free char *path = path_of(call);
    const struct errand_order order = {.op = FILES_STAT, .path = path};
    if (wish->form == FORM_JSON)
        run(call, &order, path);
    else
        download_begin(call, api_caller(call), api_parameter(call, "id"), path,
                       wish->form == FORM_TAR ? DOWNLOAD_TAR : DOWNLOAD_FILE);
}

static void on_write(struct api_call *call)
{
    const struct write_wish *wish = api_query(call);
    const char *path = api_parameter(call, "path");
    const struct errand_order order = {.op = FILES_WRITE,
                                       .flags =
                                           FILES_PARENTS | (wish->overwrites ? FILES_REPLACE : 0),
                                       .path = path,
                                       .mode = file_mode_parse(wish->mode)};
    upload_body_begin(call, api_parameter(call, "id"), &order);
}

static void on_unpack(struct api_call *call)
{
    const struct unpack_wish *wish = api_query(call);
    const struct errand_order order = {.op = FILES_UNPACK,
                                       .path = wish->directory ? wish->directory : ""};
    upload_body_begin(call, api_parameter(call, "id"), &order);
}

static void on_upload(struct api_call *call)
{
    const struct form_wish *wish = api_query(call);
    upload_form_begin(call, api_parameter(call, "id"), wish->directory ? wish->directory : "",
                      wish->overwrites);
}

static void on_delete(struct api_call *call)
{
    const struct delete_wish *wish = api_query(call);
    scoped_free char *path = path_of(call);
    const struct errand_order order = {
        .op = FILES_REMOVE, .flags = wish->is_recursive ? FILES_RECURSIVE : 0, .path = path};
    run(call, &order, path);
}

static void on_mkdir(struct api_call *call)
{
    const struct mkdir_wish *wish = api_body(call);
    const struct errand_order order = {
        .op = FILES_MKDIR, .flags = FILES_PARENTS, .path = wish->path};
    run(call, &order, wish->path);
}

static void on_move(struct api_call *call)
{
    const struct move_wish *wish = api_body(call);
    const struct errand_order order = {.op = FILES_MOVE,
                                       .flags =
                                           FILES_PARENTS | (wish->overwrites ? FILES_REPLACE : 0),
                                       .path = wish->from,
                                       .other = wish->to};
    run(call, &order, wish->to);
}

/* --- the rows --------------------------------------------------------------------------------- */

#define ANY_TYPE "*/*"
#define TAR_TYPE "application/x-tar"
static const struct api_reply list_reply[] = {
    {200, "FileList", NULL, "A page of them, in the order of their names."},
    {200, NULL, TAR_TYPE, "With format=tar: an archive."},
    {0}};
static const struct api_reply read_reply[] = {
    {200, NULL, ANY_TYPE, "Its bytes, with a type by its name."},
    {200, "File", NULL, "With format=json: what is known about it."},
    {206, NULL, ANY_TYPE, "The bytes that Range asked for."},
    {304, NULL, NULL, "It is still the one that If-None-Match names."},
    {0}};
static const struct api_reply write_reply[] = {
    {200, "File", NULL, "It was replaced."}, {201, "File", NULL, "It is new."}, {0}};
static const struct api_reply unpack_reply[] = {{204, NULL, NULL, "All of it is there."}, {0}};
static const struct api_reply upload_reply[] = {{201, "FileUpload", NULL, "They are there."}, {0}};
static const struct api_reply delete_reply[] = {{204, NULL, NULL, "It is no more."}, {0}};
static const struct api_reply mkdir_reply[] = {
    {200, "File", NULL, "It was there before."}, {201, "File", NULL, "It is new."}, {0}};
static const struct api_reply move_reply[] = {{200, "File", NULL, "It is there now."}, {0}};
static const int errors[] = {404, 409, 413, 504, 0}, read_errors[] = {404, 409, 416, 504, 0};

/* clang-format off */
static const struct api_route rows[] = {
    {.method = METHOD_GET, .pattern = "/sessions/{id}/files", .scope = SCOPE_FILES, .query = &list_table, .handler = on_list,
     .id = "listFiles", .tag = "files", .summary = "List a directory",
     .help = "Links and special files are told as such and never followed. A name that no address can have, since it has "
             "control characters or is no UTF-8, has no url.",
     .replies = list_reply, .errors = errors},
    {.method = METHOD_PUT, .pattern = "/sessions/{id}/files", .scope = SCOPE_FILES, .flags = API_STREAMS | API_UPLOADS,
     .query = &unpack_table, .handler = on_unpack, .id = "unpackFiles", .tag = "files", .summary = "Unpack a tar archive",
     .help = "Inside the sandbox, below the directory and through no link. Each file is there when it is whole; when the "
             "archive goes wrong those before it stay.",
     .replies = unpack_reply, .errors = errors},
    {.method = METHOD_POST, .pattern = "/sessions/{id}/files/upload", .scope = SCOPE_FILES, .flags = API_STREAMS | API_UPLOADS,
     .body_max = FORM_ROOM_BYTES, .query = &form_table, .handler = on_upload, .body_type = "multipart/form-data",
     .id = "uploadFiles", .tag = "files", .summary = "Upload files by a form",
     .help = "Every part with a filename is a file, which may name folders; a field `path` says where the next one goes. "
             "Each file is there when it is whole, and replaces the old one at once.",
     .replies = upload_reply, .errors = errors},
    {.method = METHOD_POST, .pattern = "/sessions/{id}/files/mkdir", .scope = SCOPE_FILES, .body_max = 16 * KIB,
     .body = &mkdir_table, .handler = on_mkdir, .id = "makeDirectory", .tag = "files", .summary = "Make a directory",
     .help = "With all above it. One that is there is fine.", .replies = mkdir_reply, .errors = errors},
    {.method = METHOD_POST, .pattern = "/sessions/{id}/files/move", .scope = SCOPE_FILES, .body_max = 16 * KIB,
     .body = &move_table, .handler = on_move, .id = "moveFile", .tag = "files", .summary = "Move or rename",
     .replies = move_reply, .errors = errors},
    {.method = METHOD_GET, .pattern = "/sessions/{id}/files/{path*}", .scope = SCOPE_FILES, .query = &read_table,
     .handler = on_read, .id = "readFile", .tag = "files", .summary = "Read a file",
     .help = "As an attachment, with an ETag; a single Range is served, several get the whole file. A file that becomes "
             "shorter meanwhile breaks the connection off.",
     .replies = read_reply, .errors = read_errors},
    {.method = METHOD_PUT, .pattern = "/sessions/{id}/files/{path*}", .scope = SCOPE_FILES, .flags = API_STREAMS | API_UPLOADS,
     .query = &write_table, .handler = on_write, .id = "writeFile", .tag = "files", .summary = "Write a file",
     .help = "The body is its content, with folders made as needed. Who reads it meanwhile has the old file; it changes at "
             "once, when all of the body is there.",
     .replies = write_reply, .errors = errors},
    {.method = METHOD_DELETE, .pattern = "/sessions/{id}/files/{path*}", .scope = SCOPE_FILES, .query = &delete_table,
     .handler = on_delete, .id = "deleteFile", .tag = "files", .summary = "Delete a file or directory",
     .replies = delete_reply, .errors = errors},
};
/* clang-format on */
const struct api_group rest_files_group = {rows, ARRAY_LEN(rows)};
