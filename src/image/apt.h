/* apt.h - how this host gets its Debian packages, for mmdebstrap to do the same
 *
 * Sources and settings are used as they are, and handed on by the names of their files: they may
 * hold names of machines, or secrets, that belong neither into an image nor into a list of
 * processes.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "image/arguments.h"

/* Adds mmdebstrap's last arguments: suite, target, and the files of the host's sources. On a host
 * without any, mmdebstrap takes Debian's own. */
void apt_add_target(struct arguments *argv, const char *target);

/* Writes the host's settings for reaching its sources (proxies, retries) to a new file. */
MUST_CHECK int apt_write_settings(const char *path, struct error *err);
