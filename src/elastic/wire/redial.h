/* elastic/wire/redial.h - when who hears nothing of the driver tries the next
 * of its addresses. Pure; see docs/protocol.md, "Which network". */
#ifndef ELASTIC_WIRE_REDIAL_H
#define ELASTIC_WIRE_REDIAL_H

#include <stddef.h>
#include <stdint.h>

enum {
    REDIAL_US = 600000, /* for an answer: some round trips, or a lost SYN */
    REDIAL_DOUBLES = 3  /* at most, a round each: a driver that is stopped is
                           not to find thousands of connections */
};

/* How long the try number n_tried, from 0, of n_addresses that are tried in
 * turn, may take; one of the first round first_us, REDIAL_US at most. */
static inline uint64_t redial_pause(uint64_t first_us, size_t n_tried,
                                    size_t n_addresses)
{
    size_t n_rounds = n_tried / n_addresses;

    return (first_us < REDIAL_US ? first_us : REDIAL_US)
           << (n_rounds < REDIAL_DOUBLES ? n_rounds : REDIAL_DOUBLES);
}

#endif
