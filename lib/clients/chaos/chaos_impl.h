/*
 * chaos_impl.h - shared by chaos's files: operations and faults drawn from a seed, results checked against
 * the host's, the communicator.
 */
#ifndef CHAOS_CHAOS_IMPL_H
#define CHAOS_CHAOS_IMPL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/api.h"
#include "chaos/chaos.h"

/*
 * Chaos's timeouts. They are fixed: they are small compared with the bound of an operation, which
 * the caller sets, and longer ones would only slow down a run with dead devices.
 */

#define CHAOS_SIDE_MS	3000 /* a call that injects a fault, moves memory or looks */
#define CHAOS_RETURN_MS 3000 /* devices that may still come back, before fewer are enough */
#define CHAOS_POLL_MS	20   /* between two looks for free devices */

#define CHAOS_BYTES (1u << 20) /* of a vector; each rank has two such buffers */

/* ---- draw.c: from seeds alone. The draw of number i does not depend on any other number. */

struct chaos_op {
	uint64_t seed; /* of its elements */
	enum gpusim_coll coll;
	enum gpusim_dtype dtype; /* an integer */
	enum gpusim_redop redop;
	const char *algo;
	uint64_t nelem; /* a multiple of the ranks' number where ranks have parts */
	uint32_t nranks, root;
	bool in_place;
	uint64_t chunk_bytes; /* 0: default */
};

/* Operation number i for nranks ranks; one_sided: steps may read peers' memory. */
void chaos_draw_op(uint64_t seed, uint64_t i, uint32_t nranks, bool one_sided,
		   struct chaos_op *out);

/* One line, without newline. */
void chaos_show_op(const struct chaos_op *o, char *out, size_t n);

struct chaos_fault {
	double after;	 /* time after the previous fault, times the rate */
	uint32_t victim; /* rank victim % nranks */
	bool coordinator;
	struct gpusim_fault f;
};

/* Fault number i, of one of the kinds (bits). frames_of_sends: faults of frames wait for a send. */
void chaos_draw_fault(uint64_t seed, uint64_t i, unsigned kinds, bool frames_of_sends,
		      struct chaos_fault *out);
void chaos_show_fault(const struct chaos_fault *f, char *out, size_t n);

/* ---- data.c */

/* A rank's factor of premulsum, as an element. */
void chaos_factor(const struct chaos_op *o, uint32_t rank, void *to);

/* Elements [0, n) of a rank's input. */
void chaos_fill(const struct chaos_op *o, uint32_t rank, void *to, uint64_t n);

/*
 * Return true if this is a rank's right output, if these ranks took part.
 *
 *	took	their ranks when the operation began, ascending
 *	me	an index in it
 *	got	its output
 */
bool chaos_check(const struct chaos_op *o, const uint32_t *took, uint32_t ntook, uint32_t me,
		 const void *got);

/* ---- chaos.c, operate.c and comm.c */

/* Memory of a device: two buffers. */
struct chaos_slot {
	struct gpusim_device device;
	struct gpusim_addr send, recv;
	bool stale; /* an earlier communicator may write there: to be freed */
};

struct chaos {
	const struct chaos_config *cfg;
	struct gpusim *g, *side;
	uint64_t bound_ns;
	uint32_t ndevices; /* at the beginning */
	/* comm, live: written only by the main thread; counts of faults; cfg->say */
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool ending;
	bool quiet; /* report only alarms */
	bool live;
	struct gpusim_comm *comm;
	bool by_memory; /* every rank maps every other */
	struct chaos_slot slot[CHAOS_MAX_RANKS];
	unsigned nslots;
	unsigned char *room; /* of each rank, CHAOS_BYTES */
	uint64_t nfaults;    /* drawn */
	double next_fault;   /* in operations, or seconds from start_ns */
	uint64_t start_ns;
	struct chaos_report *sum;
};

/* Report to the caller. */
void chaos_say(struct chaos *c, enum chaos_event event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Make sure of a working communicator of all free devices, up to cfg->nranks. RC_FAILED: no two devices
 * answer. */
enum rc chaos_settle(struct chaos *c, struct err *err);

/* Make the first communicator, over cfg->nranks free devices; waits for them. */
enum rc chaos_begin(struct chaos *c, struct err *err);

/* Bring c->comm up to date. */
enum rc chaos_refresh(struct chaos *c, struct err *err);

/* After a failure: chaos_mend keeps the communicator if it still works, chaos_drop destroys it. */
void chaos_mend(struct chaos *c);
void chaos_drop(struct chaos *c);

/* Run operation number i and count its result. */
void chaos_operate(struct chaos *c, uint64_t i);

/* The memory of a device. */
struct chaos_slot *chaos_slot_of(struct chaos *c, struct gpusim_device device);

#endif
