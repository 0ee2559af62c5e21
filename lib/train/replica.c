#include "train/replica.h"

#define ALIGN	   256u
#define EVENT_BASE 0x6d6e6973740000u /* ids of events, which are the device's */

/* Hand out [base, ...) piece by piece. */
static uint64_t
take(uint64_t *at, uint64_t nbytes)
{
	uint64_t addr = *at;

	*at += (nbytes + ALIGN - 1) / ALIGN * ALIGN;
	return addr;
}

static uint64_t
place(struct replica *r, const struct shape *s, uint64_t base)
{
	const struct model *m = s->model;
	uint64_t at = base, nparams = m->nparams * sizeof(float);

	r->stamp = s->kept ? take(&at, sizeof(uint64_t)) : 0;
	r->params = take(&at, nparams);
	r->state[0] = take(&at, nparams);
	r->state[1] = s->optimizer == OPTIMIZER_ADAM ? take(&at, nparams) : 0;
	r->adam_step = take(&at, sizeof(uint64_t));
	r->live_bytes = at - r->params;
	r->kept[0] = s->kept ? take(&at, r->live_bytes) : 0;
	r->kept[1] = s->kept ? take(&at, r->live_bytes) : 0;
	r->grads = take(&at, nparams);
	r->x = take(&at, s->max_rows * m->size[0] * sizeof(float));
	for (unsigned l = 0; l < m->nlayers; l++) {
		r->y[l] = take(&at, s->max_rows * m->size[l + 1] * sizeof(float));
		r->dy[l] = take(&at, s->max_rows * m->size[l + 1] * sizeof(float));
	}
	r->images = take(&at, s->held * m->size[0]);
	r->order = take(&at, s->train_items * sizeof(uint32_t));
	r->labels = take(&at, s->train_items);
	r->test_images = take(&at, s->test_items * m->size[0]);
	r->test_labels = take(&at, s->test_items);
	r->losses = take(&at, s->train_steps * sizeof(float));
	r->right = take(&at, s->test_steps * sizeof(uint64_t));
	return at - base;
}

uint64_t
replica_bytes(const struct shape *s)
{
	struct replica r;

	return place(&r, s, 0);
}

void
replica_place(struct replica *r, const struct shape *s, uint64_t device, uint64_t base)
{
	*r = (struct replica){.device = device, .base = base, .owned = true};
	place(r, s, base);
}

void
replica_keep(struct gpusim_ops *o, uint32_t rank, const struct replica *r, unsigned which)
{
	gpusim_ops_copy(o, rank, STREAM_COMPUTE, r->kept[which], r->params, r->live_bytes);
}

void
replica_restore(struct gpusim_ops *o, uint32_t rank, const struct replica *r, unsigned which)
{
	gpusim_ops_copy(o, rank, STREAM_COMPUTE, r->params, r->kept[which], r->live_bytes);
}

/* Arguments of kernels: whole numbers and addresses, addresses that move, reals. */
#define U(arg_name, value)                       \
	{                                        \
		.name = (arg_name), .u = (value) \
	}
#define MOVES(arg_name, value, by)                             \
	{                                                      \
		.name = (arg_name), .u = (value), .step = (by) \
	}
#define F(arg_name, value)                                     \
	{                                                      \
		.name = (arg_name), .is_real = 1, .f = (value) \
	}
#define LAUNCH(o, rank, kernel, ...)                                      \
	do {                                                              \
		const struct gpusim_arg args_[] = {__VA_ARGS__};          \
		gpusim_ops_launch(o, rank, STREAM_COMPUTE, kernel, args_, \
				  sizeof args_ / sizeof args_[0]);        \
	} while (0)

/* Every layer, from r->x to r->y of the last. */
static void
layers(struct gpusim_ops *o, uint32_t rank, const struct replica *r, const struct shape *s,
       uint64_t rows)
{
	const struct model *m = s->model;

	for (unsigned l = 0; l < m->nlayers; l++) {
		LAUNCH(o, rank, "gemm", U("m", rows), U("n", m->size[l + 1]), U("k", m->size[l]),
		       U("a", l ? r->y[l - 1] : r->x),
		       U("b", r->params + m->weight[l] * sizeof(float)), U("c", r->y[l]),
		       U("tb", 1));
		LAUNCH(o, rank, l + 1 < m->nlayers ? "bias_relu" : "bias_add", U("x", r->y[l]),
		       U("bias", r->params + m->bias[l] * sizeof(float)), U("rows", rows),
		       U("cols", m->size[l + 1]));
	}
}

void
replica_forward(struct gpusim_ops *o, uint32_t rank, const struct replica *r, const struct shape *s,
		const struct batch *b, double grad_scale)
{
	const struct model *m = s->model;
	unsigned last = m->nlayers - 1;

	LAUNCH(o, rank, "gather", U("dst", r->x), U("src", r->images),
	       MOVES("index", r->order + b->first * sizeof(uint32_t),
		     b->moving ? b->rows * sizeof(uint32_t) : 0),
	       U("n", b->rows), U("rows", s->held), U("cols", m->size[0]), U("dtype", GPUSIM_U8),
	       U("to", GPUSIM_F32), F("scale", 1.0 / 255));
	layers(o, rank, r, s, b->rows);
	LAUNCH(o, rank, "softmax_xent", U("logits", r->y[last]),
	       MOVES("labels", r->labels + b->first, b->moving ? b->rows : 0),
	       MOVES("loss", r->losses + b->step * sizeof(float), b->moving ? sizeof(float) : 0),
	       U("rows", b->rows), U("classes", m->size[m->nlayers]), U("grad", r->dy[last]),
	       F("scale", 1), F("grad_scale", grad_scale));
}

void
replica_gradients(struct gpusim_ops *o, uint32_t rank, const struct replica *r,
		  const struct shape *s, const struct batch *b, unsigned l)
{
	const struct model *m = s->model;
	uint64_t db = r->grads + m->bias[l] * sizeof(float);

	if (l + 1 < m->nlayers)
		LAUNCH(o, rank, "bias_relu_grad", U("dx", r->dy[l]), U("db", db), U("dy", r->dy[l]),
		       U("y", r->y[l]), U("rows", b->rows), U("cols", m->size[l + 1]));
	else
		LAUNCH(o, rank, "bias_grad", U("db", db), U("dy", r->dy[l]), U("rows", b->rows),
		       U("cols", m->size[l + 1]));
	LAUNCH(o, rank, "gemm", U("m", m->size[l + 1]), U("n", m->size[l]), U("k", b->rows),
	       U("a", r->dy[l]), U("b", l ? r->y[l - 1] : r->x),
	       U("c", r->grads + m->weight[l] * sizeof(float)), U("ta", 1));
}

void
replica_propagate(struct gpusim_ops *o, uint32_t rank, const struct replica *r,
		  const struct shape *s, const struct batch *b, unsigned l)
{
	const struct model *m = s->model;

	LAUNCH(o, rank, "gemm", U("m", b->rows), U("n", m->size[l]), U("k", m->size[l + 1]),
	       U("a", r->dy[l]), U("b", r->params + m->weight[l] * sizeof(float)),
	       U("c", r->dy[l - 1]));
}

void
replica_join(struct gpusim_ops *o, uint32_t rank, unsigned number, uint32_t from, uint32_t to)
{
	gpusim_ops_record(o, rank, from, EVENT_BASE + number);
	gpusim_ops_wait(o, rank, to, EVENT_BASE + number);
}

void
replica_update(struct gpusim_ops *o, uint32_t rank, const struct replica *r, const struct shape *s,
	       const struct train_config *opt)
{
	if (opt->optimizer == OPTIMIZER_ADAM)
		LAUNCH(o, rank, "adam", U("w", r->params), U("grad", r->grads), U("m", r->state[0]),
		       U("v", r->state[1]), U("t", r->adam_step), U("n", s->model->nparams),
		       F("lr", opt->lr), F("weight_decay", opt->weight_decay));
	else
		LAUNCH(o, rank, "sgd", U("w", r->params), U("grad", r->grads), U("v", r->state[0]),
		       U("n", s->model->nparams), F("lr", opt->lr), F("momentum", opt->momentum),
		       F("weight_decay", opt->weight_decay));
}

void
replica_test(struct gpusim_ops *o, uint32_t rank, const struct replica *r, const struct shape *s,
	     const struct batch *b)
{
	const struct model *m = s->model;
	uint64_t n = b->rows * m->size[0];

	LAUNCH(o, rank, "cast", U("dst", r->x),
	       MOVES("src", r->test_images + b->first * m->size[0], b->moving ? n : 0), U("n", n),
	       U("from", GPUSIM_U8), U("to", GPUSIM_F32), F("scale", 1.0 / 255));
	layers(o, rank, r, s, b->rows);
	LAUNCH(
	    o, rank, "accuracy", U("logits", r->y[m->nlayers - 1]),
	    MOVES("labels", r->test_labels + b->first, b->moving ? b->rows : 0),
	    MOVES("count", r->right + b->step * sizeof(uint64_t), b->moving ? sizeof(uint64_t) : 0),
	    U("rows", b->rows), U("classes", m->size[m->nlayers]));
}
