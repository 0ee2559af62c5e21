/* Algorithms from files at the coordinator: names, limits, leases, restarts; and how runs carry their schedules. */
#include "coord/core/limits.h"
#include "coord_harness.h"

#define HEAD(name, ranks, chunks) \
	"algorithm " name "\ncollective allreduce\nranks " #ranks "\nchunks " #chunks "\n"
#define BODY                                                                  \
	"for r in 1..ranks - 1\n reduce r.data[0:chunks] -> 0.data[0]\nend\n" \
	"for r in 1..ranks - 1\n copy 0.data[0:chunks] -> r.data[0]\nend\n"
#define STAR(name, ranks, chunks) HEAD(name, ranks, chunks) BODY

/* The last rank's data go by way of rank 1: another algorithm. */
static const char other[] = HEAD("star", 3, 1) "reduce 2.data[0] -> 1.data[0]\n"
					       "reduce 1.data[0] -> 0.data[0]\n"
					       "copy 0.data[0] -> 1.data[0]\n"
					       "copy 0.data[0] -> 2.data[0]\n";

struct put {
	const char *text, *name;
	bool replace, lease;
};

static uint64_t
put_piece(struct harness *h, uint64_t client, const struct put *p, uint64_t nbytes, uint64_t at,
	  size_t n)
{
	GpuSim__AlgoPutRequest q = GPU_SIM__ALGO_PUT_REQUEST__INIT;

	q.name = (char *)(p->name ? p->name : "");
	q.path = (char *)"file";
	q.nbytes = nbytes;
	q.offset = at;
	q.data = (ProtobufCBinaryData){n, (uint8_t *)p->text + (at < nbytes ? at : 0)};
	q.replace = p->replace;
	q.lease = p->lease;
	return h_ask(h, client, ALGO_PUT, algoput, &q);
}

static uint64_t
put_as(struct harness *h, uint64_t client, struct put p)
{
	return put_piece(h, client, &p, strlen(p.text), 0, strlen(p.text));
}

static uint64_t
put(struct harness *h, const char *text)
{
	return put_as(h, 9, (struct put){.text = text});
}

static uint64_t
take_away(struct harness *h, const char *name)
{
	GpuSim__AlgoRemoveRequest q = GPU_SIM__ALGO_REMOVE_REQUEST__INIT;

	q.name = (char *)name;
	return h_ask(h, 9, ALGO_REMOVE, algoremove, &q);
}

/* "star 3, star.x 3": what `algo list` tells. */
static const char *
listed(struct harness *h)
{
	GpuSim__AlgoListRequest q = GPU_SIM__ALGO_LIST_REQUEST__INIT;
	GpuSim__Reply *reply = h_reply(h, h_ask(h, 1, ALGO_LIST, algolist, &q));
	static char text[512];
	size_t at = 0;

	text[0] = '\0';
	for (size_t i = 0; reply && i < reply->algolist->n_algos && at < sizeof text; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, "%s%s %u", i ? ", " : "",
				       reply->algolist->algos[i]->name,
				       reply->algolist->algos[i]->nranks);
	return text;
}

static bool
list_is(struct harness *h, const char *want)
{
	const char *got = listed(h);

	if (strcmp(got, want) == 0)
		return true;
	printf("# listed: %s\n", got);
	return false;
}

/* A coordinator with communicator 1 of n devices. */
static void
begin(struct harness *h, uint32_t n)
{
	h_init(h);
	h_devices(h, n);
	h_comm(h, 9, n);
}

static void
test_names(void)
{
	struct harness h;
	uint64_t t;

	h_init(&h);
	t = put(&h, STAR("star", 3, 1));
	ok(h_code(&h, t) == 0 && !strcmp(h_reply(&h, t)->algoput->algo->name, "star") &&
	       strlen(h_reply(&h, t)->algoput->algo->digest) == 16,
	   "an algorithm gets the name that its file says");
	ok(h_code(&h, put(&h, STAR("star", 3, 1))) == 0 && list_is(&h, "star 3"),
	   "the same again is fine, and changes nothing");
	ok(h_failed(&h, put(&h, other), RC_BUSY,
		    "a different algorithm star exists: remove or replace it"),
	   "another one of the name is refused");
	ok(h_code(&h, put_as(&h, 9, (struct put){.text = other, .replace = true})) == 0,
	   "unless it is to replace it");
	ok(h_code(&h, put_as(&h, 9, (struct put){.text = other, .name = "a.b-c_1"})) == 0 &&
	       list_is(&h, "a.b-c_1 3, star 3"),
	   "a call's name counts more than the file's");
	ok(h_failed(&h, put_as(&h, 9, (struct put){.text = other, .name = "ring"}), RC_INVAL,
		    "algorithm 'ring' is built in: choose another name") &&
	       h_failed(&h, put_as(&h, 9, (struct put){.text = other, .name = "auto"}), RC_INVAL,
			"algorithm 'auto' is built in: choose another name"),
	   "names of built-in algorithms are not free");
	ok(h_code(&h, put_as(&h, 9, (struct put){.text = other, .name = "a,b"})) == RC_INVAL &&
	       h_code(&h, put_as(&h, 9, (struct put){.text = other, .name = "-a"})) == RC_INVAL,
	   "nor are words that lists cannot hold");
	ok(h_failed(&h, put(&h, HEAD("half", 2, 1) "reduce 1.data[0] -> 0.data[0]\n"), RC_BADDATA,
		    "file: rank 1 chunk 0 ends without the contribution of rank 0"),
	   "a wrong one is refused with what is wrong");
	ok(h_code(&h, put(&h, "algorithm x\ncollective custom\nranks 2\nchunks 1\n"
			      "copy 0.in[0] -> 1.out[0]\ncopy 1.in[0] -> 0.out[0]\n")) == RC_INVAL,
	   "a custom one cannot run");
	ok(h_failed(&h, take_away(&h, "ring"), RC_INVAL, "algorithm 'ring' is built in") &&
	       h_failed(&h, take_away(&h, "x"), RC_NOTFOUND, "no algorithm 'x' from a file"),
	   "only what is there is removed");
	ok(h_code(&h, take_away(&h, "star")) == 0 && list_is(&h, "a.b-c_1 3"), "that is");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
test_pieces(void)
{
	const struct put p = {.text = STAR("star", 3, 1)};
	size_t n = strlen(p.text);
	struct harness h;

	h_init(&h);
	ok(h_code(&h, put_piece(&h, 9, &p, n, 0, 20)) == 0 &&
	       h_code(&h, put_piece(&h, 8, &p, n, 0, n)) == 0 &&
	       h_code(&h, put_piece(&h, 9, &p, n, 20, n - 20)) == 0 && list_is(&h, "star 3"),
	   "pieces of two clients are kept apart");
	ok(h_code(&h, put_piece(&h, 9, &p, n, 20, 5)) == RC_NOTFOUND, "a piece without the first");
	h_code(&h, put_piece(&h, 9, &p, n, 0, 20));
	ok(h_code(&h, put_piece(&h, 9, &p, n, 30, 5)) == RC_NOTFOUND &&
	       h_code(&h, put_piece(&h, 9, &p, n + 1, 20, 5)) == RC_NOTFOUND,
	   "one that does not follow, one of another file");
	ok(h_code(&h, put_piece(&h, 9, &p, n, 0, 0)) == RC_INVAL &&
	       h_code(&h, put_piece(&h, 9, &p, 3, 0, 4)) == RC_INVAL &&
	       h_code(&h, put_piece(&h, 9, &p, 8, UINT64_MAX - 1, 4)) == RC_INVAL,
	   "one of nothing, and those past the end");
	ok(h_failed(&h, put_piece(&h, 9, &p, COORD_ALGO_FILE + 1, 0, 20), RC_INVAL,
		    "algorithm file: 4194305 bytes; must be 1 to 4194304"),
	   "a file that is too long is refused with its first piece");
	for (uint64_t i = 0; i < COORD_ALGO_UPLOADS - 1; i++)
		put_piece(&h, 20 + i, &p, n, 0, 20);
	ok(h_failed(&h, put_piece(&h, 40, &p, n, 0, 20), RC_BUSY,
		    "8 algorithm files are being uploaded: try again later"),
	   "so many come at a time");
	h_gone(&h, 20);
	ok(h_code(&h, put_piece(&h, 40, &p, n, 0, 20)) == 0, "a client that goes makes room");
	h_fini(&h);
}

static void
test_limits(void)
{
	struct harness h;
	char name[16], want[128];
	bool good = true;
	struct buf big = {0};

	h_init(&h);
	for (int i = 0; i < COORD_MAX_ALGOS; i++) {
		snprintf(name, sizeof name, "a%d", i);
		good &= h_code(&h, put_as(&h, 9, (struct put){.text = other, .name = name})) == 0;
	}
	snprintf(want, sizeof want,
		 "%d algorithms from files exist, which is the limit: remove one", COORD_MAX_ALGOS);
	ok(good && h_failed(&h, put(&h, other), RC_BUSY, want), "so many algorithms");
	ok(h_code(&h, put_as(&h, 9,
			     (struct put){
				 .text = STAR("x", 2, 1), .name = "a7", .replace = true})) == 0,
	   "one may be replaced then");
	buf_addf(&big,
		 HEAD("big", 2, 65536) "for c in 0..chunks - 1\n reduce 1.data[c] -> 0.data[c]\n"
				       " copy 0.data[c] -> 1.data[c]\nend\n");
	take_away(&h, "a0");
	ok(h_failed(&h, put(&h, big.data), RC_BADDATA, "file:6: more than 65536 steps"),
	   "so many steps");
	ok(h_clean(&h), "every request was answered once");
	big.len = 0;
	buf_addf(&big,
		 HEAD("two", 2, 8000) "for c in 0..chunks - 1\n reduce 1.data[c] -> 0.data[c]\n"
				      " copy 0.data[c] -> 1.data[c]\nend\n");
	ok(h_failed(&h, put(&h, big.data), RC_INVAL,
		    "file: too much work: more than 536870912 units: use fewer ranks, chunks or "
		    "steps"),
	   "so much work");
	buf_fini(&big);
	h_fini(&h);
}

/* ---- proofs, which take their time */

static bool
has_record(const struct harness *h)
{
	for (size_t i = 0; i < h->nrecord; i++)
		if (strncmp(h->record[i].key, "1/algo/", 7) == 0)
			return true;
	return false;
}

static bool
answers(struct harness *h)
{
	GpuSim__AlgoListRequest q = GPU_SIM__ALGO_LIST_REQUEST__INIT;

	return h_code(h, h_ask(h, 1, ALGO_LIST, algolist, &q)) == 0;
}

static void
test_slow(void)
{
	struct put star = {.text = STAR("star", 3, 1)}, lease = star;
	struct harness h;
	uint64_t t[COORD_ALGO_UPLOADS + 1];

	lease.lease = true;
	h_init(&h);
	h.slow_proofs = true;
	t[0] = put(&h, star.text);
	t[1] = put_as(&h, 8, (struct put){.text = other, .name = "b"});
	t[2] = put_as(&h, 7, star);
	ok(h.proving && h_code(&h, t[0]) == -1 && answers(&h),
	   "others are answered while an algorithm is proven");
	h.proving = false;
	h_feed(&h, &(struct coord_event){.kind = COORD_PROVEN,
					 .token = h.proof_token,
					 .proof = coord_prove(&h.proof_ask, NULL)});
	ok(h_code(&h, t[0]) == 0 && h_code(&h, t[1]) == -1 && h.proving, "then the next one is");
	h_prove(&h);
	ok(h_code(&h, t[1]) == 0 && h_code(&h, t[2]) == 0 && list_is(&h, "b 3, star 3"),
	   "and one that is kept already");
	for (uint64_t i = 0; i < COORD_ALGO_UPLOADS; i++)
		t[i] = put_as(&h, 20 + i, (struct put){.text = other, .name = "c", .lease = true});
	ok(h_failed(&h, put_as(&h, 40, lease), RC_BUSY,
		    "8 algorithm files are being uploaded: try again later"),
	   "so many wait");
	h_prove(&h);
	h_advance(&h, H_TIMEOUT_MS);
	t[0] = put_as(&h, 30, lease);
	h_advance(&h, H_TIMEOUT_MS);
	ok(h_code(&h, t[0]) == RC_TIMEOUT &&
	       strstr(h_text(&h, t[0]), "was not verified within 59."),
	   "a client's deadline passes meanwhile (%s)", h_text(&h, t[0]));
	h_prove(&h);
	ok(list_is(&h, "b 3, c 3, star 3"), "and what comes later is dropped");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
test_slow_gone(void)
{
	struct put lease = {.text = STAR("star", 3, 1), .lease = true};
	struct harness h;
	uint64_t t;

	h_init(&h);
	h.slow_proofs = true;
	put_as(&h, 20, lease);
	h_gone(&h, 20);
	h_advance(&h, TIME_LEASE_MS + 200);
	h_prove(&h);
	ok(list_is(&h, ""), "the client has gone while its file is proven: nothing is kept");
	put_as(&h, 21, lease);
	h_gone(&h, 21);
	h_prove(&h);
	h_advance(&h, TIME_LEASE_MS + 200);
	h_feed(&h, &(struct coord_event){.kind = COORD_SEEN, .client_id = 21});
	ok(list_is(&h, "") && !has_record(&h), "nor when it goes just before the end");
	put_as(&h, 22, lease);
	h_gone(&h, 22);
	h_feed(&h, &(struct coord_event){.kind = COORD_SEEN, .client_id = 22});
	h_prove(&h);
	h_advance(&h, TIME_LEASE_MS + 200);
	ok(strncmp(listed(&h), "star.", 5) == 0, "a client that comes back has it");
	t = put(&h, other);
	h_cancel(&h, t);
	ok(h_code(&h, t) == RC_ABORTED, "a request is cancelled");
	t = put(&h, other);
	h_prove(&h);
	ok(h_code(&h, t) == 0, "and asked again");
	t = put_as(&h, 9, (struct put){.text = other, .name = "late"});
	h_crash(&h);
	h_repeat(&h, t);
	h_prove(&h);
	ok(h_code(&h, t) == 0 && strstr(listed(&h), "late 3"),
	   "a coordinator ends meanwhile: the next one proves it");
	put_as(&h, 9, (struct put){.text = other, .name = "never"});
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

/* ---- leases, restarts */

static void
test_leases(void)
{
	struct put lease = {.text = STAR("star", 3, 1), .lease = true};
	GpuSim__AlgoListRequest q = GPU_SIM__ALGO_LIST_REQUEST__INIT;
	struct harness h;

	h_init(&h);
	put_as(&h, 20, lease);
	put_as(&h, 21, lease);
	ok(strncmp(listed(&h), "star.", 5) == 0 && strlen(listed(&h)) == strlen("star.") + 16 + 2,
	   "a leased one has the digest in its name, and two clients share it");
	h_gone(&h, 20);
	h_advance(&h, TIME_LEASE_MS + 200);
	ok(strncmp(listed(&h), "star.", 5) == 0, "it stays for the other");
	h_gone(&h, 21);
	ok(list_is(&h, ""), "when both are away nobody is notified");
	h_ask(&h, 21, ALGO_LIST, algolist, &q);
	ok(strncmp(listed(&h), "star.", 5) == 0, "a client that comes back in time has it still");
	h_gone(&h, 21);
	h_advance(&h, TIME_LEASE_MS + 200);
	h_ask(&h, 21, ALGO_LIST, algolist, &q);
	ok(list_is(&h, "") && !has_record(&h), "else it ends, and its record");
	put(&h, STAR("star", 3, 1));
	lease.name = "star";
	ok(h_code(&h, put_as(&h, 22, lease)) == 0, "one that stays may be leased, too");
	h_gone(&h, 22);
	h_advance(&h, TIME_LEASE_MS + 200);
	ok(list_is(&h, "star 3"), "and stays");
	h_fini(&h);
}

/* Whether a run of three ranks is sent with a schedule for the name; the run ends. */
static bool
runs(struct harness *h, uint64_t comm, const char *name)
{
	struct h_ops o;
	bool good = true;

	h_allreduce(&o, 3, 10);
	for (uint32_t r = 0; r < 3; r++)
		o.coll[r][0].algo = (char *)name;
	h_submit(h, 9, comm, &o, false);
	for (uint64_t d = 1; d <= 3; d++) {
		long i = h_find(h, H_RUN, d);
		const GpuSim__Coll *k = i < 0 ? NULL : h->call[i].req->run->ops[0]->coll;

		good = good && k && !strcmp(k->algo, name) && k->schedule.len && !k->scheduleof;
	}
	h_serve(h);
	return good;
}

static void
test_restart(void)
{
	struct harness h;
	char leased[64];

	begin(&h, 3);
	put(&h, STAR("star", 3, 1));
	put_as(&h, 20, (struct put){.text = other, .lease = true});
	snprintf(leased, sizeof leased, "%.*s", 5 + 16, listed(&h) + strlen("star 3, "));
	ok(runs(&h, 1, "star") && runs(&h, 1, leased), "both run by name");
	h_crash(&h);
	h_devices(&h, 3);
	h_serve(&h);
	ok(list_is(&h, "star 3") && runs(&h, 1, "star"),
	   "another coordinator has it, and runs it without having proven it again");
	h_ask(&h, 20, ALGO_LIST, algolist,
	      (&(GpuSim__AlgoListRequest)GPU_SIM__ALGO_LIST_REQUEST__INIT));
	ok(runs(&h, 1, leased), "a client that comes back has its lease");
	ok(h_code(&h, take_away(&h, "star")) == 0, "one is removed");
	h_crash(&h);
	h_devices(&h, 3);
	h_serve(&h);
	h_advance(&h, TIME_RETURN_MS + TIME_LEASE_MS);
	ok(list_is(&h, "") && !runs(&h, 1, "star"),
	   "the next one does not have it, nor a lease that nobody comes back to");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

/* ---- runs */

/* Operations [0, n) of the run of a device: "S" carries a schedule, "0" has that of operation 0, "-" has none. */
static const char *
carried(const struct harness *h, uint64_t device, char *out)
{
	long i = h_find(h, H_RUN, device);
	const GpuSim__RunRequest *q = i < 0 ? NULL : h->call[i].req->run;
	size_t n = 0;

	for (; q && n < q->n_ops; n++) {
		const GpuSim__Coll *k = q->ops[n]->coll;

		out[n] = k->schedule.len ? 'S'
			 : k->scheduleof ? (char)('0' + k->scheduleof - 1)
					 : '-';
	}
	out[n] = '\0';
	return out;
}

static void
set_algo(struct h_ops *o, size_t i, const char *name)
{
	for (uint32_t r = 0; r < o->nranks; r++)
		o->coll[r][i].algo = (char *)name;
}

static void
test_once(void)
{
	struct harness h;
	struct h_ops o;
	char got[H_MAX_OPS + 1];
	uint64_t t;

	begin(&h, 3);
	put(&h, STAR("star", 3, 1));
	put_as(&h, 9, (struct put){.text = other, .name = "other"});
	h_ops_init(&o, 3);
	for (uint32_t r = 0; r < 3; r++)
		for (int i = 0; i < 6; i++)
			h_coll(&o, r, GPUSIM_ALLREDUCE, 10, 0);
	set_algo(&o, 1, "star");
	set_algo(&o, 2, "other");
	set_algo(&o, 3, "star");
	set_algo(&o, 5, "other");
	h_submit(&h, 9, 1, &o, false);
	ok(!strcmp(carried(&h, 1, got), "-SS1-2") && !strcmp(carried(&h, 3, got), "-SS1-2"),
	   "a list carries each schedule once (%s)", got);
	h_serve(&h);
	h_group_start(&h, 9, 1);
	h_submit(&h, 9, 1, &o, false);
	o.coll[2][0].nelem = 0;
	ok(h_code(&h, h_submit(&h, 9, 1, &o, false)) == RC_INVAL, "a submit that is refused");
	o.coll[2][0].nelem = 10;
	set_algo(&o, 0, "other");
	h_submit(&h, 9, 1, &o, false);
	t = h_group_end(&h, 9, 1, true);
	ok(!strcmp(carried(&h, 2, got), "-SS1-22121-2"), "and a group, too (%s)", got);
	h_serve(&h);
	ok(h_code(&h, t) == 0, "it ends well");
	o.coll[0][0].scheduleof = 1;
	ok(h_code(&h, h_submit(&h, 9, 1, &o, false)) == RC_INVAL, "a client gives no references");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

/* Schedules of 120 KB a rank, sixteen times: more than a message holds. */
static void
test_long(void)
{
	struct harness h;
	struct h_ops o;
	uint64_t t;

	begin(&h, 2);
	t = put(&h, HEAD("long", 2, 1900) "for c in 0..chunks - 1\n"
					  " reduce (c % 2).data[c] -> (1 - c % 2).data[c]\n"
					  " copy (1 - c % 2).data[c] -> (c % 2).data[c]\nend\n");
	ok(h_code(&h, t) == 0, "a long algorithm (%s)", h_text(&h, t));
	h_ops_init(&o, 2);
	for (uint32_t r = 0; r < 2; r++)
		for (int i = 0; i < H_MAX_OPS; i++)
			h_coll(&o, r, GPUSIM_ALLREDUCE, 10, 0)->algo = (char *)"long";
	t = h_submit(&h, 9, 1, &o, true);
	h_serve(&h);
	ok(h_code(&h, t) == 0, "runs often in one list (%s)", h_text(&h, t));
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
test_removed(void)
{
	struct harness h;
	struct h_ops o;
	uint64_t t;

	begin(&h, 3);
	put(&h, STAR("star", 3, 1));
	h_allreduce(&o, 3, 10);
	set_algo(&o, 0, "star");
	t = h_submit(&h, 9, 1, &o, true);
	ok(h_code(&h, take_away(&h, "star")) == 0, "it is removed while it runs");
	h_serve(&h);
	ok(h_code(&h, t) == 0, "which changes nothing for the run");
	put(&h, STAR("star", 3, 1));
	h_group_start(&h, 9, 1);
	h_submit(&h, 9, 1, &o, false);
	take_away(&h, "star");
	t = h_group_end(&h, 9, 1, true);
	ok(h_code(&h, t) == RC_INVAL && strstr(h_text(&h, t), "unknown algorithm 'star'"),
	   "removed before its group ends: the group is refused (%s)", h_text(&h, t));
	set_algo(&o, 0, "ring");
	h_group_start(&h, 9, 1);
	h_submit(&h, 9, 1, &o, false);
	t = h_group_end(&h, 9, 1, true);
	h_serve(&h);
	ok(h_code(&h, t) == 0, "the communicator lives on");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

int
main(void)
{
	test_names();
	test_pieces();
	test_limits();
	test_slow();
	test_slow_gone();
	test_leases();
	test_restart();
	test_once();
	test_long();
	test_removed();
	return tap_done();
}
