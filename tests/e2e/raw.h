/*
 * raw.h - connections to a daemon without nng, for bytes that no honest peer sends.
 */
#ifndef E2E_RAW_H
#define E2E_RAW_H

#include <arpa/inet.h>
#include <endian.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Connect to an ipc address or a tcp port of this host; -1: no one listens. */
static inline int
raw_connect(const char *addr)
{
	bool ipc = strncmp(addr, "ipc://", 6) == 0;
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct sockaddr_in in = {.sin_family = AF_INET};
	int fd = socket(ipc ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rv;

	if (ipc) {
		snprintf(un.sun_path, sizeof un.sun_path, "%s", addr + 6);
		rv = connect(fd, (struct sockaddr *)&un, sizeof un);
	} else {
		in.sin_port = htons((uint16_t)atoi(strrchr(addr, ':') + 1));
		in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		rv = connect(fd, (struct sockaddr *)&in, sizeof in);
	}
	if (rv == 0)
		return fd;
	close(fd);
	return -1;
}

/* Send as much as the other side takes; it may already have closed. */
static inline void
raw_put(int fd, const void *data, size_t n)
{
	struct pollfd p = {fd, POLLOUT, 0};
	const char *at = data;

	while (n > 0 && poll(&p, 1, 200) > 0) {
		ssize_t k = send(fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (k <= 0)
			return;
		at += k;
		n -= (size_t)k;
	}
}

/* The head of an SP message that claims n bytes: on ipc a byte 1 comes first. */
static inline void
raw_put_length(int fd, bool ipc, uint64_t n)
{
	unsigned char b[9] = {1};

	n = htobe64(n);
	memcpy(b + 1, &n, 8);
	raw_put(fd, ipc ? b : b + 1, ipc ? 9 : 8);
}

#endif
