/*
 * remap.c - rewrites a submit of n ranks for the remaining ranks.
 *
 * An all-reduce is repeated over the remaining ranks. An operation that is meaningless without the lost
 * rank (its own send, its part of a scatter) is refused, and its caller has to decide.
 */
#include "coord/run/run_impl.h"

#include "mem/dtype.h"

static enum rc
no_meaning(const GpuSim__Coll *k, const char *why, struct err *err)
{
	return err_set(err, RC_RECOVERED, "%s was not run again: %s",
		       coll_name((enum gpusim_coll)k->coll), why);
}

/* Each rank has a part of the vector: fewer ranks mean fewer parts. */
static enum rc
remap_parts_of_vector(GpuSim__Coll *k, uint32_t from, uint32_t left, struct err *err)
{
	size_t elem = dtype_size((enum gpusim_dtype)k->dtype);
	uint64_t part = k->nelem / from;

	if (k->coll != GPU_SIM__COLLECTIVE__ALLGATHER && k->coll != GPU_SIM__COLLECTIVE__GATHER)
		return no_meaning(k, "a part of its vector belongs to the lost rank", err);
	if (k->n_counts || part * from != k->nelem)
		return no_meaning(k, "its parts are uneven", err);
	if (part && k->sendaddr < k->recvaddr + k->nelem * elem &&
	    k->recvaddr < k->sendaddr + part * elem)
		return no_meaning(k, "its in-place parts depend on a rank's number", err);
	k->nelem = part * left;
	return RC_OK;
}

static enum rc
remap_coll(GpuSim__Coll *k, const uint32_t *to, uint32_t from, uint32_t left, struct err *err)
{
	k->opoffset = k->p2p = 0;
	if (k->n_members)
		return no_meaning(k, "it has members by their numbers", err);
	switch (k->coll) {
	case GPU_SIM__COLLECTIVE__ALLREDUCE:
	case GPU_SIM__COLLECTIVE__BARRIER:
		k->root = 0; /* not used here */
		return RC_OK;
	case GPU_SIM__COLLECTIVE__ALLGATHER:
	case GPU_SIM__COLLECTIVE__REDUCESCATTER:
	case GPU_SIM__COLLECTIVE__ALLTOALL:
		k->root = 0;
		return remap_parts_of_vector(k, from, left, err);
	default:
		break;
	}
	if (k->root >= from || to[k->root] == RANK_LEAVES)
		return no_meaning(k, is_sendrecv(k) ? "its peer is lost" : "its root is lost", err);
	k->root = to[k->root];
	if (k->coll == GPU_SIM__COLLECTIVE__GATHER || k->coll == GPU_SIM__COLLECTIVE__SCATTER)
		return remap_parts_of_vector(k, from, left, err);
	return RC_OK;
}

static enum rc
remap_submit(GpuSim__SubmitRequest *s, const uint32_t *to, uint32_t from, uint32_t left,
	     struct err *err)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_ranks; i++) {
		GpuSim__RankOps *r = s->ranks[i];

		if (r->rank >= from || to[r->rank] == RANK_LEAVES) {
			gpu_sim__rank_ops__free_unpacked(r, NULL);
			continue;
		}
		r->rank = to[r->rank];
		s->ranks[n++] = r;
	}
	s->n_ranks = n;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < s->ranks[i]->n_ops; k++) {
			GpuSim__Op *op = s->ranks[i]->ops[k];

			if (op->kind_case == GPU_SIM__OP__KIND_COLL &&
			    remap_coll(op->coll, to, from, left, err) != RC_OK)
				return err->rc;
		}
	return RC_OK;
}

enum rc
remap_parts(struct group_part *parts, const uint32_t *to, uint32_t from, uint32_t left,
	    struct err *err)
{
	enum rc rc = RC_OK;

	for (; rc == RC_OK && parts; parts = parts->next) {
		GpuSim__SubmitRequest *s = part_unpack(parts);
		struct buf packed = {0};

		if (!s)
			return err_set(err, RC_NOMEM, "out of memory");
		rc = remap_submit(s, to, from, left, err);
		if (rc == RC_OK && !buf_pack(&packed, &s->base))
			rc = err_set(err, RC_NOMEM, "out of memory");
		if (rc == RC_OK) {
			buf_fini(&parts->packed);
			parts->packed = packed;
		}
		gpu_sim__submit_request__free_unpacked(s, NULL);
	}
	return rc;
}
