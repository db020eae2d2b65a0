/* collectives/negotiate/signature.h - what a call by name is about: what has to
 * be the same on all ranks that use its name, and as bytes for them.
 *
 * Pure. Threads: any. Memory: the caller's. */
#ifndef COLLECTIVES_NEGOTIATE_SIGNATURE_H
#define COLLECTIVES_NEGOTIATE_SIGNATURE_H

#include <stdbool.h>
#include <stdint.h>

#include <hvd/collectives.h>

/* A name, by a digest of 128 bits: names themselves are told to nobody. */
struct name_id {
    uint64_t low, high;
};

/* In `way`: a mean over all ranks, also those without data; dtype is that of
 * the wire, the buffers have another; the ranks exchange their counts; buffers
 * are on a device. */
enum {
    SIGNATURE_OF_ALL = 1,
    SIGNATURE_COMPRESSED = 2,
    SIGNATURE_ON_DEVICE = 4,
    SIGNATURE_RAGGED = 8
};

struct signature {
    uint8_t kind; /* enum collective_kind */
    uint8_t dtype, op;
    uint8_t way;     /* SIGNATURE_... */
    int32_t root;    /* as in the header of its frames (call.h) */
    uint32_t digest; /* of the counts of a group's tensors, or of the ranks' of
                        an allgatherv; else 0 */
    uint64_t count;  /* as in the header of its frames */
    double prescale, postscale; /* 1: none */
    uint64_t match; /* digest of a text that must be equal; 0: none */
};

struct negotiate_record {
    struct name_id name;
    struct signature signature;
};

enum { NEGOTIATE_RECORD_NBYTES = 64 };

bool name_id_equal(const struct name_id *a, const struct name_id *b);

/* The digest of a text; NULL or "": 0. */
uint64_t signature_match_of(const char *text);
bool signature_equal(const struct signature *a, const struct signature *b);
bool signature_scales_equal(const struct signature *a,
                            const struct signature *b);

/* out [NEGOTIATE_RECORD_NBYTES] */
void negotiate_record_encode(const struct negotiate_record *record,
                             uint8_t *out);
void negotiate_record_decode(const uint8_t *in, struct negotiate_record *r_p);

#endif
