/* quick_object.c - attributes of the kernel's objects */
/* SPDX-License-Identifier: Apache-2.0 */
#include "quick_object.h"

#include <stdarg.h>

#define ARGUMENTS_MAX 4

PyObject *quick_names[N_END];

#define QUICK_TEXT(name) #name,
static const char *const texts[N_END] = {QUICK_NAMES(QUICK_TEXT)};
#undef QUICK_TEXT

bool quick_make_names(void)
{
    for (int i = 0; i < N_END; i++) {
        quick_names[i] = PyUnicode_FromString(texts[i]);
        if (!quick_names[i] || PyObject_Hash(quick_names[i]) == -1) /* which it remembers */
            return false;
    }
    return true;
}

bool quick_part_of(struct quick_part *part, PyObject *object)
{
    PyObject *old = object ? quick_attribute(object, N___dict__) : NULL;
    part->object = object;
    part->dict = old ? PyDict_Copy(old) : NULL;
    Py_XDECREF(old);
    return part->dict && PyObject_SetAttr(object, quick_names[N___dict__], part->dict) == 0;
}

PyObject *quick_get(const struct quick_part *of, enum quick_name name)
{
    PyObject *value = PyDict_GetItem(of->dict, quick_names[name]);
    return value ? value : Py_None;
}

bool quick_set(const struct quick_part *of, enum quick_name name, PyObject *value)
{
    return PyDict_SetItem(of->dict, quick_names[name], value) == 0;
}

bool quick_give(const struct quick_part *of, enum quick_name name, PyObject *value)
{
    bool is_good = value && quick_set(of, name, value);
    Py_XDECREF(value);
    return is_good;
}

bool quick_set_bool(const struct quick_part *of, enum quick_name name, bool value)
{
    return quick_set(of, name, value ? Py_True : Py_False);
}

bool quick_is(const struct quick_part *of, enum quick_name name)
{
    int is_true = PyObject_IsTrue(quick_get(of, name));
    if (is_true < 0)
        PyErr_Clear();
    return is_true > 0;
}

long quick_number(const struct quick_part *of, enum quick_name name)
{
    long number = PyLong_AsLong(quick_get(of, name));
    if (number == -1)
        PyErr_Clear();
    return number;
}

PyObject *quick_attribute(PyObject *of, enum quick_name name)
{
    return PyObject_GetAttr(of, quick_names[name]);
}

long quick_attribute_number(PyObject *of, enum quick_name name)
{
    PyObject *value = quick_attribute(of, name);
    long number = value ? PyLong_AsLong(value) : -1;
    Py_XDECREF(value);
    return number;
}

bool quick_do(PyObject *of, enum quick_name method, ...)
{
    va_list list;
    PyObject *with[ARGUMENTS_MAX + 1] = {NULL};
    va_start(list, method);
    for (int i = 0; i < ARGUMENTS_MAX && (with[i] = va_arg(list, PyObject *)); i++)
        ;
    va_end(list);
    PyObject *answer = PyObject_CallMethodObjArgs(of, quick_names[method], with[0], with[1],
                                                  with[2], with[3], NULL);
    Py_XDECREF(answer);
    return answer != NULL;
}

PyObject *quick_module(enum quick_name name)
{
    return PyDict_GetItem(PyImport_GetModuleDict(), quick_names[name]);
}
