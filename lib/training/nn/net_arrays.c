/*
 * net_arrays.c - a net's parameters as named arrays, with the shapes and names PyTorch gives them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/net.h"

static void
name_array(struct npz_array *a, const struct net_node *node, const char *what)
{
	if (node->kind == NET_TOKENS)
		what = strcmp(what, "bias") == 0 ? "pos" : "cls";
	snprintf(a->name, sizeof a->name, "%s.%s", node->name, what);
}

/* A vector of a node. */
static struct npz_array
vector(const struct net_node *node, const char *what, const float *data, uint64_t n)
{
	struct npz_array a = {.type = NPZ_F32, .ndim = 1, .dim = {n}, .data = data};

	name_array(&a, node, what);
	return a;
}

static struct npz_array
weight(const struct net *n, const struct net_node *node, const float *params)
{
	uint64_t outputs = node->shape.channels, size = node->size;
	struct npz_array a = {.type = NPZ_F32, .data = params + node->weight};

	if (node->kind == NET_BATCHNORM || node->kind == NET_LAYERNORM || node->kind == NET_TOKENS)
		return vector(node, "weight", params + node->weight, node->nweight);
	name_array(&a, node, "weight");
	if (node->kind == NET_CONV) {
		a.ndim = 4;
		a.dim[0] = outputs;
		a.dim[1] = net_in_shape(n, node).channels;
		a.dim[2] = a.dim[3] = size;
	} else {
		a.ndim = 2;
		a.dim[0] = outputs;
		a.dim[1] = net_shape_size(net_in_shape(n, node));
	}
	return a;
}

/* A vector, or the positions of tokens: [tokens, features]. */
static struct npz_array
bias(const struct net_node *node, const float *params)
{
	struct npz_array a = vector(node, "bias", params + node->bias, node->nbias);

	if (node->kind == NET_TOKENS) {
		a.ndim = 2;
		a.dim[0] = node->tokens;
		a.dim[1] = net_shape_size(node->shape);
	}
	return a;
}

unsigned
net_arrays(const struct net *n, const float *params, struct npz_array out[NET_MAX_ARRAYS])
{
	unsigned k = 0;

	for (uint32_t i = 0; i < n->nnodes; i++) {
		const struct net_node *node = &n->node[i];
		uint64_t c = node->shape.channels;

		if (node->nweight)
			out[k++] = weight(n, node, params);
		if (node->nbias)
			out[k++] = bias(node, params);
		if (node->kind != NET_BATCHNORM)
			continue;
		out[k++] = vector(node, "running_mean", params + node->stats, c);
		out[k++] = vector(node, "running_var", params + node->stats + c, c);
	}
	return k;
}

/* "[10, 128]" */
static const char *
shape_text(const struct npz_array *a, char out[64])
{
	size_t at = 0;

	out[at++] = '[';
	for (uint32_t d = 0; d < a->ndim && at < 48; d++)
		at += (size_t)snprintf(out + at, 64 - at, "%s%" PRIu64, d ? ", " : "", a->dim[d]);
	snprintf(out + at, 64 - at, "]");
	return out;
}

/* Is a file's array a layer's parameter, but not of this net? Then the file's net has one more layer. */
static bool
is_surplus(const struct npz_array *a, const struct npz_array *want, unsigned nwant)
{
	const char *dot = strrchr(a->name, '.');

	if (!dot || (strcmp(dot, ".weight") != 0 && strcmp(dot, ".bias") != 0))
		return false;
	for (unsigned i = 0; i < nwant; i++)
		if (strcmp(a->name, want[i].name) == 0)
			return false;
	return true;
}

static bool
same_shape(const struct npz_array *a, const struct npz_array *want)
{
	return a->type == NPZ_F32 && a->ndim == want->ndim &&
	       memcmp(a->dim, want->dim, a->ndim * sizeof a->dim[0]) == 0;
}

bool
net_has_array(const struct net *n, const float *params, const struct npz_array *a)
{
	struct npz_array want[NET_MAX_ARRAYS];
	unsigned nwant = net_arrays(n, params, want);

	for (unsigned i = 0; i < nwant; i++)
		if (strcmp(a->name, want[i].name) == 0)
			return same_shape(a, &want[i]);
	return false;
}

enum rc
net_take(const struct net *n, const struct npz *npz, const char *path, float *params,
	 struct err *err)
{
	struct npz_array want[NET_MAX_ARRAYS];
	unsigned nwant = net_arrays(n, params, want);
	char there[64], due[64];
	enum rc rc = RC_OK;

	for (unsigned i = 0; i < nwant && rc == RC_OK; i++) {
		const struct npz_array *a = npz_find(npz, want[i].name);

		if (!a)
			rc = err_set(err, RC_BADDATA, "%s: array %s of %s is missing", path,
				     want[i].name, n->text);
		else if (!same_shape(a, &want[i]))
			rc = err_set(err, RC_BADDATA, "%s: %s is %s%s; %s has %s", path, a->name,
				     shape_text(a, there), a->type == NPZ_F32 ? "" : " and not f32",
				     n->text, shape_text(&want[i], due));
	}
	for (size_t i = 0; i < npz->narrays && rc == RC_OK; i++)
		if (is_surplus(&npz->array[i], want, nwant))
			rc = err_set(err, RC_BADDATA, "%s: has array %s, which %s does not have",
				     path, npz->array[i].name, n->text);
	for (unsigned i = 0; i < nwant && rc == RC_OK; i++) {
		const struct npz_array *a = npz_find(npz, want[i].name);
		uint64_t count = 1;

		for (uint32_t d = 0; d < a->ndim; d++)
			count *= a->dim[d];
		memcpy(params + ((const float *)want[i].data - params), a->data,
		       count * sizeof(float));
	}
	return rc;
}

enum rc
net_load(const struct net *n, const char *path, float *params, struct err *err)
{
	struct npz npz;
	enum rc rc = npz_read(path, &npz, err);

	if (rc != RC_OK)
		return rc;
	rc = net_take(n, &npz, path, params, err);
	npz_fini(&npz);
	return rc;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(((const struct npz_array *)a)->name, ((const struct npz_array *)b)->name);
}

void
net_digest(const struct net *n, const float *params, char out[SHA256_TEXT])
{
	struct npz_array array[NET_MAX_ARRAYS];
	unsigned narrays = net_arrays(n, params, array);
	struct sha256 sum;

	qsort(array, narrays, sizeof *array, by_name);
	sha256_init(&sum);
	for (unsigned i = 0; i < narrays; i++) {
		uint64_t count = 1;

		for (uint32_t d = 0; d < array[i].ndim; d++)
			count *= array[i].dim[d];
		sha256_add(&sum, array[i].name, strlen(array[i].name));
		sha256_add(&sum, array[i].data, count * sizeof(float));
	}
	sha256_text(&sum, out);
}
