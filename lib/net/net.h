/*
 * net.h - nng, and nothing of nng outside this room.
 *
 * Three things: a server that answers each request once (rpc_server), a client that calls with a
 * deadline (rpc_client), and one-way connections of data frames over byte streams (connection.h).
 * README.md beside this file lists the traps of nng 1.5.2 and where each is met.
 *
 * Addresses are "ipc:///path", "ipc://@name" is refused; "tcp://host:port", "tls+tcp://host:port".
 * A server on the latter two takes port 0 for any free one. Listening beyond loopback must be asked
 * for (NET_ANY_HOST), but on tls+tcp, where both ends show certificates.
 */
#ifndef NET_NET_H
#define NET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "net/times.h"

#define NET_ADDR_MAX  256
#define NET_MAX_PEERS 4096 /* connections one listener holds */

enum net_reach { NET_LOOPBACK, NET_ANY_HOST };

/* The files in PEM that tls+tcp wants, and the authority that signed the certificates of all. */
struct net_tls_files {
	const char *cert, *key, *ca;
};

/* Name them, before any address of tls+tcp is used. The strings are borrowed for ever. For each that is
 * NULL the environment is asked: GPUSIM_TLS_CERT, GPUSIM_TLS_KEY, GPUSIM_TLS_CA. */
void net_tls_use(const struct net_tls_files *files);

/* Is this an address that we can use? RC_INVAL with the reason. RC_BADDATA: of tls+tcp, with bad files
 * (net/tls.h). */
enum rc net_addr_check(const char *addr, enum net_reach reach, struct err *err);

/* "host:port" of an address of tcp or tls+tcp; NULL: another. */
const char *net_addr_host(const char *addr);

/* The data address for a control address: ipc gets ".data" appended, others any free port. */
enum rc net_addr_data(const char *addr, char out[NET_ADDR_MAX], struct err *err);

/*
 * net_addr_own - put this host's own address, as the peer sees it, in place of the host *.
 *
 *	addr	of tcp or tls+tcp with the host *; another is left as it is
 *	peer	a good address (net_addr_check); of ipc: loopback it is
 *
 * A name in peer is looked up, for as long as the system's resolver takes. Errors: RC_UNREACHABLE there
 * is no such name, or no route; RC_INVAL too long.
 */
enum rc net_addr_own(char addr[NET_ADDR_MAX], const char *peer, struct err *err);

/* Whether a process listens at an address: it may be frozen. Takes a moment at most. */
bool net_listens(const char *addr);

/* Write the port, for which there is room, of an address that has one. */
void net_addr_set_port(char addr[NET_ADDR_MAX], unsigned port);

/* 64 random bits, never 0. */
uint64_t net_random(void);

#endif
