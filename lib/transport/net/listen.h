/*
 * listen.h - a listening TCP socket, for servers without nng.
 */
#ifndef NET_LISTEN_H
#define NET_LISTEN_H

#include "net/net.h"

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
