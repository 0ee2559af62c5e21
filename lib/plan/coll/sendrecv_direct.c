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
 * Checked by: tests/unit/coll/t_coll_misc.c
 */
void
plan_send_direct(const struct plan_args *a, struct plan *out)
{
	plan_pipe(a, out, step_send(PLAN_IN, whole(a), a->root, 0));
}

void
plan_recv_direct(const struct plan_args *a, struct plan *out)
{
	plan_pipe(a, out, step_recv(PLAN_OUT, whole(a), a->root, 0));
}
