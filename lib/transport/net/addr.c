#include "net/net.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/un.h>

#include "base/parse.h"
#include "net/tls.h"

static enum rc
check_tcp(const char *addr, enum net_reach reach, struct err *err)
{
	const char *host = net_addr_host(addr), *colon = strrchr(host, ':');
	uint64_t port;

	if (!colon || colon == host || parse_u64(colon + 1, 0, 65535, &port, NULL) != RC_OK)
		return err_set(err, RC_INVAL, "'%s' is not %.*shost:port", addr, (int)(host - addr),
			       addr);
	if (reach == NET_LOOPBACK && !tls_address(addr) &&
	    !parse_is_loopback(host, (size_t)(colon - host)))
		return err_set(err, RC_INVAL,
			       "%s is reachable from other hosts, unencrypted and unauthenticated; "
			       "use tls+tcp://, or allow it with --insecure",
			       addr);
	return tls_ready(addr, err);
}

const char *
net_addr_host(const char *addr)
{
	static const char *const scheme[] = {"tcp://", "tls+tcp://"};

	for (size_t i = 0; i < sizeof scheme / sizeof scheme[0]; i++)
		if (strncmp(addr, scheme[i], strlen(scheme[i])) == 0)
			return addr + strlen(scheme[i]);
	return NULL;
}

enum rc
net_addr_check(const char *addr, enum net_reach reach, struct err *err)
{
	/* Room for ".data.lock" behind the path. */
	const size_t path_max = sizeof((struct sockaddr_un *)0)->sun_path - 12;

	if (strlen(addr) >= NET_ADDR_MAX - 16)
		return err_set(err, RC_INVAL, "address is longer than %d bytes", NET_ADDR_MAX - 17);
	for (const char *p = addr; *p; p++)
		if ((unsigned char)*p <= ' ' || *p == 0x7f)
			return err_set(err, RC_INVAL, "address has a blank or control character");
	if (net_addr_host(addr))
		return check_tcp(addr, reach, err);
	if (strncmp(addr, "ipc:///", 7) != 0)
		return err_set(err, RC_INVAL,
			       "'%s': must be ipc:///path, tcp://host:port or "
			       "tls+tcp://host:port",
			       addr);
	if (strlen(addr + 6) > path_max)
		return err_set(err, RC_INVAL, "%s: socket path is longer than %zu bytes", addr,
			       path_max);
	return RC_OK;
}

enum rc
net_addr_data(const char *addr, char out[NET_ADDR_MAX], struct err *err)
{
	const char *colon;
	int n;

	if (strncmp(addr, "ipc://", 6) == 0) {
		n = snprintf(out, NET_ADDR_MAX, "%s.data", addr);
	} else {
		colon = strrchr(addr, ':');
		if (!colon)
			return err_set(err, RC_INVAL, "'%s' is not tcp://host:port", addr);
		n = snprintf(out, NET_ADDR_MAX, "%.*s:0", (int)(colon - addr), addr);
	}
	if (n < 0 || n >= NET_ADDR_MAX)
		return err_set(err, RC_INVAL, "address is too long");
	return RC_OK;
}

void
net_addr_set_port(char addr[NET_ADDR_MAX], unsigned port)
{
	char *colon = net_addr_host(addr) ? strrchr(addr, ':') : NULL;

	if (colon)
		snprintf(colon, (size_t)(addr + NET_ADDR_MAX - colon), ":%u", port);
}

uint64_t
net_random(void)
{
	uint64_t v = 0;

	while (v == 0)
		if (getrandom(&v, sizeof v, 0) != (ssize_t)sizeof v)
			v = 0;
	return v;
}
