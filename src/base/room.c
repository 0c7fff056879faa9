/* room.c - who holds how much is known by the holders; here is the sum */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/room.h"

#include "base/macros.h"

#define SHARE 4

static size_t counted(size_t held)
{
    return held > ROOM_ALWAYS_BYTES ? held - ROOM_ALWAYS_BYTES : 0;
}

bool room_take(struct room *room, size_t held, size_t more)
{
    if (!room)
        return true;
    size_t before = counted(held), after = counted(held + more);
    BUG_ON(room->used < before);
    size_t others = room->used - before;
    if (after > 0 && (others > room->max || after > (room->max - others) / SHARE))
        return false;
    room->used = others + after;
    return true;
}

void room_give(struct room *room, size_t held)
{
    if (!room)
        return;
    BUG_ON(room->used < counted(held));
    room->used -= counted(held);
}
