/*
 * validate - compare predicted times with measured ones.
 *
 *	validate [-f] [-l LIMITS] DIR	DIR has NAME.tsv, a table of nccl-tests, and NAME.ini, its cluster's file
 *
 * For each table the median of |predicted / measured - 1|, below and from 16 MiB, of: the
 * prediction; the prediction with numbers fitted without this table; a line alpha + beta bytes
 * fitted to the nearest table by collective, GPUs and hosts; NCCL's own estimate. A table with the
 * line "# role: blind" takes no part in a fit, and took none when the constants of hardware were
 * chosen. Exits with 1 when a median is over its row of LIMITS ("NAME BELOW FROM", in percent). -f
 * prints numbers fitted to all tables, for cluster_fit_default.
 */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "cluster/kinds.h"
#include "cluster/measured.h"

#define MAX_TABLES 128
#define LARGE	   MEASURED_LARGE

struct table {
	struct measured m;
	struct cluster c;
	int algo, proto;
	bool blind; /* it takes no part in a fit */
};

static struct table table[MAX_TABLES];
static unsigned ntables;

struct medians {
	double small, large; /* NAN: no points */
};

static void
die(const char *what, const char *why)
{
	fprintf(stderr, "validate: %s: %s\n", what, why);
	exit(2);
}

/* ---- tables */

static void
load(const char *dir, const char *name)
{
	struct table *t = &table[ntables];
	struct err err = {0};
	struct buf text = {0};
	char path[512];
	size_t stem = strlen(name) - 4;

	t->algo = t->proto = -1;
	snprintf(path, sizeof path, "%s/%.*s.ini", dir, (int)stem, name);
	if (cluster_load(path, &t->c, &err) != RC_OK)
		die(path, err.text);
	snprintf(path, sizeof path, "%s/%s", dir, name);
	if (file_text(path, "a table", &text, &err) != RC_OK ||
	    measured_read(text.data, path, 0, &t->m, &err) != RC_OK)
		die(path, err.text);
	t->m.name[stem] = '\0';
	t->blind = strstr(text.data, "# role: blind") != NULL;
	buf_fini(&text);
	ntables++;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(((const struct table *)a)->m.name, ((const struct table *)b)->m.name);
}

static void
load_all(const char *dir)
{
	struct dirent *e;
	DIR *d = opendir(dir);

	if (!d)
		die(dir, strerror(errno));
	while ((e = readdir(d))) {
		size_t len = strlen(e->d_name);

		if (len > 4 && strcmp(e->d_name + len - 4, ".tsv") == 0 && ntables < MAX_TABLES)
			load(dir, e->d_name);
	}
	closedir(d);
	qsort(table, ntables, sizeof *table, by_name);
}

/* ---- predictors: us of a point of a table */

static double
predicted(const struct table *t, double size, const struct cluster_fit *fit)
{
	struct cluster_ask ask = {.coll = t->m.coll,
				  .ngpus = t->m.ngpus,
				  .nbytes = (uint64_t)size,
				  .algo = t->algo,
				  .proto = t->proto};
	struct cluster_answer a;
	struct err err = {0};

	if (cluster_predict_fit(&t->c, &ask, fit, &a, &err) != RC_OK)
		die(t->m.name, err.text);
	return a.us;
}

/* NAN: no estimate, for example for sends and receives. */
static double
of_nccl(const struct table *t, double size)
{
	struct tuning_ranks r;
	struct tuning_choice choice;
	struct err err = {0};

	tuning_ranks(&t->c, t->m.ngpus, &r);
	if (tuning_choose(&t->c, &r, t->m.coll, -1, -1, (uint64_t)size, &choice, &err) != RC_OK)
		die(t->m.name, err.text);
	if (isnan(choice.us))
		return NAN;
	return choice.us;
}

struct line {
	double alpha, beta;
};

/* Least squares of the relative error. */
static struct line
line_of(const struct table *t)
{
	double w = 0, s = 0, ss = 0, y = 0, sy = 0, det;

	for (unsigned i = 0; i < t->m.npoints; i++) {
		double k = 1 / (t->m.us[i] * t->m.us[i]);

		w += k;
		s += k * t->m.size[i];
		ss += k * t->m.size[i] * t->m.size[i];
		y += k * t->m.us[i];
		sy += k * t->m.size[i] * t->m.us[i];
	}
	det = w * ss - s * s;
	return (struct line){(ss * y - s * sy) / det, (w * sy - s * y) / det};
}

static double
distance(const struct table *a, const struct table *b)
{
	const struct cluster_gpu_kind *g = cluster_gpu_kind((unsigned)a->c.gpu),
				      *h = cluster_gpu_kind((unsigned)b->c.gpu);

	return 4 * (a->m.coll != b->m.coll) + 2 * (a->c.gpu != b->c.gpu) +
	       abs(g->cc - h->cc) / 10.0 + 2 * fabs(log2((double)a->c.hosts / b->c.hosts)) +
	       fabs(log2((double)a->m.ngpus / b->m.ngpus)) + (a->c.network != b->c.network);
}

static const struct table *
neighbour(const struct table *t)
{
	const struct table *best = NULL;

	for (unsigned i = 0; i < ntables; i++)
		if (&table[i] != t && (!best || distance(t, &table[i]) < distance(t, best)))
			best = &table[i];
	return best;
}

/* ---- errors */

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double
median(double *v, unsigned n)
{
	qsort(v, n, sizeof *v, by_value);
	return n ? (v[n / 2] + v[(n - 1) / 2]) / 2 : NAN;
}

static struct medians
errors(const struct table *t, const double *us)
{
	double small[MEASURED_MAX_POINTS], large[MEASURED_MAX_POINTS];
	unsigned nsmall = 0, nlarge = 0;

	for (unsigned i = 0; i < t->m.npoints; i++) {
		double e = fabs(us[i] / t->m.us[i] - 1);

		if (t->m.size[i] < LARGE)
			small[nsmall++] = e;
		else
			large[nlarge++] = e;
	}
	return (struct medians){median(small, nsmall), median(large, nlarge)};
}

static struct medians
errors_predicted(const struct table *t, const struct cluster_fit *fit)
{
	double us[MEASURED_MAX_POINTS];

	for (unsigned i = 0; i < t->m.npoints; i++)
		us[i] = predicted(t, t->m.size[i], fit);
	return errors(t, us);
}

static struct medians
errors_line(const struct table *t)
{
	struct line l = line_of(neighbour(t));
	double us[MEASURED_MAX_POINTS];

	for (unsigned i = 0; i < t->m.npoints; i++)
		us[i] = l.alpha + l.beta * t->m.size[i];
	return errors(t, us);
}

static struct medians
errors_nccl(const struct table *t)
{
	double us[MEASURED_MAX_POINTS];

	for (unsigned i = 0; i < t->m.npoints; i++)
		us[i] = of_nccl(t, t->m.size[i]);
	return isnan(us[0]) ? (struct medians){NAN, NAN} : errors(t, us);
}

/* ---- fitting: the mean over tables of the mean |log(predicted / measured)|, large sizes twice;
 * and a small penalty for each number that moves, so that numbers without data stay */

static double
cost(const struct cluster_fit *fit, const struct table *without)
{
	const double *v = (const double *)fit, *from = (const double *)&cluster_fit_default;
	double sum = 0;
	unsigned fitted_to = 0;

	for (unsigned i = 0; i < ntables; i++) {
		double e = 0, w = 0;

		if (&table[i] == without || table[i].blind)
			continue;
		for (unsigned k = 0; k < table[i].m.npoints; k++) {
			double weight = table[i].m.size[k] < LARGE ? 1 : 2;
			double us = predicted(&table[i], table[i].m.size[k], fit);

			e += weight * fabs(log(us / table[i].m.us[k]));
			w += weight;
		}
		sum += e / w;
		fitted_to++;
	}
	sum /= fitted_to;
	for (size_t k = 0; k < CLUSTER_FIT_NUMBERS; k++)
		sum += 0.002 * fabs(log(v[k] / from[k]));
	return sum;
}

static struct cluster_fit
fitted(const struct table *without)
{
	struct cluster_fit fit = cluster_fit_default;
	double *v = (double *)&fit, best = cost(&fit, without);

	for (double step = 1.4; step > 1.02; step = sqrt(step))
		for (int round = 0; round < 4; round++)
			for (size_t k = 0; k < CLUSTER_FIT_NUMBERS; k++)
				for (int up = 0; up < 2; up++) {
					double was = v[k], now;

					v[k] = up ? was * step : was / step;
					now = cost(&fit, without);
					if (now < best)
						best = now;
					else
						v[k] = was;
				}
	return fit;
}

static void
print_fit(void)
{
	static const char *const names[] = {"inside_hop",   "net_hop",	  "nvls",     "fill",
					    "nvls_fill",    "ll128_fill", "plateau",  "growth",
					    "inside_share", "nvls_share", "net_share"};
	struct cluster_fit fit = fitted(NULL);

	_Static_assert(sizeof names / sizeof *names == CLUSTER_FIT_NUMBERS, "a name each");
	for (size_t k = 0; k < CLUSTER_FIT_NUMBERS; k++)
		printf(".%s = %.3g,\n", names[k], ((double *)&fit)[k]);
}

/* ---- the report */

static void
print_pair(struct medians m)
{
	if (isnan(m.small) && isnan(m.large))
		printf("  %8s %8s", "-", "-");
	else
		printf("  %7.1f%% %7.1f%%", 100 * m.small, 100 * m.large);
}

/* Return true if a table's medians are within its row of the limits. */
static bool
within(const char *limits, const struct table *t, struct medians m)
{
	char line[256], name[80];
	double small, large;
	bool found = false, good = true;
	FILE *f = fopen(limits, "r");

	if (!f)
		die(limits, strerror(errno));
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "%79s %lf %lf", name, &small, &large) == 3 &&
		    strcmp(name, t->m.name) == 0) {
			found = true;
			good = !(100 * m.small > small) && !(100 * m.large > large);
		}
	fclose(f);
	return found && good;
}

struct row {
	struct medians m[4];
	enum cluster_likeness like;
	double tenth
	    [2]
	    [9]; /* tenths of measured / predicted without it, below and from 16 MiB; NAN: no sizes */
};

/* The tenths of the ratios of one class of sizes. */
static void
tenths(const struct table *t, const struct cluster_fit *fit, bool large, double out[9])
{
	double v[MEASURED_MAX_POINTS];
	unsigned n = 0;

	for (unsigned k = 0; k < t->m.npoints; k++)
		if ((t->m.size[k] >= LARGE) == large)
			v[n++] = t->m.us[k] / predicted(t, t->m.size[k], fit);
	qsort(v, n, sizeof *v, by_value);
	for (unsigned i = 0; i < 9; i++)
		out[i] = n ? v[(i + 1) * (n - 1) / 10] : NAN;
}

static enum cluster_likeness
likeness(const struct table *t)
{
	struct cluster_ask ask = {
	    .coll = t->m.coll, .ngpus = t->m.ngpus, .nbytes = 1 << 30, .algo = -1, .proto = -1};
	struct cluster_answer a;

	if (cluster_predict(&t->c, &ask, &a, NULL) != RC_OK)
		die(t->m.name, "no prediction");
	return cluster_likeness(&t->c, t->m.ngpus, &a.choice);
}

/* The 10 % and 90 % of all tables of a kind but one. */
static struct cluster_bar
bar_without(const struct row *row, unsigned without, enum cluster_likeness like, bool large)
{
	double v[9 * MAX_TABLES];
	unsigned n = 0;

	for (unsigned i = 0; i < ntables; i++)
		for (unsigned k = 0; k < 9 && i != without && row[i].like == like; k++)
			if (!isnan(row[i].tenth[large][k]))
				v[n++] = row[i].tenth[large][k];
	qsort(v, n, sizeof *v, by_value);
	return n ? (struct cluster_bar){v[n / 10], v[n - 1 - n / 10]}
		 : (struct cluster_bar){NAN, NAN};
}

/* The number of a kind's tenths that are inside: of bars from the other tables alone, and of the
 * printed bars. False: fewer than 70 % of the latter. */
static bool
print_bars(const struct row *row)
{
	static const char *const names[CLUSTER_NLIKE] = {"inside a domain", "over NICs",
							 "exchanges over NICs", "no table like it"};
	unsigned all = 0, all_held = 0;

	printf("\n%-20s  %8s  %6s  %14s  %14s  %14s  %14s\n", "error bars", "size", "tables",
	       "10 % to 90 %", "held without it", "printed", "held");
	for (unsigned j = 0; j < 2 * CLUSTER_NLIKE; j++) {
		enum cluster_likeness like = j / 2;
		bool large = j % 2;
		struct cluster_bar of = bar_without(row, UINT32_MAX, like, large),
				   shown = cluster_error_bar(like, large ? 16u << 20 : 0);
		unsigned tables = 0, n = 0, out_held = 0, held = 0;

		for (unsigned i = 0; i < ntables; i++) {
			struct cluster_bar b = bar_without(row, i, like, large);

			if (row[i].like != like || isnan(row[i].tenth[large][0]))
				continue;
			tables++;
			for (unsigned k = 0; k < 9; k++) {
				double x = row[i].tenth[large][k];

				n++;
				out_held += x >= b.low && x <= b.high;
				held += x >= shown.low && x <= shown.high;
			}
		}
		all += n;
		all_held += held;
		printf("%-20s  %8s  %6u  %6.2f to %5.2f  %13.0f%%  %5.2f to %5.2f  %13.0f%%\n",
		       names[like], large ? ">= 16 M" : "< 16 MiB", tables, of.low, of.high,
		       100.0 * out_held / n, shown.low, shown.high, 100.0 * held / n);
	}
	printf("all: the printed bars hold %.0f%%\n", 100.0 * all_held / all);
	return all_held >= 0.7 * all;
}

static void
print_points(const struct table *t)
{
	for (unsigned k = 0; k < t->m.npoints; k++) {
		struct cluster_ask ask = {.coll = t->m.coll,
					  .ngpus = t->m.ngpus,
					  .nbytes = (uint64_t)t->m.size[k],
					  .algo = -1,
					  .proto = -1};
		struct cluster_answer a;
		struct err err;

		cluster_predict(&t->c, &ask, &a, &err);
		printf(
		    "  %12.0f %10.1f %10.1f %6.1f%%  %s %s ch %u = %.1f + %.1f + %.1f + %.1f  nccl "
		    "%.1f\n",
		    t->m.size[k], t->m.us[k], a.us, 100 * (a.us / t->m.us[k] - 1),
		    cluster_algo_name(a.choice.algo), cluster_proto_name(a.choice.proto),
		    a.choice.channels, a.launch_us, a.latency_us, a.bytes_us, a.fill_us,
		    a.choice.us);
	}
}

static void
print_medians(const char *what, const struct row *row, bool blind)
{
	double v[MAX_TABLES];

	printf("%-34s", what);
	for (int k = 0; k < 8; k++) {
		unsigned n = 0;

		for (unsigned i = 0; i < ntables; i++) {
			struct medians m = row[i].m[k / 2];
			double e = k % 2 ? m.large : m.small;

			if (table[i].blind == blind && !isnan(e))
				v[n++] = e;
		}
		printf(k % 2 ? " %7.1f%%" : "  %7.1f%%", 100 * median(v, n));
	}
	putchar('\n');
}

/* 1: a table is worse than its limit. */
static int
report(const char *limits, bool points)
{
	static struct row row[MAX_TABLES];
	int bad = 0, nblind = 0;

	printf("%-34s  %17s  %17s  %17s  %17s\n%-34s", "median |error| of time", "predicted",
	       "fitted without it", "neighbour's line", "NCCL's estimate", "");
	for (int k = 0; k < 4; k++)
		printf("  %8s %8s", "< 16 MiB", ">= 16");
	putchar('\n');
	for (unsigned i = 0; i < ntables; i++) {
		const struct table *t = &table[i];
		struct cluster_fit other = fitted(t);

		row[i] = (struct row){.m = {errors_predicted(t, &cluster_fit_default),
					    errors_predicted(t, &other), errors_line(t),
					    errors_nccl(t)}};
		row[i].like = likeness(t);
		tenths(t, &other, false, row[i].tenth[0]);
		tenths(t, &other, true, row[i].tenth[1]);
		printf("%-34.34s", t->m.name);
		for (int k = 0; k < 4; k++)
			print_pair(row[i].m[k]);
		if (t->blind)
			printf("  blind");
		nblind += t->blind;
		if (limits && !within(limits, t, row[i].m[0])) {
			printf("  WORSE");
			bad = 1;
		}
		putchar('\n');
		if (points)
			print_points(t);
	}
	print_medians("median over tables", row, false);
	if (nblind)
		print_medians("median over blind tables", row, true);
	if (!print_bars(row))
		bad = 1;
	return bad;
}

int
main(int argc, char **argv)
{
	const char *limits = NULL;
	bool fit = false, points = false;
	int opt;

	while ((opt = getopt(argc, argv, "fvl:")) != -1)
		if (opt == 'f')
			fit = true;
		else if (opt == 'v')
			points = true;
		else if (opt == 'l')
			limits = optarg;
		else
			return 2;
	if (optind + 1 != argc)
		die("usage", "validate [-f] [-v] [-l LIMITS] DIR");
	load_all(argv[optind]);
	if (fit)
		print_fit();
	return fit ? 0 : report(limits, points);
}
