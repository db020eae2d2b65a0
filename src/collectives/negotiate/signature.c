/* collectives/negotiate/signature.c - see signature.h. Pure. */
#include "collectives/negotiate/signature.h"

#include <string.h>
#include <xxhash.h>

#include "base/bytes.h"

bool name_id_equal(const struct name_id *a, const struct name_id *b)
{
    return a->low == b->low && a->high == b->high;
}

static uint64_t bits_of(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static double of_bits(uint64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

bool signature_scales_equal(const struct signature *a,
                            const struct signature *b)
{
    return bits_of(a->prescale) == bits_of(b->prescale) &&
           bits_of(a->postscale) == bits_of(b->postscale);
}

bool signature_equal(const struct signature *a, const struct signature *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->op == b->op &&
           a->way == b->way && a->root == b->root && a->digest == b->digest &&
           a->count == b->count && a->match == b->match &&
           signature_scales_equal(a, b);
}

uint64_t signature_match_of(const char *text)
{
    size_t n = text != NULL ? strlen(text) : 0;

    return n > 0 ? XXH3_64bits(text, n) | 1 : 0;
}

void negotiate_record_encode(const struct negotiate_record *record,
                             uint8_t *out)
{
    const struct signature *s = &record->signature;

    bytes_put(out, record->name.low, 8);
    bytes_put(out + 8, record->name.high, 8);
    out[16] = s->kind;
    out[17] = s->dtype;
    out[18] = s->op;
    out[19] = s->way;
    bytes_put(out + 20, (uint32_t)s->root, 4);
    bytes_put(out + 24, s->digest, 8);
    bytes_put(out + 32, s->count, 8);
    bytes_put(out + 40, bits_of(s->prescale), 8);
    bytes_put(out + 48, bits_of(s->postscale), 8);
    bytes_put(out + 56, s->match, 8);
}

void negotiate_record_decode(const uint8_t *in, struct negotiate_record *r_p)
{
    r_p->name.low = bytes_get(in, 8);
    r_p->name.high = bytes_get(in + 8, 8);
    r_p->signature = (struct signature){
        .kind = in[16],
        .dtype = in[17],
        .op = in[18],
        .way = in[19],
        .root = (int32_t)bytes_get(in + 20, 4),
        .digest = (uint32_t)bytes_get(in + 24, 8),
        .count = bytes_get(in + 32, 8),
        .prescale = of_bits(bytes_get(in + 40, 8)),
        .postscale = of_bits(bytes_get(in + 48, 8)),
        .match = bytes_get(in + 56, 8),
    };
}
