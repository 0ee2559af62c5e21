/*
 * store.c - the server's device: weights, optimizer state, slots for gradients, tests.
 *
 * A slot has the gradient of the sum over its rows, followed by the batch's statistics.
 * An update adds the slots up in the order of their items, so the sum has the same bits whichever
 * learner computed a slot, and divides by all rows.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "ps/ps_impl.h"
#include "train/leaves.h"

static void
append(void *ops, uint32_t rank, const char *kernel, const struct gpusim_arg *args, size_t nargs)
{
	gpusim_ops_launch(ops, rank, STREAM_COMPUTE, kernel, args, nargs);
}

struct emit_sink
ps_sink(struct gpusim_ops *o)
{
	return (struct emit_sink){.arg = o, .launch = append};
}

static uint64_t
nbytes_of(const struct task *task)
{
	return task_values(task) * sizeof(float);
}

/* ---- memory */

static struct shape
store_shape(const struct task *task)
{
	uint64_t rows = task_test_rows(task);
	struct shape s = {.task = task, .max_rows = rows, .leaf = ps_leaf(task), .train_steps = 1};

	for (unsigned p = 0; p < NTESTS; p++) {
		s.test_items[p] = tested(task, p)->nitems;
		s.test_steps[p] = tested(task, p)->nitems / rows + 1;
	}
	return s;
}

/* Bytes of the published copies, a multiple of 64 each; and of their versions. */
static uint64_t
copy_bytes(const struct task *task)
{
	return (nbytes_of(task) + 63) / 64 * 64;
}

static uint64_t
published_bytes(const struct task *task)
{
	return 2 * copy_bytes(task) + 3 * sizeof(uint64_t);
}

uint64_t
ps_bytes(const struct task *task, uint32_t nworkers)
{
	uint32_t aggregate = ps_aggregate(task, nworkers), rows = ps_item_rows(task, nworkers);
	uint32_t leaf = ps_leaf(task);
	struct shape s = store_shape(task);
	uint64_t server = replica_bytes(&s) + published_bytes(task) +
			  (uint64_t)(aggregate + nworkers + 2) * (ps_slot_bytes(task, leaf) + 4096);
	struct shape l = {.task = task,
			  .max_rows = leaf ? leaf : rows,
			  .leaf = leaf,
			  .augment = task->config->augment,
			  .held = task->data.train.nitems,
			  .train_items = rows,
			  .train_steps = 1};
	uint64_t learner = replica_bytes(&l);

	return server > learner ? server : learner;
}

enum rc
store_slots(struct store *s, uint32_t n, struct err *err)
{
	while (s->nslots < n) {
		enum rc rc = device_alloc(s->g, s->r.device, ps_slot_bytes(s->task, s->shape.leaf),
					  &s->slot[s->nslots], err);

		if (rc != RC_OK)
			return rc;
		s->nslots++;
	}
	return RC_OK;
}

static enum rc
to_device(struct store *s, uint64_t addr, const void *src, uint64_t nbytes, struct err *err)
{
	return device_write(s->g, s->r.device, addr, src, nbytes, err);
}

static enum rc
from_device(struct store *s, void *dst, uint64_t addr, uint64_t nbytes, struct err *err)
{
	return device_read(s->g, dst, s->r.device, addr, nbytes, err);
}

static enum rc
place(struct store *s, struct err *err)
{
	const struct task *task = s->task;
	struct gpusim_device device = gpusim_comm_device(s->comm, 0);
	uint64_t base;
	enum rc rc = device_alloc(s->g, device, replica_bytes(&s->shape), &base, err);

	if (rc != RC_OK)
		return rc;
	replica_place(&s->r, &s->shape, device, base);
	rc = device_alloc(s->g, device, published_bytes(task), &s->published, err);
	s->copy[0] = s->published;
	s->copy[1] = s->published + copy_bytes(task);
	s->versions = s->published + 2 * copy_bytes(task);
	s->began = s->versions + 2 * sizeof(uint64_t);
	if (rc == RC_OK)
		rc = api(gpusim_memset(s->g, device, (struct gpusim_addr){s->versions}, 0,
				       3 * sizeof(uint64_t)),
			 err);
	return rc;
}

/* ---- the initial state */

/* The values that training changes, in the device's layout. */
static uint8_t *
image(const struct store *s, const struct checkpoint *from, struct err *err)
{
	const struct train_config *c = s->task->config;
	uint64_t nbytes = nbytes_of(s->task), base = s->r.net.params;
	uint8_t *host = must_alloc(s->r.live_bytes, 1);
	float *values = (float *)(void *)host;

	if (!from) {
		net_init(&s->task->net, c->seed, values);
		if (!c->load || net_load(&s->task->net, c->load, values, err) == RC_OK)
			return host;
		free(host);
		return NULL;
	}
	memcpy(host, from->params, nbytes);
	for (unsigned i = 0; i < from->nstate; i++)
		memcpy(host + (s->r.state[i] - base), from->state[i], nbytes);
	memcpy(host + (s->r.adam_step - base), &from->optimizer_steps,
	       sizeof from->optimizer_steps);
	return host;
}

static enum rc
load(struct store *s, const struct checkpoint *from, uint64_t version, struct err *err)
{
	uint8_t *host = image(s, from, err);
	uint64_t stamp = version + 1;
	enum rc rc = host ? to_device(s, s->r.net.params, host, s->r.live_bytes, err) : err->rc;

	if (rc == RC_OK)
		rc = to_device(s, s->copy[version % 2], host, nbytes_of(s->task), err);
	if (rc == RC_OK)
		rc = to_device(s, s->versions + version % 2 * sizeof stamp, &stamp, sizeof stamp,
			       err);
	free(host);
	return rc;
}

static enum rc
upload(struct store *s, struct err *err)
{
	const struct dataset *data = &s->task->data;
	uint64_t item = dataset_item_bytes(data);
	enum rc rc = to_device(s, s->r.scale, data->scale, data->channels * sizeof(float), err);

	if (rc == RC_OK)
		rc = to_device(s, s->r.shift, data->shift, data->channels * sizeof(float), err);
	for (unsigned p = 0; p < NTESTS && rc == RC_OK; p++) {
		const struct dataset_part *part = tested(s->task, p);

		if (part->nitems == 0)
			continue;
		rc = to_device(s, s->r.tests[p], part->items, part->nitems * item, err);
		if (rc == RC_OK)
			rc = to_device(s, s->r.test_labels[p], part->labels, part->nitems, err);
	}
	return rc;
}

/* ---- tests */

/* A graph of a batch of a part: whole batches, moving, or the rest. */
static enum rc
record_test(struct store *s, unsigned part, const struct batch *b, struct gpusim_graph *graph,
	    struct err *err)
{
	struct gpusim_ops *o = gpusim_ops_new(1);
	struct emit_sink sink = ps_sink(o);
	struct emit_batch one = {
	    .nranks = 1, .place = &s->r.net, .rows = &b->rows, .total = b->rows};
	struct emit_target target;
	enum rc rc;

	one.single = s->shape.leaf;
	replica_load_tests(&sink, 0, &s->r, &s->shape, b, part);
	emit_forward(&s->task->net, &one, EMIT_EVAL, &sink);
	target = replica_test_target(&s->r, b, part);
	emit_count(&s->task->net, &one, &target, &sink);
	rc = api(gpusim_graph_create(s->comm, o, graph), err);
	gpusim_ops_free(o);
	return rc;
}

static enum rc
record_tests(struct store *s, struct err *err)
{
	enum rc rc = RC_OK;

	for (unsigned p = 0; p < NTESTS && rc == RC_OK; p++) {
		uint64_t n = tested(s->task, p)->nitems, rows = s->shape.max_rows;
		struct batch whole = {.rows = rows, .moving = true};
		struct batch rest = {.first = n / rows * rows, .rows = n % rows, .step = n / rows};

		if (n >= rows)
			rc = record_test(s, p, &whole, &s->whole[p], err);
		if (rc == RC_OK && rest.rows)
			rc = record_test(s, p, &rest, &s->rest[p], err);
	}
	return rc;
}

static enum rc
call_gone(struct store *s, struct err *err)
{
	struct err why = *err;

	s->gone = true;
	return err_set(err, why.rc, "%s; it was the parameter server's device", why.text);
}

enum rc
store_gone(struct store *s, struct err *err)
{
	bool away;
	enum rc rc = ps_device_gone(s->comm, &away, err);

	return rc == RC_OK ? rc : call_gone(s, err);
}

/* After a failure: as ps_again. */
static enum rc
again(struct store *s, struct ps_trouble *t, struct err *err)
{
	enum rc rc = ps_again(s->comm, t, err);

	return rc == RC_UNREACHABLE && !t->away ? call_gone(s, err) : rc;
}

/* Repeat each time the coordinator was unreachable: a repeated test gives the same counts. */
static enum rc
launch(struct store *s, struct gpusim_graph graph, uint64_t iterations, struct err *err)
{
	struct ps_trouble trouble = {0};
	enum rc rc;

	do
		rc =
		    api(gpusim_graph_launch(s->comm, graph, 0, iterations, GPUSIM_SYNC, NULL), err);
	while (rc != RC_OK && (rc = again(s, &trouble, err)) == RC_OK);
	return rc;
}

static enum rc
test_part(struct store *s, unsigned p, double *right, struct err *err)
{
	uint64_t n = tested(s->task, p)->nitems, whole = n / s->shape.max_rows, sum = 0;
	uint64_t *counts = must_alloc(whole + 1, sizeof *counts);
	enum rc rc = RC_OK;

	if (whole)
		rc = launch(s, s->whole[p], whole, err);
	if (rc == RC_OK && s->rest[p].id)
		rc = launch(s, s->rest[p], 1, err);
	if (rc == RC_OK)
		rc = from_device(s, counts, s->r.right[p],
				 (whole + (s->rest[p].id != 0)) * sizeof *counts, err);
	for (uint64_t i = 0; rc == RC_OK && i < whole + (s->rest[p].id != 0); i++)
		sum += counts[i];
	free(counts);
	if (rc == RC_OK)
		*right = (double)sum / (double)n;
	return rc;
}

enum rc
store_test(struct store *s, double right[NTESTS], struct err *err)
{
	enum rc rc = RC_OK;

	for (unsigned p = 0; p < NTESTS && rc == RC_OK; p++) {
		right[p] = NAN;
		if (tested(s->task, p)->nitems)
			rc = test_part(s, p, &right[p], err);
	}
	return rc;
}

/* ---- updates */

/* An old gradient counts less: with momentum it would overshoot.
 * Source: Zhang, Gupta, Lian & Liu, "Staleness-aware Async-SGD", IJCAI 2016 */
static double
weight(const struct pool_update *u, uint32_t k)
{
	return 1 / (1 + (double)u->age[k]);
}

/* Gradients: the sum over all rows, divided by their number. Statistics: the mean, by rows. */
static void
add_up(struct store *s, const struct pool_update *u, struct gpusim_ops *o,
       const struct emit_sink *sink)
{
	const struct net *net = &s->task->net;
	uint64_t grads = s->r.net.grads, at = net->nparams * sizeof(float);

	gpusim_ops_copy(o, 0, STREAM_COMPUTE, (struct gpusim_addr){grads},
			(struct gpusim_addr){s->slot[u->slot[0]]}, at);
	if (u->age[0])
		LAUNCH(sink, 0, "scale", U("x", grads), U("n", net->nparams),
		       F("alpha", weight(u, 0)));
	for (uint32_t k = 1; k < u->nslots; k++)
		LAUNCH(sink, 0, "axpy", U("y", grads), U("x", s->slot[u->slot[k]]),
		       U("n", net->nparams), F("alpha", weight(u, k)));
	LAUNCH(sink, 0, "scale", U("x", grads), U("n", net->nparams),
	       F("alpha", 1 / (double)u->rows));
	if (net->nstats == 0)
		return;
	LAUNCH(sink, 0, "fill", U("dst", grads + at), U("n", net->nstats), F("value", 0));
	for (uint32_t k = 0; k < u->nslots; k++)
		LAUNCH(sink, 0, "axpy", U("y", grads + at), U("x", s->slot[u->slot[k]] + at),
		       U("n", net->nstats), F("alpha", (double)u->rows_of[k] / (double)u->rows));
}

/* The update from exact sums. */
static void
add_up_leaves(struct store *s, const struct pool_update *u, struct gpusim_ops *o,
	      const struct emit_sink *sink)
{
	const struct batch none = {0};

	gpusim_ops_copy(o, 0, STREAM_COMPUTE, (struct gpusim_addr){s->r.sums},
			(struct gpusim_addr){s->slot[u->slot[0]]},
			ps_slot_bytes(s->task, s->shape.leaf));
	for (uint32_t k = 1; k < u->nslots; k++)
		LAUNCH(sink, 0, "add", U("y", s->r.sums), U("a", s->r.sums),
		       U("b", s->slot[u->slot[k]]), U("n", leaves_elements(s->task)),
		       U("dtype", GPUSIM_I64));
	leaves_take(sink, 0, &s->r, &s->shape, &none, u->rows);
}

/* The index of a version's copy. */
static uint64_t
stamp_at(const struct store *s, uint64_t version)
{
	return s->versions + version % 2 * sizeof(uint64_t);
}

/* Write a u64 that a double represents exactly: no update's number is larger. */
static void
add_word(const struct emit_sink *sink, uint64_t addr, uint64_t value)
{
	LAUNCH(sink, 0, "fill", U("dst", addr), U("n", 1), F("value", (double)value),
	       U("dtype", GPUSIM_U64));
}

/* One list: it writes the begun version first and the new version's stamp last. No calls write,
 * because a call to a lost device takes long. */
static enum rc
update_once(struct store *s, const struct pool_update *u, double factor, struct err *err)
{
	const struct batch none = {0};
	struct emit_optimizer opt = replica_optimizer(&s->r, &s->shape, &none);
	struct gpusim_ops *o = gpusim_ops_new(1);
	struct emit_sink sink = ps_sink(o);
	uint64_t version = u->version + 1;
	enum rc rc;

	opt.lr *= factor;
	opt.lr_at = opt.lr_step = 0;
	add_word(&sink, stamp_at(s, version), 0);
	add_word(&sink, s->began, version + 1);
	(s->shape.leaf ? add_up_leaves : add_up)(s, u, o, &sink);
	emit_update(&s->task->net, 0, &s->r.net, &opt, &sink);
	gpusim_ops_copy(o, 0, STREAM_COMPUTE, (struct gpusim_addr){s->copy[version % 2]},
			(struct gpusim_addr){s->r.net.params}, nbytes_of(s->task));
	add_word(&sink, stamp_at(s, version), version + 1);
	rc = api(gpusim_submit(s->comm, o, GPUSIM_SYNC, NULL), err);
	gpusim_ops_free(o);
	return rc;
}

/* The result of an update is unknown, and nothing runs any more: the update is done or has not
 * begun, because a device finishes a list once it has begun it. */
static enum rc
settle(struct store *s, uint64_t version, bool *done, struct err *err)
{
	uint64_t stamp = 0, began = 0;
	enum rc rc = from_device(s, &stamp, stamp_at(s, version), sizeof stamp, err);

	if (rc == RC_OK)
		rc = from_device(s, &began, s->began, sizeof began, err);
	*done = rc == RC_OK && stamp == version + 1;
	if (rc == RC_OK && !*done && began == version + 1)
		rc = err_set(err, RC_INTERNAL,
			     "update %" PRIu64 " was interrupted: the weights are lost", version);
	return rc;
}

enum rc
store_update(struct store *s, const struct pool_update *u, double factor, struct err *err)
{
	struct ps_trouble trouble = {0};
	bool done = false;
	enum rc rc = update_once(s, u, factor, err);

	while (rc != RC_OK) {
		rc = again(s, &trouble, err);
		if (rc != RC_OK)
			break;
		rc = settle(s, u->version + 1, &done, err);
		if (rc == RC_OK && !done)
			rc = update_once(s, u, factor, err);
	}
	return rc;
}

/* ---- to the host */

/* Read values that an update changes, or report why the device is lost. */
static enum rc
fetch(struct store *s, void *dst, uint64_t nbytes, struct err *err)
{
	struct err why = {0};
	enum rc rc = from_device(s, dst, s->r.net.params, nbytes, err);

	if (rc != RC_OK && store_gone(s, &why) != RC_OK)
		rc = err_set(err, why.rc, "%s", why.text);
	return rc;
}

enum rc
store_weights(struct store *s, float *values, struct err *err)
{
	return fetch(s, values, nbytes_of(s->task), err);
}

static float *
vector(const struct store *s, const uint8_t *host, uint64_t addr)
{
	float *v = must_alloc(task_values(s->task), sizeof *v);

	memcpy(v, host + (addr - s->r.net.params), nbytes_of(s->task));
	return v;
}

enum rc
store_state(struct store *s, struct checkpoint *out, struct err *err)
{
	struct checkpoint c = {.nparams = task_values(s->task), .nstate = s->r.state[1] ? 2 : 1};
	uint8_t *host = must_alloc(s->r.live_bytes, 1);
	enum rc rc = fetch(s, host, s->r.live_bytes, err);

	if (rc == RC_OK) {
		memcpy(&c.optimizer_steps, host + (s->r.adam_step - s->r.net.params),
		       sizeof c.optimizer_steps);
		c.params = vector(s, host, s->r.net.params);
		for (unsigned i = 0; i < c.nstate; i++)
			c.state[i] = vector(s, host, s->r.state[i]);
	}
	free(host);
	if (rc == RC_OK)
		*out = c;
	else
		checkpoint_fini(&c);
	return rc;
}

/* ---- beginning and end */

enum rc
ps_store_open(struct store *s, struct gpusim *g, const struct task *task,
	      const struct checkpoint *from, uint64_t version, struct err *err)
{
	const struct gpusim_comm_config config = {GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE,
						  .wait_ms = task->config->wait_ms};
	enum rc rc;

	*s = (struct store){.g = g, .task = task, .shape = store_shape(task)};
	rc = api(gpusim_comm_init_all(g, 1, NULL, &config, &s->comm), err);
	if (rc == RC_OK)
		rc = place(s, err);
	if (rc == RC_OK)
		rc = load(s, from, version, err);
	if (rc == RC_OK)
		rc = upload(s, err);
	if (rc == RC_OK)
		rc = record_tests(s, err);
	return rc;
}

void
ps_store_close(struct store *s)
{
	bool answers = !s->gone;

	if (!s->g)
		return;
	gpusim_set_timeout_ms(s->g, TASK_GIVE_BACK_MS);
	for (uint32_t i = 0; i < s->nslots && answers; i++)
		answers = replica_free_memory(s->g, s->r.device, s->slot[i]);
	if (s->published && answers)
		answers = replica_free_memory(s->g, s->r.device, s->published);
	if (s->r.owned && answers)
		replica_free_memory(s->g, s->r.device, s->r.base);
	gpusim_comm_destroy(s->comm);
	*s = (struct store){0};
}
