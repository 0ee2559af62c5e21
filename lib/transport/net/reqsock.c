/*
 * Each end begins with eight bytes, 0 'S' 'P' 0, its protocol and 0 0. A message is
 *
 *	0	1	 1
 *	1	8	 length of what follows, big-endian
 *	9	4	 the request's number, its highest bit set
 *	13	length-4 body
 *
 * Source: nanomsg's RFCs sp-protocol-01 and sp-request-reply-01; nng's transport/ipc/ipc.c.
 */
#include "net/rpc_client_impl.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "wire/wire.h"

#define HELLO	   8
#define HEAD	   13
#define LENGTH_AT  1
#define NUMBER_AT  9
#define NUMBER	   0x80000001u /* a socket has one request at a time */
#define IPC_PREFIX "ipc://"

static const unsigned char hello[HELLO] = {0, 'S', 'P', 0, 0, 0x30};
static const unsigned char hello_back[HELLO] = {0, 'S', 'P', 0, 0, 0x31};

/* RC_OK: the socket is ready, or has an error. */
static enum rc
wait_for(int fd, short events, uint64_t deadline_ns)
{
	struct pollfd p = {.fd = fd, .events = events};
	int n, left;

	do {
		left = deadline_left_ms(deadline_ns);
		n = poll(&p, 1, left);
	} while ((n < 0 && errno == EINTR) || (n == 0 && deadline_left_ms(deadline_ns) > 0));
	return n > 0 ? RC_OK : n == 0 ? RC_TIMEOUT : RC_UNREACHABLE;
}

/* Send all of v[0..n), which is used up. */
static enum rc
send_all(int fd, struct iovec *v, size_t n, uint64_t deadline_ns)
{
	struct msghdr m = {.msg_iov = v, .msg_iovlen = n};
	enum rc rc = RC_OK;
	ssize_t done;
	size_t part;

	while (m.msg_iovlen && rc == RC_OK) {
		done = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (done < 0 && errno == EAGAIN)
			rc = wait_for(fd, POLLOUT, deadline_ns);
		else if (done < 0 && errno != EINTR)
			rc = RC_UNREACHABLE;
		for (; done > 0; done -= (ssize_t)part) {
			part =
			    m.msg_iov->iov_len < (size_t)done ? m.msg_iov->iov_len : (size_t)done;
			m.msg_iov->iov_base = (char *)m.msg_iov->iov_base + part;
			m.msg_iov->iov_len -= part;
			if (m.msg_iov->iov_len == 0 && --m.msg_iovlen)
				m.msg_iov++;
		}
	}
	return rc;
}

static enum rc
recv_all(int fd, void *to, size_t nbytes, uint64_t deadline_ns)
{
	enum rc rc = RC_OK;
	ssize_t done;

	while (nbytes && rc == RC_OK) {
		done = recv(fd, to, nbytes, MSG_DONTWAIT);
		if (done > 0) {
			to = (char *)to + done;
			nbytes -= (size_t)done;
		} else if (done < 0 && errno == EAGAIN) {
			rc = wait_for(fd, POLLIN, deadline_ns);
		} else if (done == 0 || errno != EINTR) {
			rc = RC_UNREACHABLE;
		}
	}
	return rc;
}

int
reqsock_open(const char *addr, uint64_t deadline_ns)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const size_t prefix = strlen(IPC_PREFIX);
	unsigned char back[HELLO];
	struct iovec v = {(void *)hello, HELLO};
	int fd;

	if (strncmp(addr, IPC_PREFIX, prefix) != 0 || strlen(addr + prefix) >= sizeof to.sun_path)
		return -1;
	strcpy(to.sun_path, addr + prefix);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 &&
	    send_all(fd, &v, 1, deadline_ns) == RC_OK &&
	    recv_all(fd, back, HELLO, deadline_ns) == RC_OK && memcmp(back, hello_back, HELLO) == 0)
		return fd;
	close(fd);
	return -1;
}

static void
put_be(unsigned char *to, size_t nbytes, uint64_t v)
{
	for (size_t i = nbytes; i-- > 0; v >>= 8)
		to[i] = (unsigned char)v;
}

static uint64_t
get_be(const unsigned char *from, size_t nbytes)
{
	uint64_t v = 0;

	for (size_t i = 0; i < nbytes; i++)
		v = v << 8 | from[i];
	return v;
}

/* Read the header: the length of the answer's body. */
static enum rc
read_head(const unsigned char *head, size_t *nbytes)
{
	const uint64_t length = get_be(head + LENGTH_AT, NUMBER_AT - LENGTH_AT);
	const size_t number = HEAD - NUMBER_AT;

	if (head[0] != 1 || length < number || length - number > WIRE_CONTROL_MAX ||
	    get_be(head + NUMBER_AT, number) != NUMBER)
		return RC_UNREACHABLE;
	*nbytes = (size_t)(length - number);
	return RC_OK;
}

enum rc
reqsock_call(int fd, const void *request, size_t nbytes, uint64_t deadline_ns, struct buf *answer)
{
	unsigned char head[HEAD] = {1};
	struct iovec v[] = {{head, HEAD}, {(void *)request, nbytes}};
	size_t n = 0;
	enum rc rc;

	put_be(head + LENGTH_AT, NUMBER_AT - LENGTH_AT, nbytes + HEAD - NUMBER_AT);
	put_be(head + NUMBER_AT, HEAD - NUMBER_AT, NUMBER);
	rc = send_all(fd, v, 2, deadline_ns);
	if (rc == RC_OK)
		rc = recv_all(fd, head, HEAD, deadline_ns);
	if (rc == RC_OK)
		rc = read_head(head, &n);
	answer->len = 0;
	if (rc == RC_OK && !buf_reserve(answer, n))
		rc = RC_NOMEM;
	if (rc == RC_OK)
		rc = recv_all(fd, answer->data, n, deadline_ns);
	if (rc == RC_OK)
		answer->len = n;
	return rc;
}
