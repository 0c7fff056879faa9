/* test_server_config.c - options that must agree with each other */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/server_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/scoped.h"
#include "check.h"

#define FLAGS_MAX 4

/* Flags, and what stands in the message; NULL: all is well. */
struct config_case {
    const char *name, *flags[FLAGS_MAX], *words;
};

static const struct config_case cases[] = {
    {"takes what is usual", {NULL}, NULL},
    {"refuses what is no address", {"--listen=nowhere"}, "option 'listen': 'nowhere'"},
    {"refuses an open bind without a token",
     {"--listen=0.0.0.0:80"},
     "can be reached from other machines, and there is no token"},
    {"the same of version 6", {"--listen=[::]:80"}, "there is no token"},
    {"the same of one address", {"--listen=10.0.0.1:80"}, "there is no token"},
    {"takes an open bind with a token", {"--listen=0.0.0.0:80", "--token=0123456789abcdef"}, NULL},
    {"takes a unix socket", {"--listen=unix:/run/x"}, NULL},
    {"refuses a token with blanks",
     {"--token=secret secret"},
     "option 'token': must have 1 to 512"},
    {"refuses a token beyond ASCII", {"--internal-token=secr\xc3\xa9t"}, "option 'internal-token'"},
    {"refuses the same token twice",
     {"--token=secret", "--internal-token=secret"},
     "options 'token' and 'internal-token' are the same"},
    {"refuses a certificate alone",
     {"--tls-cert=a"},
     "option 'tls-cert' is given without 'tls-key'"},
    {"refuses a key alone", {"--tls-key=a"}, "option 'tls-key' is given without 'tls-cert'"},
    {"refuses a bucket without keys", {"--s3-bucket=abc"}, "option 's3-access-key'"},
    {"takes a bucket with its keys",
     {"--s3-bucket=abc", "--s3-access-key=a", "--s3-secret-key=b"},
     NULL},
    {"refuses a bucket that S3 would not make", {"--s3-bucket=Abc"}, "option 's3-bucket': 'Abc'"},
    {"refuses other schemes",
     {"--s3-bucket=abc", "--s3-endpoint=file:///etc"},
     "option 's3-endpoint': 'file:///etc'"},
    {"refuses a path behind the host",
     {"--s3-bucket=abc", "--s3-endpoint=http://host/path"},
     "option 's3-endpoint'"},
    {"refuses a port that is none",
     {"--s3-bucket=abc", "--s3-endpoint=http://host:0"},
     "option 's3-endpoint'"},
    {"takes both", {"--tls-key=a", "--tls-cert=b"}, NULL},
    {"refuses other databases, and does not tell the url",
     {"--database-url=mariadb://u:secret@h/d"},
     "option 'database-url': only sqlite"},
    {"refuses a relative path of the database",
     {"--database-url=sqlite:relative"},
     "needs an absolute path"},
    {"takes a database elsewhere", {"--database-url=sqlite:/a/b.db"}, NULL},
    {"refuses a public url without a scheme",
     {"--public-url=example.com"},
     "option 'public-url': 'example.com'"},
    {"refuses a public url with a path",
     {"--public-url=https://cove.example/x"},
     "nothing behind it"},
    {"takes a public url", {"--public-url=https://cove.example"}, NULL},
    {"refuses any origin",
     {"--cors-origins=https://a.example", "--cors-origins=*"},
     "option 'cors-origins': '*'"},
    {"refuses more memory than the ceiling",
     {"--memory=2G", "--memory-max=1G"},
     "option 'memory': 2G is above its ceiling 'memory-max', 1G"},
    {"refuses more life than the ceiling",
     {"--ttl=2h", "--ttl-max=1h"},
     "option 'ttl': 2h is above its ceiling 'ttl-max', 1h"},
    {"refuses more cores than the ceiling",
     {"--cpus=2", "--cpus-max=1.5"},
     "option 'cpus': 2 is above its ceiling 'cpus-max', 1.5"},
};

static int check(const char *const *flags, struct address *listen, char **database,
                 struct error *err)
{
    struct config config = {.json = false};
    struct option_set set;
    struct option_set *const sets[] = {&set};
    char *argv[FLAGS_MAX + 1];
    int argc = 0;
    while (argc < FLAGS_MAX && flags[argc]) {
        argv[argc] = (char *)flags[argc];
        argc++;
    }
    option_set_init(&set, config_options, config_option_count, &config);
    assert_int_equal(option_apply_flags(sets, 1, &argc, argv, false, err), 0);
    option_apply_presets(&set);
    config.data_dir = strdup("/var/lib/cove");
    int status = server_config_check(&config, listen, err);
    if (status == 0)
        status = server_config_database(&config, database, err);
    option_set_release(&set);
    return status;
}

static void test_check(void **state)
{
    const struct config_case *c = *state;
    struct address listen;
    struct error err = {.msg = ""};
    scoped_free char *database = NULL;
    int status = check(c->flags, &listen, &database, &err);
    if (c->words && !strstr(err.msg, c->words))
        fail_msg("it says '%s'", err.msg);
    assert_int_equal(status, c->words ? -1 : 0);
    assert_null(strstr(err.msg, "secret"));
}

static void test_database(void **state)
{
    static const char *const own[FLAGS_MAX] = {"--database-url=sqlite:/a/b.db"};
    static const char *const usual[FLAGS_MAX] = {NULL};
    struct address listen;
    struct error err;
    scoped_free char *database = NULL;
    (void)state;
    assert_int_equal(check(own, &listen, &database, &err), 0);
    assert_string_equal(database, "/a/b.db");
    free(database);
    database = NULL;
    assert_int_equal(check(usual, &listen, &database, &err), 0);
    assert_string_equal(database, "/var/lib/cove/server/cove.db");
    assert_int_equal(listen.port, 8080);
    assert_true(listen.is_loopback);
}

int main(void)
{
    struct check all = {.count = 0};
    check_rows(&all, cases, test_check);
    check_one(&all, "finds the database", test_database);
    return check_run(&all, "server_config");
}
