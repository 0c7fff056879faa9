/* layer.c - names and needs of the layers */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/layer.h"

#include "base/macros.h"

static const struct layer_info infos[LAYER_COUNT] = {
#define X(symbol, name, root, user) [LAYER_##symbol] = {name, LAYER_##root, LAYER_##user},
    LAYERS(X)
#undef X
};

const struct layer_info *layer_info(enum layer layer)
{
    BUG_ON((unsigned)layer >= LAYER_COUNT);
    return &infos[layer];
}
