#include <math.h>

#include "train/config_impl.h"

/* Whether option a was given by somebody whose word counts more than b's. */
static bool
outranks(const struct config_draft *d, const char *a, const char *b)
{
	return d->from[config_row(a)].rank > d->from[config_row(b)].rank;
}

static enum rc
refuse(const struct config_draft *d, const char *name, struct err *err)
{
	return config_blame(&d->from[config_row(name)], name, err);
}

/* What was given and says nothing is refused, unless what it depends on was changed later. */
static enum rc
check_applies(const struct config_draft *d, struct err *err)
{
	for (unsigned i = 0; i < config_noptions; i++) {
		const struct config_option *o = &config_options[i];

		if (!d->from[i].rank || !o->applies || o->applies(&d->c) ||
		    outranks(d, o->on, o->name))
			continue;
		err_set(err, RC_INVAL, "%s", o->needs);
		return config_blame(&d->from[i], o->name, err);
	}
	return RC_OK;
}

/* Devices and workers say the same; who spoke later counts. */
static enum rc
check_workers(struct config_draft *d, struct err *err)
{
	struct train_config *c = &d->c;
	uint32_t servers = config_servers(c);

	if (c->compare && c->devices) {
		err_set(err, RC_INVAL, "with --compare it is --workers that says how many");
		return refuse(d, "devices", err);
	}
	if (c->nworkers > 1 && !c->compare) {
		err_set(err, RC_INVAL, "several only with --compare");
		return refuse(d, "workers", err);
	}
	if (c->compare || (!c->nworkers && !c->devices))
		return RC_OK;
	if (outranks(d, "workers", "devices"))
		c->devices = 0;
	else if (outranks(d, "devices", "workers"))
		c->nworkers = 0;
	if (c->nworkers && c->devices && c->devices != c->workers[0] + servers) {
		err_set(err, RC_INVAL, "%u, and --workers %u take %u", c->devices, c->workers[0],
			c->workers[0] + servers);
		return refuse(d, "devices", err);
	}
	if (c->nworkers)
		c->devices = c->workers[0] + servers;
	if (c->devices > servers)
		return RC_OK;
	err_set(err, RC_INVAL, "one that holds the weights and one that trains are due");
	return refuse(d, "devices", err);
}

static enum rc
check_optimizer(struct config_draft *d, struct err *err)
{
	struct train_config *c = &d->c;
	bool adaptive = optimizer_adapts(c->optimizer);

	if (isnan(c->lr))
		c->lr = adaptive ? 0.001 : 0.1;
	if (isnan(c->weight_decay))
		c->weight_decay = c->optimizer == OPTIMIZER_ADAMW ? 0.01 : 0;
	if (d->needs_momentum && c->momentum == 0) {
		err_set(err, RC_INVAL, "such an optimizer has some");
		return refuse(d, "momentum", err);
	}
	return RC_OK;
}

/* What is done instead of training, one at a time. */
static enum rc
check_task(const struct config_draft *d, struct err *err)
{
	const struct train_config *c = &d->c;
	const char *task = c->eval ? "eval" : c->infer ? "infer" : NULL;

	if (c->nfiles && !c->infer)
		return err_set(err, RC_INVAL, "unexpected argument '%.64s'", c->files[0]);
	if (c->nfiles && c->data) {
		err_set(err, RC_INVAL, "not together with files to --infer");
		return refuse(d, "data", err);
	}
	if (c->eval && c->infer) {
		err_set(err, RC_INVAL, "not together with --eval");
		return refuse(d, "infer", err);
	}
	if (task && c->compare) {
		err_set(err, RC_INVAL, "not together with --compare");
		return refuse(d, task, err);
	}
	if (task && !c->load) {
		err_set(err, RC_INVAL, "needs --load FILE");
		return refuse(d, task, err);
	}
	if (c->backend == BACKEND_MPI && (task || c->sync != SYNC_ALLREDUCE)) {
		err_set(err, RC_INVAL, "only for training with --sync allreduce");
		return refuse(d, "backend", err);
	}
	return RC_OK;
}

/* Whether a net was asked for. */
static void
look_at_net(struct config_draft *d)
{
	static const char *const names[] = {"model", "layers", "activation", "layer-norm", "loss"};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		d->c.net_given = d->c.net_given || d->from[config_row(names[i])].rank;
	if (d->c.net.model != NET_MLP) {
		d->c.net.nsizes = 0;
		d->c.net.layer_norm = false;
	}
}

/* Which line said what the data set has, for when it has not. */
static enum rc
keep_origin(struct config_draft *d, const char *name, struct config_dims *dims, struct err *err)
{
	const struct config_from *from = &d->from[config_row(name)];
	struct buf text = {0};

	if (!dims->n)
		return RC_OK;
	if (buf_addf(&text, "%s:%d: %s", from->file, from->line, name) && buf_add(&text, "", 1))
		dims->from = config_keep(&d->c, text.data);
	buf_fini(&text);
	return dims->from ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
}

enum rc
config_check(struct config_draft *d, struct err *err)
{
	enum rc rc;

	look_at_net(d);
	rc = check_applies(d, err);

	if (rc == RC_OK)
		rc = check_workers(d, err);
	if (rc == RC_OK)
		rc = check_optimizer(d, err);
	if (rc == RC_OK)
		rc = check_task(d, err);
	if (rc == RC_OK)
		rc = keep_origin(d, "inputdataDims", &d->c.input_dims, err);
	if (rc == RC_OK)
		rc = keep_origin(d, "labelOnehotDims", &d->c.label_dims, err);
	d->c.dataset.seed = d->c.seed;
	d->c.dataset.tests_only = d->c.eval || d->c.infer;
	return rc;
}
