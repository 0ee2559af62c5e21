/* The order in which a group's operations begin: the same for all ranks, whatever the order of their calls. */
#include <string.h>

#include "gpusim.h"
#include "nccl/order.h"
#include "tap.h"

/* Communicators and streams are only compared here. */
static char comms[4], streams[4];

static struct nccl_op
op(int comm, int stream, int ordinal, int coll, uint32_t peer, uint64_t nbytes)
{
	struct nccl_op o = {.comm = (struct ncclComm *)&comms[comm],
			    .stream = &streams[stream],
			    .ordinal = ordinal,
			    .comm_id = (uint64_t)(10 - comm),
			    .nbytes = nbytes};

	o.c.kind = coll == GPUSIM_SEND || coll == GPUSIM_RECV ? CMDQ_SENDRECV : CMDQ_COLL;
	o.c.coll = (uint8_t)coll;
	o.c.u.coll = (struct cmdq_coll){.root = peer, .send = 100, .recv = 200};
	return o;
}

/* "launch:comm.coll" of each. */
static const char *
shown(const struct nccl_op *o, size_t n)
{
	static char text[512];
	size_t at = 0;

	text[0] = '\0';
	for (size_t i = 0; i < n; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, "%s%zu:%d.%d", i ? " " : "",
				       o[i].launch, (int)((char *)o[i].comm - comms), o[i].c.coll);
	return text;
}

static void
test_order(void)
{
	struct nccl_op o[] = {
	    op(0, 0, 0, GPUSIM_SEND, 1, 8),	 op(0, 0, 0, GPUSIM_BROADCAST, 0, 8),
	    op(1, 1, 1, GPUSIM_ALLGATHER, 0, 8), op(0, 0, 0, GPUSIM_ALLREDUCE, 0, 8),
	    op(1, 1, 1, GPUSIM_RECV, 0, 8),	 op(0, 0, 0, GPUSIM_RECV, 1, 8),
	};
	struct nccl_op two[] = {op(0, 0, 0, GPUSIM_ALLREDUCE, 0, 8),
				op(1, 0, 0, GPUSIM_BROADCAST, 0, 8)};

	ok(nccl_order(o, 6) == 2, "a launch for each device");
	ok(!strcmp(shown(o, 6), "0:0.1 0:0.0 0:0.9 0:0.10 1:1.3 1:1.10"),
	   "collectives first as they were called, then sends and receives: %s", shown(o, 6));
	ok(nccl_order(two, 2) == 1 && !strcmp(shown(two, 2), "0:1.1 0:0.0"),
	   "communicators of one stream by their ids");
	ok(nccl_order(NULL, 0) == 0, "an empty group");
}

static void
test_streams(void)
{
	struct nccl_op o[] = {op(0, 0, 0, GPUSIM_SEND, 1, 8), op(0, 1, 0, GPUSIM_ALLREDUCE, 0, 8),
			      op(0, 1, 0, GPUSIM_BROADCAST, 0, 8),
			      op(1, 1, 1, GPUSIM_ALLREDUCE, 0, 8)};
	struct nccl_edge e[4];

	ok(nccl_edges(o, 4, e) == 1 && e[0].lead == &streams[0] && e[0].other == &streams[1] &&
	       e[0].ordinal == 0,
	   "a second stream of a communicator waits for its first");
	ok(nccl_order(o, 4) == 2 && o[0].stream == &streams[0] && o[1].stream == &streams[0] &&
	       o[2].stream == &streams[0] && o[3].stream == &streams[1],
	   "all of it begins on the first; the same handle on another device is another stream");
}

static void
test_self(void)
{
	struct nccl_op o[] = {op(0, 0, 0, GPUSIM_RECV, 0, 8), op(0, 0, 0, GPUSIM_SEND, 1, 8),
			      op(0, 0, 0, GPUSIM_SEND, 0, 8), op(0, 0, 0, GPUSIM_RECV, 1, 8)};
	struct nccl_op alone[] = {op(0, 0, 0, GPUSIM_RECV, 0, 8)};
	struct nccl_op unequal[] = {op(0, 0, 0, GPUSIM_RECV, 0, 8), op(0, 0, 0, GPUSIM_SEND, 0, 4)};
	struct nccl_op other[] = {op(0, 0, 0, GPUSIM_SEND, 0, 8), op(1, 0, 0, GPUSIM_RECV, 0, 8)};
	struct err err = {0};
	size_t n = 4;

	ok(nccl_pair_self(o, &n, &err) == RC_OK && n == 3 && o[1].c.kind == CMDQ_COPY &&
	       o[1].c.u.bytes.src == 100 && o[1].c.u.bytes.dst == 200 && o[1].c.u.bytes.nbytes == 8,
	   "a send to oneself is a copy, and its receive is gone");
	n = 1;
	ok(nccl_pair_self(alone, &n, &err) == RC_INVAL && strstr(err.text, "without a send"), "%s",
	   err.text);
	n = 2;
	ok(nccl_pair_self(unequal, &n, &err) == RC_INVAL && strstr(err.text, "receives 8"), "%s",
	   err.text);
	n = 2;
	ok(nccl_pair_self(other, &n, &err) == RC_INVAL && strstr(err.text, "without a receive"),
	   "%s", err.text);
}

static void
test_pieces(void)
{
	static struct nccl_op o[2 * CMDQ_SIZE];
	const size_t most = CMDQ_SIZE / 2;
	struct err err = {0};

	for (size_t i = 0; i < 2 * CMDQ_SIZE; i++)
		o[i] = op(0, 0, 0, i < 100 ? GPUSIM_ALLREDUCE : GPUSIM_SEND, 1, 8);
	ok(nccl_piece(o, most) == most, "a short launch is one piece");
	ok(nccl_piece(o, most + 50) == 100, "a set stays whole");
	ok(nccl_check_sets(o, most + 50, &err) == RC_OK, "and has room then");
	ok(nccl_check_sets(o, most + 101, &err) == RC_INVAL && strstr(err.text, "limit is 512"),
	   "%s", err.text);
	for (size_t i = 0; i < 2 * CMDQ_SIZE; i++)
		o[i] = op(0, 0, 0, GPUSIM_ALLREDUCE, 1, 8);
	ok(nccl_piece(o, 2 * CMDQ_SIZE) == most, "collectives are cut anywhere");
}

/* Two steps of a hypercube: what the first receives, the second sends. */
static void
test_cuts(void)
{
	struct nccl_op o[] = {op(0, 0, 0, GPUSIM_SEND, 1, 8), op(0, 0, 0, GPUSIM_RECV, 1, 8),
			      op(0, 0, 0, GPUSIM_RECV, 2, 8), op(0, 0, 0, GPUSIM_SEND, 2, 16),
			      op(1, 1, 1, GPUSIM_SEND, 1, 8)};

	o[1].c.u.coll.recv = 108;
	for (int i = 0; i < 5; i++)
		o[i].inner = (uint32_t)i / 2;
	nccl_order(o, 5);
	ok(o[2].c.coll == GPUSIM_RECV && o[2].c.flags == CMDQ_APART,
	   "a group inside that sends what an earlier one receives begins a set");
	ok(!o[0].c.flags && !o[1].c.flags && !o[3].c.flags && !o[4].c.flags, "nothing else does");
	for (int i = 0; i < 5; i++)
		o[i].inner = 0, o[i].c.flags = 0;
	nccl_order(o, 5);
	ok(!o[2].c.flags && !o[3].c.flags, "nor within one group");
}

int
main(void)
{
	test_order();
	test_cuts();
	test_streams();
	test_self();
	test_pieces();
	return tap_done();
}
