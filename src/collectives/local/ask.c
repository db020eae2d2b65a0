/* collectives/local/ask.c - bytes of a peer that only the peer itself can read.
 *
 * process_vm_readv(2) of a living peer fails if it has become undumpable, is in
 * another user namespace, or has its buffer where no other process may look (a
 * device's memory). Then the reader asks the peer for it, piece by piece:
 *
 *   reader                                peer
 *     ask: ticket, address, bytes  -->
 *                                           copies them to its arena
 *                                  <--      answer: where
 *     copies them, ask: 0          -->      may answer the next
 *
 * The peer is in the same call until everybody has read from it, so it hears
 * the question; that it dies meanwhile is noticed like any death. From then on
 * the reader says that it cannot read others (`attaches`), and operands are
 * staged.
 *
 * Threads: whoever drives the comm. Memory: a piece of the arena, from the
 * first question to the end of the comm. */
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "collectives/local/impl.h"

/* The next piece of what is still missing. */
static void put_question(struct local *local, int place, uint64_t address,
                         size_t nbytes)
{
    struct local_ask *ask = &local->ask;
    struct mailbox *box = local->box;

    ask->nbytes = nbytes < LOCAL_FETCH_NBYTES ? nbytes : LOCAL_FETCH_NBYTES;
    ask->word = mailbox_ask(++ask->number, local->me, place);
    box->ask_ticket = local->ticket;
    box->ask_at = address;
    box->ask_nbytes = ask->nbytes;
    atomic_store(&box->ask, ask->word);
    local_notify(local);
}

static bool take_answer(struct local *local, int place, uint8_t *dst)
{
    const struct local_peer *peer = &local->peers[place];
    uint64_t at = peer->box->answer_at;
    const uint8_t *from = local_view(peer, at, local->ask.nbytes);

    if (from != NULL)
        memcpy(dst, from, local->ask.nbytes);
    else if (peer->arena == NULL ||
             !peer_arena_read(peer->arena, at, dst, local->ask.nbytes))
        return false;
    atomic_store(&local->box->ask, 0);
    local->ask.word = 0;
    local_notify(local);
    return true;
}

hvd_status_t local_ask(struct local *local, int place, uint64_t address,
                       uint8_t *dst, size_t nbytes, bool *later_p)
{
    struct local_ask *ask = &local->ask;
    const struct mailbox *theirs = local->peers[place].box;

    *later_p = true;
    if (ask->word != 0) {
        if (atomic_load(&theirs->answer) != ask->word)
            return HVD_OK;
        if (!take_answer(local, place, dst + ask->done))
            return local_fail(local, HVD_ERR_NOMEM,
                              "an answer of rank %d cannot be mapped",
                              local->peers[place].rank);
        ask->done += ask->nbytes;
    }
    if (ask->done < nbytes) {
        put_question(local, place, address + ask->done, nbytes - ask->done);
        return HVD_OK;
    }
    ask->done = 0;
    *later_p = false;
    return HVD_OK;
}

void local_ask_begins(struct local *local, int place, int error)
{
    if (atomic_exchange(&local->box->attaches, 2) != 2)
        log_info("rank %d cannot read the memory of rank %d (%s) -> it asks "
                 "for the data, and buffers are copied from now on",
                 local->rank, local->peers[place].rank, strerror(error));
}

/* --- the other side --- */

static bool piece_reserve(struct local *local)
{
    struct local_lent *lent = &local->lent;
    void *piece;

    if (lent->piece != NULL)
        return true;
    piece = hvd_alloc(LOCAL_FETCH_NBYTES);
    if (piece == NULL)
        return false;
    if (!arena_find(piece, LOCAL_FETCH_NBYTES, &lent->piece_at)) {
        hvd_free(piece);
        return false;
    }
    lent->piece = piece;
    return true;
}

/* The piece is another's until he has copied it. */
static bool is_lent(const struct local *local)
{
    const struct local_lent *lent = &local->lent;

    return lent->word != 0 &&
           atomic_load(&local->peers[lent->to].box->ask) == lent->word;
}

static hvd_status_t answer(struct local *local, int place, uint64_t word)
{
    const struct mailbox *theirs = local->peers[place].box;

    if (theirs->ask_ticket != local->ticket ||
        theirs->ask_nbytes > LOCAL_FETCH_NBYTES)
        return HVD_OK;
    if (!piece_reserve(local))
        return local_fail(local, HVD_ERR_NOMEM,
                          "%d bytes for rank %d, which cannot read this rank's "
                          "memory",
                          LOCAL_FETCH_NBYTES, local->peers[place].rank);
    memcpy(local->lent.piece, (const void *)(uintptr_t)theirs->ask_at,
           theirs->ask_nbytes);
    local->lent.to = place;
    local->lent.word = word;
    local->box->answer_at = local->lent.piece_at;
    atomic_store(&local->box->answer, word);
    local_notify(local);
    return HVD_OK;
}

hvd_status_t local_answer(struct local *local)
{
    for (int i = 0; i < local->size; i++) {
        uint64_t word = atomic_load(&local->peers[i].box->ask);

        if (i == local->me || word == 0 || mailbox_asked(word) != local->me ||
            word == local->lent.word)
            continue;
        if (is_lent(local))
            return HVD_OK;
        HVD_TRY(answer(local, i, word));
    }
    return HVD_OK;
}
