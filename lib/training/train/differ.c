#include "train/differ.h"
#include "base/must.h"

static const char *const reasons[] = {
    "each worker trains alone between two averages of the weights",
    "gradients of older weights count",
    "gradients of any older weights count, and no two runs are the same",
    "batch norm is over each worker's own samples",
    "the number of samples a step differs",
};

/* Gradients of one update of a parameter server. */
static uint32_t
gradients(const struct train_config *c, uint32_t workers)
{
	return c->ps_aggregate ? c->ps_aggregate : workers;
}

unsigned
differ_of(const struct train_config *c, uint32_t workers, bool batchnorm)
{
	unsigned differs = 0;

	if (c->sync == SYNC_LOCAL && workers > 1)
		differs = DIFFER_AVERAGED | (batchnorm ? DIFFER_BATCHNORM : 0);
	if (c->sync != SYNC_PS)
		return differs;
	if (batchnorm && gradients(c, workers) > 1)
		differs |= DIFFER_BATCHNORM;
	if (c->staleness)
		differs |= c->staleness == STALENESS_ASYNC ? DIFFER_ASYNC : DIFFER_STALE;
	return differs;
}

void
differ_text(unsigned differs, struct buf *out)
{
	const char *between = "";

	for (unsigned i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
		if (differs & 1u << i) {
			must_addf(out, "%s%s", between, reasons[i]);
			between = "; ";
		}
}
