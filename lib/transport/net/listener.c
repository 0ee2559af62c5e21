/* The pipe callback runs on nng's threads. nng_close returns after the last of them, so listener_free comes
 * after it. */
#include "net/listener.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/ipcpath.h"
#include "net/net.h"
#include "net/tls.h"

struct listener {
	nng_socket sock;
	listener_fn fn;
	void *arg;
	nng_listener nl;
	char addr[NET_ADDR_MAX];
	char dial[NET_ADDR_MAX]; /* the address by which we reach ourselves */
	struct ipcpath path;
};

const char *
listener_address(const struct listener *l)
{
	return l->addr;
}

const char *
listener_self(const struct listener *l)
{
	return l->dial;
}

static void
on_pipe(nng_pipe p, nng_pipe_ev ev, void *arg)
{
	struct listener *l = arg;

	if (l->fn)
		l->fn(l->arg, nng_pipe_id(p),
		      ev == NNG_PIPE_EV_ADD_PRE ? LISTENER_CAME : LISTENER_GONE);
}

static int
listen_now(struct listener *l)
{
	int rv = nng_listener_create(&l->nl, l->sock, l->addr);

	if (rv != 0)
		return rv;
	if (l->path.fd >= 0)
		nng_listener_set_int(l->nl, NNG_OPT_IPC_PERMISSIONS, 0600);
	rv = tls_listener(l->nl, l->addr);
	if (rv == 0)
		rv = nng_listener_start(l->nl, 0);
	if (rv != 0)
		nng_listener_close(l->nl);
	return rv;
}

/* Put in the real port for 0, and a dialable host for a wildcard. */
static void
learn_address(struct listener *l)
{
	nng_sockaddr sa;
	const char *host, *colon;
	int scheme;

	if (nng_listener_get_addr(l->nl, NNG_OPT_LOCADDR, &sa) == 0)
		net_addr_set_port(l->addr, ntohs(sa.s_family == NNG_AF_INET6 ? sa.s_in6.sa_port
									     : sa.s_in.sa_port));
	snprintf(l->dial, sizeof l->dial, "%s", l->addr);
	host = net_addr_host(l->addr);
	if (!host)
		return;
	scheme = (int)(host - l->addr);
	colon = strrchr(l->addr, ':');
	if (strncmp(host, "0.0.0.0:", 8) == 0)
		snprintf(l->dial, sizeof l->dial, "%.*s127.0.0.1%s", scheme, l->addr, colon);
	else if (strncmp(host, "[::]:", 5) == 0)
		snprintf(l->dial, sizeof l->dial, "%.*s[::1]%s", scheme, l->addr, colon);
}

/* With a limit of 0 nng would accept a length of 2^64-40 and abort. */
static int
set_limits(struct listener *l, size_t max)
{
	int rv = nng_socket_set_size(l->sock, NNG_OPT_RECVMAXSZ, max);

	if (rv == 0)
		rv = nng_pipe_notify(l->sock, NNG_PIPE_EV_ADD_PRE, on_pipe, l);
	if (rv == 0)
		rv = nng_pipe_notify(l->sock, NNG_PIPE_EV_REM_POST, on_pipe, l);
	nng_socket_set_bool(l->sock, NNG_OPT_TCP_KEEPALIVE, true);
	return rv;
}

enum rc
listener_open(nng_socket sock, const char *addr, size_t max, listener_fn fn, void *arg,
	      struct listener **out, struct err *err)
{
	struct listener *l = calloc(1, sizeof *l);
	enum rc rc;
	int rv;

	if (!l)
		return err_set(err, RC_NOMEM, "%s: out of memory", addr);
	l->sock = sock;
	l->fn = fn;
	l->arg = arg;
	snprintf(l->addr, sizeof l->addr, "%s", addr);
	rc = ipcpath_lock(&l->path, addr, err);
	if (rc == RC_OK)
		rc = tls_ready(addr, err);
	if (rc != RC_OK)
		goto out;
	rv = set_limits(l, max);
	if (rv == 0)
		rv = listen_now(l);
	if (rv != 0) {
		rc = err_set(err, rv == NNG_EADDRINUSE ? RC_BUSY : RC_FAILED, "%s: %s", addr,
			     nng_strerror(rv));
		goto out;
	}
	learn_address(l);
	*out = l;
	return RC_OK;
out:
	ipcpath_unlock(&l->path, addr);
	listener_free(l);
	return rc;
}

void
listener_stop(struct listener *l)
{
	nng_listener_close(l->nl);
	ipcpath_unlock(&l->path, l->addr);
}

void
listener_free(struct listener *l)
{
	free(l);
}
