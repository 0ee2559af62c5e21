/*
 * http_host.h - is a request meant for us? A page of another site can have its own name point to this address (DNS
 * rebinding), but a browser always says which name it was told.
 */
#ifndef NET_HTTP_HOST_H
#define NET_HTTP_HOST_H

#include "net/net.h"

/*
 * http_host_allowed - may the header Host have this value?
 *
 *	bound	"host:port" that the server listens at
 *	reach	NET_ANY_HOST: it is reached by any address of this machine
 *	names	more hosts, with commas between them, or NULL
 *
 * Allowed are loopback addresses, localhost, the bound host and the names; of a server that is reached from other hosts
 * all numeric addresses too, which no name can be rebound to, and this machine's name. The port does not count: it may
 * be forwarded. No header (NULL), of HTTP/1.0, is allowed: no browser sends such a request.
 */
bool http_host_allowed(const char *value, const char *bound, enum net_reach reach,
		       const char *names);

#endif
