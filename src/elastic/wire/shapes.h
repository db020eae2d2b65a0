/* elastic/wire/shapes.h - what each message looks like on the wire: one row per
 * field (fields.h). The codec and the tests walk these tables; nothing else
 * knows a field number.
 *
 * Threads, memory: constant tables. Pure. */
#ifndef ELASTIC_WIRE_SHAPES_H
#define ELASTIC_WIRE_SHAPES_H

#include "elastic/wire/fields.h"
#include "elastic/wire/message.h"

/* job, term, generation, worker */
extern const struct shape shape_envelope;

/* NULL for an unknown type. */
const struct shape *shape_of(uint64_t type);

#endif
