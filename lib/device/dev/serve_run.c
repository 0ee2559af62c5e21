/* Programs: of graphs, and of runs as they start. */
#include "dev/device_impl.h"

void
carry_define(struct device *d, const GpuSim__GraphDefineRequest *m, uint32_t graph, struct err *err)
{
	program_build(&d->env, m->commid, m->ops, m->n_ops, &d->graph[graph], err);
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
	struct xport_membership of;
	struct program *p = NULL;
	enum rc rc = RC_OK;

	if (a->graph == PROTOCOL_NO_GRAPH)
		rc = program_build(&d->env, m->commid, m->ops, m->n_ops, &p, err);
	else
		streams_hold(d->streams, p = d->graph[a->graph]);
	if (rc != RC_OK)
		return rc;
	spec.program = p;
	/* Without a communicator it has ended meanwhile; so will the run. */
	if ((a->snapshot || a->restore) && xport_member(d->xport, p->comm, &of, NULL) == RC_OK) {
		spec.snapshots = d->snapshots;
		spec.snapshot_id = (struct snapshot_id){of.coordinator, p->comm, m->run};
		spec.snapshot = a->snapshot;
		spec.restore = a->restore;
	}
	rc = streams_run(d->streams, &spec, err);
	streams_drop(d->streams, p);
	return rc;
}
