/*
 * Design notes. A server's thread, nng's or gRPC's, brings each request and answers it, except runs and
 * waits, which streams answer. gRPC's requests are those of serve_transfer, reads of memory and the
 * metadata, which take locks; all others come from nng alone. The protocol decides about communicators,
 * graphs and runs (serve_protocol.c). Requests access memory while kernels run, as host copies on a GPU
 * do: clients order them.
 */
#include "dev/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "dev/device_impl.h"
#include "kern/kernel.h"

/* A device that cannot record works without. */
static void
record(struct device *d, const struct device_config *cfg)
{
	struct flight_identity who = {d->id, d->incarnation, d->ordinal, "gpudev"};
	char line[sizeof(struct err) + 64];
	struct err err;

	if (device_recorder_open(&d->recorder, d->mem, cfg->nrecords, &who, &err) == RC_OK)
		return;
	snprintf(line, sizeof line, "recording is off: %s", err.text);
	if (cfg->say)
		cfg->say(line);
}

/* Open its memory, and what lies there: leases, the recorder's area, snapshots. */
static enum rc
open_memory(struct device *d, const struct device_config *cfg, struct err *err)
{
	enum rc rc = devmem_open(cfg->mem_path, d->id, cfg->mem_bytes, &d->mem, err);

	/* A device with a configured id may return under it. */
	if (rc == RC_OK && d->mem_fate == DEVMEM_UNLINK_FILE && (cfg->mem_path || !cfg->id))
		rc = devmem_mark(d->mem, cfg->coordinator, err);
	if (rc == RC_OK &&
	    !(d->leases = leases_new(d->mem, cfg->client_bytes ? cfg->client_bytes : UINT64_MAX)))
		rc = err_set(err, RC_NOMEM, "out of memory");
	if (rc == RC_OK) {
		d->incarnation = devmem_incarnation(d->mem);
		rc = leases_inherit(d->leases, clock_now_ns(), err);
	}
	if (rc == RC_OK)
		record(d, cfg);
	if (rc == RC_OK)
		rc = snapshots_new(d->mem, &d->snapshots, err);
	return rc;
}

enum rc
device_new(const struct device_config *cfg, struct device **out, struct err *err)
{
	struct device *d = calloc(1, sizeof *d);
	struct xport_config xc = {.data_addr = cfg->data_addr,
				  .latency_ns = cfg->latency_ns,
				  .bits_per_s = cfg->bits_per_s,
				  .check_all = cfg->allow_inject,
				  .say = cfg->say};
	enum rc rc;

	if (!d)
		return err_set(err, RC_NOMEM, "out of memory");
	pthread_mutex_init(&d->lock, NULL);
	pthread_mutex_init(&d->feed_lock, NULL);
	d->feed_tail = &d->feed_head;
	d->id = cfg->id;
	if (d->id == 0 && cfg->mem_path)
		d->id = devmem_file_id(cfg->mem_path); /* the file's device returns */
	if (d->id == 0)
		d->id = net_random();
	xc.device_id = d->id;
	d->ordinal = cfg->ordinal;
	d->mem_fate = cfg->mem_fate;
	d->latency_ns = cfg->latency_ns;
	d->bits_per_s = cfg->bits_per_s;
	d->threads = cfg->threads;
	d->supervised = cfg->supervised;
	d->spare = cfg->spare;
	d->join = cfg->join;
	/* A shaped link simulates a network, which peer memory would bypass. */
	d->mem_private =
	    cfg->latency_ns || cfg->bits_per_s ? "its link is shaped" : cfg->mem_private;
	host_id(d->host);
	if (!*d->host)
		snprintf(d->host, sizeof d->host, "unknown");
	rc = open_memory(d, cfg, err);
	if (rc == RC_OK && !(d->protocol = protocol_new(d->id)))
		rc = err_set(err, RC_NOMEM, "out of memory");
	if (rc == RC_OK && !(d->env.events = event_table_new()))
		rc = err_set(err, RC_NOMEM, "out of memory");
	xc.mem = d->mem_private ? NULL : d->mem;
	if (rc == RC_OK)
		rc = xport_new(&xc, &d->xport, err);
	if (rc == RC_OK && cfg->allow_inject &&
	    !(d->inject = injector_new(d->xport, cfg->tape, cfg->say)))
		rc = err_set(err, RC_NOMEM, "out of memory");
	if (rc == RC_OK) {
		d->env.mem = d->mem;
		d->env.xport = d->xport;
		d->env.held = &d->held;
		d->env.inject = d->inject;
		d->env.flight = d->recorder.flight;
		if (d->inject)
			d->inject->recorder = &d->recorder;
		d->env.tell = cfg->tell;
		d->env.tape = cfg->tape;
		rc = streams_new(&d->env, &d->streams, err);
	}
	if (rc == RC_OK)
		rc = cmdqs_new(&d->env, d->streams, cfg->wake, cfg->wake_arg, &d->cmdqs, err);
	if (rc != RC_OK)
		device_end(d);
	else
		*out = d;
	return rc;
}

void
device_stop(struct device *d)
{
	atomic_store(&d->adopt.stop, true);
	xport_abort_all(d->xport, "the device is shutting down");
	cmdqs_stop(d->cmdqs);
	streams_stop(d->streams);
}

void
device_end(struct device *d)
{
	if (!d)
		return;
	atomic_store(&d->adopt.stop, true);
	device_join_adopt(d);
	for (unsigned i = 0; i < PROTOCOL_MAX_GRAPHS; i++)
		if (d->graph[i])
			streams_drop(d->streams, d->graph[i]);
	cmdqs_free(d->cmdqs);
	streams_free(d->streams);
	injector_free(d->inject);
	xport_free(d->xport);
	event_table_free(d->env.events);
	snapshots_free(d->snapshots);
	leases_free(d->leases);
	device_recorder_close(&d->recorder);
	devmem_close(d->mem, d->mem_fate);
	protocol_free(d->protocol);
	pthread_mutex_destroy(&d->feed_lock);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

uint64_t
device_own_id(const struct device *d)
{
	return d->id;
}

void
device_set_address(struct device *d, const char *addr)
{
	pthread_mutex_lock(&d->lock);
	snprintf(d->address, sizeof d->address, "%s", addr);
	pthread_mutex_unlock(&d->lock);
}

void
device_set_grpc(struct device *d, const char *addr)
{
	pthread_mutex_lock(&d->lock);
	snprintf(d->grpc, sizeof d->grpc, "%s", addr);
	pthread_mutex_unlock(&d->lock);
}

void
device_metadata(struct device *d, GpuSim__DeviceMetadata *m, struct device_room *room)
{
	*m = (GpuSim__DeviceMetadata)GPU_SIM__DEVICE_METADATA__INIT;
	room->id = (GpuSim__DeviceId)GPU_SIM__DEVICE_ID__INIT;
	room->min = room->max = (GpuSim__MemAddr)GPU_SIM__MEM_ADDR__INIT;
	room->id.value = d->id;
	room->min.value = devmem_min(d->mem);
	room->max.value = devmem_max(d->mem);
	m->deviceid = &room->id;
	m->minmemaddr = &room->min;
	m->maxmemaddr = &room->max;
	pthread_mutex_lock(&d->lock);
	snprintf(room->address, sizeof room->address, "%s", d->address);
	snprintf(room->grpc, sizeof room->grpc, "%s", d->grpc);
	pthread_mutex_unlock(&d->lock);
	m->address = room->address;
	m->grpcaddress = room->grpc;
	m->dataaddress = (char *)xport_address(d->xport);
	m->mempath = (char *)devmem_path(d->mem);
	devmem_inode(d->mem, &m->memdev, &m->meminode);
	m->memuser = (uint32_t)geteuid() + 1;
	m->memprivate = (char *)(d->mem_private ? d->mem_private : "");
	m->host = d->host;
	m->pid = (uint32_t)getpid();
	m->ordinal = d->ordinal;
	m->incarnation = d->incarnation;
	m->usedbytes = devmem_used(d->mem, NULL);
	m->spare = d->spare;
	m->join = d->join;
	m->threads = d->threads;
	m->supervised = d->supervised;
	m->latencyns = d->latency_ns;
	m->bitspers = d->bits_per_s;
	m->kernels = (char *)load_files();
	m->memkept = d->mem_fate == DEVMEM_PERSIST_FILE;
}

size_t
device_progress(struct device *d, struct device_progress *room)
{
	struct progress v[DEVICE_PROGRESS_MAX];
	size_t n = streams_progress(d->streams, v, DEVICE_PROGRESS_MAX);

	n += cmdqs_progress(d->cmdqs, v + n, DEVICE_PROGRESS_MAX - n);
	for (size_t i = 0; i < n; i++) {
		GpuSim__Progress *m = &room->v[i];

		*m = (GpuSim__Progress)GPU_SIM__PROGRESS__INIT;
		m->commid = v[i].comm;
		m->epoch = v[i].epoch;
		m->operation = v[i].op;
		m->step = v[i].step;
		m->steps = v[i].steps;
		m->idlems = v[i].idle_ns / NS_PER_MS;
		m->waitsfor = v[i].waits_for;
		room->p[i] = m;
	}
	return n;
}

size_t
device_queued(struct device *d, struct device_queued *room)
{
	struct cmdq_count v[DEVICE_QUEUED_MAX];
	size_t n = cmdqs_counts(d->cmdqs, v, DEVICE_QUEUED_MAX);

	for (size_t i = 0; i < n; i++) {
		room->v[i] = (GpuSim__QueuedCount)GPU_SIM__QUEUED_COUNT__INIT;
		room->v[i].commid = v[i].comm;
		room->v[i].operations = v[i].operations;
		room->v[i].waitedns = v[i].waited_ns;
		room->v[i].n_waitedns = v[i].waited_ns ? v[i].nranks : 0;
		room->p[i] = &room->v[i];
	}
	return n;
}

void
device_queued_fini(struct device_queued *room, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(room->v[i].waitedns);
}

bool
device_report(struct device *d, struct cmdq_report *out)
{
	return cmdqs_report(d->cmdqs, out);
}

void
device_beat(struct device *d, int64_t offset_ns, uint64_t error_ns)
{
	flight_offset(d->recorder.flight, offset_ns, error_ns);
	flight_beat(d->recorder.flight, devmem_used(d->mem, NULL),
		    devmem_max(d->mem) - devmem_min(d->mem));
}

void
device_tick(struct device *d)
{
	leases_tick(d->leases, clock_now_ns());
	streams_tick(d->streams);
	cmdqs_tick(d->cmdqs, &d->recorder);
	injector_tick(d->inject);
}

void
device_gone(void *device, uint64_t client_id)
{
	struct device *d = device;

	lease_client_gone(d->leases, client_id, clock_now_ns());
}

void
device_call(void *device, struct rpc_call *call)
{
	struct device *d = device;
	const GpuSim__Request *req = rpc_request(call);
	GpuSim__GetDeviceMetadataResponse r = GPU_SIM__GET_DEVICE_METADATA_RESPONSE__INIT;
	GpuSim__Reply reply = WIRE_REPLY(GET_DEVICE_METADATA, getdevicemetadata, r);
	GpuSim__DeviceMetadata m;
	struct device_room room;
	struct err err;

	lease_client_here(d->leases, req->clientid);
	switch (req->body_case) {
	case GPU_SIM__REQUEST__BODY_GET_DEVICE_METADATA:
		device_metadata(d, &m, &room);
		r.metadata = &m;
		rpc_reply(call, &reply);
		break;
	case GPU_SIM__REQUEST__BODY_MALLOC:
	case GPU_SIM__REQUEST__BODY_FREE:
	case GPU_SIM__REQUEST__BODY_WRITE:
	case GPU_SIM__REQUEST__BODY_READ:
	case GPU_SIM__REQUEST__BODY_CHECKSUM:
		serve_memory(d, call);
		break;
	case GPU_SIM__REQUEST__BODY_COMM_ATTACH:
	case GPU_SIM__REQUEST__BODY_COMM_JOIN:
	case GPU_SIM__REQUEST__BODY_COMM_DETACH:
	case GPU_SIM__REQUEST__BODY_COMM_ABORT:
	case GPU_SIM__REQUEST__BODY_RUN:
	case GPU_SIM__REQUEST__BODY_GRAPH_DEFINE:
	case GPU_SIM__REQUEST__BODY_GRAPH_DROP:
		serve_protocol(d, call);
		break;
	case GPU_SIM__REQUEST__BODY_ADOPT:
		serve_adopt(d, call);
		break;
	case GPU_SIM__REQUEST__BODY_BEGIN_SEND:
	case GPU_SIM__REQUEST__BODY_BEGIN_RECEIVE:
	case GPU_SIM__REQUEST__BODY_STREAM_SEND:
	case GPU_SIM__REQUEST__BODY_GET_STREAM_STATUS:
		serve_transfer(d, call);
		break;
	case GPU_SIM__REQUEST__BODY_QUEUE_OPEN:
	case GPU_SIM__REQUEST__BODY_QUEUE_CLOSE:
	case GPU_SIM__REQUEST__BODY_COMM_BIND:
	case GPU_SIM__REQUEST__BODY_COMM_UNBIND:
		serve_queue(d, call);
		break;
	case GPU_SIM__REQUEST__BODY_RECORDER_READ:
		serve_recorder(d, call);
		break;
	case GPU_SIM__REQUEST__BODY_INJECT:
		serve_inject(d, call);
		break;
	default:
		err_set(&err, RC_INVAL, "%s is a request for the coordinator, not for a device",
			wire_request_name(req));
		rpc_reply_err(call, &err);
	}
}
