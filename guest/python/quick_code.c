/* quick_code.c - from the text of a cell to code objects
 *
 * The value of the last expression is wanted, so that has to be compiled on its own. kernel.py cuts
 * it off a tree, which is right always; but a tree is made of several objects for each word, and
 * read back from them. Here the last line is cut off the text, if two things hold: the line is an
 * expression on its own, and what is before it is a program on its own. Then the program ends with
 * the line before (no bracket, quote, block or continuation is open) and nothing else can be meant.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "quick_code.h"

#include <stdlib.h>
#include <string.h>

#define FUTURE_FLAGS 0x1FE0000 /* of kernel.py, as are the rest */
#define LINES_MAX    10000     /* that are counted by writing as many empty ones */

static PyObject *compiler;

bool quick_code_prepare(void)
{
    compiler = PyDict_GetItem(PyEval_GetBuiltins(), quick_names[N_compile]);
    Py_XINCREF(compiler);
    if (!compiler)
        PyErr_SetString(PyExc_RuntimeError, "there is no compile()");
    return compiler != NULL;
}

/* --- Cells.add() ----------------------------------------------------------------------------- */

static PyObject *lines_of(char *text, size_t size)
{
    PyObject *lines = PyList_New(0);
    text[size] = '\n';
    for (size_t at = 0, end; lines && at <= size; at = end) {
        end = (size_t)((char *)memchr(text + at, '\n', size + 1 - at) - text) + 1;
        PyObject *line = PyUnicode_DecodeUTF8(text + at, (Py_ssize_t)(end - at), NULL);
        if (!line || PyList_Append(lines, line) < 0)
            Py_CLEAR(lines);
        Py_XDECREF(line);
    }
    text[size] = '\0';
    return lines;
}

static bool put_in_linecache(PyObject *name, PyObject *entry)
{
    PyObject *module = quick_module(N_linecache);
    PyObject *cache = module ? quick_attribute(module, N_cache) : NULL;
    bool is_good = true;
    PyErr_Clear(); /* it has lost its cache */
    if (cache && PyDict_CheckExact(cache))
        is_good = PyDict_SetItem(cache, name, entry) == 0;
    Py_XDECREF(cache);
    return is_good;
}

/* The name of the cell, a new reference. */
static PyObject *add_cell(const struct quick_part *cells, PyObject *source, char *text, size_t size)
{
    PyObject *known = quick_get(cells, N_lines), *name = NULL, *entry = NULL;
    long count = quick_number(cells, N_count) + 1;
    if (!PyDict_CheckExact(known) || PyDict_Size(known) >= QUICK_CELLS_MAX)
        return PyObject_CallMethodObjArgs(cells->object, quick_names[N_add], source, Py_None, NULL);
    if (quick_give(cells, N_count, PyLong_FromLong(count)))
        name = PyUnicode_FromFormat("<cell %ld>", count);
    if (name)
        entry = Py_BuildValue("(nONO)", PyUnicode_GetLength(source), Py_None, lines_of(text, size),
                              name);
    if (!entry || PyDict_SetItem(known, name, entry) < 0 || !put_in_linecache(name, entry))
        Py_CLEAR(name);
    Py_XDECREF(entry);
    return name;
}

/* --- Kernel.compile() ------------------------------------------------------------------------ */

struct cell {
    PyObject *kernel, *source, *name, *flags;
    const char *text;
    size_t size; /* without blanks at the end */
};

static PyObject *compile(const struct cell *c, PyObject *source, enum quick_name mode)
{
    return PyObject_CallFunctionObjArgs(compiler, source, c->name, quick_names[mode], c->flags,
                                        Py_True, NULL);
}

/* NULL without an exception: it is no expression. */
static PyObject *compile_expression(const struct cell *c, PyObject *source)
{
    PyObject *code = compile(c, source, N_eval);
    if (!code && PyErr_ExceptionMatches(PyExc_SyntaxError))
        PyErr_Clear();
    return code;
}

/* The same for statements that change nothing for the cells that follow. */
static PyObject *compile_statements(const struct cell *c, PyObject *source)
{
    PyObject *code = compile(c, source, N_exec);
    long flags = code ? quick_attribute_number(code, N_co_flags) : -1;
    if (flags < 0 || (flags & FUTURE_FLAGS & ~PyLong_AsLong(c->flags)))
        Py_CLEAR(code);
    PyErr_Clear(); /* kernel.py says it in full */
    return code;
}

static PyObject *list_of(PyObject *first, PyObject *second)
{
    PyObject *list = PyList_New(0);
    if (list && ((first && PyList_Append(list, first) < 0) || PyList_Append(list, second) < 0))
        Py_CLEAR(list);
    return list;
}

/* A word of an assignment, most likely: "=" comes before any bracket. */
static bool may_be_expression(const char *text, size_t size)
{
    size_t plain = 0;
    while (plain < size && !strchr("=([{'\"", text[plain]))
        plain++;
    return size > 0 && !strchr(" \t\f#", text[0]) &&
           !(plain < size && text[plain] == '=' && !(plain + 1 < size && text[plain + 1] == '='));
}

static PyObject *compile_line(const struct cell *c)
{
    PyObject *code = NULL, *list = NULL;
    if (may_be_expression(c->text, c->size))
        code = compile_expression(c, c->source);
    if (!code && !PyErr_Occurred() && !memchr(c->text, ';', c->size))
        code = compile_statements(c, c->source);
    if (code)
        list = list_of(NULL, code);
    Py_XDECREF(code);
    return list;
}

/* The last line with as many empty ones before it as there are others: errors tell its number. */
static PyObject *last_line(const struct cell *c, size_t start)
{
    size_t above = 0, size = c->size - start;
    for (size_t i = 0; i < start; i++)
        above += c->text[i] == '\n';
    char *text = above > LINES_MAX ? NULL : malloc(above + size);
    if (!text)
        return NULL;
    memset(text, '\n', above);
    memcpy(text + above, c->text + start, size);
    PyObject *line = PyUnicode_DecodeUTF8(text, (Py_ssize_t)(above + size), NULL);
    free(text);
    return line;
}

static PyObject *compile_lines(const struct cell *c, size_t start)
{
    PyObject *tail = NULL, *head = NULL, *value = NULL, *rest = NULL, *list = NULL;
    if (may_be_expression(c->text + start, c->size - start))
        tail = last_line(c, start);
    if (tail)
        value = compile_expression(c, tail);
    if (value)
        head = PyUnicode_DecodeUTF8(c->text, (Py_ssize_t)start, NULL);
    if (head)
        rest = compile_statements(c, head);
    if (rest)
        list = list_of(rest, value);
    Py_XDECREF(tail);
    Py_XDECREF(value);
    Py_XDECREF(head);
    Py_XDECREF(rest);
    return list;
}

static PyObject *compile_cell(struct cell *c)
{
    PyObject *list = NULL;
    bool is_odd = memchr(c->text, '\r', c->size) || memchr(c->text, '\0', c->size);
    while (!is_odd && c->size > 0 && strchr(" \t\n\f", c->text[c->size - 1]))
        c->size--;
    const char *last = memrchr(c->text, '\n', c->size);
    if (!is_odd)
        list = last ? compile_lines(c, (size_t)(last + 1 - c->text)) : compile_line(c);
    if (!list && !PyErr_Occurred())
        list =
            PyObject_CallMethodObjArgs(c->kernel, quick_names[N_compile], c->source, c->name, NULL);
    return list;
}

PyObject *quick_code(const struct quick_part *kernel, const struct quick_part *cells, char *text,
                     size_t size)
{
    struct cell c = {.kernel = kernel->object, .text = text, .size = size};
    PyObject *list = NULL;
    c.flags = quick_get(kernel, N_flags);
    c.source = PyUnicode_DecodeUTF8(text, (Py_ssize_t)size, NULL);
    c.name = c.source ? add_cell(cells, c.source, text, size) : NULL;
    if (c.name)
        list = compile_cell(&c);
    Py_XDECREF(c.name);
    Py_XDECREF(c.source);
    return list;
}
