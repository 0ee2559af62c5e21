/* The epochs of a training, unit by unit: some steps, or the test; again, if a device is lost in it. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/must.h"
#include "train/leaves.h"
#include "train/trainer_impl.h"
#include "train/verify.h"

#define SLICES_AN_EPOCH 50   /* launches, if progress is shown */
#define UNIT_S		0.25 /* the longest, where work may be lost */
#define QUICK_MS	1000 /* for a few bytes of a device that may be lost */

/* Run a graph and add its times to *e. */
static enum rc
launch(struct trainer *t, struct gpusim_graph graph, uint64_t first, uint64_t iterations,
       struct epoch *e, struct err *err)
{
	uint32_t n = gpusim_comm_count(t->comm);
	enum rc rc;

	gpusim_set_timeout_ms(t->g, launch_timeout_ms(t));
	rc =
	    api(gpusim_graph_launch(t->comm, graph, first, iterations, GPUSIM_SYNC, t->times), err);
	gpusim_set_timeout_ms(t->g, CALL_MS);
	for (uint32_t r = 0; rc == RC_OK && e && r < n; r++) {
		e->compute_s += (double)t->times[r].compute_ns / 1e9 / n;
		e->comm_s += (double)t->times[r].comm_ns / 1e9 / n;
	}
	return rc;
}

/* Run training steps; a step of several graphs is launched by itself. */
static enum rc
launch_steps(struct trainer *t, const struct steps *steps, uint64_t first, uint64_t n,
	     struct epoch *e, struct err *err)
{
	enum rc rc = RC_OK;

	if (steps->nparts == 1)
		return launch(t, steps->part[0], first, n, e, err);
	for (uint64_t s = first; s < first + n && rc == RC_OK; s++)
		for (unsigned p = 0; p < steps->nparts && rc == RC_OK; p++)
			rc = launch(t, steps->part[p], s, 1, e, err);
	return rc;
}

/* Add the losses of n steps to the position, step by step, so that the sum does not depend on the units. */
static enum rc
add_losses(struct trainer *t, uint64_t n, struct err *err)
{
	uint64_t first = t->at.step * sizeof *t->losses;
	bool done = false;
	enum rc rc = RC_OK;

	memset(t->sums, 0, n * sizeof *t->sums);
	for (uint32_t r = 0; r < gpusim_comm_count(t->comm) && rc == RC_OK && !done; r++) {
		if (!reports(t, r))
			continue;
		done = t->shape.leaf; /* with sums of leaves, each rank has the loss of all ranks */
		rc = device_read(t->g, t->losses, t->replica[r].device,
				 t->replica[r].losses + first, n * sizeof *t->losses, err);
		for (uint64_t s = 0; s < n; s++)
			t->sums[s] += t->losses[s];
	}
	for (uint64_t s = 0; s < n && rc == RC_OK; s++)
		t->at.loss_sum += t->sums[s];
	return rc;
}

/* Read the samples that ranks kept of the last step's sums, rank after rank. */
static enum rc
read_samples(struct trainer *t, uint32_t nholders, int64_t *in, int64_t *out, struct err *err)
{
	uint64_t nbytes = VERIFY_SAMPLES * sizeof *in;
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < gpusim_comm_count(t->comm) && rc == RC_OK; r++) {
		const struct replica *at = &t->replica[r];
		uint64_t first = (uint64_t)r * VERIFY_SAMPLES;

		rc = device_read(t->g, in + first, at->device, at->before, nbytes, err);
		if (rc == RC_OK && r < nholders)
			rc = device_read(t->g, out + first, at->device, at->after, nbytes, err);
	}
	return rc;
}

static enum rc
checksum(struct trainer *t, uint32_t rank, uint64_t addr, uint64_t nbytes, uint64_t *crc,
	 struct err *err)
{
	return api(
	    gpusim_checksum(t->g, t->replica[rank].device, (struct gpusim_addr){addr}, nbytes, crc),
	    err);
}

/* Check that ranks still have their input sums. */
static enum rc
verify_inputs(struct trainer *t, uint32_t *culprit, struct err *err)
{
	uint64_t nbytes = leaves_elements(t->task) * sizeof(int64_t);
	enum rc rc = RC_OK;

	for (uint32_t r = central(t); r < gpusim_comm_count(t->comm) && rc == RC_OK; r++) {
		uint64_t was = 0, is = 0;

		rc = checksum(t, r, t->replica[r].aside, nbytes, &was, err);
		if (rc == RC_OK)
			rc = checksum(t, r, t->replica[r].sums, nbytes, &is, err);
		if (rc != RC_OK || was == is)
			continue;
		*culprit = r;
		rc = err_set(err, RC_BADDATA,
			     "rank %" PRIu32 ": its gradients changed while they were added up", r);
	}
	return rc;
}

/* Check that all holders have the same sums; in a training without, the same weights. */
static enum rc
verify_all(struct trainer *t, uint32_t nholders, uint32_t *culprit, struct err *err)
{
	uint64_t *crc = must_alloc(nholders, sizeof *crc);
	bool sums = t->shape.verify;
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < nholders && rc == RC_OK; r++)
		rc = checksum(t, r, sums ? t->replica[r].totals : t->replica[r].net.params,
			      sums ? leaves_elements(t->task) * sizeof(int64_t)
				   : replica_shared_bytes(&t->replica[r]),
			      &crc[r], err);
	if (rc == RC_OK)
		rc =
		    verify_equal(crc, nholders, sums ? "gradients' sums" : "weights", culprit, err);
	free(crc);
	return rc;
}

/* Check samples of the last step's sums. */
static enum rc
verify_samples(struct trainer *t, uint32_t nholders, uint32_t *culprit, struct err *err)
{
	uint32_t n = gpusim_comm_count(t->comm);
	uint32_t index[VERIFY_SAMPLES];
	int64_t *in = must_alloc((uint64_t)n * VERIFY_SAMPLES, sizeof *in);
	int64_t *out = must_alloc((uint64_t)n * VERIFY_SAMPLES, sizeof *out);
	enum rc rc = read_samples(t, nholders, in, out, err);

	verify_choose(t->nonce, leaves_elements(t->task), index);
	if (rc == RC_OK)
		rc = verify_inputs(t, culprit, err);
	if (rc == RC_OK)
		rc = verify_sums(in, n, out, nholders, index, culprit, err);
	free(in);
	free(out);
	return rc;
}

/* Check what --verify says. */
static enum rc
verify(struct trainer *t, struct err *err)
{
	uint32_t n = gpusim_comm_count(t->comm), nholders = central(t) ? 1 : n, culprit = n;
	enum rc rc = t->shape.verify ? verify_samples(t, nholders, &culprit, err) : RC_OK;

	if (rc == RC_OK)
		rc = verify_all(t, nholders, &culprit, err);
	if (rc == RC_BADDATA && culprit < n) {
		char name[64];

		snprintf(name, sizeof name, "--verify: device %" PRIx64,
			 t->replica[culprit].device.id);
		rc = err_prefix(err, "%s", name);
	}
	return rc;
}

uint32_t
trainer_epochs(const struct trainer *t)
{
	return t->at.epoch;
}

uint64_t
trainer_steps(const struct trainer *t)
{
	return steps_done(t);
}

/* Steps until the next checkpoint within this epoch is due, from the position on. */
static uint64_t
until_checkpoint(const struct trainer *t)
{
	uint64_t every = t->o->checkpoint_every;

	return t->hooks.checkpoint && every ? every - trainer_steps(t) % every : UINT64_MAX;
}

static uint64_t
smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The number of steps of the next launch; the last, smaller step is launched by itself. */
static uint64_t
unit_steps(const struct trainer *t)
{
	uint64_t left = t->full_steps - t->at.step, slice = t->full_steps / SLICES_AN_EPOCH + 1;
	uint64_t n = left;

	if (t->at.step >= t->full_steps)
		return 1;
	if (t->hooks.progress || (recovers(t) && t->step_s <= 0))
		n = smaller(n, slice);
	if (recovers(t) && t->step_s > 0 && (double)n * t->step_s > UNIT_S)
		n = UNIT_S > t->step_s ? (uint64_t)(UNIT_S / t->step_s) : 1;
	n = smaller(n, until_checkpoint(t));
	n = smaller(n, t->phase.end - trainer_steps(t));
	if (t->o->sync == SYNC_LOCAL) /* between units all ranks have the same */
		n = smaller((n + t->o->local_steps - 1) / t->o->local_steps * t->o->local_steps,
			    left);
	return n;
}

/* Steps that every device does alone, and then the mean over the devices. */
static enum rc
launch_local(struct trainer *t, const struct steps *steps, uint64_t first, uint64_t n,
	     struct epoch *e, struct err *err)
{
	enum rc rc = RC_OK;
	uint64_t count;

	for (uint64_t done = 0; done < n && rc == RC_OK; done += count) {
		count = smaller(n - done, t->o->local_steps);
		rc = launch_steps(t, steps, first + done, count, e, err);
		if (rc == RC_OK)
			rc = launch(t, t->average, 0, 1, e, err);
		e->sent_bytes += t->average_sent;
	}
	return rc;
}

/* Some steps. */
static enum rc
train_unit(struct trainer *t, struct epoch *e, struct err *err)
{
	uint64_t n = unit_steps(t), began = clock_now_ns();
	bool moving = t->at.step < t->full_steps;
	enum rc rc = (t->o->sync == SYNC_LOCAL ? launch_local : launch_steps)(
	    t, moving ? &t->train : &t->train_rest, moving ? t->at.step : 0, n, e, err);

	t->step_s = (double)(clock_now_ns() - began) / 1e9 / (double)n;
	if (recovers(t))
		gpusim_set_timeout_ms(t->g, QUICK_MS);
	e->sent_bytes += n * (moving ? t->train : t->train_rest).sent;
	e->allreduce_bytes +=
	    n * 2 * (gpusim_comm_count(t->comm) - 1) * t->net->nparams * sizeof(float);
	if (rc == RC_OK && t->o->verify)
		rc = verify(t, err);
	if (rc == RC_OK)
		rc = add_losses(t, n, err);
	gpusim_set_timeout_ms(t->g, CALL_MS);
	if (rc == RC_OK)
		t->at.step += n;
	return rc;
}

/* The samples that all ranks together classified correctly. */
static enum rc
count_right(struct trainer *t, unsigned part, uint64_t *right, struct err *err)
{
	uint64_t steps = t->tests[part].full + t->tests[part].more;
	enum rc rc = RC_OK;

	*right = 0;
	for (uint32_t r = 0; r < gpusim_comm_count(t->comm) && rc == RC_OK; r++) {
		if (!reports(t, r))
			continue;
		rc = device_read(t->g, t->right, t->replica[r].device, t->replica[r].right[part],
				 steps * sizeof *t->right, err);
		for (uint64_t s = 0; s < steps; s++)
			*right += t->right[s];
	}
	return rc;
}

/* The fraction of a part that is classified correctly. */
static enum rc
test_part(struct trainer *t, unsigned part, double *fraction, struct err *err)
{
	const struct tests *tests = &t->tests[part];
	uint64_t right = 0;
	enum rc rc = RC_OK;

	if (tested_part(t->data, part)->nitems == 0)
		return RC_OK;
	if (tests->full)
		rc = launch_steps(t, &tests->whole, 0, tests->full, NULL, err);
	if (rc == RC_OK && tests->more)
		rc = launch_steps(t, &tests->rest, 0, 1, NULL, err);
	if (recovers(t))
		gpusim_set_timeout_ms(t->g, QUICK_MS);
	if (rc == RC_OK)
		rc = count_right(t, part, &right, err);
	gpusim_set_timeout_ms(t->g, CALL_MS);
	if (rc == RC_OK)
		*fraction = (double)right / tested_part(t->data, part)->nitems;
	return rc;
}

static enum rc
read_scaler(struct trainer *t, struct epoch *e, struct err *err)
{
	const struct replica *r = &t->replica[0];
	uint8_t bytes[LAYOUT_SCALER];
	float scale;
	enum rc rc = device_read(t->g, bytes, r->device,
				 r->spread + t->spread->layout->row[0].scaler, sizeof bytes, err);

	if (rc != RC_OK)
		return rc;
	memcpy(&scale, bytes, sizeof scale);
	memcpy(&e->skipped_steps, bytes + 8, sizeof e->skipped_steps);
	e->loss_scale = (double)scale;
	return RC_OK;
}

static enum rc
test_unit(struct trainer *t, struct epoch *e, struct err *err)
{
	enum rc rc = test_part(t, TESTS, &e->accuracy, err);

	if (rc == RC_OK)
		rc = test_part(t, VALIDATION, &e->validation, err);
	if (rc != RC_OK)
		return rc;
	if (config_scales(t->o))
		rc = read_scaler(t, e, err);
	if (rc != RC_OK)
		return rc;
	e->loss = t->at.loss_sum / t->data->train.nitems;
	t->at = (struct position){.epoch = t->at.epoch + 1};
	return RC_OK;
}

/* Run a unit once, from the position on. */
static enum rc
attempt(struct trainer *t, struct epoch *out, struct err *err)
{
	struct epoch e = *out;
	enum rc rc = recovers(t) ? keep(t, err) : RC_OK;

	if (rc == RC_OK && recovers(t))
		rc = take_in(t, err);
	if (rc == RC_OK && trainer_steps(t) >= t->phase.end) {
		forget_graphs(t);
		rc = record_graphs(t, err);
	}
	if (rc == RC_OK && t->fed != t->at.epoch + 1ull)
		rc = feed(t, err);
	if (rc == RC_OK)
		rc = t->at.step < t->shape.train_steps ? train_unit(t, &e, err)
						       : test_unit(t, &e, err);
	if (rc == RC_OK && recovers(t))
		rc = check_members(t, err);
	if (rc == RC_OK)
		*out = e;
	return rc;
}

/*
 * "rank 2 (device ...) lost: ...; shrink, 3 ranks at epoch 2: detect 3 ms, agree 5 ms, restore 9
 * ms" is the coordinator's text; restoring also includes weights and graphs, and the redo follows.
 */
static void
tell(const struct trainer *t, uint32_t epoch, const struct trouble *trouble, double redo_ms)
{
	double restore = trouble->rebuild_ms;
	char text[640];
	const char *last = NULL;

	for (const char *p = trouble->what; (p = strstr(p, ", restore ")); p++)
		last = p;
	if (last)
		restore += strtod(last + strlen(", restore "), NULL);
	snprintf(text, sizeof text, "epoch %u: %.*s%s restore %.0f ms, redo %.0f ms; %.0f ms lost",
		 epoch, (int)(last ? (size_t)(last - trouble->what) : strlen(trouble->what)),
		 trouble->what, last ? "," : ":", restore, redo_ms,
		 (double)(trouble->rebuilt_ns - trouble->began_ns) / 1e6);
	if (t->hooks.event)
		t->hooks.event(t->hooks.arg, text);
}

/* Some steps, or the test; the position moves on success. */
static enum rc
unit_run(struct trainer *t, struct epoch *e, struct err *err)
{
	struct trouble trouble = {.began_ns = clock_now_ns()};
	uint32_t epoch = t->at.epoch + 1;
	unsigned tries = 0, vain = 0; /* vain: tries without a newly lost device */
	enum rc rc = attempt(t, e, err);

	while (rc != RC_OK && recovers(t) && !trouble.over && vain < MAX_TRIES &&
	       tries < MAX_LOSSES) {
		uint32_t members = gpusim_comm_epoch(t->comm);

		rc = recover(t, ++tries > 2, &trouble, err);
		vain = gpusim_comm_epoch(t->comm) == members ? vain + 1 : 0;
		if (rc == RC_OK)
			rc = attempt(t, e, err);
	}
	if (rc == RC_OK && tries)
		tell(t, epoch, &trouble, (double)(clock_now_ns() - trouble.rebuilt_ns) / 1e6);
	else if (rc != RC_OK)
		name_lost(t, rc, err);
	if (rc != RC_OK && tries)
		err_prefix(err, "given up after %u tr%s", tries, tries == 1 ? "y" : "ies");
	return rc;
}

/* ---- an epoch, unit by unit */

/* A checkpoint is due within an epoch if --checkpoint-every says so, else at the end of an epoch.
 * before: steps at the last check. */
static void
checkpoint_if_due(struct trainer *t, uint64_t before)
{
	uint64_t every = t->o->checkpoint_every;

	if (!t->hooks.checkpoint || t->at.step == t->shape.train_steps)
		return;
	if (every ? trainer_steps(t) / every != before / every : t->at.step == 0)
		t->hooks.checkpoint(t->hooks.arg, t);
}

/* Images that an epoch has used after a number of steps. */
static uint64_t
images_after(const struct trainer *t, uint64_t steps)
{
	return steps < t->shape.train_steps ? steps * t->global : t->data->train.nitems;
}

/* Run a unit, with recovery and hooks. A unit that had to be redone may have moved the position back. */
static enum rc
step(struct trainer *t, struct epoch *e, struct err *err)
{
	uint64_t began = clock_now_ns(), before = trainer_steps(t);
	bool trains = t->at.step < t->shape.train_steps;
	enum rc rc = unit_run(t, e, err);

	if (rc != RC_OK)
		return rc;
	if (trains)
		e->seconds += (double)(clock_now_ns() - began) / 1e9;
	if (trains && t->hooks.progress)
		t->hooks.progress(t->hooks.arg, (double)t->at.step / (double)t->shape.train_steps);
	checkpoint_if_due(t, before);
	return RC_OK;
}

enum rc
trainer_epoch(struct trainer *t, struct epoch *out, struct err *err)
{
	struct epoch e = {.validation = NAN};
	uint64_t images = images_after(t, t->at.step);
	uint32_t epoch = t->at.epoch;
	enum rc rc = RC_OK;

	while (rc == RC_OK && t->at.epoch <= epoch)
		rc = step(t, &e, err);
	if (rc != RC_OK)
		return rc;
	e.images_per_s = (double)(t->data->train.nitems - images) / e.seconds;
	*out = e;
	return RC_OK;
}
