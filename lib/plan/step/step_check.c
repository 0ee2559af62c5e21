/* step_check.c - the numbers that a step may have. */
#include <stdio.h>

#include "base/buf.h"
#include "step/step_impl.h"

#define MOST_TRIED    100000 /* divisors */
#define MOST_ELEMENTS 1e15   /* of an activation */

enum rc
step_refuse(struct err *err, uint32_t of, const char *what, const char *can)
{
	struct buf list = {0};
	unsigned n = 0;

	for (uint32_t i = 1; i <= of && i < MOST_TRIED && n < 16; i++)
		if (of % i == 0)
			(void)buf_addf(&list, "%s%u", n++ ? ", " : "", i);
	err_set(err, RC_INVAL, "%s; %s can be %s%s", what, can, list.data ? list.data : "1",
		n == 16 || of >= MOST_TRIED ? ", ..." : "");
	buf_fini(&list);
	return RC_INVAL;
}

static enum rc
check_batch(const struct step_ask *a, struct err *err)
{
	char what[200], can[64];

	snprintf(what, sizeof what, "batch %u is not a multiple of dp %u x micro-batch %u",
		 a->batch, a->dp, a->micro);
	if (a->batch % a->dp)
		return step_refuse(err, a->batch, what, "dp");
	snprintf(can, sizeof can, "with dp %u micro-batch", a->dp);
	if (a->batch / a->dp % a->micro)
		return step_refuse(err, a->batch / a->dp, what, can);
	return RC_OK;
}

enum rc
step_check(const struct step_ask *a, struct err *err)
{
	const uint32_t all[] = {a->layers, a->hidden, a->heads, a->seq, a->vocab,     a->batch,
				a->micro,  a->tp,     a->pp,	a->dp,	a->interleave};
	char what[200];

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!all[i])
			return err_set(err, RC_INVAL,
				       "a size of the model, of the batch or of a group is 0");
	if ((double)a->tp * a->pp * a->dp > CLUSTER_MAX_GPUS)
		return err_set(err, RC_INVAL, "tp %u x pp %u x dp %u are more than %d GPUs", a->tp,
			       a->pp, a->dp, CLUSTER_MAX_GPUS);
	snprintf(what, sizeof what, "heads %u do not divide hidden %u", a->heads, a->hidden);
	if (a->hidden % a->heads)
		return step_refuse(err, a->hidden, what, "heads");
	snprintf(what, sizeof what, "tp %u does not divide the %u heads", a->tp, a->heads);
	if (a->heads % a->tp)
		return step_refuse(err, a->heads, what, "tp");
	snprintf(what, sizeof what,
		 "tp %u does not divide the sequence of %u, which sequence parallelism splits",
		 a->tp, a->seq);
	if (a->sequence_parallel && a->seq % a->tp)
		return step_refuse(err, a->seq, what, "tp");
	if ((double)a->seq * a->micro * a->hidden > MOST_ELEMENTS ||
	    (double)a->hidden * a->vocab > MOST_ELEMENTS ||
	    12.0 * a->layers * a->hidden * a->hidden > MOST_ELEMENTS)
		return err_set(
		    err, RC_INVAL,
		    "more than 10^15 parameters, or micro-batch x seq x hidden is more than 10^15");
	return check_batch(a, err);
}
