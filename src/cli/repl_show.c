/* repl_show.c - values, tracebacks and remarks, made harmless on their way to the terminal */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/repl_show.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "cli/out_dir.h"
#include "cli/outcome.h"
#include "cli/picture.h"
#include "cli/term.h"
#include "cli/term_text.h"

#define SHOWN_MAX_BYTES    (64 * MIB) /* escapes make text longer */
#define PICTURES_MAX       20         /* saved for one input: the code decides how many there are */
#define PICTURE_NUMBER_MAX 100000
#define FILES_LISTED_MAX   8
#define NAME_COLUMNS       60
#define SLOW_MS            1000

struct repl_show {
    const struct repl_show_told *told;
    void *ctx;
    char *out_path;      /* NULL: the current folder */
    struct out_dir *out; /* NULL: files stay inside */
    bool is_brief;
    bool is_mute;
    bool has_colour;
    bool is_line_open; /* the last thing printed did not end its line */
    bool stdout_is_gone;
    unsigned next_picture;
    unsigned pictures; /* of the execution that runs */
};

int repl_show_new(struct repl_show **out_show, const char *out, bool is_brief,
                  const struct repl_show_told *told, void *ctx, struct error *err)
{
    struct out_dir *dir = NULL;
    if (out && out_dir_open(&dir, out, err) < 0)
        return -1;
    struct repl_show *show = xcalloc(1, sizeof(*show));
    *show = (struct repl_show){.told = told,
                               .ctx = ctx,
                               .out_path = out ? xstrdup(out) : NULL,
                               .out = dir,
                               .is_brief = is_brief,
                               .has_colour = term_has_colour(STDERR_FILENO),
                               .next_picture = 1};
    *out_show = show;
    return 0;
}

void repl_show_free(struct repl_show *show)
{
    if (!show)
        return;
    out_dir_free(show->out);
    free(show->out_path);
    free(show);
}

/* --- printing -------------------------------------------------------------------------------- */

static void put(struct repl_show *show, int fd, const char *data, size_t len)
{
    struct error err;
    if (len == 0 || show->is_mute || (fd == STDOUT_FILENO && show->stdout_is_gone))
        return;
    if (fd_write_all(fd, data, len, &err) < 0 && fd == STDOUT_FILENO)
        show->stdout_is_gone = true;
    show->is_line_open = data[len - 1] != '\n';
}

static void put_line(struct repl_show *show, int fd, struct strbuf *line)
{
    if (line->len == 0 || line->data[line->len - 1] != '\n')
        strbuf_add_char(line, '\n');
    put(show, fd, strbuf_str(line), line->len);
}

void repl_show_mute(struct repl_show *show)
{
    show->is_mute = true;
}

void repl_show_end_line(struct repl_show *show)
{
    if (show->is_line_open)
        put(show, term_is_terminal(STDOUT_FILENO) ? STDOUT_FILENO : STDERR_FILENO, "\n", 1);
}

static void note_text(struct repl_show *show, const struct strbuf *text)
{
    scoped_strbuf struct strbuf line;
    strbuf_init(&line, SHOWN_MAX_BYTES);
    strbuf_add_fmt(&line, "%s%s%s\n", term_style(show->has_colour, TERM_DIM), strbuf_str(text),
                   term_style(show->has_colour, TERM_PLAIN));
    repl_show_end_line(show);
    put(show, STDERR_FILENO, strbuf_str(&line), line.len);
}

void repl_show_note(struct repl_show *show, const char *fmt, ...)
{
    va_list args;
    char text[1024];
    scoped_strbuf struct strbuf safe;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    strbuf_init(&safe, SHOWN_MAX_BYTES);
    term_text_add(&safe, text, strlen(text), true);
    note_text(show, &safe);
}

static void add_size(struct strbuf *out, uint64_t bytes)
{
    static const char *const units[] = {"kB", "MB", "GB", "TB"};
    double size = (double)bytes;
    size_t unit = 0;
    if (bytes < 1000) {
        strbuf_add_fmt(out, "%u B", (unsigned)bytes);
        return;
    }
    for (size /= 1000; size >= 999.5 && unit + 1 < ARRAY_LEN(units); unit++)
        size /= 1000;
    strbuf_add_fmt(out, size < 9.95 ? "%.1f %s" : "%.0f %s", size, units[unit]);
}

/* --- pictures -------------------------------------------------------------------------------- */

static int open_picture(struct repl_show *show, int folder, const char *extension, char *name,
                        size_t size)
{
    for (; show->next_picture < PICTURE_NUMBER_MAX; show->next_picture++) {
        snprintf(name, size, "plot-%u.%s", show->next_picture, extension);
        int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    errno = EEXIST;
    return -1;
}

static int save_picture(struct repl_show *show, const struct picture *p, char *name, size_t size,
                        struct error *err)
{
    scoped_fd int folder =
        open(show->out_path ? show->out_path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scoped_fd int fd = folder < 0 ? -1 : open_picture(show, folder, p->extension, name, size);
    if (fd < 0)
        return error_sys(err, "write it");
    show->next_picture++;
    if (fd_write_all(fd, p->form->data, p->form->len, err) < 0) {
        unlinkat(folder, name, 0);
        return -1;
    }
    return 0;
}

static void show_picture(struct repl_show *show, const struct picture *p)
{
    char name[64] = "";
    struct error err;
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, SHOWN_MAX_BYTES);
    if (save_picture(show, p, name, sizeof(name), &err) < 0) {
        repl_show_note(show, "[a picture could not be saved: %s]", err.msg);
        return;
    }
    strbuf_add_fmt(&text, "[saved %s%s%s", show->out_path ? show->out_path : "",
                   show->out_path ? "/" : "", name);
    if (p->width > 0 && p->height > 0)
        strbuf_add_fmt(&text, ", %ux%u", p->width, p->height);
    strbuf_add_str(&text, ", ");
    add_size(&text, p->form->len);
    strbuf_add_char(&text, ']');
    note_text(show, &text);
}

/* --- values ---------------------------------------------------------------------------------- */

/* Forms for people, the plainest first. */
static const struct result_form *find_text(const struct result *result)
{
    static const char *const mimes[] = {"text/plain", "text/markdown", "text/latex"};
    for (size_t i = 0; i < ARRAY_LEN(mimes); i++) {
        const struct result_form *form = result_get(result, mimes[i]);
        if (form && form->len > 0)
            return form;
    }
    return NULL;
}

static void show_text(struct repl_show *show, const struct result_form *form)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, SHOWN_MAX_BYTES);
    term_text_add(&text, form->data, form->len, true);
    repl_show_end_line(show);
    put_line(show, STDOUT_FILENO, &text);
}

static void on_result(void *ctx, const struct result *result)
{
    struct repl_show *show = ctx;
    struct picture picture;
    if (show->is_mute)
        return;
    const struct result_form *text = find_text(result);
    bool has_picture = picture_find(&picture, result);
    if (text && (result->is_main || !has_picture))
        show_text(show, text);
    if (has_picture && ++show->pictures <= PICTURES_MAX)
        show_picture(show, &picture);
    else if (!text && !has_picture && result->count > 0)
        repl_show_note(show, "[%.100s, %zu bytes, has no text form]", result->forms[0].mime,
                       result->forms[0].len);
}

static void show_left_out(struct repl_show *show, const struct result_list *list)
{
    if (show->pictures > PICTURES_MAX)
        repl_show_note(show, "[%u more pictures were not saved]", show->pictures - PICTURES_MAX);
    if (list->is_cut)
        repl_show_note(show, "[there were more results]");
    show->pictures = 0;
}

/* --- what went wrong -------------------------------------------------------------------------- */

static void show_exception(struct repl_show *show, const struct exception *e)
{
    scoped_strbuf struct strbuf text, shown;
    strbuf_init(&text, SHOWN_MAX_BYTES);
    strbuf_init(&shown, SHOWN_MAX_BYTES);
    if (e->traceback[0]) {
        term_text_add(&text, e->traceback, strlen(e->traceback), true);
    } else {
        term_text_add(&text, e->name, strlen(e->name), false);
        strbuf_add_str(&text, e->value[0] ? ": " : "");
        term_text_add(&text, e->value, strlen(e->value), true);
    }
    while (text.len > 0 && text.data[text.len - 1] == '\n')
        text.len--;
    size_t last = text.len; /* the line that says what it was */
    while (last > 0 && text.data[last - 1] != '\n')
        last--;
    strbuf_add(&shown, strbuf_str(&text), last);
    strbuf_add_str(&shown, term_style(show->has_colour, TERM_RED));
    strbuf_add(&shown, strbuf_str(&text) + last, text.len - last);
    strbuf_add_str(&shown, term_style(show->has_colour, TERM_PLAIN));
    strbuf_add_char(&shown, '\n');
    repl_show_end_line(show);
    put_line(show, STDERR_FILENO, &shown);
    if (strcmp(e->name, "EOFError") == 0)
        repl_show_note(show, "[there is no keyboard inside: standard input is empty in a session]");
}

static void show_reason(struct repl_show *show, const struct execution *e)
{
    if (e->exception.name && !(e->verdict.kind == REASON_TIMEOUT))
        show_exception(show, &e->exception);
    repl_show_end_line(show);
    outcome_tell(e);
    if (e->verdict.kind == REASON_EXIT && !show->is_brief)
        repl_show_note(show, "[status %d]", e->facts.exit_code);
}

/* --- files ----------------------------------------------------------------------------------- */

static void on_artifact_begin(void *ctx, const struct artifact *a)
{
    struct repl_show *show = ctx;
    if (show->out)
        out_dir_begin(show->out, a->path, a->mode);
}

static void on_artifact_data(void *ctx, const void *data, size_t len)
{
    struct repl_show *show = ctx;
    if (show->out)
        out_dir_data(show->out, data, len);
}

static void on_artifact_end(void *ctx, const struct artifact *a)
{
    struct repl_show *show = ctx;
    (void)a;
    if (show->out)
        out_dir_end(show->out);
}

static void show_files(struct repl_show *show, const struct artifact_list *list)
{
    scoped_strbuf struct strbuf text;
    size_t listed = MIN(list->count, FILES_LISTED_MAX);
    strbuf_init(&text, SHOWN_MAX_BYTES);
    if (list->count == 0)
        return;
    strbuf_add_str(&text, "[files: ");
    for (size_t i = 0; i < listed; i++) {
        const struct artifact *a = &list->items[i];
        strbuf_add_str(&text, i > 0 ? ", " : "");
        term_text_add_cut(&text, a->path, strlen(a->path), NAME_COLUMNS);
        strbuf_add_char(&text, ' ');
        add_size(&text, a->size);
    }
    if (list->count > listed || list->is_cut)
        strbuf_add_fmt(&text, " and %zu%s more", list->count - listed, list->is_cut ? " or" : "");
    if (show->out)
        strbuf_add_fmt(&text, "; copied to %s", show->out_path);
    strbuf_add_char(&text, ']');
    note_text(show, &text);
}

/* --- events ---------------------------------------------------------------------------------- */

static void on_output(void *ctx, enum execution_stream stream, const void *data, size_t len)
{
    struct repl_show *show = ctx;
    bool was_gone = show->stdout_is_gone;
    put(show, stream == EXECUTION_STDOUT ? STDOUT_FILENO : STDERR_FILENO, data, len);
    if (show->stdout_is_gone && !was_gone)
        show->told->stdout_gone(show->ctx);
}

static void show_all(struct repl_show *show, const struct execution *e)
{
    struct error err;
    show_left_out(show, &e->results);
    show_reason(show, e);
    if (!show->is_brief) {
        show_files(show, &e->artifacts);
        if (e->duration_ms > SLOW_MS)
            repl_show_note(show, "[%.1f s]", e->duration_ms / 1000);
    }
    if (show->out && out_dir_failure(show->out, &err) < 0)
        repl_show_note(show, "[not all files were copied: %s]", err.msg);
}

static void on_ended(void *ctx, const struct execution *e)
{
    struct repl_show *show = ctx;
    if (!show->is_mute)
        show_all(show, e);
    show->told->ended(show->ctx, e);
}

const struct execution_events repl_show_events = {.output = on_output,
                                                  .result = on_result,
                                                  .artifact_begin = on_artifact_begin,
                                                  .artifact_data = on_artifact_data,
                                                  .artifact_end = on_artifact_end,
                                                  .ended = on_ended};
