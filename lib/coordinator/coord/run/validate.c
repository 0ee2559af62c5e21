/*
 * validate.c - checks the arguments of operations before any device gets them. The device checks its
 * kernels and copies.
 */
#include "coord/run/run_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mem/dtype.h"
#include "mem/redop.h"

#include "coll/parts.h"
#include "coll/shape.h"
#include "wire/frame.h"

#define MAX_STREAMS 64

struct plan_args
run_args(const struct comm *comm, uint32_t rank, const GpuSim__Coll *k)
{
	struct plan_args a = {.coll = (enum gpusim_coll)k->coll,
			      .dtype = (enum gpusim_dtype)k->dtype,
			      .redop = (enum gpusim_redop)k->redop,
			      .rank = member_place(k, rank),
			      .nranks = k->n_members ? (uint32_t)k->n_members : comm_nranks(comm),
			      .root = k->root,
			      .nelem = k->nelem};

	a.canonical = k->deterministic && plan_args_ordered(&a);
	return a;
}

static enum rc
check_buffer(const struct device *d, const char *field, uint64_t addr, uint64_t nelem, size_t size,
	     struct err *err)
{
	uint64_t min, max;

	device_range(d, &min, &max);
	if (nelem == 0)
		return RC_OK;
	if (addr == 0)
		return err_set(err, RC_INVAL, "%s is not given", field);
	if (nelem > (max - min) / size || addr < min || addr > max - nelem * size)
		return err_set(err, RC_INVAL,
			       "%s 0x%" PRIx64 ", %" PRIu64
			       " elements of %zu bytes: outside the device's memory 0x%" PRIx64
			       "..0x%" PRIx64,
			       field, addr, nelem, size, min, max);
	return RC_OK;
}

static enum rc
check_shape(const GpuSim__Coll *k, uint32_t nranks, uint32_t rank, struct err *err)
{
	if (k->root >= nranks)
		return err_set(err, RC_INVAL, "%s %u: %s %u %s", is_sendrecv(k) ? "peer" : "root",
			       k->root, k->n_members ? "there are" : "the communicator has", nranks,
			       k->n_members ? "members" : "ranks");
	if (is_sendrecv(k) && k->root == rank)
		return err_set(err, RC_INVAL, "the peer is the rank itself");
	if ((uint32_t)k->coll == GPUSIM_BARRIER && k->nelem != 0)
		return err_set(err, RC_INVAL, "nelem is %" PRIu64 "; a barrier needs 0", k->nelem);
	if ((uint32_t)k->coll == GPUSIM_ALLTOALL && !k->n_counts && k->nelem % nranks != 0)
		return err_set(err, RC_INVAL, "nelem %" PRIu64 " is not a multiple of %u ranks",
			       k->nelem, nranks);
	return RC_OK;
}

/* No algorithm named, or "auto". */
static bool
open_algo(const GpuSim__Coll *k)
{
	return !*k->algo || strcmp(k->algo, "auto") == 0;
}

/* Check the table of parts, if any, and the ranges that the rank reads and writes. */
static enum rc
check_parts(const GpuSim__Coll *k, const struct plan_algo *algo, struct plan_args a,
	    struct shape *shape, struct err *err)
{
	const struct parts_given counts = {k->counts, k->displs, k->n_counts, k->n_displs};
	const struct parts_given recv_counts = {k->recvcounts, k->recvdispls, k->n_recvcounts,
						k->n_recvdispls};
	struct plan_part *parts;
	enum rc rc = parts_take(&a, &counts, &recv_counts, &parts, err);

	if (rc == RC_OK && a.nelem != k->nelem)
		rc = err_set(err, RC_INVAL,
			     "nelem is %" PRIu64 ", but its counts add up to %" PRIu64, k->nelem,
			     a.nelem);
	if (rc == RC_OK && !open_algo(k))
		rc = plan_algo_takes(algo, &a, err);
	if (rc == RC_OK)
		*shape = shape_of_args(&a);
	free(parts);
	return rc;
}

bool
algo_outgrown(const struct comm *comm, const struct tune_file *f)
{
	return f && comm_has_shrunk(comm) && f->nranks > comm_nranks(comm);
}

/* Check that the algorithm is built in, or from a file and fits. */
static enum rc
check_algo(const struct comm *comm, const struct tune_files *files, const GpuSim__Coll *k,
	   const struct plan_args *a, const struct plan_algo **algo, struct err *err)
{
	const struct tune_file *f = tune_file_find(files, k->algo);
	const struct tune_ask ask = {.args = *a, .parts = k->n_counts > 0};
	struct buf names = {0};
	struct err why;

	if (f && !algo_outgrown(comm, f)) {
		*algo = &plan_algo_file;
		return tune_file_check(f, &ask, err);
	}
	if (plan_algo_find(a->coll, f ? NULL : k->algo, algo, err) == RC_OK)
		return RC_OK;
	/* *err lists the built-in ones; add those from files. */
	for (size_t i = 0; i < files->n; i++)
		if (files->v[i].coll == a->coll)
			buf_addf(&names, "%s%s", names.len ? ", " : "", files->v[i].name);
	why = *err;
	if (names.len)
		err_set(err, why.rc, "%s; from files: %s", why.text, names.data);
	buf_fini(&names);
	return err->rc;
}

static enum rc
check_coll(const struct comm *comm, const struct tune_files *files, uint32_t rank,
	   const GpuSim__Coll *k, struct err *err)
{
	const struct device *d = comm_device(comm, rank);
	size_t size = dtype_size((enum gpusim_dtype)k->dtype);
	const struct plan_algo *algo;
	struct plan_args a;
	struct shape shape;
	enum rc rc;

	if ((uint32_t)k->coll >= GPUSIM_NCOLLS)
		return err_set(err, RC_INVAL, "unknown collective number %u: must be less than %u",
			       (uint32_t)k->coll, GPUSIM_NCOLLS);
	if (!size)
		return err_set(err, RC_INVAL, "unknown data type number %u: must be less than %u",
			       (uint32_t)k->dtype, GPUSIM_NDTYPES);
	if ((uint32_t)k->redop >= GPUSIM_NREDOPS)
		return err_set(err, RC_INVAL, "unknown reduction number %u: must be less than %u",
			       (uint32_t)k->redop, GPUSIM_NREDOPS);
	if (k->schedule.len || k->scheduleof)
		return err_set(err, RC_INVAL, "a call must not bring its own schedule");
	if (members_check(k, comm_nranks(comm), rank, err) != RC_OK)
		return err_prefix(err, "%s", coll_name((enum gpusim_coll)k->coll));
	a = run_args(comm, rank, k);
	if (coll_reduces(a.coll) && redop_check(a.redop, a.dtype, err) != RC_OK)
		return err_prefix(err, "%s", coll_name(a.coll));
	rc = check_algo(comm, files, k, &a, &algo, err);
	if (rc == RC_OK && a.nranks > 1 && !comm_by_memory(comm) && plan_algo_mapped(algo))
		rc = err_set(err, RC_INVAL,
			     "algorithm %s needs peer memory between all ranks, but some ranks of "
			     "comm %" PRIu64 " use sockets",
			     algo->name, comm_id(comm));
	if (rc == RC_OK && comm_recovers(comm) && *k->algo && plan_algo_stores(algo))
		rc = err_set(err, RC_INVAL,
			     "algorithm %s writes to peers' memory, in which comm %" PRIu64
			     " could not stop a lost rank",
			     algo->name, comm_id(comm));
	if (rc == RC_OK && a.canonical && a.nranks > 1 && !open_algo(k) && algo != &plan_algo_file)
		rc = plan_algo_check_canonical(algo, err);
	if (rc != RC_OK)
		return rc;
	rc = check_shape(k, a.nranks, rank, err);
	if (rc == RC_OK)
		rc = check_parts(k, algo, a, &shape, err);
	if (rc == RC_OK)
		rc = check_buffer(d, "sendAddr", k->sendaddr, shape.in, size, err);
	if (rc == RC_OK)
		rc = check_buffer(d, "recvAddr", k->recvaddr, shape.out, size, err);
	if (rc == RC_OK)
		rc = shape_place(&shape, k->sendaddr, k->recvaddr, size, err);
	if (rc == RC_OK && k->chunkbytes > FRAME_PAYLOAD_MAX)
		rc = err_set(err, RC_INVAL, "chunk of %" PRIu64 " bytes: the limit is %u",
			     k->chunkbytes, FRAME_PAYLOAD_MAX);
	return rc == RC_OK ? rc : err_prefix(err, "%s", coll_name(a.coll));
}

static enum rc
check_rank(const struct comm *comm, const struct tune_files *files, const GpuSim__RankOps *r,
	   uint8_t *seen, struct err *err)
{
	if (r->rank >= comm_nranks(comm))
		return err_set(err, RC_INVAL, "rank %u: communicator %" PRIu64 " has %u ranks",
			       r->rank, comm_id(comm), comm_nranks(comm));
	if (seen[r->rank]++)
		return err_set(err, RC_INVAL, "rank %u is named twice", r->rank);
	if (r->n_ops > WIRE_MAX_OPS)
		return err_set(err, RC_INVAL, "rank %u: %zu operations: the limit is %u", r->rank,
			       r->n_ops, WIRE_MAX_OPS);
	for (size_t i = 0; i < r->n_ops; i++) {
		const GpuSim__Op *op = r->ops[i];
		enum rc rc = RC_OK;

		if (op->stream >= MAX_STREAMS)
			rc = err_set(err, RC_INVAL, "stream %u: the last one is %u", op->stream,
				     MAX_STREAMS - 1);
		else if (op->kind_case == GPU_SIM__OP__KIND__NOT_SET)
			rc = err_set(err, RC_INVAL, "an operation of an unknown kind");
		else if (op->kind_case == GPU_SIM__OP__KIND_COLL)
			rc = check_coll(comm, files, r->rank, op->coll, err);
		if (rc != RC_OK)
			return err_prefix(err, "rank %u operation %zu", r->rank, i);
	}
	if (r->n_ops && device_is_lost(comm_device(comm, r->rank)) && !comm_recovers(comm))
		return comm_rank_lost(comm, r->rank, err);
	return RC_OK;
}

/* The ranks' counts may differ. */
static bool
own_counts(const GpuSim__Coll *k)
{
	return (uint32_t)k->coll == GPUSIM_ALLTOALL && k->n_counts;
}

/* Check that both ranks give the same array. */
static enum rc
check_same_list(const char *what, const uint64_t *a, const uint64_t *b, size_t n, uint32_t ra,
		uint32_t rb, struct err *err)
{
	for (size_t i = 0; i < n; i++)
		if (a[i] != b[i])
			return err_set(err, RC_INVAL,
				       "the %s of rank %zu is %" PRIu64 " on rank %u and %" PRIu64
				       " on rank %u",
				       what, i, a[i], ra, b[i], rb);
	return RC_OK;
}

/* Check that a rank gives a collective as the first one did. */
static enum rc
check_same(const struct met_coll *e, uint32_t rb, const GpuSim__Coll *b, struct err *err)
{
	const GpuSim__Coll *a = e->coll;
	const struct {
		const char *name;
		uint64_t a, b;
	} field[] = {
	    {"dtype", (uint32_t)a->dtype, (uint32_t)b->dtype},
	    {"redop", (uint32_t)a->redop, (uint32_t)b->redop},
	    {"nelem", own_counts(a) ? 0 : a->nelem, own_counts(b) ? 0 : b->nelem},
	    {"number of counts", a->n_counts, b->n_counts},
	    {"number of displacements", own_counts(a) ? 0 : a->n_displs,
	     own_counts(b) ? 0 : b->n_displs},
	    {"root", a->root, b->root},
	    {"chunkBytes", a->chunkbytes, b->chunkbytes},
	    {"deterministic", a->deterministic, b->deterministic},
	};
	const char *name = coll_name((enum gpusim_coll)a->coll);
	char of[MEMBERS_TEXT];

	members_text(a, of);
	if (a->coll != b->coll)
		return err_set(err, RC_INVAL, "collective %zu%s is %s on rank %u and %s on rank %u",
			       e->nth, of, name, e->rank, coll_name((enum gpusim_coll)b->coll), rb);
	if (strcmp(a->algo, b->algo) != 0 && !(open_algo(a) && open_algo(b)))
		return err_set(err, RC_INVAL,
			       "collective %zu%s (%s): algo is '%s' on rank %u and '%s' on rank %u",
			       e->nth, of, name, a->algo, e->rank, b->algo, rb);
	if (strcmp(a->group, b->group) != 0)
		return err_set(
		    err, RC_INVAL,
		    "collective %zu%s (%s): group is '%s' on rank %u and '%s' on rank %u", e->nth,
		    of, name, a->group, e->rank, b->group, rb);
	for (size_t f = 0; f < sizeof field / sizeof *field; f++)
		if (field[f].a != field[f].b)
			return err_set(err, RC_INVAL,
				       "collective %zu%s (%s): %s is %" PRIu64
				       " on rank %u and %" PRIu64 " on rank %u",
				       e->nth, of, name, field[f].name, field[f].a, e->rank,
				       field[f].b, rb);
	if (own_counts(a))
		return RC_OK;
	if (check_same_list("count", a->counts, b->counts, a->n_counts, e->rank, rb, err) !=
		RC_OK ||
	    check_same_list("displacement", a->displs, b->displs, a->n_displs, e->rank, rb, err) !=
		RC_OK)
		return err_prefix(err, "collective %zu%s (%s)", e->nth, of, name);
	return RC_OK;
}

/* In alltoall with counts, check that ranks receive what peers send. */
static enum rc
check_matrix(const struct met_coll *e, struct err *err)
{
	const GpuSim__Coll *const *of = e->of;
	char text[MEMBERS_TEXT];

	for (size_t r = 0; of && r < e->nranks; r++)
		for (size_t q = 0; q < e->nranks; q++)
			if (of[r]->counts[q] != of[q]->recvcounts[r])
				return err_set(
				    err, RC_INVAL,
				    "collective %zu%s (alltoall): rank %zu sends %" PRIu64
				    " elements to rank %zu, which receives %" PRIu64,
				    e->nth, members_text(e->coll, text), r, of[r]->counts[q], q,
				    of[q]->recvcounts[r]);
	return RC_OK;
}

/* The collectives of a set that a rank of the submit has. */
static size_t
count_colls(const GpuSim__SubmitRequest *s, uint32_t rank, const GpuSim__Coll *of)
{
	size_t n = 0;

	for (size_t k = 0; k < s->n_ranks; k++)
		for (size_t i = 0; s->ranks[k]->rank == rank && i < s->ranks[k]->n_ops; i++) {
			const GpuSim__Op *op = s->ranks[k]->ops[i];

			n += op->kind_case == GPU_SIM__OP__KIND_COLL && !is_sendrecv(op->coll) &&
			     op->coll->n_members == of->n_members &&
			     (!of->n_members || memcmp(op->coll->members, of->members,
						       of->n_members * sizeof *of->members) == 0);
		}
	return n;
}

/* Some ranks of the set have more collectives than others. */
static enum rc
uneven(const struct comm *comm, const GpuSim__SubmitRequest *s, const uint8_t *seen,
       const struct member_set *set, struct err *err)
{
	const GpuSim__Coll *k = set->met[set->n - 1].coll;
	size_t n = set->nmembers ? set->nmembers : comm_nranks(comm), na, nb;
	uint32_t a = set->nmembers ? set->members[0] : s->ranks[0]->rank, b;
	char of[MEMBERS_TEXT];

	na = count_colls(s, a, k);
	for (int missing = 0; missing < 2; missing++)
		for (size_t r = 0; r < n; r++) {
			b = set->nmembers ? set->members[r] : (uint32_t)r;
			if (!set->nmembers && !seen[b] && missing)
				return err_set(err, RC_INVAL,
					       "rank %u is missing; a collective needs every rank",
					       b);
			if (!set->nmembers && !seen[b])
				continue;
			nb = count_colls(s, b, k);
			if (nb != na)
				return err_set(err, RC_INVAL,
					       "rank %u has %zu collectives%s, but rank %u has %zu",
					       a, na, members_text(k, of), b, nb);
		}
	return err_set(err, RC_INTERNAL, "uneven collectives");
}

/* Note the rank's collective, and its first difference from the others' in *differ. False: out of memory. */
static bool
meet(struct member_sets *sets, const struct comm *comm, uint32_t rank, const GpuSim__Coll *k,
     struct err *differ)
{
	struct met_coll *e = member_sets_next(sets, rank, k);

	if (!e)
		return false;
	if (own_counts(k) && !e->of &&
	    !(e->of = alloc_zeroed(k->n_members ? k->n_members : comm_nranks(comm), sizeof *e->of)))
		return false;
	if (e->of)
		e->of[member_place(k, rank)] = k;
	if (e->nranks > 1 && differ->rc == RC_OK)
		check_same(e, rank, k, differ);
	return true;
}

/* Check that the ranks of each set give the same collectives in the same order. */
static enum rc
check_colls(const struct comm *comm, const GpuSim__SubmitRequest *s, const uint8_t *seen,
	    size_t *ncoll, struct err *err)
{
	struct member_sets sets = {0};
	struct err differ = {0};
	enum rc rc = RC_OK;

	for (size_t k = 0; k < s->n_ranks; k++)
		for (size_t i = 0; i < s->ranks[k]->n_ops && rc == RC_OK; i++) {
			const GpuSim__Op *op = s->ranks[k]->ops[i];

			if (op->kind_case == GPU_SIM__OP__KIND_COLL && !is_sendrecv(op->coll) &&
			    !meet(&sets, comm, s->ranks[k]->rank, op->coll, &differ))
				rc = err_set(err, RC_NOMEM, "out of memory");
		}
	for (size_t i = 0; i < sets.n && rc == RC_OK; i++) {
		const struct member_set *t = &sets.set[i];

		if (t->met[t->n - 1].nranks != (t->nmembers ? t->nmembers : comm_nranks(comm)))
			rc = uneven(comm, s, seen, t, err);
	}
	if (rc == RC_OK && differ.rc != RC_OK) {
		*err = differ;
		rc = differ.rc;
	}
	for (size_t i = 0; i < sets.n; i++)
		for (size_t n = 0; n < sets.set[i].n && rc == RC_OK; n++)
			rc = check_matrix(&sets.set[i].met[n], err);
	*ncoll = sets.ncoll;
	member_sets_fini(&sets);
	return rc;
}

enum rc
submit_check(const struct comm *comm, const struct tune_files *files,
	     const GpuSim__SubmitRequest *s, size_t *ncoll, struct err *err)
{
	uint8_t seen[WIRE_MAX_RANKS] = {0};

	for (size_t i = 0; i < s->n_ranks; i++) {
		enum rc rc = check_rank(comm, files, s->ranks[i], seen, err);

		if (rc != RC_OK)
			return rc;
	}
	return check_colls(comm, s, seen, ncoll, err);
}
