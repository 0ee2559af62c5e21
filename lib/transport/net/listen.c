#include "net/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/parse.h"

#define TCP "tcp://"

/* Make a listening socket for "host:port". */
static enum rc
listen_at(const char *host, int backlog, int *fd, struct err *err)
{
	const struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
				       .ai_socktype = SOCK_STREAM};
	const char *colon = strrchr(host, ':');
	struct addrinfo *list = NULL;
	char name[NET_ADDR_MAX];
	int one = 1, rv;

	snprintf(name, sizeof name, "%.*s", (int)(colon - host), host);
	if (name[0] == '[' && name[strlen(name) - 1] == ']') {
		name[strlen(name) - 1] = '\0';
		memmove(name, name + 1, strlen(name));
	}
	rv = getaddrinfo(name, colon + 1, &hints, &list);
	if (rv != 0)
		return err_set(err, RC_INVAL, "%s: %s", host, gai_strerror(rv));
	*fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (*fd >= 0)
		setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	rv =
	    *fd < 0 || bind(*fd, list->ai_addr, list->ai_addrlen) != 0 || listen(*fd, backlog) != 0;
	freeaddrinfo(list);
	if (rv == 0)
		return RC_OK;
	err_set(err, errno == EADDRINUSE ? RC_BUSY : RC_FAILED, "%s: %s", host, strerror(errno));
	if (*fd >= 0)
		close(*fd);
	return err->rc;
}

/* The real port. */
static void
learn_port(int fd, char addr[NET_ADDR_MAX])
{
	struct sockaddr_storage ss = {0};
	socklen_t n = sizeof ss;

	if (getsockname(fd, (struct sockaddr *)&ss, &n) == 0)
		net_addr_set_port(addr, ntohs(ss.ss_family == AF_INET6
						  ? ((struct sockaddr_in6 *)&ss)->sin6_port
						  : ((struct sockaddr_in *)&ss)->sin_port));
}

enum rc
net_listen(const char *host, enum net_reach reach, int backlog, int *fd, char addr[NET_ADDR_MAX],
	   struct err *err)
{
	char url[NET_ADDR_MAX];
	int s = -1;
	enum rc rc;

	memcpy(url, TCP, sizeof TCP);
	rc = parse_listen(host, reach == NET_ANY_HOST, url + strlen(TCP), sizeof url - strlen(TCP),
			  err);
	if (rc == RC_OK)
		rc = net_addr_check(url, NET_ANY_HOST, err);

	if (rc == RC_OK)
		rc = listen_at(net_addr_host(url), backlog, &s, err);
	if (rc != RC_OK)
		return rc;
	learn_port(s, url);
	snprintf(addr, NET_ADDR_MAX, "%s", net_addr_host(url));
	*fd = s;
	return RC_OK;
}
