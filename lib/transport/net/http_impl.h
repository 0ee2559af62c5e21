/*
 * http_impl.h - private to the HTTP server: a connection, which is one request and one answer.
 */
#ifndef NET_HTTP_IMPL_H
#define NET_HTTP_IMPL_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "net/http_server.h"
#include "net/net.h"

/*
 * Private to the HTTP server: the last events, in order, and their readers.
 *
 * An event is kept until its slot is needed or all of them have too many bytes; a reader that lags behind
 * the oldest has lost one. Thread-safe.
 */

struct http_message; /* never changes; lives while it is held */

struct http_feed {
	pthread_mutex_t lock;
	struct http_message *message[HTTP_SERVER_BACKLOG]; /* number n at n modulo this */
	uint64_t first, next; /* numbers of the oldest, and of the next one */
	size_t nbytes;
};

/* Initialise; zeroes are not enough. */
void http_feed_init(struct http_feed *f);
void http_feed_fini(struct http_feed *f);

/* Append the bytes of b, and take them over. RC_NOMEM: b is released, too. */
enum rc http_feed_put(struct http_feed *f, struct buf *b);

uint64_t http_feed_next(struct http_feed *f);

/* A reader: zeroed, except `at`. */
struct http_reader {
	uint64_t at; /* number of the next message */
	struct http_message *held;
	size_t off;
};

/* Read at most max bytes. Returns their number; 0: none now; -1: some were lost. */
ssize_t http_feed_read(struct http_feed *f, struct http_reader *r, char *out, size_t max);
void http_reader_fini(struct http_feed *f, struct http_reader *r);

#define HTTP_PLACES (2 * HTTP_SERVER_MAX_CONNS) /* those being closed included */
#define HTTP_DRAINS 32

enum http_phase {
	HTTP_SILENT,   /* nothing received; not passed to MHD yet */
	HTTP_HANDED,   /* passed to MHD, which has not started it */
	HTTP_READING,  /* its head */
	HTTP_WAITING,  /* for http_reply; suspended */
	HTTP_WRITING,  /* its answer */
	HTTP_LISTENING /* to events; suspended while there are none */
};

struct http_ask {
	struct http_server *server;
	struct MHD_Connection *mhd;
	int fd; /* MHD's, after its first byte; -1: free */
	struct sockaddr_storage address;
	socklen_t naddress;
	unsigned char peer[16]; /* its address, of IPv4 mapped to IPv6 */
	enum http_phase phase;
	uint64_t began_ns;
	uint64_t due_ns; /* deadline; UINT64_MAX: none */
	bool suspended;
	bool ended; /* shut down by us, and no longer counted */
	const char *path;
	struct http_answer answer;
	atomic_bool replied;
	size_t sent; /* of a stream's body */
	struct http_reader reader;
};

/* An answered connection: what the peer still sends is discarded for a moment, because after an immediate
 * close the kernel would discard the answer. */
struct http_drain {
	int fd; /* -1: none */
	uint64_t due_ns;
	size_t nbytes;
};

struct http_server {
	int fd, wake, epoll; /* epoll: MHD's */
	struct http_config cfg;
	struct MHD_Daemon *mhd;
	pthread_t thread;
	char address[NET_ADDR_MAX];
	uint64_t pause_ns; /* no accepting until then */
	atomic_bool stops;
	atomic_uint nlisteners;
	struct http_feed feed;
	struct http_ask ask[HTTP_PLACES];
	struct http_drain drain[HTTP_DRAINS];
};

/* Any thread: wake the server's thread. */
void http_wake(struct http_server *s);

/* MHD's callback for requests; cls is the server. */
enum MHD_Result http_on_request(void *cls, struct MHD_Connection *mhd, const char *url,
				const char *method, const char *version, const char *upload,
				size_t *nupload, void **req);

/* The connection is closed: release its answer. */
void http_answer_fini(struct http_ask *ask);

/* ---- check that a request is meant for this server */

/*
 * http_host_allowed - check the value of the Host header.
 *
 *	bound	"host:port" that the server listens at
 *	reach	NET_ANY_HOST: reachable by any address of this machine
 *	names	more hosts, with commas between them, or NULL
 *
 * Allowed are loopback addresses, localhost, the bound host and the names; for a server that is reachable
 * from other hosts also all numeric addresses, to which no name can be rebound, and this machine's name.
 * The port does not matter: it may be forwarded. No header (NULL), as in HTTP/1.0, is allowed: browsers
 * always send one.
 */
bool http_host_allowed(const char *value, const char *bound, enum net_reach reach,
		       const char *names);

#endif
