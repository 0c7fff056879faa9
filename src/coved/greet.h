/* greet.h - what the one who has started a server reads: where it is, or why it is not */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "coved/coved.h"

/* On standard output: for people, or with --json one object. */
void greet(const struct coved *c);

/* The log has it as a line of JSON; a terminal gets words. */
void greet_failure(const struct coved *c, const struct error *err);
