/* Models in files, and the meaning of a net's last layer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tap.h"
#include "train/infer.h"

static struct err err;
static char path[] = "/tmp/t_infer.XXXXXX";

/* A task without samples: a net of a configuration for items of a shape, with names for its classes.
 */
static struct task
make_task(const struct train_config *c, struct net_shape input, uint32_t nclasses,
	  const char *const *names)
{
	struct task t = {.config = c};
	struct dataset *d = &t.data;

	if (net_build(&c->net, input, nclasses, &t.net, &err) != RC_OK) {
		printf("# %s\n", err.text);
		exit(1);
	}
	d->channels = input.channels;
	d->rows = input.rows;
	d->cols = input.cols;
	d->nclasses = nclasses;
	d->scale = calloc(input.channels, sizeof *d->scale);
	d->shift = calloc(input.channels, sizeof *d->shift);
	for (uint32_t k = 0; k < input.channels; k++) {
		d->scale[k] = 0.5f + (float)k;
		d->shift[k] = -1.0f - (float)k;
	}
	if (names)
		d->class_name = calloc(nclasses, sizeof *d->class_name);
	for (uint32_t k = 0; names && k < nclasses; k++)
		d->class_name[k] = strdup(names[k]);
	return t;
}

/* A model that is saved, and loaded by a configuration without a net, is the same. */
static void
round_trip(const struct train_config *c, struct net_shape input, uint32_t nclasses,
	   const char *const *names, const char *what)
{
	static const struct train_config none = {.eval = true};
	struct task t = make_task(c, input, nclasses, names);
	uint64_t n = task_values(&t);
	float *params = malloc(n * sizeof *params);
	struct model m = {0};
	bool known = false, good;
	char number[16];

	net_init(&t.net, 3, params);
	ok(model_save(path, &t, params, &err) == RC_OK, "%s: saved", what);
	good = model_load(path, &none, &known, &m, &err) == RC_OK && known;
	if (!good)
		printf("# %s\n", err.text);
	ok(good && memcmp(&m.task.net, &t.net, sizeof t.net) == 0, "%s: the same net", what);
	ok(good && memcmp(m.params, params, n * sizeof *params) == 0, "%s: the same weights", what);
	ok(good && m.task.data.channels == input.channels && m.task.data.nclasses == nclasses &&
	       m.task.data.scale[input.channels - 1] == t.data.scale[input.channels - 1] &&
	       m.task.data.shift[input.channels - 1] == t.data.shift[input.channels - 1],
	   "%s: the same input", what);
	ok(good && strcmp(model_class(&m, nclasses - 1, number),
			  names ? names[nclasses - 1] : number) == 0,
	   "%s: the same classes", what);
	model_fini(&m);
	task_fini(&t);
	free(params);
}

static void
test_round_trips(void)
{
	static const char *const names[] = {"Iris setosa", "Iris versicolor", "Iris virginica"};
	const struct train_config mlp = {
	    .net = {.nsizes = 4, .size = {0, 30, 20, 0}, .act = NET_SIGMOID, .loss = NET_L2}};
	const struct train_config softmax = {.net = {.model = NET_SOFTMAX}};
	const struct train_config lenet = {.net = {.model = NET_LENET}};
	const struct train_config resnet = {.net = {.model = NET_RESNET9}};

	round_trip(&mlp, (struct net_shape){4, 1, 1}, 3, names, "mlp");
	round_trip(&softmax, (struct net_shape){1, 2, 3}, 5, NULL, "softmax");
	round_trip(&lenet, (struct net_shape){1, 28, 28}, 10, NULL, "lenet");
	round_trip(&resnet, (struct net_shape){3, 8, 8}, 3, names, "resnet9");
}

/* A file of a softmax net of 2 values and 2 classes with another description. */
static enum rc
load_with(const char *about, bool *known)
{
	static const struct train_config none = {.eval = true};
	static const float weight[4], bias[2], ones[1] = {1}, zeros[1];
	const struct npz_array arrays[] = {
	    {"fc1.weight", NPZ_F32, 2, {2, 2}, weight},
	    {"fc1.bias", NPZ_F32, 1, {2}, bias},
	    {"input.scale", NPZ_F32, 1, {1}, ones},
	    {"input.shift", NPZ_F32, 1, {1}, zeros},
	    {"gpusim.net", NPZ_U8, 1, {about ? strlen(about) : 0}, about},
	};
	struct model m = {0};
	enum rc rc;

	err = (struct err){0};
	if (npz_write(path, arrays, about ? 5 : 4, &err) != RC_OK)
		exit(1);
	rc = model_load(path, &none, known, &m, &err);
	model_fini(&m);
	return rc;
}

static void
test_refusals(void)
{
	static const struct {
		const char *about, *want;
	} row[] = {
	    {"", "gpusim.net has no input or no classes"},
	    {"model softmax\ninput 1x1x2\n", "gpusim.net has no input or no classes"},
	    {"model softmax\ninput 1x0x2\nclasses 2\n", "has no input or no classes"},
	    {"model softmax", "gpusim.net is not text in lines"},
	    {"model\n", "gpusim.net: 'model' is not a name and a value"},
	    {"model vgg\n", "gpusim.net: model: 'vgg': must be one of"},
	    {"layer 3\n", "gpusim.net: unknown name 'layer'"},
	    {"model softmax\ninput 1x2\nclasses 2\n", "gpusim.net: input: '1x2' is not a shape"},
	    {"model softmax\ninput 1x-2x1\nclasses 2\n",
	     "gpusim.net: input: '1x-2x1' is not a shape"},
	    {"model softmax\ninput 1x99999999x1\n",
	     "gpusim.net: input: '1x99999999x1' is not a shape"},
	    {"model softmax\ninput 1x1x2\nitems u16\n",
	     "gpusim.net: items: 'u16': must be one of u8, f32"},
	    {"model softmax\ninput 1x1x2\nclasses 0\n", "classes: 0 is out of range (1 to 65536)"},
	    {"model softmax\ninput 1x1x2\nclasses 9999999\n",
	     "classes: 9999999 is out of range (1 to 65536)"},
	    {"model softmax\ninput 1x1x2\nclasses 3\n", "fc1.weight is [2, 2]"},
	    {"model lenet\ninput 1x28x28\nclasses 2\n", "array conv1.weight of lenet"},
	    {"model softmax\ninput 2x1x1\nclasses 2\n", "needs input.scale for 2 channels"},
	};
	bool known = true;

	ok(load_with("model softmax\ninput 1x1x2\nclasses 2\n", &known) == RC_OK && known,
	   "a text about a net");
	ok(load_with(NULL, &known) == RC_OK && !known, "a file that does not say what it is");
	for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
		if (!ok(load_with(row[i].about, &known) == RC_BADDATA &&
			    strncmp(err.text, path, strlen(path)) == 0 &&
			    strstr(err.text, row[i].want),
			"refused: %s", row[i].want))
			printf("# %s\n", err.text);
}

static void
test_answers(void)
{
	struct net cross = {.nclasses = 3, .loss = NET_CROSS_ENTROPY};
	struct net l2 = {.nclasses = 3, .loss = NET_L2};
	const float values[] = {1, 1000, 1000}, small[] = {-1, 0.25f, 0.75f}, none[] = {-1, -2, 0};
	double p[3];

	ok(infer_class(values, 3) == 1, "the first of the largest");
	infer_probabilities(&cross, values, p);
	ok(p[0] == 0 && p[1] == 0.5 && p[2] == 0.5, "softmax of large values");
	infer_probabilities(&cross, small, p);
	ok(fabs(p[0] + p[1] + p[2] - 1) < 1e-15 && fabs(p[2] / p[1] - exp(0.5)) < 1e-12,
	   "softmax of small values");
	infer_probabilities(&l2, small, p);
	ok(p[0] == 0 && p[1] == 0.25 && p[2] == 0.75, "of an L2 net");
	infer_probabilities(&l2, none, p);
	ok(p[0] == 1.0 / 3 && p[2] == 1.0 / 3, "of an L2 net that says nothing");
}

int
main(void)
{
	int fd = mkstemp(path);

	if (fd < 0)
		return 1;
	close(fd);
	test_round_trips();
	test_refusals();
	test_answers();
	unlink(path);
	return tap_done();
}
