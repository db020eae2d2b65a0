/* elastic/wire/curve.c - see curve.h. */
#include "elastic/wire/curve.h"

#include <string.h>
#include <zmq.h>

#include "base/mac.h"

static bool set_key(void *socket, int name, const uint8_t *key)
{
    return zmq_setsockopt(socket, name, key, WIRE_KEY_NBYTES) == 0;
}

void wire_driver_key(const uint8_t *secret, uint8_t *public_key)
{
    uint8_t key[WIRE_KEY_NBYTES];

    wire_token_derive(secret, WIRE_TOKEN_DRIVER, 0, key);
    mac_public_key(key, public_key);
    explicit_bzero(key, sizeof(key));
}

void curve_guest_key(const uint8_t *token, uint8_t *public_key)
{
    uint8_t key[WIRE_KEY_NBYTES];

    wire_token_derive(token, WIRE_TOKEN_GUEST, 0, key);
    mac_public_key(key, public_key);
    explicit_bzero(key, sizeof(key));
}

bool curve_serve(void *socket, const uint8_t *secret)
{
    uint8_t key[WIRE_KEY_NBYTES];
    int yes = 1;
    bool good;

    wire_token_derive(secret, WIRE_TOKEN_DRIVER, 0, key);
    good = zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &yes, sizeof(yes)) == 0 &&
           set_key(socket, ZMQ_CURVE_SECRETKEY, key);
    explicit_bzero(key, sizeof(key));
    return good;
}

bool curve_visit(void *socket, const struct wire_secrets *secrets)
{
    uint8_t key[WIRE_KEY_NBYTES], public_key[WIRE_KEY_NBYTES];
    bool good;

    wire_token_derive(secrets->token, WIRE_TOKEN_GUEST, 0, key);
    mac_public_key(key, public_key);
    good = set_key(socket, ZMQ_CURVE_SERVERKEY, secrets->driver_key) &&
           set_key(socket, ZMQ_CURVE_PUBLICKEY, public_key) &&
           set_key(socket, ZMQ_CURVE_SECRETKEY, key);
    explicit_bzero(key, sizeof(key));
    return good;
}
