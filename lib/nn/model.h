/*
 * model.h - a multi-layer perceptron: shapes, where parameters lie, how they begin.
 *
 * Layer l maps size[l] values to size[l+1]: y = x W^T + b, relu between layers. All parameters lie
 * in one vector, W then b, layer after layer, so that one all-reduce carries all gradients. W is
 * [size[l+1], size[l]], row-major, as PyTorch keeps it.
 */
#ifndef NN_MODEL_H
#define NN_MODEL_H

#include <stdint.h>

#include "base/rc.h"
#include "nn/npz.h"

#define MODEL_MAX_SIZES 16
#define MODEL_MAX_WIDTH 65536

struct model {
	unsigned nlayers;		  /* one less than sizes */
	uint64_t size[MODEL_MAX_SIZES];	  /* size[0] is the input's */
	uint64_t weight[MODEL_MAX_SIZES]; /* offset of W of layer l, in elements */
	uint64_t bias[MODEL_MAX_SIZES];	  /* offset of b */
	uint64_t nparams;
};

/* From "784,128,10". RC_INVAL: fewer than two sizes, too many, a size of 0 or too large. */
enum rc model_parse(const char *text, struct model *out, struct err *err);

/*
 * model_init - fill params (nparams floats) as PyTorch's Linear does: W and b of a layer uniform in
 * +-1/sqrt(size[l]), in order, from the seed.
 */
void model_init(const struct model *m, uint64_t seed, float *params);

/* A range of parameters whose gradients are reduced together: layers `layer` .. the one below the
 * bucket before. */
struct model_bucket {
	unsigned layer; /* its lowest; when that layer's gradients are there, all are */
	uint64_t first, count;
};

/*
 * model_buckets - cut the parameters into buckets of whole layers, in the order in which backward
 * makes their gradients: from the last layer down. A bucket is full with nbytes bytes of f32; 0 is
 * one bucket of everything. Returns how many, nlayers at most.
 */
unsigned model_buckets(const struct model *m, uint64_t nbytes,
		       struct model_bucket out[MODEL_MAX_SIZES]);

/* The arrays "fc1.weight", "fc1.bias" ... that point into params: 2 * nlayers of them. */
void model_arrays(const struct model *m, const float *params,
		  struct npz_array out[2 * MODEL_MAX_SIZES]);

#endif
