#include "cluster/measured.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/plan.h"

#define MAX_FIELDS 24
#define TOLD	   0.002 /* of the cost: a constant that changes it by less is undetermined */

/* ---- tables */

/* The data found in a text so far. */
struct reading {
	struct measured *m;
	uint32_t ranks; /* lines "#  Rank .." */
	double factor;	/* busbw / algbw of the fastest row */
	double fastest;
	double least, most;		      /* factors of all rows of 1 GB/s and more; 0: none */
	bool coll, reduces, root, parts_only; /* parts_only: in-place N/A */
};

static void
header(struct reading *r, const char *line)
{
	char word[32];
	uint32_t n;

	if (sscanf(line, "# Collective test starting: %31[a-z_]", word) == 1 ||
	    sscanf(line, "# collective: %31s", word) == 1 ||
	    sscanf(line, "# %31s nRanks", word) == 1) {
		char *perf = strstr(word, "_perf");

		if (perf)
			*perf = '\0';
		if (cluster_coll(word, &r->m->coll, NULL) == RC_OK)
			r->coll = true;
	}
	if (sscanf(line, "# n_gpus: %u", &n) == 1 || sscanf(line, "# %*s nRanks %u", &n) == 1)
		r->ranks = n;
	else if (sscanf(line, "# Rank %u", &n) == 1)
		r->ranks++;
}

static bool
number(const char *field, double *v)
{
	char *end;

	*v = strtod(field, &end);
	return end != field && !*end && isfinite(*v);
}

/* The row's time is the field whose quotient the next one is. */
static void
row(struct reading *r, char *line)
{
	char *field[MAX_FIELDS], *save = NULL;
	unsigned n = 0;
	double size, us, alg, bus;
	struct measured *m = r->m;

	for (char *f = strtok_r(line, " \t\r", &save); f && n < MAX_FIELDS;
	     f = strtok_r(NULL, " \t\r", &save))
		field[n++] = f;
	if (n < 4 || !number(field[0], &size) || size < 1 || size > 1e15)
		return;
	for (unsigned i = 1; i + 2 < n; i++) {
		double quotient;

		if (!number(field[i], &us) || us <= 0 || us > 1e12 || !number(field[i + 1], &alg) ||
		    !number(field[i + 2], &bus) || alg < 0 || bus < 0)
			continue;
		quotient = size / (1000 * us);
		if (fabs(quotient - alg) > 0.0051 + 0.01 * alg || m->npoints == MEASURED_MAX_POINTS)
			continue;
		m->size[m->npoints] = size;
		m->us[m->npoints++] = us;
		if (alg >= 1) {
			r->least = r->most > 0 ? fmin(r->least, bus / alg) : bus / alg;
			r->most = fmax(r->most, bus / alg);
		}
		if (alg > r->fastest) {
			r->fastest = alg;
			r->factor = bus / alg;
		}
		r->parts_only |= i + 4 < n && strcmp(field[i + 4], "N/A") == 0;
		for (unsigned k = 2; k < i; k++) {
			r->reduces |= strcmp(field[k], "sum") == 0 ||
				      strcmp(field[k], "avg") == 0 ||
				      strcmp(field[k], "prod") == 0 ||
				      strcmp(field[k], "max") == 0 || strcmp(field[k], "min") == 0;
			r->root |= k + 1 == i && isdigit((unsigned char)field[k][0]);
		}
		return;
	}
}

/* The longest collective's name in a file's. */
static bool
coll_of_name(const char *name, enum gpusim_coll *out)
{
	static const char *const words[] = {"allreduce", "reducescatter", "allgather",
					    "alltoall",	 "sendrecv",	  "broadcast",
					    "reduce",	 "gather",	  "scatter"};
	char plain[256];
	size_t n = 0;

	for (; *name && n + 1 < sizeof plain; name++)
		if (isalpha((unsigned char)*name))
			plain[n++] = (char)tolower((unsigned char)*name);
	plain[n] = '\0';
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strstr(plain, words[i]))
			return cluster_coll(words[i], out, NULL) == RC_OK;
	return false;
}

/* Guess the collective from the columns: 2(n-1)/n is above 1, (n-1)/n below. */
static bool
coll_of_columns(const struct reading *r, enum gpusim_coll *out)
{
	if (r->reduces)
		*out = r->root		    ? GPUSIM_REDUCE
		       : r->factor > 1.0001 ? GPUSIM_ALLREDUCE
		       : r->factor < 0.9999 ? GPUSIM_REDUCESCATTER
					    : GPUSIM_ALLREDUCE;
	else if (r->root)
		*out = GPUSIM_BROADCAST;
	else
		*out = r->factor < 0.9999 ? (r->parts_only ? GPUSIM_ALLTOALL : GPUSIM_ALLGATHER)
					  : GPUSIM_SEND;
	/* A gather and a scatter look alike, and with two ranks an all-reduce has factor 1. */
	return r->fastest > 0 && (!r->root || r->reduces || r->factor > 0.9999);
}

enum rc
measured_read(const char *text, const char *name, uint32_t ngpus, struct measured *out,
	      struct err *err)
{
	struct measured m = {0};
	struct reading r = {.m = &m};
	const char *slash = strrchr(name, '/');
	char line[512];

	snprintf(m.name, sizeof m.name, "%s", slash ? slash + 1 : name);
	while (*text) {
		size_t len = strcspn(text, "\n"), n = len < sizeof line ? len : sizeof line - 1;
		const char *at = line;

		memcpy(line, text, n);
		line[n] = '\0';
		text += len + (text[len] == '\n');
		if (*at == '[' && strchr(at, ':')) /* as mpirun marks lines */
			at = strchr(at, ':') + 1;
		at += strspn(at, " \t");
		if (*at == '#')
			header(&r, at);
		else
			row(&r, line + (at - line));
	}
	if (!m.npoints)
		return err_set(err, RC_BADDATA,
			       "%.64s: has no row of nccl-tests, with size, time, algbw and busbw",
			       m.name);
	if (r.most > r.least + 0.03)
		return err_set(err, RC_BADDATA,
			       "%.64s: busbw is %.2f to %.2f times algbw: several collectives or "
			       "numbers of GPUs; use a file for each",
			       m.name, r.least, r.most);
	if (!r.coll && !coll_of_name(m.name, &m.coll) && !coll_of_columns(&r, &m.coll))
		return err_set(err, RC_BADDATA,
			       "%.64s: unknown collective: name it in the file's name", m.name);
	m.ngpus = ngpus ? ngpus : r.ranks;
	if (!m.ngpus && r.fastest >= 1 && fabs(r.factor - 1) > 1e-4) {
		double k = m.coll == GPUSIM_ALLREDUCE ? 2 : 1;

		m.ngpus = k - r.factor > 1e-6 ? (uint32_t)(fmin(k / (k - r.factor), 1e6) + 0.5) : 0;
	}
	if (m.ngpus < 2)
		return err_set(err, RC_BADDATA, "%.64s: unknown number of GPUs: give -n N", m.name);
	if (r.fastest >= 1 &&
	    fabs(r.factor / coll_bus_factor(m.coll, m.ngpus) - 1) > 0.02 + 0.02 / r.fastest)
		return err_set(
		    err, RC_BADDATA,
		    "%.64s: busbw is %.3f times algbw, but for %s on %u GPUs it must be %.3f",
		    m.name, r.factor, coll_is_sendrecv(m.coll) ? "sendrecv" : coll_name(m.coll),
		    m.ngpus, coll_bus_factor(m.coll, m.ngpus));
	*out = m;
	return RC_OK;
}

/* ---- compared with predictions */

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static enum rc
predict(const struct measured *m, uint32_t i, const struct cluster *c, struct cluster_answer *out,
	struct err *err)
{
	struct cluster_ask ask = {.coll = m->coll,
				  .ngpus = m->ngpus,
				  .nbytes = (uint64_t)m->size[i],
				  .algo = -1,
				  .proto = -1};

	return cluster_predict_fit(c, &ask, &cluster_fit_default, out, err);
}

double
measured_median(const struct measured *m, const struct cluster *c, bool large, bool error,
		struct cluster_answer *last)
{
	double v[MEASURED_MAX_POINTS];
	unsigned n = 0;
	struct cluster_answer a;

	for (uint32_t i = 0; i < m->npoints; i++) {
		if ((m->size[i] >= MEASURED_LARGE) != large)
			continue;
		if (predict(m, i, c, &a, NULL) != RC_OK)
			return NAN;
		v[n++] = error ? fabs(a.us / m->us[i] - 1) : m->us[i] / a.us;
		if (last)
			*last = a;
	}
	qsort(v, n, sizeof *v, by_value);
	return n ? (v[n / 2] + v[(n - 1) / 2]) / 2 : NAN;
}

/* ---- fitting */

/* Constants of a cluster; latencies have one for each protocol, of which the last is told. */
static const struct constant {
	const char *name, *unit; /* a share has no unit */
	size_t at;
	unsigned n;
} constants[MEASURED_CONSTANTS] = {
    {"launch", "us", offsetof(struct cluster, launch_us), 1},
    {"inside simple latency", "us", offsetof(struct cluster, in[0].us), CLUSTER_NPROTOS},
    {"network simple latency", "us", offsetof(struct cluster, out[0].us), CLUSTER_NPROTOS},
    {"message", "us", offsetof(struct cluster, message_us), 1},
    {"inside share", "", offsetof(struct cluster, inside_share), 1},
    {"network share", "", offsetof(struct cluster, nic_share), 1},
    {"nvls share", "", offsetof(struct cluster, nvls_share), 1}};

/* The k-th constant, which is multiplied by x first. */
static double
scale(struct cluster *c, int k, double x)
{
	double *v = (double *)((char *)c + constants[k].at), *last = v;

	for (unsigned p = 0; p < constants[k].n; p++) {
		last = v + p * (sizeof *c->in / sizeof *v);
		*last = *constants[k].unit ? *last * x : fmin(1, *last * x);
	}
	return *last;
}

/* The mean over tables of the mean |log(predicted / measured)|, large sizes twice; round near 0, so that two
 * constants move together. */
static double
cost(const struct measured *t, size_t n, const struct cluster *c, struct err *err)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		double e = 0, w = 0;

		for (uint32_t k = 0; k < t[i].npoints; k++) {
			double weight = t[i].size[k] < MEASURED_LARGE ? 1 : 2;
			struct cluster_answer a;

			if (predict(&t[i], k, c, &a, err) != RC_OK)
				return NAN;
			e += weight * hypot(log(a.us / t[i].us[k]), 0.05);
			w += weight;
		}
		sum += e / w;
	}
	return sum / (double)n;
}

/* Do the tables depend on a constant? A fifth more or less costs something, each; what costs on one side
 * alone is no more than a limit. A share cannot be more than 1. */
static bool
told(const struct measured *t, size_t n, const struct cluster *c, int k)
{
	struct cluster up = *c, down = *c, same = *c;
	double at = cost(t, n, c, NULL), more, less, most = scale(&up, k, 1.2);

	scale(&down, k, 1 / 1.2);
	more = fabs(cost(t, n, &up, NULL) - at);
	less = fabs(cost(t, n, &down, NULL) - at);
	if (most <= scale(&same, k, 1))
		return less > TOLD;
	return fmax(more, less) > TOLD && fmin(more, less) > 1e-6;
}

/* Constants moved so far, as logarithms, make a cluster; what that costs. One leaves its start only for what
 * it gains. */
static double
moved_cost(const struct measured *t, size_t n, const struct cluster *from, const double *moved,
	   struct cluster *out)
{
	double sum = 0;

	*out = *from;
	for (int k = 0; k < MEASURED_CONSTANTS; k++) {
		scale(out, k, exp(moved[k]));
		sum += 0.001 * fabs(moved[k]);
	}
	return cost(t, n, out, NULL) + sum;
}

/* Each constant up and down by ever smaller steps, and each with each other one the other way: they stand for
 * one another. */
static void
descend(const struct measured *t, size_t n, const struct cluster *from, struct cluster *c,
	double best)
{
	enum { N = MEASURED_CONSTANTS, MOVES = 2 * N * N };
	double moved[N] = {0};

	for (double step = log(1.6); step > log(1.01); step /= 1.6)
		for (int since = 0, i = 0; since < MOVES && i < 40 * MOVES; i++, since++) {
			int k = i / 2 % N, j = i / 2 / N % N;
			double was[N], now, by = i % 2 ? step : -step;
			struct cluster other;

			memcpy(was, moved, sizeof was);
			moved[k] += by;
			if (j != k)
				moved[j] -= by;
			now = moved_cost(t, n, from, moved, &other);
			if (now < best) {
				best = now;
				*c = other;
				since = 0;
			} else {
				memcpy(moved, was, sizeof was);
			}
		}
}

enum rc
measured_fit(const struct measured *t, size_t n, const struct cluster *c, struct measured_fit *out,
	     struct err *err)
{
	struct measured_fit fit = {.c = *c, .one_number = true};
	double at = cost(t, n, c, err);

	if (isnan(at))
		return RC_INVAL;
	descend(t, n, c, &fit.c, at);
	at = cost(t, n, &fit.c, NULL);
	for (int k = 0; k < MEASURED_CONSTANTS; k++) {
		struct cluster was = *c, back = fit.c;
		struct measured_constant *m = &fit.constant[k];

		*m = (struct measured_constant){.name = constants[k].name,
						.unit = constants[k].unit,
						.was = scale(&was, k, 1),
						.now = scale(&back, k, 1),
						.told = told(t, n, &fit.c, k)};
		if (m->told || m->now <= 0)
			continue;
		m->now = scale(&back, k, m->was / m->now);
		m->told = cost(t, n, &back, NULL) >= at + TOLD;
		if (!m->told)
			fit.c = back;
		else
			m->now = scale(&fit.c, k, 1);
		at = cost(t, n, &fit.c, NULL);
	}
	for (size_t i = 1; i < n; i++)
		fit.one_number &= t[i].ngpus == t[0].ngpus;
	*out = fit;
	return RC_OK;
}
