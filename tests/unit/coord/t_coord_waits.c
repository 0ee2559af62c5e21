/* The coordinator tells which operations, ranks and requests wait. */
#include "coord_harness.h"

static const GpuSim__StatusResponse *
status(struct harness *h)
{
	GpuSim__StatusRequest q = GPU_SIM__STATUS_REQUEST__INIT;
	GpuSim__Reply *r = h_reply(h, h_ask(h, 1, STATUS, status, &q));

	return r && r->code == RC_OK ? r->status : NULL;
}

static void
t_calls(struct harness *h)
{
	GpuSim__SubmitRequest q = GPU_SIM__SUBMIT_REQUEST__INIT;
	const GpuSim__StatusResponse *s;
	struct h_ops o;

	h_allreduce(&o, 2, 10);
	q.commid = 1;
	q.meet = true;
	q.n_ranks = 1;
	q.ranks = &o.rankp[1];
	h_ask(h, 9, SUBMIT, submit, &q);
	h_advance(h, 300);
	s = status(h);
	ok(s->n_comms == 1 && s->comms[0]->n_calls == 1 && s->comms[0]->calls[0]->rank == 1 &&
	       s->comms[0]->calls[0]->known && s->comms[0]->calls[0]->nelem == 10 &&
	       s->comms[0]->calls[0]->coll == GPU_SIM__COLLECTIVE__ALLREDUCE &&
	       s->comms[0]->calls[0]->clientid == 9 && s->comms[0]->calls[0]->forms == 300,
	   "a rank's call that waits for the others', in its shape");
	q.ranks = &o.rankp[0];
	h_ask(h, 9, SUBMIT, submit, &q);
	s = status(h);
	ok(s->comms[0]->n_calls == 0 && s->comms[0]->n_runs == 1 && s->comms[0]->runs[0]->started &&
	       s->comms[0]->runs[0]->n_unanswered == 2 && s->comms[0]->runs[0]->nelem == 10,
	   "when they have met, a run");
	h_accept(h, (size_t)h_find(h, H_RUN, 1));
	s = status(h);
	ok(s->comms[0]->runs[0]->n_unanswered == 1 && s->comms[0]->runs[0]->unanswered[0] == 1,
	   "and which rank has not ended it");
	h_serve(h);
	s = status(h);
	ok(s->comms[0]->n_runs == 0, "it has ended");
}

static void
t_groups(struct harness *h)
{
	const GpuSim__StatusResponse *s;
	struct h_ops o;

	h_group_start(h, 9, 1);
	h_allreduce(&o, 2, 20);
	h_submit(h, 9, 1, &o, false);
	h_advance(h, 100);
	s = status(h);
	ok(s->comms[0]->n_groups == 1 && s->comms[0]->groups[0]->clientid == 9 &&
	       s->comms[0]->groups[0]->nops == 2 && s->comms[0]->groups[0]->nelem == 20 &&
	       s->comms[0]->groups[0]->forms == 100,
	   "an open group");
	h_group_end(h, 9, 1, false);
	h_serve(h);
	ok(status(h)->comms[0]->n_groups == 0, "it has ended");
}

static void
t_gatherings(struct harness *h)
{
	GpuSim__CommInitRankRequest q = GPU_SIM__COMM_INIT_RANK_REQUEST__INIT;
	const GpuSim__StatusResponse *s;

	q.idhigh = 1;
	q.idlow = 2;
	q.numranks = 3;
	q.rank = 1;
	h_ask(h, 7, COMM_INIT_RANK, comminitrank, &q);
	h_advance(h, 100);
	s = status(h);
	ok(s->n_gatherings == 1 && s->gatherings[0]->nranks == 3 &&
	       s->gatherings[0]->n_missing == 2 && s->gatherings[0]->missing[0] == 0 &&
	       s->gatherings[0]->missing[1] == 2 && s->gatherings[0]->forms == 100 &&
	       strcmp(s->gatherings[0]->name, "id 00000000000000010000000000000002") == 0,
	   "ranks that have not come");
}

static void
t_queue(struct harness *h)
{
	GpuSim__CommInitRequest q = GPU_SIM__COMM_INIT_REQUEST__INIT;
	const GpuSim__StatusResponse *s;

	q.numdevices = 2;
	q.waitms = 10000;
	h_ask(h, 8, COMM_INIT, comminit, &q);
	h_advance(h, 200);
	s = status(h);
	ok(s->n_queue == 1 && strcmp(s->queue[0]->name, "commInit") == 0 &&
	       s->queue[0]->want == 2 && s->queue[0]->clientid == 8 && s->queue[0]->forms == 200,
	   "a request that waits for devices");
}

int
main(void)
{
	struct harness h;

	h_init(&h);
	h_devices(&h, 2);
	h_comm(&h, 9, 2);
	t_calls(&h);
	t_groups(&h);
	t_gatherings(&h);
	t_queue(&h);
	ok(h_clean(&h), "nothing was answered twice");
	h_fini(&h);
	return tap_done();
}
