/*
 * net.h - nng, and nothing of nng outside this room.
 *
 * Three things: a server that answers each request once (rpc_server), a client that calls with a
 * deadline (rpc_client), and one-way channels of data frames over byte streams (channel.h).
 * README.md beside this file lists the traps of nng 1.5.2 and where each is met.
 *
 * Addresses are "ipc:///path", "ipc://@name" is refused; "tcp://host:port". A server on tcp takes
 * port 0 for any free one. Listening beyond loopback must be asked for (NET_ANY_HOST).
 */
#ifndef NET_NET_H
#define NET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

#define NET_ADDR_MAX   256
#define NET_CONNECT_MS 2000 /* without a connection for so long, a peer is unreachable */
#define NET_MAX_PEERS  4096 /* connections one listener holds */

enum net_reach { NET_LOOPBACK, NET_ANY_HOST };

/* Is this an address we can use? RC_INVAL with the reason. */
enum rc net_addr_check(const char *addr, enum net_reach reach, struct err *err);

/* The data address that goes with a control address: ipc gets ".data" appended, tcp any free port.
 */
enum rc net_addr_data(const char *addr, char out[NET_ADDR_MAX], struct err *err);

/* Write the port of tcp://host:port; there is room. Other addresses have none. */
void net_addr_set_port(char addr[NET_ADDR_MAX], unsigned port);

/* 64 random bits, never 0. */
uint64_t net_random(void);

#endif
