/*
 * Ranks in threads, whose kernels run at once and whose sums are made under a barrier: several
 * ranks learn the same as one with the same global batch.
 */
#include "train/rank.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kern/blas.h"
#include "kern/kernel.h"
#include "mem/devmem.h"
#include "nn/augment.h"
#include "nn/rng.h"
#include "tap.h"

#define MEM_BYTES  (UINT64_C(1) << 30)
#define MAX_RANKS  3
#define MAX_EPOCHS 3

static struct devmem *mem;
static pthread_barrier_t all;
static void *part[MAX_RANKS]; /* of a sum, by rank */

struct member {
	struct rank_world world;
	const struct task *task;
	struct epoch epoch[MAX_EPOCHS];
	float *weights;
};

/* Print the reason and exit, as an aborted job would. */
static void
bail(const struct err *err)
{
	printf("Bail out! %s\n", err->text);
	exit(1);
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
	for (size_t i = 0; i < nargs; i++) {
		given[i] = (struct kernel_arg){.name = args[i].name, .is_real = args[i].is_real};
		if (args[i].is_real)
			given[i].value.f = args[i].f;
		else
			given[i].value.u = args[i].u;
	}
	if (rank != 0 || !k || kernel_bind(k, given, nargs, v, step, &err) != RC_OK ||
	    kernel_run(k, mem, v, &err) != RC_OK)
		bail(&err);
}

/* Rank 0 adds up, in the order of ranks, and all others copy. */
static void
add_up(struct member *m, enum gpusim_dtype type, void *v, size_t n)
{
	size_t size = type == GPUSIM_F32 ? sizeof(float) : sizeof(double);

	part[m->world.rank] = v;
	pthread_barrier_wait(&all);
	for (uint32_t r = 1; m->world.rank == 0 && r < m->world.nranks; r++)
		for (size_t i = 0; i < n; i++)
			if (type == GPUSIM_F32)
				((float *)v)[i] += ((const float *)part[r])[i];
			else if (type == GPUSIM_I64)
				((int64_t *)v)[i] += ((const int64_t *)part[r])[i];
			else
				((double *)v)[i] += ((const double *)part[r])[i];
	pthread_barrier_wait(&all);
	if (m->world.rank != 0)
		memcpy(v, part[0], n * size);
	pthread_barrier_wait(&all);
}

static void
allreduce(void *arg, enum gpusim_dtype type, uint64_t nelem, const uint64_t *addr)
{
	add_up(arg, type, devmem_at(mem, *addr, 0), nelem);
}

static void
sum(void *arg, double *v, size_t n)
{
	add_up(arg, GPUSIM_F64, v, n);
}

static void *
live(void *arg)
{
	struct member *m = arg;
	struct rank *r = NULL;
	struct err err = {0};

	if (rank_new(m->task, &m->world, &r, &err) != RC_OK)
		bail(&err);
	for (uint32_t k = 0; k < m->task->config->epochs; k++) {
		rank_train(r, &m->epoch[k]);
		rank_test(r, &m->epoch[k]);
	}
	memcpy(m->weights, rank_weights(r), task_values(m->task) * sizeof *m->weights);
	rank_free(r);
	return NULL;
}

/* Train on some ranks with the same global batch as one rank. */
static void
train(const struct task *task, uint32_t nranks, struct member *m)
{
	struct train_config config = *task->config;
	struct task mine = *task;
	pthread_t thread[MAX_RANKS];
	struct err err = {0};

	config.batch /= nranks;
	mine.config = &config;
	pthread_barrier_init(&all, NULL, nranks);
	for (uint32_t r = 0; r < nranks; r++) {
		m[r] = (struct member){.world = {.rank = r, .nranks = nranks, .sum = sum},
				       .task = &mine};
		m[r].world.sink =
		    (struct emit_sink){.arg = &m[r], .launch = launch, .allreduce = allreduce};
		m[r].weights = calloc(task_values(task), sizeof *m[r].weights);
		if (!m[r].weights ||
		    devmem_alloc(mem, rank_bytes(&mine, nranks), &m[r].world.base, &err) != RC_OK)
			bail(&err);
		m[r].world.memory = devmem_at(mem, m[r].world.base, rank_bytes(&mine, nranks));
		memset(m[r].world.memory, 0x5a, rank_bytes(&mine, nranks));
	}
	for (uint32_t r = 0; r < nranks; r++)
		if (pthread_create(&thread[r], NULL, live, &m[r]) != 0)
			bail(&err);
	for (uint32_t r = 0; r < nranks; r++)
		pthread_join(thread[r], NULL);
	for (uint32_t r = 0; r < nranks; r++)
		devmem_free(mem, m[r].world.base, &err);
	pthread_barrier_destroy(&all);
}

static void
forget(struct member *m, uint32_t nranks)
{
	for (uint32_t r = 0; r < nranks; r++)
		free(m[r].weights);
}

static struct dataset_part
make_part(struct rng *rng, uint32_t n, uint64_t item, uint32_t nclasses)
{
	struct dataset_part p = {.nitems = n};
	uint8_t *items = calloc(n + 1, item);

	p.items = items;
	p.labels = calloc(n + 1, 1);
	if (!items || !p.labels)
		exit(1);
	for (uint32_t i = 0; i < n; i++) {
		p.labels[i] = (uint8_t)(i % nclasses);
		/* Noise, and a stripe that shows the class. */
		for (uint64_t k = 0; k < item; k++)
			items[i * item + k] = (uint8_t)(rng_below(rng, 100) +
							(k % nclasses == p.labels[i] ? 150 : 0));
	}
	return p;
}

/* Images of a task; two channels that are scaled apart when there are two. */
static void
make_task(struct task *t, const struct train_config *config, uint32_t channels, uint32_t side,
	  uint32_t ntrain, uint32_t ntest)
{
	const struct net_shape shape = {channels, side, side};
	struct err err = {0};
	struct rng rng;

	rng_init(&rng, 5);
	*t = (struct task){.config = config,
			   .data = {.channels = channels,
				    .rows = side,
				    .cols = side,
				    .dtype = GPUSIM_U8,
				    .nclasses = 3,
				    .scale = calloc(channels, sizeof(float)),
				    .shift = calloc(channels, sizeof(float))}};
	for (uint32_t c = 0; c < channels; c++)
		t->data.scale[c] = 1.0f / (float)(100 + c);
	t->data.train = make_part(&rng, ntrain, net_shape_size(shape), 3);
	t->data.test = make_part(&rng, ntest, net_shape_size(shape), 3);
	t->data.validation = make_part(&rng, ntest / 2, net_shape_size(shape), 3);
	if (net_build(&config->net, shape, 3, &t->net, &err) != RC_OK)
		bail(&err);
}

static double
distance(const struct member *a, const struct member *b)
{
	uint64_t n = task_values(a->task);
	double most = 0;

	for (uint64_t i = 0; i < n; i++)
		most = fmax(most, fabs((double)a->weights[i] - (double)b->weights[i]));
	return most;
}

/* The members' tasks have been freed: `task` replaces them. */
static bool
same(const struct task *task, struct member *a, struct member *b, double tolerance)
{
	bool good = true;

	a->task = b->task = task;
	for (uint32_t k = 0; k < task->config->epochs; k++) {
		const struct epoch *x = &a->epoch[k], *y = &b->epoch[k];

		if (fabs(x->loss - y->loss) <= tolerance * fabs(x->loss) &&
		    x->accuracy == y->accuracy &&
		    (x->validation == y->validation ||
		     (isnan(x->validation) && isnan(y->validation))))
			continue;
		printf("# epoch %u: loss %.9g and %.9g, accuracy %g and %g\n", k + 1, x->loss,
		       y->loss, x->accuracy, y->accuracy);
		good = false;
	}
	if (distance(a, b) > tolerance) {
		printf("# weights differ by %g\n", distance(a, b));
		good = false;
	}
	return good;
}

static struct train_config
usual(enum net_model model)
{
	return (struct train_config){.net = {.model = model, .act = NET_RELU},
				     .epochs = 3,
				     .batch = 12,
				     .lr = 0.1,
				     .momentum = 0.9,
				     .seed = 3};
}

static void
test_ranks(void)
{
	struct train_config config = usual(NET_MLP);
	struct member one[1], several[MAX_RANKS];
	struct task task;

	/* Neither samples, batches nor tests are multiples of the ranks. */
	make_task(&task, &config, 1, 6, 103, 41);
	train(&task, 1, one);
	ok(one->epoch[2].accuracy > 0.9 && one->epoch[2].loss < one->epoch[0].loss / 2 &&
	       one->epoch[2].validation > 0.9 && one->epoch[0].images_per_s > 0,
	   "a rank learns");
	for (uint32_t n = 2; n <= 3; n++) {
		train(&task, n, several);
		ok(same(&task, one, &several[0], 1e-4), "%u ranks learn what one does", n);
		ok(distance(&several[0], &several[n - 1]) == 0, "and all have the same weights");
		forget(several, n);
	}
	config.bucket_bytes = 1;
	train(&task, 2, several);
	ok(same(&task, one, &several[1], 1e-4), "with a bucket for each layer, too");
	forget(several, 2);
	forget(one, 1);
	task_fini(&task);
}

static void
test_options(void)
{
	struct train_config config = usual(NET_SOFTMAX);
	struct member one[1], two[2], other[1];
	struct task task;

	config.optimizer = OPTIMIZER_ADAMW;
	config.lr = 0.01;
	config.schedule = (struct lr_schedule){.kind = LR_ONE_CYCLE};
	make_task(&task, &config, 2, 5, 50, 1);
	task.data.validation.nitems = 0;
	train(&task, 1, one);
	train(&task, 2, two);
	ok(same(&task, one, &two[0], 1e-4) && isnan(one->epoch[0].validation),
	   "adamw, one cycle, channels of their own scale; nothing to validate with");
	config.schedule.kind = LR_CONSTANT;
	train(&task, 1, other);
	other->task = one->task = &task;
	ok(distance(one, other) > 1e-4, "a schedule makes a difference");
	forget(other, 1);
	config.seed = 4;
	train(&task, 1, other);
	other->task = &task;
	ok(distance(one, other) > 1e-3, "and so does a seed");
	forget(other, 1);
	forget(one, 1);
	forget(two, 2);
	task_fini(&task);
}

/* Batch norm covers all ranks' rows together. */
static void
test_batchnorm(void)
{
	struct train_config config = usual(NET_RESNET9);
	struct member one[1], two[2];
	struct task task;

	config.epochs = 1;
	config.batch = 4;
	config.lr = 0.001;
	make_task(&task, &config, 1, 16, 7, 4);
	train(&task, 1, one);
	train(&task, 2, two);
	ok(same(&task, one, &two[0], 1e-3), "batch norm sums over the ranks");
	forget(one, 1);
	forget(two, 2);
	task_fini(&task);
}

/* Do 1, 2 and 3 ranks learn the same bits in a deterministic training? */
static bool
repeats(const struct train_config *config, uint32_t side, uint32_t ntrain, uint32_t ntest)
{
	struct member one[1], several[MAX_RANKS];
	struct task task;
	bool good = true;

	make_task(&task, config, 2, side, ntrain, ntest);
	train(&task, 1, one);
	for (uint32_t n = 2; n <= 3; n++) {
		train(&task, n, several);
		for (uint32_t r = 0; r < n; r++)
			good = good && same(&task, one, &several[r], 0);
		forget(several, n);
	}
	forget(one, 1);
	task_fini(&task);
	return good;
}

/* Neither samples, batches nor tests are multiples of leaves; there are fewer leaves than ranks at
 * the end. */
static void
test_deterministic(void)
{
	struct train_config config = usual(NET_MLP);

	config.deterministic = true;
	config.leaf = 4;
	config.global_batch = 22;
	ok(repeats(&config, 6, 103, 41),
	   "deterministic: an mlp has the same bits on 1, 2 and 3 ranks");
	config.optimizer = OPTIMIZER_ADAMW;
	config.net.layer_norm = true;
	config.augment = AUGMENT_CROP | AUGMENT_FLIP;
	config.schedule.kind = LR_ONE_CYCLE;
	config.lr = 0.01;
	ok(repeats(&config, 6, 103, 41), "layer norm, adamw, augmentation, one cycle");
	config = usual(NET_LENET);
	config.deterministic = true;
	config.leaf = 16;
	config.global_batch = 40;
	config.epochs = 1;
	ok(repeats(&config, 28, 60, 17), "lenet");
	config.net.model = NET_RESNET9;
	config.leaf = 2;
	config.global_batch = 7;
	config.lr = 0.001;
	ok(repeats(&config, 8, 8, 3), "resnet9: batch norm by leaves");
	config.net = (struct net_config){.model = NET_VIT, .vit = {2, 16, 2, 4}};
	config.optimizer = OPTIMIZER_ADAMW;
	ok(repeats(&config, 8, 20, 3), "vit");
}

int
main(void)
{
	char path[] = "/tmp/t_rank.XXXXXX";
	struct err err = {0};
	int fd = mkstemp(path);

	blas_set_threads(1);
	if (fd < 0)
		bail(&err);
	close(fd);
	unlink(path);
	if (devmem_open(path, 1, MEM_BYTES, &mem, &err) != RC_OK)
		bail(&err);
	unlink(path);
	test_ranks();
	test_options();
	test_batchnorm();
	test_deterministic();
	devmem_close(mem, DEVMEM_PERSIST_FILE);
	return tap_done();
}
