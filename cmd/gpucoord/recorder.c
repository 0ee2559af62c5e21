/*
 * Design notes. The thread that runs the state machine writes the ring of steps; there is one such thread
 * at a time, and the shell's lock passes the role on. Other threads record reports in a separate ring,
 * under `lock`. Readers read the area through its file, as any other process does, without a lock.
 *
 * Messages that only ask (polls, heartbeats) are recorded only when they fail: a page that polls four times
 * a second would push everything else out.
 */
#include "recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/rundir.h"
#include "flight/write.h"
#include "net/net.h"

enum { NRINGS = 2 }; /* steps; reports */

struct recorder {
	int fd;
	char path[256]; /* "": no name */
	void *area;
	size_t nbytes;
	struct flight *flight;
	struct flight_writer steps;
	pthread_mutex_t lock; /* of reports */
	struct flight_writer reports;
	struct flight_file file;
	struct flight_source source;
};

/* ---- its file */

/* The path for TCP; with any free port, no coordinator uses the file again. */
static enum rc
path_of_host(const char *host, char *out, size_t room, int *n, struct err *err)
{
	size_t len = strlen(host);
	char dir[RUNDIR_MAX];

	if (rundir_make(dir, err) != RC_OK)
		return err->rc;
	*n = len > 2 && strcmp(host + len - 2, ":0") == 0
		 ? snprintf(out, room, "%s/gpucoord-%d.recorder", dir, (int)getpid())
		 : snprintf(out, room, "%s/gpucoord-%s.recorder", dir, host);
	return RC_OK;
}

/* Choose the file. RC_FAILED: no place for it. */
static enum rc
choose_path(const char *address, char *out, size_t room, struct err *err)
{
	const char *host = net_addr_host(address);
	int n = -1;

	if (host && path_of_host(host, out, room, &n, err) != RC_OK)
		return err->rc;
	if (strncmp(address, "ipc:///", 7) == 0)
		n = snprintf(out, room, "%s.recorder", address + strlen("ipc://"));
	if (n < 0 || (size_t)n >= room)
		return err_set(err, RC_FAILED, "%s: no file can be next to this address", address);
	return RC_OK;
}

/* Take a file of this user that no other coordinator records in. */
static enum rc
take_file(const char *path, size_t nbytes, int *out, struct err *err)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	struct stat st;
	enum rc rc = RC_OK;

	if (fd < 0)
		return err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
		rc = err_set(err, RC_FAILED, "%s: not a file of this user", path);
	else if (flock(fd, LOCK_EX | LOCK_NB) != 0)
		rc = err_set(err, RC_BUSY, "%s: another coordinator is recording in it", path);
	else if (((size_t)st.st_size != nbytes && ftruncate(fd, 0) != 0) ||
		 ftruncate(fd, (off_t)nbytes) != 0 || posix_fallocate(fd, 0, (off_t)nbytes) != 0)
		rc = err_set(err, RC_FAILED, "%s: no room for %zu bytes", path, nbytes);
	if (rc != RC_OK)
		close(fd);
	else
		*out = fd;
	return rc;
}

static enum rc
take_memory(size_t nbytes, int *out, struct err *err)
{
	int fd = memfd_create("gpucoord.recorder", MFD_CLOEXEC);

	if (fd < 0 || posix_fallocate(fd, 0, (off_t)nbytes) != 0) {
		if (fd >= 0)
			close(fd);
		return err_set(err, RC_NOMEM, "out of memory for a recorder of %zu bytes", nbytes);
	}
	*out = fd;
	return RC_OK;
}

static enum rc
map_area(struct recorder *r, const char *address, struct err *err)
{
	struct err why = {0};
	enum rc rc = choose_path(address, r->path, sizeof r->path, &why);

	if (rc == RC_OK)
		rc = take_file(r->path, r->nbytes, &r->fd, &why);
	if (rc != RC_OK) {
		r->path[0] = '\0';
		log_line(rc == RC_BUSY ? LOG_INFO : LOG_WARN,
			 "the recorder is in memory and ends with the coordinator: %s", why.text);
		rc = take_memory(r->nbytes, &r->fd, err);
	}
	if (rc != RC_OK)
		return rc;
	r->area = mmap(NULL, r->nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	if (r->area == MAP_FAILED) {
		r->area = NULL;
		return err_set(err, RC_NOMEM, "cannot map the recorder: %s", strerror(errno));
	}
	return RC_OK;
}

static enum rc
round_up(uint64_t n, uint32_t *out, struct err *err)
{
	uint32_t k = FLIGHT_RECORDS_MIN;

	if (n > FLIGHT_RECORDS_MAX)
		return err_set(err, RC_INVAL,
			       "--recorder: %" PRIu64 " records exceed the limit of %u", n,
			       FLIGHT_RECORDS_MAX);
	while (k < n)
		k *= 2;
	*out = k;
	return RC_OK;
}

enum rc
recorder_open(const char *address, uint64_t nrecords, uint64_t instance, struct recorder **out,
	      struct err *err)
{
	const struct flight_mark start = {.what = FLIGHT_MARK_START, .value = (uint64_t)getpid()};
	const struct flight_identity who = {.incarnation = instance, .name = "gpucoord"};
	struct recorder *r;
	uint32_t n = 0;
	enum rc rc;

	if (nrecords == 0)
		return RC_OK;
	rc = round_up(nrecords, &n, err);
	if (rc != RC_OK)
		return rc;
	r = calloc(1, sizeof *r);
	if (!r)
		return err_set(err, RC_NOMEM, "out of memory");
	r->fd = -1;
	r->nbytes = FLIGHT_AREA_BYTES(NRINGS, n);
	pthread_mutex_init(&r->lock, NULL);
	rc = map_area(r, address, err);
	if (rc == RC_OK)
		rc = flight_open(r->area, r->nbytes, n, &who, NULL, NULL, &r->flight, err);
	if (rc != RC_OK) {
		recorder_close(r, true);
		return rc;
	}
	flight_take(r->flight, FLIGHT_COORDINATOR, 0, 0, (uint32_t)getpid(), "steps", &r->steps);
	flight_take(r->flight, FLIGHT_COORDINATOR, 1, 0, (uint32_t)getpid(), "reports",
		    &r->reports);
	flight_offset(r->flight, 0, 0);
	flight_mark(&r->steps, &start, NULL);
	r->file = (struct flight_file){.fd = r->fd, .nbytes = r->nbytes};
	r->source = flight_file_source(&r->file);
	*out = r;
	return RC_OK;
}

void
recorder_close(struct recorder *r, bool remove)
{
	const struct flight_mark end = {.what = FLIGHT_MARK_END};

	if (!r)
		return;
	if (r->flight) {
		flight_mark(&r->steps, &end, NULL);
		flight_give(&r->steps);
		flight_give(&r->reports);
		flight_close(r->flight);
	}
	if (r->area)
		munmap(r->area, r->nbytes);
	if (remove && r->path[0])
		unlink(r->path);
	if (r->fd >= 0)
		close(r->fd);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

const struct flight_source *
recorder_source(const struct recorder *r)
{
	return r ? &r->source : NULL;
}

void
recorder_beat(struct recorder *r)
{
	if (r)
		flight_beat(r->flight, 0, 0);
}

/* ---- reading by requests */

void
recorder_call(struct recorder *r, struct rpc_call *call)
{
	const GpuSim__RecorderReadRequest *m = rpc_request(call)->recorderread;
	GpuSim__ReadResponse answer = GPU_SIM__READ_RESPONSE__INIT;
	GpuSim__Reply reply = WIRE_REPLY(READ, read, answer);
	struct err err = {0};
	uint64_t n = m->nbytes;
	uint8_t *bytes = NULL;

	if (!r)
		err_set(&err, RC_NOTFOUND,
			"the coordinator records nothing: it was started with --recorder 0");
	else if (n > WIRE_BULK_MAX)
		err_set(&err, RC_INVAL, "%" PRIu64 " bytes at once exceed the limit of %u", n,
			WIRE_BULK_MAX);
	else
		n = m->offset >= r->nbytes	? 0
		    : n > r->nbytes - m->offset ? r->nbytes - m->offset
						: n;
	if (err.rc == RC_OK && !(bytes = alloc_zeroed(n + 1, 1)))
		err_set(&err, RC_NOMEM, "the coordinator is out of memory");
	if (err.rc == RC_OK && n)
		r->source.read(r->source.arg, m->offset, bytes, n, &err);
	if (err.rc != RC_OK) {
		free(bytes);
		rpc_reply_err(call, &err);
		return;
	}
	answer.data = (ProtobufCBinaryData){n, bytes};
	rpc_reply(call, &reply);
	free(bytes);
}

/* ---- events */

static bool
is_quiet(uint32_t kind)
{
	switch (kind) {
	case GPU_SIM__REQUEST__BODY_REGISTER_DEVICE:
	case GPU_SIM__REQUEST__BODY_GET_DEVICE_METADATA:
	case GPU_SIM__REQUEST__BODY_LIST_DEVICES:
	case GPU_SIM__REQUEST__BODY_STATUS:
	case GPU_SIM__REQUEST__BODY_EVENTS:
	case GPU_SIM__REQUEST__BODY_PING:
	case GPU_SIM__REQUEST__BODY_GET_COMM_STATUS:
		return true;
	default:
		return false;
	}
}

static const char *
kind_name(uint32_t kind)
{
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;

	req.body_case = (GpuSim__Request__BodyCase)kind;
	return wire_request_name(&req);
}

void
recorder_request(struct recorder *r, const struct rpc_call *call)
{
	const GpuSim__Request *q = rpc_request(call);
	struct flight_mark m = {
	    .what = FLIGHT_MARK_REQUEST, .seq = q->seq, .value = q->seq, .client = q->clientid};

	if (!r || is_quiet(q->body_case))
		return;
	m.comm = wire_request_comm(q);
	flight_mark(&r->steps, &m, wire_request_name(q));
}

void
recorder_result(struct recorder *r, uint64_t token, uint64_t device_id, uint32_t kind,
		const struct err *why)
{
	const struct flight_mark m = {.what = FLIGHT_MARK_RESULT,
				      .result = (uint8_t)why->rc,
				      .device = device_id,
				      .seq = token,
				      .value = token};

	if (r && (why->rc != RC_OK || !is_quiet(kind)))
		flight_mark(&r->steps, &m, why->rc == RC_OK ? NULL : why->text);
}

static const char *
found_text(enum coord_look found)
{
	switch (found) {
	case COORD_LOOK_IDLE:
		return "its process is silent, and is not runnable";
	case COORD_LOOK_RUNNABLE:
		return "its process is silent, and is runnable";
	case COORD_LOOK_STARVED:
		return "its process is silent, and gets no processor";
	}
	return "";
}

void
recorder_heard(struct recorder *r, const struct coord_event *ev)
{
	struct flight_mark m = {.what = FLIGHT_MARK_HEARD,
				.result = (uint8_t)ev->rc,
				.device = ev->device_id,
				.client = ev->client_id};
	char text[sizeof((struct err *)0)->text + 32];

	if (!r)
		return;
	switch (ev->kind) {
	case COORD_GONE:
		snprintf(text, sizeof text, "a client has ended");
		break;
	case COORD_CANCEL:
		m.seq = ev->seq;
		snprintf(text, sizeof text, "a client no longer waits for its answer");
		break;
	case COORD_UNREACHABLE:
		snprintf(text, sizeof text, "nobody listens any more at %s", ev->text);
		break;
	case COORD_LOOKED:
		snprintf(text, sizeof text, "%s", found_text(ev->found));
		break;
	case COORD_SPAWNED:
		m.value = ev->pid;
		snprintf(text, sizeof text, "%s%s",
			 ev->rc == RC_OK ? "started again" : "cannot be started again: ",
			 ev->rc == RC_OK ? "" : ev->text);
		break;
	case COORD_EXITED:
		m.value = ev->pid;
		snprintf(text, sizeof text, "process %" PRIu32 " has ended with status 0x%x",
			 ev->pid, (unsigned)ev->status);
		break;
	case COORD_PROVEN:
	case COORD_REQUEST:
	case COORD_RESULT:
	case COORD_SEEN:
	case COORD_TICK:
	case COORD_ECHO:
		return;
	}
	flight_mark(&r->steps, &m, text);
}

/* ---- actions */

static void
record_answer(struct recorder *r, const struct coord_action *a)
{
	const GpuSim__Request *q = rpc_request((struct rpc_call *)(uintptr_t)a->token);
	struct flight_mark m = {.what = FLIGHT_MARK_ANSWER,
				.result = (uint8_t)a->rc,
				.seq = q->seq,
				.value = q->seq,
				.client = q->clientid};
	GpuSim__Reply *reply = NULL;

	if (a->rc == RC_OK && is_quiet(q->body_case))
		return;
	m.comm = wire_request_comm(q);
	if (a->rc != RC_OK)
		reply = gpu_sim__reply__unpack(NULL, a->body.len, (const uint8_t *)a->body.data);
	flight_mark(&r->steps, &m, reply ? reply->message : NULL);
	if (reply)
		gpu_sim__reply__free_unpacked(reply, NULL);
}

static void
record_call(struct recorder *r, const struct coord_action *a)
{
	const struct flight_mark m = {
	    .what = FLIGHT_MARK_CALL, .device = a->device_id, .seq = a->token, .value = a->token};
	uint32_t kind = wire_packed_kind(a->body.data, a->body.len);

	if (!is_quiet(kind))
		flight_mark(&r->steps, &m, kind_name(kind));
}

static void
record_note(struct recorder *r, const struct coord_action *a)
{
	const struct flight_mark m = {.what = a->event ? FLIGHT_MARK_EVENT : FLIGHT_MARK_DECISION,
				      .device = a->device_id,
				      .comm = a->comm_id,
				      .rank = a->rank,
				      .value = a->event ? a->event - 1 : 0};

	flight_mark(&r->steps, &m, a->body.data);
}

void
recorder_action(struct recorder *r, const struct coord_action *a)
{
	if (!r)
		return;
	switch (a->kind) {
	case COORD_ANSWER:
		if (a->token)
			record_answer(r, a);
		break;
	case COORD_CALL:
		record_call(r, a);
		break;
	case COORD_LOG:
	case COORD_NOTE:
		record_note(r, a);
		break;
	case COORD_SPAWN:
		flight_mark(
		    &r->steps,
		    &(struct flight_mark){.what = FLIGHT_MARK_DECISION, .device = a->device_id},
		    "its process will be started again");
		break;
	case COORD_DISCARD:
		flight_mark(
		    &r->steps,
		    &(struct flight_mark){.what = FLIGHT_MARK_DECISION, .device = a->device_id},
		    "its memory file is removed: nobody waits for it");
		break;
	case COORD_ALGO:
	case COORD_PROVE:
	case COORD_REPORT:
	case COORD_STORE:
	case COORD_ASK_ECHO:
	case COORD_LOOK:
		break;
	}
}

void
recorder_report(struct recorder *r, uint64_t number, uint64_t comm_id, const char *text, enum rc rc)
{
	const struct flight_mark m = {
	    .what = FLIGHT_MARK_REPORT, .result = (uint8_t)rc, .comm = comm_id, .value = number};

	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	flight_mark(&r->reports, &m, text);
	pthread_mutex_unlock(&r->lock);
}
