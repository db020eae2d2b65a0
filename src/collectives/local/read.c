/* collectives/local/read.c - what a peer of this host shows: where its bytes
 * are, how they are had if they are not at hand, and whether what was read may
 * be believed.
 *
 * Threads: whoever drives the comm. Memory: a buffer for what is fetched, with
 * its first use. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/round.h"
#include "collectives/local/arena.h"
#include "collectives/local/impl.h"

enum { GOODBYE_US = 1000000, FETCH_UNIT = 4096 };

/* --- peers that have gone --- */

/* A peer has said in its mailbox that it left: its goodbye, with the reason, is
 * on the way. */
static hvd_status_t hear_goodbye(struct local *local, int rank)
{
    const struct local_owner *owner = &local->owner;
    struct connection *c = owner->links[rank];
    uint64_t until_us = clock_now_us() + GOODBYE_US;

    while (c != NULL && c->state != CONNECTION_LEFT && !c->ended) {
        uint64_t now_us = clock_now_us();
        struct pollfd fds[] = {{c->fd, POLLIN, 0},
                               {owner->verdict->wake_fd, POLLIN, 0}};

        HVD_TRY(local_check(local));
        HVD_TRY(owner->read(owner->comm, c));
        if (now_us >= until_us || local_kicked(local))
            break;
        (void)poll(fds, ARRAY_SIZE(fds), clock_poll_ms(now_us, until_us));
    }
    return local_check(local);
}

/* A peer went while `what`. If it cannot say why, a mismatch is still one on
 * every rank. */
hvd_status_t local_gone(struct local *local, int place, uint32_t left,
                        const char *what)
{
    int rank = local->peers[place].rank;

    /* nothing is written any more, and the peer's goodbye waits for that */
    atomic_store(&local->box->writing, 0);
    HVD_TRY(hear_goodbye(local, rank));
    if (left == MAILBOX_LEFT_MISMATCH)
        return local_fail(local, HVD_ERR_MISMATCH,
                          "rank %d left over a disagreement while rank %d %s",
                          rank, local->rank, what);
    return local_fail(local, HVD_PEER_LOST, "rank %d left while rank %d %s",
                      rank, local->rank, what);
}

/* Who has left may have freed it since. */
static hvd_status_t still_there(struct local *local, int place)
{
    uint32_t left = atomic_load(&local->peers[place].box->left);
    int error = errno;

    if (left != MAILBOX_HERE)
        return local_gone(local, place, left, "read its memory");
    errno = error;
    return HVD_OK;
}

hvd_status_t local_unreadable(struct local *local, int place)
{
    HVD_TRY(still_there(local, place));
    return local_fail(local, HVD_ERR_SYSTEM,
                      "rank %d can neither map nor read the memory of rank %d: "
                      "%s (HVD_TRANSPORT=tcp does without)",
                      local->rank, local->peers[place].rank, strerror(errno));
}

/* --- where its bytes are --- */

static struct local_source in_arena(const struct local_peer *peer, uint64_t at,
                                    size_t nbytes)
{
    return (struct local_source){local_view(peer, at, nbytes), true, at};
}

static struct local_source shown(const struct local_peer *peer, uint8_t way,
                                 uint64_t at, size_t nbytes)
{
    if (way == MAILBOX_ARENA)
        return in_arena(peer, at, nbytes);
    return (struct local_source){NULL, false, at};
}

/* The part of a peer's operand for this rank, or of its result. */
struct local_source local_operand_of(const struct local *local, int place,
                                     const struct pull_action *a)
{
    const struct local_peer *peer = &local->peers[place];
    const struct mailbox_card *card = local_card_of(peer->box, local->ticket);
    const struct local_extent *table = local_table_of(peer->box, local->ticket);
    size_t at = a->region.src, n = a->region.nbytes;

    if (card->send_way == MAILBOX_STAGED)
        return in_arena(peer,
                        card->stage_at + pull_stage_in(&local->run.pull,
                                                       a->block, local->me),
                        n);
    if (local->run.phase->shape.kind == COLLECTIVE_ALLTOALLV)
        at += table[local->me].offset;
    return shown(peer, card->send_way, card->send_at + at, n);
}

struct local_source local_result_of(const struct local *local, int place,
                                    const struct pull_action *a)
{
    const struct local_peer *peer = &local->peers[place];
    const struct mailbox_card *card = local_card_of(peer->box, local->ticket);

    if (card->recv_way == MAILBOX_STAGED)
        return in_arena(peer, card->stage_at + a->stage, a->region.nbytes);
    return shown(peer, card->recv_way, card->recv_at + a->region.src,
                 a->region.nbytes);
}

/* By whichever way they can be had. */
hvd_status_t local_fetch(struct local *local, int place,
                         struct local_source from, uint8_t *dst, size_t nbytes,
                         bool *later_p)
{
    const struct local_peer *peer = &local->peers[place];

    *later_p = false;
    if (from.in_arena)
        return peer->arena != NULL &&
                       peer_arena_read(peer->arena, from.at, dst, nbytes)
                   ? HVD_OK
                   : local_unreadable(local, place);
    if (!local->run.waits) {
        if (peer_read(&peer->process, from.at, dst, nbytes))
            return HVD_OK;
        HVD_TRY(still_there(local, place));
        local_ask_begins(local, place, errno);
    }
    HVD_TRY(local_ask(local, place, from.at, dst, nbytes, later_p));
    local->run.waits = *later_p;
    return HVD_OK;
}

bool local_fetch_reserve(struct local *local, size_t nbytes)
{
    size_t n = (size_t)local->size - 1;

    if (nbytes <= local->fetched_max)
        return true;
    nbytes = round_up_to(nbytes, FETCH_UNIT);
    free(local->fetched);
    local->fetched = aligned_alloc(FETCH_UNIT, n * nbytes);
    local->fetched_max = local->fetched != NULL ? nbytes : 0;
    return local->fetched != NULL;
}

/* --- may it be believed? --- */

/* Whose staging memory is it now? */
static uint64_t tenant_of(const struct local_peer *peer, uint64_t stage_at)
{
    const uint8_t *stage = local_view(peer, stage_at, 1);
    uint64_t tenant = 0;

    if (stage != NULL)
        return stage_tenant(stage);
    (void)peer_arena_read(peer->arena, stage_at - STAGE_HEAD_NBYTES, &tenant,
                          sizeof(tenant));
    return tenant;
}

/* Was all that has been read of a peer still what it showed? Buffers, until it
 * goes. Its card: nobody overwrites that, and it need not wait for who reads
 * it; nor for who reads what is too much for the card, in staging memory,
 * which is another's in the next generation. */
static bool was_there(const struct local *local, int place)
{
    const struct local_run *run = &local->run;
    const struct local_peer *peer = &local->peers[place];
    const struct mailbox_card *card = local_card_of(peer->box, local->ticket);

    if (local_in_cards(run) && card->send_way == MAILBOX_INLINE)
        return true;
    if (local_in_cards(run) && card->send_way == MAILBOX_STAGED)
        return tenant_of(peer, card->send_at) == peer->box->nonce;
    return atomic_load(&peer->box->left) == MAILBOX_HERE;
}

/* All reading is over: had anybody gone before that? Loads are in order here:
 * what has been read cannot be newer than the word. */
hvd_status_t local_check_left(struct local *local)
{
#if !defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
    atomic_thread_fence(memory_order_acquire);
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
    for (int n = 0; n < local->run.n_peers; n++) {
        int place = local->run.first_peer + n;

        if (place != local->me && local_is_read(local, place) &&
            !was_there(local, place))
            return local_gone(local, place,
                              atomic_load(&local->peers[place].box->left),
                              "read its memory");
    }
    return HVD_OK;
}
