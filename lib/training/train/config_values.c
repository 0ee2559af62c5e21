/*
 * config_values.c - the types of values that only one option has.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/parse.h"
#include "coll/plan.h"
#include "coll/tune.h"
#include "train/config_impl.h"

/* Whole numbers from lo to hi with commas between them. RC_INVAL. */
static enum rc
parse_numbers(const char *text, uint32_t lo, uint32_t hi, uint32_t max, uint32_t *out, uint32_t *n,
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
		if (parse_u32(one, lo, hi, &v[k++], err) != RC_OK)
			return err->rc;
		p += len;
		if (!*p)
			break;
	}
	memcpy(out, v, k * sizeof *v);
	*n = k;
	return RC_OK;
}

static void
add_numbers(struct buf *out, const uint32_t *v, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		buf_addf(out, "%s%u", i ? "," : "", v[i]);
}

/* ---- the devices that train */

static enum rc
take_workers(const struct option_row *o, const char *text, void *target, struct err *err)
{
	struct train_config *c = target;

	return parse_numbers(text, (uint32_t)o->lo, (uint32_t)o->hi, CONFIG_MAX_WORKERS, c->workers,
			     &c->nworkers, err);
}

static void
add_workers(const struct option_row *o, const void *target, struct buf *out)
{
	const struct train_config *c = target;

	(void)o;
	add_numbers(out, c->workers, c->nworkers);
}

/* ---- how the net is spread */

static enum rc
take_parallel(const struct option_row *o, const char *text, void *target, struct err *err)
{
	(void)o;
	return grid_parse(text, GRID_MAX, &((struct train_config *)target)->parallel, err);
}

static void
add_parallel(const struct option_row *o, const void *target, struct buf *out)
{
	const struct train_config *c = target;
	char text[GRID_TEXT];

	(void)o;
	if (c->parallel.tp)
		buf_addf(out, "%s", grid_print(&c->parallel, text));
}

static enum rc
take_stages(const struct option_row *o, const char *text, void *target, struct err *err)
{
	struct train_config *c = target;

	(void)o;
	return parse_numbers(text, 1, NET_MAX_CUTS, NET_MAX_CUTS, c->stages, &c->nstages, err);
}

static void
add_stages(const struct option_row *o, const void *target, struct buf *out)
{
	const struct train_config *c = target;

	(void)o;
	add_numbers(out, c->stages, c->nstages);
}

static enum rc
take_loss_scale(const struct option_row *o, const char *text, void *target, struct err *err)
{
	double *to = &((struct train_config *)target)->loss_scale;
	enum rc rc;

	(void)o;
	if (strcasecmp(text, "dynamic") == 0) {
		*to = LOSS_SCALE_DYNAMIC;
		return RC_OK;
	}
	rc = parse_double(text, 0x1p-126, 0x1p127, to, err);
	if (rc != RC_OK)
		err_set(err, RC_INVAL, "'%.64s': must be dynamic, or a number from 2^-126 to 2^127",
			text);
	return rc;
}

static void
add_loss_scale(const struct option_row *o, const void *target, struct buf *out)
{
	double scale = ((const struct train_config *)target)->loss_scale;

	(void)o;
	if (scale < 0)
		buf_addf(out, "dynamic");
	else if (scale > 0)
		option_add_double(out, scale);
}

static enum rc
take_devices(const struct option_row *o, const char *text, void *target, struct err *err)
{
	return option_u32.parse(o, text, target, err);
}

/* --workers gives them already. */
static void
add_devices(const struct option_row *o, const void *target, struct buf *out)
{
	const struct train_config *c = target;

	if (!c->nworkers)
		option_u32.print(o, target, out);
}

/* ---- the net */

static enum rc
take_layers(const struct option_row *o, const char *text, void *target, struct err *err)
{
	struct config_draft *d = target;
	enum rc rc = net_sizes_parse(text, &d->c.net, err);

	(void)o;
	if (rc == RC_OK)
		d->neurons = (struct config_neurons){0};
	return rc;
}

static void
add_layers(const struct option_row *o, const void *target, struct buf *out)
{
	const struct train_config *c = target;

	(void)o;
	add_numbers(out, c->net.size, c->net.nsizes);
}

static enum rc
take_hidden(const struct option_row *o, const char *text, void *target, struct err *err)
{
	struct config_neurons *n = &((struct config_draft *)target)->neurons;

	/* Besides them: inputs, a first layer, outputs. */
	return parse_numbers(text, (uint32_t)o->lo, (uint32_t)o->hi, NET_MAX_SIZES - 3, n->hidden,
			     &n->nhidden, err);
}

/* momentum is sgd with a momentum that is not 0. */
static enum rc
take_optimizer(const struct option_row *o, const char *text, void *target, struct err *err)
{
	struct config_draft *d = target;
	enum rc rc = option_word_kind.parse(o, text, target, err);

	if (rc == RC_OK)
		d->needs_momentum =
		    strcasecmp(text, "momentum") == 0 || d->c.optimizer == OPTIMIZER_NESTEROV;
	return rc;
}

static void
add_optimizer(const struct option_row *o, const void *target, struct buf *out)
{
	option_word_kind.print(o, target, out);
}

/* ---- the data set */

static enum rc
take_split(const struct option_row *o, const char *text, void *target, struct err *err)
{
	struct train_config *c = target;
	(void)o;
	return dataset_split_parse(text, &c->dataset, err);
}

static void
add_split(const struct option_row *o, const void *target, struct buf *out)
{
	const struct train_config *c = target;
	const struct dataset_options *s = &c->dataset;

	(void)o;
	if (s->train == 0 && s->validation == 0 && s->test == 0)
		return;
	option_add_double(out, s->train);
	buf_add(out, ",", 1);
	option_add_double(out, s->validation);
	buf_add(out, ",", 1);
	option_add_double(out, s->test);
}

/* "32" or "32x48": rows, then columns. */
static enum rc
take_image_size(const struct option_row *o, const char *text, void *target, struct err *err)
{
	struct train_config *c = target;
	const char *x = strpbrk(text, "xX");
	char first[24] = "";
	uint32_t rows, cols;

	if (x && (size_t)(x - text) < sizeof first)
		memcpy(first, text, (size_t)(x - text));
	if (parse_u32(x ? first : text, (uint32_t)o->lo, (uint32_t)o->hi, &rows, err) != RC_OK ||
	    parse_u32(x ? x + 1 : text, (uint32_t)o->lo, (uint32_t)o->hi, &cols, err) != RC_OK)
		return err_set(err, RC_INVAL,
			       "'%.64s' is not a size such as 32 or 32x48, at most %.0f", text,
			       o->hi);
	c->dataset.rows = rows;
	c->dataset.cols = cols;
	return RC_OK;
}

static void
add_image_size(const struct option_row *o, const void *target, struct buf *out)
{
	const struct train_config *c = target;
	(void)o;
	if (c->dataset.rows)
		buf_addf(out, "%ux%u", c->dataset.rows, c->dataset.cols);
}

static enum rc
take_staleness(const struct option_row *o, const char *text, void *target, struct err *err)
{
	struct train_config *c = target;
	if (strcasecmp(text, "async") != 0)
		return option_u32.parse(o, text, target, err);
	c->staleness = STALENESS_ASYNC;
	return RC_OK;
}

static void
add_staleness(const struct option_row *o, const void *target, struct buf *out)
{
	const struct train_config *c = target;
	if (c->staleness == STALENESS_ASYNC)
		buf_addf(out, "async");
	else
		option_u32.print(o, target, out);
}

static enum rc
take_algo(const struct option_row *o, const char *text, void *target, struct err *err)
{
	const struct plan_algo *algo;

	/* Any other name may be from a file that the coordinator has read. */
	if ((plan_algo_is_built_in(text) || !tune_is_name(text)) &&
	    plan_algo_find(GPUSIM_ALLREDUCE, text, &algo, err) != RC_OK)
		return err->rc;
	return option_string.parse(o, text, target, err);
}

static enum rc
take_wait(const struct option_row *o, const char *text, void *target, struct err *err)
{
	struct train_config *c = target;
	(void)o;
	if (strcmp(text, "0") != 0)
		return parse_ms(text, &c->wait_ms, err);
	c->wait_ms = 0;
	return RC_OK;
}

static void
add_wait(const struct option_row *o, const void *target, struct buf *out)
{
	const struct train_config *c = target;
	(void)o;
	buf_addf(out, c->wait_ms ? "%" PRIu32 "ms" : "0", c->wait_ms);
}

static void
add_algo(const struct option_row *o, const void *target, struct buf *out)
{
	option_string.print(o, target, out);
}

/* "powersgd=4", "topk=0.001", "onebit", "none". */
static enum rc
take_compress(const struct option_row *o, const char *text, void *target, struct err *err)
{
	struct compress_how how = {0}, *to = (struct compress_how *)option_field(o, target);
	enum rc rc = RC_OK;

	if (strncasecmp(text, "powersgd=", 9) == 0) {
		how.kind = COMPRESS_POWERSGD;
		rc = parse_u32(text + 9, 1, NET_MAX_WIDTH, &how.rank, err);
	} else if (strncasecmp(text, "topk=", 5) == 0) {
		how.kind = COMPRESS_TOPK;
		rc = parse_double(text + 5, 0, 1, &how.fraction, err);
		if (rc == RC_OK && how.fraction == 0)
			rc = err_set(err, RC_INVAL, "a fraction of 0 sends nothing");
	} else if (strcasecmp(text, "onebit") == 0) {
		how.kind = COMPRESS_ONEBIT;
	} else if (strcasecmp(text, "none") != 0) {
		rc = err_set(err, RC_INVAL,
			     "'%.64s': must be one of powersgd=RANK, topk=FRACTION, onebit, none",
			     text);
	}
	if (rc == RC_OK)
		*to = how;
	return rc;
}

static void
add_compress(const struct option_row *o, const void *target, struct buf *out)
{
	const struct compress_how *how = option_value(o, target);
	static const char *const names[] = {"none", "powersgd=", "topk=", "onebit"};

	buf_addf(out, "%s", names[how->kind]);
	if (how->kind == COMPRESS_POWERSGD)
		buf_addf(out, "%u", how->rank);
	else if (how->kind == COMPRESS_TOPK)
		option_add_double(out, how->fraction);
}

const struct option_kind config_algo = {"name", take_algo, add_algo},
			 config_compress = {"method", take_compress, add_compress},
			 config_devices = {"number", take_devices, add_devices},
			 config_hidden = {"numbers", take_hidden, NULL},
			 config_image_size = {"size", take_image_size, add_image_size},
			 config_layers = {"numbers", take_layers, add_layers},
			 config_loss_scale_kind = {"real", take_loss_scale, add_loss_scale},
			 config_optimizer = {"word", take_optimizer, add_optimizer},
			 config_parallel = {"grid", take_parallel, add_parallel},
			 config_stages = {"numbers", take_stages, add_stages},
			 config_split = {"reals", take_split, add_split},
			 config_staleness = {"number", take_staleness, add_staleness},
			 config_wait = {"time", take_wait, add_wait},
			 config_workers = {"numbers", take_workers, add_workers};
