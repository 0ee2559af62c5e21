/*
 * sendrecv_direct.c - send and recv: the two halves of one transfer.
 */
#include "coll/algo.h"

/*
 * plan_send_direct, plan_recv_direct - append one side's steps of a transfer to or from rank
 * a->root.
 *
 *	a	send: in[n]; recv: out[n]; no scratch
 *	out	[out] appended to
 *
 * Message c is round c on both sides.
 * Cost of the sender: n elements in m = ceil(n / chunk) messages (1 when chunk is 0). Rounds: m.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: the definition
 * Checked by: tests/unit/t_coll_misc.c
 */
enum rc
plan_send_direct(const struct plan_args *a, struct plan *out)
{
	return plan_pipe(
	    a, out,
	    (struct plan_step){
		.kind = STEP_SEND, .src = PLAN_IN, .peer = a->root, .count = a->nelem});
}

enum rc
plan_recv_direct(const struct plan_args *a, struct plan *out)
{
	return plan_pipe(
	    a, out,
	    (struct plan_step){
		.kind = STEP_RECV, .dst = PLAN_OUT, .peer = a->root, .count = a->nelem});
}
