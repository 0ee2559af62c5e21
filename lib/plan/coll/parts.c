#include "coll/parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "coll/algo.h"

#define PARTS_MAX_NELEM (UINT64_MAX / 16) /* the bytes of any type fit in 64 bits */

bool
parts_packed(const struct plan_part *part, uint32_t n)
{
	uint64_t end = 0;

	for (uint32_t r = 0; r < n; r++) {
		if (part[r].off != end)
			return false;
		end += part[r].count;
	}
	return true;
}

/* ---- from counts */

static int
by_place(const void *x, const void *y)
{
	const struct plan_part *a = x, *b = y;

	return (a->off > b->off) - (a->off < b->off);
}

/* Check that no two parts share an element. RC_INVAL, RC_NOMEM. */
static enum rc
check_apart(const struct plan_part *part, uint32_t n, const char *what, struct err *err)
{
	struct plan_part *v;
	enum rc rc = RC_OK;
	uint64_t end = 0;

	if (parts_packed(part, n))
		return RC_OK;
	v = alloc_zeroed(n, sizeof *v);
	if (!v)
		return err_set(err, RC_NOMEM, "out of memory");
	memcpy(v, part, n * sizeof *v);
	qsort(v, n, sizeof *v, by_place);
	for (uint32_t r = 0; r < n && rc == RC_OK; r++) {
		if (!v[r].count)
			continue;
		if (v[r].off < end)
			rc = err_set(err, RC_INVAL, "%s overlap at element %" PRIu64, what,
				     v[r].off);
		end = v[r].off + v[r].count;
	}
	free(v);
	return rc;
}

static enum rc
fill(const struct parts_given *g, uint32_t n, const char *what, struct plan_part *part,
     struct err *err)
{
	uint64_t end = 0;

	if (g->ncount != n)
		return err_set(err, RC_INVAL, "%zu %scount%s for %" PRIu32 " rank%s", g->ncount,
			       what, g->ncount == 1 ? "" : "s", n, n == 1 ? "" : "s");
	if (g->ndispl && g->ndispl != n)
		return err_set(err, RC_INVAL, "%zu %sdisplacement%s for %" PRIu32 " rank%s",
			       g->ndispl, what, g->ndispl == 1 ? "" : "s", n, n == 1 ? "" : "s");
	for (uint32_t r = 0; r < n; r++) {
		uint64_t at = g->ndispl ? g->displ[r] : end;

		if (at > PARTS_MAX_NELEM || g->count[r] > PARTS_MAX_NELEM - at)
			return err_set(err, RC_INVAL,
				       "%scount %" PRIu64 " of rank %" PRIu32 " exceeds any memory",
				       what, g->count[r], r);
		part[r] = (struct plan_part){at, g->count[r]};
		end = at + g->count[r];
	}
	return RC_OK;
}

static enum rc
check_given(const struct plan_args *a, const struct parts_given *g, const struct parts_given *recv,
	    struct err *err)
{
	bool both = a->coll == GPUSIM_ALLTOALL;

	if (!coll_has_parts(a->coll))
		return err_set(err, RC_INVAL, "does not accept counts: its vector has no parts");
	if ((g->ndispl && !g->ncount) || (recv->ndispl && !recv->ncount))
		return err_set(err, RC_INVAL, "displacements without counts");
	if (!g->ncount || !recv->ncount != !both)
		return err_set(err, RC_INVAL,
			       both ? "needs two lists of counts: sent and received elements"
				    : "needs exactly one list of counts");
	if (g->ndispl && a->coll == GPUSIM_REDUCESCATTER)
		return err_set(err, RC_INVAL, "does not accept displacements");
	return RC_OK;
}

enum rc
parts_take(struct plan_args *a, const struct parts_given *given, const struct parts_given *recv,
	   struct plan_part **mem, struct err *err)
{
	bool both = a->coll == GPUSIM_ALLTOALL,
	     gathers = a->coll == GPUSIM_ALLGATHER || a->coll == GPUSIM_GATHER;
	struct plan_part *v;
	enum rc rc;

	*mem = NULL;
	if (!given->ncount && !given->ndispl && !recv->ncount && !recv->ndispl)
		return RC_OK;
	rc = check_given(a, given, recv, err);
	if (rc != RC_OK)
		return rc;
	v = alloc_zeroed(a->nranks, 2 * sizeof *v);
	if (!v)
		return err_set(err, RC_NOMEM, "out of memory");
	rc = fill(given, a->nranks, both ? "send " : "", v, err);
	if (rc == RC_OK && both)
		rc = fill(recv, a->nranks, "receive ", v + a->nranks, err);
	if (rc == RC_OK && (both || gathers))
		rc = check_apart(both ? v + a->nranks : v, a->nranks,
				 both ? "the received parts" : "the parts of the result", err);
	if (rc != RC_OK) {
		free(v);
		return rc;
	}
	a->part = v;
	a->recv_part = both ? v + a->nranks : NULL;
	a->nelem = parts_end(v, a->nranks);
	*mem = v;
	return RC_OK;
}

/* Rank r's two tables of alltoall. */
static enum rc
take_rank(const struct plan_args *all, uint32_t r, const uint64_t *count, const uint64_t *displ,
	  const uint64_t *recv_displ, uint64_t *column, struct plan_part *part,
	  struct plan_part *recv, struct err *err)
{
	size_t n = all->nranks, at = r * n;
	const struct parts_given given = {count + at, displ ? displ + at : NULL, n, displ ? n : 0};
	const struct parts_given from = {column, recv_displ ? recv_displ + at : NULL, n,
					 recv_displ ? n : 0};
	struct plan_args mine = *all;
	struct plan_part *mem;
	enum rc rc;

	for (size_t q = 0; q < n; q++)
		column[q] = count[q * n + r];
	rc = parts_take(&mine, &given, &from, &mem, err);
	if (rc != RC_OK)
		return err_prefix(err, "rank %" PRIu32, r);
	memcpy(part + at, mem, n * sizeof *mem);
	memcpy(recv + at, mem + n, n * sizeof *mem);
	free(mem);
	return RC_OK;
}

enum rc
parts_take_all(struct plan_args *all, const uint64_t *count, const uint64_t *displ,
	       const uint64_t *recv_displ, struct plan_part **mem, struct err *err)
{
	size_t n = all->nranks, square = n * n;
	const struct parts_given given = {count, displ, count ? n : 0, displ ? n : 0};
	struct plan_part *v;
	uint64_t *column;
	enum rc rc = RC_OK;

	if (all->coll != GPUSIM_ALLTOALL)
		return parts_take(all, &given, &(struct parts_given){0}, mem, err);
	*mem = NULL;
	v = alloc_zeroed(square, 2 * sizeof *v);
	column = alloc_zeroed(n, sizeof *column);
	if (!v || !column)
		rc = err_set(err, RC_NOMEM, "out of memory");
	for (uint32_t r = 0; r < n && rc == RC_OK; r++)
		rc = take_rank(all, r, count, displ, recv_displ, column, v, v + square, err);
	free(column);
	if (rc != RC_OK) {
		free(v);
		return rc;
	}
	all->part = v;
	all->recv_part = v + square;
	all->nelem = parts_end(v, all->nranks);
	*mem = v;
	return RC_OK;
}

/* ---- in plans */

static enum rc
check_table(const struct plan_part *part, uint32_t n, uint64_t nelem, const char *name,
	    struct err *err)
{
	for (uint32_t r = 0; r < n; r++)
		if (part[r].count > nelem || part[r].off > nelem - part[r].count)
			if (part[r].count)
				return err_set(err, RC_INVAL,
					       "%s: part %" PRIu32 " ends after element %" PRIu64,
					       name, r, nelem);
	return RC_OK;
}

enum rc
parts_check(const struct plan_args *a, struct err *err)
{
	const char *name = coll_name(a->coll);
	enum rc rc;

	if (!coll_has_parts(a->coll) || !a->recv_part != (a->coll != GPUSIM_ALLTOALL))
		return err_set(err, RC_INVAL, "%s: does not accept this table of parts", name);
	rc = check_table(a->part, a->nranks, a->nelem, name, err);
	if (rc == RC_OK && a->recv_part)
		rc = check_table(a->recv_part, a->nranks, PARTS_MAX_NELEM, name, err);
	if (rc == RC_OK && a->recv_part && a->recv_part[a->rank].count != a->part[a->rank].count)
		rc = err_set(err, RC_INVAL,
			     "%s: rank %" PRIu32 " sends itself %" PRIu64
			     " elements and receives %" PRIu64,
			     name, a->rank, a->part[a->rank].count, a->recv_part[a->rank].count);
	if (rc == RC_OK && a->coll == GPUSIM_REDUCESCATTER &&
	    (!parts_packed(a->part, a->nranks) || parts_end(a->part, a->nranks) != a->nelem))
		rc = err_set(err, RC_INVAL, "%s: its parts have gaps", name);
	return rc;
}
