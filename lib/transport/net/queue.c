/*
 * Design notes. A PUSH socket that listens, and PULL sockets that dial.
 *
 * nng writes a message as soon as the kernel takes it, so a stopped taker holds a socket buffer full of
 * messages, which are lost with it. The putting side must bound that.
 */
#include "net/queue.h"

#include <arpa/inet.h>
#include <nng/nng.h>
#include <nng/protocol/pipeline0/pull.h>
#include <nng/protocol/pipeline0/push.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/closing.h"
#include "net/ipcpath.h"
#include "net/net.h"
#include "net/times.h"
#include "net/tls.h"

struct net_queue {
	nng_socket sock;
	nng_listener listener; /* of the server */
	bool serves;
	struct ipcpath path;
	char addr[NET_ADDR_MAX];
};

static enum rc
queue_err(const struct net_queue *q, int rv, struct err *err)
{
	enum rc rc = rv == NNG_ETIMEDOUT || rv == NNG_EAGAIN ? RC_TIMEOUT
		     : rv == NNG_ENOMEM			     ? RC_NOMEM
		     : rv == NNG_EADDRINUSE		     ? RC_BUSY
							     : RC_FAILED;

	return err_set(err, rc, "%s: %s", q->addr, nng_strerror(rv));
}

static enum rc
queue_new(const char *addr, struct net_queue **out, struct err *err)
{
	struct net_queue *q = calloc(1, sizeof *q);

	if (!q)
		return err_set(err, RC_NOMEM, "%s: out of memory", addr);
	snprintf(q->addr, sizeof q->addr, "%s", addr);
	q->path.fd = -1;
	*out = q;
	return RC_OK;
}

/* Put in the real port for 0. */
static void
learn_port(struct net_queue *q)
{
	nng_sockaddr sa;

	if (nng_listener_get_addr(q->listener, NNG_OPT_LOCADDR, &sa) == 0)
		net_addr_set_port(q->addr, ntohs(sa.s_family == NNG_AF_INET6 ? sa.s_in6.sa_port
									     : sa.s_in.sa_port));
}

static int
listen_at(struct net_queue *q)
{
	int rv = nng_socket_set_size(q->sock, NNG_OPT_RECVMAXSZ, NET_QUEUE_MAX);

	if (rv == 0)
		rv = nng_listener_create(&q->listener, q->sock, q->addr);
	if (rv != 0)
		return rv;
	if (q->path.fd >= 0)
		nng_listener_set_int(q->listener, NNG_OPT_IPC_PERMISSIONS, 0600);
	rv = tls_listener(q->listener, q->addr);
	if (rv == 0)
		rv = nng_listener_start(q->listener, 0);
	if (rv == 0)
		learn_port(q);
	return rv;
}

enum rc
net_queue_serve(const char *addr, struct net_queue **out, struct err *err)
{
	struct net_queue *q = NULL;
	enum rc rc = queue_new(addr, &q, err);
	int rv;

	if (rc == RC_OK)
		rc = tls_ready(addr, err);
	if (rc == RC_OK)
		rc = ipcpath_lock(&q->path, addr, err);
	if (rc != RC_OK) {
		free(q);
		return rc;
	}
	q->serves = true;
	rv = nng_push0_open(&q->sock);
	if (rv == 0 && (rv = listen_at(q)) != 0)
		nng_close(q->sock);
	if (rv != 0) {
		rc = queue_err(q, rv, err);
		ipcpath_unlock(&q->path, addr);
		free(q);
		return rc;
	}
	*out = q;
	return RC_OK;
}

static int
dial(struct net_queue *q)
{
	nng_dialer d;
	int rv = nng_socket_set_size(q->sock, NNG_OPT_RECVMAXSZ, NET_QUEUE_MAX);

	if (rv == 0)
		rv = nng_socket_set_ms(q->sock, NNG_OPT_RECONNMINT, NET_RECONNECT_MS);
	if (rv == 0)
		rv = nng_socket_set_ms(q->sock, NNG_OPT_RECONNMAXT, NET_RECONNECT_MAX_MS);
	if (rv == 0)
		rv = nng_dialer_create(&d, q->sock, q->addr);
	if (rv == 0)
		rv = tls_dialer(d, q->addr);
	return rv == 0 ? nng_dialer_start(d, NNG_FLAG_NONBLOCK) : rv;
}

enum rc
net_queue_join(const char *addr, struct net_queue **out, struct err *err)
{
	struct net_queue *q = NULL;
	enum rc rc = queue_new(addr, &q, err);
	int rv;

	if (rc == RC_OK)
		rc = tls_ready(addr, err);
	if (rc != RC_OK) {
		free(q);
		return rc;
	}
	rv = nng_pull0_open(&q->sock);
	if (rv == 0 && (rv = dial(q)) != 0)
		nng_close(q->sock);
	if (rv != 0) {
		rc = queue_err(q, rv, err);
		free(q);
		return rc;
	}
	*out = q;
	return RC_OK;
}

const char *
net_queue_address(const struct net_queue *q)
{
	return q->addr;
}

enum rc
net_queue_put(struct net_queue *q, const void *message, size_t nbytes, int timeout_ms,
	      struct err *err)
{
	nng_msg *msg;
	int rv;

	if (nbytes > NET_QUEUE_MAX)
		return err_set(err, RC_INVAL, "%s: message of %zu bytes: the limit is %d", q->addr,
			       nbytes, NET_QUEUE_MAX);
	rv = nng_msg_alloc(&msg, 0);
	if (rv != 0)
		return queue_err(q, rv, err);
	rv = nng_msg_append(msg, message, nbytes);
	if (rv == 0)
		rv = nng_socket_set_ms(q->sock, NNG_OPT_SENDTIMEO, timeout_ms);
	if (rv == 0)
		rv = nng_sendmsg(q->sock, msg, timeout_ms == 0 ? NNG_FLAG_NONBLOCK : 0);
	if (rv == 0)
		return RC_OK;
	nng_msg_free(msg);
	return queue_err(q, rv, err);
}

enum rc
net_queue_take(struct net_queue *q, void *message, size_t size, size_t *nbytes, int timeout_ms,
	       struct err *err)
{
	enum rc rc = RC_OK;
	nng_msg *msg;
	int rv = nng_socket_set_ms(q->sock, NNG_OPT_RECVTIMEO, timeout_ms);

	if (rv == 0)
		rv = nng_recvmsg(q->sock, &msg, timeout_ms == 0 ? NNG_FLAG_NONBLOCK : 0);
	if (rv != 0)
		return queue_err(q, rv, err);
	if (nng_msg_len(msg) > size) {
		rc = err_set(err, RC_BADDATA, "%s: message of %zu bytes: the limit is %zu", q->addr,
			     nng_msg_len(msg), size);
	} else {
		memcpy(message, nng_msg_body(msg), nng_msg_len(msg));
		*nbytes = nng_msg_len(msg);
	}
	nng_msg_free(msg);
	return rc;
}

/* nng has released the socket. */
static void
closed(void *queue)
{
	free(queue);
}

void
net_queue_close(struct net_queue *q)
{
	if (!q)
		return;
	if (q->serves) {
		nng_listener_close(q->listener);
		ipcpath_unlock(&q->path, q->addr);
	}
	closing_start(q->sock, NULL, closed, q, NET_CLOSE_MS);
}
