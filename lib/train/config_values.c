/*
 * config_values.c - options' values, from text and to text.
 */
#include "train/config_values.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/option.h"
#include "base/parse.h"
#include "coll/plan.h"
#include "nn/augment.h"

#define FIELD(o, c, type) ((type *)((char *)(c) + (o)->at))
#define READ(o, c, type)  (*(const type *)((const char *)(c) + (o)->at))

/* ---- kinds of values */

enum rc
value_parse_u32(const struct config_option *o, const char *text, struct config_draft *d,
		struct err *err)
{
	return option_u32(text, (uint32_t)o->lo, (uint32_t)o->hi, FIELD(o, &d->c, uint32_t), err);
}

bool
value_print_u32(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	return buf_addf(out, "%u", READ(o, c, uint32_t));
}

/* A number for which 0 is as if it had not been given. */
static bool
print_u32_set(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	return READ(o, c, uint32_t) == 0 || value_print_u32(o, c, out);
}

enum rc
value_parse_u64(const struct config_option *o, const char *text, struct config_draft *d,
		struct err *err)
{
	uint64_t hi = o->hi > 0 ? (uint64_t)o->hi : UINT64_MAX;

	return parse_u64(text, (uint64_t)o->lo, hi, FIELD(o, &d->c, uint64_t), err);
}

bool
value_print_u64(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	return buf_addf(out, "%llu", (unsigned long long)READ(o, c, uint64_t));
}

enum rc
value_parse_size(const struct config_option *o, const char *text, struct config_draft *d,
		 struct err *err)
{
	return parse_size(text, FIELD(o, &d->c, uint64_t), err);
}

enum rc
value_parse_double(const struct config_option *o, const char *text, struct config_draft *d,
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

bool
value_print_double(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	return add_double(out, READ(o, c, double));
}

enum rc
value_parse_string(const struct config_option *o, const char *text, struct config_draft *d,
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

bool
value_print_string(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	const char *s = READ(o, c, char *);

	return !s || buf_add(out, s, strlen(s));
}

enum rc
value_parse_bool(const struct config_option *o, const char *text, struct config_draft *d,
		 struct err *err)
{
	bool yes = strcasecmp(text, "true") == 0;

	if (!yes && strcasecmp(text, "false") != 0)
		return err_set(err, RC_INVAL, "'%.64s' is neither true nor false", text);
	*FIELD(o, &d->c, bool) = yes;
	return RC_OK;
}

bool
value_print_bool(const struct config_option *o, const struct train_config *c, struct buf *out)
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

enum rc
value_parse_word(const struct config_option *o, const char *text, struct config_draft *d,
		 struct err *err)
{
	for (const struct config_word *w = o->words; w->word; w++)
		if (strcasecmp(w->word, text) == 0) {
			*FIELD(o, &d->c, int) = w->value;
			return RC_OK;
		}
	return refuse_word(o, text, err);
}

bool
value_print_word(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	for (const struct config_word *w = o->words; w->word; w++)
		if (w->value == READ(o, c, int))
			return buf_addf(out, "%s", w->word);
	return true;
}

/* A word for which 0 is as if it had not been given. */
bool
value_print_word_set(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	return READ(o, c, int) == 0 || value_print_word(o, c, out);
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

enum rc
value_parse_workers(const struct config_option *o, const char *text, struct config_draft *d,
		    struct err *err)
{
	return config_numbers(text, (uint32_t)o->lo, (uint32_t)o->hi, CONFIG_MAX_WORKERS,
			      d->c.workers, &d->c.nworkers, err);
}

bool
value_print_workers(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	(void)o;
	return add_numbers(out, c->workers, c->nworkers);
}

/* Those that workers stand for are not said twice. */
bool
value_print_devices(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	return c->nworkers || print_u32_set(o, c, out);
}

enum rc
value_parse_layers(const struct config_option *o, const char *text, struct config_draft *d,
		   struct err *err)
{
	enum rc rc = net_sizes_parse(text, &d->c.net, err);

	(void)o;
	if (rc == RC_OK)
		d->neurons = (struct config_neurons){0};
	return rc;
}

bool
value_print_layers(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	(void)o;
	return add_numbers(out, c->net.size, c->net.nsizes);
}

enum rc
value_parse_hidden(const struct config_option *o, const char *text, struct config_draft *d,
		   struct err *err)
{
	/* Beside them: inputs, a first layer, outputs. */
	return config_numbers(text, (uint32_t)o->lo, (uint32_t)o->hi, NET_MAX_SIZES - 3,
			      d->neurons.hidden, &d->neurons.nhidden, err);
}

enum rc
value_parse_input_neurons(const struct config_option *o, const char *text, struct config_draft *d,
			  struct err *err)
{
	return option_u32(text, (uint32_t)o->lo, (uint32_t)o->hi, &d->neurons.input, err);
}

enum rc
value_parse_output_neurons(const struct config_option *o, const char *text, struct config_draft *d,
			   struct err *err)
{
	return option_u32(text, (uint32_t)o->lo, (uint32_t)o->hi, &d->neurons.output, err);
}

bool
value_print_nothing(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	(void)o;
	(void)c;
	(void)out;
	return true;
}

/* momentum is sgd that must have some. */
enum rc
value_parse_optimizer(const struct config_option *o, const char *text, struct config_draft *d,
		      struct err *err)
{
	enum rc rc = value_parse_word(o, text, d, err);

	if (rc == RC_OK)
		d->needs_momentum =
		    strcasecmp(text, "momentum") == 0 || d->c.optimizer == OPTIMIZER_NESTEROV;
	return rc;
}

enum rc
value_parse_split(const struct config_option *o, const char *text, struct config_draft *d,
		  struct err *err)
{
	(void)o;
	return dataset_split_parse(text, &d->c.dataset, err);
}

bool
value_print_split(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	const struct dataset_options *s = &c->dataset;

	(void)o;
	if (s->train == 0 && s->validation == 0 && s->test == 0)
		return true;
	return add_double(out, s->train) && buf_add(out, ",", 1) &&
	       add_double(out, s->validation) && buf_add(out, ",", 1) && add_double(out, s->test);
}

/* "32" or "32x48": rows, then columns. */
enum rc
value_parse_image_size(const struct config_option *o, const char *text, struct config_draft *d,
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

bool
value_print_image_size(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	(void)o;
	return !c->dataset.rows || buf_addf(out, "%ux%u", c->dataset.rows, c->dataset.cols);
}

enum rc
value_parse_staleness(const struct config_option *o, const char *text, struct config_draft *d,
		      struct err *err)
{
	if (strcasecmp(text, "async") != 0)
		return value_parse_u32(o, text, d, err);
	d->c.staleness = STALENESS_ASYNC;
	return RC_OK;
}

bool
value_print_staleness(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	return c->staleness == STALENESS_ASYNC ? buf_addf(out, "async")
					       : value_print_u32(o, c, out);
}

enum rc
value_parse_algo(const struct config_option *o, const char *text, struct config_draft *d,
		 struct err *err)
{
	const struct plan_algo *algo;
	enum rc rc = plan_algo_find(GPUSIM_ALLREDUCE, text, &algo, err);

	return rc == RC_OK ? value_parse_string(o, text, d, err) : rc;
}

enum rc
value_parse_on_failure(const struct config_option *o, const char *text, struct config_draft *d,
		       struct err *err)
{
	enum gpusim_rc rc = gpusim_on_failure_parse(text, &d->c.on_failure);

	(void)o;
	return rc == GPUSIM_OK ? RC_OK : err_set(err, (enum rc)rc, "%s", gpusim_error());
}

bool
value_print_on_failure(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	(void)o;
	return buf_addf(out, "%s", gpusim_on_failure_name(c->on_failure));
}

enum rc
value_parse_wait(const struct config_option *o, const char *text, struct config_draft *d,
		 struct err *err)
{
	(void)o;
	if (strcmp(text, "0") != 0)
		return option_ms(text, &d->c.wait_ms, err);
	d->c.wait_ms = 0;
	return RC_OK;
}

bool
value_print_wait(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	(void)o;
	return buf_addf(out, c->wait_ms ? "%" PRIu32 "ms" : "0", c->wait_ms);
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

enum rc
value_parse_augment(const struct config_option *o, const char *text, struct config_draft *d,
		    struct err *err)
{
	(void)o;
	return augment_parse(text, &d->c.augment, err);
}

bool
value_print_augment(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	(void)o;
	return buf_addf(out, "%s", augment_name(c->augment));
}

enum rc
value_parse_format(const struct config_option *o, const char *text, struct config_draft *d,
		   struct err *err)
{
	char name[64];

	(void)o;
	return dataset_format_parse(lower(text, name), &d->c.dataset.format, err);
}

bool
value_print_format(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	(void)o;
	return buf_addf(out, "%s", dataset_format_name(c->dataset.format));
}

enum rc
value_parse_normalize(const struct config_option *o, const char *text, struct config_draft *d,
		      struct err *err)
{
	char name[64];

	(void)o;
	return dataset_normalize_parse(lower(text, name), &d->c.dataset.normalize, err);
}

bool
value_print_normalize(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	(void)o;
	return buf_addf(out, "%s", dataset_normalize_name(c->dataset.normalize));
}

enum rc
value_parse_model(const struct config_option *o, const char *text, struct config_draft *d,
		  struct err *err)
{
	char name[64];

	(void)o;
	return net_model_parse(lower(text, name), &d->c.net.model, err);
}

bool
value_print_model(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	(void)o;
	return buf_addf(out, "%s", net_model_name(c->net.model));
}

enum rc
value_parse_activation(const struct config_option *o, const char *text, struct config_draft *d,
		       struct err *err)
{
	char name[64];

	(void)o;
	return net_act_parse(lower(text, name), &d->c.net.act, err);
}

bool
value_print_activation(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	(void)o;
	return buf_addf(out, "%s", net_act_name(c->net.act));
}

enum rc
value_parse_loss(const struct config_option *o, const char *text, struct config_draft *d,
		 struct err *err)
{
	char name[64];

	(void)o;
	lower(text, name);
	if (strcmp(name, "crossentropy") == 0)
		return net_loss_parse("cross-entropy", &d->c.net.loss, err);
	return net_loss_parse(strcmp(name, "mse") == 0 ? "l2" : name, &d->c.net.loss, err);
}

bool
value_print_loss(const struct config_option *o, const struct train_config *c, struct buf *out)
{
	(void)o;
	return buf_addf(out, "%s", net_loss_name(c->net.loss));
}
