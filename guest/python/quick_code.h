/* quick_code.h - from the text of a cell to code objects, mostly without a tree of Python's own
 * objects */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "quick_object.h"

#define QUICK_CELLS_MAX 1000 /* CELLS_MAX of kernel.py */

/* Takes the compiler, while it is nobody's but ours. */
bool quick_code_prepare(void);

/* Cells.add() and Kernel.compile(): a list of code objects, of which only the last has a value.
 * text[size] must be writable. */
PyObject *quick_code(const struct quick_part *kernel, const struct quick_part *cells, char *text,
                     size_t size);
