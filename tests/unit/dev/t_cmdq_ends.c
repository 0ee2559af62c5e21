/* dev/cmdq: order with the runs of a numbered stream; clients that end; bytes that are no commands. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "chance.h"
#include "cmdq_test.h"
#include "dev/cmdq_impl.h"

#define COMM 7

static struct nodes v;
static struct list l;

static struct cmdq_command
set_to(uint64_t addr, uint32_t value)
{
	return (struct cmdq_command){
	    .kind = CMDQ_MEMSET, .u.bytes = {.dst = addr, .nbytes = 4, .value = value, .width = 4}};
}

static uint32_t
value_at(uint64_t addr)
{
	return *(uint32_t *)devmem_at(v.node[0].mem, addr, 4);
}

/* ---- numbered streams */

static void
test_order(void)
{
	struct ring q = ring_open_on(cmdqs[0], 3);
	struct cmdq_extern *x = &q.page->ext[0];
	uint64_t a = node_alloc(&v.node[0], 64), b = node_alloc(&v.node[0], 64);
	struct ending first = ENDING, second = ENDING;
	struct cmdq_command c[] = {{.kind = CMDQ_EXTERN, .u.ext = {0, 1, 0}}, set_to(a, 1)};

	ring_write(&q, &c[0]);
	ring_write(&q, &c[1]);
	ring_publish(&q);
	list_copy(&l, 3, b, a, 4);
	node_run(&v.node[0], 0, &l, 0, &first);
	c[1] = set_to(a, 2);
	ring_put(&q, &c[1]);
	l.n = 0;
	list_copy(&l, 3, b + 4, a, 4);
	node_run(&v.node[0], 0, &l, 0, &second);
	c[1] = set_to(a, 3);
	ring_put(&q, &c[1]);
	cmdq_await(&x->go, &x->worker_sleeps, 1, NULL, UINT64_MAX);
	ok(first.told == 0, "a run waits for the commands before it");
	cmdq_publish(&x->done, &x->device_sleeps, 1);
	ending_wait(&first);
	ending_wait(&second);
	ring_wait(&q);
	ok(value_at(b) == 1 && value_at(b + 4) == 2 && value_at(a) == 3,
	   "commands and runs of a stream are in one order: %u %u %u", value_at(b), value_at(b + 4),
	   value_at(a));
	ring_put(&q, &(struct cmdq_command){.kind = CMDQ_EXTERN, .u.ext = {0, 2, 0}});
	first = (struct ending)ENDING;
	node_run(&v.node[0], 0, &l, 0, &first);
	ring_close(&q);
	ok(ending_wait(&first) == RC_OK, "a run does not wait for a queue that was closed");
	l.n = 0;
}

/* ---- ends of clients */

static pid_t
idle_process(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		pause();
		_exit(0);
	}
	return pid;
}

static void
end_process(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static struct ring
ring_of(uint32_t r, pid_t pid)
{
	const struct cmdq_page *page;
	struct err err = {0};

	must(cmdqs_open(cmdqs[r], (uint32_t)pid, CMDQS_OWN, &page, &err), &err);
	return (struct ring){.of = cmdqs[r], .page = (struct cmdq_page *)page};
}

static void
test_death(const char *way)
{
	const struct cmdq_comm *record, *its;
	uint64_t in = node_alloc(&v.node[0], 64), his = node_alloc(&v.node[1], 64);
	pid_t pid = idle_process();
	struct ring q = ring_open(cmdqs[0]), other = ring_of(1, pid);
	struct cmdq_command c = coll_command(GPUSIM_ALLREDUCE, COMM, 0, in, in, 2);
	struct cmdq_report report;
	char text[128];
	struct err err;

	record = comm_bind(cmdqs[0], COMM, v.way == NODES_BY_MEMORY);
	must(cmdqs_attached(cmdqs[1], COMM, 1, &(struct cmdq_choice){0}, &err), &err);
	cmdqs_joined(cmdqs[1], COMM, 1, v.way == NODES_BY_MEMORY);
	must(cmdqs_bind(cmdqs[1], COMM, 1, (uint32_t)pid, "sleeper", &its, &err), &err);
	ring_put(&q, &c);
	while (record->waits_for != 1)
		cmdqs_tick(cmdqs[0], NULL);
	ok(record->waits_since_ns <= clock_now_ns(), "%s: the record says who is waited for", way);
	(void)his;
	ring_put(&other, &(struct cmdq_command){.kind = CMDQ_EXTERN, .u.ext = {0, 1, 0}});
	end_process(pid);
	while (!cmdqs_report(cmdqs[1], &report))
		sched_yield();
	snprintf(text, sizeof text, "rank 1's process %d (sleeper) has ended", (int)pid);
	ok(!strcmp(report.reason, text) && report.comm == COMM && report.epoch == 1 &&
	       report.rc == RC_FAILED,
	   "%s: the coordinator is to hear it: %s", way, report.reason);
	/* By sockets the coordinator tells it; nothing else may. */
	if (v.way == NODES_BY_SOCKETS) {
		xport_abort(v.node[0].xport, COMM, 1, report.reason, NULL);
		cmdqs_comm_over(cmdqs[0], COMM, 1, report.rc, report.reason);
	}
	ring_wait(&q);
	ok(strstr(ring_error(&q), text) && record->state == CMDQ_COMM_FAILED &&
	       strstr(record->text, text),
	   "%s: the other rank hears it: %s", way, ring_error(&q));
	ok(cmdqs_bind(cmdqs[0], COMM, 1, (uint32_t)getpid(), "again", &its, &err) == RC_ABORTED,
	   "it cannot be bound any more: %s", err.text);
	ok(cmdqs_open(cmdqs[1], (uint32_t)pid, CMDQS_OWN, &(const struct cmdq_page *){NULL},
		      &err) == RC_NOTFOUND,
	   "nor a queue opened for it: %s", err.text);
	must(cmdqs_unbind(cmdqs[0], COMM, &err), &err);
	ring_close(&q);
}

/* A failure of a rank's queue is the communicator's, for the others would wait for ever. */
static void
test_skip(void)
{
	const struct cmdq_comm *record[2];
	struct cmdq_report report;
	struct ring q[2];
	uint64_t at[2];
	struct err err;

	for (uint32_t r = 0; r < 2; r++) {
		q[r] = ring_open(cmdqs[r]);
		record[r] = comm_bind(cmdqs[r], COMM, true);
		at[r] = node_alloc(&v.node[r], 64);
	}
	ring_put(&q[0], &(struct cmdq_command){.kind = CMDQ_COPY, .u.bytes = {.nbytes = 1}});
	for (uint32_t r = 0; r < 2; r++) {
		struct cmdq_command c = coll_command(GPUSIM_ALLREDUCE, COMM, 0, at[r], at[r], 2);

		ring_put(&q[r], &c);
	}
	ring_wait(&q[1]);
	ok(strstr(ring_error(&q[1]), "rank 0 skipped its allreduce: copy: destination"),
	   "a rank that passes over its part fails the others: %s", ring_error(&q[1]));
	ok(cmdqs_report(cmdqs[0], &report) && strstr(report.reason, "rank 0 skipped") &&
	       record[0]->state == CMDQ_COMM_FAILED,
	   "and says so");
	for (uint32_t r = 0; r < 2; r++) {
		must(cmdqs_unbind(cmdqs[r], COMM, &err), &err);
		ring_close(&q[r]);
	}
}

/* Two that wait for each other, each in a broadcast from the other. */
static void
test_crossed(void)
{
	struct ring q[2];
	uint64_t at[2];

	for (uint32_t r = 0; r < 2; r++) {
		q[r] = ring_open(cmdqs[r]);
		comm_bind(cmdqs[r], COMM, true);
		at[r] = node_alloc(&v.node[r], 64);
	}
	for (uint32_t r = 0; r < 2; r++) {
		struct cmdq_command c = coll_command(GPUSIM_BROADCAST, COMM, 0, at[r], at[r], 2);

		c.u.coll.root = 1 - r;
		ring_put(&q[r], &c);
	}
	for (uint32_t r = 0; r < 2; r++) {
		ring_wait(&q[r]);
		ok(strstr(ring_error(&q[r]), "broadcast of 2 f32 root 0") &&
		       strstr(ring_error(&q[r]), "broadcast of 2 f32 root 1"),
		   "ranks that wait for each other in different calls: %s", ring_error(&q[r]));
		ring_close(&q[r]);
	}
}

/* ---- bytes that are no commands */

static uint64_t chance = 1;

static uint64_t
below(uint64_t n)
{
	return xorshift_star(&chance) % n;
}

static uint64_t
likely(uint64_t comm)
{
	const uint64_t some[] = {0, 1, 2, 3, comm, 0x10000, 0x10100, 0x11000, UINT64_MAX, 1 << 20};

	return below(3) ? some[below(sizeof some / sizeof *some)] : xorshift_star(&chance);
}

static struct cmdq_command
any_command(uint64_t comm)
{
	struct cmdq_command c = {.kind = (uint8_t)below(10),
				 .flags = (uint8_t)below(8),
				 .coll = (uint8_t)below(13),
				 .dtype = (uint8_t)below(14),
				 .redop = (uint8_t)below(10),
				 .algo = (uint8_t)below(8)};

	for (unsigned w = 0; w < 7; w++)
		c.u.words[w] = likely(comm);
	if (below(2))
		c.u.coll.comm = comm;
	return c;
}

/* What two rounds copy to the same memory at once is a race of the test's own. */
static void
await_threads(struct cmdqs *s)
{
	pthread_mutex_lock(&s->lock);
	while (s->threads)
		pthread_cond_wait(&s->ended, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

static void
test_nonsense(void)
{
	const unsigned rounds = SANITIZED ? 100 : 400;
	struct ring q[2];
	struct err err;

	for (unsigned round = 0; round < rounds; round++) {
		uint64_t comm = 100 + round;

		nodes_attach(&v, comm, 1, 2, XPORT_FOR_EVER);
		for (uint32_t r = 0; r < 2; r++) {
			q[r] = ring_open_on(cmdqs[r], r ? CMDQS_OWN : 5);
			comm_bind(cmdqs[r], comm, true);
			q[r].page->error.forgiven = UINT64_MAX;
			for (unsigned n = 0; n < 50; n++) {
				struct cmdq_command c = any_command(comm);

				ring_write(&q[r], &c);
			}
			if (below(8) == 0)
				q[r].tail += below(4000);
		}
		for (uint32_t r = 0; r < 2; r++) {
			ring_publish(&q[r]);
			if (below(8) == 0)
				atomic_store(&q[r].page->head, xorshift_star(&chance));
		}
		for (unsigned n = 0; n < 200 && atomic_load(&q[0].page->head) == 0; n++)
			sched_yield();
		for (uint32_t r = 0; r < 2; r++) {
			ring_close(&q[r]);
			must(cmdqs_unbind(cmdqs[r], comm, &err), &err);
			must(xport_detach(v.node[r].xport, comm, &err), &err);
			cmdqs_comm_gone(cmdqs[r], comm);
		}
		for (uint32_t r = 0; r < 2 && SANITIZED; r++)
			await_threads(cmdqs[r]);
	}
	ok(true, "the devices outlive commands of chance");
}

/* A queue whose tail is nonsense ends, with a sentence. */
static void
test_broken(void)
{
	struct ring q = ring_open(cmdqs[0]);

	cmdq_publish(&q.page->tail, &q.page->device_sleeps, CMDQ_SIZE + 1);
	while (!atomic_load(&q.page->closed))
		sched_yield();
	ok(strstr(ring_error(&q), "its client has corrupted it"), "a broken tail: %s",
	   ring_error(&q));
	ring_close(&q);
}

static void
open_two(enum nodes_way way)
{
	nodes_open_by(&v, 2, 1 << 20, way);
	cmdqs_start(&v);
	nodes_attach(&v, COMM, 1, 2, XPORT_FOR_EVER);
}

static void
close_two(void)
{
	cmdqs_end(&v);
	ok(nodes_close(&v), "nothing is left");
}

int
main(void)
{
	open_two(NODES_BY_MEMORY);
	test_order();
	test_broken();
	test_death("memory");
	close_two();
	open_two(NODES_BY_SOCKETS);
	test_death("sockets");
	close_two();
	open_two(NODES_BY_MEMORY);
	test_skip();
	close_two();
	open_two(NODES_BY_MEMORY);
	test_crossed();
	close_two();
	open_two(NODES_BY_MEMORY);
	test_nonsense();
	close_two();
	return tap_done();
}
