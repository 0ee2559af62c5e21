#include "train/compare.h"
#include "base/must.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	enum sync sync;
	uint32_t staleness;
	enum backend backend;
	uint32_t zero;
	bool tp, pp;
} methods[COMPARE_NMETHODS] = {
    [COMPARE_ALLREDUCE] = {.name = "allreduce", .sync = SYNC_ALLREDUCE},
    [COMPARE_SENDRECV] = {.name = "sendrecv", .sync = SYNC_SENDRECV},
    [COMPARE_PS] = {.name = "ps", .sync = SYNC_PS},
    [COMPARE_PS_ASYNC] = {.name = "ps-async", .sync = SYNC_PS, .staleness = STALENESS_ASYNC},
    [COMPARE_PS_STALE] = {.name = "ps-stale", .sync = SYNC_PS, .staleness = 2},
    [COMPARE_LOCAL] = {.name = "local", .sync = SYNC_LOCAL},
    [COMPARE_MPI] = {.name = "mpi", .sync = SYNC_ALLREDUCE, .backend = BACKEND_MPI},
    [COMPARE_ZERO1] = {.name = "zero1", .sync = SYNC_ALLREDUCE, .zero = 1},
    [COMPARE_ZERO2] = {.name = "zero2", .sync = SYNC_ALLREDUCE, .zero = 2},
    [COMPARE_ZERO3] = {.name = "zero3", .sync = SYNC_ALLREDUCE, .zero = 3},
    [COMPARE_TP] = {.name = "tp", .sync = SYNC_ALLREDUCE, .tp = true},
    [COMPARE_PP] = {.name = "pp", .sync = SYNC_ALLREDUCE, .pp = true},
};

const char *
compare_method_name(enum compare_method m)
{
	return methods[m].name;
}

/* The word up to the next comma, and the text after it (NULL: none). */
static const char *
next_word(const char *text, size_t *len)
{
	const char *comma = strchr(text, ',');

	*len = comma ? (size_t)(comma - text) : strlen(text);
	return comma ? comma + 1 : NULL;
}

static enum rc
add_method(struct compare_request *r, const char *word, size_t len, struct err *err)
{
	unsigned m = 0;

	while (m < COMPARE_NMETHODS &&
	       (strlen(methods[m].name) != len || strncmp(methods[m].name, word, len) != 0))
		m++;
	if (m == COMPARE_NMETHODS)
		return err_set(err, RC_INVAL,
			       "'%.*s' is not a method: allreduce, sendrecv, ps, ps-async, "
			       "ps-stale, local, zero1, zero2, zero3, tp, pp or mpi",
			       (int)(len < 64 ? len : 64), word);
	for (unsigned i = 0; i < r->nmethods; i++)
		if (r->method[i] == (enum compare_method)m)
			return err_set(err, RC_INVAL, "%s is given twice", methods[m].name);
	r->method[r->nmethods++] = (enum compare_method)m;
	return RC_OK;
}

enum rc
compare_methods_parse(const char *text, struct compare_request *out, struct err *err)
{
	struct compare_request r = *out;
	size_t len;
	enum rc rc = RC_OK;

	r.nmethods = 0;
	while (rc == RC_OK && text) {
		const char *next = next_word(text, &len);

		rc = add_method(&r, text, len, err);
		text = next;
	}
	if (rc == RC_OK)
		*out = r;
	return rc;
}

/* Insert a number in ascending order. */
static enum rc
add_workers(struct compare_request *r, uint32_t n, struct err *err)
{
	unsigned i = r->nworkers;

	for (unsigned k = 0; k < r->nworkers; k++)
		if (r->workers[k] == n)
			return err_set(err, RC_INVAL, "%" PRIu32 " is given twice", n);
	if (r->nworkers == CONFIG_MAX_WORKERS || n == 0)
		return err_set(err, RC_INVAL, "needs 1 to %d numbers of at least 1",
			       CONFIG_MAX_WORKERS);
	for (; i > 0 && r->workers[i - 1] > n; i--)
		r->workers[i] = r->workers[i - 1];
	r->workers[i] = n;
	r->nworkers++;
	return RC_OK;
}

enum rc
compare_workers(const uint32_t *workers, unsigned n, struct compare_request *out, struct err *err)
{
	static const uint32_t usual[] = {1, 2, 4};
	struct compare_request r = *out;
	enum rc rc = RC_OK;

	if (n == 0) {
		workers = usual;
		n = sizeof usual / sizeof usual[0];
	}
	r.nworkers = 0;
	for (unsigned i = 0; i < n && rc == RC_OK; i++)
		rc = add_workers(&r, workers[i], err);
	if (rc == RC_OK)
		*out = r;
	return rc;
}

/* global / workers, to the nearest, but at least one image. */
static uint32_t
share_of(uint64_t global, uint32_t workers)
{
	uint64_t batch = (global + workers / 2) / workers;

	return (uint32_t)(batch ? batch : 1);
}

enum rc
compare_plan(const struct compare_request *r, uint32_t batch, struct compare *out, struct err *err)
{
	struct compare c = {.request = *r, .nruns = (size_t)r->nmethods * r->nworkers};
	size_t k = 0;

	c.global = (uint64_t)batch * r->workers[r->nworkers - 1];
	if (c.global > UINT32_MAX)
		return err_set(err, RC_INVAL, "%" PRIu64 " images a step exceed the limit of 2^32",
			       c.global);
	c.run = must_alloc(c.nruns, sizeof *c.run);
	for (unsigned m = 0; m < r->nmethods; m++)
		for (unsigned w = 0; w < r->nworkers; w++)
			c.run[k++] =
			    (struct compare_run){.method = r->method[m],
						 .workers = r->workers[w],
						 .batch = share_of(c.global, r->workers[w])};
	*out = c;
	return RC_OK;
}

void
compare_fini(struct compare *c)
{
	for (size_t i = 0; i < c->nruns; i++)
		free(c->run[i].epoch);
	free(c->run);
	*c = (struct compare){0};
}

/* Under MPI, whoever starts the job decides the number of workers. */
void
compare_config(const struct compare_run *run, const char *json, struct train_config *config)
{
	bool mpi = methods[run->method].backend == BACKEND_MPI;

	config->sync = methods[run->method].sync;
	config->staleness = methods[run->method].staleness;
	config->backend = methods[run->method].backend;
	config->nworkers = mpi ? 0 : 1;
	config->workers[0] = run->workers;
	config->devices = 0;
	config->batch = run->batch;
	config->zero = methods[run->method].zero;
	if (config->zero || methods[run->method].tp || methods[run->method].pp)
		config->bucket_bytes = 0;
	if (methods[run->method].tp || methods[run->method].pp) {
		config->parallel = (struct grid){1, methods[run->method].tp ? run->workers : 1,
						 methods[run->method].pp ? run->workers : 1};
		config->global_batch = (uint64_t)run->batch * run->workers;
	}
	config->json = json;
	config->compare = NULL;
	config->out = NULL;
}

void
compare_judge(struct compare *c, const struct train_config *config, bool batchnorm)
{
	for (size_t i = 0; i < c->nruns; i++) {
		struct compare_run *r = &c->run[i];
		struct train_config own = *config;
		uint64_t step;

		compare_config(r, NULL, &own);
		step = (uint64_t)r->batch *
		       (own.sync == SYNC_PS && own.ps_aggregate ? own.ps_aggregate : r->workers);
		r->differs =
		    differ_of(&own, r->workers, batchnorm) | (step == c->global ? 0 : DIFFER_BATCH);
	}
}

/* The number of a key in a line of JSON; null stands for a number that is not finite. */
static bool
number_of(const char *line, const char *end, const char *key, double *out)
{
	const char *at = strstr(line, key);
	char *stop;
	double x;

	if (!at || at >= end)
		return false;
	at += strlen(key);
	if (strncmp(at, "null", 4) == 0) {
		*out = NAN;
		return true;
	}
	x = strtod(at, &stop);
	if (stop == at || stop > end)
		return false;
	*out = x;
	return true;
}

static bool
read_line(const char *line, const char *end, double before, struct compare_epoch *out)
{
	struct compare_epoch e;
	double epoch, seconds;

	if (!number_of(line, end, "\"epoch\":", &epoch) ||
	    !number_of(line, end, "\"loss\":", &e.loss) ||
	    !number_of(line, end, "\"test_accuracy\":", &e.accuracy) ||
	    !number_of(line, end, "\"images_per_s\":", &e.images_per_s) ||
	    !number_of(line, end, "\"seconds\":", &seconds) || !(epoch >= 1 && epoch < 1e9) ||
	    !(seconds >= 0))
		return false;
	e.epoch = (uint32_t)epoch;
	e.seconds = before + seconds;
	*out = e;
	return true;
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median of the epochs' times; s has room for them. */
static double
median_s(const struct compare_epoch *e, size_t n, double *s)
{
	for (size_t i = 0; i < n; i++)
		s[i] = e[i].seconds - (i ? e[i - 1].seconds : 0);
	qsort(s, n, sizeof *s, by_value);
	return (s[(n - 1) / 2] + s[n / 2]) / 2;
}

static size_t
count_lines(const char *text)
{
	size_t n = 0;

	for (const char *p = text; (p = strchr(p, '\n')); p++)
		n++;
	return n;
}

/* Read n epochs, a line each. */
static enum rc
read_epochs(const char *json, size_t n, struct compare_epoch *epoch, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		const char *end = strchr(json, '\n');

		if (!read_line(json, end, i ? epoch[i - 1].seconds : 0, &epoch[i]))
			return err_set(err, RC_BADDATA, "line %zu of its report is not an epoch",
				       i + 1);
		json = end + 1;
	}
	return n ? RC_OK : err_set(err, RC_BADDATA, "its report has no epoch");
}

enum rc
compare_read(struct compare_run *run, const char *json, struct err *err)
{
	size_t n = count_lines(json);
	struct compare_epoch *epoch = must_alloc(n, sizeof *epoch);
	double *times = must_alloc(n, sizeof *times);
	enum rc rc = read_epochs(json, n, epoch, err);

	if (rc == RC_OK) {
		run->epoch_s = median_s(epoch, n, times);
		run->nepochs = n;
		free(run->epoch);
		run->epoch = epoch;
	} else {
		free(epoch);
	}
	free(times);
	return rc;
}

void
compare_speedups(struct compare *c)
{
	const struct compare_run *first = NULL;

	for (size_t i = 0; i < c->nruns; i++) {
		struct compare_run *r = &c->run[i];

		if (first && first->method != r->method)
			first = NULL;
		if (!first && r->nepochs)
			first = r;
		r->speedup = r->nepochs && r->epoch_s > 0 ? first->epoch_s / r->epoch_s : 0;
	}
}

void
compare_rounding(const struct compare *c, struct buf *out)
{
	const struct compare_request *q = &c->request;
	bool any = false;

	for (unsigned w = 0; w < q->nworkers; w++) {
		uint64_t got = (uint64_t)c->run[w].batch * q->workers[w];

		if (got == c->global)
			continue;
		must_addf(out, "%s%" PRIu64 " on %" PRIu32, any ? ", " : "images a step: ", got,
			  q->workers[w]);
		any = true;
	}
	if (any)
		must_addf(out, " workers, as %" PRIu64 " cannot be divided evenly\n", c->global);
}

void
compare_csv(const struct compare *c, struct buf *out)
{
	must_addf(out,
		  "method,workers,epoch,loss,test_accuracy,seconds,images_per_s,speedup,note\n");
	for (size_t i = 0; i < c->nruns; i++) {
		const struct compare_run *r = &c->run[i];

		for (size_t k = 0; k < r->nepochs; k++) {
			const struct compare_epoch *e = &r->epoch[k];

			must_addf(out, "%s,%" PRIu32 ",%" PRIu32 ",%.9g,%.9g,%.6f,%.1f,%.3f,",
				  methods[r->method].name, r->workers, e->epoch, e->loss,
				  e->accuracy, e->seconds, e->images_per_s, r->speedup);
			differ_text(r->differs, out);
			must_addf(out, "\n");
		}
	}
}

/* The ways in which any run of a method differs. */
static unsigned
method_differs(const struct compare *c, enum compare_method m)
{
	unsigned differs = 0;

	for (size_t i = 0; i < c->nruns; i++)
		differs |= c->run[i].method == m ? c->run[i].differs : 0;
	return differs;
}

/* Explain the table's mark: a line for each method with its reasons. */
static void
explain(const struct compare *c, struct buf *out)
{
	bool any = false;

	for (unsigned m = 0; m < c->request.nmethods; m++) {
		enum compare_method method = c->request.method[m];
		unsigned left = method_differs(c, method);

		for (; left; left &= left - 1) {
			if (!any)
				must_addf(out, "* differs from the reference training; do not "
					       "compare its loss and accuracy:\n");
			must_addf(out, "  %s: ", methods[method].name);
			differ_text(left & -left, out);
			must_addf(out, "\n");
			any = true;
		}
	}
}

void
compare_table(const struct compare *c, struct buf *out)
{
	must_addf(out, "%-10s %7s %6s %7s %9s %13s %9s %11s\n", "method", "workers", "batch",
		  "epochs", "loss", "test accuracy", "s/epoch", "speed-up");
	for (size_t i = 0; i < c->nruns; i++) {
		const struct compare_run *r = &c->run[i];
		const struct compare_epoch *e = r->nepochs ? &r->epoch[r->nepochs - 1] : NULL;
		const char *mark = r->differs ? "*" : "";

		if (e)
			must_addf(out,
				  "%-10s %7" PRIu32 " %6" PRIu32
				  " %7zu %9.5f %11.2f %% %9.3f %11.2f%s\n",
				  methods[r->method].name, r->workers, r->batch, r->nepochs,
				  e->loss, e->accuracy * 100, r->epoch_s, r->speedup, mark);
		else
			must_addf(out, "%-10s %7" PRIu32 " %6" PRIu32 "  no result%s\n",
				  methods[r->method].name, r->workers, r->batch, mark);
	}
	explain(c, out);
}
