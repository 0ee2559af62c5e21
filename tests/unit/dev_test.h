/*
 * dev_test.h - several devices in one process, without their servers: memory, transport, streams;
 * and lists of operations as received.
 */
#ifndef DEV_TEST_H
#define DEV_TEST_H

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "dev/stream.h"
#include "mem/dtype.h"
#include "net/net.h"
#include "tap.h"

#define NODES_MAX  8
#define WATCHDOG_S 300 /* a test that hangs is killed, and so fails */

struct node {
	struct devmem *mem;
	struct xport *xport;
	struct event_table *events;
	struct streams *streams;
	struct program_env env;
	atomic_size_t held;
	char mem_path[NET_ADDR_MAX], addr[NET_ADDR_MAX];
};

enum nodes_way { NODES_BY_SOCKETS, NODES_BY_MEMORY };

struct nodes {
	uint32_t n;
	enum nodes_way way;
	int pid[NODES_MAX]; /* claimed to be theirs; 0: no claim */
	uint64_t dev_off;   /* added to the number of the device that the files are on */
	char dir[64];
	struct node node[NODES_MAX];
};

static inline void
must(enum rc rc, const struct err *err)
{
	if (rc != RC_OK)
		tap_bail(err->text);
}

static inline void
nodes_open_by(struct nodes *v, uint32_t n, uint64_t mem_bytes, enum nodes_way way)
{
	struct err err = {0};

	alarm(WATCHDOG_S);
	memset(v, 0, sizeof *v);
	v->n = n;
	v->way = way;
	snprintf(v->dir, sizeof v->dir, "/tmp/gsd.XXXXXX");
	if (!mkdtemp(v->dir))
		must(RC_FAILED, &(struct err){RC_FAILED, "mkdtemp"});
	for (uint32_t r = 0; r < n; r++) {
		struct node *d = &v->node[r];
		struct xport_config cfg = {.device_id = 0xd0 + r, .data_addr = d->addr};

		snprintf(d->mem_path, sizeof d->mem_path, "%s/mem%u", v->dir, r);
		snprintf(d->addr, sizeof d->addr, "ipc://%s/%u", v->dir, r);
		must(devmem_open(d->mem_path, 0xd0 + r, mem_bytes, &d->mem, &err), &err);
		cfg.mem = way == NODES_BY_MEMORY ? d->mem : NULL;
		must(xport_new(&cfg, &d->xport, &err), &err);
		d->events = event_table_new();
		d->env = (struct program_env){
		    .mem = d->mem, .xport = d->xport, .events = d->events, .held = &d->held};
		must(streams_new(&d->env, &d->streams, &err), &err);
	}
}

static inline void
nodes_open(struct nodes *v, uint32_t n, uint64_t mem_bytes)
{
	nodes_open_by(v, n, mem_bytes, NODES_BY_SOCKETS);
}

/* True if no program is left on any device. */
static inline bool
nodes_close(struct nodes *v)
{
	bool empty = true;

	for (uint32_t r = 0; r < v->n; r++) {
		struct node *d = &v->node[r];

		xport_abort_all(d->xport, "the test is over");
		streams_free(d->streams);
		xport_free(d->xport);
		event_table_free(d->events);
		devmem_close(d->mem, DEVMEM_UNLINK_FILE);
		empty &= d->held == 0;
	}
	rmdir(v->dir);
	return empty;
}

/* The ranks exchange their offers, as directed by the coordinator. */
static inline void
nodes_join(struct nodes *v, uint64_t comm, uint32_t epoch, uint32_t n)
{
	uint64_t block[NODES_MAX];
	bool mapped[NODES_MAX];
	struct err err = {0};

	for (uint32_t r = 0; r < n; r++)
		must(xport_offer(v->node[r].xport, comm, epoch, &block[r], mapped, &err), &err);
	for (uint32_t r = 0; r < n && n > 1; r++) {
		uint64_t others[NODES_MAX];

		memcpy(others, block, sizeof others);
		others[r] = 0;
		must(xport_join(v->node[r].xport, comm, epoch, others, n, &err), &err);
	}
}

/* A communicator of the first n devices; without joining. */
static inline void
nodes_attach_only(struct nodes *v, uint64_t comm, uint32_t epoch, uint32_t n, uint32_t timeout_ms)
{
	struct xport_peer peer[NODES_MAX];
	struct err err = {0};

	for (uint32_t r = 0; r < n; r++) {
		peer[r] = (struct xport_peer){.device_id = 0xd0 + r, .data_addr = v->node[r].addr};
		if (v->way == NODES_BY_MEMORY) {
			peer[r].mem =
			    (struct peermem_id){.path = v->node[r].mem_path, .device_id = 0xd0 + r};
			devmem_inode(v->node[r].mem, &peer[r].mem.dev, &peer[r].mem.inode);
			peer[r].mem.dev += v->dev_off;
			peer[r].pid = v->pid[r];
		}
	}
	for (uint32_t r = 0; r < n; r++) {
		struct xport_membership m = {.comm = comm,
					     .coordinator = 1,
					     .epoch = epoch,
					     .rank = r,
					     .nranks = n,
					     .op_timeout_ms = timeout_ms};
		must(xport_attach(v->node[r].xport, &m, peer, &err), &err);
	}
}

static inline void
nodes_attach(struct nodes *v, uint64_t comm, uint32_t epoch, uint32_t n, uint32_t timeout_ms)
{
	nodes_attach_only(v, comm, epoch, n, timeout_ms);
	if (v->way == NODES_BY_MEMORY)
		nodes_join(v, comm, epoch, n);
}

static inline uint64_t
node_alloc(struct node *d, uint64_t nbytes)
{
	struct err err = {0};
	uint64_t addr = 0;

	must(devmem_alloc(d->mem, nbytes, &addr, &err), &err);
	return addr;
}

/* ---- lists of operations */

#define LIST_MAX 5000
struct list {
	size_t n;
	GpuSim__Op op[LIST_MAX], *p[LIST_MAX];
	union {
		GpuSim__Coll coll;
		GpuSim__Launch launch;
		GpuSim__Memset memset;
		GpuSim__Copy copy;
		GpuSim__Event event;
	} body[LIST_MAX];
};

static inline GpuSim__Op *
list_add(struct list *l, uint32_t stream, GpuSim__Op__KindCase kind)
{
	GpuSim__Op *op = &l->op[l->n];

	*op = (GpuSim__Op)GPU_SIM__OP__INIT;
	op->stream = stream;
	op->kind_case = kind;
	op->coll = &l->body[l->n].coll; /* all share it */
	l->p[l->n++] = op;
	return op;
}

static inline GpuSim__Coll *
list_coll(struct list *l, uint32_t stream, enum gpusim_coll coll, uint64_t send, uint64_t recv,
	  uint64_t nelem)
{
	GpuSim__Coll *c = list_add(l, stream, GPU_SIM__OP__KIND_COLL)->coll;

	*c = (GpuSim__Coll)GPU_SIM__COLL__INIT;
	c->coll = (GpuSim__Collective)coll;
	c->dtype = GPU_SIM__DATA_TYPE__U8;
	c->nelem = nelem;
	c->sendaddr = send;
	c->recvaddr = recv;
	return c;
}

static inline void
list_memset(struct list *l, uint32_t stream, uint64_t addr, unsigned value, uint64_t nbytes)
{
	GpuSim__Memset *m = list_add(l, stream, GPU_SIM__OP__KIND_MEMSET)->memset;

	*m = (GpuSim__Memset)GPU_SIM__MEMSET__INIT;
	m->addr = addr;
	m->value = value;
	m->nbytes = nbytes;
}

static inline void
list_copy(struct list *l, uint32_t stream, uint64_t dst, uint64_t src, uint64_t nbytes)
{
	GpuSim__Copy *m = list_add(l, stream, GPU_SIM__OP__KIND_COPY)->copy;

	*m = (GpuSim__Copy)GPU_SIM__COPY__INIT;
	m->dst = dst;
	m->src = src;
	m->nbytes = nbytes;
}

static inline void
list_event(struct list *l, uint32_t stream, uint64_t id, GpuSim__Op__KindCase record_or_wait)
{
	GpuSim__Event *m = list_add(l, stream, record_or_wait)->record;

	*m = (GpuSim__Event)GPU_SIM__EVENT__INIT;
	m->id = id;
}
#define RECORD GPU_SIM__OP__KIND_RECORD
#define WAIT   GPU_SIM__OP__KIND_WAIT

static inline void
list_launch(struct list *l, uint32_t stream, const char *kernel, GpuSim__KernelArg **args,
	    size_t nargs)
{
	GpuSim__Launch *m = list_add(l, stream, GPU_SIM__OP__KIND_LAUNCH)->launch;

	*m = (GpuSim__Launch)GPU_SIM__LAUNCH__INIT;
	m->kernel = (char *)kernel;
	m->args = args;
	m->n_args = nargs;
}

static inline enum rc
list_build(struct node *d, uint64_t comm, const struct list *l, struct program **out,
	   struct err *err)
{
	return program_build(&d->env, comm, l->p, l->n, out, err);
}

/* ---- runs whose end can be waited for */

struct ending {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	unsigned told;
	struct run_result result;
	uint64_t waited_ns[NODES_MAX]; /* of the result, which is temporary */
};

#define ENDING                                                                      \
	{                                                                           \
		.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER \
	}

static inline void
ending_tell(void *arg, const struct run_result *r)
{
	struct ending *e = arg;

	pthread_mutex_lock(&e->lock);
	e->told++;
	e->result = *r;
	for (uint32_t q = 0; q < r->nranks && q < NODES_MAX; q++)
		e->waited_ns[q] = r->waited_ns[q];
	pthread_cond_signal(&e->cond);
	pthread_mutex_unlock(&e->lock);
}

static inline enum rc
ending_wait(struct ending *e)
{
	pthread_mutex_lock(&e->lock);
	while (!e->told)
		pthread_cond_wait(&e->cond, &e->lock);
	pthread_mutex_unlock(&e->lock);
	return e->result.err.rc;
}

/* Start a program and release it. */
static inline void
node_start(struct node *d, struct program *p, uint64_t first_op, uint64_t stride,
	   uint64_t iterations, struct ending *e)
{
	struct run_spec spec = {.program = p,
				.iterations = iterations,
				.first_op = first_op,
				.stride = stride,
				.done = e ? ending_tell : NULL,
				.arg = e};
	struct err err = {0};

	must(streams_run(d->streams, &spec, &err), &err);
	streams_drop(d->streams, p);
}

/* Build and start. */
static inline void
node_run(struct node *d, uint64_t comm, const struct list *l, uint64_t first_op, struct ending *e)
{
	struct program *p;
	struct err err = {0};

	must(list_build(d, comm, l, &p, &err), &err);
	node_start(d, p, first_op, 0, 1, e);
}

#endif
