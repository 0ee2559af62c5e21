/* dev/snapshot: inputs that a run overwrites are put back for the same run, also after a kill. */
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "dev/snapshot.h"
#include "dev_test.h"

#define MEM	  (4u << 20)
#define TIMEOUT	  20000
#define CHILD_RUN 200000 /* bytes of each of the child's ranges */

static struct snapshot_id
run_of(uint64_t comm, uint64_t run)
{
	return (struct snapshot_id){.coordinator = 1, .comm = comm, .run = run};
}

static struct snapshots *
keeps(struct devmem *mem)
{
	struct snapshots *k = NULL;
	struct err err = {0};

	must(snapshots_new(mem, &k, &err), &err);
	return k;
}

static unsigned char *
bytes(struct node *d, uint64_t addr, uint64_t n)
{
	return devmem_at(d->mem, addr, n);
}

static void
fill(struct node *d, uint64_t addr, uint64_t n, unsigned seed)
{
	unsigned char *p = bytes(d, addr, n);

	for (uint64_t i = 0; i < n; i++)
		p[i] = (unsigned char)(seed + i * 7 + i / 256);
}

static bool
holds(struct node *d, uint64_t addr, uint64_t n, unsigned seed)
{
	const unsigned char *p = bytes(d, addr, n);

	for (uint64_t i = 0; i < n; i++)
		if (p[i] != (unsigned char)(seed + i * 7 + i / 256))
			return false;
	return true;
}

static struct program *
one(struct node *d, enum gpusim_coll coll, uint64_t send, uint64_t recv, uint64_t nelem)
{
	static struct list l;
	struct program *p = NULL;
	struct err err = {0};

	l.n = 0;
	list_coll(&l, 0, coll, send, recv, nelem);
	must(list_build(d, 7, &l, &p, &err), &err);
	return p;
}

static unsigned
nareas(struct devmem *mem)
{
	uint64_t n;
	unsigned count = 0;

	for (void *p = devmem_persist_next(mem, NULL, &n); p; p = devmem_persist_next(mem, p, &n))
		count++;
	return count;
}

/* Keep, spoil the memory, put back: which of its bytes are as they were, as a range. */
static bool
keeps_just(struct node *d, struct program *p, uint64_t lo, uint64_t n, uint64_t want_lo,
	   uint64_t want_n)
{
	static uint64_t run = 100;
	struct snapshots *k = keeps(d->mem);
	struct snapshot_id id = run_of(7, ++run);
	struct err err = {0};
	bool good;

	fill(d, lo, n, 3);
	good = snapshot_take(k, &id, p, &err) == RC_OK;
	memset(bytes(d, lo, n), 0xee, n);
	good = good && snapshot_restore(k, &id, p, &err) == RC_OK;
	for (uint64_t a = lo; a < lo + n; a++) {
		bool kept = a >= want_lo && a < want_lo + want_n;
		unsigned char was = (unsigned char)(3 + (a - lo) * 7 + (a - lo) / 256);

		if (*bytes(d, a, 1) != (kept ? was : 0xee))
			good = false;
	}
	if (err.rc)
		printf("#   %s\n", err.text);
	snapshots_free(k);
	program_free(p);
	return good;
}

static void
test_what(struct nodes *v)
{
	struct node *d = &v->node[1];
	uint64_t a = node_alloc(d, 3000), b = node_alloc(d, 3000);
	uint64_t lo = a, n = b + 3000 - a;

	ok(keeps_just(d, one(d, GPUSIM_ALLREDUCE, a, a, 3000), lo, n, a, 3000),
	   "an allreduce in place: all of it");
	ok(keeps_just(d, one(d, GPUSIM_ALLREDUCE, a, b, 3000), lo, n, a, 0),
	   "apart: nothing is to be kept, and the record says so");
	ok(keeps_just(d, one(d, GPUSIM_ALLGATHER, a + 1500, a, 3000), lo, n, a + 1500, 1500),
	   "an allgather in place: the rank's part");
	ok(keeps_just(d, one(d, GPUSIM_REDUCESCATTER, a, a + 1500, 3000), lo, n, a + 1500, 1500),
	   "a reduce-scatter in place: the rank's part");
	ok(keeps_just(d, one(d, GPUSIM_REDUCE, a, a, 3000), lo, n, a, 0),
	   "a reduce in place: nothing where the result is not");
	ok(nareas(d->mem) == 1, "one area for all");
	devmem_free(d->mem, a, NULL);
	devmem_free(d->mem, b, NULL);
}

/* A list: what one collective writes and another one reads, several ranges that touch or not. */
static void
test_list(struct nodes *v)
{
	static struct list l;
	struct node *d = &v->node[0];
	struct snapshots *k = keeps(d->mem);
	struct snapshot_id id = run_of(7, 1), next = run_of(7, 2), before = run_of(7, 0);
	uint64_t a = node_alloc(d, 8000), b = node_alloc(d, 8000);
	struct program *p = NULL, *other;
	struct err err = {0};

	l.n = 0;
	list_coll(&l, 0, GPUSIM_ALLREDUCE, a, a, 1000);
	list_coll(&l, 1, GPUSIM_ALLREDUCE, a + 1000, a + 1000, 1000);
	list_coll(&l, 0, GPUSIM_ALLREDUCE, a + 4000, b, 4000);
	list_coll(&l, 0, GPUSIM_BROADCAST, b + 2000, b + 5000, 1000);
	must(list_build(d, 7, &l, &p, &err), &err);
	fill(d, a, 8000, 5);
	fill(d, b, 8000, 6);
	ok(snapshot_take(k, &id, p, &err) == RC_OK, "a list is kept");
	memset(bytes(d, a, 2000), 0, 2000);
	memset(bytes(d, b, 8000), 0, 8000);
	ok(snapshot_take(k, &id, p, &err) == RC_OK && snapshot_restore(k, &id, p, &err) == RC_OK &&
	       holds(d, a, 8000, 5),
	   "the same run again leaves what is there");
	ok(*bytes(d, b + 1999, 1) == 0 && *bytes(d, b + 3000, 1) == 0 &&
	       *bytes(d, b + 2000, 1) == (unsigned char)(6 + 2000 * 7 + 2000 / 256),
	   "of what it writes, what it also reads");
	other = one(d, GPUSIM_ALLREDUCE, a, a, 10);
	ok(snapshot_take(k, &next, other, &err) == RC_OK && nareas(d->mem) == 1,
	   "another run takes its place");
	ok(snapshot_restore(k, &id, p, &err) == RC_NOTFOUND && strstr(err.text, "of run 2"),
	   "and then the run before cannot be done again: %s", err.text);
	snapshot_drop(k, 7, 0);
	ok(nareas(d->mem) == 0, "gone with its communicator");
	ok(snapshot_restore(k, &before, p, &err) == RC_OK,
	   "where nothing is kept, but its inputs are, the run has not begun");
	devmem_free(d->mem, b, NULL);
	ok(snapshot_restore(k, &before, p, &err) == RC_NOTFOUND && strstr(err.text, "lost"),
	   "where they are not, they are lost: %s", err.text);
	ok(snapshot_take(k, &id, other, &err) == RC_OK &&
	       snapshot_restore(k, &next, p, &err) == RC_OK,
	   "but in a memory with a record of the communicator they are, allocated or not");
	snapshot_drop(k, 7, 0);
	snapshot_mark(k, &before);
	ok(nareas(d->mem) == 1 && snapshot_restore(k, &next, p, &err) == RC_OK,
	   "as they are in one that was there before its first run");
	snapshot_drop(k, 7, 0);
	devmem_free(d->mem, a, NULL);
	program_free(p);
	program_free(other);
	snapshots_free(k);
}

static void
test_refusals(struct nodes *v)
{
	static struct list l;
	struct node *d = &v->node[0];
	struct snapshots *k = keeps(d->mem);
	struct snapshot_id id = run_of(7, 1), theirs = {.coordinator = 2, .comm = 8, .run = 1};
	uint64_t a = node_alloc(d, 1 << 20);
	struct program *p = NULL, *whole = one(d, GPUSIM_ALLREDUCE, a, a, 1 << 20);
	struct err err = {0};
	void *own = NULL;

	l.n = 0;
	list_coll(&l, 0, GPUSIM_ALLREDUCE, a, a, 1000);
	list_memset(&l, 0, a, 1, 10);
	must(list_build(d, 7, &l, &p, &err), &err);
	ok(snapshot_take(k, &id, p, &err) == RC_INVAL && strstr(err.text, "memset"),
	   "more than collectives: %s", err.text);
	must(devmem_own_alloc(d->mem, 63u << 20, &own, &err), &err);
	ok(snapshot_take(k, &id, whole, &err) == RC_NOMEM && strstr(err.text, "--on-failure abort"),
	   "no room: %s", err.text);
	devmem_own_free(d->mem, own);
	ok(snapshot_take(k, &id, whole, &err) == RC_OK &&
	       snapshot_take(k, &theirs, whole, &err) == RC_OK && nareas(d->mem) == 2,
	   "each communicator has its own");
	snapshot_drop(k, 0, 1);
	ok(nareas(d->mem) == 1 && snapshot_restore(k, &id, whole, &err) == RC_OK,
	   "another coordinator's are dropped");
	snapshot_drop(k, 0, 0);
	ok(nareas(d->mem) == 0, "or all");
	devmem_free(d->mem, a, NULL);
	program_free(p);
	program_free(whole);
	snapshots_free(k);
}

/* A record in which something else is written says nothing. */
static void
test_damaged(struct nodes *v)
{
	struct node *d = &v->node[0];
	struct snapshot_id id = run_of(7, 1);
	uint64_t a = node_alloc(d, 3000), n;
	struct program *p = one(d, GPUSIM_ALLREDUCE, a, a, 3000);
	struct err err = {0};
	unsigned refused = 0;

	for (unsigned i = 0; i < 72; i++) {
		struct snapshots *k = keeps(d->mem);
		unsigned char *area;

		must(snapshot_take(k, &id, p, &err), &err);
		snapshots_free(k);
		area = devmem_persist_next(d->mem, NULL, &n);
		area[i] ^= 0x81;
		k = keeps(d->mem);
		refused += nareas(d->mem) == 0;
		snapshot_drop(k, 0, 0);
		snapshots_free(k);
	}
	/* All but the word that says that it is complete, which may have any value but 0. */
	ok(refused == 64, "what is damaged is given up, %u of 72 bytes tell", refused);
	devmem_free(d->mem, a, NULL);
	program_free(p);
}

/* ---- through streams */

static enum rc
run_again(struct nodes *v, struct snapshots **k, uint64_t a, uint64_t nelem, uint64_t op,
	  bool restore)
{
	struct ending e[2] = {ENDING, ENDING};
	struct err err = {0};
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < 2; r++) {
		struct run_spec spec = {.program = one(&v->node[r], GPUSIM_ALLREDUCE, a, a, nelem),
					.iterations = 1,
					.first_op = op,
					.snapshots = k[r],
					.snapshot_id = run_of(7, 50),
					.snapshot = true,
					.restore = restore,
					.done = ending_tell,
					.arg = &e[r]};

		must(streams_run(v->node[r].streams, &spec, &err), &err);
		streams_drop(v->node[r].streams, spec.program);
	}
	for (uint32_t r = 0; r < 2; r++)
		if (ending_wait(&e[r]) != RC_OK) {
			printf("#   %s\n", e[r].result.err.text);
			rc = e[r].result.err.rc;
		}
	return rc;
}

static bool
is_sum(struct nodes *v, uint64_t a, uint64_t n)
{
	for (uint32_t r = 0; r < 2; r++)
		for (uint64_t i = 0; i < n; i++)
			if (*bytes(&v->node[r], a + i, 1) !=
			    (unsigned char)(1 + 2 + 2 * (i * 7 + i / 256)))
				return false;
	return true;
}

static void
test_streams(struct nodes *v)
{
	const uint64_t n = 300000;
	uint64_t a = node_alloc(&v->node[0], n);
	struct snapshots *k[2] = {keeps(v->node[0].mem), keeps(v->node[1].mem)};
	struct snapshot_id later = run_of(7, 51);
	struct program *p = NULL;
	struct err err = {0};

	if (node_alloc(&v->node[1], n) != a)
		must(RC_FAILED, &(struct err){RC_FAILED, "addresses differ"});
	for (uint32_t r = 0; r < 2; r++)
		fill(&v->node[r], a, n, 1 + r);
	ok(run_again(v, k, a, n, 10, false) == RC_OK && is_sum(v, a, n), "a run that is kept");
	memset(bytes(&v->node[1], a, n), 0x77, n / 2);
	ok(run_again(v, k, a, n, 20, true) == RC_OK && is_sum(v, a, n),
	   "the same again, from the same inputs, and the same result");
	p = one(&v->node[0], GPUSIM_ALLREDUCE, a, a, n);
	must(snapshot_take(k[0], &later, p, &err), &err);
	must(snapshot_take(k[1], &later, p, &err), &err);
	program_free(p);
	ok(run_again(v, k, a, n, 30, true) == RC_NOTFOUND && is_sum(v, a, n),
	   "when the inputs are lost the run fails, and does nothing");
	for (uint32_t r = 0; r < 2; r++) {
		snapshot_drop(k[r], 7, 0);
		snapshots_free(k[r]);
		devmem_free(v->node[r].mem, a, NULL);
	}
}

/* A spare that takes the memory over takes what is kept along. */
static void
test_adopted(struct nodes *v)
{
	struct node *d = &v->node[0], spare = {0};
	struct devmem_source from = {.path = d->mem_path, .device_id = 0xd0};
	uint64_t gap = node_alloc(d, 700), a = node_alloc(d, 90000);
	struct program *p = one(d, GPUSIM_ALLREDUCE, a, a, 90000);
	struct snapshots *k = keeps(d->mem);
	struct snapshot_id id = run_of(7, 9);
	struct err err = {0};
	atomic_bool stop = false;
	char path[128];

	snprintf(path, sizeof path, "%s/spare", v->dir);
	devmem_inode(d->mem, &from.dev, &from.inode);
	fill(d, a, 90000, 4);
	must(snapshot_take(k, &id, p, &err), &err);
	memset(bytes(d, a, 90000), 0xdd, 90000);
	snapshots_free(k);
	must(devmem_open(path, 99, 2 * MEM, &spare.mem, &err), &err);
	k = keeps(spare.mem);
	must(devmem_adopt(spare.mem, &from, &stop, &err), &err);
	must(snapshots_load(k, &err), &err);
	ok(*bytes(&spare, a + 89999, 1) == 0xdd && snapshot_restore(k, &id, p, &err) == RC_OK &&
	       holds(&spare, a, 90000, 4),
	   "a device that adopts the memory puts the inputs back");
	snapshot_drop(k, 0, 0);
	snapshots_free(k);
	devmem_close(spare.mem, DEVMEM_UNLINK_FILE);
	k = keeps(d->mem);
	ok(snapshot_restore(k, &id, p, &err) == RC_OK && holds(d, a, 90000, 4),
	   "and so can who had it");
	snapshot_drop(k, 0, 0);
	snapshots_free(k);
	program_free(p);
	devmem_free(d->mem, gap, NULL);
	devmem_free(d->mem, a, NULL);
}

/* ---- killed while it keeps */

struct ledger {
	_Atomic uint64_t begun, complete; /* runs */
	uint64_t addr;
};

static unsigned
seed_of(uint64_t run)
{
	return (unsigned)(run * 31);
}

/* The program on a memory that is opened anew. */
static void
reopen(struct node *d, const char *path, struct program *p, uint64_t addr)
{
	struct err err = {0};

	must(devmem_open(path, 0xd0, MEM, &d->mem, &err), &err);
	p->mem = d->mem;
	p->inst[0].coll.base[PLAN_IN] = p->inst[0].coll.base[PLAN_OUT] = bytes(d, addr, CHILD_RUN);
}

/* Keep one run after the other, each of other bytes, and spoil them when they are kept. */
static void
child(struct ledger *l, const char *path, struct node *d, struct program *p)
{
	struct snapshots *k;

	reopen(d, path, p, l->addr);
	k = keeps(d->mem);
	for (uint64_t run = 1;; run++) {
		struct snapshot_id id = run_of(7, run);

		fill(d, l->addr, CHILD_RUN, seed_of(run));
		atomic_store(&l->begun, run);
		if (snapshot_take(k, &id, p, NULL) != RC_OK)
			_exit(2);
		atomic_store(&l->complete, run);
		memset(bytes(d, l->addr, CHILD_RUN), 0xcc, CHILD_RUN);
	}
}

/* Its last run can be done again, from what is kept or from what is there. */
static bool
can_go_on(struct ledger *l, const char *path, struct node *d, struct program *p)
{
	struct snapshot_id id = run_of(7, l->begun);
	struct snapshots *k;
	struct err err = {0};
	bool good;

	reopen(d, path, p, l->addr);
	k = keeps(d->mem);
	good = snapshot_restore(k, &id, p, &err) == RC_OK &&
	       holds(d, l->addr, CHILD_RUN, seed_of(l->begun));
	if (!good)
		printf("#   run %" PRIu64 " begun, %" PRIu64 " complete: %s\n", l->begun,
		       l->complete, err.text);
	snapshots_free(k);
	devmem_close(d->mem, DEVMEM_PERSIST_FILE);
	return good;
}

static void
test_killed(struct nodes *v)
{
	struct ledger *l =
	    mmap(NULL, sizeof *l, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct node *d = &v->node[0], other = {0};
	uint64_t a = node_alloc(d, CHILD_RUN);
	struct program *p = one(d, GPUSIM_ALLREDUCE, a, a, CHILD_RUN), moved;
	struct inst inst = p->inst[0];
	char path[128];
	unsigned good = 0, rounds = 60;
	struct err err = {0};

	snprintf(path, sizeof path, "%s/killed", v->dir);
	moved = *p;
	moved.inst = &inst;
	for (unsigned i = 0; i < rounds; i++) {
		uint64_t spin = i * 79190 % 700000;
		pid_t pid;

		memset(l, 0, sizeof *l);
		must(devmem_open(path, 0xd0, MEM, &other.mem, &err), &err);
		must(devmem_alloc(other.mem, CHILD_RUN, &l->addr, &err), &err);
		devmem_close(other.mem, DEVMEM_PERSIST_FILE);
		fflush(stdout);
		pid = fork();
		if (pid == 0)
			child(l, path, &other, &moved);
		while (atomic_load(&l->complete) < 20 + i && waitpid(pid, NULL, WNOHANG) == 0)
			sched_yield();
		while (spin--)
			atomic_load(&l->complete);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		good += can_go_on(l, path, &other, &moved);
		unlink(path);
	}
	ok(good == rounds, "killed %u times: its run can be done again", rounds);
	program_free(p);
	devmem_free(d->mem, a, NULL);
	munmap(l, sizeof *l);
}

int
main(void)
{
	struct nodes v;

	nodes_open(&v, 2, MEM);
	nodes_attach(&v, 7, 1, 2, TIMEOUT);
	test_what(&v);
	test_list(&v);
	test_refusals(&v);
	test_damaged(&v);
	test_streams(&v);
	test_adopted(&v);
	test_killed(&v);
	ok(nodes_close(&v), "nothing is left");
	return tap_done();
}
