/* schemas.h - the shapes of all answers, by name */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/shape.h"

extern const struct shape schemas[];
extern const size_t schema_count;

/* Its name in the shape of errors, which every failure is told in. */
#define SCHEMA_ERROR "Error"

const struct shape *schema_find(const char *name); /* NULL: there is none */
