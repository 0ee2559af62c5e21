#include "train/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mix.h"
#include "base/must.h"
#include "nn/augment.h"

#define TEST_ROWS  256
#define TEST_BYTES (16u << 20) /* of activations at once */

/* The schedule, if it is a file's. */
static enum rc
read_schedule(const struct train_config *c, struct pipeline **out, struct err *err)
{
	struct pipeline_facts *facts;
	enum rc rc;

	if (!c->pipeline || pipeline_is_scheme(c->pipeline))
		return RC_OK;
	rc = pipeline_named(c->pipeline, 0, 0, out, err);
	facts = must_alloc(1, sizeof *facts);
	if (rc == RC_OK)
		rc = pipeline_check(*out, facts, err);
	free(facts);
	if (rc == RC_OK)
		return rc;
	err->rc = RC_INVAL;
	return err_prefix(err, "--schedule");
}

enum rc
task_open(const struct train_config *config, struct task *task, struct err *err)
{
	struct task t = {.config = config};
	struct net_shape item;
	enum rc rc = dataset_open(config->data, &config->dataset, &t.data, err);

	if (rc != RC_OK)
		return rc;
	rc = augment_check(config->augment, &t.data, err);
	item = (struct net_shape){t.data.channels, t.data.rows, t.data.cols};
	if (rc == RC_OK)
		rc = config_check_dims(config, config->data, item, t.data.nclasses, &t.data, err);
	if (rc == RC_OK)
		rc = net_build(&config->net, item, t.data.nclasses, &t.net, err);
	if (rc == RC_INVAL) /* the options are valid, but not for these data */
		rc = err->rc = RC_BADDATA;
	if (rc == RC_OK)
		rc = dataset_check_labels(&t.data, t.net.nclasses, err);
	if (rc == RC_OK)
		rc = read_schedule(config, &t.schedule, err);
	if (rc != RC_OK)
		task_fini(&t);
	else
		*task = t;
	return rc;
}

void
task_fini(struct task *t)
{
	dataset_fini(&t->data);
	pipeline_free(t->schedule);
}

/* A checksum of what must stay the same when less is sent. */
static uint64_t
method_of(const struct train_config *c)
{
	const double number[] = {
	    c->compress.kind, c->compress.rank, c->compress.fraction, (double)c->compress_warmup,
	    c->outer,	      c->outer_lr,	c->outer_momentum,    c->precision,
	    c->loss_scale,    c->clip};
	uint64_t sum = 0, bits;

	if (c->compress.kind == COMPRESS_NONE && c->outer == OUTER_MEAN && !c->precision &&
	    c->clip == 0)
		return 0;
	for (size_t i = 0; i < sizeof number / sizeof number[0]; i++) {
		memcpy(&bits, &number[i], sizeof bits);
		sum = mix64(sum ^ bits);
	}
	return sum >> 1 | 1;
}

struct checkpoint_terms
task_terms(const struct task *t)
{
	const struct train_config *c = t->config;
	struct checkpoint_terms terms = {.nvalues = task_values(t),
					 .sync = c->sync,
					 .local_steps = c->sync == SYNC_LOCAL ? c->local_steps : 0,
					 .optimizer = c->optimizer,
					 .schedule = c->schedule.kind,
					 .method = method_of(c),
					 .batch = c->global_batch ? 0 : c->batch,
					 .leaf = c->deterministic ? c->leaf : 0,
					 .augment = c->augment,
					 .seed = c->seed,
					 .lr = c->lr,
					 .momentum = c->momentum,
					 .weight_decay = c->weight_decay,
					 .train_items = t->data.train.nitems,
					 .test_items = t->data.test.nitems,
					 .data_crc = dataset_crc(&t->data)};

	snprintf(terms.net, sizeof terms.net, "%s", t->net.text);
	return terms;
}

uint32_t
task_leaf(const struct task *t)
{
	return t->config->deterministic ? t->config->leaf : 1;
}

uint64_t
task_global(const struct task *t, uint32_t nranks)
{
	return t->config->global_batch ? t->config->global_batch
				       : (uint64_t)t->config->batch * task_workers(t, nranks);
}

uint32_t
task_tested_whole(const struct task *t)
{
	return t->config->deterministic ? (uint32_t)task_test_rows(t) : 1;
}

uint32_t
task_workers(const struct task *t, uint32_t nranks)
{
	const struct grid *g = &t->config->parallel;
	uint32_t parts = (g->tp ? g->tp : 1) * (g->pp ? g->pp : 1);

	if (t->config->sync == SYNC_SENDRECV && nranks > 1)
		return nranks - 1;
	return nranks < parts ? 1 : nranks / parts;
}

uint64_t
task_values(const struct task *t)
{
	return t->net.nparams + t->net.nstats;
}

bool
task_scale(const struct task *t, double *scale)
{
	for (uint32_t c = 0; c < t->data.channels; c++)
		if (t->data.scale[c] != t->data.scale[0] || t->data.shift[c] != 0)
			return false;
	/* Use the exact double for 1/255, so that results equal a division's. */
	*scale = t->data.scale[0] == 1.0f / 255 ? 1.0 / 255 : (double)t->data.scale[0];
	return true;
}

uint64_t
task_test_rows(const struct task *t)
{
	uint64_t row = net_shape_size(t->net.input), rows;

	for (uint32_t k = 0; k < t->net.nnodes; k++)
		row += net_item_size(&t->net.node[k]);
	rows = TEST_BYTES / (row * sizeof(float));
	return rows < 1 ? 1 : rows < TEST_ROWS ? rows : TEST_ROWS;
}
