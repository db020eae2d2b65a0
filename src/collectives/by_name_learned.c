/* collectives/by_name_learned.c - while an order of calls by name is followed:
 * the carrier, which is both the question whether all ranks have posted what is
 * next and the small ones of these calls. See by_name.h, negotiate/learned.h.
 *
 * Nothing is lost where a rank has not: what is carried is a copy, and in place
 * nothing begins before all have answered.
 *
 * Threads: the driver. Memory: two arrays, as large as the largest stretch and
 * CARRIED_NBYTES. */
#include <string.h>

#include "base/array.h"
#include "collectives/by_name_impl.h"
#include "collectives/reduce/identity.h"
#include "timeline/timeline.h"

/* More is faster where it is than copied. */
enum { CARRIED_NBYTES = FUSION_SMALL_NBYTES };

/* --- which --- */

static bool is_one(double scale)
{
    return scale == 0 || scale == 1;
}

/* A sum with one rank's 1 among zeros has to be another one than of zeros. */
static bool may_be_carried(const struct signature *s)
{
    return s->kind == COLLECTIVE_ALLREDUCE &&
           (s->op == HVD_SUM || s->op == HVD_AVERAGE) &&
           (s->dtype == HVD_FLOAT16 || s->dtype == HVD_BFLOAT16 ||
            s->dtype == HVD_FLOAT32 || s->dtype == HVD_FLOAT64) &&
           (s->way & (uint8_t)~HVD_COLLECTIVE_AVERAGE_OF_ALL) == 0 &&
           is_one(s->prescale) && is_one(s->postscale);
}

static bool is_alike(const struct signature *s,
                     const struct collective_args *args)
{
    return args->count == 0 ||
           (s->dtype == (uint8_t)args->dtype && s->op == (uint8_t)args->op);
}

/* As much as may be fused, and one in any case. */
static size_t room(const struct by_name *b, size_t nbytes)
{
    uint64_t max = b->setting.fusion_nbytes < CARRIED_NBYTES
                       ? b->setting.fusion_nbytes
                       : CARRIED_NBYTES;

    if (nbytes == 0)
        max = CARRIED_NBYTES;
    return nbytes < max ? (size_t)max - nbytes : 0;
}

static bool fits(const struct by_name *b, const struct signature *s,
                 const struct collective_args *args)
{
    size_t elem = hvd_dtype_size((hvd_dtype_t)s->dtype);

    return s->count > 0 && s->count <= room(b, args->count * elem) / elem;
}

/* The first that may, and what goes with it: the same on all ranks. */
static void choose(struct by_name *b, struct collective_args *args)
{
    struct carrier *c = &b->carrier;

    for (size_t k = 0; k < c->n; k++) {
        struct negotiated d = negotiator_stretch_call(b->negotiator, k);
        const struct signature *s = &d.signature;

        c->carried[k] = may_be_carried(s) && is_alike(s, args) &&
                        fits(b, s, args);
        if (!c->carried[k])
            continue;
        args->dtype = (hvd_dtype_t)s->dtype;
        args->op = (hvd_op_t)s->op;
        args->count += s->count;
    }
}

/* --- there --- */

static void load(const struct hvd_request *r, uint8_t *to)
{
    const struct fusion_tensor one = {r->args.sendbuf, r->args.recvbuf,
                                      r->args.count};
    const struct fusion_tensor *tensors = r->n_tensors > 0 ? r->tensors : &one;
    size_t n = r->n_tensors > 0 ? r->n_tensors : 1;

    for (size_t i = 0; i < n; i++) {
        size_t nbytes = tensors[i].count * r->call.elem_nbytes;

        if (nbytes > 0)
            memcpy(to, tensors[i].sendbuf, nbytes);
        to += nbytes;
    }
}

static void load_all(const struct by_name *b)
{
    const struct carrier *c = &b->carrier;
    uint8_t *to = c->buffer;

    for (size_t k = 0; k < c->n; k++) {
        struct negotiated d = negotiator_stretch_call(b->negotiator, k);

        if (!c->carried[k])
            continue;
        load(d.call, to);
        to += d.signature.count * c->elem_nbytes;
    }
}

static bool reserve(struct by_name *b, size_t n_calls)
{
    struct carrier *c = &b->carrier;

    return array_reserve(&c->carried, &c->carried_max, n_calls) &&
           array_reserve(&c->buffer, &c->buffer_max,
                         CARRIED_NBYTES + sizeof(double));
}

hvd_status_t by_name_load_carrier(struct by_name *b, bool ready,
                                  struct collective_args *args_p)
{
    struct carrier *c = &b->carrier;
    struct collective_args args = {.struct_size = sizeof(args),
                                   .kind = COLLECTIVE_ALLREDUCE,
                                   .dtype = HVD_UINT8,
                                   .op = HVD_MAX,
                                   .name = "learned"};

    c->n = negotiator_stretch_n(b->negotiator);
    if (!reserve(b, c->n))
        return by_name_no_memory(b);
    choose(b, &args);
    c->elem_nbytes = hvd_dtype_size(args.dtype);
    c->question_at = args.count++ * c->elem_nbytes;
    memset(c->buffer, 0, c->question_at + c->elem_nbytes);
    if (ready)
        load_all(b);
    else
        reduce_identity(args.dtype, HVD_PRODUCT, c->buffer + c->question_at, 1);
    args.sendbuf = args.recvbuf = c->buffer;
    c->delivered_nbytes = 0;
    c->begun_ns = timeline_call_clock();
    *args_p = args;
    return HVD_OK;
}

/* --- and back --- */

bool by_name_all_are_ready(const struct by_name *b)
{
    const struct carrier *c = &b->carrier;

    for (size_t i = 0; i < c->elem_nbytes; i++)
        if (c->buffer[c->question_at + i] != 0)
            return false;
    return true;
}

bool by_name_is_carried(const struct by_name *b, size_t k)
{
    return k < b->carrier.n && b->carrier.carried[k];
}

static const uint8_t *deliver_one(const struct fusion_tensor *tensor,
                                  size_t elem_nbytes, const uint8_t *from)
{
    size_t nbytes = tensor->count * elem_nbytes;

    if (nbytes > 0)
        memcpy(tensor->recvbuf, from, nbytes);
    return from + nbytes;
}

void by_name_deliver(struct by_name *b, struct hvd_request *r)
{
    struct carrier *c = &b->carrier;
    const uint8_t *from = c->buffer + c->delivered_nbytes;
    const struct fusion_tensor one = {r->args.sendbuf, r->args.recvbuf,
                                      r->args.count};
    const struct fusion_tensor *tensors = r->n_tensors > 0 ? r->tensors : &one;
    size_t n = r->n_tensors > 0 ? r->n_tensors : 1;

    for (size_t i = 0; i < n; i++)
        from = deliver_one(&tensors[i], c->elem_nbytes, from);
    c->delivered_nbytes = (size_t)(from - c->buffer);
}
