/* The argument checks of a submit: one wrong thing each, and the sentence that names it. */
#include "coord_harness.h"

#define P "rank 1 operation 0: "

static const struct {
	const char *text; /* NULL: right; %u: the number of constants */
	enum gpusim_coll coll;
	uint64_t nelem;
	uint32_t root;
	enum {
		NONE,
		DTYPE,
		BITS,
		OP,
		ALGO,
		STREAM,
		SEND0,
		RECV0,
		LOW,
		HIGH,
		CHUNK,
		KIND,
		PLACE,
		NEAR,
		HUGE,
		FORGED,
		EXACT
	} wrong;
} cases[] = {
    {NULL, GPUSIM_ALLREDUCE, 10, 0, NONE},
    {NULL, GPUSIM_ALLREDUCE, (H_MAX - H_MIN) / 4, 0, PLACE},
    {P "allreduce: the receive buffer overlaps the send buffer, but not as an in-place operation",
     GPUSIM_ALLREDUCE, 10, 0, NEAR},
    {P "alltoall: the receive buffer overlaps the send buffer, but not as an in-place operation",
     GPUSIM_ALLTOALL, 9, 0, PLACE},
    {P "allreduce: chunk of 1048577 bytes: the limit is 1048576", GPUSIM_ALLREDUCE, 10, 0, HUGE},
    {P "a call must not bring its own schedule", GPUSIM_ALLREDUCE, 10, 0, FORGED},
    {"collective 0 (allreduce): deterministic is 1 on rank 1 and 0 on rank 0", GPUSIM_ALLREDUCE, 10,
     0, EXACT},
    {P "allreduce: sendAddr 0x10000, 131073 elements of 4 bytes: outside the device's memory "
       "0x10000..0x90000",
     GPUSIM_ALLREDUCE, (H_MAX - H_MIN) / 4 + 1, 0, NONE},
    {P "allreduce: sendAddr 0x10000, 4611686018427387904 elements of 4 bytes: outside the "
       "device's memory 0x10000..0x90000",
     GPUSIM_ALLREDUCE, 1ull << 62, 0, NONE},
    {P "allreduce: sendAddr 0xffff, 1 elements of 4 bytes: outside the device's memory "
       "0x10000..0x90000",
     GPUSIM_ALLREDUCE, 1, 0, LOW},
    {P "allreduce: recvAddr 0x8fffd, 1 elements of 4 bytes: outside the device's memory "
       "0x10000..0x90000",
     GPUSIM_ALLREDUCE, 1, 0, HIGH},
    {P "allreduce: sendAddr is not given", GPUSIM_ALLREDUCE, 1, 0, SEND0},
    {P "allreduce: recvAddr is not given", GPUSIM_ALLREDUCE, 1, 0, RECV0},
    {NULL, GPUSIM_ALLREDUCE, 0, 0, SEND0},
    {NULL, GPUSIM_BROADCAST, 10, 0, SEND0},
    {P "broadcast: sendAddr is not given", GPUSIM_BROADCAST, 10, 1, SEND0},
    {P "broadcast: recvAddr is not given", GPUSIM_BROADCAST, 10, 0, RECV0},
    {NULL, GPUSIM_REDUCE, 10, 0, RECV0},
    {P "reduce: recvAddr is not given", GPUSIM_REDUCE, 10, 1, RECV0},
    {NULL, GPUSIM_GATHER, 10, 2, RECV0},
    {NULL, GPUSIM_SCATTER, 10, 2, SEND0},
    {P "scatter: recvAddr is not given", GPUSIM_SCATTER, 10, 2, RECV0},
    {NULL, GPUSIM_REDUCESCATTER, 10, 0, NONE},
    {P "reduce-scatter: recvAddr is not given", GPUSIM_REDUCESCATTER, 10, 0, RECV0},
    {P "broadcast: root 3: the communicator has 3 ranks", GPUSIM_BROADCAST, 10, 3, NONE},
    {NULL, GPUSIM_ALLTOALL, 9, 0, NONE},
    {P "alltoall: nelem 10 is not a multiple of 3 ranks", GPUSIM_ALLTOALL, 10, 0, NONE},
    {NULL, GPUSIM_BARRIER, 0, 0, SEND0},
    {P "barrier: nelem is 1; a barrier needs 0", GPUSIM_BARRIER, 1, 0, NONE},
    {P "unknown collective number %u: must be less than %u", GPUSIM_NCOLLS, 10, 0, NONE},
    {P "unknown data type number %u: must be less than %u", GPUSIM_ALLREDUCE, 10, 0, DTYPE},
    {P "unknown reduction number %u: must be less than %u", GPUSIM_ALLREDUCE, 10, 0, OP},
    {P "allreduce: band is for integers, not for f32", GPUSIM_ALLREDUCE, 10, 0, BITS},
    {NULL, GPUSIM_ALLGATHER, 9, 0, BITS},
    {P "stream 64: the last one is 63", GPUSIM_ALLREDUCE, 10, 0, STREAM},
    {P "an operation of an unknown kind", GPUSIM_ALLREDUCE, 10, 0, KIND},
    {"collective 0 (allreduce): chunkBytes is 0 on rank 0 and 64 on rank 1", GPUSIM_ALLREDUCE, 10,
     0, CHUNK},
};

/* The constants of the enum that a number is wrong for. */
static unsigned
constants(size_t i)
{
	return cases[i].wrong == OP	 ? GPUSIM_NREDOPS
	       : cases[i].wrong == DTYPE ? GPUSIM_NDTYPES
					 : GPUSIM_NCOLLS;
}

/* All three ranks do the same; rank 0 and 2 rightly so. Only rank 1 is wrong, if one is. */
static void
build(size_t i, struct h_ops *o)
{
	h_ops_init(o, 3);
	for (uint32_t r = 0; r < 3; r++)
		h_coll(o, r, cases[i].coll, cases[i].nelem, cases[i].root);
	/* So that the check reaches rank 1 first. */
	o->rankp[0] = &o->rank[cases[i].wrong == CHUNK ? 0 : 1];
	o->rankp[1] = &o->rank[cases[i].wrong == CHUNK ? 1 : 0];
	switch (cases[i].wrong) {
	case DTYPE:
		o->coll[1][0].dtype = (GpuSim__DataType)GPUSIM_NDTYPES;
		break;
	case OP:
		o->coll[1][0].redop = (GpuSim__ReduceOp)GPUSIM_NREDOPS;
		break;
	case BITS:
		for (uint32_t r = 0; r < 3; r++)
			o->coll[r][0].redop = (GpuSim__ReduceOp)GPUSIM_BAND;
		break;
	case STREAM:
		o->op[1][0].stream = 64;
		break;
	case SEND0:
		o->coll[1][0].sendaddr = 0;
		break;
	case RECV0:
		o->coll[1][0].recvaddr = 0;
		break;
	case LOW:
		o->coll[1][0].sendaddr = H_MIN - 1;
		break;
	case HIGH:
		o->coll[1][0].recvaddr = H_MAX - 3;
		break;
	case CHUNK:
		o->coll[1][0].chunkbytes = 64;
		break;
	case HUGE:
		for (uint32_t r = 0; r < 3; r++)
			o->coll[r][0].chunkbytes = (1 << 20) + 1;
		break;
	case FORGED:
		o->coll[1][0].schedule = (ProtobufCBinaryData){1, (uint8_t *)"x"};
		break;
	case EXACT:
		o->coll[1][0].deterministic = true;
		break;
	case PLACE:
		for (uint32_t r = 0; r < 3; r++)
			o->coll[r][0].recvaddr = o->coll[r][0].sendaddr;
		break;
	case NEAR:
		o->coll[1][0].recvaddr = o->coll[1][0].sendaddr + 4;
		break;
	case KIND:
		o->op[1][0].kind_case = GPU_SIM__OP__KIND__NOT_SET;
		break;
	default:
		break;
	}
}

static void
t_cases(struct harness *h)
{
	bool good = true;
	struct h_ops o;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[256] = "";
		bool right;
		uint64_t t;

		if (cases[i].text)
			snprintf(text, sizeof text, cases[i].text, constants(i), constants(i));
		build(i, &o);
		t = h_submit(h, 9, 1, &o, false);
		right = cases[i].text ? h_failed(h, t, RC_INVAL, text) && h->ncall == 0
				      : h_failed(h, t, RC_OK, "");
		if (!right)
			printf("# case %zu\n", i);
		good = good && right;
		h_serve(h);
	}
	ok(good, "%zu single operations, right and wrong", sizeof cases / sizeof *cases);
}

static void
t_ranks(struct harness *h)
{
	struct h_ops o;

	h_allreduce(&o, 3, 10);
	o.rank[1].rank = 3;
	ok(h_failed(h, h_submit(h, 9, 1, &o, false), RC_INVAL,
		    "rank 3: communicator 1 has 3 ranks"),
	   "a rank out of range");
	o.rank[1].rank = 2;
	ok(h_failed(h, h_submit(h, 9, 1, &o, false), RC_INVAL, "rank 2 is named twice"),
	   "a rank named twice");
	h_allreduce(&o, 3, 10);
	o.nranks = 2;
	ok(h_failed(h, h_submit(h, 9, 1, &o, false), RC_INVAL,
		    "rank 2 is missing; a collective needs every rank"),
	   "a rank left out");
	o.nranks = 3;
	h_coll(&o, 1, GPUSIM_BARRIER, 0, 0);
	ok(h_failed(h, h_submit(h, 9, 1, &o, false), RC_INVAL,
		    "rank 0 has 1 collectives, but rank 1 has 2"),
	   "unequal numbers of collectives");
}

static void
t_differ(struct harness *h)
{
	struct h_ops o;
	char auto_[] = "auto", naive[] = "naive", nothing[] = "nothing";

	h_allreduce(&o, 3, 10);
	h_coll(&o, 0, GPUSIM_BROADCAST, 8, 0);
	h_coll(&o, 1, GPUSIM_BROADCAST, 8, 0);
	h_coll(&o, 2, GPUSIM_BROADCAST, 8, 0);
	o.coll[2][1].root = 1;
	ok(h_failed(h, h_submit(h, 9, 1, &o, false), RC_INVAL,
		    "collective 1 (broadcast): root is 0 on rank 0 and 1 on rank 2"),
	   "a root that differs");
	o.coll[2][1].root = 0;
	o.coll[1][0].dtype = GPU_SIM__DATA_TYPE__I32;
	ok(h_failed(h, h_submit(h, 9, 1, &o, false), RC_INVAL,
		    "collective 0 (allreduce): dtype is 1 on rank 0 and 6 on rank 1"),
	   "a type that differs");
	o.coll[1][0].dtype = GPU_SIM__DATA_TYPE__F32;
	o.coll[1][0].coll = GPU_SIM__COLLECTIVE__ALLTOALL;
	o.coll[1][0].nelem = 9;
	ok(h_failed(h, h_submit(h, 9, 1, &o, false), RC_INVAL,
		    "collective 0 is allreduce on rank 0 and alltoall on rank 1"),
	   "a collective that differs");
	h_allreduce(&o, 3, 10);
	o.coll[1][0].algo = naive;
	ok(h_failed(h, h_submit(h, 9, 1, &o, false), RC_INVAL,
		    "collective 0 (allreduce): algo is '' on rank 0 and 'naive' on rank 1"),
	   "an algorithm that differs");
	o.coll[1][0].algo = auto_;
	ok(h_code(h, h_submit(h, 9, 1, &o, false)) == 0, "one that only has another name");
	o.coll[1][0].algo = nothing;
	ok(h_code(h, h_submit(h, 9, 1, &o, false)) == RC_INVAL, "one that does not exist");
	h_ops_init(&o, 3);
	h_coll(&o, 1, GPUSIM_SEND, 4, 1);
	ok(h_failed(h, h_submit(h, 9, 1, &o, false), RC_INVAL,
		    P "send: the peer is the rank itself"),
	   "a send to itself");
	o.coll[1][0].root = 3;
	ok(h_failed(h, h_submit(h, 9, 1, &o, false), RC_INVAL,
		    P "send: peer 3: the communicator has 3 ranks"),
	   "a send to nobody");
	ok(h_failed(h, h_submit(h, 9, 4, &o, false), RC_NOTFOUND, "no communicator 4"),
	   "an unknown communicator");
}

/* Give the members of rank r's k-th operation; "02" are ranks 0 and 2. */
static void
members(struct h_ops *o, uint32_t r, size_t k, const char *text)
{
	static uint32_t room[64][8];
	static unsigned used;
	uint32_t *v = room[used++ % 64];
	size_t n = strlen(text);

	for (size_t i = 0; i < n; i++)
		v[i] = (uint32_t)(text[i] - '0');
	o->coll[r][k].members = v;
	o->coll[r][k].n_members = n;
}

static void
t_members(struct harness *h)
{
	/* By rank, the members of its all-reduces; "": all ranks. */
	static const struct {
		const char *text, *rank[3][2];
	} v[] = {
	    {NULL, {{"01"}, {"01"}, {0}}},
	    {NULL, {{"01", "20"}, {"01"}, {"20"}}},
	    {NULL, {{"20", "01"}, {"01"}, {"20"}}},
	    {NULL, {{"0"}, {"1"}, {"2"}}},
	    {NULL, {{"", "01"}, {"", "01"}, {""}}},
	    {NULL, {{"01", "10"}, {"10", "01"}, {0}}}, /* another order is another group */
	    {"rank 0 has 1 collectives of ranks 0, 1, but rank 1 has 0", {{"01"}, {0}, {0}}},
	    {"rank 0 has 1 collectives of ranks 0, 1, but rank 1 has 0", {{"01"}, {"10"}, {0}}},
	    {"rank 0 has 2 collectives of ranks 0, 1, but rank 1 has 1",
	     {{"01", "01"}, {"01"}, {0}}},
	    {"rank 1 has 0 collectives of ranks 1, 2, but rank 2 has 1", {{"01"}, {"01"}, {"12"}}},
	    {"rank 0 operation 0: allreduce: rank 0 is not among the members",
	     {{"12"}, {"12"}, {"12"}}},
	    {"rank 0 operation 0: allreduce: rank 1 is twice among the members",
	     {{"0121"}, {"0121"}, {"0121"}}},
	    {"rank 0 operation 0: allreduce: member 3: the communicator has 3 ranks",
	     {{"03"}, {0}, {0}}},
	    {"rank 0 has 1 collectives, but rank 1 has 0", {{"", "01"}, {"01"}, {""}}},
	};
	static char tp0[] = "tp0", tp1[] = "tp1", longest[] = "123456789012345",
		    longer[] = "1234567890123456";
	struct h_ops o;

	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		uint64_t t;

		h_ops_init(&o, 3);
		for (uint32_t r = 0; r < 3; r++)
			for (size_t k = 0; k < 2 && v[i].rank[r][k]; k++) {
				h_coll(&o, r, GPUSIM_ALLREDUCE, 10, 0);
				members(&o, r, k, v[i].rank[r][k]);
			}
		t = h_submit(h, 9, 1, &o, false);
		ok(h_failed(h, t, v[i].text ? RC_INVAL : RC_OK, v[i].text ? v[i].text : ""),
		   "members %zu: %s", i, v[i].text ? v[i].text : "right");
		h_serve(h);
	}
	h_ops_init(&o, 3);
	for (uint32_t r = 0; r < 2; r++) {
		h_coll(&o, r, GPUSIM_BROADCAST, 10, 1)->group = r ? tp1 : tp0;
		members(&o, r, 0, "01");
	}
	ok(h_failed(
	       h, h_submit(h, 9, 1, &o, false), RC_INVAL,
	       "collective 0 of tp0 (broadcast): group is 'tp0' on rank 0 and 'tp1' on rank 1"),
	   "a name that differs");
	o.coll[0][0].group = o.coll[1][0].group = longest;
	o.coll[1][0].nelem = 9;
	ok(h_failed(h, h_submit(h, 9, 1, &o, false), RC_INVAL,
		    "collective 0 of 123456789012345 (broadcast): nelem is 10 on rank 0 and 9 on "
		    "rank 1"),
	   "sizes that differ");
	o.coll[0][0].group = o.coll[1][0].group = longer;
	ok(h_failed(h, h_submit(h, 9, 1, &o, false), RC_INVAL,
		    "rank 0 operation 0: broadcast: group '1234567890123456': longer than 15 "
		    "letters"),
	   "a name that is too long");
	o.coll[0][0].group = o.coll[1][0].group = tp0;
	o.coll[0][0].root = o.coll[1][0].root = 2;
	ok(h_failed(h, h_submit(h, 9, 1, &o, false), RC_INVAL,
		    "rank 0 operation 0: broadcast: root 2: there are 2 members"),
	   "a root outside of the members");
	h_ops_init(&o, 3);
	h_coll(&o, 0, GPUSIM_SEND, 4, 1);
	members(&o, 0, 0, "01");
	ok(h_failed(h, h_submit(h, 9, 1, &o, false), RC_INVAL,
		    "rank 0 operation 0: send: a send or recv has a peer, not members"),
	   "a send with members");
	h_serve(h);
}

/* Whatever a client sends is run or refused, and leaves nothing behind. */
static void
t_random(struct harness *h)
{
	static const char *const sets[] = {"",	 "",   "0",   "1",  "01", "10",
					   "12", "02", "012", "03", "11"};
	static const enum gpusim_coll colls[] = {GPUSIM_ALLREDUCE, GPUSIM_ALLTOALL,
						 GPUSIM_ALLGATHER, GPUSIM_BROADCAST};
	static uint64_t counts[] = {1, 2, 3, 4};
	unsigned seed = 27, ran = 0, refused = 0;
	struct h_ops o;

	for (int i = 0; i < 4000; i++) {
		unsigned kind = (unsigned)rand_r(&seed);
		int code;

		h_ops_init(&o, 3);
		for (uint32_t r = 0; r < 3; r++)
			for (size_t k = 0, n = (unsigned)rand_r(&seed) % 3; k < n; k++) {
				/* often alike on all ranks */
				unsigned of = rand_r(&seed) % 4 ? kind + (unsigned)k
								: (unsigned)rand_r(&seed);
				GpuSim__Coll *c = h_coll(&o, r, colls[of % 4], 6, of / 4 % 3);

				members(&o, r, k, sets[of / 16 % 11]);
				if (of / 256 % 3 == 0) {
					c->counts = c->recvcounts = counts;
					c->n_counts = c->n_recvcounts = of / 1024 % 5;
				}
			}
		code = h_code(h, h_submit(h, 9, 1, &o, false));
		ran += code == 0;
		refused += code == RC_INVAL;
		h_serve(h);
	}
	ok(ran + refused == 4000 && ran > 100 && refused > 200,
	   "%u random submits were run, %u refused", ran, refused);
}

int
main(void)
{
	struct harness h;

	h_init(&h);
	h_devices(&h, 3);
	h_comm(&h, 9, 3);
	t_cases(&h);
	t_ranks(&h);
	t_differ(&h);
	t_members(&h);
	t_random(&h);
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
	return tap_done();
}
