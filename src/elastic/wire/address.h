/* elastic/wire/address.h - where control sockets may be: on loopback, as what
 * workers send each other is not encrypted yet. Pure text. */
#ifndef ELASTIC_WIRE_ADDRESS_H
#define ELASTIC_WIRE_ADDRESS_H

enum { ADDRESS_ENDPOINT_MAX = 64 }; /* "tcp://[::1]:4711", with its NUL */

/* AF_INET or AF_INET6; -1: not loopback, or not numeric. */
int address_family(const char *address);

/* The same of an endpoint's address; -1 also: not of that form, or longer. */
int address_endpoint_family(const char *endpoint);

#endif
