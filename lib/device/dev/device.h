/*
 * device.h - one simulated GPU: memory, streams, kernels, peers, and the service that offers them.
 */
#ifndef DEV_DEVICE_H
#define DEV_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"
#include "mem/devmem.h"
#include "net/net.h"
#include "net/rpc_server.h"

struct device;
struct tape;

struct device_config {
	uint64_t id; /* 0: the id in an existing memory file, else random */
	uint64_t mem_bytes;
	uint64_t client_bytes; /* what one client may lease; 0: all of it */
	uint32_t nrecords;     /* records that each stream keeps; 0: none */
	const char *mem_path;  /* NULL: under /dev/shm */
	enum devmem_fate mem_fate;
	/* the coordinator that may still use the memory of a killed device; or NULL */
	const char *coordinator;
	const char *data_addr;
	uint32_t ordinal;
	uint64_t latency_ns, bits_per_s; /* of the device's link, see xport/shaper.h */
	const char *mem_private; /* why no peer may map the memory; NULL: peers of this host may */
	struct tape *tape;	 /* recording of operations, which outlives the device; or NULL */
	bool allow_inject;	 /* faults may be injected, see injector.h */
	void (*say)(const char *line);	/* log a line, on any thread; or NULL */
	void (*tell)(const char *line); /* log a line per collective, send and receive; or NULL */
	void (*wake)(void *);		/* device_report has something, on any thread; or NULL */
	void *wake_arg;
	/* Of a matrix product; this and the following are only for the metadata */
	uint32_t threads;
	bool supervised; /* its parent restarts it when it is killed */
	bool spare;	 /* waits to take a lost rank's place */
	bool join;	 /* offers itself to communicators that grow */
};

enum rc device_new(const struct device_config *cfg, struct device **out, struct err *err);

/* End all runs: their callers get RC_ABORTED. Call before the server is stopped. */
void device_stop(struct device *d);

/* Free a stopped device without callers. NULL is legal. */
void device_end(struct device *d);

/* Serve a request; for struct rpc_handler, arg is the device. */
void device_call(void *device, struct rpc_call *call);
void device_gone(void *device, uint64_t client_id);

/*
 * device_beat - update the recorder's clocks and the coordinator's offset; call with each heartbeat.
 *
 *	offset_ns	the coordinator's CLOCK_REALTIME minus this host's
 *	error_ns	the offset's maximum error; UINT64_MAX: unknown
 */
void device_beat(struct device *d, int64_t offset_ns, uint64_t error_ns);

/* Handle leases, pending requests, faults; call every 100 ms or so. */
void device_tick(struct device *d);

/* Set its control address, for the metadata. */
void device_set_address(struct device *d, const char *addr);

/* Set its gRPC address, "host:port", for the metadata. */
void device_set_grpc(struct device *d, const char *addr);

/* The device's description; its pointers are valid as long as *room and the device. */
struct device_room {
	GpuSim__DeviceId id;
	GpuSim__MemAddr min, max;
	char address[NET_ADDR_MAX], grpc[NET_ADDR_MAX];
};
void device_metadata(struct device *d, GpuSim__DeviceMetadata *m, struct device_room *room);

/* The progress of its streams: at most DEVICE_PROGRESS_MAX messages, stored in *room. Returns their
 * number. */
#define DEVICE_PROGRESS_MAX 64
struct device_progress {
	GpuSim__Progress v[DEVICE_PROGRESS_MAX], *p[DEVICE_PROGRESS_MAX];
};
size_t device_progress(struct device *d, struct device_progress *room);

/* The counts of ranks that processes drive: at most DEVICE_QUEUED_MAX messages, stored in *room. */
#define DEVICE_QUEUED_MAX 256
struct device_queued {
	GpuSim__QueuedCount v[DEVICE_QUEUED_MAX], *p[DEVICE_QUEUED_MAX];
};
size_t device_queued(struct device *d, struct device_queued *room);
void device_queued_fini(struct device_queued *room, size_t n);

/* Take the next report of a lost rank for the coordinator. False: none. */
struct cmdq_report;
bool device_report(struct device *d, struct cmdq_report *out);

uint64_t device_own_id(const struct device *d);

#endif
