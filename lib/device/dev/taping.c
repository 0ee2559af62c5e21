#include "dev/taping.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "coll/parts.h"
#include "wire/crc32c.h"

void
taping_device(struct tape *t, const GpuSim__DeviceMetadata *m)
{
	GpuSim__TapeRecord r = GPU_SIM__TAPE_RECORD__INIT;
	GpuSim__TapeBegin b = GPU_SIM__TAPE_BEGIN__INIT;

	b.role = GPU_SIM__TAPE_ROLE__TAPE_DEVICE;
	b.ordinal = m->ordinal;
	b.deviceid = m->deviceid->value;
	b.incarnation = m->incarnation;
	b.pid = m->pid;
	b.atms = clock_wall_ms();
	b.membytes = m->maxmemaddr->value - m->minmemaddr->value;
	b.withdata = tape_with_data(t);
	b.memprivate = m->memprivate;
	b.dataaddress = m->dataaddress;
	b.version = (char *)GPUSIM_VERSION;
	r.body_case = GPU_SIM__TAPE_RECORD__BODY_BEGIN;
	r.begin = &b;
	tape_put(t, &r);
}

/* ---- operations */

/* The caller's input, without a factor. */
static const unsigned char *
input(const struct inst_coll *c)
{
	return c->given ? c->given : c->base[PLAN_IN];
}

static uint64_t
nbytes(const unsigned char *at, uint64_t nelem, const struct inst_coll *c)
{
	return at ? nelem * c->elem : 0;
}

/* Tables of parts in the form of the message. */
struct part_lists {
	uint64_t *v; /* four lists */
};

static void
add_parts(const struct inst_coll *c, GpuSim__TapeOp *m, struct part_lists *l)
{
	uint32_t n = c->args.nranks;

	l->v = c->args.part ? alloc_zeroed((size_t)4 * n, sizeof *l->v) : NULL;
	if (!l->v)
		return;
	for (uint32_t r = 0; r < n; r++) {
		l->v[r] = c->args.part[r].off;
		l->v[n + r] = c->args.part[r].count;
		if (c->args.recv_part) {
			l->v[2 * n + r] = c->args.recv_part[r].off;
			l->v[3 * n + r] = c->args.recv_part[r].count;
		}
	}
	m->n_partat = m->n_partcount = n;
	m->partat = l->v;
	m->partcount = l->v + n;
	if (!c->args.recv_part)
		return;
	m->n_recvpartat = m->n_recvpartcount = n;
	m->recvpartat = l->v + 2 * (size_t)n;
	m->recvpartcount = l->v + 3 * (size_t)n;
}

uint64_t
taping_begin(const struct program *p, const struct inst_coll *c, uint64_t op, uint64_t set)
{
	GpuSim__TapeRecord r = GPU_SIM__TAPE_RECORD__INIT;
	GpuSim__TapeOp m = GPU_SIM__TAPE_OP__INIT;
	const unsigned char *in = input(c), *out = c->base[PLAN_OUT];
	struct part_lists parts;

	m.commid = p->comm;
	m.epoch = p->epoch;
	m.rank = p->rank;
	m.nranks = p->nranks;
	m.stream = p->queue ? 0 : c->stream;
	m.queue = p->queue;
	m.coll = c->args.coll;
	m.dtype = c->args.dtype;
	m.redop = c->args.redop;
	m.algo = (char *)inst_coll_algo(c);
	m.schedule = c->digest;
	m.nelem = c->args.nelem;
	m.root = c->args.root;
	m.chunkbytes = c->chunk_bytes;
	m.deterministic = c->args.canonical;
	m.steps = (uint32_t)c->plan.nstep;
	m.scalar = c->given ? c->scalar : 0;
	add_parts(c, &m, &parts);
	if (c->members) {
		m.members = (uint32_t *)c->members->rank;
		m.n_members = c->members->n;
	}
	m.number = tape_number(p->tape);
	m.op = op;
	m.set = set ? set : coll_is_sendrecv(c->args.coll) ? m.number : 0;
	m.inbytes = nbytes(in, c->shape.in, c);
	m.outbytes = nbytes(out, c->shape.out, c);
	m.inplace = m.inbytes && m.outbytes && in < out + m.outbytes && out < in + m.inbytes;
	m.incrc = crc32c(in, m.inbytes);
	m.gaps = c->args.part && m.outbytes;
	m.beforecrc = m.gaps ? crc32c(out, m.outbytes) : 0;
	m.atns = clock_now_ns();
	r.body_case = GPU_SIM__TAPE_RECORD__BODY_OP;
	r.op = &m;
	tape_put(p->tape, &r);
	if (tape_with_data(p->tape)) {
		tape_put_data(p->tape, m.number, false, in, m.inbytes);
		if (m.gaps)
			tape_put_data(p->tape, m.number, true, out, m.outbytes);
	}
	free(parts.v);
	return m.number;
}

void
taping_end(const struct program *p, const struct inst_coll *c, uint64_t number, enum rc rc,
	   const struct err *err)
{
	GpuSim__TapeRecord r = GPU_SIM__TAPE_RECORD__INIT;
	GpuSim__TapeEnd m = GPU_SIM__TAPE_END__INIT;
	const unsigned char *out = c->base[PLAN_OUT];
	char text[sizeof err->text] = "";

	m.number = number;
	m.rc = rc;
	if (rc == RC_OK)
		m.outcrc = crc32c(out, nbytes(out, c->shape.out, c));
	else
		snprintf(text, sizeof text, "%s", err->text);
	for (char *s = text; *s; s++) /* the reader rejects control characters */
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			*s = ' ';
	m.text = text;
	m.atns = clock_now_ns();
	r.body_case = GPU_SIM__TAPE_RECORD__BODY_END;
	r.end = &m;
	tape_put(p->tape, &r);
}

void
taping_fault(struct tape *t, const struct gpusim_fault *f, const struct program *p,
	     const struct inst_coll *c, uint64_t op, uint32_t step)
{
	GpuSim__TapeRecord r = GPU_SIM__TAPE_RECORD__INIT;
	GpuSim__TapeFault m = GPU_SIM__TAPE_FAULT__INIT;

	if (!t)
		return;
	m.kind = f->kind;
	m.now = !p;
	if (p) {
		m.commid = p->comm;
		m.epoch = p->epoch;
		m.rank = p->rank;
		m.coll = c->args.coll;
		m.op = op;
		m.step = step;
	}
	m.forns = f->for_ns;
	m.byns = f->by_ns;
	m.count = f->count;
	m.p = f->p;
	m.seed = f->seed;
	m.topeer = f->to_peer ? f->peer + 1 : 0;
	r.body_case = GPU_SIM__TAPE_RECORD__BODY_FAULT;
	r.fault = &m;
	tape_put(t, &r);
}
