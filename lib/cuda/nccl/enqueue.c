/*
 * Appends operations to a stream's queue.
 *
 * Design notes. A burst is the commands of one launch. cudart owns it until it calls recycle, at
 * once or with the graph that captured it, on any thread. Each thread keeps one small burst, so
 * that a call does not allocate.
 */
#include <stdlib.h>

#include "base/buf.h"
#include "nccl/nccl_impl.h"

#define SMALL 4

struct burst {
	size_t n, ncopies; /* copies come first */
	struct cmdq_bind **bind;
	struct cmdq_command *c;
	bool small;
	struct cmdq_bind *small_bind[SMALL];
	struct cmdq_command small_c[SMALL];
};

static pthread_key_t spare_key;
static pthread_once_t spare_once = PTHREAD_ONCE_INIT;
static __thread struct burst *spare;
static __thread bool spare_known;

static void
forget_spare(void *burst)
{
	(void)burst;
	free(spare);
	spare = NULL;
}

static void
make_key(void)
{
	pthread_key_create(&spare_key, forget_spare);
}

static void
recycle(void *arg)
{
	struct burst *b = arg;

	if (!b->small) {
		free(b->bind);
		free(b->c);
	} else if (!spare) {
		spare = b;
		if (!spare_known) {
			pthread_once(&spare_once, make_key);
			spare_known = pthread_setspecific(spare_key, &spare_known) == 0;
		}
		return;
	}
	free(b);
}

static struct burst *
take(size_t n)
{
	struct burst *b = spare;

	spare = NULL;
	if (!b)
		b = malloc(sizeof *b);
	if (!b)
		return NULL;
	b->n = n;
	b->ncopies = 0;
	b->small = n <= SMALL;
	b->bind = b->small ? b->small_bind : alloc_zeroed(n, sizeof *b->bind);
	b->c = b->small ? b->small_c : alloc_zeroed(n, sizeof *b->c);
	if (b->bind && b->c)
		return b;
	recycle(b);
	return NULL;
}

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

static void
add(struct burst *b, size_t *n, const struct nccl_op *op)
{
	b->bind[*n] = op->comm->bind;
	b->c[*n] = op->c;
	++*n;
}

ncclResult_t
nccl_enqueue(const struct nccl_op *op, size_t n)
{
	struct burst *b = take(n);
	size_t filled = 0;
	cudaError_t e;

	if (!b)
		return nccl_fail(ncclSystemError, "out of memory");
	for (size_t i = 0; i < n; i++)
		if (op[i].c.kind == CMDQ_COPY)
			add(b, &filled, &op[i]);
	b->ncopies = filled;
	for (size_t i = 0; i < n && filled < n; i++)
		if (op[i].c.kind != CMDQ_COPY)
			add(b, &filled, &op[i]);
	e = gpusim_cuda_enqueue(op->stream, op->ordinal, append, b, recycle);
	return e == cudaSuccess ? ncclSuccess : nccl_fail_cuda(e, "Enqueue");
}
