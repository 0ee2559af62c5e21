/*
 * Design notes. A client for calls that wait (RPC_CONNECT_TO_CALL) starts without nng: each calling
 * thread takes a socket for its call (reqsock.c), so the program has no threads of ours. At the first
 * trouble it changes to nng permanently: the call is repeated there under its number, so that it takes
 * effect once, as described in rpc_client.c and rpc_call.c.
 *
 * For a server a client has disconnected when its last connection closes, which ends its leases. So a
 * socket whose call had no answer in time is not used again, but stays open as long as the client.
 */
#include <unistd.h>

#include "base/clock.h"
#include "net/rpc_client_impl.h"
#include "net/times.h"

static void
put_idle(struct rpc_client *c, int fd)
{
	pthread_mutex_lock(&c->lock);
	c->idle[c->nidle++] = fd;
	pthread_mutex_unlock(&c->lock);
}

static void
put_spent(struct rpc_client *c, int fd, bool trouble)
{
	pthread_mutex_lock(&c->lock);
	c->spent[c->nspent++] = fd;
	if (trouble)
		c->plain = false;
	pthread_mutex_unlock(&c->lock);
}

/* A socket for a call; -1: use nng. */
static int
take_socket(struct rpc_client *c)
{
	bool may_open;
	int fd = -1;

	pthread_mutex_lock(&c->lock);
	if (c->plain && c->nidle)
		fd = c->idle[--c->nidle];
	may_open = c->plain && fd < 0 && c->nsockets < CLIENT_SOCKETS;
	c->nsockets += may_open;
	pthread_mutex_unlock(&c->lock);
	if (!may_open)
		return fd;
	fd = reqsock_open(c->addr, deadline_in_ms(NET_PROBE_MS));
	if (fd < 0) {
		pthread_mutex_lock(&c->lock);
		c->nsockets--;
		c->plain = false;
		pthread_mutex_unlock(&c->lock);
	}
	return fd;
}

bool
plain_open(struct rpc_client *c, uint64_t deadline_ns)
{
	uint64_t soon = deadline_in_ms(NET_PROBE_MS);
	int fd = reqsock_open(c->addr, soon < deadline_ns ? soon : deadline_ns);

	if (fd < 0)
		return false;
	c->plain = true;
	c->nsockets = 1;
	put_idle(c, fd);
	return true;
}

/* The server's answer, as rpc_call returns it. */
static enum rc
understand(const struct rpc_client *c, const struct buf *answer, GpuSim__Reply **out,
	   struct err *err)
{
	GpuSim__Reply *reply = NULL;
	enum rc rc = wire_reply_unpack(answer->data, answer->len, &reply, err);

	if (rc != RC_OK)
		return err_prefix(err, "%s", c->addr);
	rc = wire_reply_rc(reply, err);
	if (rc == RC_OK)
		*out = reply;
	else
		wire_reply_free(reply);
	return rc;
}

bool
plain_call(struct rpc_client *c, const struct buf *request, uint64_t deadline_ns,
	   GpuSim__Reply **out, enum rc *rc, struct err *err)
{
	struct buf answer = {0};
	int fd = take_socket(c);
	bool done = true;

	if (fd < 0)
		return false;
	*rc = reqsock_call(fd, request->data, request->len, deadline_ns, &answer);
	if (*rc == RC_OK) {
		put_idle(c, fd);
		*rc = understand(c, &answer, out, err);
	} else {
		done = *rc == RC_TIMEOUT;
		put_spent(c, fd, !done);
		if (done)
			err_set(err, *rc, "%s: no answer in time", c->addr);
	}
	buf_fini(&answer);
	return done;
}

void
plain_close(struct rpc_client *c)
{
	while (c->nidle)
		close(c->idle[--c->nidle]);
	while (c->nspent)
		close(c->spent[--c->nspent]);
}
