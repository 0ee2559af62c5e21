/* Programs: of graphs, and of runs as they start. */
#include "dev/device_impl.h"

void
carry_define(struct device *d, const GpuSim__GraphDefineRequest *m, uint32_t graph, struct err *err)
{
	program_build(&d->env, m->commid, m->ops, m->n_ops, &d->graph[graph], err);
}

/* The program of a run: a graph's, with one more reference, or a new one. */
static enum rc
find_program(struct device *d, const GpuSim__RunRequest *m, uint32_t graph, struct program **out,
	     struct err *err)
{
	if (graph == PROTOCOL_NO_GRAPH)
		return program_build(&d->env, m->commid, m->ops, m->n_ops, out, err);
	*out = d->graph[graph];
	streams_hold(d->streams, *out);
	return RC_OK;
}

/* The snapshot that the run's first thread restores or takes. */
static void
snapshot_inputs(struct device *d, const struct program *p, const struct protocol_action *a,
		uint64_t run, struct run_spec *spec)
{
	struct xport_membership of;

	if ((!a->snapshot && !a->restore) || xport_member(d->xport, p->comm, &of, NULL) != RC_OK)
		return; /* it has ended meanwhile; so will the run */
	spec->snapshots = d->snapshots;
	spec->snapshot_id = (struct snapshot_id){of.coordinator, p->comm, run};
	spec->snapshot = a->snapshot;
	spec->restore = a->restore;
}

enum rc
carry_run(struct device *d, const GpuSim__RunRequest *m, const struct protocol_action *a,
	  run_done_fn done, void *arg, struct err *err)
{
	struct run_spec spec = {.iterations = m->iterations,
				.first_iteration = m->firstiteration,
				.first_op = m->firstop,
				.stride = m->stride,
				.done = m->queued ? NULL : done,
				.arg = arg};
	struct program *p;
	enum rc rc = find_program(d, m, a->graph, &p, err);

	if (rc != RC_OK)
		return rc;
	spec.program = p;
	snapshot_inputs(d, p, a, m->run, &spec);
	rc = streams_run(d->streams, &spec, err);
	streams_drop(d->streams, p);
	return rc;
}
