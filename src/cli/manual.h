/* manual.h - the manual page and the shell completion, made from the same tables as the help */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct command;
struct strbuf;

void manual_add_roff(struct strbuf *out, const struct command *const *commands);       /* cove.1 */
void manual_add_completion(struct strbuf *out, const struct command *const *commands); /* bash */
