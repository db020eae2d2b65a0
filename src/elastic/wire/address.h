/* elastic/wire/address.h - where control sockets may be: at numeric addresses
 * of one machine. Pure text. */
#ifndef ELASTIC_WIRE_ADDRESS_H
#define ELASTIC_WIRE_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

enum { ADDRESS_ENDPOINT_MAX = 64 }; /* "tcp://[::1]:4711", with its NUL */

/* AF_INET or AF_INET6; -1: not numeric, or nobody's alone: any, a group's, or
 * one that needs an interface to be reached through. */
int address_family(const char *address);

/* "tcp://[::1]:4711" -> "::1" in address [ADDRESS_ENDPOINT_MAX]; false: not of
 * that form, or longer. */
bool address_of_endpoint(const char *endpoint, char *address);

/* The same of an endpoint's address; -1 also: not of that form, or longer. */
int address_endpoint_family(const char *endpoint);

/* Its address is this machine's own in any case: no network lies between. */
bool address_endpoint_is_loopback(const char *endpoint);

/* The next of a list with commas, in endpoint [ADDRESS_ENDPOINT_MAX], behind
 * which *list_p is then. false: there is none, or it is too long. */
bool address_take(const char **list_p, char *endpoint);

/* "40000-40100": two ports, of which the first is not above the other. false:
 * not of that form. */
bool address_ports(const char *text, uint16_t *low_p, uint16_t *high_p);

#endif
