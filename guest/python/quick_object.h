/* quick_object.h - attributes of the kernel's objects, for those who speak C
 *
 * Names are made once. What answers bool has set an exception when it answers false. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

/* Attributes, methods, modules and keys: the same as in kernel.py. */
#define QUICK_NAMES(X)                                                                             \
    X(QUICK)                                                                                       \
    X(_)                                                                                           \
    X(__dict__)                                                                                    \
    X(__main__)                                                                                    \
    X(_count)                                                                                      \
    X(add)                                                                                         \
    X(begin)                                                                                       \
    X(buffer)                                                                                      \
    X(cache)                                                                                       \
    X(call)                                                                                        \
    X(calm)                                                                                        \
    X(cells)                                                                                       \
    X(channel)                                                                                     \
    X(closed)                                                                                      \
    X(co_flags)                                                                                    \
    X(compile)                                                                                     \
    X(count)                                                                                       \
    X(disconnect)                                                                                  \
    X(display)                                                                                     \
    X(done)                                                                                        \
    X(end_figures)                                                                                 \
    X(eval)                                                                                        \
    X(exec)                                                                                        \
    X(fail)                                                                                        \
    X(find_packages)                                                                               \
    X(flags)                                                                                       \
    X(flush)                                                                                       \
    X(forget)                                                                                      \
    X(fork_point)                                                                                  \
    X(generation)                                                                                  \
    X(getsignal)                                                                                   \
    X(guard)                                                                                       \
    X(input)                                                                                       \
    X(interrupts)                                                                                  \
    X(is_empty)                                                                                    \
    X(is_late)                                                                                     \
    X(is_open)                                                                                     \
    X(is_owed)                                                                                     \
    X(is_read)                                                                                     \
    X(is_running)                                                                                  \
    X(is_settling)                                                                                 \
    X(is_stuck)                                                                                    \
    X(is_untouched)                                                                                \
    X(kept)                                                                                        \
    X(leave_child)                                                                                 \
    X(left)                                                                                        \
    X(linecache)                                                                                   \
    X(lines)                                                                                       \
    X(main)                                                                                        \
    X(make_input)                                                                                  \
    X(make_outputs)                                                                                \
    X(namespace)                                                                                   \
    X(null)                                                                                        \
    X(old_threads)                                                                                 \
    X(ours)                                                                                        \
    X(pid)                                                                                         \
    X(prepare_ready)                                                                               \
    X(raw)                                                                                         \
    X(report)                                                                                      \
    X(results)                                                                                     \
    X(seen)                                                                                        \
    X(send)                                                                                        \
    X(sent)                                                                                        \
    X(settings)                                                                                    \
    X(settle_handlers)                                                                             \
    X(show)                                                                                        \
    X(signal)                                                                                      \
    X(status)                                                                                      \
    X(streams)                                                                                     \
    X(take)                                                                                        \
    X(take_rest)                                                                                   \
    X(theirs)                                                                                      \
    X(wake_theirs)                                                                                 \
    X(workspace)

#define QUICK_ENUM(name) N_##name,
enum quick_name { QUICK_NAMES(QUICK_ENUM) N_END };
#undef QUICK_ENUM

/* Not the interned strings, which lie all over the memory and have their references counted there:
 * the same in one place. */
extern PyObject *quick_names[N_END];
bool quick_make_names(void);

/* An object of kernel.py's whose attributes are ordinary ones, and the dictionary that they are in.
 * Reading and writing there touches nothing else. */
struct quick_part {
    PyObject *object, *dict;
};

/* Gives it a new dictionary, to lie beside those of the other parts. Takes the object over; it may
 * be NULL, with an exception. */
bool quick_part_of(struct quick_part *part, PyObject *object);

PyObject *quick_get(const struct quick_part *of, enum quick_name name); /* borrowed, not NULL */
bool quick_set(const struct quick_part *of, enum quick_name name, PyObject *value);
bool quick_give(const struct quick_part *of, enum quick_name name,
                PyObject *value); /* takes over */
bool quick_set_bool(const struct quick_part *of, enum quick_name name, bool value);
bool quick_is(const struct quick_part *of, enum quick_name name);     /* true as Python has it */
long quick_number(const struct quick_part *of, enum quick_name name); /* -1: it is none */

/* The same of any object: a new reference; a number, or -1 with an exception. */
PyObject *quick_attribute(PyObject *of, enum quick_name name);
long quick_attribute_number(PyObject *of, enum quick_name name);

/* Calls a method with what follows, up to a NULL; its answer is dropped. */
bool quick_do(PyObject *of, enum quick_name method, ...);

PyObject *quick_module(enum quick_name name); /* borrowed; NULL, without an exception: not loaded */
