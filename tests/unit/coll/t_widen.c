/*
 * The errors of sums of short floats: every algorithm's plans run by one thread, with the arithmetic of
 * the device, on random vectors of up to 32 ranks.
 *
 * One rounding of an exact sum has an error of at most half a unit in the last place, and about 0.3 of one in the
 * mean square. Partial sums in f32 add next to nothing to that; partial sums in the type add a rounding for
 * each rank.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "coll/plan.h"
#include "coll/shape.h"
#include "mem/dtype.h"
#include "mem/number.h"
#include "mem/redop.h"
#include "mem/reduce.h"
#include "tap.h"

#define RANKS_MAX 32
#define NELEM	  4000

struct chunk {
	struct chunk *next;
	size_t nbytes;
	unsigned char data[];
};

struct rank {
	struct plan plan;
	size_t pc;
	unsigned char *base[PLAN_NBUFS];
};

struct world {
	struct plan_args a;
	enum gpusim_dtype t;
	enum gpusim_redop redop;
	struct rank rank[RANKS_MAX];
	struct chunk *head[RANKS_MAX][RANKS_MAX], **tail[RANKS_MAX][RANKS_MAX];
};

static uint64_t seed = 88172645463325252ull;

static size_t
size_in(const struct world *w, uint8_t buf)
{
	return buf == PLAN_WIDE ? sizeof(float) : dtype_size(w->t);
}

static unsigned char *
at(const struct world *w, const struct rank *k, uint8_t buf, uint64_t off)
{
	return k->base[buf] + off * size_in(w, buf);
}

static void
post(struct world *w, uint32_t r, const struct plan_step *s)
{
	size_t nbytes = s->count * size_in(w, s->src);
	struct chunk *c = malloc(sizeof *c + nbytes);

	c->next = NULL;
	c->nbytes = nbytes;
	memcpy(c->data, at(w, &w->rank[r], s->src, s->src_off), nbytes);
	if (!w->head[r][s->peer])
		w->tail[r][s->peer] = &w->head[r][s->peer];
	*w->tail[r][s->peer] = c;
	w->tail[r][s->peer] = &c->next;
}

/* A step as in lib/device/dev/collective.c; false: its chunk has not arrived. */
static bool
step(struct world *w, uint32_t r, const struct plan_step *s)
{
	struct rank *k = &w->rank[r];
	void *dst = k->base[s->dst] ? at(w, k, s->dst, s->dst_off) : NULL;
	void *src = k->base[s->src] ? at(w, k, s->src, s->src_off) : NULL;
	bool receives = s->kind == STEP_RECV || s->kind == STEP_RECV_REDUCE;
	struct chunk *c = receives ? w->head[s->peer][r] : NULL;

	if (receives && !c)
		return false;
	if (s->kind == STEP_SEND)
		post(w, r, s);
	else if (s->kind == STEP_RECV)
		memcpy(dst, c->data, c->nbytes);
	else if (s->kind == STEP_RECV_REDUCE && s->last)
		reduce_last(w->t, w->redop, dst, src, s->src == PLAN_WIDE, c->data,
			    c->nbytes == s->count * sizeof(float), s->count, w->a.nranks);
	else if (s->kind == STEP_RECV_REDUCE && w->a.wide)
		reduce_wide(w->t, w->redop, dst, src, s->src == PLAN_WIDE, c->data,
			    c->nbytes == s->count * sizeof(float), s->count);
	else if (s->kind == STEP_RECV_REDUCE)
		reduce_apply(w->t, w->redop, dst, src, c->data, s->count);
	else if (s->kind == STEP_COPY)
		memmove(dst, src, s->count * dtype_size(w->t));
	else
		reduce_finish(w->t, w->redop, dst, s->count, w->a.nranks);
	if (c) {
		w->head[s->peer][r] = c->next;
		free(c);
	}
	return true;
}

static bool
run(struct world *w)
{
	bool moved = true, done = true;

	while (moved) {
		moved = false;
		for (uint32_t r = 0; r < w->a.nranks; r++) {
			struct rank *k = &w->rank[r];

			while (k->pc < k->plan.nstep && step(w, r, &k->plan.step[k->pc])) {
				k->pc++;
				moved = true;
			}
		}
	}
	for (uint32_t r = 0; r < w->a.nranks; r++)
		done = done && w->rank[r].pc == w->rank[r].plan.nstep;
	return done;
}

/* Errors in units in the last place: root mean square, and maximum. */
struct error {
	double rms, max;
	size_t infinite;
};

/* In (0.5, 1), times 2^x, or of either sign. */
static double
draw(double scale)
{
	double v = ((double)(xorshift_star(&seed) >> 11) + 1) * 0x1p-54 + 0.5;

	return v * scale;
}

/* The distance of neighbours at x. */
static double
ulp(enum gpusim_dtype t, double x)
{
	static const int digits[GPUSIM_NDTYPES] = {
	    [GPUSIM_F16] = 11, [GPUSIM_BF16] = 8, [GPUSIM_F8E4M3] = 4, [GPUSIM_F8E5M2] = 3};
	int exp;

	frexp(x, &exp);
	return ldexp(1, exp - digits[t]);
}

static void
look(const struct world *w, uint32_t r, const double *want, struct error *e)
{
	struct shape s = shape_of(w->a.coll, NELEM, w->a.nranks, 0, r);
	size_t size = dtype_size(w->t);

	for (uint64_t i = 0; i < s.out; i++) {
		double got = number_get(w->t, w->rank[r].base[PLAN_OUT] + i * size).real;
		double exact = want[w->a.coll == GPUSIM_REDUCESCATTER ? s.out_at + i : i];
		double off = fabs(got - exact) / ulp(w->t, exact);

		e->infinite += !isfinite(got);
		e->rms += off * off / NELEM / (w->a.coll == GPUSIM_ALLREDUCE ? w->a.nranks : 1);
		if (e->max < off)
			e->max = off;
	}
}

/* Run the algorithm on vectors of numbers in (0.5, 1) times scale. */
static struct error
measure(const struct plan_algo *algo, uint32_t n, enum gpusim_dtype t, enum gpusim_redop redop,
	double scale, bool wide)
{
	static struct world w;
	static double want[NELEM];
	size_t size = dtype_size(t);
	struct error e = {0, 0, 0};
	bool good;

	memset(&w, 0, sizeof w);
	memset(want, 0, sizeof want);
	w.a = (struct plan_args){
	    .coll = algo->coll, .nranks = n, .nelem = NELEM, .chunk = 1000, .wide = wide};
	w.t = t;
	w.redop = redop;
	for (uint32_t r = 0; r < n; r++) {
		struct rank *k = &w.rank[r];

		w.a.rank = r;
		plan_build(&w.a, algo->name, &k->plan, NULL);
		k->base[PLAN_IN] = calloc(NELEM, size);
		k->base[PLAN_OUT] = calloc(NELEM, size);
		k->base[PLAN_TMP] = calloc(k->plan.ntmp + 1, size);
		k->base[PLAN_WIDE] = calloc(k->plan.nwide + 1, sizeof(float));
		for (size_t i = 0; i < NELEM; i++) {
			number_put(t, k->base[PLAN_IN] + i * size,
				   (union number){.real = draw(scale)});
			want[i] += number_get(t, k->base[PLAN_IN] + i * size).real /
				   (redop == GPUSIM_AVG ? n : 1);
		}
	}
	good = run(&w);
	for (uint32_t r = 0; r < n; r++) {
		look(&w, r, want, &e);
		plan_fini(&w.rank[r].plan);
		for (int b = 0; b < PLAN_NBUFS; b++)
			free(w.rank[r].base[b]);
	}
	e.rms = good ? sqrt(e.rms) : INFINITY;
	return e;
}

/* One rounding, plus the error of 32 additions in f32. */
static bool
rounds_once(const struct error *e)
{
	return e->rms < 0.37 && e->max < 0.502 && !e->infinite;
}

static void
test_algo(const struct plan_algo *algo)
{
	static const enum gpusim_dtype types[] = {GPUSIM_F16, GPUSIM_BF16, GPUSIM_F8E4M3,
						  GPUSIM_F8E5M2};
	struct error worst = {0, 0, 0}, narrow = {0, 0, 0};

	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		for (uint32_t n = 2; n <= RANKS_MAX; n = n < 9 ? n + 1 : 2 * n - 2) {
			struct error e = measure(algo, n, types[i], GPUSIM_SUM, 1, true);

			if (!rounds_once(&e))
				printf("# %s, %u ranks: rms %.3f, max %.3f\n", dtype_name(types[i]),
				       n, e.rms, e.max);
			worst.rms = fmax(worst.rms, e.rms);
			worst.max = fmax(worst.max, e.max);
		}
	ok(rounds_once(&worst), "%s %s: sums of 2 to 30 ranks round once (rms %.3f ulp, max %.3f)",
	   coll_name(algo->coll), algo->name, worst.rms, worst.max);
	narrow = measure(algo, 30, GPUSIM_BF16, GPUSIM_SUM, 1, false);
	ok(narrow.rms > 0.43 && narrow.max > 1,
	   "as partial sums in bf16 would not (rms %.3f ulp, max %.3f)", narrow.rms, narrow.max);
}

/* The mean of large numbers is finite; their sum is not. */
static void
test_mean(const struct plan_algo *algo)
{
	struct error half = measure(algo, 7, GPUSIM_F16, GPUSIM_AVG, 65504, true);
	struct error e4m3 = measure(algo, 7, GPUSIM_F8E4M3, GPUSIM_AVG, 448, true);
	struct error e5m2 = measure(algo, 8, GPUSIM_F8E5M2, GPUSIM_AVG, 57344, true);

	ok(rounds_once(&half) && rounds_once(&e4m3) && rounds_once(&e5m2),
	   "%s %s: a mean that fits does not overflow in its partial sums", coll_name(algo->coll),
	   algo->name);
}

int
main(void)
{
	for (const struct plan_algo *a = plan_algos; a->name; a++) {
		if (!coll_reduces(a->coll) || plan_algo_mapped(a))
			continue;
		test_algo(a);
		test_mean(a);
	}
	return tap_done();
}
