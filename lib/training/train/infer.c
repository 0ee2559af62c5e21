#include "train/infer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "nn/launch.h"
#include "train/replica.h"

struct predictor {
	struct gpusim *g;
	const struct model *m;
	struct gpusim_comm *comm;
	struct gpusim_device device;
	uint64_t rows;
	uint64_t base;
	struct emit_place net;
	uint64_t items, scale, shift; /* addresses */
};

/* Lay the buffers out from base. Returns their bytes. */
static uint64_t
place(struct predictor *p, const struct model *m, uint64_t base)
{
	const struct task *t = &m->task;
	uint64_t at = base;

	p->rows = task_test_rows(t);
	p->net.params = emit_take(&at, task_values(t) * sizeof(float));
	at += emit_place(&p->net, &t->net, GPUSIM_F32, p->rows, at, EMIT_INFER);
	p->items = emit_take(&at, p->rows * net_shape_size(t->net.input) * sizeof(float));
	p->scale = emit_take(&at, t->data.channels * sizeof(float));
	p->shift = emit_take(&at, t->data.channels * sizeof(float));
	return at - base;
}

uint64_t
predictor_bytes(const struct model *m)
{
	struct predictor p = {0};

	return place(&p, m, 0);
}

static enum rc
upload(struct predictor *p, struct err *err)
{
	const struct task *t = &p->m->task;
	uint64_t channels = t->data.channels * sizeof(float);
	enum rc rc = device_write(p->g, p->device, p->net.params, p->m->params,
				  task_values(t) * sizeof(float), err);

	if (rc == RC_OK)
		rc = device_write(p->g, p->device, p->scale, t->data.scale, channels, err);
	if (rc == RC_OK)
		rc = device_write(p->g, p->device, p->shift, t->data.shift, channels, err);
	return rc;
}

enum rc
predictor_new(struct gpusim *g, const struct model *m, uint32_t wait_ms, struct predictor **out,
	      struct err *err)
{
	const struct gpusim_comm_config config = {GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE,
						  .wait_ms = wait_ms};
	struct predictor *p = must_alloc(1, sizeof *p);
	enum rc rc;

	p->g = g;
	p->m = m;
	rc = api(gpusim_comm_init_all(g, 1, NULL, &config, &p->comm), err);
	if (rc == RC_OK) {
		p->device = gpusim_comm_device(p->comm, 0);
		rc = device_alloc(g, p->device, predictor_bytes(m), &p->base, err);
	}
	if (rc == RC_OK) {
		place(p, m, p->base);
		rc = upload(p, err);
	}
	if (rc == RC_OK)
		*out = p;
	else
		predictor_free(p);
	return rc;
}

void
predictor_free(struct predictor *p)
{
	if (!p)
		return;
	gpusim_set_timeout_ms(p->g, TASK_GIVE_BACK_MS);
	if (p->base)
		(void)replica_free_memory(p->g, p->device, p->base);
	(void)gpusim_comm_destroy(p->comm);
	free(p);
}

uint64_t
predictor_rows(const struct predictor *p)
{
	return p->rows;
}

static void
launch(void *arg, uint32_t rank, const char *kernel, const struct gpusim_arg *args, size_t nargs)
{
	gpusim_ops_launch(arg, rank, STREAM_COMPUTE, kernel, args, nargs);
}

/* Turn items into the net's input, and run the net on it. */
static void
forward(struct predictor *p, enum gpusim_dtype type, uint64_t n, struct gpusim_ops *o)
{
	const struct task *t = &p->m->task;
	const struct emit_sink sink = {.arg = o, .launch = launch};
	const struct emit_batch b = {.nranks = 1, .place = &p->net, .rows = &n, .total = n};
	double scale;
	bool common = task_scale(t, &scale);

	LAUNCH(&sink, 0, "cast", U("dst", p->net.x), U("src", p->items),
	       U("n", n * net_shape_size(t->net.input)), U("from", type), U("to", GPUSIM_F32),
	       F("scale", common ? scale : 1));
	if (!common)
		replica_normalise(&sink, 0, t, &p->net, p->scale, p->shift, n);
	emit_forward(&t->net, &b, EMIT_EVAL, &sink);
}

enum rc
predictor_run(struct predictor *p, enum gpusim_dtype type, const void *items, uint64_t n,
	      float *out, struct err *err)
{
	const struct net *net = &p->m->task.net;
	uint64_t nbytes = n * net_shape_size(net->input) * (type == GPUSIM_F32 ? sizeof(float) : 1);
	struct gpusim_ops *o = gpusim_ops_new(1);
	enum rc rc = device_write(p->g, p->device, p->items, items, nbytes, err);

	if (rc == RC_OK) {
		forward(p, type, n, o);
		rc = api(gpusim_submit(p->comm, o, GPUSIM_SYNC, NULL), err);
	}
	gpusim_ops_free(o);
	if (rc == RC_OK)
		rc = device_read(p->g, out, p->device, p->net.y[net->nnodes - 1],
				 n * net->nclasses * sizeof *out, err);
	return rc;
}

/* ---- the meaning of the values */

uint32_t
infer_class(const float *values, uint32_t n)
{
	uint32_t best = 0;

	for (uint32_t k = 1; k < n; k++)
		if (values[k] > values[best])
			best = k;
	return best;
}

void
infer_probabilities(const struct net *net, const float *values, double *out)
{
	uint32_t n = net->nclasses;
	double top = values[infer_class(values, n)], sum = 0;

	for (uint32_t k = 0; k < n; k++) {
		out[k] = net->loss == NET_L2 ? fmax(0, values[k]) : exp((double)values[k] - top);
		sum += out[k];
	}
	for (uint32_t k = 0; k < n; k++)
		out[k] = sum > 0 ? out[k] / sum : 1.0 / n;
}

const char *
model_wants(const struct model *m, char out[128])
{
	struct net_shape s = m->task.net.input;
	const struct dataset *d = &m->task.data;
	bool images = s.rows * s.cols > 1;
	double scale = 0;
	bool common = task_scale(&m->task, &scale);
	int n = snprintf(out, 128, "%llu value%s: ", (unsigned long long)net_shape_size(s),
			 net_shape_size(s) == 1 ? "" : "s");

	if (images)
		n += snprintf(out + n, (size_t)(128 - n), "images of %ux%ux%u", s.channels, s.rows,
			      s.cols);
	else
		n += snprintf(out + n, (size_t)(128 - n), "features");
	if (m->items)
		n += snprintf(out + n, (size_t)(128 - n), ", %s",
			      m->items == SAMPLES_BYTES ? "0 to 255" : "32-bit numbers");
	snprintf(out + n, (size_t)(128 - n), "%s",
		 common && d->scale[0] == 1.0f / 255 ? " scaled to 0..1"
		 : common && scale == 1		     ? " as they are"
						     : " normalised as in training");
	return out;
}

/* Of one item. */
static double
loss_of(const struct net *net, const float *values, uint32_t label)
{
	double top = values[infer_class(values, net->nclasses)], sum = 0;

	for (uint32_t k = 0; k < net->nclasses; k++) {
		double d = values[k] - (k == label ? 1.0 : 0.0);

		sum += net->loss == NET_L2 ? d * d / 2 : exp((double)values[k] - top);
	}
	return net->loss == NET_L2 ? sum : log(sum) + top - (double)values[label];
}

/* ---- testing */

/* The data set's name of a class. */
static const char *
data_class(const struct dataset *data, uint32_t k, char number[16])
{
	const struct model named = {
	    .task.data = {.nclasses = data->nclasses, .class_name = data->class_name}};

	return model_class(&named, k, number);
}

/* The model's class of that name; nclasses: not found. */
static uint32_t
find_class(const struct model *m, const char *name)
{
	uint32_t k = 0, n = m->task.net.nclasses;
	char number[16];

	while (k < n && strcmp(model_class(m, k, number), name) != 0)
		k++;
	return k;
}

/*
 * to[label] [out]: the model's class of that name. Each file numbers its classes by itself, so
 * another file's numbers may differ. Without names the number is the class.
 */
static enum rc
match_classes(const struct model *m, const struct dataset *data, const bool used[256],
	      uint32_t to[256], struct err *err)
{
	uint32_t n = m->task.net.nclasses;
	bool known = true;
	char number[16];

	for (uint32_t k = 0; k < 256; k++)
		if (used[k]) {
			to[k] = find_class(m, data_class(data, k, number));
			known = known && to[k] < n;
		}
	for (uint32_t k = 0; k < 256 && !known; k++) {
		if (used[k] && data->class_name && to[k] == n)
			return err_set(err, RC_BADDATA,
				       "%s: class '%.64s' is not a class of the model",
				       data->test.labels_path, data_class(data, k, number));
		/* The file has numbers, the model has names. */
		if (!data->class_name)
			to[k] = k;
	}
	return RC_OK;
}

/* RC_BADDATA if the values are on another scale than in training. */
static enum rc
check_values(const struct model *m, const char *path, const struct dataset *data, struct err *err)
{
	uint64_t n = data->test.nitems * dataset_item_size(data);
	const float *values = data->test.items;
	char wants[128];

	if (data->dtype == GPUSIM_U8) {
		if (m->items != SAMPLES_NUMBERS || data->rows * data->cols == 1)
			return RC_OK;
		return err_set(err, RC_BADDATA, "%s: items are bytes; the model takes %s", path,
			       model_wants(m, wants));
	}
	for (uint64_t i = 0; m->items == SAMPLES_BYTES && i < n; i++)
		if (!samples_is_byte(values[i]))
			return err_set(err, RC_BADDATA, "%s: a value is %g; the model takes %s",
				       path, (double)values[i], model_wants(m, wants));
	return RC_OK;
}

enum rc
model_check_items(const struct model *m, const char *path, const struct dataset *data,
		  struct err *err)
{
	struct net_shape want = m->task.net.input;

	if (data->channels == want.channels && data->rows == want.rows && data->cols == want.cols)
		return check_values(m, path, data, err);
	return err_set(err, RC_BADDATA, "%s: items are %ux%ux%u; the model takes %ux%ux%u", path,
		       data->channels, data->rows, data->cols, want.channels, want.rows, want.cols);
}

enum rc
model_take_data(const struct model *m, const char *path, struct dataset *data, struct err *err)
{
	const struct net *net = &m->task.net;
	struct dataset_part *test = &data->test;
	bool used[256] = {false};
	uint32_t to[256];
	enum rc rc;

	rc = model_check_items(m, path, data, err);
	for (uint32_t i = 0; i < test->nitems; i++)
		used[test->labels[i]] = true;
	if (rc == RC_OK)
		rc = match_classes(m, data, used, to, err);
	for (uint32_t i = 0; rc == RC_OK && i < test->nitems; i++) {
		uint32_t class = to[test->labels[i]];

		if (class >= net->nclasses || class > UINT8_MAX)
			return err_set(err, RC_BADDATA,
				       "%s: label %u of item %u, but the model has %u classes",
				       test->labels_path, class, i, net->nclasses);
		test->labels[i] = (uint8_t) class;
	}
	return rc;
}

static void
count(struct evaluation *e, const struct net *net, const float *values, const uint8_t *labels,
      uint64_t n)
{
	for (uint64_t i = 0; i < n; i++, values += net->nclasses) {
		uint32_t class = infer_class(values, net->nclasses);

		e->right += class == labels[i];
		e->loss += loss_of(net, values, labels[i]);
		e->taken[(uint64_t)labels[i] * net->nclasses + class]++;
	}
	e->nitems += n;
}

static enum rc
evaluate_all(struct predictor *p, const struct net *net, const struct dataset *data, float *values,
	     struct evaluation *e, struct err *err)
{
	uint64_t item = dataset_item_bytes(data);
	const uint8_t *items = data->test.items;
	enum rc rc = RC_OK;
	uint64_t n;

	for (uint64_t at = 0; at < data->test.nitems && rc == RC_OK; at += n) {
		n = data->test.nitems - at;
		n = n < p->rows ? n : p->rows;
		rc = predictor_run(p, data->dtype, items + at * item, n, values, err);
		if (rc == RC_OK)
			count(e, net, values, data->test.labels + at, n);
	}
	return rc;
}

enum rc
evaluate(struct predictor *p, const struct model *m, const struct dataset *data,
	 struct evaluation *out, struct err *err)
{
	const struct net *net = &m->task.net;
	struct evaluation e = {.nclasses = net->nclasses,
			       .nlabels = net->nclasses < 256 ? net->nclasses : 256};
	float *values = must_alloc(p->rows * net->nclasses, sizeof *values);
	enum rc rc;

	e.taken = must_alloc((size_t)e.nlabels * e.nclasses, sizeof *e.taken);
	rc = evaluate_all(p, net, data, values, &e, err);
	free(values);
	if (rc != RC_OK) {
		evaluation_fini(&e);
		return rc;
	}
	e.loss /= (double)e.nitems;
	*out = e;
	return RC_OK;
}

void
evaluation_fini(struct evaluation *e)
{
	free(e->taken);
	*e = (struct evaluation){0};
}
