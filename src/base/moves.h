/* base/moves.h - machines whose states are an enum: a table says which state
 * may follow which, and each move is asserted against it.
 *
 *   static const unsigned moves[] = {
 *       [DOOR_SHUT] = MOVE(DOOR_OPEN),
 *       [DOOR_OPEN] = MOVE(DOOR_SHUT),
 *   };
 *
 *   HVD_ASSERT(moves_allow(moves, door->state, to));
 *   door->state = to;
 *
 * There is one function per machine that does this, nothing else writes the
 * state, and a state may only follow itself where its table says so.
 *
 * Pure. Threads: none of its own. */
#ifndef BASE_MOVES_H
#define BASE_MOVES_H

#include <stdbool.h>

#include "base/array.h"

#define MOVE(to) (1u << (to))

static inline bool moves_allow(const unsigned *moves, unsigned from,
                               unsigned to)
{
    return (moves[from] & MOVE(to)) != 0;
}

#endif
