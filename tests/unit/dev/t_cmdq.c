/* dev/cmdq: a device's command queues, as clients use them. */
#include <stdlib.h>

#include "cmdq_test.h"

#define COMM  7
#define COUNT 1000

static struct nodes v;

static float *
floats(uint32_t r, uint64_t addr)
{
	return devmem_at(v.node[r].mem, addr, COUNT * sizeof(float));
}

/* ---- commands of one device */

static void
test_bytes(void)
{
	struct ring q = ring_open(cmdqs[0]);
	uint64_t a = node_alloc(&v.node[0], 4096), b = node_alloc(&v.node[0], 4096), before, at;
	uint32_t *p = devmem_at(v.node[0].mem, a, 4096), *r = devmem_at(v.node[0].mem, b, 4096);
	bool same = true;

	ok(q.page->magic == CMDQ_MAGIC && q.page->size == CMDQ_SIZE && q.page->id &&
	       q.page->pid == (uint32_t)getpid(),
	   "a queue's page says whose it is");
	before = clock_now_ns();
	ring_write(&q, &(struct cmdq_command){
			   .kind = CMDQ_MEMSET,
			   .u.bytes = {.dst = a, .nbytes = 4000, .value = 0x01020304, .width = 4}});
	ring_write(&q, &(struct cmdq_command){
			   .kind = CMDQ_MEMSET,
			   .u.bytes = {.dst = a + 4000, .nbytes = 7, .value = 0xabcd, .width = 2}});
	ring_write(&q, &(struct cmdq_command){
			   .kind = CMDQ_MEMSET,
			   .u.bytes = {.dst = a + 4007, .nbytes = 89, .value = 0x1ff, .width = 1}});
	ring_write(&q, &(struct cmdq_command){.kind = CMDQ_COPY,
					      .u.bytes = {.dst = b, .src = a, .nbytes = 4096}});
	ring_write(&q, &(struct cmdq_command){.kind = CMDQ_STAMP, .u.bytes = {.dst = a}});
	ring_write(&q, &(struct cmdq_command){.kind = CMDQ_NOP});
	ring_publish(&q);
	ring_wait(&q);
	for (unsigned i = 0; i < 1000; i++)
		same &= r[i] == 0x01020304;
	ok(same && !memcmp(&r[1000], "\xcd\xab\xcd\xab\xcd\xab\xcd\xff\xff", 9),
	   "memsets in units of 4, 2 and 1 bytes, and a copy of them");
	memcpy(&at, p, sizeof at);
	ok(at >= before && at <= clock_now_ns(), "a stamp is the time");
	ok(*ring_error(&q) == '\0', "nothing has failed");
	ring_close(&q);
}

static void
test_errors(void)
{
	struct ring q = ring_open(cmdqs[0]);
	uint64_t a = node_alloc(&v.node[0], 64);
	uint32_t *p = devmem_at(v.node[0].mem, a, 64);
	struct cmdq_command set = {.kind = CMDQ_MEMSET,
				   .u.bytes = {.dst = a, .nbytes = 4, .value = 1, .width = 4}};
	const struct {
		const char *what, *says;
		struct cmdq_command c;
	} bad[] = {
	    {"an address outside",
	     "memset: address 0x1 + 4 bytes is outside",
	     {.kind = CMDQ_MEMSET, .u.bytes = {.dst = 1, .nbytes = 4, .width = 4}}},
	    {"a range that ends outside",
	     "memset: address",
	     {.kind = CMDQ_MEMSET, .u.bytes = {.dst = a, .nbytes = UINT64_MAX, .width = 1}}},
	    {"a width",
	     "memset: units of 3 bytes",
	     {.kind = CMDQ_MEMSET, .u.bytes = {.dst = a, .nbytes = 3, .width = 3}}},
	    {"a copy's source",
	     "copy: source 0x0",
	     {.kind = CMDQ_COPY, .u.bytes = {.dst = a, .src = 0, .nbytes = 4}}},
	    {"a stamp's address",
	     "stamp: address",
	     {.kind = CMDQ_STAMP, .u.bytes = {.dst = UINT64_MAX}}},
	    {"a queue that never was",
	     "wait: no command queue 12345",
	     {.kind = CMDQ_WAIT, .u.wait = {12345, 1}}},
	    {"a worker", "no worker 2", {.kind = CMDQ_EXTERN, .u.ext = {2, 1, 0}}},
	    {"a kind", "unknown kind of command: 200", {.kind = 200}},
	    {"a communicator",
	     "allreduce: communicator 99 is not bound by process",
	     {.kind = CMDQ_COLL, .coll = GPUSIM_ALLREDUCE, .u.coll = {.comm = 99}}},
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		*p = 0;
		ring_write(&q, &bad[i].c);
		ring_write(&q, &set);
		ring_publish(&q);
		ring_wait(&q);
		ok(strstr(ring_error(&q), bad[i].says) && *p == 0 &&
		       q.page->error.at == q.tail - 2 && q.page->error.number == i + 1,
		   "%s is refused, and what follows is passed over: %s", bad[i].what,
		   ring_error(&q));
		ring_forgive(&q);
		ring_put(&q, &set);
		ring_wait(&q);
		ok(*p == 1 && *ring_error(&q) == '\0', "once forgiven the queue goes on");
	}
	ring_close(&q);
}

static void
test_wait(void)
{
	struct ring q = ring_open(cmdqs[0]), on = ring_open(cmdqs[0]);
	uint64_t a = node_alloc(&v.node[0], 64);
	uint32_t *p = devmem_at(v.node[0].mem, a, 64);
	struct cmdq_command set = {.kind = CMDQ_MEMSET,
				   .u.bytes = {.dst = a, .nbytes = 4, .value = 1, .width = 4}};

	*p = 0;
	ring_put(&q, &(struct cmdq_command){.kind = CMDQ_WAIT, .u.wait = {on.page->id, 1}});
	ring_put(&on, &set);
	ring_wait(&q);
	ok(*p == 1, "a queue waits for another's position");
	ring_put(&q, &(struct cmdq_command){.kind = CMDQ_WAIT, .u.wait = {on.page->id, 100}});
	ring_close(&on);
	ring_wait(&q);
	ok(*ring_error(&q) == '\0', "a queue that was closed is not waited for");
	ring_put(&q, &(struct cmdq_command){.kind = CMDQ_WAIT, .u.wait = {q.page->id, 100}});
	ring_close(&q);
	ok(true, "one that waits for itself can be closed");
}

static void
test_extern(void)
{
	struct ring q = ring_open(cmdqs[0]);
	struct cmdq_extern *x = &q.page->ext[1];

	ring_write(&q, &(struct cmdq_command){.kind = CMDQ_EXTERN, .u.ext = {1, 1, 0}});
	ring_write(&q, &(struct cmdq_command){.kind = CMDQ_EXTERN, .u.ext = {1, 2, 0}});
	ring_publish(&q);
	cmdq_await(&x->go, &x->worker_sleeps, 1, NULL, UINT64_MAX);
	ok(q.page->head == 0, "the queue waits for its client's work");
	cmdq_publish(&x->done, &x->device_sleeps, 1);
	cmdq_await(&x->go, &x->worker_sleeps, 2, NULL, UINT64_MAX);
	ok(q.page->head == 1, "and goes on when that is done");
	snprintf(x->text, sizeof x->text, "kernel k has failed");
	x->rc = RC_FAILED;
	cmdq_publish(&x->done, &x->device_sleeps, 2);
	ring_wait(&q);
	ok(!strcmp(ring_error(&q), "kernel k has failed"), "work that fails is the queue's error");
	ring_put(&q, &(struct cmdq_command){.kind = CMDQ_EXTERN, .u.ext = {0, 1, 0}});
	ring_close(&q);
}

/* ---- between devices */

static bool
holds(uint32_t r, uint64_t addr, float value)
{
	const float *p = floats(r, addr);

	for (unsigned i = 0; i < COUNT; i++)
		if (p[i] != value)
			return false;
	return true;
}

static void
fill(uint32_t r, uint64_t addr, float value)
{
	for (unsigned i = 0; i < COUNT; i++)
		floats(r, addr)[i] = value;
}

static void
test_collectives(const char *way)
{
	struct ring q[3];
	const struct cmdq_comm *record[3];
	uint64_t in[3], out[3];
	bool good = true;
	struct err err;

	for (uint32_t r = 0; r < v.n; r++) {
		q[r] = ring_open(cmdqs[r]);
		record[r] = comm_bind(cmdqs[r], COMM, v.way == NODES_BY_MEMORY);
		in[r] = node_alloc(&v.node[r], COUNT * 4);
		out[r] = node_alloc(&v.node[r], COUNT * 4);
		fill(r, in[r], (float)(r + 1));
	}
	ok(record[2]->rank == 2 && record[2]->nranks == 3 && record[2]->state == CMDQ_COMM_LIVE &&
	       record[2]->waits_for == -1,
	   "%s: a bound communicator's record", way);
	ok(cmdqs_bind(cmdqs[0], COMM, 1, (uint32_t)getpid(), "again", record, &err) == RC_BUSY,
	   "it is bound once: %s", err.text);
	for (uint64_t n = 0; n < 100; n++)
		for (uint32_t r = 0; r < v.n; r++) {
			struct cmdq_command c =
			    coll_command(GPUSIM_ALLREDUCE, COMM, n, in[r], out[r], COUNT);

			ring_put(&q[r], &c);
		}
	for (uint32_t r = 0; r < v.n; r++) {
		ring_wait(&q[r]);
		good &= holds(r, out[r], 6) && record[r]->done == 100;
	}
	ok(good, "%s: a hundred all-reduces, enqueued at once; done says %u", way,
	   (unsigned)record[0]->done);
	for (uint32_t r = 0; r < v.n; r++) {
		struct cmdq_command c =
		    coll_command(GPUSIM_ALLREDUCE, COMM, 100, out[r], out[r], COUNT);
		struct cmdq_command b =
		    coll_command(GPUSIM_BROADCAST, COMM, 101, in[r], in[r], COUNT);

		b.u.coll.root = 1;
		ring_put(&q[r], &c);
		ring_put(&q[r], &b);
	}
	for (uint32_t r = 0; r < v.n; r++) {
		ring_wait(&q[r]);
		good &= holds(r, out[r], 18) && holds(r, in[r], 2);
	}
	ok(good, "%s: in place, and a broadcast", way);
	for (uint32_t r = 0; r < v.n; r++) {
		fill(r, in[r], (float)(r + 1));
		for (uint32_t p = 0; p < v.n; p++) {
			uint64_t at = out[r] + 300 * p * sizeof(float);
			struct cmdq_command s = coll_command(GPUSIM_SEND, COMM, 0, in[r], 0, 300);
			struct cmdq_command t = coll_command(GPUSIM_RECV, COMM, 0, 0, at, 300);

			s.u.coll.root = t.u.coll.root = p;
			s.flags = CMDQ_MORE;
			t.flags = p + 1 < v.n ? CMDQ_MORE : 0;
			ring_write(&q[r], &s);
			ring_write(&q[r], &t);
		}
		ring_publish(&q[r]);
	}
	for (uint32_t r = 0; r < v.n; r++) {
		ring_wait(&q[r]);
		for (unsigned i = 0; i < 900; i++)
			good &= floats(r, out[r])[i] == (float)(i / 300 + 1);
		good &= *ring_error(&q[r]) == '\0';
	}
	ok(good, "%s: sends and receives of all to all, to themselves too: %s", way,
	   ring_error(&q[0]));
	for (uint32_t r = 0; r < v.n; r++) {
		struct cmdq_command c =
		    coll_command(GPUSIM_ALLREDUCE, COMM, 102, in[r], out[r], r == 1 ? 8 : 16);

		ring_put(&q[r], &c);
	}
	for (uint32_t r = 0; r < v.n; r++) {
		ring_wait(&q[r]);
		ok(strstr(ring_error(&q[r]), "calls allreduce of 8 f32 sum") &&
		       strstr(ring_error(&q[r]), r == 1 ? "rank" : "allreduce of 16 f32 sum") &&
		       strstr(ring_error(&q[r]), "disagree") &&
		       record[r]->state == CMDQ_COMM_FAILED && *record[r]->text,
		   "%s: ranks that disagree hear it: %s", way, ring_error(&q[r]));
	}
	for (uint32_t r = 0; r < v.n; r++) {
		must(cmdqs_unbind(cmdqs[r], COMM, &err), &err);
		ring_close(&q[r]);
	}
}

int
main(void)
{
	nodes_open_by(&v, 1, 1 << 20, NODES_BY_MEMORY);
	cmdqs_start(&v);
	test_bytes();
	test_errors();
	test_wait();
	test_extern();
	cmdqs_end(&v);
	ok(nodes_close(&v), "nothing is left");
	for (enum nodes_way way = NODES_BY_SOCKETS; way <= NODES_BY_MEMORY; way++) {
		nodes_open_by(&v, 3, 1 << 20, way);
		cmdqs_start(&v);
		nodes_attach(&v, COMM, 1, 3, XPORT_FOR_EVER);
		test_collectives(way == NODES_BY_MEMORY ? "memory" : "sockets");
		cmdqs_end(&v);
		ok(nodes_close(&v), "nothing is left");
	}
	return tap_done();
}
