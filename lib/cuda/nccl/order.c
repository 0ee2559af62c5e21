#include "nccl/order.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gpusim.h"

static bool
same_stream(const struct nccl_op *a, const struct nccl_op *b)
{
	return a->ordinal == b->ordinal && a->stream == b->stream;
}

/*
 * Find each operation's lead and launch: the first operation of its communicator, and the first
 * whose communicator begins on the same stream. Leads are few and chained, so the time is linear in
 * the number of operations.
 */
static void
find_leads(struct nccl_op *op, size_t n)
{
	size_t last = 0;

	for (size_t i = 0; i < n; i++) {
		size_t k = i && op[i].comm == op[i - 1].comm ? op[i - 1].lead : 0;

		while (k < i && op[k].comm != op[i].comm)
			k = k == last ? i : op[k].next_lead;
		op[i].lead = k;
		if (k != i)
			continue;
		op[last].next_lead = i;
		last = i;
		for (op[i].launch = 0; !same_stream(&op[op[i].launch], &op[i]);)
			op[i].launch = op[op[i].launch].next_lead;
	}
	for (size_t i = 0; i < n; i++)
		op[i].launch = op[op[i].lead].launch;
}

static bool
is_sendrecv(const struct nccl_op *o)
{
	return o->c.kind != CMDQ_COLL;
}

static int
compare(const void *left, const void *right)
{
	const struct nccl_op *a = left, *b = right;

	if (a->launch != b->launch)
		return a->launch < b->launch ? -1 : 1;
	if (a->comm_id != b->comm_id)
		return a->comm_id < b->comm_id ? -1 : 1;
	if (is_sendrecv(a) != is_sendrecv(b))
		return is_sendrecv(a) ? 1 : -1;
	return a->call < b->call ? -1 : a->call > b->call;
}

/* ---- cutting sets */

/* The address that a receive writes or a send reads. */
static uint64_t
first_byte(const struct nccl_op *o)
{
	return o->c.coll == GPUSIM_RECV ? o->c.u.coll.recv : o->c.u.coll.send;
}

/* Bounds of ranges: in most groups they suffice. */
struct bounds {
	uint64_t low, high;
};

static void
include(struct bounds *b, const struct nccl_op *o)
{
	uint64_t from = first_byte(o), to = from + o->nbytes;

	if (b->low == b->high)
		*b = (struct bounds){from, to};
	else
		*b = (struct bounds){from < b->low ? from : b->low, to > b->high ? to : b->high};
}

/* Does the send read what one of the n operations receives? */
static bool
reads_from(const struct nccl_op *send, const struct nccl_op *op, size_t n, const struct bounds *b)
{
	if (first_byte(send) >= b->high || first_byte(send) + send->nbytes <= b->low)
		return false;
	for (size_t i = 0; i < n; i++)
		if (op[i].c.coll == GPUSIM_RECV &&
		    first_byte(send) < first_byte(&op[i]) + op[i].nbytes &&
		    first_byte(&op[i]) < first_byte(send) + send->nbytes)
			return true;
	return false;
}

/* Cut the set of n sends and receives. */
static void
cut_set(struct nccl_op *op, size_t n)
{
	struct bounds received = {0};
	size_t start = 0, end;

	for (size_t at = 0; at < n; at = end) {
		bool cut = false;

		for (end = at; end < n && op[end].inner == op[at].inner; end++)
			cut = cut || (op[end].c.coll == GPUSIM_SEND &&
				      reads_from(&op[end], op + start, at - start, &received));
		if (cut) {
			op[at].c.flags |= CMDQ_APART;
			start = at;
			received = (struct bounds){0};
		}
		for (size_t i = at; i < end; i++)
			if (op[i].c.coll == GPUSIM_RECV)
				include(&received, &op[i]);
	}
}

/* ---- the order */

size_t
nccl_order(struct nccl_op *op, size_t n)
{
	size_t launches = 0, last = SIZE_MAX;

	for (size_t i = 0; i < n; i++)
		op[i].call = i;
	find_leads(op, n);
	for (size_t i = 0; i < n; i++)
		op[i].stream = op[op[i].lead].stream;
	if (n)
		qsort(op, n, sizeof *op, compare);
	for (size_t i = 0; i < n; i++) {
		launches += op[i].launch != last;
		last = op[i].launch;
		op[i].launch = launches - 1;
	}
	for (size_t at = 0, end; at < n; at = end) {
		for (end = at + 1; end < n && op[end].comm == op[at].comm &&
				   op[end].c.kind == CMDQ_SENDRECV &&
				   op[at].c.kind == CMDQ_SENDRECV;)
			end++;
		if (end - at > 1)
			cut_set(op + at, end - at);
	}
	return launches;
}

size_t
nccl_edges(struct nccl_op *op, size_t n, struct nccl_edge *edge)
{
	size_t nedges = 0;

	find_leads(op, n);
	for (size_t i = 0; i < n; i++) {
		const struct nccl_op *lead = &op[op[i].lead];
		struct nccl_edge e = {lead->stream, op[i].stream, op[i].ordinal};
		bool known = same_stream(lead, &op[i]);

		for (size_t k = 0; k < nedges && !known; k++)
			known = edge[k].lead == e.lead && edge[k].other == e.other &&
				edge[k].ordinal == e.ordinal;
		if (!known)
			edge[nedges++] = e;
	}
	return nedges;
}

/* ---- the capacity of a queue */

#define AT_ONCE (CMDQ_SIZE / 2)

size_t
nccl_piece(const struct nccl_op *op, size_t n)
{
	size_t piece = 0;

	if (n <= AT_ONCE)
		return n;
	for (size_t i = 1; i <= AT_ONCE; i++)
		if (!is_sendrecv(&op[i]) || op[i].comm != op[i - 1].comm ||
		    !is_sendrecv(&op[i - 1]))
			piece = i;
	return piece ? piece : AT_ONCE;
}

/* Groups are rarely that long, so the search may be slow. */
enum rc
nccl_check_sets(const struct nccl_op *op, size_t n, struct err *err)
{
	for (size_t i = 0; n > AT_ONCE && i < n; i++) {
		size_t set = 0;

		if (!is_sendrecv(&op[i]) ||
		    (i && op[i].comm == op[i - 1].comm && is_sendrecv(&op[i - 1])))
			continue;
		for (size_t k = i; k < n; k++)
			set += op[k].comm == op[i].comm && is_sendrecv(&op[k]);
		if (set > AT_ONCE)
			return err_set(
			    err, RC_INVAL,
			    "%zu sends and receives of a communicator in a group; the limit is %d",
			    set, AT_ONCE);
	}
	return RC_OK;
}

/* ---- sends to oneself */

static bool
to_self(const struct nccl_op *o, enum gpusim_coll coll)
{
	return o->c.kind == CMDQ_SENDRECV && o->c.coll == coll && o->c.u.coll.root == o->rank;
}

enum rc
nccl_pair_self(struct nccl_op *op, size_t *n, struct err *err)
{
	size_t kept = 0;

	for (size_t i = 0; i < *n; i++) {
		struct nccl_op *half = op; /* the first unmatched receive of its communicator */
		struct cmdq_bytes bytes;

		if (!to_self(&op[i], GPUSIM_SEND))
			continue;
		while (half < op + *n && (half->comm != op[i].comm || !to_self(half, GPUSIM_RECV)))
			half++;
		if (half == op + *n)
			return err_set(err, RC_INVAL,
				       "rank %" PRIu32
				       " sends to itself without a receive in the same group",
				       op[i].rank);
		if (half->nbytes != op[i].nbytes)
			return err_set(err, RC_INVAL,
				       "rank %" PRIu32 " sends %" PRIu64
				       " bytes to itself and receives %" PRIu64,
				       op[i].rank, op[i].nbytes, half->nbytes);
		/* Copies are not collectives, so the order does not need their rank. */
		bytes = (struct cmdq_bytes){
		    .dst = half->c.u.coll.recv, .src = op[i].c.u.coll.send, .nbytes = op[i].nbytes};
		op[i].c = (struct cmdq_command){.kind = CMDQ_COPY, .u.bytes = bytes};
		half->c = (struct cmdq_command){.kind = CMDQ_NOP};
	}
	for (size_t i = 0; i < *n; i++) {
		if (to_self(&op[i], GPUSIM_RECV))
			return err_set(err, RC_INVAL,
				       "rank %" PRIu32
				       " receives from itself without a send in the same group",
				       op[i].rank);
		if (op[i].c.kind != CMDQ_NOP)
			op[kept++] = op[i];
	}
	*n = kept;
	return RC_OK;
}
