/* fuzz_shim.c - whatever a kernel writes, the host gets whole frames within the bound
 *
 * The input is what the kernel writes while a request is under way; it goes in at once and byte by
 * byte, which must make no difference. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "init/shim.h"

#include <string.h>

#include "base/macros.h"
#include "fuzz.h"
#include "wire/kernel.h"

static void begin(struct shim *s)
{
    const struct kernel_frame request = {.type = KERNEL_VARIABLES, .generation = 1};
    shim_init(s);
    BUG_ON(!shim_take_frame(s, &request, sizeof(request), NULL, 0));
}

static void check_frames(const struct shim *s)
{
    uint16_t more_of = 0;
    for (size_t at = 0; at < s->whole;) {
        struct kernel_frame f;
        BUG_ON(s->whole - at < sizeof(f));
        memcpy(&f, s->to_host.data + at, sizeof(f));
        BUG_ON(f.length > KERNEL_BODY_MAX || s->whole - at - sizeof(f) < f.length);
        BUG_ON(f.type < KERNEL_READY || f.type > KERNEL_DONE || f.reserved != 0);
        BUG_ON(f.generation != (f.type != KERNEL_READY));
        BUG_ON(more_of && f.type != more_of);
        more_of = f.flags & KERNEL_MORE ? f.type : 0;
        at += sizeof(f) + f.length;
    }
    BUG_ON(s->to_host.len > SHIM_ANSWER_MAX || s->whole > s->to_host.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct shim whole, split;
    bool is_good;
    size_t at = 0;
    begin(&whole);
    begin(&split);
    is_good = shim_take_bytes(&whole, (const char *)data, size);
    while (at < size && shim_take_bytes(&split, (const char *)data + at, 1))
        at++;
    BUG_ON(is_good != (at == size));
    check_frames(&whole);
    check_frames(&split);
    BUG_ON(whole.to_host.len != split.to_host.len);
    BUG_ON(whole.to_host.len > 0 &&
           memcmp(whole.to_host.data, split.to_host.data, whole.to_host.len) != 0);
    shim_release(&whole);
    shim_release(&split);
    return 0;
}
