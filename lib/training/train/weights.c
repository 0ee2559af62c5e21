/* The host's copy of the values that training changes: at the start, and at checkpoints. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "train/trainer_impl.h"

/* The layout of the host's image: as on a device, from address 0 on. */
static struct replica
offsets(const struct trainer *t)
{
	struct replica r = {0};
	uint64_t at = 0;

	replica_live(&r, t->task, &at);
	return r;
}

enum rc
weights_begin(struct trainer *t, const struct checkpoint *from, struct err *err)
{
	const struct replica at = offsets(t);
	uint64_t nbytes = task_values(t->task) * sizeof(float);

	t->host = must_alloc(at.live_bytes, 1);
	t->host_at = t->at;
	if (!from) {
		net_init(t->net, t->o->seed, (float *)(void *)t->host);
		return t->o->load ? net_load(t->net, t->o->load, (float *)(void *)t->host, err)
				  : RC_OK;
	}
	memcpy(t->host, from->params, nbytes);
	for (unsigned i = 0; i < from->nstate; i++)
		memcpy(t->host + at.state[i], from->state[i], nbytes);
	memcpy(t->host + at.adam_step, &from->optimizer_steps, sizeof from->optimizer_steps);
	return RC_OK;
}

enum rc
weights_load(struct trainer *t, struct err *err)
{
	const struct replica *r = &t->replica[0];
	const struct gpusim_collective c = {GPUSIM_COLLECTIVE_INIT, .coll = GPUSIM_BROADCAST,
					    .dtype = GPUSIM_U8,	    .nelem = r->live_bytes,
					    .send = t->addrs,	    .recv = t->addrs};
	enum rc rc;

	if (t->spread)
		return spread_load(t, t->host, err);
	rc = device_write(t->g, r->device, r->net.params, t->host, r->live_bytes, err);
	for (uint32_t q = 0; q < gpusim_comm_count(t->comm); q++)
		t->addrs[q].addr = t->replica[q].net.params;
	if (rc == RC_OK)
		rc = api(gpusim_collective(t->comm, &c, GPUSIM_SYNC), err);
	return rc;
}

/* The host has a new copy. */
static void
adopt(struct trainer *t, uint8_t *bytes, struct position at)
{
	free(t->host);
	t->host = bytes;
	t->host_at = at;
}

enum rc
weights_fetch(struct trainer *t, uint32_t rank, uint64_t addr, struct position at, struct err *err)
{
	const struct replica *r = &t->replica[rank];
	uint8_t *bytes = must_alloc(r->live_bytes, 1);
	enum rc rc = device_read(t->g, bytes, r->device, addr, r->live_bytes, err);

	if (rc != RC_OK) {
		free(bytes);
		return rc;
	}
	adopt(t, bytes, at);
	return RC_OK;
}

enum rc
check_members(struct trainer *t, struct err *err)
{
	struct gpusim_comm *now;
	enum rc rc = api(gpusim_comm_open(t->g, gpusim_comm_id(t->comm), &now), err);

	if (rc == RC_OK && gpusim_comm_epoch(now) != gpusim_comm_epoch(t->comm))
		rc = err_set(err, RC_RECOVERED, "comm %" PRIu64 " has changed in the meantime",
			     gpusim_comm_id(t->comm).id);
	if (rc == RC_OK || rc == RC_RECOVERED)
		gpusim_comm_free(now);
	return rc;
}

enum rc
weights_keep(struct trainer *t, struct err *err)
{
	uint8_t *bytes = must_alloc(offsets(t).live_bytes, 1);
	enum rc rc = spread_fetch(t, bytes, err);

	if (rc == RC_OK)
		rc = check_members(t, err);
	if (rc == RC_OK)
		adopt(t, bytes, t->at);
	else
		free(bytes);
	return rc;
}

enum rc
weights_fetch_any(struct trainer *t, struct err *err)
{
	enum rc rc = RC_FAILED;

	if (t->spread)
		return weights_keep(t, err);
	for (uint32_t r = 0; r < gpusim_comm_count(t->comm) && rc != RC_OK; r++)
		rc = weights_fetch(t, r, t->replica[r].net.params, t->at, err);
	return rc;
}

/* A copy of a vector of the image. */
static float *
copy_vector(const struct trainer *t, uint64_t at)
{
	uint64_t n = task_values(t->task);
	float *v = must_alloc(n, sizeof *v);

	memcpy(v, t->host + at, n * sizeof *v);
	return v;
}

enum rc
trainer_state(struct trainer *t, struct checkpoint *out, struct err *err)
{
	const struct replica at = offsets(t);
	struct checkpoint c = {.global_batch = t->global,
			       .steps_an_epoch = t->shape.train_steps,
			       .epoch = t->at.epoch,
			       .step = t->at.step,
			       .loss_sum = t->at.loss_sum,
			       .nparams = task_values(t->task),
			       .nstate = at.state[1] ? 2 : 1,
			       .nshards = t->spread ? grid_size(&t->spread->grid) : 0};
	enum rc rc = weights_fetch_any(t, err);

	if (rc != RC_OK)
		return rc;
	memcpy(&c.optimizer_steps, t->host + at.adam_step, sizeof c.optimizer_steps);
	c.params = copy_vector(t, 0);
	for (unsigned i = 0; i < c.nstate; i++)
		c.state[i] = copy_vector(t, at.state[i]);
	*out = c;
	return RC_OK;
}
