#include "wire/wire.h"

void
fault_to_wire(const struct gpusim_fault *f, GpuSim__Fault *out)
{
	*out = (GpuSim__Fault)GPU_SIM__FAULT__INIT;
	out->kind = (GpuSim__FaultKind)f->kind;
	out->commid = f->comm.id;
	out->at = f->at != 0;
	out->anycoll = f->coll < 0;
	out->coll = (GpuSim__Collective)(f->coll < 0 ? 0 : f->coll);
	out->next = f->next != 0;
	out->operation = f->seq;
	out->step = f->step;
	out->forns = f->for_ns;
	out->byns = f->by_ns;
	out->count = f->count;
	out->p = f->p;
	out->seed = f->seed;
	out->topeer = f->to_peer != 0;
	out->peer = f->peer;
}

void
fault_from_wire(const GpuSim__Fault *m, struct gpusim_fault *out)
{
	*out = (struct gpusim_fault){.kind = (enum gpusim_fault_kind)m->kind,
				     .comm = {m->commid},
				     .at = m->at,
				     .coll = m->anycoll ? -1 : (int)m->coll,
				     .next = m->next,
				     .seq = m->operation,
				     .step = m->step,
				     .for_ns = m->forns,
				     .by_ns = m->byns,
				     .count = m->count,
				     .p = m->p,
				     .seed = m->seed,
				     .to_peer = m->topeer,
				     .peer = m->peer};
}
