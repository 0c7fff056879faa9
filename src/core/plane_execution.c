/* plane_execution.c */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plane.h"
