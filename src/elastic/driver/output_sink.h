/* elastic/driver/output_sink.h - one of our own streams: a buffer in front of a
 * descriptor that may be slow. Part of output.c. Threads: the driver's loop. */
#ifndef ELASTIC_DRIVER_OUTPUT_SINK_H
#define ELASTIC_DRIVER_OUTPUT_SINK_H

#include "elastic/driver/output.h"

/* Append bytes [n]; what is put ends with a whole line in the end. Drops the
 * oldest lines rather than grow above OUTPUT_KEEP_MAX. */
void output_sink_put(struct output_sink *s, const char *bytes, size_t n);

/* Write what can be written without waiting. */
void output_sink_flush(struct output_sink *s);

/* Make room for n more bytes; between lines only. */
void output_sink_make_room(struct output_sink *s, size_t n);

#endif
