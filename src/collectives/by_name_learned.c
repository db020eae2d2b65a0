/* collectives/by_name_learned.c - while an order of calls by name is followed:
 * the carrier, which is both the question how many of the calls that are next
 * all ranks have, and small ones of these calls. See by_name.h,
 * negotiate/learned.h.
 *
 * Nothing is lost where a rank has none: what is carried is a copy, and in
 * place nothing begins before all have answered.
 *
 * Threads: the driver. Memory: an array of NEGOTIATOR_ASKED_MAX; the comm's
 * fusion buffer. */
#include <string.h>

#include "base/array.h"
#include "collectives/by_name_impl.h"
#include "collectives/comm_impl.h"
#include "collectives/reduce/identity.h"
#include "timeline/timeline.h"

/* More, in all, is faster as an operation of its own. Of what may not be there
 * yet: so much that it costs nothing. */
enum { CARRIED_NBYTES = 128 << 10, CARRIED_AHEAD_NBYTES = 8 << 10 };

/* --- which --- */

/* A sum with one rank's 1 among zeros has to be another one than of zeros. */
static bool may_be_carried(const struct signature *s)
{
    return s->kind == COLLECTIVE_ALLREDUCE &&
           (s->op == HVD_SUM || s->op == HVD_AVERAGE) &&
           (s->dtype == HVD_FLOAT16 || s->dtype == HVD_BFLOAT16 ||
            s->dtype == HVD_FLOAT32 || s->dtype == HVD_FLOAT64) &&
           (s->way & ~SIGNATURE_OF_ALL) == 0 && s->prescale == 1 &&
           s->postscale == 1;
}

/* Would the two be one operation? */
static bool is_alike(const struct signature *a, const struct signature *b)
{
    return may_be_carried(a) && a->dtype == b->dtype && a->op == b->op;
}

static uint64_t nbytes_of(const struct signature *s)
{
    return s->count * hvd_dtype_size((hvd_dtype_t)s->dtype);
}

/* What is carried has to leave no operation to be made: all calls like this one
 * of a stretch, which come together, or none. */
static bool all_fit(const struct by_name *b, const struct signature *s)
{
    size_t n = negotiator_n_stretch(b->negotiator), n_alike = 0;
    uint64_t nbytes = 0;

    for (size_t i = 0; i < n; i++) {
        const struct signature *one = negotiator_asked(b->negotiator, i);

        if (!is_alike(one, s))
            continue;
        if (nbytes_of(one) > FUSION_SMALL_NBYTES)
            return false;
        nbytes += nbytes_of(one);
        n_alike++;
    }
    return n_alike == 1 ||
           (nbytes <= CARRIED_NBYTES && nbytes <= b->setting.fusion_nbytes);
}

static bool choose_kind(const struct by_name *b, struct signature *s_p)
{
    size_t n = negotiator_n_stretch(b->negotiator);
    bool refused[BATCH_KEYS] = {false};

    for (size_t i = 0; i < n; i++) {
        const struct signature *s = negotiator_asked(b->negotiator, i);
        bool *no = &refused[(s->dtype * 8u + s->op) % BATCH_KEYS];

        if (!may_be_carried(s) || *no)
            continue;
        *s_p = *s;
        if (all_fit(b, s))
            return true;
        *no = true;
    }
    return false;
}

/* May the i-th be carried, beside so many bytes? What comes behind the stretch
 * may. */
static bool fits(const struct by_name *b, size_t i, const struct signature *s,
                 uint64_t nbytes)
{
    uint64_t all = nbytes + nbytes_of(s);

    return i < negotiator_n_stretch(b->negotiator) ||
           (all <= CARRIED_AHEAD_NBYTES && all <= b->setting.fusion_nbytes);
}

static void choose(struct by_name *b, struct collective_args *args)
{
    struct carrier *c = &b->carrier;
    struct signature kind;
    bool any = choose_kind(b, &kind);

    if (any) {
        args->dtype = (hvd_dtype_t)kind.dtype;
        args->op = (hvd_op_t)kind.op;
    }
    c->elem_nbytes = hvd_dtype_size(args->dtype);
    for (size_t i = 0; i < c->n; i++) {
        const struct signature *s = negotiator_asked(b->negotiator, i);

        c->carried[i] = any && is_alike(s, &kind) &&
                        fits(b, i, s, args->count * c->elem_nbytes);
        args->count += c->carried[i] ? s->count : 0;
    }
}

/* --- there --- */

/* How many of those that are next this rank has; what it has of them is there.
 */
static size_t load_first(const struct by_name *b)
{
    const struct carrier *c = &b->carrier;
    uint8_t *to = b->comm->fusion;
    size_t i;

    for (i = 0; i < c->n; i++) {
        const struct hvd_request *r = negotiator_asked_call(b->negotiator, i);

        if (r == NULL)
            break;
        if (c->carried[i])
            to += request_pack(r, to);
    }
    return i;
}

hvd_status_t by_name_load_carrier(struct by_name *b, bool ready,
                                  struct collective_args *args_p)
{
    struct carrier *c = &b->carrier;
    struct collective_args args = {.kind = COLLECTIVE_ALLREDUCE,
                                   .dtype = HVD_UINT8,
                                   .op = HVD_MAX,
                                   .name = "learned"};
    uint8_t *buffer;
    size_t n_here;

    c->n = negotiator_n_asked(b->negotiator);
    if (!array_reserve(&c->carried, &c->carried_max, c->n) ||
        !request_reserve_fusion(b->comm))
        return by_name_no_memory(b);
    choose(b, &args);
    c->question_at = args.count * c->elem_nbytes;
    c->delivered_nbytes = 0;
    args.count += c->n;
    args.sendbuf = args.recvbuf = buffer = b->comm->fusion;
    memset(buffer, 0, args.count * c->elem_nbytes);
    n_here = ready ? load_first(b) : 0;
    reduce_identity(args.dtype, HVD_PRODUCT,
                    buffer + c->question_at + n_here * c->elem_nbytes,
                    c->n - n_here);
    c->begun_ns = c->decided_ns = timeline_call_clock();
    *args_p = args;
    return HVD_OK;
}

/* --- and back --- */

size_t by_name_answer(const struct by_name *b)
{
    const struct carrier *c = &b->carrier;
    const uint8_t *answers = (const uint8_t *)b->comm->fusion + c->question_at;
    size_t n = 0;

    while (n < c->n * c->elem_nbytes && answers[n] == 0)
        n++;
    return n / c->elem_nbytes;
}

bool by_name_is_carried(const struct by_name *b, size_t k)
{
    return k < b->carrier.n && b->carrier.carried[k];
}

void by_name_deliver(struct by_name *b, struct hvd_request *r)
{
    struct carrier *c = &b->carrier;
    const uint8_t *buffer = b->comm->fusion;

    c->delivered_nbytes += request_unpack(r, buffer + c->delivered_nbytes);
}
