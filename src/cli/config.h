/* config.h - every option that holds for all commands, and where its value came from */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/option.h"

#define CONFIG_GROUP_LIMITS "Limits" /* headings in help */
#define CONFIG_GROUP_CLIENT "Server to talk to"
#define CONFIG_GROUP_GLOBAL "Global options"

/* Plain data, filled by config_load(); the strings belong to the option set. */
struct config {
    /* what one run may use */
    uint64_t timeout_ms;
    uint64_t memory_bytes;
    uint64_t cpus_milli;
    uint64_t pids;
    uint64_t disk_bytes;
    uint64_t inodes;
    uint64_t open_files;
    uint64_t output_bytes; /* kept of each of stdout and stderr */

    /* a server to talk to */
    char *server;    /* its address */
    char *token;     /* NULL: the one in the data directory, for a server on this machine */
    char *server_ca; /* NULL: those that the system trusts */
    uint64_t server_timeout_ms;

    uint64_t max_sandboxes; /* 0: what the machine can carry */

    char *data_dir;    /* never NULL */
    char *recipes_dir; /* NULL: beside the program, see cli_recipes_dir() */
    char *spawner;     /* NULL: beside the program, see cli_spawner_path() */
    char *cgroup_parent;
    bool allow_degraded;
    char *log_file;     /* NULL: stderr */
    unsigned log_level; /* enum log_level */

    char *config_file; /* NULL: the usual places */
    bool json;
    bool help;
    bool version;
};

extern const struct option_row config_options[];
extern const size_t config_option_count;

/* Fills what the flags (applied before) left open from the environment, the configuration files and
 * the presets. `set` is bound to `config` and config_options. */
MUST_CHECK int config_load(struct config *config, struct option_set *set, struct error *err);

/* Did somebody set the option, by whatever means, or is it the preset? */
bool config_is_given(const struct option_set *set, const char *name);
