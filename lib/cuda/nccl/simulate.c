/* ncclGroupSimulateEnd: times from the cost model. */
#include "coll/tune.h"
#include "nccl/nccl_impl.h"

static double
cost(const struct tuner *t, const struct nccl_op *op)
{
	enum tune_transport transport = (enum tune_transport)nccl_comm_transport(op->comm);
	const struct cost_model *m = &t->model[transport];
	struct tune_ask ask = {.args = {.coll = (enum gpusim_coll)op->c.coll,
					.dtype = (enum gpusim_dtype)op->c.dtype,
					.redop = (enum gpusim_redop)op->c.redop,
					.nranks = op->comm->nranks,
					.nelem = op->c.u.coll.count},
			       .transport = transport};
	struct tune_answer answer;

	if (op->c.kind == CMDQ_COPY)
		return m->gamma_us * (double)op->c.u.bytes.nbytes;
	if (op->c.kind == CMDQ_SENDRECV)
		return m->alpha_us + m->beta_us * (double)op->nbytes;
	if (tuner_choose(t, &ask, &answer, NULL) != RC_OK || !(answer.us > 0))
		return m->gamma_us * (double)plan_args_bytes(&ask.args);
	return answer.us;
}

/* Devices work concurrently; operations of one device run one after the other. */
float
nccl_simulate(const struct nccl_op *op, size_t n)
{
	double longest = 0;
	struct tuner t;

	tuner_init(&t);
	for (size_t i = 0; i < n; i++) {
		double sum = 0;

		for (size_t k = 0; k < n; k++)
			if (op[k].ordinal == op[i].ordinal)
				sum += cost(&t, &op[k]);
		if (sum > longest)
			longest = sum;
	}
	tuner_fini(&t);
	return (float)longest;
}
