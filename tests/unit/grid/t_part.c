/* Parts of nets: their values are the whole net's, each once; their shapes; what tp cannot divide. */
#include "grid/part.h"

#include <stdlib.h>
#include <string.h>

#include "tap.h"

#define MAX_TP 16u

static struct err err;

static struct net
make(const struct net_config *c, struct net_shape input, uint32_t nclasses)
{
	struct net n;

	if (net_build(c, input, nclasses, &n, &err) != RC_OK)
		tap_bail(err.text);
	return n;
}

static struct net
vit(uint32_t blocks, uint32_t hidden, uint32_t heads, uint32_t nclasses)
{
	const struct net_config c = {.model = NET_VIT, .vit = {blocks, hidden, heads, 3}};

	return make(&c, (struct net_shape){1, 6, 9}, nclasses);
}

static struct net
mlp(enum net_act act, bool norm, uint32_t nclasses)
{
	const struct net_config c = {
	    .nsizes = 5, .size = {20, 24, 12, 36, nclasses}, .act = act, .layer_norm = norm};

	return make(&c, (struct net_shape){20, 1, 1}, nclasses);
}

/* What the ranks take out of the whole net, in `pieces` parts, goes back into its place; every value is taken, by all
 * ranks or by one of them, and what is beyond the whole net is 0. */
static bool
inverse(const struct net *n, uint32_t tp, bool sequence, uint32_t pieces)
{
	float *whole = malloc(n->nparams * sizeof *whole),
	      *back = malloc(n->nparams * sizeof *back);
	uint32_t *owners = calloc(n->nparams, sizeof *owners), first = 0;
	bool good = true;

	for (uint64_t i = 0; i < n->nparams; i++) {
		whole[i] = (float)(i + 1);
		back[i] = -1;
	}
	for (uint32_t piece = 0; piece < pieces && good; piece++) {
		uint32_t count = (n->ncuts - first) / (pieces - piece);
		struct part *p;
		float *own;

		if (part_build(n, first, count, tp, sequence, &p, &err) != RC_OK) {
			printf("# %s\n", err.text);
			good = false;
			break;
		}
		own = malloc((p->net.nparams + 1) * sizeof *own);
		for (uint32_t t = 0; t < tp; t++) {
			for (uint64_t i = 0; i <= p->net.nparams; i++)
				own[i] = -2;
			part_take(p, t, whole, own);
			good = good && own[p->net.nparams] == -2;
			for (uint64_t i = 0; i < p->net.nparams; i++) {
				good = good && own[i] >= 0; /* written */
				if (own[i] > 0)
					owners[(uint64_t)own[i] - 1]++;
				else
					own[i] = 1e9f; /* beyond: must not come back */
			}
			part_give(p, t, own, back);
		}
		free(own);
		free(p);
		first += count;
	}
	good = good && memcmp(whole, back, n->nparams * sizeof *back) == 0;
	for (uint64_t i = 0; i < n->nparams; i++)
		good = good && (owners[i] == 1 || owners[i] == tp);
	free(whole);
	free(back);
	free(owners);
	return good;
}

/* For each tp that the net can have, in one part, two, and as many as it has units. */
static bool
all_inverse(const struct net *n, bool sequence, unsigned *tried)
{
	bool good = true;

	*tried = 0;
	for (uint32_t tp = 1; tp <= MAX_TP; tp++) {
		struct part *p;

		if (part_build(n, 0, n->ncuts, tp, sequence, &p, &err) != RC_OK)
			continue;
		free(p);
		good = inverse(n, tp, sequence, 1) && inverse(n, tp, sequence, 2) &&
		       inverse(n, tp, sequence, n->ncuts) && good;
		++*tried;
	}
	return good;
}

static void
values(void)
{
	struct net nets[] = {vit(3, 12, 4, 10), vit(1, 16, 16, 3), mlp(NET_RELU, false, 10),
			     mlp(NET_GELU, true, 10), mlp(NET_TANH, false, 7)};
	static const unsigned choices[] = {3, 5, 6, 16, 6};

	for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++)
		for (unsigned sequence = 0; sequence <= (i < 2); sequence++) {
			unsigned tried;
			bool good = all_inverse(&nets[i], sequence, &tried);

			ok(good && tried == choices[i], "%s, %s: taken and given back, by %u tp",
			   nets[i].text, sequence ? "rows divided" : "rows whole", tried);
		}
}

static const struct net_node *
find(const struct part *p, const char *name, enum net_kind kind)
{
	for (uint32_t k = 0; k < p->net.nnodes; k++)
		if (strcmp(p->net.node[k].name, name) == 0 && p->net.node[k].kind == kind)
			return &p->net.node[k];
	tap_bail(name);
}

static unsigned
kinds(const struct part *p, enum net_kind kind)
{
	unsigned n = 0;

	for (uint32_t k = 0; k < p->net.nnodes; k++)
		n += p->net.node[k].kind == kind;
	return n;
}

/* Megatron's shapes, by tp 4: of 12 features, 4 heads, 10 classes. */
static void
shapes(void)
{
	struct net n = vit(3, 12, 4, 10);
	struct part *p;

	if (part_build(&n, 0, n.ncuts, 4, false, &p, &err) != RC_OK)
		tap_bail(err.text);
	ok(find(p, "block1.qkv", NET_DENSE)->shape.channels == 9 &&
	       find(p, "block1.attention", NET_ATTENTION)->heads == 1 &&
	       find(p, "block1.attention", NET_ATTENTION)->shape.channels == 3 &&
	       find(p, "block1.proj", NET_DENSE)->nweight == 12 * 3 &&
	       find(p, "block1.proj", NET_DENSE)->nbias == 0 &&
	       find(p, "block1.proj", NET_LEAVE)->nbias == 12 &&
	       find(p, "block1.fc1", NET_DENSE)->shape.channels == 12 &&
	       find(p, "block1.fc2", NET_DENSE)->nweight == 12 * 12,
	   "columns of qkv and fc1, rows of proj and fc2, the bias after the sum");
	ok(p->net.each == 3 && p->net.node[p->net.nnodes - 1].shape.channels == 3,
	   "10 classes are 3 a rank, the last rank has one");
	ok(kinds(p, NET_LEAVE) == 6 && kinds(p, NET_ENTER) == 7 && kinds(p, NET_SCATTER) == 0 &&
	       kinds(p, NET_GATHER) == 0,
	   "two sums a block, forward and back, and the head's back");
	free(p);
	if (part_build(&n, 0, n.ncuts, 4, true, &p, &err) != RC_OK)
		tap_bail(err.text);
	ok(kinds(p, NET_LEAVE) == 6 && kinds(p, NET_ENTER) == 7 && kinds(p, NET_SCATTER) == 1 &&
	       kinds(p, NET_GATHER) == 1 && find(p, "block1.ln1", NET_LAYERNORM)->sharded &&
	       !find(p, "block1.qkv", NET_DENSE)->sharded &&
	       find(p, "block1.fc2", NET_LEAVE)->sharded,
	   "with rows divided: scattered once, gathered for the head");
	free(p);
	if (part_build(&n, 2, 2, 1, false, &p, &err) != RC_OK)
		tap_bail(err.text);
	ok(p->nunits == 2 && p->net.node[0].kind == NET_RECV && p->unit[0].node == 0 &&
	       p->unit[0].nnodes + p->unit[1].nnodes == p->net.nnodes &&
	       p->unit[0].n + p->unit[1].n == p->net.nparams && p->unit[1].first == p->unit[0].n,
	   "a stage begins with what it receives; units are contiguous");
	free(p);
}

/* part_build fails, and the sentence has these words. */
static bool
refuses(const struct net *n, uint32_t tp, const char *says)
{
	struct part *p = NULL;
	bool good = part_build(n, 0, n->ncuts, tp, false, &p, &err) == RC_INVAL && !p &&
		    strstr(err.text, says);

	printf("# %s\n", err.text);
	return good;
}

static void
refusals(void)
{
	struct net n = vit(3, 12, 4, 10), l2, lenet, deep;
	struct net_config c = {.model = NET_VIT, .vit = {1, 12, 4, 3}, .loss = NET_L2};
	struct part *p;
	char text[PART_TEXT];

	ok(refuses(&n, 5, "tp=5: block0.qkv has outputs that tp does not divide") &&
	       refuses(&n, 3, "tp=3: block0.attention has heads that tp does not divide"),
	   "features and heads that tp does not divide");
	l2 = make(&c, (struct net_shape){1, 6, 9}, 10);
	ok(refuses(&l2, 2, "--loss l2"), "a divided head with the loss l2");
	c = (struct net_config){.model = NET_LENET};
	lenet = make(&c, (struct net_shape){1, 28, 28}, 10);
	ok(refuses(&lenet, 2, "cannot be divided"), "convolutions");
	ok(strcmp(part_choices(&n, false, text), "1, 2 or 4") == 0 &&
	       strcmp(part_choices(&n, true, text), "1, 2 or 4") == 0 &&
	       strcmp(part_choices(&lenet, false, text), "1") == 0,
	   "the choices");
	c = (struct net_config){.nsizes = 3,
				.size = {64, 55440, 0}}; /* divided by most numbers up to 64 */
	n = make(&c, (struct net_shape){64, 1, 1}, 4);
	part_choices(&n, false, text);
	ok(memchr(text, '\0', sizeof text) && strncmp(text, "1, 2, 3, ", 9) == 0, "many: %s", text);
	deep = vit(NET_MAX_BLOCKS, 16, 16, 10);
	for (uint32_t tp = 1; tp <= 16; tp *= 4) {
		bool fits = part_build(&deep, 0, deep.ncuts, tp, true, &p, &err) == RC_OK;

		ok(fits, "the deepest net, tp=%u", tp);
		if (fits)
			free(p);
	}
}

int
main(void)
{
	values();
	shapes();
	refusals();
	return tap_done();
}
