/*
 * net.h - the interface to nng, which only this room uses.
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

/* The PEM files for tls+tcp: certificate, key, and the authority of all certificates. */
struct net_tls_files {
	const char *cert, *key, *ca;
};

/* Set them before any address of tls+tcp is used; the strings must stay valid. For NULL the environment
 * is used: GPUSIM_TLS_CERT, GPUSIM_TLS_KEY, GPUSIM_TLS_CA. */
void net_tls_use(const struct net_tls_files *files);

/* Check an address. RC_INVAL with the reason. RC_BADDATA: of tls+tcp, with bad files
 * (net/tls.h). */
enum rc net_addr_check(const char *addr, enum net_reach reach, struct err *err);

/* "host:port" of an address of tcp or tls+tcp; NULL: another kind. */
const char *net_addr_host(const char *addr);

/* The data address for a control address: ipc gets ".data" appended, others port 0. */
enum rc net_addr_data(const char *addr, char out[NET_ADDR_MAX], struct err *err);

/*
 * net_addr_own - put this host's own address, as the peer sees it, in place of the host *.
 *
 *	addr	of tcp or tls+tcp with the host *; another is left as it is
 *	peer	a valid address (net_addr_check); for ipc, loopback is used
 *
 * A name in peer is resolved, which may block. Errors: RC_UNREACHABLE there
 * is no such name, or no route; RC_INVAL too long.
 */
enum rc net_addr_own(char addr[NET_ADDR_MAX], const char *peer, struct err *err);

/* A process listens at an address; it may be frozen. Fast. */
bool net_listens(const char *addr);

/* Set the port of an address that has one; there must be room. */
void net_addr_set_port(char addr[NET_ADDR_MAX], unsigned port);

/* 64 random bits, never 0. */
uint64_t net_random(void);

/* ---- a listening TCP socket, for servers without nng */

/*
 * net_listen - listen on "host:port", or "port" of loopback; port 0: any free one.
 *
 *	fd	[out] non-blocking; owned by the caller
 *	addr	[out] "host:port", with the real port
 *
 * Beyond loopback only with NET_ANY_HOST. Errors: RC_INVAL, RC_BUSY the address is taken, RC_FAILED.
 */
enum rc net_listen(const char *host, enum net_reach reach, int backlog, int *fd,
		   char addr[NET_ADDR_MAX], struct err *err);

#endif
