/* quick.h - the Python kernel's way through an ordinary execution, in C
 *
 * images/python/kernel.py is the whole kernel. What this does it can do as well, and it is asked
 * for everything out of the ordinary: requests other than code, errors, results that are more than
 * a short text. But each function of Python's that runs in a copy of the zygote writes to the
 * counts of all objects on its way, in pages that it shared with its siblings: two thirds of what
 * an idle session held, and of the page faults of a short one, were the kernel's own. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

#define QUICK_VERSION 1 /* Kernel.QUICK of a kernel.py that this fits */

/* Binds to a kernel that is attached to its channel, and executes something a few times for nobody.
 * False, with an exception: it is not one that we know. To be called before the fork. */
bool quick_prepare(PyObject *kernel);

/* In the process that is to run code: takes requests until the channel ends, and the process with
 * it. `fork_point` may be NULL. */
_Noreturn void quick_serve(void *fork_point);
