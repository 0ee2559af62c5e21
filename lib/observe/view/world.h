/*
 * world.h - the state at one moment: the coordinator's answers and the recorders' areas. Every view is
 * a pure function of it: timeline, explain, top, page, metrics.
 *
 * gpuctl fills it over the network, gpucoord from within, and a report file holds one.
 */
#ifndef VIEW_WORLD_H
#define VIEW_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"
#include "coll/grid.h"
#include "flight/read.h"
#include "gpu_sim.pb-c.h"

struct world_ring {
	uint32_t index;		 /* of the area's rings */
	struct flight_ring ring; /* identity, live operation, counters */
	union flight_record *record;
	size_t nrecords;
	uint64_t lost, bad;
	uint64_t next;	 /* number of the record after the last one here */
	char process;	 /* of ring.pid, as in struct world_device */
	char thread;	 /* of ring.now.tid, likewise */
	uint32_t tracer; /* of ring.pid */
};

/* The contents of a recorder. */
struct world_recorder {
	struct flight_header header;
	struct flight_clock clock; /* one for all recorders of a host */
	struct world_ring *ring;
	size_t nrings;
};

struct world_device {
	const GpuSim__DeviceMetadata *meta; /* of status->devices */
	struct world_recorder *recorder;    /* NULL: it could not be read, or is switched off */
	char why_not[160];		    /* why it was not read */
	/* As in /proc/PID/stat: 'R', 'S', 'T' stopped, 'Z'; 'X': no process; 0: not on this host. */
	char process;
	uint32_t tracer; /* of a stopped process: the process that debugs it; or 0 */
};

/* The program that made a communicator. */
struct world_holder {
	char process; /* as in struct world_device */
	uint32_t tracer;
};

struct world {
	GpuSim__StatusResponse *status;
	GpuSim__EventsResponse *events; /* or NULL */
	struct world_device *device;	/* status->n_devices, in that order */
	size_t ndevices;
	struct world_holder *holder;	    /* status->n_comms, in that order */
	struct world_recorder *coordinator; /* or NULL */
	uint64_t now_ns;		    /* since 1970, on the coordinator's clock */
	uint64_t report;		    /* number of its report; 0: it is live */
	uint64_t failed_comm;		    /* in a report: the communicator that failed */
	char failed[480];		    /* and its sentence */
};

/*
 * world_new - make a world of the two answers, which it owns from then on; events may be NULL.
 * RC_NOMEM: the caller still owns them.
 */
enum rc world_new(GpuSim__StatusResponse *status, GpuSim__EventsResponse *events, uint64_t now_ns,
		  struct world **out, struct err *err);

/* As world_new, of the answers to a Status and an Events request, which it frees in any case. */
enum rc world_of_answers(GpuSim__Reply *status, GpuSim__Reply *events, uint64_t now_ns,
			 struct world **out, struct err *err);

/* NULL is legal. */
void world_free(struct world *w);

/*
 * world_read - read the recorder of device i (of the coordinator: WORLD_COORDINATOR).
 *
 *	records	number of last records of each ring; SIZE_MAX: all; 0: only current operations and counters
 *
 * Earlier data of it are replaced. If the recorder cannot be read, why_not has the reason. RC_NOMEM only.
 */
#define WORLD_COORDINATOR SIZE_MAX
enum rc world_read(struct world *w, size_t i, const struct flight_source *s, size_t records,
		   struct err *err);

/* A process or thread of this host: its state, as in struct world_device. *tracer, if not NULL: the
 * process that debugs it if it is stopped, or 0. */
char world_process(uint32_t pid, uint32_t *tracer);

/* Look up the process of each device, client and holder on this host. */
void world_processes(struct world *w);

/* Add the communicators that the devices' recorders mention, to a world without them. The clocks must
 * be set. RC_NOMEM. */
enum rc world_alone(struct world *w, struct err *err);

/* After reading all recorders: set one clock per host, from the recorder with the longest baseline. */
void world_clocks(struct world *w);

/* The time from a recorder's ticks to the world's time; 0: ticks is 0. */
uint64_t world_ns_since(const struct world *w, const struct world_recorder *r, uint64_t ticks);

/* Recorder i: a device's, or at ndevices the coordinator's. NULL: it was not read. */
struct world_recorder *world_recorder(const struct world *w, size_t i);

struct plan_algo; /* coll/plan.h */

/* The algorithm of an operation; NULL: it is not known. */
const struct plan_algo *world_algo(const struct flight_op *op);

/* The displayed name of a kind of event, such as "comm-failed"; `unknown`: for an unknown number. */
#define WORLD_EVENT_NAME 48
const char *world_event_name(int kind, const char *unknown, char out[WORLD_EVENT_NAME]);

/* NULL: not found. */
const struct world_device *world_device(const struct world *w, uint64_t device_id);
const GpuSim__CommSummary *world_comm(const struct world *w, uint64_t comm_id);

/* "d1 t0 p1": the place of a rank in its communicator's grid; "": none. */
const char *world_place(const struct world *w, uint64_t comm_id, uint32_t rank,
			char out[GRID_TEXT]);

/* ---- reports: a world in a file
 *
 *	0	8	24		24 + n
 *	+-------+-------+---------------+
 *	| magic | n crc | packed Report |	n: u64; crc: u64, CRC-32C of the n bytes; little-endian
 *	+-------+-------+---------------+
 *
 * An empty file is a report that is being written: another takes its place, by a rename.
 */

#define WORLD_REPORT_MAX (1u << 30) /* bytes of a report, at most */

/*
 * world_pack - append a report.
 *
 *	report	its number, at least 1
 *	areas	ndevices + 1 areas (flight_copy) that may be empty: of the devices, then of the coordinator
 *
 * RC_NOMEM; *out is then unchanged.
 */
enum rc world_pack(const struct world *w, uint64_t report, uint64_t comm, const char *reason,
		   const struct buf *areas, struct buf *out, struct err *err);

/* Unpack a report, with all records. RC_BADDATA: not a report, or damaged; RC_NOMEM. */
enum rc world_unpack(const void *data, size_t nbytes, struct world **out, struct err *err);

/* Read a report from a file; waits up to 5 s for one that is being written. RC_NOTFOUND: no such file;
 * RC_FAILED: it cannot be read. */
enum rc world_of_report(const char *path, struct world **out, struct err *err);

#endif
