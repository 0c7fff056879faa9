/* docs_page.h - the page of /docs, made of the files in docs/ when Cove is built */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

extern const char docs_page[];
extern const size_t docs_page_len;
extern const char docs_policy[]; /* its Content-Security-Policy */
