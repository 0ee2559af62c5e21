/* The shapes of nets, their parameters, buckets, names and files. */
#include "nn/net.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tap.h"

static const struct net_shape digits = {1, 28, 28}, colours = {3, 32, 32};

static struct net
build(const struct net_config *c, struct net_shape input, uint32_t nclasses)
{
	struct net n = {.nnodes = 0};
	struct err err = {0};

	if (net_build(c, input, nclasses, &n, &err) != RC_OK)
		printf("# %s\n", err.text);
	return n;
}

static struct net
mlp(const char *sizes)
{
	struct net_config c = {.act = NET_RELU};
	struct err err = {0};

	if (net_sizes_parse(sizes, &c, &err) != RC_OK)
		printf("# %s: %s\n", sizes, err.text);
	return build(&c, (struct net_shape){c.size[0], 1, 1}, c.size[c.nsizes - 1]);
}

/* Whole nodes from the last one down, each parameter once; every bucket but the last one is full. */
static bool
sound(const struct net *n, uint64_t nbytes)
{
	struct net_bucket b[NET_MAX_NODES];
	unsigned count = net_buckets(n, nbytes, b);
	uint64_t end = n->nparams;
	uint32_t top = n->nnodes;

	for (unsigned i = 0; i < count; i++) {
		uint64_t size = b[i].count * sizeof(float);

		if (b[i].node >= top || b[i].first != n->node[b[i].node].weight ||
		    b[i].first + b[i].count != end)
			return false;
		if (i + 1 < count && (nbytes == 0 || size < nbytes))
			return false;
		top = b[i].node;
		end = b[i].first;
	}
	return end == 0;
}

/* Parameters without gaps, inputs before the nodes that take them, statistics after the parameters. */
static bool
consistent(const struct net *n)
{
	uint64_t at = 0, stats = n->nparams;

	for (uint32_t k = 0; k < n->nnodes; k++) {
		const struct net_node *node = &n->node[k];

		if ((node->in[0] != NET_INPUT && node->in[0] >= k) ||
		    (node->in[1] != NET_INPUT && node->in[1] >= k) || node->weight > at ||
		    net_shape_size(node->shape) == 0)
			return false;
		if (node->nweight && node->weight != at)
			return false;
		at += node->nweight + node->nbias;
		if (node->kind == NET_BATCHNORM && node->stats != stats)
			return false;
		stats += node->kind == NET_BATCHNORM ? 2 * node->shape.channels : 0;
	}
	return at == n->nparams && stats == n->nparams + n->nstats;
}

/* n units, between which one value passes: no node reads one before its own unit but the last. */
static bool
cuts(const struct net *n, uint32_t ncuts)
{
	bool good = n->ncuts == ncuts && n->cut[0] == 0;

	for (uint32_t i = 1; i < n->ncuts; i++)
		for (uint32_t k = n->cut[i]; k < n->nnodes; k++)
			for (int j = 0; j < 2; j++)
				good = good && n->node[k].in[j] >= n->cut[i] - 1;
	return good;
}

static void
shapes(void)
{
	static const uint64_t sizes[] = {0, 1, 4, 100, 5000, 5160, 5161, 1u << 20, UINT64_MAX};
	struct net m = mlp("784,128,10"), deep = mlp("784,256,256,300,7,10"), flat = mlp("9,4");
	struct net lenet = build(&(struct net_config){.model = NET_LENET}, digits, 10);
	struct net resnet = build(&(struct net_config){.model = NET_RESNET9}, colours, 10);
	struct net vit = build(&(struct net_config){.model = NET_VIT}, digits, 10);
	struct net large =
	    build(&(struct net_config){.model = NET_VIT, .vit = {24, 32, 2, 4}}, colours, 10);
	struct net tiny =
	    build(&(struct net_config){.model = NET_RESNET9}, (struct net_shape){1, 8, 9}, 2);
	bool good = true;

	ok(m.nnodes == 2 && m.nparams == 101770 && m.node[0].weight == 0 &&
	       m.node[0].bias == 100352 && m.node[1].weight == 100480 && m.node[1].bias == 101760 &&
	       m.nstats == 0,
	   "parameters lie layer after layer, weights then biases");
	ok(strcmp(m.text, "mlp 784-128-10 relu cross-entropy") == 0, "%s", m.text);
	ok(lenet.nparams ==
	       16 * 25 + 16 + 32 * 16 * 25 + 32 + 800 * 120 + 120 + 120 * 84 + 84 + 84 * 10 + 10,
	   "lenet: as many parameters as its layers have");
	ok(strcmp(lenet.text, "lenet 1x28x28-10 cross-entropy") == 0, "%s", lenet.text);
	ok(resnet.nparams == 6573130, "resnet9: %llu parameters",
	   (unsigned long long)resnet.nparams);
	ok(resnet.node[resnet.nnodes - 2].shape.rows == 1 &&
	       resnet.nstats == 2 * (64 + 128 * 3 + 256 + 512 * 3),
	   "down to one pixel; two statistics a channel");
	ok(tiny.nnodes > 0 && consistent(&tiny), "resnet9 takes 8 x 9 pixels");
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		good = sound(&m, sizes[i]) && sound(&deep, sizes[i]) && sound(&flat, sizes[i]) &&
		       sound(&lenet, sizes[i]) && sound(&vit, sizes[i]) &&
		       sound(&resnet, sizes[i]) && good;
	ok(good, "buckets: whole layers from the last one down, each full, none twice");
	ok(vit.nparams == 205066 && vit.nnodes == 42, "vit: %llu parameters",
	   (unsigned long long)vit.nparams);
	ok(strcmp(vit.text, "vit 1x28x28-10 blocks 4 hidden 64 heads 4 patch 7 cross-entropy") == 0,
	   "%s", vit.text);
	ok(cuts(&vit, 6) && cuts(&large, 26) && cuts(&deep, 5) && cuts(&lenet, 1),
	   "units: embedding, blocks, head; each layer of an mlp");
	ok(consistent(&m) && consistent(&vit) && consistent(&large) && consistent(&deep) &&
	       consistent(&lenet) && consistent(&resnet),
	   "no gaps, nothing taken before it is made");
}

static bool
refused(const struct net_config *c, struct net_shape input, uint32_t nclasses, const char *why)
{
	struct net n;
	struct err err = {0};
	enum rc rc = net_build(c, input, nclasses, &n, &err);

	if (rc != RC_INVAL || !strstr(err.text, why))
		printf("# rc %d: %s\n", (int)rc, err.text);
	return rc == RC_INVAL && strstr(err.text, why);
}

static void
refusals(void)
{
	struct net_config c = {.nsizes = 2, .size = {784, 10}};
	struct err err = {0};

	ok(refused(&c, (struct net_shape){1, 5, 5}, 10, "items have 25 values"), "wrong inputs");
	ok(refused(&c, digits, 11, "the data have 11 classes"), "too few outputs");
	c.model = NET_LENET;
	ok(refused(&c, digits, 10, "to mlp alone"), "lenet has no layers to choose");
	ok(refused(&(struct net_config){.model = NET_LENET}, (struct net_shape){4, 1, 1}, 3,
		   "too small"),
	   "lenet of four features");
	ok(refused(&(struct net_config){.model = NET_RESNET9}, (struct net_shape){3, 7, 40}, 3,
		   "too small"),
	   "resnet9 of seven rows");
	ok(refused(&(struct net_config){0}, (struct net_shape){3, 300, 300}, 3, "at most 65536"),
	   "an mlp of a photograph");
	ok(refused(&(struct net_config){.model = NET_VIT, .vit = {.hidden = 48, .heads = 5}},
		   digits, 10,
		   "5 heads do not divide the hidden size 48: heads may be 1, 2, 3, 4, 6, 8, 12, "
		   "16, 24, 48"),
	   "a vit of heads that do not divide its hidden size");
	ok(refused(&(struct net_config){.model = NET_VIT, .vit = {.patch = 8}},
		   (struct net_shape){1, 28, 42}, 10,
		   "patches of 8x8 do not divide items of 28x42: patch may be 1, 2, 7, 14"),
	   "or of patches that do not divide its pictures");
	ok(refused(&(struct net_config){.model = NET_VIT, .vit = {.patch = 1}},
		   (struct net_shape){1, 64, 64}, 10, "more than 4095 tokens") &&
	       refused(&(struct net_config){.model = NET_VIT, .vit = {.blocks = 25}}, digits, 10,
		       "at most 24 blocks") &&
	       refused(&(struct net_config){.model = NET_VIT, .vit = {.hidden = 2048, .heads = 1}},
		       digits, 10, "at most 1024 features") &&
	       refused(&(struct net_config){.model = NET_VIT, .vit = {.hidden = 8192, .heads = 64}},
		       digits, 10, "2^28 parameters"),
	   "or that is too large");
	ok(net_sizes_parse("0,5,0", &c, &err) == RC_OK && c.nsizes == 3 && c.size[2] == 0,
	   "sizes of the data");
	ok(net_sizes_parse("784", &c, &err) == RC_INVAL &&
	       net_sizes_parse("1,", &c, &err) == RC_INVAL &&
	       net_sizes_parse("1,x", &c, &err) == RC_INVAL &&
	       net_sizes_parse("1,0,1", &c, &err) == RC_INVAL &&
	       net_sizes_parse("1,65537", &c, &err) == RC_INVAL &&
	       net_sizes_parse("1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", &c, &err) == RC_INVAL,
	   "sizes that are none");
}

/* A vit's arrays: names, shapes, first values. */
static void
vit_arrays(void)
{
	struct net n =
	    build(&(struct net_config){.model = NET_VIT, .vit = {24, 8, 2, 7}}, digits, 10);
	float *a = malloc(n.nparams * sizeof *a), deviation = 0;
	struct npz_array arrays[NET_MAX_ARRAYS];
	unsigned count = net_arrays(&n, a, arrays);

	net_init(&n, 7, a);
	ok(count == 24 * 12 + 8 && strcmp(arrays[2].name, "tokens.cls") == 0 &&
	       arrays[2].ndim == 1 && arrays[2].dim[0] == 8 &&
	       strcmp(arrays[3].name, "tokens.pos") == 0 && arrays[3].ndim == 2 &&
	       arrays[3].dim[0] == 17 && arrays[3].dim[1] == 8,
	   "vit: class token and positions are arrays");
	ok(strcmp(arrays[6].name, "block0.qkv.weight") == 0 && arrays[6].dim[0] == 24 &&
	       arrays[6].dim[1] == 8 && strcmp(arrays[count - 2].name, "head.weight") == 0,
	   "as are all others");
	for (int i = 0; i < 17 * 8; i++)
		deviation +=
		    ((const float *)arrays[3].data)[i] * ((const float *)arrays[3].data)[i];
	deviation = sqrtf(deviation / (17 * 8));
	ok(deviation > 0.016f && deviation < 0.024f, "positions begin with a deviation of %g",
	   (double)deviation);
	free(a);
}

static void
files(void)
{
	char path[] = "/tmp/t_net.XXXXXX";
	struct net n =
	    build(&(struct net_config){.model = NET_RESNET9}, (struct net_shape){1, 8, 8}, 3);
	struct net other =
	    build(&(struct net_config){.model = NET_RESNET9}, (struct net_shape){1, 8, 8}, 4);
	uint64_t all = n.nparams + n.nstats;
	float *a = malloc(all * sizeof *a), *b = calloc(all + 600, sizeof *b);
	struct npz_array arrays[NET_MAX_ARRAYS];
	struct err err = {0};
	unsigned count = net_arrays(&n, a, arrays);
	int fd = mkstemp(path);

	close(fd);
	net_init(&n, 7, a);
	ok(a[n.node[1].weight] == 1 && a[n.node[1].bias] == 0 && a[n.node[1].stats] == 0 &&
	       a[n.node[1].stats + 64] == 1,
	   "batch norm begins as doing nothing");
	ok(fabsf(a[0]) <= 1 / 3.0f && a[0] != a[1], "a convolution begins within 1 / sqrt(fan in)");
	ok(npz_write(path, arrays, count, &err) == RC_OK && net_load(&n, path, b, &err) == RC_OK &&
	       memcmp(a, b, all * sizeof *a) == 0,
	   "arrays come back%s", "");
	ok(net_load(&other, path, b, &err) == RC_BADDATA &&
	       strstr(err.text, "fc.weight is [3, 512]"),
	   "another net is told: %s", err.text);
	unlink(path);
	free(a);
	free(b);
}

int
main(void)
{
	shapes();
	refusals();
	vit_arrays();
	files();
	return tap_done();
}
