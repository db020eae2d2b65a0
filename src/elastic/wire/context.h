/* elastic/wire/context.h - what socket.c needs of a context: see socket.h. */
#ifndef ELASTIC_WIRE_CONTEXT_H
#define ELASTIC_WIRE_CONTEXT_H

#include <stdatomic.h>
#include <stdint.h>

struct wire_context {
    void *zmq;
    _Atomic uint64_t n_dialled; /* by this process: the newest has the highest
                                   number */
};

#endif
