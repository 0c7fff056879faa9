/* fuzz_egress_request.c - bytes from inside a sandbox: a request that is passed on is one request,
 * for a host that the policy allows, with one Host header that names it */
/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/policy.h"
#include "egress/request.h"

#include <string.h>

#include "fuzz.h"

static void check_policy(const struct authority *to)
{
    static const struct egress_rule rules[] = {{"example.com", 0, 0},
                                               {"example.org", 0, EGRESS_BELOW}};
    struct policy policy = {0};
    bool is_private;
    for (size_t i = 0; i < ARRAY_LEN(rules); i++)
        BUG_ON(!policy_add(&policy, &rules[i]));
    if (policy_ask(&policy, to, &is_private) == POLICY_ALLOWED) {
        size_t len = strlen(to->name);
        BUG_ON(to->port != 80 && to->port != 443);
        BUG_ON(strcmp(to->name, "example.com") != 0 &&
               (len < 13 || strcmp(to->name + len - 12, ".example.org") != 0));
        BUG_ON(is_private || to->is_address);
    }
    policy_release(&policy);
}

/* What the host will read: one head, whose lines are whole. */
static void check_head(const struct request *r, const struct framing_head *head)
{
    static const struct secrets_view no_secrets;
    struct framing framing;
    scoped_strbuf struct strbuf out;
    size_t used, body_len;
    const char *body;
    strbuf_init(&out, 3 * FRAMING_HEAD_MAX_BYTES);
    request_add_head(r, head, &no_secrets, &out);
    BUG_ON(out.overflow || strlen(strbuf_str(&out)) != out.len);
    if (out.len > FRAMING_HEAD_MAX_BYTES)
        return;
    framing_init_proxy(&framing);
    enum framing_step step = framing_next(&framing, out.data, out.len, &used, &body, &body_len);
    BUG_ON(step == FRAMING_HEAD && used != out.len);
    BUG_ON(step == FRAMING_MORE);
    BUG_ON(step == FRAMING_HEAD && framing.head.content_length != head->content_length);
    BUG_ON(step == FRAMING_HEAD && framing.head.is_chunked != head->is_chunked);
    framing_release(&framing);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct framing framing;
    struct request request;
    size_t used, body_len;
    const char *body;
    framing_init_proxy(&framing);
    if (framing_next(&framing, (const char *)data, size, &used, &body, &body_len) == FRAMING_HEAD &&
        !request_read(&request, &framing.head)) {
        BUG_ON(!request.to.port);
        check_policy(&request.to);
        if (!request.is_tunnel)
            check_head(&request, &framing.head);
    }
    framing_release(&framing);
    return 0;
}
