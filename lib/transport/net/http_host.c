#include "net/http_impl.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* The host of "host", "host:port", "[v6]" or "[v6]:port", without brackets. False: malformed. */
static bool
host_of(const char *value, char out[NET_ADDR_MAX])
{
	bool v6 = value[0] == '[';
	size_t n = v6 ? strcspn(value, "]") : strcspn(value, ":");
	const char *end = value + n + (v6 && value[n] == ']');

	if (n >= NET_ADDR_MAX || n == 0 || (v6 && value[n] != ']') || (*end && *end != ':'))
		return false;
	if (*end && strspn(end + 1, "0123456789") != strlen(end + 1))
		return false;
	memcpy(out, value + v6, n - v6);
	out[n - v6] = '\0';
	return true;
}

static bool
is_loopback(const char *host)
{
	struct in6_addr six;
	struct in_addr four;

	if (inet_pton(AF_INET, host, &four) == 1)
		return ntohl(four.s_addr) >> 24 == 127;
	if (inet_pton(AF_INET6, host, &six) == 1)
		return IN6_IS_ADDR_LOOPBACK(&six);
	return strcasecmp(host, "localhost") == 0;
}

static bool
is_number(const char *host)
{
	unsigned char room[sizeof(struct in6_addr)];

	return inet_pton(AF_INET, host, room) == 1 || inet_pton(AF_INET6, host, room) == 1;
}

static bool
is_own_name(const char *host)
{
	char name[NET_ADDR_MAX] = "";

	return gethostname(name, sizeof name - 1) == 0 && name[0] && strcasecmp(name, host) == 0;
}

static bool
is_listed(const char *host, const char *names)
{
	size_t n = strlen(host);

	for (const char *at = names; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (strcspn(at, ",") == n && strncasecmp(at, host, n) == 0)
			return true;
	return false;
}

bool
http_host_allowed(const char *value, const char *bound, enum net_reach reach, const char *names)
{
	char host[NET_ADDR_MAX], own[NET_ADDR_MAX];

	if (!value)
		return true;
	if (!host_of(value, host))
		return false;
	if (is_loopback(host) || is_listed(host, names) ||
	    (host_of(bound, own) && strcasecmp(host, own) == 0))
		return true;
	return reach == NET_ANY_HOST && (is_number(host) || is_own_name(host));
}
