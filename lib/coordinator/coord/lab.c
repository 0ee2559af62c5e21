/*
 * lab.c - the lab's AllReduceRing and Memcpy, as a submit and as a call to a device.
 */
#include "coord/top.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- AllReduceRing: a submit of one operation for each rank */

struct ring_rank {
	GpuSim__Coll coll;
	GpuSim__Op op, *ops[1];
	GpuSim__RankOps ranks;
};

/* The lab's clients do not learn of lost ranks; addresses for more ranks than remain are for those of
 * CommInit. */
static enum rc
ring_addresses(const struct comm *comm, const GpuSim__AllReduceRingRequest *q,
	       struct ring_rank *rank, struct err *err)
{
	uint32_t n = comm_nranks(comm), largest = 0;

	for (size_t i = 0; i < q->n_memaddrs; i++)
		largest = q->memaddrs[i]->key > largest ? q->memaddrs[i]->key : largest;
	if (largest >= n && largest >= comm_first_nranks(comm))
		return err_set(err, RC_INVAL,
			       "memAddrs names rank %u, but communicator %" PRIu64 " has %u ranks",
			       largest, comm_id(comm), n);
	for (uint32_t r = 0; r < n; r++) {
		uint32_t key = largest >= n ? comm_first_rank(comm, r) : r;
		GpuSim__Coll *m = &rank[r].coll;

		for (size_t i = 0; i < q->n_memaddrs; i++)
			if (q->memaddrs[i]->key == key && q->memaddrs[i]->value)
				m->sendaddr = m->recvaddr = q->memaddrs[i]->value->value;
		if (m->sendaddr == 0)
			return err_set(err, RC_INVAL, "memAddrs has no address for rank %u", r);
	}
	return RC_OK;
}

static enum rc
ring_submit(struct coord *c, struct comm *comm, const GpuSim__AllReduceRingRequest *q,
	    struct ring_rank *rank, GpuSim__RankOps **list, struct pending *p, struct err *err)
{
	GpuSim__SubmitRequest s = GPU_SIM__SUBMIT_REQUEST__INIT;
	char algo[] = "ring";
	uint64_t operation;
	enum rc rc;

	for (uint32_t r = 0; r < comm_nranks(comm); r++) {
		struct ring_rank *rr = &rank[r];

		gpu_sim__coll__init(&rr->coll);
		gpu_sim__op__init(&rr->op);
		gpu_sim__rank_ops__init(&rr->ranks);
		rr->coll.algo = algo;
		rr->coll.dtype = q->dtype;
		rr->coll.redop = q->op;
		rr->coll.nelem = q->count;
		rr->op.kind_case = GPU_SIM__OP__KIND_COLL;
		rr->op.coll = &rr->coll;
		rr->ops[0] = &rr->op;
		rr->ranks.rank = r;
		rr->ranks.n_ops = 1;
		rr->ranks.ops = rr->ops;
		list[r] = &rr->ranks;
	}
	rc = ring_addresses(comm, q, rank, err);
	s.commid = comm_id(comm);
	s.n_ranks = comm_nranks(comm);
	s.ranks = list;
	return rc == RC_OK ? comm_submit(c, comm, &s, p, false, &operation, err) : rc;
}

enum rc
on_all_reduce_ring(struct coord *c, struct pending *p, const GpuSim__Request *req, struct err *err)
{
	GpuSim__AllReduceRingResponse r = GPU_SIM__ALL_REDUCE_RING_RESPONSE__INIT;
	GpuSim__RankOps **list;
	struct ring_rank *rank;
	struct comm *comm;
	enum rc rc = comm_usable(c, req->allreducering->commid, &comm, err);

	if (rc != RC_OK)
		return rc;
	rank = alloc_zeroed(comm_nranks(comm), sizeof *rank);
	list = alloc_zeroed(comm_nranks(comm), sizeof(void *));
	comm_works_for_lab(comm);
	if (rank && list)
		rc = ring_submit(c, comm, req->allreducering, rank, list, p, err);
	else
		rc = comm_nomem(comm, err);
	free(rank);
	free(list);
	if (rc != RC_OK)
		return rc;
	r.success = true;
	answer_body(c, p, GPU_SIM__REPLY__BODY_ALL_REDUCE_RING, &r);
	return RC_OK;
}

/* ---- Memcpy: passed on to the device */

static void
answer_copied(struct coord *c, struct pending *p, const GpuSim__Reply *from)
{
	GpuSim__MemcpyResponse r = GPU_SIM__MEMCPY_RESPONSE__INIT;
	GpuSim__MemcpyHostToDeviceResponse in = GPU_SIM__MEMCPY_HOST_TO_DEVICE_RESPONSE__INIT;
	GpuSim__MemcpyDeviceToHostResponse out = GPU_SIM__MEMCPY_DEVICE_TO_HOST_RESPONSE__INIT;

	if (from->body_case == GPU_SIM__REPLY__BODY_READ) {
		out.dstdata = from->read->data;
		r.either_case = GPU_SIM__MEMCPY_RESPONSE__EITHER_DEVICE_TO_HOST;
		r.devicetohost = &out;
	} else {
		in.success = true;
		r.either_case = GPU_SIM__MEMCPY_RESPONSE__EITHER_HOST_TO_DEVICE;
		r.hosttodevice = &in;
	}
	answer_body(c, p, GPU_SIM__REPLY__BODY_MEMCPY, &r);
}

struct copy {
	struct call call;
	struct pending *p;
};

static bool
name_device(struct coord *c, struct pending *p, struct err *err)
{
	err_set(err, RC_TIMEOUT, "device %016" PRIx64 " has not answered for %.1fs", pending_id(p),
		(double)(c->now_ms - pending_asker(p)->asked_ms) / 1e3);
	return false;
}

static void
left(struct coord *c, struct pending *p)
{
	struct copy *copy = pending_own(p);

	call_cancel(c, &copy->call);
	free(copy);
}

static const struct wait wait_copy = {.late = name_device, .left = left};

static void
copied(struct coord *c, void *owner, uint32_t rank, const struct outcome *o)
{
	struct copy *copy = owner;
	struct err err;

	(void)rank;
	if (o->err.rc == RC_OK) {
		answer_copied(c, copy->p, o->reply);
		return;
	}
	err_set(&err, o->err.rc, "device %016" PRIx64 "%s %s", device_id(o->dev),
		o->gone ? "" : ":", o->err.text);
	answer_failure(c, copy->p, &err);
}

static enum rc
copy_start(struct coord *c, struct pending *p, const GpuSim__DeviceId *id, uint64_t nbytes,
	   uint32_t field, const ProtobufCMessage *q, struct err *err)
{
	struct device *d = id ? device_find(c, id->value) : NULL;

	d = d ? device_in_place(c, d) : NULL; /* the lab's clients name the devices of CommInit */
	struct buf body = {0};
	struct copy *copy;

	if (!id)
		return err_set(err, RC_INVAL, "memcpy: no device given");
	if (!d)
		return err_set(err, RC_NOTFOUND, "no device %016" PRIx64, id->value);
	if (nbytes > WIRE_BULK_MAX)
		return err_set(err, RC_INVAL,
			       "memcpy of %" PRIu64
			       " bytes through the coordinator: the limit is %u; "
			       "gpusim_memcpy and gpuctl memcpy copy any size",
			       nbytes, WIRE_BULK_MAX);
	if (pending_due_ms(p) <= c->now_ms)
		return err_set(err, RC_TIMEOUT, "memcpy: the client's deadline is too near");
	copy = alloc_zeroed(1, sizeof *copy);
	if (!copy)
		return err_set(err, RC_NOMEM, "memcpy: out of memory");
	copy->p = p;
	pack_request(field, q, NULL, &body);
	pending_wait(c, p, &wait_copy, id->value, copy);
	call_start(c, &copy->call, d, copied, copy, 0, pending_due_ms(p) - c->now_ms, &body);
	return RC_OK;
}

enum rc
on_memcpy(struct coord *c, struct pending *p, const GpuSim__Request *req, struct err *err)
{
	GpuSim__WriteRequest in = GPU_SIM__WRITE_REQUEST__INIT;
	GpuSim__ReadRequest out = GPU_SIM__READ_REQUEST__INIT;
	const GpuSim__MemcpyHostToDeviceRequest *h2d;
	const GpuSim__MemcpyDeviceToHostRequest *d2h;

	switch (req->memcpy->either_case) {
	case GPU_SIM__MEMCPY_REQUEST__EITHER_HOST_TO_DEVICE:
		h2d = req->memcpy->hosttodevice;
		in.addr = h2d->dstmemaddr ? h2d->dstmemaddr->value : 0;
		in.data = h2d->hostsrcdata;
		return copy_start(c, p, h2d->dstdeviceid, in.data.len, GPU_SIM__REQUEST__BODY_WRITE,
				  &in.base, err);
	case GPU_SIM__MEMCPY_REQUEST__EITHER_DEVICE_TO_HOST:
		d2h = req->memcpy->devicetohost;
		out.addr = d2h->srcmemaddr ? d2h->srcmemaddr->value : 0;
		out.nbytes = d2h->numbytes;
		return copy_start(c, p, d2h->srcdeviceid, out.nbytes, GPU_SIM__REQUEST__BODY_READ,
				  &out.base, err);
	default:
		return err_set(err, RC_INVAL, "memcpy: no direction given");
	}
}
