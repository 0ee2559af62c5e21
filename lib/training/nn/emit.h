/*
 * emit.h - a net's work as kernel launches on the ranks of a communicator.
 *
 * Emission hands kernels, addresses and sums over the ranks to a sink, and does nothing else. The trainer's
 * sink records them in a list of operations; other sinks run them at once. Emission goes node by node, and
 * at each node over all ranks, because batch norm sums over the ranks in between. So the gradients of n
 * ranks equal those of one rank with the whole batch, except for rounding.
 */
#ifndef NN_EMIT_H
#define NN_EMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "gpusim.h"
#include "nn/net.h"

#define EMIT_MAX_RANKS 1024

/* Bytes of an element of a net. */
static inline uint64_t
emit_type_size(enum gpusim_dtype type)
{
	return type == GPUSIM_F64 ? 8 : type == GPUSIM_F32 ? 4 : 2;
}

/* Ranks rank to rank + tp - 1; addresses by place among them. */
struct emit_tensor {
	uint32_t rank;
	enum gpusim_coll coll;
	enum gpusim_redop redop;
	enum gpusim_dtype dtype;
	uint64_t nelem; /* as of struct gpusim_collective */
	const uint64_t *send, *recv;
};

struct emit_sink {
	void *arg;
	void (*launch)(void *arg, uint32_t rank, const char *kernel, const struct gpusim_arg *args,
		       size_t nargs);
	/* Sum nelem elements at addr[rank] over the ranks, in place. NULL: each rank's batch norm
	 * uses only its own part. */
	void (*allreduce)(void *arg, enum gpusim_dtype type, uint64_t nelem, const uint64_t *addr);
	/* Of a part of a net: an exchange among the ranks that a layer is divided over. */
	void (*tensor)(void *arg, const struct emit_tensor *x);
};

/* Device addresses of one rank's net. Elements are of dtype unless a comment says otherwise. */
struct emit_place {
	enum gpusim_dtype dtype; /* of f32, f64, f16 and bf16 */
	/* [nparams + nstats] each; grads also hold the batch's statistics */
	uint64_t params, grads;
	uint64_t x;				      /* [max_rows, input] */
	uint64_t y[NET_MAX_NODES], dy[NET_MAX_NODES]; /* [max_rows, tokens, shape] */
	uint64_t pre[NET_MAX_NODES]; /* what an activation is applied to; gelu: not y */
	/* maxpool: u32[max_rows, shape]; batchnorm: f64[2, 2, channels]; layernorm: f64[max_rows, tokens, 2];
	 * attention: f32 or f64[max_rows, heads, tokens] */
	uint64_t extra[NET_MAX_NODES];
	uint64_t scratch; /* of conv */
};

/* Take a piece of device memory at *at; pieces begin at multiples of 256 bytes if the first does. */
uint64_t emit_take(uint64_t *at, uint64_t nbytes);

/* Lay the working memory (all but params and grads, which are the caller's) out from base; returns
 * its bytes. */
enum emit_use {
	EMIT_INFER, /* without dy */
	EMIT_BACKWARD, /* some nodes share one dy: emit_gradients, then emit_propagate, node after node */
	EMIT_APART, /* for batches with `apart`: dy keeps each node's gradient */
};
uint64_t emit_place(struct emit_place *p, const struct net *n, enum gpusim_dtype dtype,
		    uint64_t max_rows, uint64_t base, enum emit_use use);

/* Two areas of memory, for emit_lay: what forward leaves for backward, and what only lives in one of them. */
struct emit_areas {
	uint64_t kept, shared; /* their ends, which move */
	/* By node: its output is computed again before backward needs it; NULL: none */
	const bool *again;
	const uint32_t *unit; /* first nodes of units; such outputs live only within one */
	uint32_t nunits;
	uint32_t place; /* among the ranks that layers are divided over */
	uint64_t rows;	/* of the batch; only for layers divided by rows */
};

/* As emit_place, but in areas. With EMIT_APART gradients are kept, too. */
void emit_lay(struct emit_place *p, const struct net *n, enum gpusim_dtype dtype, uint64_t max_rows,
	      enum emit_use use, struct emit_areas *a);

/* Rows of a node that memory is needed for. */
uint64_t emit_room(const struct net *n, const struct net_node *node, uint64_t max_rows);

/* Rows of a node that a rank has, if a batch has so many rows; place: as in struct emit_areas. */
uint64_t emit_have(const struct net *n, const struct net_node *node, uint64_t rows, uint32_t place);

/* The ranks' parts of a batch. */
struct emit_batch {
	uint32_t nranks;
	const struct emit_place *place; /* by rank */
	const uint64_t *rows;		/* by rank; may be 0 */
	uint64_t total;			/* rows of all ranks together */
	/* one thread computes each product, so the bits are reproducible */
	bool single;
	/* emit_propagate comes before emit_gradients, which may come much later; not with batch norm */
	bool apart;
};

/* From x to y of the last node. EMIT_TRAIN: batch norm by the batch; EMIT_EVAL: by the running
 * statistics. */
enum emit_mode { EMIT_TRAIN, EMIT_EVAL };
void emit_forward(const struct net *n, const struct emit_batch *b, enum emit_mode mode,
		  const struct emit_sink *s);

/* Likewise, of the nodes from `first` to `end` - 1. */
void emit_forward_nodes(const struct net *n, const struct emit_batch *b, uint32_t first,
			uint32_t end, enum emit_mode mode, const struct emit_sink *s);

/* The addresses of a rank's labels and losses, and their steps from one iteration to the next. */
struct emit_target {
	uint64_t labels, labels_step; /* u8[rows] */
	uint64_t loss, loss_step;     /* one f32, or f64: the sum over the rows */
	double grad_scale;	      /* the gradient of grad_scale times the sum */
	uint64_t scale_at;	      /* of an f32, a further factor of the gradient; 0: none */
	uint64_t scratch;	      /* f32[4, rows], if the classes are divided */
};

/* The loss, and the gradient of the last node's output. */
void emit_loss(const struct net *n, const struct emit_batch *b, const struct emit_target *target,
	       const struct emit_sink *s);

/* The number of rows whose largest logit is at their label, as a u64 at target->loss. */
void emit_count(const struct net *n, const struct emit_batch *b, const struct emit_target *target,
		const struct emit_sink *s);

/*
 * One node's backward step, called from the last node to the first: emit_gradients computes the gradients of its
 * parameters, then emit_propagate those of its inputs; the other way round if the batch says `apart`. The second reader
 * of a node's output adds to its gradient, in the order of these calls. Afterwards the batch's variances are unbiased.
 */
void emit_gradients(const struct net *n, const struct emit_batch *b, uint32_t node,
		    const struct emit_sink *s);
void emit_propagate(const struct net *n, const struct emit_batch *b, uint32_t node,
		    const struct emit_sink *s);

/* Both calls for all nodes. */
void emit_backward(const struct net *n, const struct emit_batch *b, const struct emit_sink *s);

enum optimizer { OPTIMIZER_SGD, OPTIMIZER_NESTEROV, OPTIMIZER_ADAM, OPTIMIZER_ADAMW };

/* Return true if the optimizer keeps a mean and a variance of each weight, not a velocity. */
static inline bool
optimizer_adapts(enum optimizer kind)
{
	return kind == OPTIMIZER_ADAM || kind == OPTIMIZER_ADAMW;
}

struct emit_optimizer {
	enum optimizer kind;
	double lr, momentum, weight_decay;
	uint64_t lr_at, lr_step;  /* address of the f32 that scales lr, and its step; 0: none */
	uint64_t state[2], count; /* velocity; or mean, variance and u64 of steps */
	/* adam: 0, or the mean is this step's, and the variance is that of so many steps */
	uint64_t frozen;
	uint64_t gate; /* of what grad_scaler says; 0: none */
	/* of the gradient, if it is of halves; 0: that of the weights */
	enum gpusim_dtype grad_dtype;
};

/* Step n weights at w, by gradients at grad. */
void emit_optimize(const struct emit_sink *s, uint32_t rank, uint64_t w, uint64_t grad, uint64_t n,
		   enum gpusim_dtype dtype, const struct emit_optimizer *o);

/* One rank's step: parameters by their gradients, running statistics by the batch's. */
void emit_update(const struct net *n, uint32_t rank, const struct emit_place *place,
		 const struct emit_optimizer *o, const struct emit_sink *s);

#endif
