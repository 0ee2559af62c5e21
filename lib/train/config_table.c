/*
 * config_table.c - the options: names, values, help. A new one is a row here, a field in config.h and
 * a line in mnist-train(1).
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/option.h"
#include "base/parse.h"
#include "coll/plan.h"
#include "train/config_impl.h"

#define FIELD(o, c, type) ((type *)((char *)(c) + (o)->at))
#define READ(o, c, type)  (*(const type *)((const char *)(c) + (o)->at))

/* ---- kinds of values */

static enum rc
parse_u32_field(const struct config_option *o, const char *text, struct config_draft *d,
		struct err *err)
{
	return option_u32(text, (uint32_t)o->lo, (uint32_t)o->hi, FIELD(o, &d->c, uint32_t), err);
}

static bool
print_u32(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	return buf_addf(out, "%u", READ(o, c, uint32_t));
}

/* A number for which 0 is as if it had not been given. */
static bool
print_u32_set(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	return READ(o, c, uint32_t) == 0 || print_u32(o, c, out);
}

static enum rc
parse_u64_field(const struct config_option *o, const char *text, struct config_draft *d,
		struct err *err)
{
	uint64_t hi = o->hi > 0 ? (uint64_t)o->hi : UINT64_MAX;

	return parse_u64(text, (uint64_t)o->lo, hi, FIELD(o, &d->c, uint64_t), err);
}

static bool
print_u64(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	return buf_addf(out, "%llu", (unsigned long long)READ(o, c, uint64_t));
}

static enum rc
parse_size_field(const struct config_option *o, const char *text, struct config_draft *d,
		 struct err *err)
{
	return parse_size(text, FIELD(o, &d->c, uint64_t), err);
}

static enum rc
parse_double_field(const struct config_option *o, const char *text, struct config_draft *d,
		   struct err *err)
{
	return parse_double(text, o->lo, o->hi, FIELD(o, &d->c, double), err);
}

/* With as few digits as give the same again. */
static bool
add_double(struct buf *out, double v)
{
	char text[40];

	for (int digits = 6; digits <= 17; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	return buf_addf(out, "%s", text);
}

static bool
print_double(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	return add_double(out, READ(o, c, double));
}

static enum rc
parse_string(const struct config_option *o, const char *text, struct config_draft *d,
	     struct err *err)
{
	const char *kept;

	if (!*text)
		return err_set(err, RC_INVAL, "'' is not a %s", o->arg);
	kept = config_keep(&d->c, text);
	if (!kept)
		return err_set(err, RC_NOMEM, "out of memory");
	*FIELD(o, &d->c, const char *) = kept;
	return RC_OK;
}

static bool
print_string(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	const char *s = READ(o, c, char *);

	return !s || buf_add(out, s, strlen(s));
}

static enum rc
parse_bool(const struct config_option *o, const char *text, struct config_draft *d, struct err *err)
{
	bool yes = strcasecmp(text, "true") == 0;

	if (!yes && strcasecmp(text, "false") != 0)
		return err_set(err, RC_INVAL, "'%.64s' is neither true nor false", text);
	*FIELD(o, &d->c, bool) = yes;
	return RC_OK;
}

static bool
print_bool(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	return buf_addf(out, "%s", READ(o, c, bool) ? "true" : "false");
}

/* "'x' is none of a, b, c", with the names alone. */
static enum rc
refuse_word(const struct config_option *o, const char *text, struct err *err)
{
	char names[256];
	size_t len = 0;

	for (const struct config_word *w = o->words; w->word; w++)
		if ((w == o->words || w->value != w[-1].value) && len < sizeof names)
			len += (size_t)snprintf(names + len, sizeof names - len, "%s%s",
						len ? ", " : "", w->word);
	return err_set(err, RC_INVAL, "'%.64s' is none of %s", text, names);
}

static enum rc
parse_word(const struct config_option *o, const char *text, struct config_draft *d, struct err *err)
{
	for (const struct config_word *w = o->words; w->word; w++)
		if (strcasecmp(w->word, text) == 0) {
			*FIELD(o, &d->c, int) = w->value;
			return RC_OK;
		}
	return refuse_word(o, text, err);
}

static bool
print_word(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	for (const struct config_word *w = o->words; w->word; w++)
		if (w->value == READ(o, c, int))
			return buf_addf(out, "%s", w->word);
	return true;
}

/* A word for which 0 is as if it had not been given. */
static bool
print_word_set(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	return READ(o, c, int) == 0 || print_word(o, c, out);
}

enum rc
config_numbers(const char *text, uint32_t lo, uint32_t hi, uint32_t max, uint32_t *out, uint32_t *n,
	       struct err *err)
{
	uint32_t v[NET_MAX_SIZES > CONFIG_MAX_WORKERS ? NET_MAX_SIZES : CONFIG_MAX_WORKERS];
	const char *p = text;
	uint32_t k = 0;

	for (;; p++) {
		size_t len = strcspn(p, ",");
		char one[24];

		if (k == max)
			return err_set(err, RC_INVAL, "'%.64s': more than %u numbers", text, max);
		if (len >= sizeof one)
			return err_set(err, RC_INVAL, "'%.64s' is not a list of numbers", text);
		memcpy(one, p, len);
		one[len] = '\0';
		if (option_u32(one, lo, hi, &v[k++], err) != RC_OK)
			return err->rc;
		p += len;
		if (!*p)
			break;
	}
	memcpy(out, v, k * sizeof *v);
	*n = k;
	return RC_OK;
}

static bool
add_numbers(struct buf *out, const uint32_t *v, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!buf_addf(out, "%s%u", i ? "," : "", v[i]))
			return false;
	return true;
}

/* ---- values of one option alone */

static enum rc
parse_workers(const struct config_option *o, const char *text, struct config_draft *d,
	      struct err *err)
{
	return config_numbers(text, (uint32_t)o->lo, (uint32_t)o->hi, CONFIG_MAX_WORKERS,
			      d->c.workers, &d->c.nworkers, err);
}

static bool
print_workers(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	(void)o;
	return add_numbers(out, c->workers, c->nworkers);
}

/* Those that workers stand for are not said twice. */
static bool
print_devices(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	return c->nworkers || print_u32_set(o, c, out);
}

static enum rc
parse_layers(const struct config_option *o, const char *text, struct config_draft *d,
	     struct err *err)
{
	enum rc rc = net_sizes_parse(text, &d->c.net, err);

	(void)o;
	if (rc == RC_OK)
		d->neurons = (struct config_neurons){0};
	return rc;
}

static bool
print_layers(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	(void)o;
	return add_numbers(out, c->net.size, c->net.nsizes);
}

static enum rc
parse_hidden(const struct config_option *o, const char *text, struct config_draft *d,
	     struct err *err)
{
	/* Beside them: inputs, a first layer, outputs. */
	return config_numbers(text, (uint32_t)o->lo, (uint32_t)o->hi, NET_MAX_SIZES - 3,
			      d->neurons.hidden, &d->neurons.nhidden, err);
}

static enum rc
parse_input_neurons(const struct config_option *o, const char *text, struct config_draft *d,
		    struct err *err)
{
	return option_u32(text, (uint32_t)o->lo, (uint32_t)o->hi, &d->neurons.input, err);
}

static enum rc
parse_output_neurons(const struct config_option *o, const char *text, struct config_draft *d,
		     struct err *err)
{
	return option_u32(text, (uint32_t)o->lo, (uint32_t)o->hi, &d->neurons.output, err);
}

static bool
print_nothing(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	(void)o;
	(void)c;
	(void)out;
	return true;
}

/* momentum is sgd that must have some. */
static enum rc
parse_optimizer(const struct config_option *o, const char *text, struct config_draft *d,
		struct err *err)
{
	enum rc rc = parse_word(o, text, d, err);

	if (rc == RC_OK)
		d->needs_momentum =
		    strcasecmp(text, "momentum") == 0 || d->c.optimizer == OPTIMIZER_NESTEROV;
	return rc;
}

static enum rc
parse_split(const struct config_option *o, const char *text, struct config_draft *d,
	    struct err *err)
{
	(void)o;
	return dataset_split_parse(text, &d->c.dataset, err);
}

static bool
print_split(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	const struct dataset_options *s = &c->dataset;

	(void)o;
	if (s->train == 0 && s->validation == 0 && s->test == 0)
		return true;
	return add_double(out, s->train) && buf_add(out, ",", 1) &&
	       add_double(out, s->validation) && buf_add(out, ",", 1) && add_double(out, s->test);
}

/* "32" or "32x48": rows, then columns. */
static enum rc
parse_image_size(const struct config_option *o, const char *text, struct config_draft *d,
		 struct err *err)
{
	const char *x = strpbrk(text, "xX");
	char rows[24] = "";
	uint32_t r, c;

	if (x && (size_t)(x - text) < sizeof rows)
		memcpy(rows, text, (size_t)(x - text));
	if (option_u32(x ? rows : text, (uint32_t)o->lo, (uint32_t)o->hi, &r, err) != RC_OK ||
	    option_u32(x ? x + 1 : text, (uint32_t)o->lo, (uint32_t)o->hi, &c, err) != RC_OK)
		return err_set(err, RC_INVAL, "'%.64s' is no size such as 32 or 32x48, to %.0f",
			       text, o->hi);
	d->c.dataset.rows = r;
	d->c.dataset.cols = c;
	return RC_OK;
}

static bool
print_image_size(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	(void)o;
	return !c->dataset.rows || buf_addf(out, "%ux%u", c->dataset.rows, c->dataset.cols);
}

static enum rc
parse_staleness(const struct config_option *o, const char *text, struct config_draft *d,
		struct err *err)
{
	if (strcasecmp(text, "async") != 0)
		return parse_u32_field(o, text, d, err);
	d->c.staleness = STALENESS_ASYNC;
	return RC_OK;
}

static bool
print_staleness(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	return c->staleness == STALENESS_ASYNC ? buf_addf(out, "async") : print_u32(o, c, out);
}

static enum rc
parse_algo(const struct config_option *o, const char *text, struct config_draft *d, struct err *err)
{
	const struct plan_algo *algo;
	enum rc rc = plan_algo_find(GPUSIM_ALLREDUCE, text, &algo, err);

	return rc == RC_OK ? parse_string(o, text, d, err) : rc;
}

static enum rc
parse_on_failure(const struct config_option *o, const char *text, struct config_draft *d,
		 struct err *err)
{
	enum gpusim_rc rc = gpusim_on_failure_parse(text, &d->c.on_failure);

	(void)o;
	return rc == GPUSIM_OK ? RC_OK : err_set(err, (enum rc)rc, "%s", gpusim_error());
}

static bool
print_on_failure(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	(void)o;
	return buf_addf(out, "%s", gpusim_on_failure_name(c->on_failure));
}

/* ---- names of other rooms, without regard to case */

/* Cut where it is too long for any name. */
static const char *
lower(const char *text, char out[64])
{
	size_t n = 0;

	for (; text[n] && n < 63; n++)
		out[n] = (char)tolower((unsigned char)text[n]);
	out[n] = '\0';
	return out;
}

static enum rc
parse_format(const struct config_option *o, const char *text, struct config_draft *d,
	     struct err *err)
{
	char name[64];

	(void)o;
	return dataset_format_parse(lower(text, name), &d->c.dataset.format, err);
}

static bool
print_format(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	(void)o;
	return buf_addf(out, "%s", dataset_format_name(c->dataset.format));
}

static enum rc
parse_normalize(const struct config_option *o, const char *text, struct config_draft *d,
		struct err *err)
{
	char name[64];

	(void)o;
	return dataset_normalize_parse(lower(text, name), &d->c.dataset.normalize, err);
}

static bool
print_normalize(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	(void)o;
	return buf_addf(out, "%s", dataset_normalize_name(c->dataset.normalize));
}

static enum rc
parse_model(const struct config_option *o, const char *text, struct config_draft *d,
	    struct err *err)
{
	char name[64];

	(void)o;
	return net_model_parse(lower(text, name), &d->c.net.model, err);
}

static bool
print_model(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	(void)o;
	return buf_addf(out, "%s", net_model_name(c->net.model));
}

static enum rc
parse_activation(const struct config_option *o, const char *text, struct config_draft *d,
		 struct err *err)
{
	char name[64];

	(void)o;
	return net_act_parse(lower(text, name), &d->c.net.act, err);
}

static bool
print_activation(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	(void)o;
	return buf_addf(out, "%s", net_act_name(c->net.act));
}

static enum rc
parse_loss(const struct config_option *o, const char *text, struct config_draft *d, struct err *err)
{
	char name[64];

	(void)o;
	lower(text, name);
	if (strcmp(name, "crossentropy") == 0)
		return net_loss_parse("cross-entropy", &d->c.net.loss, err);
	return net_loss_parse(strcmp(name, "mse") == 0 ? "l2" : name, &d->c.net.loss, err);
}

static bool
print_loss(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	(void)o;
	return buf_addf(out, "%s", net_loss_name(c->net.loss));
}

/* ---- words */

static const struct config_word channels_words[] = {{"1", 1}, {"grey", 1}, {"gray", 1},
						    {"3", 3}, {"rgb", 3},  {NULL, 0}};
static const struct config_word optimizer_words[] = {
    {"sgd", OPTIMIZER_SGD},   {"momentum", OPTIMIZER_SGD}, {"nesterov", OPTIMIZER_NESTEROV},
    {"adam", OPTIMIZER_ADAM}, {"adamw", OPTIMIZER_ADAMW},  {NULL, 0}};
static const struct config_word schedule_words[] = {
    {"constant", LR_CONSTANT},	 {"step", LR_STEP},	     {"cosine", LR_COSINE},
    {"one-cycle", LR_ONE_CYCLE}, {"onecycle", LR_ONE_CYCLE}, {NULL, 0}};
static const struct config_word sync_words[] = {{"allreduce", SYNC_ALLREDUCE},
						{"sendrecv", SYNC_SENDRECV},
						{"ps", SYNC_PS},
						{"local", SYNC_LOCAL},
						{NULL, 0}};
static const struct config_word backend_words[] = {
    {"gpusim", BACKEND_GPUSIM}, {"mpi", BACKEND_MPI}, {NULL, 0}};

/* ---- when options say something */

static bool
infers(const struct train_config *c)
{
	return c->eval || c->infer;
}

/* A model that is asked says itself what it is. */
static bool
has_net(const struct train_config *c)
{
	return !infers(c) || c->net_given;
}

static bool
is_mlp(const struct train_config *c)
{
	return c->net.model == NET_MLP && has_net(c);
}

static bool
is_stepped(const struct train_config *c)
{
	return c->schedule.kind == LR_STEP;
}

static bool
is_local(const struct train_config *c)
{
	return c->sync == SYNC_LOCAL || c->compare;
}

static bool
is_ps(const struct train_config *c)
{
	return c->sync == SYNC_PS || c->compare;
}

static bool
has_checkpoint(const struct train_config *c)
{
	return c->checkpoint;
}

static bool
has_compare(const struct train_config *c)
{
	return c->compare;
}

/* ---- the table */

#define AT(field) .at = offsetof(struct train_config, field)
#define U32(field, l, h) \
	.parse = parse_u32_field, .print = print_u32, AT(field), .lo = (l), .hi = (h)
#define U32_SET(field, l, h) \
	.parse = parse_u32_field, .print = print_u32_set, AT(field), .lo = (l), .hi = (h)
#define U64(field, h) .parse = parse_u64_field, .print = print_u64, AT(field), .hi = (h)
#define SIZE(field)   .parse = parse_size_field, .print = print_u64, AT(field)
#define DOUBLE(field, l, h) \
	.parse = parse_double_field, .print = print_double, AT(field), .lo = (l), .hi = (h)
#define STRING(field)	   .parse = parse_string, .print = print_string, AT(field)
#define BOOL(field)	   .parse = parse_bool, .print = print_bool, AT(field)
#define WORD(field, w)	   .parse = parse_word, .print = print_word, AT(field), .words = (w)
#define WORD_SET(field, w) .parse = parse_word, .print = print_word_set, AT(field), .words = (w)
#define ONLY(when, on_, t) .applies = (when), .on = (on_), .needs = (t)

const struct config_option config_options[] = {
    {.name = "config",
     .arg = "FILE",
     .help = "take options from FILE, as name = value lines; flags win over it"},
    {.name = "print-config", .help = "print what is in force, as such a file, and end"},
    {.name = "devices",
     .arg = "N",
     .also = " numdevices ndevices ",
     .help = "train on N devices (default: all of $GPUSIM_COORD; without\n"
	     "GPUSIM_COORD a cluster of N, default 4, is started)",
     .parse = parse_u32_field,
     .print = print_devices,
     AT(devices),
     .lo = 1,
     .hi = 1024},
    {.name = "workers",
     .arg = "N[,N...]",
     .also = " numworkers nworkers numberofworkers ",
     .help = "how many of them train; several with --compare",
     .parse = parse_workers,
     .print = print_workers,
     .lo = 1,
     .hi = 1024},
    {.name = "data",
     .arg = "PATH",
     .also = " dataset datadir datapath ",
     .help = "the data set: a folder or a file; see gpusim-data(5)",
     STRING(data)},
    {.name = "format",
     .arg = "NAME",
     .also = " dataformat ",
     .help = "auto, idx, csv, cifar10 or folder (default auto)",
     .parse = parse_format,
     .print = print_format},
    {.name = "label-column",
     .arg = "NAME",
     .help = "of a CSV file: a name, first or last (default: guessed)",
     STRING(dataset.label_column)},
    {.name = "image-size",
     .arg = "N[xM]",
     .help = "what images of a folder become (default 32x32)",
     .parse = parse_image_size,
     .print = print_image_size,
     .lo = 1,
     .hi = 1024},
    {.name = "channels",
     .arg = "N",
     .help = "1, grey, or 3, colours (default 3)",
     WORD_SET(dataset.channels, channels_words)},
    {.name = "split",
     .arg = "A,B,C",
     .help = "fractions for training, validation and test (default: as\n"
	     "the files say, else 0.8,0,0.2)",
     .parse = parse_split,
     .print = print_split},
    {.name = "trainfraction",
     .parse = parse_double_field,
     .print = print_nothing,
     AT(dataset.train),
     .lo = 0,
     .hi = 1},
    {.name = "validationfraction",
     .also = " valfraction ",
     .parse = parse_double_field,
     .print = print_nothing,
     AT(dataset.validation),
     .lo = 0,
     .hi = 1},
    {.name = "testfraction",
     .parse = parse_double_field,
     .print = print_nothing,
     AT(dataset.test),
     .lo = 0,
     .hi = 1},
    {.name = "normalize",
     .arg = "HOW",
     .also = " normalise normalization normalisation ",
     .help = "unit, standard or raw (default unit)",
     .parse = parse_normalize,
     .print = print_normalize},
    {.name = "train-items",
     .arg = "N",
     .help = "train on so many at most (default 0: all)",
     U32(dataset.train_items, 0, UINT32_MAX)},
    {.name = "model",
     .arg = "NAME",
     .help = "mlp, softmax, lenet or resnet9 (default mlp)",
     .parse = parse_model,
     .print = print_model,
     .applies = has_net},
    {.name = "layers",
     .arg = "A,B,...",
     .also = " layersizes ",
     .help = "of an mlp: sizes from input to output; 0: what the data\n"
	     "have (default 0,128,0)",
     .parse = parse_layers,
     .print = print_layers,
     ONLY(is_mlp, "model", "only with --model mlp")},
    {.name = "inputlayerneurons",
     .parse = parse_input_neurons,
     .print = print_nothing,
     .lo = 1,
     .hi = NET_MAX_WIDTH,
     ONLY(is_mlp, "model", "only with --model mlp")},
    {.name = "hiddenlayerneurons",
     .also = " hiddenneurons ",
     .parse = parse_hidden,
     .print = print_nothing,
     .lo = 1,
     .hi = NET_MAX_WIDTH,
     ONLY(is_mlp, "model", "only with --model mlp")},
    {.name = "outputlayerneurons",
     .also = " outputneurons ",
     .parse = parse_output_neurons,
     .print = print_nothing,
     .lo = 1,
     .hi = NET_MAX_WIDTH,
     ONLY(is_mlp, "model", "only with --model mlp")},
    {.name = "activation",
     .arg = "NAME",
     .also = " activationfunction ",
     .help = "of an mlp: relu, sigmoid, tanh or linear (default relu)",
     .parse = parse_activation,
     .print = print_activation,
     ONLY(is_mlp, "model", "only with --model mlp")},
    {.name = "loss",
     .arg = "NAME",
     .also = " lossfunction ",
     .help = "cross-entropy or l2 (default cross-entropy)",
     .parse = parse_loss,
     .print = print_loss,
     .applies = has_net},
    {.name = "epochs",
     .arg = "N",
     .also = " numepochs nepochs numberofepochs maxepochs ",
     .help = "(default 5)",
     U32(epochs, 0, 1000000)},
    {.name = "batch",
     .arg = "N",
     .also = " batchsize minibatchsize ",
     .help = "images a worker and step (default 64)",
     U32(batch, 1, 1u << 20)},
    {.name = "optimizer",
     .arg = "NAME",
     .also = " optimiser ",
     .help = "sgd, momentum, nesterov, adam or adamw (default sgd)",
     .parse = parse_optimizer,
     .print = print_word,
     AT(optimizer),
     .words = optimizer_words},
    {.name = "lr",
     .arg = "X",
     .also = " learningrate ",
     .help = "learning rate (default 0.1; 0.001 for adam and adamw)",
     DOUBLE(lr, 0, 1e6)},
    {.name = "momentum",
     .arg = "X",
     .help = "of sgd, momentum and nesterov (default 0.9)",
     DOUBLE(momentum, 0, 1)},
    {.name = "weight-decay",
     .arg = "X",
     .help = "(default 0; 0.01 for adamw)",
     DOUBLE(weight_decay, 0, 1e6)},
    {.name = "lr-schedule",
     .arg = "NAME",
     .also = " learningrateschedule lrscheduler scheduler ",
     .help = "constant, step, cosine or one-cycle (default constant)",
     WORD(schedule.kind, schedule_words)},
    {.name = "lr-step",
     .arg = "N",
     .also = " stepsize ",
     .help = "with step: every N epochs (default 1) ...",
     U32(schedule.step_epochs, 1, 1000000),
     ONLY(is_stepped, "lr-schedule", "only with --lr-schedule step")},
    {.name = "lr-gamma",
     .arg = "X",
     .also = " gamma ",
     .help = "... the learning rate is multiplied by X (default 0.1)",
     DOUBLE(schedule.gamma, 0, 1e6),
     ONLY(is_stepped, "lr-schedule", "only with --lr-schedule step")},
    {.name = "seed",
     .arg = "N",
     .also = " randomseed ",
     .help = "of weights, order and split (default 1)",
     U64(seed, 0)},
    {.name = "sync",
     .arg = "HOW",
     .also = " synchronization synchronisation ",
     .help = "allreduce, sendrecv, ps or local (default allreduce)",
     WORD(sync, sync_words)},
    {.name = "local-steps",
     .arg = "N",
     .help = "with local: average the weights every N steps (default 8)",
     U32(local_steps, 1, 1000000),
     ONLY(is_local, "sync", "only with --sync local")},
    {.name = "ps-aggregate",
     .arg = "N",
     .help = "with ps: gradients of an update (default 0: as workers)",
     U32(ps_aggregate, 0, 65536),
     ONLY(is_ps, "sync", "only with --sync ps")},
    {.name = "staleness",
     .arg = "N",
     .also = " maxstaleness ",
     .help = "with ps: how many updates old a gradient may be, or async\n"
	     "(default 0)",
     .parse = parse_staleness,
     .print = print_staleness,
     AT(staleness),
     .lo = 0,
     .hi = 1000000,
     ONLY(is_ps, "sync", "only with --sync ps")},
    {.name = "listen",
     .arg = "ADDRESS",
     .help = "with ps: where learners find the server (default: a socket in\n"
	     "the cluster's folder)",
     STRING(listen),
     ONLY(is_ps, "sync", "only with --sync ps")},
    {.name = "learn",
     .arg = "ADDRESS",
     .help = "be one more learner of the parameter server there",
     STRING(learn)},
    {.name = "algo",
     .arg = "NAME",
     .help = "of the gradients' all-reduce (default auto)",
     .parse = parse_algo,
     .print = print_string,
     AT(algo)},
    {.name = "bucket-bytes",
     .arg = "SIZE",
     .help = "reduce gradients during backward, so much at a time (default 0:\n"
	     "all together, behind it)",
     SIZE(bucket_bytes)},
    {.name = "on-failure",
     .arg = "HOW",
     .help = "when a device is lost: abort, shrink, respawn or spare (default\n"
	     "$GPUSIM_ON_FAILURE, else abort)",
     .parse = parse_on_failure,
     .print = print_on_failure},
    {.name = "checkpoint",
     .arg = "DIR",
     .also = " checkpointdir ",
     .help = "leave in DIR what training can go on from",
     STRING(checkpoint)},
    {.name = "checkpoint-every",
     .arg = "N",
     .help = "every N steps (default 0: at the end of each epoch)",
     U64(checkpoint_every, 1000000000),
     ONLY(has_checkpoint, "checkpoint", "needs --checkpoint DIR")},
    {.name = "resume",
     .help = "go on from the newest checkpoint of DIR",
     BOOL(resume),
     ONLY(has_checkpoint, "checkpoint", "needs --checkpoint DIR")},
    {.name = "json", .arg = "FILE", .help = "write one JSON object a line an epoch", STRING(json)},
    {.name = "save", .arg = "FILE", .help = "save the model as .npz", STRING(save)},
    {.name = "load",
     .arg = "FILE",
     .help = "begin with a model that --save has left; --eval, --infer: ask it",
     STRING(load)},
    {.name = "eval", .help = "test that model, and train nothing", BOOL(eval)},
    {.name = "infer",
     .help = "samples in on standard input, a class and probabilities a\n"
	     "line out",
     BOOL(infer)},
    {.name = "compare",
     .arg = "A,B,...",
     .help = "train by each of these ways, with each number of --workers",
     STRING(compare)},
    {.name = "out",
     .arg = "PREFIX",
     .help = "of the files that --compare writes",
     STRING(out),
     ONLY(has_compare, "compare", "only with --compare")},
    {.name = "backend",
     .arg = "NAME",
     .help = "gpusim, or mpi within an MPI job (default gpusim)",
     WORD(backend, backend_words)},
};

const unsigned config_noptions = sizeof config_options / sizeof config_options[0];
_Static_assert(sizeof config_options / sizeof config_options[0] <= CONFIG_MAX_OPTIONS,
	       "CONFIG_MAX_OPTIONS is too small");
