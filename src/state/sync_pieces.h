/* state/sync_pieces.h - the shared part of a snapshot in pieces, as they are
 * sent and digested. If what lies on devices goes apart, a piece is of such
 * entries or of others:
 *
 *     | entry 0 | entry 1                  | 2 | on a device | 4       |
 *     | piece 0         | piece 1              | piece 2     | piece 3 |
 *
 * Equal at both ends, whose entries have equal sizes: which of them lie on a
 * device counts only where they go apart, and then it is the same ones.
 *
 * Threads: the training thread. Memory: the caller's. */
#ifndef STATE_SYNC_PIECES_H
#define STATE_SYNC_PIECES_H

#include <stdbool.h>
#include <stddef.h>

#include "state/internal.h"

enum { SYNC_PIECE_NBYTES = 1 << 20 };

struct sync_pieces {
    const struct snapshot *snapshot;
    bool apart;      /* what lies on devices goes apart */
    size_t from, to; /* of the piece; 0: before the first */
    bool goes_apart; /* this piece does */
    size_t record;   /* in which it begins */
};

/* false: there are no more. */
bool sync_pieces_next(struct sync_pieces *pieces);

#endif
