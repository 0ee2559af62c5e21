/* server_impl.h - shared by the parts of the server: server.c (sockets), job.c (calls and the requests that
 * they become), and a file for each kind of call. The design notes are in server.c. */
#ifndef GRPC_SERVER_IMPL_H
#define GRPC_SERVER_IMPL_H

#include <pthread.h>
#include <stdbool.h>

#include "base/buf.h"
#include "grpc/server.h"
#include "grpc/session.h"
#include "wire/wire.h"

#define ROUTES_MAX     24
#define ASKED_MAX      4096 /* requests that wait for an answer */
#define PATH_MAX_CHARS 80

struct job;
struct asked;

/* The callbacks of a call. NULL: nothing to do. All on the server's thread; st may be gone only in
 * answered. */
struct job_kind {
	size_t size; /* of the job, which begins with struct job */
	void (*message)(struct job *job, const void *data, size_t nbytes);
	void (*end)(struct job *job);
	void (*wake)(struct job *job);
	/* The request of job_ask has its answer. */
	void (*answered)(struct job *job, const GpuSim__Reply *reply);
	/* The client no longer waits, and no request is running. */
	void (*gone)(struct job *job);
	void (*fini)(struct job *job);
};

/* A method, and its handling. */
struct route {
	char path[PATH_MAX_CHARS];
	const struct job_kind *kind;
	bool many;
	const ProtobufCFieldDescriptor *field; /* of the envelope; NULL: it is answered here */
};

/* A call at work. */
struct job {
	struct grpc_server *server;
	uint64_t client_id, deadline_ns;
	struct grpc_stream *st; /* NULL: the client does not wait for it */
	const struct route *route;
	struct asked *asked; /* a request without an answer, or NULL */
};

extern const struct job_kind job_unary, job_memcpy, job_stream_send, job_reflection, job_health;

struct conn {
	int fd; /* -1: none */
	struct grpc_server *server;
	struct grpc_events events;
	struct grpc_session *session;
	uint64_t client_id, moved_ns, heard_ns;
	struct buf out;
	size_t out_at;
	bool heard;   /* it speaks HTTP/2, as far as we can see; else we send it nothing */
	bool closing; /* bytes to send, and then the end */
};

struct grpc_server {
	int fd, wake;
	enum grpc_service service;
	struct rpc_handler handler;
	struct grpc_budget budget;
	struct route route[ROUTES_MAX];
	size_t nroutes;
	pthread_t thread;
	char address[NET_ADDR_MAX];
	uint64_t pause_ns; /* no accepting until then */
	uint64_t last_seq; /* of requests */
	bool ending;	   /* the handler is left alone */
	char in[65536];	   /* what a connection has just sent */
	struct conn conn[GRPC_SERVER_MAX_CONNS];
	pthread_mutex_t lock; /* what follows */
	struct asked *answered, **answered_tail;
	size_t nasked;
	bool stop;    /* the thread ends */
	bool stopped; /* it has: answers go into the void */
};

/* ---- job.c */

extern const struct grpc_events conn_events; /* but for arg, a conn */

/* Ask or, if that fails, end the call. */
void job_ask_or_fail(struct job *job, GpuSim__Request *req);

/* The call's message, unpacked; NULL: it cannot be unpacked, and the call has ended. Release with
 * protobuf_c_message_free_unpacked. */
ProtobufCMessage *job_unpack(struct job *job, const ProtobufCMessageDescriptor *d, const void *data,
			     size_t nbytes);

/* Send a message; false: out of memory, the call has ended. */
bool job_send(struct job *job, const ProtobufCMessage *m);

/* End the call. */
void job_finish(struct job *job, enum grpc_code code, const char *text);

/* True: the reply is a failure, and the call has ended with it. */
bool job_failed(struct job *job, const GpuSim__Reply *reply);

/* Handle the answers that have come; on the server's thread. */
void jobs_answered(struct grpc_server *s);

/* Deliver no more answers; free every job that can be freed. The thread has ended. */
void jobs_stop(struct grpc_server *s);

/* Free the server: it is stopped, and no request waits. */
void grpc_server_free(struct grpc_server *s);

/* ---- reflect.c */

/* The paths of reflection and health, as routes. */
void reflect_routes(struct grpc_server *s);

#endif
