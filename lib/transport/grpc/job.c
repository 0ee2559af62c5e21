/*
 * Calls, and the requests made from them.
 *
 * A job lives as long as its call, and as long as a request of it is pending. Answers come on any thread
 * and are queued for the server's. When a client disconnects, its request is cancelled, so the answer,
 * which is unused, comes soon.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "grpc/server_impl.h"

/* A request that waits for its answer. */
struct asked {
	struct rpc_call rpc; /* first */
	struct grpc_server *server;
	struct job *job;
	struct asked *next; /* answered */
	void *body;	    /* the packed answer; NULL: out of memory */
	size_t nbytes;
};

void
grpc_server_free(struct grpc_server *s)
{
	if (s->fd >= 0)
		close(s->fd);
	if (s->wake >= 0)
		close(s->wake);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static void
asked_free(struct asked *a)
{
	wire_request_free(a->rpc.req);
	free(a->body);
	free(a);
}

static void
job_free(struct job *job)
{
	if (job->route->kind->fini)
		job->route->kind->fini(job);
	free(job);
}

/* The call has ended, and no request is pending. */
static void
job_over(struct job *job)
{
	if (!job->st && !job->asked)
		job_free(job);
}

/* ---- asking */

/* struct rpc_call.answer, on any thread */
static void
on_answer(struct rpc_call *rpc, const void *body, size_t nbytes)
{
	struct asked *a = (struct asked *)rpc;
	struct grpc_server *s = a->server;
	uint64_t one = 1;
	bool stopped, last;

	a->body = malloc(nbytes + 1);
	a->nbytes = nbytes;
	if (a->body)
		memcpy(a->body, body, nbytes);
	pthread_mutex_lock(&s->lock);
	stopped = s->stopped;
	if (stopped) {
		last = --s->nasked == 0;
	} else {
		a->next = NULL;
		*s->answered_tail = a;
		s->answered_tail = &a->next;
		/* Under the lock: the server lives until it is stopped. */
		(void)(write(s->wake, &one, sizeof one) < 0);
	}
	pthread_mutex_unlock(&s->lock);
	if (!stopped)
		return;
	job_free(a->job);
	asked_free(a);
	if (last)
		grpc_server_free(s);
}

/* Count one more request; false: too many. */
static bool
count_in(struct grpc_server *s)
{
	bool room;

	pthread_mutex_lock(&s->lock);
	room = s->nasked < ASKED_MAX;
	s->nasked += room;
	pthread_mutex_unlock(&s->lock);
	return room;
}

/* The handler may keep the request: it gets its own copy, checked like one from nng. */
static enum rc
copy_request(const GpuSim__Request *req, GpuSim__Request **out, struct err *err)
{
	size_t n = gpu_sim__request__get_packed_size(req);
	void *packed = malloc(n);
	enum rc rc;

	if (!packed)
		return err_set(err, RC_NOMEM, "out of memory");
	gpu_sim__request__pack(req, packed);
	rc = wire_request_unpack(packed, n, out, err);
	free(packed);
	return rc;
}

/*
 * job_ask - hand a request to the handler; the answer comes to the job's `answered`, later.
 *
 * req is borrowed; the envelope's fields are filled in. A job has one at a time. Errors: RC_BADDATA,
 * RC_BUSY too many requests wait, RC_NOMEM.
 */
static enum rc
job_ask(struct job *job, GpuSim__Request *req, struct err *err)
{
	struct grpc_server *s = job->server;
	struct asked *a = calloc(1, sizeof *a);
	enum rc rc = a ? RC_OK : err_set(err, RC_NOMEM, "out of memory");

	if (rc == RC_OK && !count_in(s))
		rc = err_set(err, RC_BUSY, "too many pending calls: %d", ASKED_MAX);
	if (rc != RC_OK) {
		free(a);
		return rc;
	}
	req->clientid = job->client_id;
	req->seq = ++s->last_seq;
	req->timeoutms = (uint32_t)deadline_left_ms(job->deadline_ns);
	req->version = WIRE_VERSION;
	rc = copy_request(req, &a->rpc.req, err);
	if (rc != RC_OK) {
		pthread_mutex_lock(&s->lock);
		s->nasked--;
		pthread_mutex_unlock(&s->lock);
		free(a);
		return rc;
	}
	a->rpc.deadline_ns = job->deadline_ns;
	a->rpc.answer = on_answer;
	a->server = s;
	a->job = job;
	job->asked = a;
	s->handler.call(s->handler.arg, &a->rpc);
	return RC_OK;
}

void
job_ask_or_fail(struct job *job, GpuSim__Request *req)
{
	struct err err = {0};
	enum rc rc = job_ask(job, req, &err);

	if (rc != RC_OK)
		job_finish(job, rc == RC_BADDATA ? GRPC_INVALID_ARGUMENT : grpc_code_of(rc),
			   err.text);
}

static void
answered(struct asked *a)
{
	struct job *job = a->job;
	GpuSim__Reply *reply = NULL, none = GPU_SIM__REPLY__INIT;
	struct err err = {0};

	job->asked = NULL;
	if (!a->body)
		err_set(&err, RC_NOMEM, "out of memory");
	else
		wire_reply_unpack(a->body, a->nbytes, &reply, &err);
	if (!reply)
		wire_reply_failure(&none, &err);
	job->route->kind->answered(job, reply ? reply : &none);
	wire_reply_free(reply);
	asked_free(a);
	job_over(job);
}

void
jobs_answered(struct grpc_server *s)
{
	struct asked *a, *next;

	pthread_mutex_lock(&s->lock);
	a = s->answered;
	s->answered = NULL;
	s->answered_tail = &s->answered;
	for (struct asked *i = a; i; i = i->next)
		s->nasked--;
	pthread_mutex_unlock(&s->lock);
	for (; a; a = next) {
		next = a->next;
		answered(a);
	}
}

/* Jobs whose requests still wait for an answer end with the answers. */
void
jobs_stop(struct grpc_server *s)
{
	struct asked *a, *next;
	bool last;

	pthread_mutex_lock(&s->lock);
	a = s->answered;
	s->answered = NULL;
	s->stopped = true;
	for (struct asked *i = a; i; i = i->next)
		s->nasked--;
	last = s->nasked == 0;
	pthread_mutex_unlock(&s->lock);
	for (; a; a = next) {
		next = a->next;
		job_free(a->job);
		asked_free(a);
	}
	if (last)
		grpc_server_free(s);
}

/* ---- answering */

void
job_finish(struct job *job, enum grpc_code code, const char *text)
{
	struct grpc_stream *st = job->st;

	job->st = NULL;
	if (st)
		grpc_stream_finish(st, code, text);
}

bool
job_failed(struct job *job, const GpuSim__Reply *reply)
{
	struct err err = {0};
	enum rc rc = wire_reply_rc(reply, &err);

	if (rc != RC_OK)
		job_finish(job, grpc_code_of(rc), err.text);
	return rc != RC_OK;
}

bool
job_send(struct job *job, const ProtobufCMessage *m)
{
	size_t n = protobuf_c_message_get_packed_size(m);
	void *room = job->st ? grpc_stream_message(job->st, n) : NULL;

	if (room)
		protobuf_c_message_pack(m, room);
	else
		job_finish(job, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	return room != NULL;
}

ProtobufCMessage *
job_unpack(struct job *job, const ProtobufCMessageDescriptor *d, const void *data, size_t nbytes)
{
	ProtobufCMessage *m = NULL;
	struct err err = {0};
	size_t taken;

	if (wire_message_unpack(d, data, nbytes, GRPC_MESSAGE_MAX, &m, &taken, &err) != RC_OK)
		job_finish(job, GRPC_INVALID_ARGUMENT, err.text);
	return m;
}

/* ---- a call that is a request */

/* A member of the envelope's oneof. */
static ProtobufCMessage **
body_of(ProtobufCMessage *envelope, const ProtobufCFieldDescriptor *f)
{
	return (ProtobufCMessage **)((char *)envelope + f->offset);
}

static void
unary_message(struct job *job, const void *data, size_t nbytes)
{
	const ProtobufCFieldDescriptor *f = job->route->field;
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;
	ProtobufCMessage *m = job_unpack(job, f->descriptor, data, nbytes);

	if (!m)
		return;
	req.body_case = (GpuSim__Request__BodyCase)f->id;
	*body_of(&req.base, f) = m;
	job_ask_or_fail(job, &req);
	protobuf_c_message_free_unpacked(m, NULL);
}

static void
unary_answered(struct job *job, const GpuSim__Reply *reply)
{
	const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(
	    &gpu_sim__reply__descriptor, job->route->field->id);

	if (job_failed(job, reply))
		return;
	if (!f || (uint32_t)reply->body_case != f->id)
		job_finish(job, GRPC_INTERNAL, "the answer is not of the request's kind");
	else if (job_send(job, *body_of((ProtobufCMessage *)&reply->base, f)))
		job_finish(job, GRPC_OK, NULL);
}

const struct job_kind job_unary = {
    .size = sizeof(struct job), .message = unary_message, .answered = unary_answered};

/* ---- events of the session */

static bool
on_find(void *arg, const char *path, struct grpc_method *out)
{
	const struct grpc_server *s = ((struct conn *)arg)->server;

	for (size_t i = 0; i < s->nroutes; i++)
		if (strcmp(s->route[i].path, path) == 0) {
			*out = (struct grpc_method){.many = s->route[i].many, .arg = &s->route[i]};
			return true;
		}
	return false;
}

static void
on_begin(void *arg, struct grpc_stream *st)
{
	const struct route *route = grpc_stream_method(st)->arg;
	struct conn *c = arg;
	struct job *job = calloc(1, route->kind->size);

	if (!job) {
		grpc_stream_finish(st, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	job->server = c->server;
	job->client_id = c->client_id;
	job->deadline_ns = grpc_stream_deadline_ns(st);
	job->st = st;
	job->route = route;
	grpc_stream_keep(st, job);
}

static void
on_message(void *arg, struct grpc_stream *st, const void *data, size_t nbytes)
{
	struct job *job = grpc_stream_kept(st);

	(void)arg;
	job->route->kind->message(job, data, nbytes);
	job_over(job);
}

static void
on_end(void *arg, struct grpc_stream *st)
{
	struct job *job = grpc_stream_kept(st);

	(void)arg;
	if (job->route->kind->end)
		job->route->kind->end(job);
	job_over(job);
}

static void
on_wake(void *arg, struct grpc_stream *st)
{
	struct job *job = grpc_stream_kept(st);

	(void)arg;
	if (job->route->kind->wake)
		job->route->kind->wake(job);
	job_over(job);
}

static void
on_gone(void *arg, struct grpc_stream *st)
{
	struct job *job = grpc_stream_kept(st);
	struct grpc_server *s = job->server;

	(void)arg;
	job->st = NULL;
	if (s->ending)
		; /* no answer is delivered any more */
	else if (job->asked && s->handler.cancel)
		s->handler.cancel(s->handler.arg, job->client_id, job->asked->rpc.req->seq);
	else if (!job->asked && job->route->kind->gone)
		job->route->kind->gone(job);
	job_over(job);
}

const struct grpc_events conn_events = {.find = on_find,
					.begin = on_begin,
					.message = on_message,
					.end = on_end,
					.wake = on_wake,
					.gone = on_gone};
