/*
 * client.c - a client that makes communicators, runs operations on them, and checks every result
 * that is reported as good.
 *
 * Word i of a rank's buffer counts how often the input of word i's owner is in it. Before an
 * operation on fresh inputs rank r's buffer is 1 in word r, 0 elsewhere; so a sum shows exactly
 * which inputs it has. An operation on the last one's result multiplies by the number of ranks.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum what { INIT, STATUS, REDUCE, COUNTED, CREATE, LAUNCH, DESTROY, SHRINK, GROW, ABORT, LAST };

static const char *const word[] = {
    "init",	    "status",	    "all-reduce", "counted all-reduce",
    "graph-create", "graph-launch", "destroy",	  "shrink",
    "grow",	    "abort",	    "last"};

static struct sim_client *
client_of(struct world *w, uint32_t k)
{
	return &w->client[k];
}

static uint32_t
node_of(const struct world *w, uint32_t k)
{
	return 1 + w->ndevices + k;
}

static uint64_t *
words(struct world *w, uint32_t d, uint32_t k)
{
	return w->dev[d].mem.word[k];
}

static uint64_t
address(uint32_t k)
{
	return MEM_MIN + k * WORDS * sizeof(uint64_t);
}

static void
later(struct world *w, uint32_t k, uint64_t us)
{
	post(w, w->now + us, EV_CLIENT, node_of(w, k));
}

static void
call(struct world *w, uint32_t k, GpuSim__Request__BodyCase what, uint64_t timeout_us,
     struct buf body)
{
	struct sim_client *c = client_of(w, k);

	c->asked = w->now;
	c->call = rpc_start(w, CALL_OF_CLIENT, node_of(w, k), 0, c->client_id, ++c->seq, what,
			    timeout_us, &body);
}

/* ---- requests */

static void
ask_status(struct world *w, uint32_t k, bool wait)
{
	GpuSim__GetCommStatusRequest q = GPU_SIM__GET_COMM_STATUS_REQUEST__INIT;

	q.commid = client_of(w, k)->comm;
	q.wait = wait;
	call(w, k, GPU_SIM__REQUEST__BODY_GET_COMM_STATUS, 6000 * MS,
	     PACK(w, GET_COMM_STATUS, getcommstatus, &q));
}

static void
ask_init(struct world *w, uint32_t k, uint32_t n, uint32_t policy)
{
	GpuSim__CommInitRequest q = GPU_SIM__COMM_INIT_REQUEST__INIT;

	q.numdevices = n;
	q.lease = true;
	q.policy_case = GPU_SIM__COMM_INIT_REQUEST__POLICY_ON_FAILURE;
	q.onfailure = (GpuSim__OnFailure)policy;
	q.waitms = roll(w, 2) ? between(w, 1, 8000) : 0;
	client_of(w, k)->policy = policy;
	call(w, k, GPU_SIM__REQUEST__BODY_COMM_INIT, between(w, 1000, 8000) * MS,
	     PACK(w, COMM_INIT, comminit, &q));
}

/* The operations of one rank: an all-reduce in place, before it a kernel that counts. */
struct ops {
	GpuSim__RankOps rank[MAX_DEVICES], *rankp[MAX_DEVICES];
	GpuSim__Op op[2], *opp[2];
	GpuSim__Coll coll;
	GpuSim__Launch launch;
	GpuSim__KernelArg arg, *argp;
};

static void
make_ops(struct ops *o, uint32_t k, uint32_t nranks, uint32_t tag)
{
	char *kernel = (char *)"count", *algo = (char *)"";
	size_t n = 0;

	gpu_sim__coll__init(&o->coll);
	o->coll.coll = GPU_SIM__COLLECTIVE__ALLREDUCE;
	o->coll.algo = algo;
	o->coll.dtype = GPU_SIM__DATA_TYPE__U64;
	o->coll.nelem = WORDS;
	o->coll.sendaddr = o->coll.recvaddr = address(k);
	gpu_sim__launch__init(&o->launch);
	gpu_sim__kernel_arg__init(&o->arg);
	o->arg.name = kernel;
	o->arg.value_case = GPU_SIM__KERNEL_ARG__VALUE_U;
	o->arg.u = tag;
	o->argp = &o->arg;
	o->launch.kernel = kernel;
	o->launch.args = &o->argp;
	o->launch.n_args = 1;
	if (tag != NONE) {
		gpu_sim__op__init(&o->op[n]);
		o->op[n].kind_case = GPU_SIM__OP__KIND_LAUNCH;
		o->op[n].launch = &o->launch;
		o->opp[n] = &o->op[n];
		n++;
	}
	gpu_sim__op__init(&o->op[n]);
	o->op[n].kind_case = GPU_SIM__OP__KIND_COLL;
	o->op[n].coll = &o->coll;
	o->opp[n] = &o->op[n];
	n++;
	for (uint32_t r = 0; r < nranks; r++) {
		gpu_sim__rank_ops__init(&o->rank[r]);
		o->rank[r].rank = r;
		o->rank[r].n_ops = n;
		o->rank[r].ops = o->opp;
		o->rankp[r] = &o->rank[r];
	}
}

static void
ask_submit(struct world *w, uint32_t k, uint32_t tag)
{
	struct sim_client *c = client_of(w, k);
	GpuSim__SubmitRequest q = GPU_SIM__SUBMIT_REQUEST__INIT;
	struct ops o;

	make_ops(&o, k, c->nranks, tag);
	q.commid = c->comm;
	q.n_ranks = c->nranks;
	q.ranks = o.rankp;
	q.wait = true;
	call(w, k, GPU_SIM__REQUEST__BODY_SUBMIT, between(w, 1000, 25000) * MS,
	     PACK(w, SUBMIT, submit, &q));
}

static void
ask_create(struct world *w, uint32_t k)
{
	struct sim_client *c = client_of(w, k);
	GpuSim__GraphCreateRequest q = GPU_SIM__GRAPH_CREATE_REQUEST__INIT;
	struct ops o;

	make_ops(&o, k, c->nranks, c->graph_tag);
	q.commid = c->comm;
	q.n_ranks = c->nranks;
	q.ranks = o.rankp;
	call(w, k, GPU_SIM__REQUEST__BODY_GRAPH_CREATE, between(w, 1000, 8000) * MS,
	     PACK(w, GRAPH_CREATE, graphcreate, &q));
}

static void
ask_launch(struct world *w, uint32_t k, uint32_t times)
{
	struct sim_client *c = client_of(w, k);
	GpuSim__GraphLaunchRequest q = GPU_SIM__GRAPH_LAUNCH_REQUEST__INIT;

	q.commid = c->comm;
	q.graphid = c->graph;
	q.iterations = times;
	q.wait = true;
	call(w, k, GPU_SIM__REQUEST__BODY_GRAPH_LAUNCH, between(w, 1000, 25000) * MS,
	     PACK(w, GRAPH_LAUNCH, graphlaunch, &q));
}

static void
ask_change(struct world *w, uint32_t k, enum what what)
{
	struct sim_client *c = client_of(w, k);
	GpuSim__CommDestroyRequest destroy = GPU_SIM__COMM_DESTROY_REQUEST__INIT;
	GpuSim__CommShrinkRequest shrink = GPU_SIM__COMM_SHRINK_REQUEST__INIT;
	GpuSim__CommGrowRequest grow = GPU_SIM__COMM_GROW_REQUEST__INIT;
	GpuSim__CommAbortRequest stop = GPU_SIM__COMM_ABORT_REQUEST__INIT;
	uint64_t us = between(w, 2000, 10000) * MS;

	destroy.commid = shrink.commid = grow.commid = stop.commid = c->comm;
	grow.numdevices = 1;
	grow.waitms = what == GROW && roll(w, 2) ? between(w, 1, 5000) : 0;
	if (what == DESTROY)
		call(w, k, GPU_SIM__REQUEST__BODY_COMM_DESTROY, us,
		     PACK(w, COMM_DESTROY, commdestroy, &destroy));
	else if (what == SHRINK)
		call(w, k, GPU_SIM__REQUEST__BODY_COMM_SHRINK, us,
		     PACK(w, COMM_SHRINK, commshrink, &shrink));
	else if (what == GROW)
		call(w, k, GPU_SIM__REQUEST__BODY_COMM_GROW, us,
		     PACK(w, COMM_GROW, commgrow, &grow));
	else
		call(w, k, GPU_SIM__REQUEST__BODY_COMM_ABORT, us,
		     PACK(w, COMM_ABORT, commabort, &stop));
}

/* ---- the client's knowledge */

static void
forget_data(struct sim_client *c)
{
	c->filled = c->shared = false;
}

static void
forget_comm(struct sim_client *c)
{
	c->comm = 0;
	c->graph = 0;
	c->known = false;
	forget_data(c);
}

static void
take_members(struct world *w, struct sim_client *c, GpuSim__DeviceMetadata *const *m, size_t n)
{
	if (n == 0 || n > MAX_DEVICES) {
		wrong(w, "a communicator of %zu devices", n);
		return;
	}
	c->nranks = (uint32_t)n;
	for (size_t r = 0; r < n; r++)
		c->dev[r] = (uint32_t)m[r]->deviceid->value - 1;
}

static void
show(struct world *w, uint32_t k, const char *what)
{
	struct sim_client *c = client_of(w, k);
	char line[400] = "";
	size_t n = 0;

	if (!w->verbose)
		return;
	for (uint32_t r = 0; r < c->nranks; r++) {
		n += (size_t)snprintf(line + n, sizeof line - n, " | %u:", c->dev[r]);
		for (uint32_t i = 0; i < c->nfilled && n < sizeof line - 30; i++)
			n += (size_t)snprintf(line + n, sizeof line - n, " %" PRIu64,
					      words(w, c->dev[r], k)[i]);
	}
	trace(w, "client %u %s:%s", k, what, line);
}

/* Fresh inputs in every rank's memory. */
static void
fill(struct world *w, uint32_t k)
{
	struct sim_client *c = client_of(w, k);

	for (uint32_t r = 0; r < c->nranks; r++) {
		memset(words(w, c->dev[r], k), 0, sizeof w->dev[0].mem.word[0]);
		words(w, c->dev[r], k)[r] = 1;
		c->filled_by[r] = c->dev[r];
	}
	c->nfilled = c->nranks;
	/* A write into a device's memory after another device has adopted it is lost, and the
	 * client cannot notice. The result is then undefined. */
	c->in_vain = false;
	for (uint32_t r = 0; r < c->nranks; r++)
		c->in_vain |= w->dev[c->dev[r]].adopted > c->told_at;
	c->filled = true;
	c->shared = false;
	show(w, k, "fills");
}

static uint32_t
new_tag(struct world *w)
{
	return w->tags < MAX_TAGS ? w->tags++ : NONE;
}

/* ---- checks */

/* The word that the device of rank r filled; NONE: none. */
static uint32_t
word_of(const struct sim_client *c, uint32_t r)
{
	if (c->policy != GPUSIM_ON_FAILURE_SHRINK)
		return r < c->nfilled ? r : NONE;
	for (uint32_t i = 0; i < c->nfilled; i++)
		if (c->filled_by[i] == c->dev[r])
			return i;
	return NONE;
}

/* `told` ranks took part in an operation on fresh inputs: the sum has that many inputs, each once,
 * and the inputs of all current members. */
static void
check_fresh(struct world *w, uint32_t k, const uint64_t *v)
{
	struct sim_client *c = client_of(w, k);
	uint32_t in = 0;

	for (uint32_t i = 0; i < WORDS; i++) {
		if (v[i] > 1)
			wrong(w, "client %u: an input is %" PRIu64 " times in the sum", k, v[i]);
		in += v[i] != 0;
	}
	if (in != c->told)
		wrong(w, "client %u: %u ranks took part, it is told, and %u inputs are in the sum",
		      k, c->told, in);
	for (uint32_t r = 0; r < c->nranks; r++) {
		uint32_t i = word_of(c, r);

		if (i == NONE || v[i] != 1)
			wrong(w, "client %u: rank %u's input is not in the sum", k, r);
	}
}

/* Check every rank's buffer after a successful operation. times: all-reduces one after the other. */
static void
check_result(struct world *w, uint32_t k)
{
	struct sim_client *c = client_of(w, k);
	uint64_t v[WORDS], factor = 1;

	/* Ranks may have left since the client got the list, and their devices have other memory. */
	for (uint32_t r = 0; r < c->nranks; r++)
		if (w->dev[c->dev[r]].adopted > c->told_at) {
			c->filled = c->shared = false;
			return;
		}
	show(w, k, "checks");
	memcpy(v, words(w, c->dev[0], k), sizeof v);
	for (uint32_t r = 1; r < c->nranks; r++)
		if (memcmp(v, words(w, c->dev[r], k), sizeof v) != 0)
			wrong(w, "client %u: ranks 0 and %u have different results", k, r);
	for (uint32_t t = c->shared ? 0 : 1; t < c->times; t++)
		factor *= c->told;
	if (c->shared) {
		for (uint32_t i = 0; i < WORDS; i++)
			if (v[i] != c->expect[i] * factor)
				wrong(w, "client %u: word %u is %" PRIu64 ", not %" PRIu64, k, i,
				      v[i], c->expect[i] * factor);
	} else {
		uint64_t one[WORDS];

		for (uint32_t i = 0; i < WORDS; i++) {
			if (v[i] % factor)
				wrong(w,
				      "client %u: word %u is %" PRIu64 ", no multiple of %" PRIu64,
				      k, i, v[i], factor);
			one[i] = v[i] / factor;
		}
		check_fresh(w, k, one);
	}
	for (uint32_t r = 0; r < c->nranks && c->tag != NONE; r++)
		if (w->dev[c->dev[r]].mem.count[c->tag] != w->tag_max[c->tag])
			wrong(w, "client %u: rank %u (device %u) has counted to %u, not %u", k, r,
			      c->dev[r], w->dev[c->dev[r]].mem.count[c->tag], w->tag_max[c->tag]);
	memcpy(c->expect, v, sizeof v);
	c->shared = true;
	c->filled = false;
	w->checked++;
	for (uint32_t i = 0; i < WORDS; i++)
		if (v[i] > 1ull << 32)
			forget_data(c);
}

/* ---- answers */

static void
took_status(struct world *w, uint32_t k, enum rc rc, const GpuSim__Reply *reply)
{
	struct sim_client *c = client_of(w, k);
	const GpuSim__GetCommStatusResponse *r = rc == RC_OK ? reply->getcommstatus : NULL;
	bool check = c->told != 0;

	c->known = false;
	if (rc == RC_NOTFOUND) {
		forget_comm(c);
	} else if (r && r->status == GPU_SIM__STATUS__SUCCESS) {
		take_members(w, c, r->devices, r->n_devices);
		if (check && !c->in_vain)
			check_result(w, k);
		else if (check)
			forget_data(c);
		c->told_at = c->asked; /* the answer may be an old one, repeated */
		c->known = true;
		c->epoch = r->epoch;
		c->recoveries = r->recoveries;
	} else if (r && r->status == GPU_SIM__STATUS__FAILED) {
		forget_data(c);
		c->failed = true;
	} else {
		forget_data(c);
	}
	c->told = 0;
}

static void
took_run(struct world *w, uint32_t k, enum rc rc, const GpuSim__Reply *reply, const char *text)
{
	struct sim_client *c = client_of(w, k);

	c->known = false; /* ask before the next */
	if (rc == RC_OK) {
		c->told = reply->submit->nranks;
		c->note = reply->submit->note && *reply->submit->note;
		w->recovered += c->note;
		trace(w, "client %u: %s by %u ranks; %s", k, word[c->what], c->told,
		      reply->submit->note);
		if (c->told == 0 || c->told > c->nfilled)
			wrong(w, "client %u: %u ranks took part, %u were there", k, c->told,
			      c->nfilled);
		return;
	}
	forget_data(c);
	if (rc == RC_NOTFOUND && c->what == LAUNCH)
		c->graph = 0;
	if (c->what == LAUNCH)
		c->graph = 0; /* its progress is unknown: its count is useless now */
	if (strstr(text, "no graph") && strstr(text, " here"))
		wrong(w, "client %u: a rank has lost its graph: %s", k, text);
	if (*text == '\0')
		wrong(w, "client %u: %s failed without a reason", k, word[c->what]);
}

static void
took_init(struct world *w, uint32_t k, enum rc rc, const GpuSim__Reply *reply)
{
	struct sim_client *c = client_of(w, k);

	if (rc != RC_OK)
		return;
	c->comm = reply->comminit->commid;
	take_members(w, c, reply->comminit->devices, reply->comminit->n_devices);
	c->known = false;
	c->failed = false;
	c->graph = 0;
	c->epoch = 1;
	forget_data(c);
}

static GpuSim__Reply__BodyCase
reply_kind(GpuSim__Request__BodyCase what)
{
	switch (what) {
	case GPU_SIM__REQUEST__BODY_GET_COMM_STATUS:
		return GPU_SIM__REPLY__BODY_GET_COMM_STATUS;
	case GPU_SIM__REQUEST__BODY_SUBMIT:
	case GPU_SIM__REQUEST__BODY_GRAPH_LAUNCH:
		return GPU_SIM__REPLY__BODY_SUBMIT;
	case GPU_SIM__REQUEST__BODY_GRAPH_CREATE:
		return GPU_SIM__REPLY__BODY_GRAPH_CREATE;
	case GPU_SIM__REQUEST__BODY_COMM_DESTROY:
		return GPU_SIM__REPLY__BODY_COMM_DESTROY;
	case GPU_SIM__REQUEST__BODY_COMM_ABORT:
		return GPU_SIM__REPLY__BODY_DONE;
	default: /* made, shrunk, grown */
		return GPU_SIM__REPLY__BODY_COMM_INIT;
	}
}

void
client_answer(struct world *w, uint32_t k, GpuSim__Request__BodyCase what, enum rc rc,
	      const GpuSim__Reply *reply, const char *text)
{
	struct sim_client *c = client_of(w, k);
	struct err err = {0};

	c->call = NONE;
	if (reply) {
		rc = wire_reply_rc(reply, &err);
		text = err.text;
	}
	if (reply && rc == RC_OK && reply->body_case != reply_kind(what)) {
		wrong(w, "client %u: %s is answered with something else", k, word[c->what]);
		return;
	}
	trace(w, "client %u: %s: %s %s", k, word[c->what], rc_name(rc), rc == RC_OK ? "" : text);
	w->succeeded += rc == RC_OK;
	w->failed += rc != RC_OK;
	if (w->queued && !c->last) {
		ranks_answer(w, k, what, rc, reply);
		return;
	}
	switch (what) {
	case GPU_SIM__REQUEST__BODY_GET_COMM_STATUS:
		took_status(w, k, rc, reply);
		break;
	case GPU_SIM__REQUEST__BODY_SUBMIT:
	case GPU_SIM__REQUEST__BODY_GRAPH_LAUNCH:
		took_run(w, k, rc, reply, text);
		break;
	case GPU_SIM__REQUEST__BODY_GRAPH_CREATE:
		c->known = false;
		c->graph = rc == RC_OK ? reply->graphcreate->graphid : 0;
		break;
	case GPU_SIM__REQUEST__BODY_COMM_INIT:
		took_init(w, k, rc, reply);
		break;
	case GPU_SIM__REQUEST__BODY_COMM_DESTROY:
		if (rc == RC_OK || rc == RC_NOTFOUND)
			forget_comm(c);
		break;
	default: /* shrink, grow, abort */
		c->known = false;
		c->failed = false;
		c->graph = 0;
		forget_data(c);
	}
	if (c->last && what == GPU_SIM__REQUEST__BODY_SUBMIT && rc != RC_OK)
		wrong(w, "client %u: in a world without faults an all-reduce fails: %s", k, text);
	/* Devices of clients that left while the coordinator was down are free RETURN_MS later. */
	if (c->last && what == GPU_SIM__REQUEST__BODY_COMM_INIT && rc != RC_OK &&
	    w->now > w->calm_at + RETURN_MS * MS)
		wrong(w, "client %u: in a world without faults no communicator can be made: %s", k,
		      text);
	later(w, k, c->last && rc != RC_OK ? 1000 * MS : between(w, MS, 150 * MS));
}

/* ---- the next step */

static void
run_something(struct world *w, uint32_t k)
{
	struct sim_client *c = client_of(w, k);
	uint32_t which = c->last ? 0 : roll(w, 10);

	if (!c->shared || roll(w, 3) == 0)
		fill(w, k);
	c->nfilled = c->shared ? c->nfilled : c->nranks;
	c->times = 1;
	c->tag = NONE;
	if (which < 5) {
		c->what = REDUCE;
		ask_submit(w, k, NONE);
	} else if (which < 7 || (which >= 8 && w->tags >= MAX_TAGS)) {
		c->what = COUNTED;
		c->tag = new_tag(w);
		if (c->tag != NONE)
			w->tag_max[c->tag] = 1;
		ask_submit(w, k, c->tag);
	} else if (!c->graph) {
		c->what = CREATE;
		c->graph_tag = new_tag(w);
		ask_create(w, k);
	} else {
		c->what = LAUNCH;
		c->times = 1 + roll(w, 3);
		c->tag = c->graph_tag;
		if (c->tag != NONE)
			w->tag_max[c->tag] += (uint8_t)c->times;
		ask_launch(w, k, c->times);
	}
}

/* Devices that a communicator takes without naming them. */
static uint32_t
everybody(const struct world *w)
{
	uint32_t n = 0;

	for (uint32_t d = 0; d < w->ndevices; d++)
		n += !w->dev[d].spare;
	return n;
}

void
client_step(struct world *w, uint32_t k)
{
	struct sim_client *c = client_of(w, k);

	if (w->queued && !c->last) {
		ranks_step(w, k);
		return;
	}
	if (c->call != NONE)
		return;
	if (w->calm && !c->last && c->told == 0) {
		if (!c->comm) {
			c->ops = 0;
			return;
		}
		c->what = DESTROY;
		ask_change(w, k, DESTROY);
	} else if (!c->comm) {
		if (c->last && c->known_good) {
			c->ops = 0;
			return;
		}
		c->what = INIT;
		if (c->last)
			ask_init(w, k, everybody(w), GPUSIM_ON_FAILURE_ABORT);
		else
			ask_init(w, k, 1 + roll(w, roll(w, 2) ? 4 : w->ndevices), roll(w, 4));
	} else if (c->told || (!c->failed && !c->known)) {
		c->what = STATUS;
		ask_status(w, k, true);
	} else if (c->last && c->shared) {
		c->known_good = true;
		c->what = DESTROY;
		ask_change(w, k, DESTROY);
	} else if (c->failed) {
		c->what = roll(w, 2) ? SHRINK : DESTROY;
		ask_change(w, k, c->what);
	} else if (c->last || roll(w, 12)) {
		run_something(w, k);
	} else {
		c->what = roll(w, 3) == 0 ? GROW : roll(w, 2) ? ABORT : DESTROY;
		ask_change(w, k, c->what);
	}
}

void
client_start(struct world *w, uint32_t k)
{
	struct sim_client *c = client_of(w, k);

	*c = (struct sim_client){.client_id = roll64(w) | 1, .call = NONE, .ops = 1};
	if (!w->calm || w->now == w->calm_at)
		later(w, k, between(w, 100 * MS, 600 * MS));
}

void
clients_last_check(struct world *w)
{
	/* By then, leases of ended clients have expired, and frozen nodes run again and are known to. */
	uint64_t rest = w->calm_at + 9000 * MS, us = 4000 * MS;

	trace(w, "the last check");
	for (uint32_t k = 0; k < w->nclients; k++) {
		node_kill(w, node_of(w, k), "the last check");
		node_start(w, node_of(w, k));
		w->client[k].ops = k == 0;
		w->client[k].last = true;
	}
	later(w, 0, w->now < rest ? rest - w->now + us : us);
}
