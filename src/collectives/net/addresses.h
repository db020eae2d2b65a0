/* collectives/net/addresses.h - where a worker's data plane can be reached: a
 * list of numeric addresses, the preferred one first, all with one port.
 *
 *   10.0.0.1,fd00::1,192.168.7.2
 *
 * It travels as this text (HVD_ADDRESS, HELLO, the table of ASSIGN). Both
 * families may be mixed. Refused is what would not lead everybody to the one
 * worker: no address of a machine (0.0.0.0, ::, multicast), an address whose
 * interface only its own machine knows (link-local, fe80::), one that has
 * another spelling for the other family (::ffff:a.b.c.d), and one said twice.
 *
 * Threads: any. Memory: the caller's. */
#ifndef COLLECTIVES_NET_ADDRESSES_H
#define COLLECTIVES_NET_ADDRESSES_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <hvd/status.h>

#include "base/text.h"

enum { ADDRESSES_MAX = 8 };

struct addresses {
    size_t n;                                     /* at least 1 */
    struct sockaddr_storage items[ADDRESSES_MAX]; /* their port is 0 */
};

/* HVD_ERR_INVALID: the sentence names the culprit. */
hvd_status_t addresses_parse(const char *text,
                             struct addresses *addresses_p) HVD_MUST_CHECK;

/* How many `text` has, at least 1; and the k-th of them, k below that, with a
 * port. *len_p: of *sa_p. false: it is no numeric address. */
size_t addresses_count(const char *text);
bool addresses_item(const char *text, size_t k, uint16_t port,
                    struct sockaddr_storage *sa_p, socklen_t *len_p);

socklen_t address_len(const struct sockaddr_storage *sa);
void address_set_port(struct sockaddr_storage *sa, uint16_t port);
uint16_t address_port(const struct sockaddr_storage *sa);

/* 10.0.0.1 or fd00::1; with a port 10.0.0.1:4711 or [fd00::1]:4711. */
void address_text(struct text *t, const struct sockaddr_storage *sa);
void address_text_port(struct text *t, const struct sockaddr_storage *sa);

/* All of `text`, each with the port: "10.0.0.1:4711 and [fd00::1]:4711". */
void addresses_text(struct text *t, const char *text, uint16_t port);

#endif
