/* elastic/wire/gate.c - who may connect to the driver's sockets: libzmq asks
 * here about each key that has shaken hands (ZAP, rfc.zeromq.org/spec/27), and
 * drops the connection of one that is not known, for good: libzmq's other end
 * does not dial again. Who has not got the driver's public key does not come
 * that far.
 *
 * A thread of its own answers, so that whoever knocks costs the driver's loop
 * nothing. It ends by a word on a socket pair.
 *
 * Threads: `lock` is about the guests and who was refused; the thread alone
 * uses `zap`, which is handed over by starting it. Memory: the guests, and the
 * gate. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/array.h"
#include "base/error.h"
#include "base/thread.h"
#include "elastic/wire/context.h"
#include "elastic/wire/curve.h"

struct guest {
    uint8_t key[WIRE_KEY_NBYTES];
    uint64_t agent, worker; /* 0: the agent itself */
};

struct wire_gate {
    uint8_t secret[WIRE_TOKEN_NBYTES]; /* the driver's */
    pthread_mutex_t lock;
    struct guest *guests; /* [n] sorted by key */
    size_t n, max;
    bool open;
    char refused[WIRE_ADDRESS_MAX]; /* who was last; "": nobody */
    void *zap, *stop; /* the thread's end of the pair is `stopped` */
    void *stopped;
    pthread_t thread;
    bool started;
};

/* ---- guests: under the lock ----------------------------------------------
 */

static size_t lower_bound(const struct wire_gate *gate, const uint8_t *key)
{
    size_t low = 0, high = gate->n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (memcmp(gate->guests[mid].key, key, WIRE_KEY_NBYTES) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Public keys: nothing is learned from how long a comparison takes. */
static bool is_guest(const struct wire_gate *gate, const uint8_t *key)
{
    size_t i = lower_bound(gate, key);

    return i < gate->n &&
           memcmp(gate->guests[i].key, key, WIRE_KEY_NBYTES) == 0;
}

static bool add(struct wire_gate *gate, const struct guest *guest)
{
    size_t i = lower_bound(gate, guest->key);

    if (is_guest(gate, guest->key))
        return true;
    if (!array_reserve(&gate->guests, &gate->max, gate->n + 1))
        return false;
    memmove(gate->guests + i + 1, gate->guests + i,
            (gate->n - i) * sizeof(*guest));
    gate->guests[i] = *guest;
    gate->n++;
    return true;
}

bool wire_gate_allow(struct wire_gate *gate, uint64_t agent, uint64_t worker,
                     const uint8_t *token)
{
    struct guest guest = {.agent = agent, .worker = worker};
    bool added;

    curve_guest_key(token, guest.key);
    pthread_mutex_lock(&gate->lock);
    added = add(gate, &guest);
    pthread_mutex_unlock(&gate->lock);
    return added;
}

void wire_gate_forbid(struct wire_gate *gate, uint64_t agent, uint64_t worker)
{
    size_t n = 0;

    pthread_mutex_lock(&gate->lock);
    for (size_t i = 0; i < gate->n; i++) {
        const struct guest *guest = &gate->guests[i];

        if (guest->agent != agent || (worker != 0 && guest->worker != worker))
            gate->guests[n++] = *guest;
    }
    gate->n = n;
    pthread_mutex_unlock(&gate->lock);
}

void wire_gate_open(struct wire_gate *gate, bool open)
{
    pthread_mutex_lock(&gate->lock);
    gate->open = open;
    pthread_mutex_unlock(&gate->lock);
}

bool wire_gate_refused(struct wire_gate *gate, char *address)
{
    bool any;

    pthread_mutex_lock(&gate->lock);
    any = gate->refused[0] != '\0';
    memcpy(address, gate->refused, sizeof(gate->refused));
    gate->refused[0] = '\0';
    pthread_mutex_unlock(&gate->lock);
    return any;
}

const uint8_t *wire_gate_secret(const struct wire_gate *gate)
{
    return gate->secret;
}

/* ---- requests: the thread ------------------------------------------------
 */

enum {
    FRAME_VERSION,
    FRAME_REQUEST,
    FRAME_DOMAIN,
    FRAME_ADDRESS,
    FRAME_IDENTITY,
    FRAME_MECHANISM,
    FRAME_KEY,
    N_FRAMES
};
enum { FRAME_NBYTES = 255 };

struct request {
    uint8_t frames[N_FRAMES][FRAME_NBYTES + 1];
    int nbytes[N_FRAMES]; /* what there was of each */
    bool whole;           /* as many as there should be, none too long */
};

static bool has_more(void *socket)
{
    int more = 0;
    size_t nbytes = sizeof(more);

    return zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &nbytes) == 0 && more;
}

/* false: there is none, or the context ends. */
static bool receive(void *socket, struct request *r)
{
    uint8_t beyond[1];
    int n = 0;

    r->whole = true;
    do {
        int nbytes = n < N_FRAMES ? zmq_recv(socket, r->frames[n], FRAME_NBYTES,
                                             ZMQ_DONTWAIT)
                                  : zmq_recv(socket, beyond, 0, ZMQ_DONTWAIT);

        if (nbytes < 0)
            return false;
        r->whole &= n < N_FRAMES && nbytes <= FRAME_NBYTES;
        if (n < N_FRAMES) {
            r->nbytes[n] = nbytes > FRAME_NBYTES ? FRAME_NBYTES : nbytes;
            r->frames[n][r->nbytes[n]] = 0;
        }
        n++;
    } while (has_more(socket));
    r->whole &= n == N_FRAMES;
    for (; n < N_FRAMES; n++)
        r->nbytes[n] = 0;
    return true;
}

static bool says(const struct request *r, int frame, const char *text)
{
    return r->nbytes[frame] == (int)strlen(text) &&
           memcmp(r->frames[frame], text, strlen(text)) == 0;
}

static bool has_key(const struct request *r)
{
    return r->whole && says(r, FRAME_VERSION, "1.0") &&
           says(r, FRAME_MECHANISM, "CURVE") &&
           r->nbytes[FRAME_KEY] == WIRE_KEY_NBYTES;
}

static bool may_enter(struct wire_gate *gate, const struct request *r)
{
    bool may = has_key(r);

    pthread_mutex_lock(&gate->lock);
    may = may && (gate->open || is_guest(gate, r->frames[FRAME_KEY]));
    if (!may)
        snprintf(gate->refused, sizeof(gate->refused), "%.*s",
                 (int)sizeof(gate->refused) - 1,
                 r->nbytes[FRAME_ADDRESS] > 0
                     ? (const char *)r->frames[FRAME_ADDRESS]
                     : "somewhere");
    pthread_mutex_unlock(&gate->lock);
    return may;
}

static void answer(void *socket, const struct request *r, bool may)
{
    const char *const words[] = {may ? "200" : "400", may ? "OK" : "unknown",
                                 ""};

    zmq_send(socket, "1.0", 3, ZMQ_SNDMORE);
    zmq_send(socket, r->frames[FRAME_REQUEST], (size_t)r->nbytes[FRAME_REQUEST],
             ZMQ_SNDMORE);
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        zmq_send(socket, words[i], strlen(words[i]), ZMQ_SNDMORE);
    zmq_send(socket, "", 0, 0); /* metadata: none */
}

static void serve(struct wire_gate *gate)
{
    struct request r;

    while (receive(gate->zap, &r))
        answer(gate->zap, &r, may_enter(gate, &r));
}

static void *gate_main(void *arg)
{
    struct wire_gate *gate = arg;
    zmq_pollitem_t items[] = {{gate->zap, 0, ZMQ_POLLIN, 0},
                              {gate->stopped, 0, ZMQ_POLLIN, 0}};

    while (!(items[1].revents & ZMQ_POLLIN)) {
        if (zmq_poll(items, (int)ARRAY_SIZE(items), -1) < 0 && errno != EINTR)
            break;
        serve(gate);
    }
    return NULL;
}

/* ---- its life ------------------------------------------------------------
 */

static void *open_socket(struct wire_context *context, int type)
{
    void *socket = zmq_socket(context->zmq, type);
    int none = 0;

    if (socket)
        zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof(none));
    return socket;
}

/* The name is libzmq's: it asks there. */
static hvd_status_t open_sockets(struct wire_gate *gate,
                                 struct wire_context *context)
{
    static const char pair[] = "inproc://hvd-gate";

    gate->zap = open_socket(context, ZMQ_REP);
    gate->stop = open_socket(context, ZMQ_PAIR);
    gate->stopped = open_socket(context, ZMQ_PAIR);
    if (!gate->zap || !gate->stop || !gate->stopped ||
        zmq_bind(gate->zap, "inproc://zeromq.zap.01") != 0 ||
        zmq_bind(gate->stop, pair) != 0 ||
        zmq_connect(gate->stopped, pair) != 0)
        return error_errno("the socket that admits peers");
    return HVD_OK;
}

hvd_status_t wire_gate_create(struct wire_context *context,
                              const uint8_t *secret, struct wire_gate **gate_p)
{
    struct wire_gate *gate = calloc(1, sizeof(*gate));
    hvd_status_t status;

    if (!gate)
        return error_set(HVD_ERR_NOMEM, "no memory for the gate");
    memcpy(gate->secret, secret, sizeof(gate->secret));
    pthread_mutex_init(&gate->lock, NULL);
    HVD_TRY_GOTO(open_sockets(gate, context), destroy);
    errno = thread_start(&gate->thread, "hvd-gate", gate_main, gate);
    if (errno != 0) {
        status = error_errno("pthread_create");
        goto destroy;
    }
    gate->started = true;
    *gate_p = gate;
    return HVD_OK;

destroy:
    wire_gate_destroy(gate);
    return status;
}

void wire_gate_destroy(struct wire_gate *gate)
{
    void *sockets[] = {NULL, NULL, NULL};

    if (!gate)
        return;
    if (gate->started) {
        zmq_send(gate->stop, "", 0, 0);
        pthread_join(gate->thread, NULL);
    }
    sockets[0] = gate->zap;
    sockets[1] = gate->stop;
    sockets[2] = gate->stopped;
    for (size_t i = 0; i < ARRAY_SIZE(sockets); i++)
        if (sockets[i])
            zmq_close(sockets[i]);
    pthread_mutex_destroy(&gate->lock);
    free(gate->guests);
    explicit_bzero(gate->secret, sizeof(gate->secret));
    free(gate);
}
