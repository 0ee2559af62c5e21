/* A trainer from beginning to end, and its weights. */
#include "train/trainer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/must.h"
#include "nn/rng.h"
#include "train/leaves.h"
#include "train/trainer_impl.h"

#define MEET_MS 15000 /* until a device that was lost at the beginning has come back */

/* The devices that a communicator may take. */
static enum rc
count_free(struct trainer *t, uint32_t *n, struct err *err)
{
	struct gpusim_device_info *list;
	size_t count;
	enum rc rc = api(gpusim_devices(t->g, &list, &count), err);

	if (rc != RC_OK)
		return rc;
	*n = 0;
	for (size_t i = 0; i < count; i++)
		*n += !list[i].lost && !list[i].spare && list[i].comm.id == 0;
	free(list);
	return RC_OK;
}

/* A communicator of n devices. If a device is lost meanwhile, the coordinator restarts it or
 * replaces it by a spare, which takes a moment; after a shrink the communicator has fewer. */
static enum rc
meet(struct trainer *t, uint32_t n, struct err *err)
{
	/* Without dp, which the coordinator counts again whenever the ranks change. */
	const struct grid *g = &t->o->parallel;
	const struct grid given = {0, g->tp ? g->tp : 1, g->pp ? g->pp : 1};
	char grid[GRID_TEXT];
	const struct gpusim_comm_config config = {
	    GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE, .on_failure = t->o->on_failure,
	    .wait_ms = t->o->wait_ms, .grid = spread_wanted(t->o) ? grid : NULL};
	uint64_t patience = deadline_in_ms(MEET_MS);
	uint32_t nfree;
	enum rc rc;

	grid_print(&given, grid);
	rc = api(gpusim_comm_init_all(t->g, n, NULL, &config, &t->comm), err);
	while ((rc == RC_UNREACHABLE || rc == RC_FAILED || rc == RC_ABORTED) && recovers(t) &&
	       deadline_left_ms(patience) > 0) {
		struct err ignored;

		if (rc == RC_FAILED && t->o->on_failure == GPUSIM_ON_FAILURE_SHRINK &&
		    count_free(t, &nfree, &ignored) == RC_OK && nfree > 0 && nfree < n)
			n = nfree;
		clock_sleep(20 * NS_PER_MS);
		rc = api(gpusim_comm_init_all(t->g, n, NULL, &config, &t->comm), err);
	}
	return rc;
}

/* Take devices and set up all that they need. */
static enum rc
start(struct trainer *t, uint32_t ndevices, const struct checkpoint *from, struct err *err)
{
	struct trouble trouble = {0};
	enum rc rc = leaves_check(t->task, t->global, err);

	if (rc == RC_OK && spread_wanted(t->o))
		rc = spread_check(t->task, ndevices, t->global, err);
	if (rc == RC_OK)
		rc = weights_begin(t, from, err);
	if (rc == RC_OK && t->host_own.rows && ndevices != t->host_own.rows)
		rc = err_set(
		    err, RC_INVAL,
		    "%s: was made on %llu devices, each with state of its own: it needs as many",
		    t->o->checkpoint, (unsigned long long)t->host_own.rows);
	t->order = must_alloc(t->data->train.nitems, sizeof *t->order);
	if (rc == RC_OK)
		rc = meet(t, ndevices, err);
	if (rc == RC_OK)
		members_begin(t);
	if (rc != RC_OK)
		return rc;
	rc = rebuild(t, false, err);
	if (rc != RC_OK && !recovers(t))
		return name_lost(t, rc, err);
	for (unsigned i = 0; rc != RC_OK && rc != RC_NOMEM && recovers(t) && i < MAX_TRIES; i++) {
		rc = recover(t, true, &trouble, err);
		if (trouble.over)
			break;
	}
	return rc;
}

/* A number that does not occur by chance. */
static uint64_t
make_nonce(void)
{
	uint64_t state = clock_now_ns() ^ (uint64_t)getpid() << 40;

	return splitmix64(&state) | 1;
}

enum rc
trainer_new(struct gpusim *g, const struct task *task, uint32_t ndevices,
	    const struct checkpoint *from, const struct trainer_hooks *hooks, struct trainer **out,
	    struct err *err)
{
	struct trainer *t = must_alloc(1, sizeof *t);
	enum rc rc;

	t->g = g;
	t->task = task;
	t->o = task->config;
	t->data = &task->data;
	t->net = &task->net;
	t->hooks = *hooks;
	t->global = from ? from->global_batch : task_global(task, ndevices);
	t->full_steps = t->data->train.nitems / t->global;
	t->rest = t->data->train.nitems % t->global;
	t->nonce = make_nonce();
	if (from)
		t->at = (struct position){(uint32_t)from->epoch, from->step, from->loss_sum};
	gpusim_set_timeout_ms(g, CALL_MS);
	rc = start(t, ndevices, from, err);
	if (rc != RC_OK)
		trainer_free(t);
	else
		*out = t;
	return rc;
}

void
trainer_free(struct trainer *t)
{
	if (!t)
		return;
	gpusim_set_timeout_ms(t->g, TASK_GIVE_BACK_MS);
	for (uint32_t r = 0; t->replica && r < gpusim_comm_count(t->comm); r++)
		give_back(t, r);
	gpusim_comm_destroy(t->comm);
	gpusim_close(t->fresh);
	gpusim_close(t->stale);
	free(t->replica);
	free(t->addrs);
	free(t->totals);
	free(t->places);
	free(t->targets);
	spread_free(t->spread);
	free(t->rows);
	free(t->times);
	free(t->order);
	free(t->host);
	free(t->host_own.bytes);
	free_host(t);
	free(t);
}

uint32_t
trainer_devices(const struct trainer *t)
{
	return gpusim_comm_count(t->comm);
}

/* The weights at a position between two epochs. The kept copies are from before the test, and a
 * test changes no weights. */
static enum rc
fetch_again(struct trainer *t, struct trouble *trouble, struct err *err)
{
	struct position at = t->at;
	enum rc rc = recover(t, true, trouble, err);

	if (rc != RC_OK)
		return rc;
	if (t->at.epoch * t->shape.train_steps + t->at.step < at.epoch * t->shape.train_steps)
		return err_set(err, RC_RECOVERED, "no device has the weights any longer");
	t->at = at;
	return weights_fetch_any(t, err);
}

enum rc
trainer_weights(struct trainer *t, float *params, struct err *err)
{
	struct trouble trouble = {0};
	enum rc rc = weights_fetch_any(t, err);

	for (unsigned i = 0;
	     rc != RC_OK && rc != RC_RECOVERED && recovers(t) && !trouble.over && i < MAX_TRIES;
	     i++)
		rc = fetch_again(t, &trouble, err);
	if (rc == RC_OK)
		memcpy(params, t->host, task_values(t->task) * sizeof *params);
	return rc;
}
