#include "server.h"

#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "client/recorder.h"
#include "nn/rng.h"
#include "train/model.h"

void
publisher_init(struct publisher *p, struct gpusim *g, const struct task *task)
{
	uint64_t state = clock_now_ns() ^ (uint64_t)getpid() << 40;

	*p = (struct publisher){.g = g, .task = task, .training = splitmix64(&state) | 1};
}

void
publisher_put(void *arg, uint64_t version, const float *values)
{
	struct publisher *p = arg;
	struct npz_array arrays[MODEL_MAX_ARRAYS];
	struct buf bytes = {0}, text = {0};
	struct err err = {0};
	unsigned n;
	enum rc rc;

	if (p->off)
		return;
	n = model_arrays(p->task, values, &text, arrays);
	rc = npz_pack(arrays, n, &bytes, &err);
	if (rc == RC_OK)
		rc = (enum rc)gpusim_model_put(p->g, p->training, version, bytes.data, bytes.len);
	p->off = rc == RC_INVAL;
	p->version = version;
	/* For a coordinator that is away, training waits or ends with a message of its own. */
	if (rc != RC_OK && rc != RC_INVAL && rc != RC_UNREACHABLE)
		log_line(LOG_WARN, "cannot publish the model: %s",
			 err.rc ? err.text : gpusim_error());
	buf_fini(&bytes);
	buf_fini(&text);
}

void
publisher_epoch(struct publisher *p, uint32_t epoch, const struct epoch *e)
{
	const struct train_config *o = p->task->config;
	const struct client_training t = {.training = p->training,
					  .name = p->task->net.text,
					  .epoch = epoch,
					  .epochs = o->epochs,
					  .step = p->version,
					  .loss = e->loss,
					  .accuracy = e->accuracy,
					  .rate = e->images_per_s};

	if (!p->off)
		client_training_put(p->g, &t);
}
