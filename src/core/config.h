/* config.h - every option of the configuration, for the command line and for the server
 *
 * One table: flags, environment, files, help, the manual and `cove config` come from it. `cove
 * serve` reads it from everywhere, and hands it to coved as an environment. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/option.h"

#define CONFIG_GROUP_LIMITS   "Limits" /* headings in help */
#define CONFIG_GROUP_CEILINGS "Ceilings of a server"
#define CONFIG_GROUP_SERVER   "Server"
#define CONFIG_GROUP_STORAGE  "Storage of a server"
#define CONFIG_GROUP_NETWORK  "Network of sandboxes"
#define CONFIG_GROUP_PACKAGES "Packages"
#define CONFIG_GROUP_CLIENT   "Server to talk to"
#define CONFIG_GROUP_GLOBAL   "Global options"
#define CONFIG_GROUP_ALL      "" /* of a command whose help shows all of them */

/* Plain data, filled by config_load(); the strings belong to the option set. */
struct config {
    /* what one run may use */
    uint64_t timeout_ms;
    uint64_t memory_bytes;
    uint64_t cpus_milli;
    uint64_t cpus_burst_milli; /* 0: none */
    uint64_t pids;
    uint64_t disk_bytes;
    uint64_t inodes;
    uint64_t open_files;
    uint64_t output_bytes; /* kept of each of stdout and stderr */

    /* what anybody may ask a server for, at most */
    uint64_t timeout_max_ms;
    uint64_t memory_max_bytes;
    uint64_t cpus_max_milli;
    uint64_t pids_max;
    uint64_t disk_max_bytes;
    uint64_t inodes_max;
    uint64_t open_files_max;
    uint64_t ttl_max_ms;
    uint64_t link_ttl_max_ms;

    /* a server */
    char *listen; /* see address.h */
    char *token;  /* NULL, as the next two: made at the first start and kept */
    char *internal_token;
    char *file_secret;
    char *file_secret_previous; /* NULL: none */
    uint64_t link_ttl_ms;
    bool trust_loopback;
    bool mcp_compatible_names;
    bool mcp_structured;
    uint64_t key_rate; /* requests a minute; 0: no limit */
    char *public_url;  /* NULL: from the address */
    char *database_url;
    unsigned sync;           /* enum store_sync */
    uint64_t max_sessions;   /* 0: what the machine can carry */
    uint64_t max_executions; /* 0: one for each session */
    uint64_t ttl_ms;
    uint64_t idle_timeout_ms;
    uint64_t idle_freeze_ms; /* 0: never */
    uint64_t watchdog_ms;    /* how long a loop may stand still; 0: for ever */
    uint64_t retention_ms;
    uint64_t artifact_retention_ms;
    uint64_t workspace_retention_ms; /* 0: for ever */
    uint64_t artifact_disk_bytes;    /* of all of them... */
    uint64_t artifact_max_bytes;     /* ...and of those of an execution */
    uint64_t upload_max_bytes;
    struct option_list cors_origins;
    struct option_list hosts;
    char *tls_cert;
    char *tls_key;
    char *user;      /* NULL: see serving.c */
    char *state_dir; /* NULL: in data_dir, see server_config_dir() */

    /* where artifacts and workspaces are kept; see blob/s3.h */
    char *s3_bucket; /* NULL: on the disk */
    char *s3_endpoint;
    char *s3_region;
    char *s3_access_key;
    char *s3_secret_key;
    char *s3_session_token;
    char *s3_prefix;
    unsigned s3_addressing; /* enum s3_addressing */
    char *s3_ca;
    uint64_t s3_redirect_bytes;
    /* what sandboxes may reach */
    unsigned network_max; /* enum network_policy */
    char *python_index;   /* NULL: the installer's own, as the next */
    char *npm_registry;
    struct option_list egress_private;
    uint64_t egress_bytes; /* 0: no limit */
    uint64_t egress_connections;
    char *egress_ca; /* NULL: those of the system only */

    /* packages that programs ask for */
    uint64_t build_timeout_ms;
    uint64_t build_disk_bytes;

    /* a server to talk to, with `token` */
    char *server;    /* its address */
    char *server_ca; /* NULL: those that the system trusts */
    uint64_t server_timeout_ms;

    uint64_t max_sandboxes; /* 0: what the machine can carry */

    char *data_dir;    /* never NULL */
    char *recipes_dir; /* NULL: beside the program, see cli_recipes_dir() */
    char *spawner;     /* NULL: beside the program, see cli_spawner_path() */
    unsigned runtime;  /* 0, native: there is no other so far */
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

/* For a program that gets all of it by its environment, and looks at no file. */
MUST_CHECK int config_load_given(struct config *config, struct option_set *set, struct error *err);

/* Did somebody set the option, by whatever means, or is it the preset? */
bool config_is_given(const struct option_set *set, const char *name);
