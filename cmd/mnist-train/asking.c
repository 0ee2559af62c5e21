#include "asking.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/must.h"
#include "nn/samples.h"
#include "report.h"

enum { MAX_TABLE = 20, COLUMN = 6, MAX_LABEL = 16 };

/* ---- the model and its data */

/* Open the net and the data of a model file that does not describe its net. */
static enum rc
open_by_data(struct asking *a, struct err *err)
{
	const struct train_config *c = a->config;
	struct task task;
	enum rc rc;

	if (c->infer)
		return err_set(err, RC_BADDATA, "%s: does not describe its net's input", c->load);
	rc = task_open(c, &task, err);
	return rc == RC_OK ? model_of_task(c->load, &task, &a->model, err) : rc;
}

/* Images in folders are converted to the model's input shape, unless options set it. */
static struct dataset_options
data_options(const struct asking *a)
{
	struct dataset_options o = a->config->dataset;
	struct net_shape s = a->model.task.net.input;

	if (s.rows * s.cols > 1) {
		o.channels = o.channels ? o.channels : s.channels;
		o.cols = o.rows ? o.cols : s.cols;
		o.rows = o.rows ? o.rows : s.rows;
	}
	return o;
}

enum rc
asking_open(struct asking *a, const struct train_config *config, struct err *err)
{
	bool known = false;
	enum rc rc;

	*a = (struct asking){.config = config};
	rc = model_load(config->load, config, &known, &a->model, err);
	if (rc == RC_OK && !known)
		return open_by_data(a, err);
	if (rc == RC_OK)
		rc = config_check_dims(config, config->load, a->model.task.net.input, 0, NULL, err);
	if (rc == RC_OK && config->data) {
		const struct dataset_options o = data_options(a);

		rc = dataset_open(config->data, &o, &a->data, err);
	}
	if (rc == RC_OK && config->data)
		rc = config->eval ? model_take_data(&a->model, config->data, &a->data, err)
				  : model_check_items(&a->model, config->data, &a->data, err);
	return rc;
}

void
asking_fini(struct asking *a)
{
	model_fini(&a->model);
	dataset_fini(&a->data);
}

/* Close standard output, and check that everything was written. */
static enum rc
close_output(struct err *err)
{
	if (fflush(stdout) != 0 || ferror(stdout) || close(STDOUT_FILENO) != 0)
		return err_set(err, RC_FAILED, "standard output: %s", strerror(errno));
	return RC_OK;
}

/* ---- a test */

static int
label_width(const struct model *m)
{
	size_t width = 5;
	char number[16];

	for (uint32_t k = 0; k < m->task.net.nclasses; k++) {
		size_t len = strlen(model_class(m, k, number));

		width = len > width ? len : width;
	}
	return width < MAX_LABEL ? (int)width : MAX_LABEL;
}

/* Print a class's line: how its items were classified, and the percentage classified correctly. */
static void
print_class(const struct model *m, const struct evaluation *e, uint32_t k, int width)
{
	const uint64_t *taken = e->taken + (uint64_t)k * e->nclasses;
	uint64_t n = 0;
	char number[16];

	printf("%-*.*s", width, width, model_class(m, k, number));
	for (uint32_t j = 0; j < e->nclasses; j++)
		n += taken[j];
	if (e->nclasses <= MAX_TABLE)
		for (uint32_t j = 0; j < e->nclasses; j++)
			printf(" %*" PRIu64, COLUMN, taken[j]);
	else
		printf(" %*" PRIu64, COLUMN, n);
	printf("  %6.2f %%\n", n ? 100 * (double)taken[k] / (double)n : 0);
}

/* Print the confusion matrix: rows are true classes, columns predicted ones; with many classes only item counts.
 */
static void
print_evaluation(const struct model *m, const struct evaluation *e)
{
	int width = label_width(m);
	char number[16];

	printf("test accuracy %.2f %%  loss %.4f  %" PRIu64 " items\n",
	       100 * (double)e->right / (double)e->nitems, e->loss, e->nitems);
	printf("%-*s", width, "class");
	if (e->nclasses <= MAX_TABLE)
		for (uint32_t k = 0; k < e->nclasses; k++)
			printf(" %*.*s", COLUMN, COLUMN, model_class(m, k, number));
	else
		printf(" %*s", COLUMN, "items");
	printf("   correct\n");
	for (uint32_t k = 0; k < e->nlabels; k++)
		print_class(m, e, k, width);
}

/* Write the evaluation as one object: taken[k][j] items of class k were classified as class j. */
static void
write_evaluation(const struct model *m, const struct evaluation *e, FILE *f)
{
	struct json j = {f, false};
	char number[16];

	json_put(&j, "{test_accuracy:%.9g loss:%.9g items:%" PRIu64 " right:%" PRIu64 " classes:[",
		 (double)e->right / (double)e->nitems, e->loss, e->nitems, e->right);
	for (uint32_t k = 0; k < e->nclasses; k++)
		json_put(&j, "%s", model_class(m, k, number));
	json_put(&j, "] taken:[");
	for (uint64_t k = 0; k < e->nlabels; k++) {
		json_put(&j, "[");
		for (uint32_t i = 0; i < e->nclasses; i++)
			json_put(&j, "%" PRIu64, e->taken[k * e->nclasses + i]);
		json_put(&j, "]");
	}
	json_put(&j, "]}\n");
}

static enum rc
close_json(FILE *f, struct err *err)
{
	bool good = !ferror(f);

	if (fclose(f) == 0 && good)
		return RC_OK;
	return err_set(err, RC_FAILED, "--json: %s", strerror(errno));
}

enum rc
asking_eval(const struct asking *a, struct gpusim *g, struct err *err)
{
	const struct dataset *data = a->data.nclasses ? &a->data : &a->model.task.data;
	struct predictor *p = NULL;
	struct evaluation e = {0};
	struct err close_err = {0};
	FILE *json = NULL;
	enum rc rc = report_streams(a->config, false, &json, err), closed;

	if (rc == RC_OK)
		rc = predictor_new(g, &a->model, a->config->wait_ms, &p, err);
	if (rc == RC_OK)
		rc = evaluate(p, &a->model, data, &e, err);
	if (rc == RC_OK) {
		print_evaluation(&a->model, &e);
		if (json)
			write_evaluation(&a->model, &e, json);
		rc = close_output(err);
	}
	closed = json ? close_json(json, &close_err) : RC_OK;
	if (rc == RC_OK && closed != RC_OK)
		rc = err_set(err, closed, "%s", close_err.text);
	evaluation_fini(&e);
	predictor_free(p);
	return rc;
}

/* ---- a filter */

struct batch_io {
	struct samples *samples;
	struct predictor *predictor;
	uint8_t *items;
	float *values;
	double *p; /* of one item */
};

/* Print a class as one word. */
static void
print_word(const char *name)
{
	for (; *name; name++)
		putchar(*name == ' ' || *name == '\t' ? '_' : *name);
}

static void
print_answers(const struct model *m, const struct batch_io *io, uint64_t n)
{
	const struct net *net = &m->task.net;
	char number[16];

	for (uint64_t i = 0; i < n; i++) {
		const float *values = io->values + i * net->nclasses;

		infer_probabilities(net, values, io->p);
		print_word(model_class(m, infer_class(values, net->nclasses), number));
		for (uint32_t k = 0; k < net->nclasses; k++)
			printf(" %.6f", io->p[k]);
		putchar('\n');
	}
}

static enum rc
answer(const struct model *m, struct batch_io *io, enum gpusim_dtype type, const void *items,
       uint64_t n, struct err *err)
{
	enum rc rc = predictor_run(io->predictor, type, items, n, io->values, err);

	if (rc != RC_OK)
		return rc;
	print_answers(m, io, n);
	if (fflush(stdout) != 0)
		return err_set(err, RC_FAILED, "standard output: %s", strerror(errno));
	return RC_OK;
}

/* Classify the available samples, at least one. *more: more may follow. */
static enum rc
answer_batch(const struct model *m, struct batch_io *io, bool *more, struct err *err)
{
	enum gpusim_dtype type = samples_dtype(io->samples);
	uint64_t item = net_shape_size(m->task.net.input) * (type == GPUSIM_F32 ? 4 : 1), n = 0;
	struct err run_err = {0};
	enum rc rc = RC_OK, ran = RC_OK;

	while (n < predictor_rows(io->predictor) && (n == 0 || samples_ready(io->samples))) {
		rc = samples_next(io->samples, io->items + n * item, more, err);
		if (rc != RC_OK || !*more)
			break;
		n++;
	}
	if (n)
		ran = answer(m, io, type, io->items, n, &run_err);
	return ran == RC_OK ? rc : err_set(err, ran, "%s", run_err.text);
}

/* Classify the test part of a data set, in order. */
static enum rc
answer_data(const struct model *m, struct batch_io *io, const struct dataset *data, struct err *err)
{
	uint64_t rows = predictor_rows(io->predictor), n;
	const uint8_t *items = data->test.items;
	enum rc rc = RC_OK;

	for (uint64_t at = 0; rc == RC_OK && at < data->test.nitems; at += n) {
		n = data->test.nitems - at < rows ? data->test.nitems - at : rows;
		rc = answer(m, io, data->dtype, items + at * dataset_item_bytes(data), n, err);
	}
	return rc;
}

static enum rc
answer_samples(const struct asking *a, struct batch_io *io, struct err *err)
{
	const struct train_config *c = a->config;
	char text[128];
	const struct samples_want want = {.shape = a->model.task.net.input,
					  .values = a->model.items,
					  .text = model_wants(&a->model, text)};
	bool more = true;
	enum rc rc = RC_OK;

	if (c->nfiles)
		io->samples = samples_open_files(c->files, c->nfiles, &want);
	else
		rc = samples_open(STDIN_FILENO, "standard input", SAMPLES_STREAM, &want,
				  &io->samples, err);

	while (rc == RC_OK && more)
		rc = answer_batch(&a->model, io, &more, err);
	samples_close(io->samples);
	return rc;
}

enum rc
asking_infer(const struct asking *a, struct gpusim *g, struct err *err)
{
	const struct net *net = &a->model.task.net;
	struct batch_io io = {0};
	enum rc rc = predictor_new(g, &a->model, a->config->wait_ms, &io.predictor, err);
	uint64_t rows = rc == RC_OK ? predictor_rows(io.predictor) : 0;

	io.items = must_alloc(rows * net_shape_size(net->input), sizeof(float));
	io.values = must_alloc(rows * net->nclasses, sizeof *io.values);
	io.p = must_alloc(net->nclasses, sizeof *io.p);
	if (rc == RC_OK)
		rc = a->config->data ? answer_data(&a->model, &io, &a->data, err)
				     : answer_samples(a, &io, err);
	if (rc == RC_OK)
		rc = close_output(err);
	predictor_free(io.predictor);
	free(io.items);
	free(io.values);
	free(io.p);
	return rc;
}
