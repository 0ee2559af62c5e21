/*
 * Appends operations to a stream's queue.
 *
 * Design notes. A burst is the commands of one launch. cudart owns it until it frees it, at once or with the
 * graph that captured it, on any thread.
 */
#include <stdlib.h>

#include "nccl/nccl_impl.h"

struct burst {
	size_t n, ncopies; /* copies come first */
	struct cmdq_bind **bind;
	struct cmdq_command c[];
};

static enum gpusim_rc
append(void *arg, struct cmdq *q)
{
	struct burst *b = arg;
	enum gpusim_rc rc = GPUSIM_OK;

	if (b->ncopies)
		rc = cmdq_append(q, b->c, b->ncopies, NULL);
	if (rc == GPUSIM_OK && b->n > b->ncopies)
		rc = cmdq_append_colls(q, b->bind + b->ncopies, b->c + b->ncopies,
				       b->n - b->ncopies, NULL);
	return rc;
}

ncclResult_t
nccl_enqueue(const struct nccl_op *op, size_t n)
{
	struct burst *b = malloc(sizeof *b + n * (sizeof *b->c + sizeof *b->bind));
	size_t filled = 0;
	cudaError_t e;

	if (!b)
		return nccl_fail(ncclSystemError, "out of memory");
	b->n = n;
	b->bind = (struct cmdq_bind **)&b->c[n];
	for (int copies = 1; copies >= 0; copies--) {
		for (size_t i = 0; i < n; i++)
			if ((op[i].c.kind == CMDQ_COPY) == copies) {
				b->bind[filled] = op[i].comm->bind;
				b->c[filled++] = op[i].c;
			}
		if (copies)
			b->ncopies = filled;
	}
	e = gpusim_cuda_enqueue(op->stream, op->ordinal, append, b, free);
	return e == cudaSuccess ? ncclSuccess : nccl_fail_cuda(e, "Enqueue");
}
