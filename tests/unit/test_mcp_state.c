/* test_mcp_state.c - what a client carries comes back as it was, or not at all */
/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/mcp_state.h"

#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"

#define NOW_S 1000000

static const struct mcp_state_claim claim = {"key_1", "tools/call", "ask"};
static struct mcp_state_key key;

static char *seal(void)
{
    scoped_json json_t *state = json_pack("{s:i}", "step", 3);
    char *text = mcp_state_seal(&key, &claim, state, NOW_S);
    assert_non_null(text);
    return text;
}

static bool opens(const struct mcp_state_claim *by, const char *text, int64_t now_s)
{
    scoped_json json_t *state = mcp_state_open(&key, by, text, now_s);
    assert_true(!state || json_integer_value(json_object_get(state, "step")) == 3);
    return state;
}

static void test_round(void **state)
{
    (void)state;
    scoped_free char *text = seal();
    assert_true(opens(&claim, text, NOW_S));
    assert_true(opens(&claim, text, NOW_S + MCP_STATE_TTL_S));
    assert_false(opens(&claim, text, NOW_S + MCP_STATE_TTL_S + 1));
}

static void test_every_change(void **state)
{
    (void)state;
    scoped_free char *text = seal();
    for (size_t i = 0; text[i]; i++) {
        text[i] ^= 1;
        assert_false(opens(&claim, text, NOW_S));
        text[i] ^= 1;
    }
    for (size_t len = 0; len < strlen(text); len++) {
        scoped_free char *part = xstrndup(text, len);
        assert_false(opens(&claim, part, NOW_S));
    }
    scoped_free char *longer = xasprintf("%s-TAMPERED", text);
    assert_false(opens(&claim, longer, NOW_S));
}

static void test_other_purposes(void **state)
{
    (void)state;
    scoped_free char *text = seal();
    const struct mcp_state_claim others[] = {{"key_2", "tools/call", "ask"},
                                             {"key_1", "prompts/get", "ask"},
                                             {"key_1", "tools/call", "as"},
                                             {"key_1t", "ools/call", "ask"}};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        assert_false(opens(&others[i], text, NOW_S));
}

static void test_other_key(void **state)
{
    (void)state;
    scoped_free char *text = seal();
    mcp_state_draw_key(&key);
    assert_false(opens(&claim, text, NOW_S));
}

static void test_too_large(void **state)
{
    (void)state;
    scoped_free char *big = xcalloc(1, MCP_STATE_MAX_BYTES);
    memset(big, 'a', MCP_STATE_MAX_BYTES - 1);
    scoped_json json_t *value = json_string(big);
    assert_null(mcp_state_seal(&key, &claim, value, NOW_S));
    assert_false(opens(&claim, big, NOW_S));
}

int main(void)
{
    struct check check = {.count = 0};
    mcp_state_draw_key(&key);
    check_one(&check, "comes back until it is too old", test_round);
    check_one(&check, "every change and every length is refused", test_every_change);
    check_one(&check, "is good for one caller, method and name", test_other_purposes);
    check_one(&check, "another server's is refused", test_other_key);
    check_one(&check, "what is too large is neither made nor read", test_too_large);
    return check_run(&check, "mcp_state");
}
