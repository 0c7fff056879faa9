/* mime.h - the type of a file, by its name alone: content is a stranger's */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

const char *mime_of(const char *path); /* never NULL */
