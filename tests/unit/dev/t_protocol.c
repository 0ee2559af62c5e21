/* The device's side of the protocol, event by event: what it accepts, once, and what it refuses. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dev/protocol.h"
#include "tap.h"

#define ME	 0xd1
#define RANKS	 3
#define MAX_LOG	 65536
#define INSTANCE 77

/* A world of one device: each event's actions as one line of words. */
struct world {
	struct protocol *p;
	char log[MAX_LOG];
	uint64_t start;	  /* of the last PROTOCOL_START */
	uint64_t *starts; /* of all, or NULL */
	size_t nstarts;
	enum rc attach;	   /* what the transport says to an attach, join or define */
	uint64_t instance; /* of the coordinator that attaches */
	const char *addr;  /* of every rank */
};

static const char *const action_word[] = {"answer", "attach", "join", "abort",
					  "detach", "define", "drop", "start"};

static void note(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void
note(struct world *w, const char *fmt, ...)
{
	size_t n = strlen(w->log);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(w->log + n, sizeof w->log - n, fmt, ap);
	va_end(ap);
}

static void
note_answer(struct world *w, const struct protocol_action *a)
{
	enum rc rc = a->result ? a->result->err.rc : a->err->rc;

	note(w, "answer %" PRIu64 ": ", a->caller);
	if (rc != RC_OK)
		note(w, "%s, %s; ", rc_name(rc), a->result ? a->result->err.text : a->err->text);
	else if (a->result)
		note(w, "ran %" PRIu64 "; ", a->result->compute_ns);
	else
		note(w, "ok; ");
}

static void feed(struct world *w, const struct protocol_event *ev);

static void
carry_out(struct world *w, const struct protocol_action *v, size_t n)
{
	struct err err = {0};
	struct protocol_event due = {.kind = PROTOCOL_RESULT, .err = &err};

	if (w->attach != RC_OK)
		err_set(&err, w->attach, "the transport will not");
	for (size_t i = 0; i < n; i++) {
		const struct protocol_action *a = &v[i];

		if (a->kind == PROTOCOL_ANSWER) {
			note_answer(w, a);
			continue;
		}
		note(w, "%s", action_word[a->kind]);
		if (a->kind == PROTOCOL_ABORT || a->kind == PROTOCOL_DETACH)
			note(w, " %" PRIu64, a->comm);
		if (a->kind == PROTOCOL_ABORT)
			note(w, "/%u (%s)", a->epoch, a->reason);
		if (a->kind == PROTOCOL_START) {
			w->start = a->start;
			if (w->starts)
				w->starts[w->nstarts++] = a->start;
			note(w, " for %" PRIu64 "%s%s", a->caller, a->restore ? " restore" : "",
			     a->snapshot ? " keep" : "");
		}
		if (a->kind == PROTOCOL_ATTACH || a->kind == PROTOCOL_JOIN ||
		    a->kind == PROTOCOL_DEFINE)
			due.caller = a->caller;
		note(w, "; ");
	}
	if (due.caller)
		feed(w, &due);
}

static void
feed(struct world *w, const struct protocol_event *ev)
{
	const struct protocol_action *v;
	size_t n = protocol_step(w->p, ev, &v);

	carry_out(w, v, n);
}

/* Feed a request; what came of it. */
static const char *
ask(struct world *w, uint64_t caller, const GpuSim__Request *req)
{
	struct protocol_event ev = {.kind = PROTOCOL_REQUEST, .caller = caller, .request = req};

	w->log[0] = '\0';
	feed(w, &ev);
	return w->log;
}

#define REQUEST(CASE, member, q)                                                    \
	(&(GpuSim__Request){PROTOBUF_C_MESSAGE_INIT(&gpu_sim__request__descriptor), \
			    .body_case = GPU_SIM__REQUEST__BODY_##CASE, .member = (q)})

static const char *
attach_as(struct world *w, uint64_t caller, uint64_t comm, uint32_t epoch, uint32_t rank,
	  uint32_t nranks)
{
	GpuSim__CommAttachRequest q = GPU_SIM__COMM_ATTACH_REQUEST__INIT;
	GpuSim__DeviceMetadata meta[RANKS], *p[RANKS];
	GpuSim__DeviceId id[RANKS];

	for (uint32_t r = 0; r < RANKS; r++) {
		gpu_sim__device_metadata__init(p[r] = &meta[r]);
		gpu_sim__device_id__init(meta[r].deviceid = &id[r]);
		id[r].value = 0xd0 + r;
		meta[r].dataaddress = (char *)w->addr;
	}
	q.commid = comm;
	q.epoch = epoch;
	q.rank = rank;
	q.n_ranks = nranks;
	q.ranks = p;
	q.optimeoutms = 10;
	q.instance = w->instance;
	return ask(w, caller, REQUEST(COMM_ATTACH, commattach, &q));
}

static const char *
attach(struct world *w, uint64_t caller, uint64_t comm, uint32_t epoch)
{
	return attach_as(w, caller, comm, epoch, 1, RANKS);
}

static const char *
join(struct world *w, uint64_t caller, uint64_t comm, uint32_t epoch)
{
	GpuSim__CommJoinRequest q = GPU_SIM__COMM_JOIN_REQUEST__INIT;

	q.commid = comm;
	q.epoch = epoch;
	return ask(w, caller, REQUEST(COMM_JOIN, commjoin, &q));
}

static const char *
abort_comm(struct world *w, uint64_t caller, uint64_t comm, uint32_t epoch, const char *reason)
{
	GpuSim__CommAbortRequest q = GPU_SIM__COMM_ABORT_REQUEST__INIT;

	q.commid = comm;
	q.epoch = epoch;
	q.reason = (char *)reason;
	return ask(w, caller, REQUEST(COMM_ABORT, commabort, &q));
}

static const char *
detach_at(struct world *w, uint64_t caller, uint64_t comm, uint32_t epoch)
{
	GpuSim__CommDetachRequest q = GPU_SIM__COMM_DETACH_REQUEST__INIT;

	q.commid = comm;
	q.epoch = epoch;
	return ask(w, caller, REQUEST(COMM_DETACH, commdetach, &q));
}

static const char *
detach(struct world *w, uint64_t caller, uint64_t comm)
{
	return detach_at(w, caller, comm, 0);
}

/* A graph of so many barriers. */
static const char *
define(struct world *w, uint64_t caller, uint64_t comm, uint64_t graph, size_t nops)
{
	GpuSim__GraphDefineRequest q = GPU_SIM__GRAPH_DEFINE_REQUEST__INIT;
	GpuSim__Op op = GPU_SIM__OP__INIT, *ops[4] = {&op, &op, &op, &op};
	GpuSim__Coll coll = GPU_SIM__COLL__INIT;

	op.kind_case = GPU_SIM__OP__KIND_COLL;
	op.coll = &coll;
	q.commid = comm;
	q.graphid = graph;
	q.n_ops = nops;
	q.ops = ops;
	return ask(w, caller, REQUEST(GRAPH_DEFINE, graphdefine, &q));
}

static const char *
drop(struct world *w, uint64_t caller, uint64_t graph)
{
	GpuSim__GraphDropRequest q = GPU_SIM__GRAPH_DROP_REQUEST__INIT;

	q.graphid = graph;
	return ask(w, caller, REQUEST(GRAPH_DROP, graphdrop, &q));
}

/* graph 0: operations of its own; then p2p: sends and receives that met nobody. */
static const char *
run_as(struct world *w, uint64_t caller, uint64_t comm, uint32_t epoch, uint64_t run,
       uint64_t graph, bool p2p)
{
	GpuSim__RunRequest q = GPU_SIM__RUN_REQUEST__INIT;
	GpuSim__Op op = GPU_SIM__OP__INIT, *ops[1] = {&op};
	GpuSim__Coll coll = GPU_SIM__COLL__INIT;

	op.kind_case = GPU_SIM__OP__KIND_COLL;
	op.coll = &coll;
	coll.p2p = p2p;
	q.stride = !p2p;
	q.commid = comm;
	q.epoch = epoch;
	q.run = run;
	q.graphid = graph;
	q.ops = ops;
	q.n_ops = graph == 0;
	q.iterations = 1;
	q.keep = true;
	q.restore = epoch > 3;
	return ask(w, caller, REQUEST(RUN, run, &q));
}

static const char *
run(struct world *w, uint64_t caller, uint64_t comm, uint32_t epoch, uint64_t number)
{
	return run_as(w, caller, comm, epoch, number, 0, false);
}

/* The run ends, so well or so ill. */
static const char *
end(struct world *w, uint64_t start, enum rc rc, uint64_t ns)
{
	struct run_result res = {.compute_ns = ns};
	struct protocol_event ev = {.kind = PROTOCOL_ENDED, .start = start, .result = &res};

	if (rc != RC_OK)
		err_set(&res.err, rc, "it broke");
	w->log[0] = '\0';
	feed(w, &ev);
	return w->log;
}

static struct world
world(void)
{
	struct world w = {.p = protocol_new(ME), .instance = INSTANCE, .addr = "ipc:///x"};

	if (!w.p)
		abort();
	return w;
}

/* One check: exactly these actions. */
static void
is(const char *got, const char *want, const char *what)
{
	ok(strcmp(got, want) == 0, "%s", what);
	if (strcmp(got, want) != 0)
		printf("# got  %s\n# want %s\n", got, want);
}

/* ---- communicators */

static void
test_attach(void)
{
	struct world w = world();

	is(attach(&w, 1, 9, 3), "attach; answer 1: ok; ", "attached");
	is(attach(&w, 2, 9, 3), "answer 2: ok; ", "the same again is accepted as it is");
	is(attach(&w, 3, 9, 2),
	   "answer 3: aborted, epoch 2 is over, communicator 9 is at epoch 3; ",
	   "an older epoch is refused with both epochs");
	w.addr = "ipc:///y";
	is(attach(&w, 4, 9, 3),
	   "answer 4: invalid argument, communicator 9 is already at epoch 3 with other ranks; ",
	   "the same epoch with other ranks is refused");
	is(attach(&w, 5, 9, 4), "attach; answer 5: ok; ", "a newer epoch");
	w.attach = RC_NOMEM;
	is(attach(&w, 6, 9, 5), "attach; answer 6: out of memory, the transport will not; ",
	   "what the transport will not do is told");
	w.attach = RC_OK;
	is(run(&w, 7, 9, 4, 1), "start for 7 restore keep; ", "and the older epoch stays");
	is(attach_as(&w, 8, 9, 6, 1, 1),
	   "answer 8: invalid argument, communicator 9 of 1 ranks has no rank 1; ",
	   "a rank too high");
	is(attach_as(&w, 8, 9, 6, 0, RANKS),
	   "answer 8: invalid argument, rank 0 is device 00000000000000d0, not this one; ",
	   "somebody else's rank");
	is(attach_as(&w, 8, 0, 6, 1, RANKS),
	   "answer 8: invalid argument, communicator 0 of 3 ranks has no rank 1; ",
	   "0 is no communicator");
	protocol_free(w.p);
}

static void
test_attach_bounds(void)
{
	struct world w = world();
	unsigned good = 0;
	char want[128];

	for (uint64_t c = 1; c <= PROTOCOL_MAX_COMMS; c++) {
		snprintf(want, sizeof want, "attach; answer %" PRIu64 ": ok; ", c);
		good += strcmp(attach(&w, c, c, 1), want) == 0;
	}
	ok(good == PROTOCOL_MAX_COMMS, "so many communicators");
	is(attach(&w, 1, 1000, 1), "answer 1: busy, a device can be in at most 256 communicators; ",
	   "and no more");
	is(attach(&w, 2, 7, 2), "attach; answer 2: ok; ", "but a newer epoch of one");
	w.instance = 78;
	good = 0;
	attach(&w, 3, 1000, 1);
	for (const char *at = w.log; (at = strstr(at, "detach")); at++)
		good++;
	ok(good == PROTOCOL_MAX_COMMS, "another coordinator: all that its predecessor left goes");
	protocol_free(w.p);
}

static void
test_coordinators(void)
{
	struct world w = world();
	uint64_t old;

	attach(&w, 1, 9, 3);
	define(&w, 2, 9, 50, 1);
	run(&w, 3, 9, 3, 1);
	old = w.start;
	w.instance = 78;
	is(attach(&w, 4, 1, 1),
	   "abort 9/3 (another coordinator took over); detach 9; drop; attach; ",
	   "what another coordinator's predecessor left is dropped, with its graphs");
	is(attach(&w, 5, 9, 1), "attach; ", "its number is free for any epoch");
	is(end(&w, old, RC_ABORTED, 0), "answer 3: aborted, it broke; answer 4: ok; answer 5: ok; ",
	   "a run of the dropped one tells its caller all the same, and those who waited for it");
	is(run(&w, 6, 9, 1, 1), "start for 6 keep; ", "and is not taken for the new one's");
	protocol_free(w.p);
}

static void
test_join_abort_detach(void)
{
	struct world w = world();

	is(join(&w, 1, 9, 1), "answer 1: not found, no communicator 9 on this device; ",
	   "join: unknown");
	attach(&w, 1, 9, 3);
	is(join(&w, 1, 9, 3), "join; answer 1: ok; ", "join");
	is(join(&w, 1, 9, 2), "answer 1: aborted, epoch 2 is over, communicator 9 is at epoch 3; ",
	   "join: an older epoch");
	is(join(&w, 1, 9, 4), "answer 1: not found, no epoch 4: communicator 9 is at epoch 3; ",
	   "join: one that is not there yet");
	is(abort_comm(&w, 1, 9, 2, "x"),
	   "answer 1: aborted, epoch 2 is over, communicator 9 is at epoch 3; ",
	   "abort: an older epoch does the newer no harm");
	is(run(&w, 2, 9, 3, 1), "start for 2 keep; ", "which goes on");
	is(abort_comm(&w, 1, 9, 3, "rank 0 died"), "abort 9/3 (rank 0 died); answer 1: ok; ",
	   "abort");
	is(abort_comm(&w, 1, 9, 3, "again"), "abort 9/3 (rank 0 died); answer 1: ok; ",
	   "abort again: the first reason stays");
	is(run(&w, 3, 9, 3, 2), "answer 3: aborted, rank 0 died; ",
	   "an aborted epoch takes no run");
	is(run(&w, 4, 9, 3, 1), "", "but whose run is under way waits for its end");
	is(end(&w, w.start, RC_ABORTED, 0),
	   "answer 2: aborted, it broke; answer 4: aborted, it broke; ", "and all hear of it");
	is(attach(&w, 1, 9, 3), "answer 1: aborted, rank 0 died; ",
	   "an aborted epoch is not attached again");
	is(attach(&w, 1, 9, 4), "attach; answer 1: ok; ", "a newer is");
	is(detach_at(&w, 1, 9, 3),
	   "answer 1: aborted, epoch 3 is over, communicator 9 is at epoch 4; ",
	   "detach from an older epoch does not end the newer");
	is(detach(&w, 1, 9), "abort 9/4 (the communicator was destroyed); detach 9; answer 1: ok; ",
	   "detach");
	is(detach(&w, 1, 9), "answer 1: not found, no communicator 9 on this device; ",
	   "detach again");
	protocol_free(w.p);
}

/* ---- graphs */

static void
test_graphs(void)
{
	struct world w = world();
	unsigned good = 0;

	is(define(&w, 1, 9, 50, 1), "answer 1: not found, no communicator 9 on this device; ",
	   "a graph of no communicator here");
	attach(&w, 1, 9, 1);
	is(define(&w, 1, 9, 0, 1), "answer 1: invalid argument, a graph needs a number; ",
	   "graph 0");
	is(define(&w, 1, 9, 50, 1), "define; answer 1: ok; ", "a graph");
	is(define(&w, 1, 9, 50, 1), "answer 1: ok; ", "the same again is accepted as it is");
	is(define(&w, 1, 9, 50, 2), "answer 1: invalid argument, graph 50 is already defined; ",
	   "another under its number is refused");
	is(define(&w, 1, 0, 51, 1), "define; answer 1: ok; ", "one without a communicator");
	w.attach = RC_NOTFOUND;
	is(define(&w, 1, 9, 52, 1), "define; answer 1: not found, the transport will not; ",
	   "one that cannot be");
	w.attach = RC_OK;
	is(run_as(&w, 1, 9, 1, 1, 52, false), "answer 1: not found, no graph 52 on this device; ",
	   "is not there");
	is(run_as(&w, 1, 9, 1, 1, 51, false),
	   "answer 1: invalid argument, graph 51 is of communicator 0, not 9; ",
	   "a graph of another communicator");
	is(run_as(&w, 1, 9, 1, 1, 50, false), "start for 1 keep; ", "a graph's run");
	is(attach(&w, 1, 9, 1), "answer 1: ok; ", "attached again as it was: graphs stay");
	is(attach(&w, 1, 9, 2), "attach; drop; ", "attached anew: they go");
	is(run_as(&w, 1, 9, 2, 1, 50, false), "answer 1: not found, no graph 50 on this device; ",
	   "and are gone");
	is(drop(&w, 1, 51), "drop; answer 1: ok; ", "dropped");
	is(drop(&w, 1, 51), "answer 1: not found, no graph 51 on this device; ", "dropped again");
	for (uint64_t g = 100; g < 100 + PROTOCOL_MAX_GRAPHS; g++)
		good += strcmp(define(&w, 1, 0, g, 1), "define; answer 1: ok; ") == 0;
	ok(good == PROTOCOL_MAX_GRAPHS, "so many graphs");
	is(define(&w, 1, 0, 99, 1), "answer 1: busy, a device keeps at most 1024 graphs; ",
	   "and no more");
	is(drop(&w, 1, 700), "drop; answer 1: ok; ", "one less");
	is(define(&w, 1, 0, 99, 1), "define; answer 1: ok; ", "one more");
	protocol_free(w.p);
}

/* ---- runs */

static void
test_once(void)
{
	struct world w = world();
	uint64_t first;

	attach(&w, 1, 9, 3);
	is(run(&w, 1, 8, 3, 1), "answer 1: failed, no communicator 8 on this device; ",
	   "of none here");
	is(run(&w, 1, 9, 2, 1),
	   "answer 1: aborted, epoch 2 is over, communicator 9 is at epoch 3; ",
	   "of an epoch that is over");
	is(run(&w, 1, 9, 4, 1), "answer 1: failed, no epoch 4: communicator 9 is at epoch 3; ",
	   "of one that is not there yet");
	is(run(&w, 1, 9, 3, 5), "start for 1 keep; ", "a run");
	first = w.start;
	is(run(&w, 2, 9, 3, 5), "", "the same again waits");
	is(run(&w, 3, 9, 3, 5), "", "and once more");
	is(end(&w, first, RC_OK, 70), "answer 1: ran 70; answer 3: ran 70; answer 2: ran 70; ",
	   "one end, all hear of it");
	is(end(&w, first, RC_OK, 70), "", "a run ends once");
	is(run(&w, 4, 9, 3, 5), "answer 4: ran 70; ", "later its answer is remembered");
	is(run(&w, 5, 9, 3, 4),
	   "answer 5: aborted, run 4 of communicator 9 is too old: run 5 has ended; ",
	   "a lower number is too old");
	run(&w, 6, 9, 3, 6);
	is(end(&w, w.start, RC_TIMEOUT, 0), "answer 6: timed out, it broke; ", "a failed run");
	is(run(&w, 7, 9, 3, 6), "answer 7: timed out, it broke; ", "its failure is remembered");
	is(run(&w, 8, 9, 3, 0), "start for 8 keep; ", "one without a number");
	is(run(&w, 9, 9, 3, 0), "start for 9 keep; ", "is another each time");
	protocol_free(w.p);
}

static void
test_memory(void)
{
	struct world w = world();
	unsigned good = 0;

	attach(&w, 1, 9, 1);
	run(&w, 1, 9, 1, 1);
	for (uint64_t n = 2; n <= PROTOCOL_REMEMBERED + 10; n++) {
		uint64_t start;

		run_as(&w, n, 9, 1, n, 0, true);
		start = w.start;
		end(&w, start, RC_OK, n);
	}
	for (uint64_t n = 11; n <= PROTOCOL_REMEMBERED + 10; n++) {
		char want[64];

		snprintf(want, sizeof want, "answer 1: ran %" PRIu64 "; ", n);
		good += strcmp(run_as(&w, 1, 9, 1, n, 0, true), want) == 0;
	}
	ok(good == PROTOCOL_REMEMBERED, "so many sends and receives are remembered");
	is(run_as(&w, 1, 9, 1, 10, 0, true),
	   "answer 1: aborted, run 10 of communicator 9 is too old: run 10 has ended; ",
	   "one before that is too old");
	is(run(&w, 2, 9, 1, 2), "start for 2 keep; ",
	   "but what takes turns and was overtaken is not");
	protocol_free(w.p);
}

static void
test_epochs(void)
{
	struct world w = world();
	uint64_t old, older;

	attach(&w, 1, 9, 1);
	run(&w, 1, 9, 1, 5);
	older = w.start;
	run_as(&w, 2, 9, 1, 6, 0, true);
	old = w.start;
	is(attach(&w, 1, 9, 2), "attach; ", "a newer epoch while runs are under way");
	is(run(&w, 3, 9, 2, 5), "", "a run waits: those of the older epoch may still write");
	is(run(&w, 4, 9, 2, 5), "", "the same again waits for that one");
	is(end(&w, old, RC_ABORTED, 0), "answer 2: aborted, it broke; ", "one of two has ended");
	is(end(&w, older, RC_ABORTED, 0),
	   "answer 1: aborted, it broke; answer 1: ok; start for 3 keep; ",
	   "the other, too: it is there, and on");
	is(end(&w, w.start, RC_OK, 9), "answer 3: ran 9; answer 4: ran 9; ", "and it ends");
	is(run(&w, 5, 9, 2, 6), "start for 5 keep; ", "the next at once");
	old = w.start;
	attach(&w, 1, 9, 4);
	run(&w, 6, 9, 4, 6);
	is(attach(&w, 1, 9, 5),
	   "attach; answer 6: aborted, epoch 4 is over, communicator 9 is at epoch 5; answer 1: "
	   "aborted, epoch 4 is over, communicator 9 is at epoch 5; ",
	   "what waits hears that its epoch is over");
	run(&w, 7, 9, 5, 6);
	is(abort_comm(&w, 1, 9, 5, "enough"),
	   "abort 9/5 (enough); answer 7: aborted, enough; answer 1: aborted, enough; "
	   "answer 1: ok; ",
	   "or that it is aborted");
	attach(&w, 1, 9, 6);
	run(&w, 8, 9, 6, 6);
	is(detach(&w, 1, 9),
	   "abort 9/6 (the communicator was destroyed); detach 9; "
	   "answer 8: aborted, the communicator was destroyed; "
	   "answer 1: aborted, the communicator was destroyed; answer 1: ok; ",
	   "or that the communicator goes");
	is(end(&w, old, RC_ABORTED, 0), "answer 5: aborted, it broke; ",
	   "a run whose communicator went");
	protocol_free(w.p);
}

/* Runs of a communicator that has gone may still write: who makes the next one hears of it later. */
static void
test_orphans(void)
{
	struct world w = world();
	uint64_t first, second;

	attach(&w, 1, 9, 1);
	run(&w, 2, 9, 1, 1);
	first = w.start;
	run_as(&w, 3, 9, 1, 2, 0, true);
	second = w.start;
	attach(&w, 1, 8, 1);
	detach(&w, 1, 9);
	is(attach(&w, 4, 7, 1), "attach; ", "a new communicator while orphans are under way");
	is(attach(&w, 5, 7, 1), "", "the same again waits with it");
	is(attach(&w, 6, 8, 2), "attach; answer 6: ok; ", "one that was there does not wait");
	is(end(&w, first, RC_ABORTED, 0), "answer 2: aborted, it broke; ", "one of two has ended");
	is(end(&w, second, RC_OK, 1), "answer 3: ran 1; answer 5: ok; answer 4: ok; ",
	   "the other, too: it is there");
	is(attach(&w, 1, 7, 1), "answer 1: ok; ", "and stays");
	is(attach(&w, 1, 6, 1), "attach; answer 1: ok; ", "the next at once");
	run(&w, 2, 7, 1, 1);
	first = w.start;
	detach(&w, 1, 7);
	attach(&w, 3, 7, 1);
	is(abort_comm(&w, 1, 7, 1, "enough"),
	   "abort 7/1 (enough); answer 3: aborted, enough; answer 1: ok; ",
	   "who waits hears that it is aborted");
	is(attach(&w, 4, 7, 2), "attach; ", "a newer epoch waits as well");
	is(attach(&w, 5, 7, 3),
	   "attach; answer 4: aborted, epoch 2 is over, communicator 7 is at epoch 3; ",
	   "who waits hears that its epoch is over");
	is(detach(&w, 1, 7),
	   "abort 7/3 (the communicator was destroyed); detach 7; "
	   "answer 5: aborted, the communicator was destroyed; answer 1: ok; ",
	   "or that it has gone");
	w.attach = RC_NOMEM;
	is(attach(&w, 6, 7, 4), "attach; answer 6: out of memory, the transport will not; ",
	   "or at once what the transport will not do");
	w.attach = RC_OK;
	w.instance = 78;
	attach(&w, 7, 7, 1);
	is(end(&w, first, RC_ABORTED, 0), "answer 2: aborted, it broke; answer 7: ok; ",
	   "another coordinator's waits for its predecessor's runs");
	run(&w, 8, 7, 1, 1);
	detach(&w, 1, 7);
	attach(&w, 9, 7, 1);
	protocol_free(w.p); /* with one that waits */
}

/* Whatever comes in whatever order: each request is answered once, at the latest when all runs have
 * ended, and no run number is executed twice in an epoch. */
static uint64_t rng;

static uint32_t
roll(uint32_t n)
{
	rng = rng * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((rng >> 33) % n);
}

#define STORMS 300
#define EVENTS 400

/* What event e was: an end, or a request, by caller e, to run this perhaps. */
struct wish {
	uint64_t comm, number;
	uint32_t epoch;
	bool ends;
};

static const char *
end_some(struct world *w, size_t i)
{
	uint64_t start = w->starts[i];

	w->starts[i] = w->starts[--w->nstarts];
	return end(w, start, roll(3) ? RC_OK : RC_ABORTED, 1);
}

static const char *
random_event(struct world *w, uint64_t e, struct wish *wish)
{
	*wish = (struct wish){1 + roll(3), 1 + roll(60), 1 + roll(7), false};
	switch (roll(12)) {
	case 0:
		w->attach = roll(8) ? RC_OK : RC_INVAL;
		attach(w, e, wish->comm, wish->epoch);
		w->attach = RC_OK;
		return w->log;
	case 1:
		return roll(4) ? abort_comm(w, e, wish->comm, wish->epoch, "")
			       : detach(w, e, wish->comm);
	case 2:
		return define(w, e, wish->comm, 1 + roll(5), 1);
	case 3:
		return drop(w, e, 1 + roll(5));
	case 4:
	case 5:
	case 6:
		wish->ends = true;
		return w->nstarts ? end_some(w, roll((uint32_t)w->nstarts)) : "";
	default:
		return run_as(w, e, wish->comm, wish->epoch, wish->number,
			      roll(4) ? 0 : 1 + roll(5), roll(2));
	}
}

/* Count who is answered; how many of them for a second time. */
static unsigned
count_answers(const char *log, uint8_t *answered)
{
	unsigned twice = 0;

	for (const char *at = log; (at = strstr(at, "answer ")); at++)
		twice += answered[strtoull(at + 7, NULL, 10)]++;
	return twice;
}

static unsigned
storm(uint64_t seed)
{
	struct world w = world();
	static struct wish wish[EVENTS + 1];
	uint8_t answered[EVENTS + 1] = {0}, ran[4][8][64] = {0};
	uint64_t starts[EVENTS];
	unsigned bad = 0;
	struct buf dump = {0};

	rng = seed;
	w.starts = starts;
	for (uint64_t e = 1; e <= EVENTS; e++) {
		const char *log = random_event(&w, e, &wish[e]), *at;

		bad += count_answers(log, answered);
		/* A communicator that goes takes along what has been done: numbers may come again.
		 */
		if (strstr(log, "detach"))
			memset(ran[wish[e].comm], 0, sizeof ran[0]);
		for (at = log; (at = strstr(at, "start for ")); at++) {
			const struct wish *k = &wish[strtoull(at + 10, NULL, 10)];

			bad += ran[k->comm][k->epoch][k->number]++;
		}
	}
	while (w.nstarts)
		bad += count_answers(end_some(&w, 0), answered);
	for (uint64_t e = 1; e <= EVENTS; e++)
		bad += !wish[e].ends && !answered[e];
	bad += !protocol_dump(w.p, &dump);
	buf_fini(&dump);
	protocol_free(w.p);
	return bad;
}

int
main(void)
{
	unsigned bad = 0;

	test_attach();
	test_attach_bounds();
	test_coordinators();
	test_join_abort_detach();
	test_graphs();
	test_once();
	test_memory();
	test_epochs();
	test_orphans();
	for (uint64_t seed = 1; seed <= STORMS; seed++)
		bad += storm(seed);
	ok(bad == 0, "%d storms: each is answered once, nothing is run twice", STORMS);
	return tap_done();
}
