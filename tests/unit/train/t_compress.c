/*
 * Two ranks by hand: steps of each method that sends less than all-reduce, against plain loops. Kernels run at
 * once, and collectives are loops.
 */
#include "train/compress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kern/kernel.h"
#include "mem/devmem.h"
#include "nn/rng.h"
#include "tap.h"

#define RANKS 2
#define MAX   64 /* parameters: mlp 6-5-3 has 53 */
#define LR    0.1

static struct devmem *mem;
static struct train_config config;
static struct task task;
static struct shape shape;
static struct replica replica[RANKS];
static struct gpusim_addr send[RANKS], recv[RANKS];
static uint64_t sent, ncollectives;
static struct rng rng;

static void
bail(const struct err *err)
{
	tap_bail(err->text);
}

static float *
at(uint64_t addr)
{
	return devmem_at(mem, addr, 0);
}

static void
launch(void *arg, uint32_t rank, const char *kernel, const struct gpusim_arg *args, size_t nargs)
{
	const struct kernel *k = kernel_find(kernel);
	struct kernel_arg given[KERNEL_MAX_PARAMS];
	union kernel_value v[KERNEL_MAX_PARAMS];
	uint64_t step[KERNEL_MAX_PARAMS];
	struct err err = {0};

	(void)arg;
	(void)rank;
	for (size_t i = 0; i < nargs; i++) {
		given[i] = (struct kernel_arg){.name = args[i].name, .is_real = args[i].is_real};
		if (args[i].is_real)
			given[i].value.f = args[i].f;
		else
			given[i].value.u = args[i].u;
	}
	if (!k || kernel_bind(k, given, nargs, v, step, &err) != RC_OK ||
	    kernel_run(k, mem, v, &err) != RC_OK)
		bail(&err);
}

static void
collective(void *arg, const struct gpusim_collective *c)
{
	uint64_t part = c->nelem / RANKS;

	(void)arg;
	sent += compress_sent(c, RANKS);
	ncollectives++;
	for (uint64_t i = 0; c->coll == GPUSIM_ALLREDUCE && i < c->nelem; i++)
		at(c->send[0].addr)[i] = at(c->send[1].addr)[i] =
		    at(c->send[0].addr)[i] + at(c->send[1].addr)[i];
	for (int r = 0; c->coll == GPUSIM_ALLGATHER && r < RANKS; r++)
		for (int q = 0; q < RANKS; q++)
			memcpy(at(c->recv[r].addr) + (uint64_t)q * part, at(c->send[q].addr),
			       part * 4);
	for (int r = 0; c->coll == GPUSIM_ALLTOALL && r < RANKS; r++)
		for (int q = 0; q < RANKS; q++)
			memcpy(at(c->recv[r].addr) + (uint64_t)q * part,
			       at(c->send[q].addr) + (uint64_t)r * part, part * 4);
}

static const struct emit_sink sink = {.launch = launch};

static struct compress_run
run_of(void)
{
	return (struct compress_run){.task = &task,
				     .replica = replica,
				     .nranks = RANKS,
				     .phase = compress_phase(&task, 4, 1000),
				     .sink = &sink,
				     .send = send,
				     .recv = recv,
				     .collective = collective};
}

static void
fill(float *x, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		x[i] = rng_uniform(&rng, -1, 1);
}

/* Lay out both ranks, with the same parameters; all else is 0. */
static void
begin(const char *what)
{
	static uint8_t image[1 << 16];
	struct replica offsets;
	struct err err = {0};
	uint64_t base, nbytes;

	printf("# %s\n", what);
	config.net = (struct net_config){.model = NET_MLP, .nsizes = 3, .size = {0, 5, 0}};
	config.lr = LR;
	config.seed = 3;
	task = (struct task){.config = &config, .data = {.channels = 1, .rows = 6, .cols = 1}};
	if (net_build(&config.net, (struct net_shape){1, 6, 1}, 3, &task.net, &err) != RC_OK)
		bail(&err);
	shape = (struct shape){.task = &task, .max_rows = 1, .max_ranks = RANKS, .train_steps = 4};
	nbytes = replica_bytes(&shape);
	rng_init(&rng, 11);
	memset(image, 0, sizeof image);
	fill((float *)(void *)image, task.net.nparams);
	sent = ncollectives = 0;
	for (int r = 0; r < RANKS; r++) {
		if (devmem_alloc(mem, nbytes, &base, &err) != RC_OK)
			bail(&err);
		memset(at(base), 0, nbytes);
		replica_place(&replica[r], &shape, (struct gpusim_device){0}, base);
	}
	offsets = replica[0];
	offsets.anchor -= offsets.anchor ? offsets.net.params : 0;
	offsets.q -= offsets.q ? offsets.net.params : 0;
	compress_begin(&task, &offsets, image);
	for (int r = 0; r < RANKS; r++)
		memcpy(at(replica[r].net.params), image, replica_shared_bytes(&replica[r]));
}

/* Both ranks take a step with random gradients, which go to g. */
static void
step(float g[RANKS][MAX])
{
	struct compress_run run = run_of();

	for (int r = 0; r < RANKS; r++) {
		fill(g[r], task.net.nparams);
		memcpy(at(replica[r].net.grads), g[r], task.net.nparams * 4);
	}
	compress_reduce(&run);
	for (uint32_t r = 0; r < RANKS; r++) {
		const struct batch b = {0};
		struct emit_optimizer o = replica_optimizer(&replica[r], &shape, &b);

		compress_optimizer(&task, &run.phase, &o);
		emit_update(&task.net, r, &replica[r].net, &o, &sink);
	}
}

static bool
near(const char *what, uint64_t addr, const double *want, uint64_t n, double tolerance)
{
	for (uint64_t i = 0; i < n; i++)
		if (!(fabs((double)at(addr)[i] - want[i]) <= tolerance)) {
			printf("# %s[%llu] is %.9g, not %.9g\n", what, (unsigned long long)i,
			       (double)at(addr)[i], want[i]);
			return false;
		}
	return true;
}

/* What all ranks have alike has the same bits. */
static bool
alike(void)
{
	return memcmp(at(replica[0].net.params), at(replica[1].net.params),
		      replica_shared_bytes(&replica[0])) == 0;
}

static void
widen(double *to, const float *from, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		to[i] = (double)from[i];
}

/* ---- powersgd, rank 1: the first weight is [5, 6], the second [3, 5], 8 biases */

static void
power_weight(double m[RANKS][MAX], double *q, uint64_t first, int rows, int cols, double *sum)
{
	double p[8] = {0}, norm = 0, new[8] = {0};

	for (int i = 0; i < rows; i++)
		for (int r = 0; r < RANKS; r++)
			for (int j = 0; j < cols; j++)
				p[i] += m[r][first + (uint64_t)(i * cols + j)] * q[j];
	for (int i = 0; i < rows; i++)
		norm += p[i] * p[i];
	for (int i = 0; i < rows; i++)
		for (int r = 0; r < RANKS; r++)
			for (int j = 0; j < cols; j++)
				new[j] +=
				    m[r][first + (uint64_t)(i * cols + j)] * p[i] / sqrt(norm);
	memcpy(q, new, (size_t)cols * sizeof *q);
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < cols; j++) {
			uint64_t k = first + (uint64_t)(i * cols + j);

			sum[k] = p[i] / sqrt(norm) * q[j];
			for (int r = 0; r < RANKS; r++)
				m[r][k] -= sum[k] / RANKS;
		}
}

static void
test_powersgd(void)
{
	float g[RANKS][MAX];
	double m[RANKS][MAX] = {{0}}, w[MAX], v[MAX] = {0}, q[2][8], sum[MAX];
	bool good = true;

	config = (struct train_config){.momentum = 0.9,
				       .compress = {.kind = COMPRESS_POWERSGD, .rank = 1}};
	begin("powersgd=1");
	widen(w, at(replica[0].net.params), 53);
	widen(q[0], at(replica[0].q), 6);
	widen(q[1], at(replica[0].q) + 6, 5);
	for (int s = 0; s < 5; s++) {
		step(g);
		memset(sum, 0, sizeof sum);
		for (int r = 0; r < RANKS; r++)
			for (int i = 0; i < 53; i++) {
				bool matrix = i < 30 || (i >= 35 && i < 50);

				m[r][i] = matrix ? m[r][i] + (double)g[r][i] : 0;
				sum[i] += matrix ? 0 : (double)g[r][i];
			}
		power_weight(m, q[0], 0, 5, 6, sum);
		power_weight(m, q[1], 35, 3, 5, sum);
		for (int i = 0; i < 53; i++) {
			v[i] = 0.9 * v[i] + sum[i];
			w[i] -= LR * v[i];
		}
		good = good && near("w", replica[0].net.params, w, 53, 1e-5) && alike();
		for (int r = 0; r < RANKS; r++)
			good = good && near("error", replica[r].error[0], m[r], 53, 1e-5);
	}
	ok(good, "five steps of two ranks: weights, errors, and the same bits on both");
	/* R (rows + cols) a weight, and 8 biases: 11 + 8 + 8 floats, all-reduced. */
	ok(sent == 5 * 2 * (11 + 8 + 8) * 4 && ncollectives == 10, "in two all-reduces of r(n+m)");
}

/* A sum of gradients of rank 2, of which rank 2 keeps all; ranks that do not pay are sent as they are. */
static void
test_powersgd_exact(void)
{
	struct compress_run run = run_of();
	double want[MAX] = {0};
	float a[RANKS][2][5], b[2][6];
	bool good;

	config = (struct train_config){.compress = {.kind = COMPRESS_POWERSGD, .rank = 2}};
	begin("powersgd=2");
	fill(&a[0][0][0], RANKS * 10);
	fill(&b[0][0], 12);
	for (int r = 0; r < RANKS; r++) {
		float *g = at(replica[r].net.grads);

		fill(g, 53);
		for (int i = 0; i < 30; i++)
			g[i] = a[r][0][i / 6] * b[0][i % 6] + a[r][1][i / 6] * b[1][i % 6];
		for (int i = 0; i < 53; i++)
			want[i] += (double)g[i];
	}
	run = run_of();
	compress_reduce(&run);
	good = near("g", replica[0].net.grads, want, 53, 1e-5);
	memset(want, 0, sizeof want);
	ok(good, "a sum of as small a rank is all-reduce's");
	ok(sent == 2 * (22 + 23) * 4, "what R would not make smaller is sent as it is");
	config.compress.rank = 5;
	begin("powersgd=5");
	memset(want, 0, sizeof want);
	for (int r = 0; r < RANKS; r++) {
		fill(at(replica[r].net.grads), 53);
		for (int i = 0; i < 53; i++)
			want[i] += (double)at(replica[r].net.grads)[i];
	}
	run = run_of();
	compress_reduce(&run);
	ok(near("g", replica[1].net.grads, want, 53, 1e-6) && sent == 2 * 53 * 4,
	   "full rank is all-reduce");
}

/* ---- topk */

/* Pieces: weights and biases. */
static const struct {
	int first, count;
} pieces[] = {{0, 30}, {30, 5}, {35, 15}, {50, 3}};

static bool
larger(const double *x, int i, int j)
{
	return fabs(x[i]) > fabs(x[j]) || (fabs(x[i]) == fabs(x[j]) && i < j);
}

static uint64_t
take_largest(double *v, double *u, int first, int count, double fraction, double *sum)
{
	int k = (int)ceil(fraction * count);
	double was[MAX];

	memcpy(was, v, sizeof was);
	for (int i = first; i < first + count; i++) {
		int rank = 0;

		for (int j = first; j < first + count; j++)
			rank += larger(was, j, i);
		if (rank >= k)
			continue;
		sum[i] += v[i];
		v[i] = 0;
		if (k < count)
			u[i] = 0;
	}
	return (uint64_t)k;
}

static void
test_topk(enum optimizer kind, double fraction, double decay)
{
	float g[RANKS][MAX];
	double u[RANKS][MAX] = {{0}}, v[RANKS][MAX] = {{0}}, w[MAX], plain[MAX], speed[MAX] = {0};
	uint64_t pairs = 0;
	bool good = true, momentum = true;

	config = (struct train_config){.momentum = 0.9,
				       .optimizer = kind,
				       .weight_decay = decay,
				       .compress = {.kind = COMPRESS_TOPK, .fraction = fraction}};
	begin("topk");
	widen(w, at(replica[0].net.params), 53);
	memcpy(plain, w, sizeof w);
	for (int s = 0; s < 6; s++) {
		double sum[MAX] = {0};

		step(g);
		for (int r = 0; r < RANKS; r++)
			for (int i = 0; i < 53; i++) {
				double d = (double)g[r][i] + decay * w[i] / RANKS;

				u[r][i] = 0.9 * u[r][i] + d;
				v[r][i] += kind == OPTIMIZER_NESTEROV ? d + 0.9 * u[r][i] : u[r][i];
			}
		pairs = 0;
		for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++)
			for (int r = 0; r < RANKS; r++)
				pairs += take_largest(v[r], u[r], pieces[p].first, pieces[p].count,
						      fraction, sum);
		for (int i = 0; i < 53; i++) {
			double d = (double)g[0][i] + (double)g[1][i] + decay * plain[i];

			w[i] -= LR * sum[i];
			speed[i] = 0.9 * speed[i] + d;
			plain[i] -=
			    LR * (kind == OPTIMIZER_NESTEROV ? d + 0.9 * speed[i] : speed[i]);
		}
		good = good && near("w", replica[0].net.params, w, 53, 1e-5) && alike();
		momentum = momentum && near("plain", replica[0].net.params, plain, 53, 1e-5);
		for (int r = 0; r < RANKS; r++)
			good = good && near("v", replica[r].error[0], v[r], 53, 1e-5) &&
			       near("u", replica[r].state[0], u[r], 53, 1e-5);
	}
	ok(good,
	   "topk=%g: six steps of two ranks: weights, what is not sent, the same bits on both",
	   fraction);
	if (fraction >= 1)
		ok(momentum, "topk=1 is SGD with momentum on the sum");
	ok(sent == 6 * pairs * 8 && ncollectives == 6, "in an all-gather of 8 bytes a pair");
}

static void
test_fractions(void)
{
	static const double want[] = {0.25, 0.0625, 0.015625, 0.00390625, 0.001};
	struct compress_phase p;
	bool good = true;

	config.compress = (struct compress_how){.kind = COMPRESS_TOPK, .fraction = 0.001};
	for (uint64_t s = 0; s < 60; s++) {
		p = compress_phase(&task, 10, s);
		good = good && p.fraction == want[s < 40 ? s / 10 : 4] && !p.dense &&
		       p.end == (s < 40 ? (s / 10 + 1) * 10 : UINT64_MAX);
	}
	ok(good, "topk: the fraction falls over four epochs");
	config.compress_warmup = 3;
	for (uint64_t s = 0; s < 6; s++) {
		p = compress_phase(&task, 10, s);
		good = good && p.end > s && p.fraction == want[s < 3 ? s * 4 / 3 : 4];
	}
	config.compress.fraction = 0.1;
	ok(good && compress_phase(&task, 10, 2).fraction == 0.1, "or other steps; never below F");
	config.compress.kind = COMPRESS_ONEBIT;
	p = compress_phase(&task, 10, 2);
	good = p.dense && p.end == 3;
	p = compress_phase(&task, 10, 3);
	ok(good && !p.dense && p.begin == 3 && p.end == UINT64_MAX, "onebit: dense, then not");
}

/* ---- onebit: chunks of 32 elements and 21 */

static double
sign_part(double *c, const double *second, int first, int count, double *out)
{
	double squares = 0, n = 0, scale;

	for (int i = first; i < first + count; i++)
		if (second[i] > 0) {
			squares += c[i] * c[i];
			n++;
		}
	scale = sqrt(squares / n);
	for (int i = first; i < first + count; i++) {
		out[i] = second[i] > 0 ? copysign(scale, c[i]) : 0;
		c[i] -= out[i];
	}
	return scale;
}

static void
test_onebit(enum optimizer kind)
{
	float g[RANKS][MAX];
	double error[RANKS][MAX] = {{0}}, server[MAX] = {0}, m[MAX], second[MAX], w[MAX];
	double decay = 0.1, root;
	bool good = true;

	config = (struct train_config){.optimizer = kind,
				       .weight_decay = decay,
				       .compress_warmup = 20,
				       .compress = {.kind = COMPRESS_ONEBIT}};
	begin("onebit");
	for (int r = 0; r < RANKS; r++) {
		memcpy(at(replica[r].state[0]), at(replica[0].net.params), 53 * 4);
		for (int i = 0; i < 53; i++) {
			at(replica[r].state[1])[i] = i % 7 ? (float)(i + 1) / 50 : 0;
			if (i % 7 == 0)
				at(replica[r].state[0])[i] = 0;
		}
		*(uint64_t *)(void *)at(replica[r].adam_step) = 20;
	}
	widen(w, at(replica[0].net.params), 53);
	widen(m, at(replica[0].state[0]), 53);
	widen(second, at(replica[0].state[1]), 53);
	root = sqrt(1 - pow(0.999, 20));
	for (int s = 0; s < 5; s++) {
		double mean[MAX] = {0}, out[MAX];

		step(g);
		for (int r = 0; r < RANKS; r++) {
			for (int i = 0; i < 53; i++) {
				double d = (double)g[r][i];

				d += kind == OPTIMIZER_ADAM ? decay * w[i] / RANKS : 0;
				error[r][i] += second[i] > 0 ? 0.9 * m[i] + 0.1 * RANKS * d : 0;
			}
			sign_part(error[r], second, 0, 32, out);
			sign_part(error[r], second, 32, 21, out);
			for (int i = 0; i < 53; i++)
				mean[i] += out[i] / RANKS;
		}
		for (int i = 0; i < 53; i++)
			server[i] += mean[i];
		sign_part(server, second, 0, 32, m);
		sign_part(server, second, 32, 21, m);
		for (int i = 0; i < 53; i++) {
			w[i] *= kind == OPTIMIZER_ADAMW ? 1 - LR * decay : 1;
			w[i] -=
			    LR * m[i] / (1 - pow(0.9, 21 + s)) / (sqrt(second[i]) / root + 1e-8);
		}
		good = good && near("m", replica[0].state[0], m, 53, 1e-5) &&
		       near("w", replica[0].net.params, w, 53, 1e-4) && alike();
		for (int r = 0; r < RANKS; r++)
			good = good && near("error", replica[r].error[0], error[r], 53, 1e-5) &&
			       near("server", replica[r].error[1] + (uint64_t)r * 128,
				    server + r * 32, r ? 21 : 32, 1e-5);
	}
	ok(good, "onebit: five steps of two ranks: weights, momentum, both errors, the same bits");
	/* To and from the chunk's owner: a bit an element, and the scale, of each of two parts. */
	ok(sent == 5 * 2 * 2 * (32 / 8 + 4) && ncollectives == 10, "in a bit an element, twice");
}

/* ---- DiLoCo */

static void
test_outer(void)
{
	double anchor[MAX], speed[MAX] = {0};
	bool good = true;

	config = (struct train_config){
	    .sync = SYNC_LOCAL, .outer = OUTER_NESTEROV, .outer_lr = 0.7, .outer_momentum = 0.9};
	begin("outer");
	widen(anchor, at(replica[0].net.params), 53);
	for (int s = 0; s < 4; s++) {
		struct compress_run run = run_of();
		double change[MAX] = {0};

		for (int r = 0; r < RANKS; r++)
			for (int i = 0; i < 53; i++) {
				float *p = at(replica[r].net.params) + i;

				*p += rng_uniform(&rng, -1, 1);
				change[i] += (anchor[i] - (double)*p) / RANKS;
			}
		compress_outer(&run);
		for (int i = 0; i < 53; i++) {
			speed[i] = 0.9 * speed[i] + change[i];
			anchor[i] -= 0.7 * (change[i] + 0.9 * speed[i]);
		}
		good = good && near("w", replica[0].net.params, anchor, 53, 1e-5) && alike();
	}
	ok(good, "DiLoCo: four outer steps of two ranks, with Nesterov's momentum");
	ok(sent == 4 * 2 * 53 * 4, "an all-reduce of the weights for each");
}

int
main(void)
{
	char path[] = "/tmp/t_compress.XXXXXX";
	int fd = mkstemp(path);
	struct err err = {0};

	if (fd < 0)
		tap_bail("/tmp");
	close(fd);
	unlink(path);
	if (devmem_open(path, 1, 1 << 20, &mem, &err) != RC_OK)
		bail(&err);
	unlink(path);
	test_powersgd();
	test_powersgd_exact();
	test_topk(OPTIMIZER_SGD, 0.2, 0);
	test_topk(OPTIMIZER_NESTEROV, 0.3, 0.01);
	test_topk(OPTIMIZER_SGD, 1, 0.01);
	test_topk(OPTIMIZER_NESTEROV, 1, 0);
	test_fractions();
	test_onebit(OPTIMIZER_ADAM);
	test_onebit(OPTIMIZER_ADAMW);
	test_outer();
	devmem_close(mem, DEVMEM_UNLINK_FILE);
	return tap_done();
}
