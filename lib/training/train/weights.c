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

/* What ranks have beyond weights and a common optimizer. */
static enum rc
take_own(struct trainer *t, const struct replica *at, const struct checkpoint *from,
	 struct err *err)
{
	const struct checkpoint_bytes *own = &from->own;

	if (own->cols != replica_extra_bytes(at))
		return err_set(err, RC_BADDATA, "%s: state of other bytes than this training's",
			       t->o->checkpoint);
	if (own->cols == 0)
		return RC_OK;
	memcpy(t->host + at->extra, own->bytes, at->own - at->extra);
	if (spread_wanted(t->o)) /* it has no rank's own */
		return RC_OK;
	t->host_own = *own;
	t->host_own.bytes = must_alloc(own->rows, own->cols);
	memcpy(t->host_own.bytes, own->bytes, own->rows * own->cols);
	return RC_OK;
}

static enum rc
begin_anew(struct trainer *t, const struct replica *at, struct err *err)
{
	float scale = (float)config_loss_scale(t->o);
	enum rc rc = RC_OK;

	net_init(t->net, t->o->seed, (float *)(void *)t->host);
	if (t->o->load)
		rc = net_load(t->net, t->o->load, (float *)(void *)t->host, err);
	if (rc == RC_OK)
		compress_begin(t->task, at, t->host);
	if (at->scaler)
		memcpy(t->host + at->scaler, &scale, sizeof scale);
	return rc;
}

enum rc
weights_begin(struct trainer *t, const struct checkpoint *from, struct err *err)
{
	const struct replica at = offsets(t);
	uint64_t nbytes = task_values(t->task) * sizeof(float);

	t->host = must_alloc(at.live_bytes, 1);
	t->host_at = t->at;
	if (!from)
		return begin_anew(t, &at, err);
	memcpy(t->host, from->params, nbytes);
	for (unsigned i = 0; i < from->nstate; i++)
		memcpy(t->host + at.state[i], from->state[i], nbytes);
	memcpy(t->host + at.adam_step, &from->optimizer_steps, sizeof from->optimizer_steps);
	return take_own(t, &at, from, err);
}

enum rc
weights_load(struct trainer *t, struct err *err)
{
	const struct replica *r = &t->replica[0];
	const struct gpusim_collective c = {
	    GPUSIM_COLLECTIVE_INIT,	      .coll = GPUSIM_BROADCAST, .dtype = GPUSIM_U8,
	    .nelem = replica_shared_bytes(r), .send = t->addrs,		.recv = t->addrs};
	const struct checkpoint_bytes *own = &t->host_own;
	enum rc rc;

	if (t->spread)
		return spread_load(t, t->host, err);
	rc = device_write(t->g, r->device, r->net.params, t->host, c.nelem, err);
	for (uint32_t q = 0; q < gpusim_comm_count(t->comm); q++)
		t->addrs[q].addr = t->replica[q].net.params;
	if (rc == RC_OK)
		rc = api(gpusim_collective(t->comm, &c, GPUSIM_SYNC), err);
	/* A device that was lost at the beginning has changed who is who. */
	for (uint32_t q = 0;
	     rc == RC_OK && gpusim_comm_count(t->comm) == own->rows && q < own->rows; q++)
		rc = device_write(t->g, t->replica[q].device, t->replica[q].extra,
				  own->bytes + q * own->cols, own->cols, err);
	return rc;
}

/* The host has a new copy. */
static void
adopt(struct trainer *t, uint8_t *bytes, struct position at)
{
	free(t->host);
	free(t->host_own.bytes);
	t->host_own = (struct checkpoint_bytes){0};
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

static enum rc
copy_own(struct trainer *t, const struct replica *at, struct checkpoint_bytes *own, struct err *err)
{
	uint64_t nbytes = replica_extra_bytes(at);
	uint32_t n = t->spread ? 1 : gpusim_comm_count(t->comm);
	enum rc rc = RC_OK;

	if (nbytes)
		*own = (struct checkpoint_bytes){n, nbytes, must_alloc(n, nbytes)};
	if (t->spread && nbytes) {
		memcpy(own->bytes, t->host + at->extra, nbytes);
		return RC_OK;
	}
	for (uint32_t r = 0; r < n && nbytes && rc == RC_OK; r++)
		rc = device_read(t->g, own->bytes + r * nbytes, t->replica[r].device,
				 t->replica[r].extra, nbytes, err);
	return rc;
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
	rc = copy_own(t, &at, &c.own, err);
	if (rc == RC_OK)
		*out = c;
	else
		checkpoint_fini(&c);
	return rc;
}
