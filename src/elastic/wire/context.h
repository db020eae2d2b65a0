/* elastic/wire/context.h - what socket.c needs of a context: see socket.h. */
#ifndef ELASTIC_WIRE_CONTEXT_H
#define ELASTIC_WIRE_CONTEXT_H

struct wire_context {
    void *zmq;
};

#endif
