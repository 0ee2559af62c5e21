#include "replay/meet.h"
#include "base/must.h"

#include <pthread.h>
#include <stdlib.h>

struct call {
	struct gpusim *g;
	struct gpusim_device device;
	uint32_t nranks, rank, op_timeout_ms;
	struct gpusim_unique_id id;
	struct gpusim_comm **comm;
	struct cmdq_bind **bind;
	pthread_t thread;
	bool started;
	struct err err;
};

static void *
call(void *arg)
{
	struct call *c = arg;
	struct gpusim_comm_config cfg = {
	    GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE, .on_failure = GPUSIM_ON_FAILURE_ABORT,
	    .op_timeout_ms = c->op_timeout_ms, .queues = GPUSIM_QUEUES_ON};

	if (api(gpusim_comm_init_rank(c->g, c->nranks, c->id, c->rank, c->device, &cfg, c->comm),
		&c->err) == RC_OK)
		api(cmdq_bind(*c->comm, c->bind), &c->err);
	return NULL;
}

enum rc
meet(struct gpusim *g, const struct gpusim_device *device, uint32_t nranks, uint32_t op_timeout_ms,
     struct gpusim_comm **comm, struct cmdq_bind **bind, struct err *err)
{
	struct call *c = must_alloc(nranks, sizeof *c);
	struct gpusim_unique_id id;
	enum rc rc = api(gpusim_get_unique_id(&id), err);

	for (uint32_t r = 0; r < nranks && rc == RC_OK; r++) {
		c[r] = (struct call){.g = g,
				     .device = device[r],
				     .nranks = nranks,
				     .rank = r,
				     .op_timeout_ms = op_timeout_ms,
				     .id = id,
				     .comm = &comm[r],
				     .bind = &bind[r]};
		c[r].started = pthread_create(&c[r].thread, NULL, call, &c[r]) == 0;
		if (!c[r].started)
			rc = err_set(err, RC_FAILED, "cannot start a thread");
	}
	for (uint32_t r = 0; c && r < nranks; r++) {
		if (c[r].started)
			pthread_join(c[r].thread, NULL);
		if (rc == RC_OK && c[r].err.rc != RC_OK) {
			*err = c[r].err;
			rc = err->rc;
		}
	}
	free(c);
	return rc;
}

void
meet_end(struct gpusim_comm **comm, struct cmdq_bind **bind, uint32_t nranks)
{
	for (uint32_t r = 0; r < nranks; r++) {
		cmdq_unbind(bind[r]);
		if (comm[r])
			gpusim_comm_destroy(comm[r]);
	}
}
