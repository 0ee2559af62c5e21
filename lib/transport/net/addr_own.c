/* The address of this host that another host sees. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/net.h"

/* The host and port of peer, apart; an IPv6 host without its brackets. */
static void
split(const char *peer, char host[NET_ADDR_MAX], char port[8])
{
	const char *text = net_addr_host(peer), *colon = strrchr(text, ':');
	size_t n = (size_t)(colon - text);

	if (*text == '[' && n >= 2)
		snprintf(host, NET_ADDR_MAX, "%.*s", (int)n - 2, text + 1);
	else
		snprintf(host, NET_ADDR_MAX, "%.*s", (int)n, text);
	snprintf(port, 8, "%.7s", colon + 1);
}

/* The address that packets to `to` leave from. A datagram socket that is connected says so, and
 * sends nothing. */
static bool
source_of(const struct addrinfo *to, char out[NET_ADDR_MAX])
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof sa;
	int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char text[INET6_ADDRSTRLEN];
	bool v6 = to->ai_family == AF_INET6, good;

	good = fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
	       getsockname(fd, (struct sockaddr *)&sa, &len) == 0 &&
	       inet_ntop(to->ai_family,
			 v6 ? (void *)&((struct sockaddr_in6 *)&sa)->sin6_addr
			    : (void *)&((struct sockaddr_in *)&sa)->sin_addr,
			 text, sizeof text);
	if (fd >= 0)
		close(fd);
	if (good)
		snprintf(out, NET_ADDR_MAX, v6 ? "[%s]" : "%s", text);
	return good;
}

static enum rc
own_host(const char *peer, char out[NET_ADDR_MAX], struct err *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *list = NULL;
	char host[NET_ADDR_MAX], port[8];
	bool good = false;
	int rv;

	if (!net_addr_host(peer)) { /* a Unix socket: use loopback */
		snprintf(out, NET_ADDR_MAX, "127.0.0.1");
		return RC_OK;
	}
	split(peer, host, port);
	rv = getaddrinfo(host, port, &hints, &list);
	if (rv != 0)
		return err_set(err, RC_UNREACHABLE, "%s: %s", peer, gai_strerror(rv));
	for (const struct addrinfo *a = list; a && !good; a = a->ai_next)
		good = source_of(a, out);
	freeaddrinfo(list);
	return good ? RC_OK
		    : err_set(err, RC_UNREACHABLE, "%s: this host has no route to it", peer);
}

enum rc
net_addr_own(char addr[NET_ADDR_MAX], const char *peer, struct err *err)
{
	char own[NET_ADDR_MAX], full[2 * NET_ADDR_MAX];
	const char *host = net_addr_host(addr);
	enum rc rc;

	if (!host || strncmp(host, "*:", 2) != 0)
		return RC_OK;
	rc = own_host(peer, own, err);
	if (rc != RC_OK)
		return rc;
	snprintf(full, sizeof full, "%.*s%s%s", (int)(host - addr), addr, own, host + 1);
	if (strlen(full) >= NET_ADDR_MAX)
		return err_set(err, RC_INVAL, "address is longer than %d bytes", NET_ADDR_MAX - 1);
	memcpy(addr, full, strlen(full) + 1);
	return RC_OK;
}
