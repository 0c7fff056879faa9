/* fuzz_line_editor.c - any bytes of a terminal leave text that is text, and a cursor inside of it
 *
 * The first byte is the width of the terminal, the second its height. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/line_editor.h"

#include <string.h>

#include "base/utf8.h"
#include "fuzz.h"

#define DRAWN_MAX (16 * MIB)
#define DRAWS_MAX                                                                                  \
    64 /* the first and the last keys are drawn; a drawing costs as much as the text */

/* Nothing of the text gets to the screen as a control character. */
static void check_drawn(const struct strbuf *out)
{
    for (size_t i = 0; i < out->len; i++) {
        unsigned char c = (unsigned char)out->data[i];
        BUG_ON((c < 0x20 && c != '\r' && c != '\n' && c != '\033') || c == 0x7f);
        BUG_ON(c == '\033' && (i + 1 == out->len || out->data[i + 1] != '['));
    }
    BUG_ON(!utf8_is_valid(strbuf_str(out), out->len));
}

static void draw(struct line_editor *ed, struct line_view *view)
{
    struct line_frame frame;
    scoped_strbuf struct strbuf out;
    strbuf_init(&out, DRAWN_MAX);
    line_editor_frame(ed, &frame, view->width);
    line_view_draw(view, &out, &frame);
    BUG_ON(view->row >= view->height);
    check_drawn(&out);
}

static void check_text(const struct line_editor *ed)
{
    const struct line_edit *e = &ed->edit;
    BUG_ON(e->cursor > e->text.len);
    BUG_ON(!utf8_is_valid(strbuf_str(&e->text), e->text.len));
    BUG_ON(!utf8_is_valid(strbuf_str(&e->text), e->cursor));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct line_editor ed;
    struct line_view view = {.style_on = "", .style_off = ""};
    const char *bytes = (const char *)data;
    if (size < 2)
        return 0;
    view.width = 8 + data[0] % 100;
    view.height = 2 + data[1] % 20;
    scoped(line_history) struct line_history *history = line_history_new(NULL);
    line_editor_init(&ed, history, 4);
    ed.prompt = ">>> ";
    ed.more = "... ";
    size_t step, draws = 0;
    for (size_t i = 2; i < size; i += step) {
        struct line_key key;
        step = line_key_read(&key, bytes + i, size - i);
        BUG_ON(step > size - i);
        if (step == 0)
            break;
        if (line_editor_key(&ed, &key) == LINE_ENTER) {
            line_history_add(history, strbuf_str(&ed.edit.text), ed.edit.text.len);
            line_editor_clear(&ed);
        }
        check_text(&ed);
        if (draws++ < DRAWS_MAX)
            draw(&ed, &view);
    }
    draw(&ed, &view);
    line_editor_release(&ed);
    return 0;
}
