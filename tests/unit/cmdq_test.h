/*
 * cmdq_test.h - devices of one process with command queues, and a client that writes commands.
 */
#ifndef CMDQ_TEST_H
#define CMDQ_TEST_H

#include "dev/cmdq.h"
#include "dev_test.h"

struct ring {
	struct cmdqs *of;
	struct cmdq_page *page;
	uint64_t tail;
};

/* Of the nodes, in their order. */
static struct cmdqs *cmdqs[NODES_MAX];

static inline void
cmdqs_start(struct nodes *v)
{
	struct err err = {0};

	for (uint32_t r = 0; r < v->n; r++)
		must(cmdqs_new(&v->node[r].env, v->node[r].streams, NULL, NULL, &cmdqs[r], &err),
		     &err);
}

static inline void
cmdqs_end(struct nodes *v)
{
	for (uint32_t r = 0; r < v->n; r++) {
		xport_abort_all(v->node[r].xport, "the test is over");
		cmdqs_free(cmdqs[r]);
	}
}

static inline struct ring
ring_open_on(struct cmdqs *s, uint32_t stream)
{
	const struct cmdq_page *page;
	struct err err = {0};

	must(cmdqs_open(s, (uint32_t)getpid(), stream, &page, &err), &err);
	return (struct ring){.of = s, .page = (struct cmdq_page *)page};
}

static inline struct ring
ring_open(struct cmdqs *s)
{
	return ring_open_on(s, CMDQS_OWN);
}

static inline void
ring_close(struct ring *q)
{
	struct err err = {0};

	must(cmdqs_close(q->of, q->page->id, &err), &err);
}

static inline const struct cmdq_comm *
comm_bind(struct cmdqs *s, uint64_t comm, bool by_memory)
{
	const struct cmdq_comm *record;
	struct err err = {0};

	must(cmdqs_attached(s, comm, 1, &(struct cmdq_choice){0}, &err), &err);
	cmdqs_joined(s, comm, 1, by_memory);
	must(cmdqs_bind(s, comm, 1, (uint32_t)getpid(), "t_cmdq", &record, &err), &err);
	return record;
}

/* Write a command without publishing it; the queue has room. */
static inline void
ring_write(struct ring *q, const struct cmdq_command *c)
{
	q->page->command[q->tail++ % CMDQ_SIZE] = *c;
}

static inline void
ring_publish(struct ring *q)
{
	cmdq_publish(&q->page->tail, &q->page->device_sleeps, q->tail);
}

static inline void
ring_put(struct ring *q, const struct cmdq_command *c)
{
	ring_write(q, c);
	ring_publish(q);
}

/* Wait until all commands have been executed or skipped. */
static inline void
ring_wait(struct ring *q)
{
	cmdq_await(&q->page->head, &q->page->client_sleeps, q->tail, NULL, UINT64_MAX);
}

/* The text of an error that was not cleared, or "". */
static inline const char *
ring_error(const struct ring *q)
{
	const struct cmdq_error *e = &q->page->error;

	return atomic_load(&e->number) > atomic_load(&e->forgiven) ? e->text : "";
}

static inline void
ring_forgive(struct ring *q)
{
	ring_wait(q);
	atomic_store(&q->page->error.forgiven, atomic_load(&q->page->error.number));
}

static inline struct cmdq_command
coll_command(enum gpusim_coll coll, uint64_t comm, uint64_t number, uint64_t send, uint64_t recv,
	     uint64_t count)
{
	return (struct cmdq_command){
	    .kind = coll_is_sendrecv(coll) ? CMDQ_SENDRECV : CMDQ_COLL,
	    .coll = (uint8_t)coll,
	    .dtype = GPUSIM_F32,
	    .redop = GPUSIM_SUM,
	    .u.coll = {.comm = comm, .send = send, .recv = recv, .count = count, .number = number}};
}

#endif
