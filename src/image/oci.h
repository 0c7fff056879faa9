/* oci.h - what the configuration of a container image says about running it */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "image/arguments.h"

#define OCI_JSON_MAX_BYTES (4 * MIB)

/* Plain data, ended by oci_config_release(). */
struct oci_config {
    struct arguments command; /* Entrypoint and then Cmd */
    struct arguments env;     /* NAME=VALUE */
    char *language;           /* label sandbox.language; NULL when there is none */
    bool is_runner;           /* label sandbox.runner=true */
};

/* Reads the configuration of the first image in the OCI layout `layout_fd` (borrowed). */
MUST_CHECK int oci_config_read(struct oci_config *out, int layout_fd, struct error *err);
void oci_config_release(struct oci_config *config); /* a zeroed one is fine */
