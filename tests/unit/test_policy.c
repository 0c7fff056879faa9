/* test_policy.c - which names a sandbox may reach, and which addresses nobody may */
/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/policy.h"

#include <arpa/inet.h>
#include <string.h>

#include "check.h"

static const struct egress_rule rules[] = {
    {"example.com", 0, 0},    {"example.org", 0, EGRESS_BELOW},
    {"example.net", 8443, 0}, {"index.internal", 8080, EGRESS_PRIVATE},
    {"192.0.2.7", 0, 0},
};

struct row {
    const char *name, *to;
    enum policy_answer want;
    bool is_private;
};

static const struct row rows[] = {
    {"a name, by https", "example.com:443", POLICY_ALLOWED, false},
    {"a name, by http", "example.com:80", POLICY_ALLOWED, false},
    {"a name in capitals with a dot", "EXAMPLE.com.:443", POLICY_ALLOWED, false},
    {"another port of it", "example.com:22", POLICY_NO_PORT, false},
    {"a name below it", "a.example.com:443", POLICY_NO_HOST, false},
    {"a name that ends like it", "badexample.com:443", POLICY_NO_HOST, false},
    {"a name that begins like it", "example.com.evil.net:443", POLICY_NO_HOST, false},
    {"below a domain", "a.b.example.org:443", POLICY_ALLOWED, false},
    {"the domain itself", "example.org:443", POLICY_NO_HOST, false},
    {"a port of its own", "example.net:8443", POLICY_ALLOWED, false},
    {"which is the only one", "example.net:443", POLICY_NO_PORT, false},
    {"one of the operator's", "index.internal:8080", POLICY_ALLOWED, true},
    {"an address that is named", "192.0.2.7:80", POLICY_ALLOWED, false},
    {"an address that is not", "192.0.2.8:80", POLICY_NO_HOST, false},
    {"an address of version 6", "[2001:db8::1]:443", POLICY_NO_HOST, false},
};

static void test_row(void **state)
{
    const struct row *row = *state;
    struct policy policy = {0};
    struct authority to;
    bool is_private;
    for (size_t i = 0; i < ARRAY_LEN(rules); i++)
        assert_true(policy_add(&policy, &rules[i]));
    assert_true(authority_parse(&to, row->to, strlen(row->to)));
    assert_int_equal(policy_ask(&policy, &to, &is_private), row->want);
    assert_int_equal(is_private, row->is_private);
    policy_release(&policy);
}

static void test_spelling(void **state)
{
    static const struct egress_rule bad[] = {
        {"Example.com", 0, 0},
        {"example.com.", 0, 0},
        {"", 0, 0},
        {"a b", 0, 0},
        {"example.com:80", 0, 0},
        {"::1", 0, EGRESS_BELOW},
        {"192.0.2.1", 0, EGRESS_BELOW},
        {"example.com", 65536, 0},
        {"example.com", 0, 1 << 5},
        {"[::1]", 0, 0},
    };
    struct policy policy = {0};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(policy_add(&policy, &bad[i]));
    struct egress_rule endless = {.port = 0};
    memset(endless.name, 'a', sizeof(endless.name));
    assert_false(policy_add(&policy, &endless));
    assert_true(policy_add(&policy, &(struct egress_rule){.name = "::1"}));
    policy_release(&policy);
}

static void test_number(void **state)
{
    struct policy policy = {0};
    (void)state;
    for (size_t i = 0; i < EGRESS_RULES_MAX; i++)
        assert_true(policy_add(&policy, &rules[0]));
    assert_false(policy_add(&policy, &rules[0]));
    policy_release(&policy);
}

struct address {
    const char *name;
    bool is_public;
};

static const struct address addresses[] = {
    {"93.184.216.34", true},
    {"8.8.8.8", true},
    {"172.15.255.255", true},
    {"172.32.0.1", true},
    {"100.63.255.255", true},
    {"100.128.0.1", true},
    {"169.253.1.1", true},
    {"223.255.255.255", true},
    {"0.0.0.0", false},
    {"0.1.2.3", false},
    {"10.0.0.1", false},
    {"10.255.255.255", false},
    {"100.64.0.1", false},
    {"100.100.100.200", false},
    {"127.0.0.1", false},
    {"127.255.255.255", false},
    {"168.63.129.16", false},
    {"169.254.169.254", false},
    {"172.16.0.1", false},
    {"172.31.255.255", false},
    {"192.0.0.192", false},
    {"192.168.1.1", false},
    {"198.18.0.1", false},
    {"198.19.255.255", false},
    {"224.0.0.1", false},
    {"239.255.255.250", false},
    {"240.0.0.1", false},
    {"255.255.255.255", false},
    {"2606:4700::1111", true},
    {"2a00:1450:4001:800::200e", true},
    {"::", false},
    {"::1", false},
    {"::127.0.0.1", false},
    {"::ffff:127.0.0.1", false},
    {"::ffff:10.0.0.1", false},
    {"::ffff:169.254.169.254", false},
    {"::ffff:8.8.8.8", true},
    {"::ffff:0:8.8.8.8", false},
    {"64:ff9b::7f00:1", false},
    {"64:ff9b::a00:1", false},
    {"64:ff9b::808:808", true},
    {"64:ff9b:1::1", false},
    {"2002:7f00:1::1", false},
    {"2002:a9fe:a9fe::1", false},
    {"2002:808:808::1", true},
    {"2001::1", false},
    {"2001:0:4136:e378:8000:63bf:3fff:fdd2", false},
    {"fc00::1", false},
    {"fd00:ec2::254", false},
    {"fe80::1", false},
    {"fec0::1", false},
    {"ff02::1", false},
    {"100::1", false},
    {"4000::1", false},
};

static void test_address(void **state)
{
    const struct address *row = *state;
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    bool is_v4 = inet_pton(AF_INET, row->name, &v4.sin_addr) == 1;
    assert_true(is_v4 || inet_pton(AF_INET6, row->name, &v6.sin6_addr) == 1);
    const struct sockaddr *any = is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    assert_int_equal(policy_is_public(any), row->is_public);
}

static void test_family(void **state)
{
    const struct sockaddr unix_address = {.sa_family = AF_UNIX};
    (void)state;
    assert_false(policy_is_public(&unix_address));
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, rows, test_row);
    check_one(&check, "takes rules in the one spelling only", test_spelling);
    check_one(&check, "takes so many rules and no more", test_number);
    check_rows(&check, addresses, test_address);
    check_one(&check, "no other family is public", test_family);
    return check_run(&check, "policy");
}
