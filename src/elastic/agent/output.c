/* elastic/agent/output.c - lines kept until the driver takes them. See
 * output.h.
 *
 * A queue is one buffer: [head, sent) is on its way to the driver,
 * [sent, tail - n_partial) holds whole lines, the rest is the line that is
 * still being written. The bytes move down when more than half of the buffer is
 * free in front. A queue that drops lines also forgets the bytes on their way
 * before them: it cannot send those again.
 *
 * Threads: none. Memory: one buffer per queue, given back when it runs empty.
 */
#include "elastic/agent/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum { KEEP_BUFFER = 64 << 10 }; /* an empty queue keeps no more than this */

static struct output_queue *queue_of(struct output *output, unsigned stream)
{
    HVD_ASSERT(stream >= 1 && stream <= OUTPUT_STREAMS);
    return &output->queues[stream - 1];
}

static size_t n_whole(const struct output_queue *q)
{
    return q->tail - q->sent - q->n_partial;
}

void output_init(struct output *output, uint64_t worker, size_t keep_max)
{
    memset(output, 0, sizeof(*output));
    output->worker = worker;
    output->keep_max = keep_max;
}

void output_fini(struct output *output)
{
    for (size_t i = 0; i < OUTPUT_STREAMS; i++)
        free(output->queues[i].bytes);
    memset(output, 0, sizeof(*output));
}

size_t output_room(const struct output *output)
{
    size_t n = 0;

    for (size_t i = 0; i < OUTPUT_STREAMS; i++)
        n += output->queues[i].tail - output->queues[i].head;
    return n < output->keep_max ? output->keep_max - n : 0;
}

/* ---- in ------------------------------------------------------------------ */

static bool append(struct output_queue *q, const char *data, size_t nbytes)
{
    if (q->head > q->bytes_max / 2) {
        memmove(q->bytes, q->bytes + q->head, q->tail - q->head);
        q->tail -= q->head;
        q->sent -= q->head;
        q->head = 0;
    }
    if (!array_reserve(&q->bytes, &q->bytes_max, q->tail + nbytes))
        return false;
    memcpy(q->bytes + q->tail, data, nbytes);
    q->tail += nbytes;
    return true;
}

static bool ends_line(char c)
{
    return c == '\n' || c == '\r';
}

static bool ends_in_cr(const struct output_queue *q)
{
    return q->n_partial > 0 && q->bytes[q->tail - 1] == '\r';
}

/* How many of data [nbytes] belong to the line being written. One more than its
 * room if it stands at a \r: the \n may follow. */
static size_t piece(const struct output_queue *q, const char *data,
                    size_t nbytes)
{
    size_t room = OUTPUT_LINE_MAX - q->n_partial + (ends_in_cr(q) ? 1 : 0);
    size_t n = nbytes < room ? nbytes : room;

    for (size_t i = 0; i < n; i++)
        if (data[i] == '\n' || data[i] == '\r')
            return i + 1;
    return n;
}

static bool feed_piece(struct output_queue *q, const char *data, size_t *n_p)
{
    size_t n;

    if (ends_in_cr(q) && *data != '\n')
        q->n_partial = 0;
    n = piece(q, data, *n_p);
    HVD_ASSERT(n > 0);
    if (!append(q, data, n))
        return false;
    *n_p = n;
    q->n_partial += n;
    if (data[n - 1] == '\n') {
        q->n_partial = 0;
    } else if (data[n - 1] != '\r' && q->n_partial >= OUTPUT_LINE_MAX) {
        q->n_partial = 1; /* output_settle() looks at it */
    }
    return true;
}

/* Length of the first line that waits, or of a part of it if it is long; there
 * is one. */
static size_t first_line(const struct output_queue *q)
{
    const char *bytes = q->bytes + q->sent;
    size_t n = n_whole(q);

    if (n > OUTPUT_LINE_MAX)
        n = OUTPUT_LINE_MAX;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n')
            return i + 1;
        if (bytes[i] == '\r' && (i + 1 == n || bytes[i + 1] != '\n'))
            return i + 1;
    }
    return n;
}

/* The n bytes at the head are not kept any more. */
static void forget(struct output_queue *q, size_t n)
{
    q->at += n;
    q->head += n;
    if (q->head < q->tail)
        return;
    q->head = q->sent = q->tail = 0;
    if (q->bytes_max > KEEP_BUFFER) {
        free(q->bytes);
        q->bytes = NULL;
        q->bytes_max = 0;
    }
}

/* The queue forgets all bytes that it has sent. Those that are fed next get
 * numbers behind them. */
static void keep_unsent(struct output_queue *q)
{
    forget(q, (size_t)(q->told - q->at));
    q->sent = q->head;
}

static void drop_excess(struct output *output)
{
    struct output_queue *a = &output->queues[0], *b = &output->queues[1];

    while (n_whole(a) + n_whole(b) > output->keep_max) {
        struct output_queue *q = n_whole(a) >= n_whole(b) ? a : b;

        keep_unsent(q);
        if (n_whole(q) > 0)
            q->head += first_line(q);
        q->sent = q->head;
        q->n_dropped++;
    }
}

bool output_feed(struct output *output, unsigned stream, const char *data,
                 size_t nbytes)
{
    struct output_queue *q = queue_of(output, stream);

    HVD_ASSERT(!q->ended);
    q->quiet = q->settled = false;
    while (nbytes > 0) {
        size_t n = nbytes;

        if (!feed_piece(q, data, &n)) {
            q->n_dropped++;
            return false;
        }
        data += n;
        nbytes -= n;
        drop_excess(output);
    }
    return true;
}

void output_end(struct output *output, unsigned stream)
{
    struct output_queue *q = queue_of(output, stream);

    q->ended = true;
    q->n_partial = 0;
}

static void settle(struct output_queue *q)
{
    if (ends_in_cr(q)) {
        q->n_partial = 0;
    } else if (q->n_partial > 0 && q->quiet) {
        q->n_partial = 0;
        q->settled = true;
    }
    q->quiet = true;
}

void output_settle(struct output *output)
{
    for (size_t i = 0; i < OUTPUT_STREAMS; i++)
        settle(&output->queues[i]);
}

/* ---- out ----------------------------------------------------------------- */

/* The longest run of whole lines that wait within `max` bytes, or as much of a
 * long line. 0: that waits for more credit. */
static size_t lines_within(const struct output_queue *q, size_t max)
{
    const char *bytes;
    size_t n = n_whole(q);

    if (n <= max)
        return n;
    bytes = q->bytes + q->sent;
    for (n = max; n > 0; n--)
        if (bytes[n - 1] == '\n' || (bytes[n - 1] == '\r' && bytes[n] != '\n'))
            return n;
    return max >= OUTPUT_LINE_MAX ? max : 0;
}

static size_t make_marker(struct output_queue *q)
{
    int n = snprintf(q->marker, sizeof(q->marker),
                     "%s[hvd-agent: %" PRIu64 " lines dropped: the driver does "
                     "not read fast enough]\n",
                     q->mid_line ? "...\n" : "", q->n_dropped);

    HVD_ASSERT(n > 0 && (size_t)n < sizeof(q->marker));
    return (size_t)n;
}

bool output_next(struct output *output, unsigned stream, uint64_t credit,
                 struct msg_output *m)
{
    struct output_queue *q = queue_of(output, stream);
    size_t max = credit < WIRE_OUTPUT_MAX ? (size_t)credit : WIRE_OUTPUT_MAX;
    size_t n;

    memset(m, 0, sizeof(*m));
    m->worker = output->worker;
    m->stream = (uint8_t)stream;
    if (q->n_dropped > 0)
        keep_unsent(q); /* a marker comes once, in its place */
    m->at = q->at + (q->sent - q->head);
    m->first = q->sent == q->head;
    if (q->n_dropped > 0) {
        n = make_marker(q);
        m->bytes.data = (const uint8_t *)q->marker;
        m->bytes.nbytes = (uint32_t)n;
        return n <= max;
    }
    n = lines_within(q, max);
    m->eof = q->ended && !q->eof_sent && n == n_whole(q);
    m->settled = q->settled && n == n_whole(q);
    if (n == 0)
        return m->eof;
    m->bytes.data = (const uint8_t *)q->bytes + q->sent;
    m->bytes.nbytes = (uint32_t)n;
    return true;
}

void output_sent(struct output *output, const struct msg_output *m)
{
    struct output_queue *q = queue_of(output, m->stream);

    if (m->bytes.data == (const uint8_t *)q->marker) {
        q->told = q->at += m->bytes.nbytes;
        q->n_dropped = 0;
        q->mid_line = false;
        return;
    }
    if (m->bytes.nbytes > 0)
        q->mid_line = !ends_line((char)m->bytes.data[m->bytes.nbytes - 1]);
    q->eof_sent |= m->eof;
    q->sent += m->bytes.nbytes;
    HVD_ASSERT(q->sent <= q->tail);
    if (q->told < m->at + m->bytes.nbytes)
        q->told = m->at + m->bytes.nbytes;
}

void output_taken(struct output *output, const struct msg_credit *m)
{
    struct output_queue *q;
    size_t n;

    if (m->stream < 1 || m->stream > OUTPUT_STREAMS)
        return;
    q = queue_of(output, m->stream);
    n = q->sent - q->head;
    if (m->taken > q->at)
        forget(q, m->taken - q->at < n ? m->taken - q->at : n);
    q->eof_taken |= m->eof && q->eof_sent;
}

void output_rewind(struct output *output)
{
    for (size_t i = 0; i < OUTPUT_STREAMS; i++) {
        struct output_queue *q = &output->queues[i];

        q->sent = q->head;
        q->eof_sent = q->eof_taken;
    }
}

bool output_waits(const struct output *output)
{
    return output->queues[0].sent < output->queues[0].tail ||
           output->queues[1].sent < output->queues[1].tail;
}

unsigned output_open(const struct output *output)
{
    unsigned open = 0;

    for (unsigned i = 0; i < OUTPUT_STREAMS; i++)
        open |= output->queues[i].eof_taken ? 0 : 1u << i;
    return open;
}

bool output_finished(const struct output *output)
{
    return output_open(output) == 0;
}
