/* config.c - the table of options and the files it is read from */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/scoped.h"

#define AT(field) offsetof(struct config, field)

#define SYSTEM_FILE     "/etc/cove/cove.conf"
#define SYSTEM_DATA_DIR "/var/lib/cove"
#define PATH_MAX_BYTES  4095

#define SECRET_MAX_BYTES 4096
#define DAY_MS           (24 * 3600 * 1000ull)
#define LIFE_MAX_MS      (30 * DAY_MS) /* of a sandbox: the spawner's own limit */

static const char *const listen_names[] = {"MCP_HTTP_ADDR", "SANDBOX_PORT", NULL};
static const char *const token_names[] = {"MCP_API_TOKEN", NULL};
static const char *const internal_token_names[] = {"INTERNAL_API_TOKEN", NULL};
static const char *const file_secret_names[] = {"FILE_SECRET", NULL};
static const char *const public_url_names[] = {"PUBLIC_BASE_URL", NULL};
static const char *const database_url_names[] = {"DATABASE_URL", NULL};
static const char *const sync_names[] = {"normal", "full", NULL}; /* as enum store_sync */
static const char *const data_dir_names[] = {"SANDBOX_ROOT", NULL};

const struct option_row config_options[] = {
    {.name = "timeout",
     .type = OPTION_DURATION_MS,
     .flags = OPTION_CONFIG,
     .offset = AT(timeout_ms),
     .preset = "30s",
     .min = 1,
     .max = 24 * 3600 * 1000ull,
     .group = CONFIG_GROUP_LIMITS,
     .help = "Wall time after which the program is killed"},
    {.name = "memory",
     .type = OPTION_SIZE,
     .flags = OPTION_CONFIG,
     .offset = AT(memory_bytes),
     .preset = "256M",
     .min = 16 * MIB,
     .max = 1024 * GIB,
     .group = CONFIG_GROUP_LIMITS,
     .help = "Memory of all its processes together, files in /tmp included"},
    {.name = "cpus",
     .type = OPTION_MILLI,
     .flags = OPTION_CONFIG,
     .offset = AT(cpus_milli),
     .preset = "0.5",
     .min = 10,
     .max = 1024 * 1000,
     .group = CONFIG_GROUP_LIMITS,
     .help = "Processor time per second of wall time, in cores"},
    {.name = "pids",
     .type = OPTION_U64,
     .flags = OPTION_CONFIG,
     .offset = AT(pids),
     .preset = "128",
     .min = 4,
     .max = 100000,
     .group = CONFIG_GROUP_LIMITS,
     .help = "Processes and threads at one time"},
    {.name = "disk",
     .type = OPTION_SIZE,
     .flags = OPTION_CONFIG,
     .offset = AT(disk_bytes),
     .preset = "128M",
     .min = 1 * MIB,
     .max = 1024 * GIB,
     .group = CONFIG_GROUP_LIMITS,
     .help = "Bytes that its files in the workspace may hold"},
    {.name = "inodes",
     .type = OPTION_U64,
     .flags = OPTION_CONFIG,
     .offset = AT(inodes),
     .preset = "65536",
     .min = 16,
     .max = 100000000,
     .group = CONFIG_GROUP_LIMITS,
     .help = "Files and folders that it may create"},
    {.name = "open-files",
     .type = OPTION_U64,
     .flags = OPTION_CONFIG,
     .offset = AT(open_files),
     .preset = "1024",
     .min = 16,
     .max = 1048576,
     .group = CONFIG_GROUP_LIMITS,
     .help = "Files that one process may hold open"},
    {.name = "output",
     .type = OPTION_SIZE,
     .flags = OPTION_CONFIG,
     .offset = AT(output_bytes),
     .preset = "1M",
     .min = 1 * KIB,
     .max = 1 * GIB,
     .group = CONFIG_GROUP_LIMITS,
     .help = "Output that is kept of each stream, head and tail; the rest is counted"},

    {.name = "timeout-max",
     .type = OPTION_DURATION_MS,
     .flags = OPTION_CONFIG,
     .offset = AT(timeout_max_ms),
     .preset = "1h",
     .min = 1,
     .max = 24 * 3600 * 1000ull,
     .group = CONFIG_GROUP_CEILINGS,
     .help = "Longest time limit of an execution"},
    {.name = "memory-max",
     .type = OPTION_SIZE,
     .flags = OPTION_CONFIG,
     .offset = AT(memory_max_bytes),
     .preset = "4G",
     .min = 16 * MIB,
     .max = 1024 * GIB,
     .group = CONFIG_GROUP_CEILINGS,
     .help = "Most memory of a sandbox"},
    {.name = "cpus-max",
     .type = OPTION_MILLI,
     .flags = OPTION_CONFIG,
     .offset = AT(cpus_max_milli),
     .preset = "8",
     .min = 10,
     .max = 1024 * 1000,
     .group = CONFIG_GROUP_CEILINGS,
     .help = "Most cores of a sandbox"},
    {.name = "pids-max",
     .type = OPTION_U64,
     .flags = OPTION_CONFIG,
     .offset = AT(pids_max),
     .preset = "4096",
     .min = 4,
     .max = 100000,
     .group = CONFIG_GROUP_CEILINGS,
     .help = "Most processes and threads of a sandbox"},
    {.name = "disk-max",
     .type = OPTION_SIZE,
     .flags = OPTION_CONFIG,
     .offset = AT(disk_max_bytes),
     .preset = "2G",
     .min = 1 * MIB,
     .max = 1024 * GIB,
     .group = CONFIG_GROUP_CEILINGS,
     .help = "Most bytes in the files of a sandbox"},
    {.name = "inodes-max",
     .type = OPTION_U64,
     .flags = OPTION_CONFIG,
     .offset = AT(inodes_max),
     .preset = "1000000",
     .min = 16,
     .max = 100000000,
     .group = CONFIG_GROUP_CEILINGS,
     .help = "Most files and folders of a sandbox"},
    {.name = "open-files-max",
     .type = OPTION_U64,
     .flags = OPTION_CONFIG,
     .offset = AT(open_files_max),
     .preset = "65536",
     .min = 16,
     .max = 1048576,
     .group = CONFIG_GROUP_CEILINGS,
     .help = "Most open files of a process in a sandbox"},
    {.name = "ttl-max",
     .type = OPTION_DURATION_MS,
     .flags = OPTION_CONFIG,
     .offset = AT(ttl_max_ms),
     .preset = "720h",
     .min = 1000,
     .max = LIFE_MAX_MS,
     .group = CONFIG_GROUP_CEILINGS,
     .help = "Longest life of a session"},
    {.name = "listen",
     .type = OPTION_STRING,
     .flags = OPTION_CONFIG,
     .offset = AT(listen),
     .preset = "127.0.0.1:8080",
     .min = 1,
     .max = PATH_MAX_BYTES,
     .arg = "ADDRESS",
     .group = CONFIG_GROUP_SERVER,
     .also = listen_names,
     .help = "Address to listen at: HOST:PORT, PORT on this machine only, or unix:PATH"},
    {.name = "token",
     .type = OPTION_STRING,
     .flags = OPTION_CONFIG | OPTION_SECRET,
     .offset = AT(token),
     .min = 1,
     .max = SECRET_MAX_BYTES,
     .group = CONFIG_GROUP_SERVER,
     .also = token_names,
     .help =
         "What the operator shows as bearer token (made at the first start and kept in the data directory)"},
    {.name = "internal-token",
     .type = OPTION_STRING,
     .flags = OPTION_CONFIG | OPTION_SECRET,
     .offset = AT(internal_token),
     .min = 1,
     .max = SECRET_MAX_BYTES,
     .group = CONFIG_GROUP_SERVER,
     .also = internal_token_names,
     .help = "What executors outside of the server show (made at the first start and kept)"},
    {.name = "file-secret",
     .type = OPTION_STRING,
     .flags = OPTION_CONFIG | OPTION_SECRET,
     .offset = AT(file_secret),
     .min = 1,
     .max = SECRET_MAX_BYTES,
     .group = CONFIG_GROUP_SERVER,
     .also = file_secret_names,
     .help = "What addresses of files are signed with (made at the first start and kept)"},
    {.name = "trust-loopback",
     .type = OPTION_BOOL,
     .flags = OPTION_CONFIG,
     .offset = AT(trust_loopback),
     .preset = "false",
     .group = CONFIG_GROUP_SERVER,
     .help = "Whoever comes from this machine needs no token, and may do everything"},
    {.name = "key-rate",
     .type = OPTION_U64,
     .flags = OPTION_CONFIG,
     .offset = AT(key_rate),
     .min = 1,
     .max = 60000000,
     .arg = "N",
     .group = CONFIG_GROUP_SERVER,
     .help = "Requests a minute of an API key that has no rate of its own (no limit)"},
    {.name = "public-url",
     .type = OPTION_STRING,
     .flags = OPTION_CONFIG,
     .offset = AT(public_url),
     .min = 1,
     .max = PATH_MAX_BYTES,
     .arg = "URL",
     .group = CONFIG_GROUP_SERVER,
     .also = public_url_names,
     .help =
         "How clients reach the server: http[s]://NAME[:PORT] (from the address that it listens at)"},
    {.name = "database-url",
     .type = OPTION_STRING,
     .flags = OPTION_CONFIG | OPTION_SECRET,
     .offset = AT(database_url),
     .preset = "sqlite:",
     .min = 1,
     .max = PATH_MAX_BYTES,
     .arg = "URL",
     .group = CONFIG_GROUP_SERVER,
     .also = database_url_names,
     .help =
         "Where sessions and executions are written down: sqlite:[FILE] (a file in the data directory)"},
    {.name = "sync",
     .type = OPTION_ENUM,
     .flags = OPTION_CONFIG,
     .offset = AT(sync),
     .preset = "normal",
     .choices = sync_names,
     .group = CONFIG_GROUP_SERVER,
     .help = "What survives: normal, the end of any process; full, also that of the power supply"},
    {.name = "max-sessions",
     .type = OPTION_U64,
     .flags = OPTION_CONFIG,
     .offset = AT(max_sessions),
     .min = 1,
     .max = 65536,
     .arg = "N",
     .group = CONFIG_GROUP_SERVER,
     .help = "Live sessions at a time (as many as the memory holds)"},
    {.name = "max-executions",
     .type = OPTION_U64,
     .flags = OPTION_CONFIG,
     .offset = AT(max_executions),
     .min = 1,
     .max = 1000000,
     .arg = "N",
     .group = CONFIG_GROUP_SERVER,
     .help = "Executions that run at a time (one for each session)"},
    {.name = "ttl",
     .type = OPTION_DURATION_MS,
     .flags = OPTION_CONFIG,
     .offset = AT(ttl_ms),
     .preset = "24h",
     .min = 1000,
     .max = LIFE_MAX_MS,
     .group = CONFIG_GROUP_SERVER,
     .help = "Life of a session that asks for no other"},
    {.name = "idle-timeout",
     .type = OPTION_DURATION_MS,
     .flags = OPTION_CONFIG,
     .offset = AT(idle_timeout_ms),
     .preset = "1h",
     .min = 1000,
     .max = LIFE_MAX_MS,
     .group = CONFIG_GROUP_SERVER,
     .help = "A session that was not used for this long ends, unless it asks for another time"},
    {.name = "retention",
     .type = OPTION_DURATION_MS,
     .flags = OPTION_CONFIG,
     .offset = AT(retention_ms),
     .preset = "168h",
     .min = 60000,
     .max = 3650 * DAY_MS,
     .group = CONFIG_GROUP_SERVER,
     .help = "How long sessions and executions can be read after their end"},
    {.name = "cors-origins",
     .type = OPTION_LIST,
     .flags = OPTION_CONFIG,
     .offset = AT(cors_origins),
     .min = 1,
     .max = PATH_MAX_BYTES,
     .arg = "ORIGIN",
     .group = CONFIG_GROUP_SERVER,
     .help = "Web pages of others that may use the server: https://NAME[:PORT]"},
    {.name = "hosts",
     .type = OPTION_LIST,
     .flags = OPTION_CONFIG,
     .offset = AT(hosts),
     .min = 1,
     .max = 255,
     .arg = "NAME",
     .group = CONFIG_GROUP_SERVER,
     .help =
         "Names by which the server is reached, beside those of this machine and of --public-url; * is any"},
    {.name = "tls-cert",
     .type = OPTION_STRING,
     .flags = OPTION_CONFIG,
     .offset = AT(tls_cert),
     .min = 1,
     .max = PATH_MAX_BYTES,
     .arg = "FILE",
     .group = CONFIG_GROUP_SERVER,
     .help = "Certificate chain (PEM): the server then speaks HTTPS"},
    {.name = "tls-key",
     .type = OPTION_STRING,
     .flags = OPTION_CONFIG,
     .offset = AT(tls_key),
     .min = 1,
     .max = PATH_MAX_BYTES,
     .arg = "FILE",
     .group = CONFIG_GROUP_SERVER,
     .help = "Its private key (PEM), which the user of the server must be able to read"},
    {.name = "user",
     .type = OPTION_STRING,
     .flags = OPTION_CONFIG,
     .offset = AT(user),
     .min = 1,
     .max = 64,
     .arg = "USER",
     .group = CONFIG_GROUP_SERVER,
     .help =
         "As whom the server runs when root starts it: a name or a number (cove if there is one, else a number that nobody has)"},

    {.name = "max-sandboxes",
     .type = OPTION_U64,
     .flags = OPTION_CONFIG,
     .offset = AT(max_sandboxes),
     .min = 1,
     .max = 65536,
     .arg = "N",
     .group = CONFIG_GROUP_GLOBAL,
     .help = "Live sandboxes of one process at a time (as many idle ones as the memory holds)"},
    {.name = "data-dir",
     .type = OPTION_STRING,
     .flags = OPTION_CONFIG,
     .offset = AT(data_dir),
     .min = 1,
     .max = PATH_MAX_BYTES,
     .arg = "DIR",
     .group = CONFIG_GROUP_GLOBAL,
     .also = data_dir_names,
     .help = "Where images and state are kept (/var/lib/cove as root, else ~/.local/share/cove)"},
    {.name = "recipes-dir",
     .type = OPTION_STRING,
     .flags = OPTION_CONFIG,
     .offset = AT(recipes_dir),
     .min = 1,
     .max = PATH_MAX_BYTES,
     .arg = "DIR",
     .group = CONFIG_GROUP_GLOBAL,
     .help = "Where the image recipes are (those that came with the program)"},
    {.name = "spawner",
     .type = OPTION_STRING,
     .flags = OPTION_CONFIG,
     .offset = AT(spawner),
     .min = 1,
     .max = PATH_MAX_BYTES,
     .arg = "FILE",
     .group = CONFIG_GROUP_GLOBAL,
     .help = "The cove-spawner program (the one that came with this program)"},
    {.name = "cgroup-parent",
     .type = OPTION_STRING,
     .flags = OPTION_CONFIG,
     .offset = AT(cgroup_parent),
     .preset = "cove",
     .min = 1,
     .max = 255,
     .arg = "NAME",
     .group = CONFIG_GROUP_GLOBAL,
     .help = "Control group below which sandboxes get theirs"},
    {.name = "allow-degraded",
     .type = OPTION_BOOL,
     .flags = OPTION_CONFIG,
     .offset = AT(allow_degraded),
     .preset = "false",
     .group = CONFIG_GROUP_GLOBAL,
     .help = "Run although this host lacks a layer of isolation"},
    {.name = "log-file",
     .type = OPTION_STRING,
     .flags = OPTION_CONFIG,
     .offset = AT(log_file),
     .min = 1,
     .max = PATH_MAX_BYTES,
     .arg = "FILE",
     .group = CONFIG_GROUP_GLOBAL,
     .help = "Append the log to this file instead of stderr"},
    {.name = "log-level",
     .type = OPTION_ENUM,
     .flags = OPTION_CONFIG,
     .offset = AT(log_level),
     .preset = "info",
     .choices = log_level_names,
     .arg = "LEVEL",
     .group = CONFIG_GROUP_GLOBAL,
     .help = "Least level that is logged"},
    {.name = "config",
     .type = OPTION_STRING,
     .flags = OPTION_ENV,
     .offset = AT(config_file),
     .min = 1,
     .max = PATH_MAX_BYTES,
     .arg = "FILE",
     .group = CONFIG_GROUP_GLOBAL,
     .help = "Read this file instead of /etc/cove/cove.conf and ~/.config/cove/cove.conf"},
    {.name = "json",
     .type = OPTION_BOOL,
     .offset = AT(json),
     .group = CONFIG_GROUP_GLOBAL,
     .help = "Answer in JSON"},
    {.name = "help",
     .short_name = 'h',
     .type = OPTION_BOOL,
     .offset = AT(help),
     .group = CONFIG_GROUP_GLOBAL,
     .help = "Show help"},
    {.name = "version",
     .type = OPTION_BOOL,
     .offset = AT(version),
     .group = CONFIG_GROUP_GLOBAL,
     .help = "Show the version"},
};
const size_t config_option_count = ARRAY_LEN(config_options);

/* A file in one of the usual places need not be there. */
static int apply_usual_file(struct option_set *set, const char *path, struct error *err)
{
    struct error why;
    if (option_apply_file(set, path, &why) == 0 || why.code == ERROR_NOT_FOUND)
        return 0;
    *err = why;
    return -1;
}

static int apply_files(const struct config *config, struct option_set *set, struct error *err)
{
    if (config->config_file)
        return option_apply_file(set, config->config_file, err);
    if (apply_usual_file(set, SYSTEM_FILE, err) < 0)
        return -1;
    const char *home = getenv("HOME");
    if (geteuid() == 0 || !home)
        return 0;
    scoped_free char *path = xasprintf("%s/.config/cove/cove.conf", home);
    return apply_usual_file(set, path, err);
}

static int choose_data_dir(struct config *config, struct error *err)
{
    if (config->data_dir)
        return 0;
    const char *home = getenv("HOME");
    if (geteuid() == 0) {
        config->data_dir = xstrdup(SYSTEM_DATA_DIR);
    } else if (home && *home) {
        config->data_dir = xasprintf("%s/.local/share/cove", home);
    } else {
        error_set(err, ERROR_INVALID, "no data directory: HOME is not set");
        return error_hint(err, "set COVE_DATA_DIR, or give --data-dir");
    }
    return 0;
}

int config_load(struct config *config, struct option_set *set, struct error *err)
{
    if (option_apply_environment(set, err) < 0 || apply_files(config, set, err) < 0)
        return -1;
    option_apply_presets(set);
    return choose_data_dir(config, err);
}

int config_load_given(struct config *config, struct option_set *set, struct error *err)
{
    if (option_apply_environment(set, err) < 0)
        return -1;
    option_apply_presets(set);
    return choose_data_dir(config, err);
}

bool config_is_given(const struct option_set *set, const char *name)
{
    for (size_t i = 0; i < set->count; i++) {
        if (strcmp(set->rows[i].name, name) == 0)
            return option_is_set(set, i);
    }
    BUG_ON(true);
    return false;
}
