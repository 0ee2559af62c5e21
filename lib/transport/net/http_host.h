/*
 * http_host.h - check that a request is meant for this server. A page of another site can point its own
 * name to this address (DNS rebinding), but a browser always sends the name that it used.
 */
#ifndef NET_HTTP_HOST_H
#define NET_HTTP_HOST_H

#include "net/net.h"

/*
 * http_host_allowed - check the value of the Host header.
 *
 *	bound	"host:port" that the server listens at
 *	reach	NET_ANY_HOST: reachable by any address of this machine
 *	names	more hosts, with commas between them, or NULL
 *
 * Allowed are loopback addresses, localhost, the bound host and the names; for a server that is reachable
 * from other hosts also all numeric addresses, to which no name can be rebound, and this machine's name.
 * The port does not matter: it may be forwarded. No header (NULL), as in HTTP/1.0, is allowed: browsers
 * always send one.
 */
bool http_host_allowed(const char *value, const char *bound, enum net_reach reach,
		       const char *names);

#endif
