#include "train/replica.h"

#include "nn/augment.h"
#include "nn/launch.h"
#include "train/compress.h"
#include "train/leaves.h"
#include "train/verify.h"

#define EVENT_BASE 0x6d6e6973740000u /* ids of events; they are per device */

enum rc
device_alloc(struct gpusim *g, struct gpusim_device device, uint64_t nbytes, uint64_t *at,
	     struct err *err)
{
	struct gpusim_addr addr;
	enum rc rc = api(gpusim_malloc(g, device, nbytes, GPUSIM_LEASE, &addr), err);

	if (rc == RC_OK)
		*at = addr.addr;
	return rc;
}

enum rc
device_write(struct gpusim *g, struct gpusim_device device, uint64_t at, const void *src,
	     uint64_t nbytes, struct err *err)
{
	return api(gpusim_memcpy_h2d(g, device, (struct gpusim_addr){at}, src, nbytes), err);
}

enum rc
device_read(struct gpusim *g, void *dst, struct gpusim_device device, uint64_t at, uint64_t nbytes,
	    struct err *err)
{
	return api(gpusim_memcpy_d2h(g, dst, device, (struct gpusim_addr){at}, nbytes), err);
}

enum rc
device_copy(struct gpusim *g, struct gpusim_device dst_device, uint64_t dst,
	    struct gpusim_device src_device, uint64_t src, uint64_t nbytes, struct err *err)
{
	return api(gpusim_memcpy_d2d(g, dst_device, (struct gpusim_addr){dst}, src_device,
				     (struct gpusim_addr){src}, nbytes),
		   err);
}

bool
replica_free_memory(struct gpusim *g, struct gpusim_device device, uint64_t at)
{
	return gpusim_free(g, device, (struct gpusim_addr){at}) == GPUSIM_OK;
}

static void
place_optimizer(struct replica *r, const struct task *task, uint64_t *at)
{
	uint64_t nbytes = task_values(task) * sizeof(float);

	r->state[0] = emit_take(at, nbytes);
	r->state[1] = optimizer_adapts(task->config->optimizer) ? emit_take(at, nbytes) : 0;
	r->adam_step = emit_take(at, sizeof(uint64_t));
}

void
replica_live(struct replica *r, const struct task *task, uint64_t *at)
{
	bool own = compress_owns_optimizer(task->config);

	r->net.params = emit_take(at, task_values(task) * sizeof(float));
	if (!own)
		place_optimizer(r, task, at);
	r->extra = *at;
	compress_place_shared(r, task, at);
	r->scaler = config_scales(task->config) ? emit_take(at, LAYOUT_SCALER) : 0;
	r->own = *at;
	if (own)
		place_optimizer(r, task, at);
	compress_place_own(r, task, at);
	r->live_bytes = *at - r->net.params;
}

/* Weights, optimizer, gradients. */
static void
place_values(struct replica *r, const struct shape *s, uint64_t *at)
{
	uint64_t nbytes = task_values(s->task) * sizeof(float);

	r->stamp = s->kept ? emit_take(at, sizeof(uint64_t)) : 0;
	replica_live(r, s->task, at);
	r->kept[0] = s->kept ? emit_take(at, r->live_bytes) : 0;
	r->kept[1] = s->kept ? emit_take(at, r->live_bytes) : 0;
	r->net.grads = emit_take(at, nbytes + sizeof(float)); /* also the loss of a leaf */
	compress_place_scratch(r, s, at);
	if (s->leaf) {
		nbytes = leaves_elements(s->task) * sizeof(int64_t);
		r->sums = r->totals = emit_take(at, nbytes);
	}
	if (s->verify) {
		r->aside = emit_take(at, nbytes);
		if (!s->inbox)
			r->totals = emit_take(at, nbytes);
		r->samples_of = emit_take(at, VERIFY_SAMPLES * sizeof(uint32_t));
		r->before = emit_take(at, VERIFY_SAMPLES * sizeof(int64_t));
		r->after = emit_take(at, VERIFY_SAMPLES * sizeof(int64_t));
	}
	r->inbox = s->inbox ? emit_take(at, nbytes) : 0;
}

static uint64_t
place(struct replica *r, const struct shape *s, uint64_t base)
{
	const struct dataset *data = &s->task->data;
	uint64_t at = base, item = dataset_item_bytes(data);

	if (s->layout) {
		r->spread = emit_take(&at, s->layout->bytes);
	} else {
		place_values(r, s, &at);
		at +=
		    emit_place(&r->net, &s->task->net, GPUSIM_F32, s->max_rows, at, EMIT_BACKWARD);
	}
	r->samples = emit_take(&at, s->held * item);
	r->order = emit_take(&at, s->train_items * sizeof(uint32_t));
	if (s->augment) {
		r->draws = emit_take(&at, s->train_items * sizeof(uint32_t));
		r->crops = emit_take(&at, s->max_rows * dataset_item_size(data) * sizeof(float));
	}
	r->labels = emit_take(&at, s->train_items);
	r->scale = emit_take(&at, data->channels * sizeof(float));
	r->shift = emit_take(&at, data->channels * sizeof(float));
	r->lr = emit_take(&at, s->train_steps * sizeof(float));
	for (unsigned p = 0; p < NTESTS; p++) {
		r->tests[p] = emit_take(&at, s->test_items[p] * item);
		r->test_labels[p] = emit_take(&at, s->test_items[p]);
		r->right[p] = emit_take(&at, s->test_steps[p] * sizeof(uint64_t));
	}
	r->losses = emit_take(&at, s->train_steps * sizeof(float));
	return at - base;
}

uint64_t
replica_bytes(const struct shape *s)
{
	struct replica r = {0};

	return place(&r, s, 0);
}

void
replica_place(struct replica *r, const struct shape *s, struct gpusim_device device, uint64_t base)
{
	*r = (struct replica){.device = device, .base = base, .owned = true};
	place(r, s, base);
}

uint64_t
replica_floats(const struct replica *r)
{
	return (r->adam_step - r->net.params) / sizeof(float);
}

void
replica_keep(struct gpusim_ops *o, uint32_t rank, const struct replica *r, unsigned which)
{
	gpusim_ops_copy(o, rank, STREAM_COMPUTE, (struct gpusim_addr){r->kept[which]},
			(struct gpusim_addr){r->net.params}, r->live_bytes);
}

void
replica_restore(struct gpusim_ops *o, uint32_t rank, const struct replica *r, unsigned which)
{
	gpusim_ops_copy(o, rank, STREAM_COMPUTE, (struct gpusim_addr){r->net.params},
			(struct gpusim_addr){r->kept[which]}, r->live_bytes);
}

void
replica_normalise(const struct emit_sink *sink, uint32_t rank, const struct task *task,
		  const struct emit_place *net, uint64_t scale, uint64_t shift, uint64_t rows)
{
	const struct dataset *data = &task->data;

	LAUNCH(sink, rank, "affine", U("x", net->x), U("dtype", net->dtype), U("scale", scale),
	       U("shift", shift), U("rows", rows), U("c", data->channels),
	       U("hw", (uint64_t)data->rows * data->cols));
}

/* Each channel has its own factor and summand, unless one factor applies to all. */
static void
normalise(const struct emit_sink *sink, uint32_t rank, const struct replica *r,
	  const struct shape *s, uint64_t rows)
{
	double scale;

	if (!task_scale(s->task, &scale))
		replica_normalise(sink, rank, s->task, &r->net, r->scale, r->shift, rows);
}

/* The factor for all channels, or 1 if normalisation follows. */
static double
common_scale(const struct shape *s)
{
	double scale;

	return task_scale(s->task, &scale) ? scale : 1;
}

/* Samples from one iteration to the next. */
static uint64_t
advance(const struct batch *b)
{
	return !b->moving ? 0 : b->stride ? b->stride : b->rows;
}

/* The picked images become the net's input. */
static void
augment(const struct emit_sink *sink, uint32_t rank, const struct replica *r, const struct shape *s,
	const struct batch *b)
{
	const struct dataset *data = &s->task->data;

	LAUNCH(sink, rank, "augment", U("dst", r->net.x), U("src", r->crops),
	       MOVES("how", r->draws + b->first * sizeof(uint32_t), advance(b) * sizeof(uint32_t)),
	       U("n", b->rows), U("c", data->channels), U("h", data->rows), U("w", data->cols),
	       U("pad", AUGMENT_PAD), U("dtype", r->net.dtype));
}

void
replica_load(const struct emit_sink *sink, uint32_t rank, const struct replica *r,
	     const struct shape *s, const struct batch *b)
{
	LAUNCH(
	    sink, rank, "gather", U("dst", s->augment ? r->crops : r->net.x), U("src", r->samples),
	    MOVES("index", r->order + b->first * sizeof(uint32_t), advance(b) * sizeof(uint32_t)),
	    U("n", b->rows), U("rows", s->held), U("cols", dataset_item_size(&s->task->data)),
	    U("dtype", s->task->data.dtype), U("to", r->net.dtype), F("scale", common_scale(s)));
	if (s->augment)
		augment(sink, rank, r, s, b);
	normalise(sink, rank, r, s, b->rows);
}

void
replica_load_tests(const struct emit_sink *sink, uint32_t rank, const struct replica *r,
		   const struct shape *s, const struct batch *b, unsigned part)
{
	uint64_t item = dataset_item_bytes(&s->task->data);

	LAUNCH(sink, rank, "cast", U("dst", r->net.x),
	       MOVES("src", r->tests[part] + b->first * item, advance(b) * item),
	       U("n", b->rows * dataset_item_size(&s->task->data)), U("from", s->task->data.dtype),
	       U("to", r->net.dtype), F("scale", common_scale(s)));
	normalise(sink, rank, r, s, b->rows);
}

struct emit_target
replica_target(const struct replica *r, const struct batch *b, double grad_scale)
{
	return (struct emit_target){.labels = r->labels + b->first,
				    .labels_step = advance(b),
				    .loss = r->losses + b->step * sizeof(float),
				    .loss_step = b->moving ? sizeof(float) : 0,
				    .grad_scale = grad_scale};
}

struct emit_target
replica_test_target(const struct replica *r, const struct batch *b, unsigned part)
{
	return (struct emit_target){.labels = r->test_labels[part] + b->first,
				    .labels_step = advance(b),
				    .loss = r->right[part] + b->step * sizeof(uint64_t),
				    .loss_step = b->moving ? sizeof(uint64_t) : 0};
}

struct emit_optimizer
replica_optimizer(const struct replica *r, const struct shape *s, const struct batch *b)
{
	const struct train_config *c = s->task->config;
	bool follows = c->schedule.kind != LR_CONSTANT;

	return (struct emit_optimizer){
	    .kind = c->optimizer,
	    .lr = c->lr,
	    .momentum = c->momentum,
	    .weight_decay = c->weight_decay,
	    .lr_at = follows ? r->lr + b->step * sizeof(float) : 0,
	    .lr_step = follows && b->moving ? sizeof(float) : 0,
	    .state = {r->state[0], r->state[1]},
	    .count = r->adam_step,
	};
}

void
replica_join(struct gpusim_ops *o, uint32_t rank, unsigned number, struct gpusim_stream from,
	     struct gpusim_stream to)
{
	const struct gpusim_event event = {EVENT_BASE + number};

	gpusim_ops_record(o, rank, from, event);
	gpusim_ops_wait(o, rank, to, event);
}
