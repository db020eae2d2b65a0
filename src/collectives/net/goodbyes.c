/* collectives/net/goodbyes.c - see goodbyes.h. */
#include "collectives/net/goodbyes.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/log.h"
#include "collectives/net/records.h"
#include "collectives/net/sealed.h"

enum { SETS_MAX = 256 };

/* As in a LEAVE: frame.h. */
struct greeted {
    uint64_t worker, channels;
};

struct goodbye {
    uint32_t set;
    struct greeted *greeted;
    size_t n_greeted, greeted_max;
    bool forgets; /* no memory for all of them: anybody else may be one */
    bool sealed;
    uint8_t key[MAC_KEY_NBYTES];
    uint8_t frame[ENDPOINT_GOODBYE_MAX];
    size_t nbytes;
};

void goodbyes_fini(struct goodbyes *g)
{
    for (size_t i = 0; i < g->max; i++)
        free(g->all[i].greeted);
    array_free(&g->all, &g->max);
    g->n = 0;
}

/* --- keeping --- */

static struct goodbye *find(const struct goodbyes *g, uint64_t generation,
                            uint32_t set)
{
    if (generation != g->generation)
        return NULL;
    for (size_t i = 0; i < g->n; i++)
        if (g->all[i].set == set)
            return &g->all[i];
    return NULL;
}

/* One of a communicator, which all its ranks have left together. */
static struct goodbye *oldest(struct goodbyes *g)
{
    while (g->all[g->turn % g->n].set < 2)
        g->turn++;
    return &g->all[g->turn++ % g->n];
}

/* Its array of those greeted, if it has one, is of an older one's. */
static struct goodbye *next(struct goodbyes *g)
{
    if (g->n == SETS_MAX)
        return oldest(g);
    if (!array_reserve(&g->all, &g->max, g->n + 1))
        return NULL;
    return &g->all[g->n++];
}

void goodbyes_add(struct goodbyes *g, const struct endpoint_user *user,
                  const uint8_t *frame, size_t nbytes)
{
    struct goodbye *of;

    HVD_ASSERT(nbytes <= sizeof(of->frame));
    if (user->generation < g->generation)
        return;
    if (user->generation > g->generation)
        g->n = 0;
    g->generation = user->generation;
    of = find(g, user->generation, user->set);
    if (of == NULL)
        of = next(g);
    if (of == NULL) {
        log_warn("no memory for a goodbye -> late peers do not hear of it");
        return;
    }
    of->set = user->set;
    of->n_greeted = 0;
    of->forgets = false;
    of->sealed = user->sealed;
    of->nbytes = nbytes;
    memcpy(of->key, user->key, sizeof(of->key));
    memcpy(of->frame, frame, nbytes);
}

void goodbyes_greeted(struct goodbyes *g, const struct endpoint_user *user,
                      uint64_t worker, uint64_t channels)
{
    struct goodbye *of = find(g, user->generation, user->set);

    if (of == NULL)
        return;
    if (array_reserve(&of->greeted, &of->greeted_max, of->n_greeted + 1))
        of->greeted[of->n_greeted++] = (struct greeted){worker, channels};
    else
        of->forgets = true;
}

/* --- telling --- */

const struct goodbye *goodbyes_of(const struct goodbyes *g, uint64_t generation,
                                  uint32_t set)
{
    return find(g, generation, set);
}

const uint8_t *goodbye_key(const struct goodbye *g)
{
    return g->key;
}

static uint64_t greeted_on(const struct goodbye *g,
                           const struct handshake *hello)
{
    uint64_t worker = hello->worker;

    if (hello->set != g->set)
        return 0;
    for (size_t i = 0; i < g->n_greeted; i++)
        if (g->greeted[i].worker == worker)
            return g->greeted[i].channels;
    return g->forgets ? UINT64_MAX : 0;
}

/* The frame is one for all, and a LEAVE says what concerns the receiver. */
static void name_channels(const struct goodbye *g,
                          const struct handshake *hello, uint8_t *bytes)
{
    struct frame f;

    if (!frame_decode(bytes, &f) || f.type != FRAME_LEAVE)
        return;
    f.count = greeted_on(g, hello);
    frame_encode(&f, bytes);
}

/* As the dialer can read it, out [ENDPOINT_GOODBYE_MAX + RECORD_EXTRA_NBYTES]:
 * how many bytes. Who does not encrypt as this end did learns that from the
 * reply, and no more. */
static size_t encode(const struct goodbye *g, const struct handshake *hello,
                     const struct handshake *reply, uint8_t *out)
{
    bool sealed = reply->flags & HANDSHAKE_SEALED;
    uint8_t frame[ENDPOINT_GOODBYE_MAX], key[MAC_KEY_NBYTES];
    struct records records;

    if (sealed != (bool)(hello->flags & HANDSHAKE_SEALED) ||
        (hello->flags & HANDSHAKE_AES && !aead_has_aes()))
        return 0;
    memcpy(frame, g->frame, g->nbytes);
    name_channels(g, hello, frame);
    if (!sealed) {
        memcpy(out, frame, g->nbytes);
        return g->nbytes;
    }
    handshake_key(g->key, HANDSHAKE_ANSWER, hello, reply, key);
    records_init(&records, sealed_cipher(hello), key);
    records_seal(&records, frame, g->nbytes, out);
    records_fini(&records);
    mac_wipe(key, sizeof(key));
    return g->nbytes + RECORD_EXTRA_NBYTES;
}

uint8_t *goodbye_answer(const struct goodbye *g, const struct handshake *hello,
                        size_t *n_p)
{
    uint8_t *bytes = malloc(HANDSHAKE_NBYTES + g->nbytes + RECORD_EXTRA_NBYTES);
    struct handshake reply;

    if (bytes == NULL)
        return NULL;
    reply = handshake_reply(hello, g->sealed && hello->channel != CHANNEL_LOCAL,
                            g->key, bytes);
    *n_p = HANDSHAKE_NBYTES +
           encode(g, hello, &reply, bytes + HANDSHAKE_NBYTES);
    return bytes;
}
