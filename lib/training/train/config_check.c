#include <math.h>
#include <string.h>

#include "base/must.h"
#include "coll/plan.h"
#include "train/config_impl.h"

/* Turn this file's numbers of neurons into layers; 0: from the data. */
static enum rc
take_neurons(struct option_set *s, int rank, struct err *err)
{
	static const char *const keys[] = {"inputLayerNeurons", "hiddenLayerNeurons",
					   "outputLayerNeurons"};
	struct config_draft *d = s->target;
	const struct option_from *from = NULL;
	const struct config_neurons *n = &d->neurons;
	struct net_config *net = &d->c.net;

	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
		if (option_from(s, keys[i])->rank == rank)
			from = option_from(s, keys[i]);
	if (!from)
		return RC_OK;
	if (option_from(s, "layers")->rank == rank)
		return err_set(err, RC_INVAL, "%s:%d: layers and their neurons are both given",
			       from->file, from->line);
	if (!n->input && !n->nhidden)
		return err_set(err, RC_INVAL,
			       "%s:%d: outputLayerNeurons needs the layers before it", from->file,
			       from->line);
	net->nsizes = 0;
	net->size[net->nsizes++] = 0;
	if (n->input)
		net->size[net->nsizes++] = n->input;
	for (uint32_t i = 0; i < n->nhidden; i++)
		net->size[net->nsizes++] = n->hidden[i];
	net->size[net->nsizes++] = n->output;
	s->from[option_row(s, "layers")] = *from;
	return RC_OK;
}

/* Complete the fractions of this file: the rest is for testing, or for training. */
static enum rc
take_fractions(struct option_set *s, int rank, struct err *err)
{
	struct dataset_options *o = &((struct config_draft *)s->target)->c.dataset;
	const struct option_from *train = option_from(s, "trainFraction");
	const struct option_from *validation = option_from(s, "validationFraction");
	const struct option_from *test = option_from(s, "testFraction");
	const struct option_from *from = train->rank == rank	    ? train
					 : validation->rank == rank ? validation
								    : test;
	if (from->rank != rank)
		return RC_OK;
	if (option_from(s, "split")->rank == rank)
		return err_set(err, RC_INVAL, "%s:%d: split and its fractions are both given",
			       from->file, from->line);
	if (train->rank && !test->rank)
		o->test = fmax(0, 1 - o->train - o->validation);
	else if (test->rank && !train->rank)
		o->train = fmax(0, 1 - o->test - o->validation);
	if (o->train + o->validation + o->test > 1 + 1e-9)
		return err_set(err, RC_INVAL, "%s:%d: the fractions sum to more than 1", from->file,
			       from->line);
	s->from[option_row(s, "split")] = *from;
	return RC_OK;
}

enum rc
config_file_read(struct option_set *s, const char *name, int rank, struct err *err)
{
	enum rc rc = take_neurons(s, rank, err);

	(void)name;
	return rc == RC_OK ? take_fractions(s, rank, err) : rc;
}

/* Was option a given by a stronger source than b? */
static bool
outranks(const struct config_draft *d, const char *a, const char *b)
{
	return option_from(&d->set, a)->rank > option_from(&d->set, b)->rank;
}

static enum rc
refuse(const struct config_draft *d, const char *name, struct err *err)
{
	return option_err_at(option_from(&d->set, name), name, err);
}

/* Devices and workers mean the same; the stronger source counts. */
static enum rc
check_workers(struct config_draft *d, struct err *err)
{
	struct train_config *c = &d->c;
	uint32_t servers = config_servers(c);

	if (c->compare && c->devices) {
		err_set(err, RC_INVAL, "use --workers with --compare");
		return refuse(d, "devices", err);
	}
	if (c->nworkers > 1 && !c->compare) {
		err_set(err, RC_INVAL, "several numbers need --compare");
		return refuse(d, "workers", err);
	}
	if (c->compare || (!c->nworkers && !c->devices))
		return RC_OK;
	if (outranks(d, "workers", "devices"))
		c->devices = 0;
	else if (outranks(d, "devices", "workers"))
		c->nworkers = 0;
	if (c->nworkers && c->devices && c->devices != c->workers[0] + servers) {
		err_set(err, RC_INVAL, "%u devices are given, but --workers %u needs %u",
			c->devices, c->workers[0], c->workers[0] + servers);
		return refuse(d, "devices", err);
	}
	if (c->nworkers)
		c->devices = c->workers[0] + servers;
	if (c->devices > servers)
		return RC_OK;
	err_set(err, RC_INVAL, "needs 2: one device holds the weights, one trains");
	return refuse(d, "devices", err);
}

/* The devices that a grid needs. */
static enum rc
check_parallel(struct config_draft *d, struct err *err)
{
	struct train_config *c = &d->c;
	const struct grid *g = &c->parallel;
	char text[GRID_TEXT];
	uint32_t n;

	if (c->compare && c->zero) {
		err_set(err, RC_INVAL,
			"cannot be used with --compare; its methods are zero1, zero2 and zero3");
		return refuse(d, "zero", err);
	}
	if (!g->tp)
		return RC_OK;
	if (c->compare) {
		err_set(err, RC_INVAL,
			"cannot be used with --compare; its methods are zero1, zero2, zero3, tp "
			"and pp");
		return refuse(d, "parallel", err);
	}
	n = (g->dp ? g->dp : 1) * g->tp * g->pp;
	if (g->dp && !c->devices)
		c->devices = n;
	if (g->dp ? c->devices == n : c->devices % n == 0)
		return RC_OK;
	err_set(err, RC_INVAL,
		g->dp ? "%s is %u devices, and %u are given"
		      : "%s: %u must divide the %u devices that are given",
		grid_print(g, text), n, c->devices);
	return refuse(d, "parallel", err);
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
		err_set(err, RC_INVAL, "this optimizer needs a momentum above 0");
		return refuse(d, "momentum", err);
	}
	return RC_OK;
}

/* At most one task instead of training. */
static enum rc
check_task(const struct config_draft *d, struct err *err)
{
	const struct train_config *c = &d->c;
	const char *task = c->eval ? "eval" : c->infer ? "infer" : NULL;

	if (c->nfiles && !c->infer)
		return err_set(err, RC_INVAL, "unexpected argument '%.64s'", c->files[0]);
	if (c->nfiles && c->data) {
		err_set(err, RC_INVAL, "cannot be used with the files of --infer");
		return refuse(d, "data", err);
	}
	if (c->eval && c->infer) {
		err_set(err, RC_INVAL, "cannot be used with --eval");
		return refuse(d, "infer", err);
	}
	if (task && c->compare) {
		err_set(err, RC_INVAL, "cannot be used with --compare");
		return refuse(d, task, err);
	}
	if (task && !c->load) {
		err_set(err, RC_INVAL, "needs --load FILE");
		return refuse(d, task, err);
	}
	if (c->backend == BACKEND_MPI && (task || c->sync != SYNC_ALLREDUCE)) {
		err_set(err, RC_INVAL, "needs training with --sync allreduce");
		return refuse(d, "backend", err);
	}
	return RC_OK;
}

/* An algorithm from a file runs only on a coordinator's devices. */
static enum rc
check_algo(const struct config_draft *d, struct err *err)
{
	const struct train_config *c = &d->c;

	if (plan_algo_is_built_in(c->algo) ||
	    (c->backend == BACKEND_GPUSIM &&
	     (c->compare || c->sync == SYNC_ALLREDUCE || c->sync == SYNC_LOCAL)))
		return RC_OK;
	err_set(err, RC_INVAL,
		"'%s' is not built in; algorithms from files need --sync allreduce or local, and "
		"cannot be used with --backend mpi",
		c->algo);
	return refuse(d, "algo", err);
}

/* Formulas count what a ring sends. */
static enum rc
check_account(struct config_draft *d, struct err *err)
{
	struct train_config *c = &d->c;

	if (!c->account)
		return RC_OK;
	if (strcmp(c->algo, "auto") == 0)
		c->algo = "ring";
	if (c->compare)
		err_set(err, RC_INVAL, "cannot be used with --compare");
	else if (strcmp(c->algo, "ring") != 0)
		err_set(err, RC_INVAL, "needs --algo ring, whose sends the formulas count");
	else if (c->compress.kind != COMPRESS_NONE && c->compress.kind != COMPRESS_POWERSGD)
		err_set(err, RC_INVAL, "only powersgd of the ways to --compress sends by a ring");
	else if (c->deterministic && c->parallel.tp > 1)
		err_set(err, RC_INVAL,
			"not with --deterministic and tp: a ring cannot add in that order");
	else
		return RC_OK;
	return refuse(d, "account", err);
}

/* Sums that do not depend on the adding rank need steps with known images. */
static enum rc
check_deterministic(struct config_draft *d, struct err *err)
{
	struct train_config *c = &d->c;
	bool trains = !c->eval && !c->infer;

	/* The environment variable is also for other programs. */
	if (!trains && option_from(&d->set, "deterministic")->rank <= OPTION_FROM_ENV)
		c->deterministic = false;

	if (!c->deterministic)
		return RC_OK;
	if (!trains)
		err_set(err, RC_INVAL, "only for training");
	else if (c->compare)
		err_set(err, RC_INVAL, "cannot be used with --compare");
	else if (c->sync == SYNC_LOCAL)
		err_set(err, RC_INVAL,
			"not with --sync local: the result of a device alone depends on the number "
			"of devices");
	else if (c->sync == SYNC_PS && c->staleness)
		err_set(err, RC_INVAL,
			"needs --staleness 0: an old gradient depends on who was "
			"late");
	else
		return RC_OK;
	return refuse(d, "deterministic", err);
}

/* What the methods of compress.h take. */
static enum rc
check_compress(struct config_draft *d, struct err *err)
{
	struct train_config *c = &d->c;
	enum compress kind = c->compress.kind;
	bool adapts = optimizer_adapts(c->optimizer);

	/* A stronger source chose another way. */
	if (c->sync != SYNC_ALLREDUCE)
		c->compress.kind = kind = COMPRESS_NONE;
	if (c->sync != SYNC_LOCAL)
		c->outer = OUTER_MEAN;
	if (kind == COMPRESS_ONEBIT && !adapts)
		err_set(err, RC_INVAL, "onebit is 1-bit Adam: needs --optimizer adam or adamw");
	else if (kind == COMPRESS_TOPK && adapts)
		err_set(err, RC_INVAL, "topk needs --optimizer sgd, momentum or nesterov");
	else if (kind && c->bucket_bytes)
		err_set(err, RC_INVAL, "cannot be used with --bucket-bytes");
	else
		return RC_OK;
	return refuse(d, "compress", err);
}

/* Note whether an option chose the net. */
static void
look_at_net(struct config_draft *d)
{
	static const char *const names[] = {"model",	  "layers", "activation",
					    "layer-norm", "blocks", "hidden",
					    "heads",	  "patch",  "loss"};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		d->c.net_given = d->c.net_given || option_from(&d->set, names[i])->rank;
	if (d->c.net.model != NET_MLP) {
		d->c.net.nsizes = 0;
		d->c.net.layer_norm = false;
	}
	if (d->c.net.model != NET_VIT)
		d->c.net.vit = (struct net_vit){0};
}

/* Remember the line with a shape, for the message if the data set has another shape. */
static void
keep_origin(struct config_draft *d, const char *name, struct config_dims *dims)
{
	const struct option_from *from = option_from(&d->set, name);
	struct buf text = {0};

	if (!dims->n)
		return;
	must_addf(&text, "%s:%d: %s", from->file, from->line, name);
	dims->from = option_copy(&d->set.texts, text.data);
	buf_fini(&text);
}

enum rc
config_check(struct config_draft *d, struct err *err)
{
	enum rc rc;

	look_at_net(d);
	rc = option_check_applies(&d->set, err);

	if (rc == RC_OK)
		rc = check_workers(d, err);
	if (rc == RC_OK)
		rc = check_parallel(d, err);
	if (rc == RC_OK)
		rc = check_optimizer(d, err);
	if (rc == RC_OK)
		rc = check_task(d, err);
	if (rc == RC_OK)
		rc = check_algo(d, err);
	if (rc == RC_OK)
		rc = check_deterministic(d, err);
	if (rc == RC_OK)
		rc = check_compress(d, err);
	if (rc == RC_OK)
		rc = check_account(d, err);
	if (rc == RC_OK)
		keep_origin(d, "inputdataDims", &d->c.input_dims);
	if (rc == RC_OK)
		keep_origin(d, "labelOnehotDims", &d->c.label_dims);
	d->c.dataset.seed = d->c.seed;
	d->c.dataset.tests_only = d->c.eval || d->c.infer;
	return rc;
}
