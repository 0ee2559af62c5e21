/*
 * Ranges, marks and names by NVTX, for the device's recorder. Each is a command of a queue of its own on the first
 * device, or on a stream's queue for its name. So it costs the program a store, and is recorded by the device even if
 * the program is killed.
 *
 * Design notes. A thread's open ranges are its own; `lock` guards the ranges that any thread may end, and the queue.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cudart/cuda_impl.h"
#include "flight/flight.h"
#include "flight/ticks.h"
#include "gpusim_nvtx.h"

#define NESTED 64  /* open ranges of a thread that are recorded; deeper ones are counted */
#define END_MS 200 /* at the program's end the last records are waited for this long */

struct range {
	struct range *next; /* of those that any thread may end */
	uint64_t id;
	const void *domain;
	struct cmdq_command c;
};

static _Thread_local struct range nested[NESTED];
static _Thread_local unsigned depth;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range *open_ranges;
static uint64_t last_id;
static struct cmdq *queue;
static pid_t queue_pid;

/* NULL: there is no device, or a child of fork asks. */
static struct cmdq *
notes(void)
{
	struct device *d;

	pthread_mutex_lock(&lock);
	if (!queue && !queue_pid && cuda_connect() == cudaSuccess && (d = cuda_device_at(0))) {
		queue_pid = getpid();
		if (cmdq_open(cuda_connection(), d->space->device, CMDQ_OWN_STREAM, &queue) !=
		    GPUSIM_OK)
			queue = NULL;
	}
	cuda_forget_error();
	pthread_mutex_unlock(&lock);
	return queue_pid == getpid() ? queue : NULL;
}

static void
record(struct cmdq *q, struct cmdq_command *c)
{
	if (!c->u.note.end)
		c->u.note.end = ticks_now();
	if (q)
		cmdq_append(q, c, 1, NULL);
}

/* The text is cut at a whole character when it is read. */
static struct cmdq_command
begin(enum flight_range_what what, const struct __gpusim_note *n)
{
	struct cmdq_command c = {
	    .kind = CMDQ_NOTE, .flags = (uint8_t)what, .mark = (uint16_t)n->category};

	c.u.note = (struct cmdq_note){
	    .begin = ticks_now(), .tid = (uint32_t)syscall(SYS_gettid), .colour = n->colour};
	snprintf(c.u.note.name, sizeof c.u.note.name, "%s%s%s",
		 n->domain ? (const char *)n->domain : "", n->domain ? ": " : "",
		 n->text ? n->text : "");
	return c;
}

static int
push(const struct __gpusim_note *n)
{
	if (depth < NESTED)
		nested[depth] =
		    (struct range){.domain = n->domain, .c = begin(FLIGHT_RANGE_NESTED, n)};
	return (int)depth++;
}

/* Domains have a stack each: the last range of this one ends. If a later one goes on, they do not nest. */
static int
pop(const void *domain)
{
	unsigned i = depth;
	struct cmdq_command c;

	if (depth > NESTED)
		return (int)--depth;
	while (i > 0 && nested[i - 1].domain != domain)
		i--;
	if (i == 0)
		return -1;
	c = nested[i - 1].c;
	if (i < depth)
		c.flags = FLIGHT_RANGE_FREE;
	memmove(&nested[i - 1], &nested[i], (depth - i) * sizeof *nested);
	record(notes(), &c);
	return (int)--depth;
}

static uint64_t
start(const struct __gpusim_note *n)
{
	struct range *r = calloc(1, sizeof *r);
	uint64_t id;

	if (!r)
		return 0;
	r->c = begin(FLIGHT_RANGE_FREE, n);
	pthread_mutex_lock(&lock);
	id = r->id = ++last_id;
	r->next = open_ranges;
	open_ranges = r;
	pthread_mutex_unlock(&lock);
	return id;
}

static void
end(uint64_t id)
{
	struct range **at = &open_ranges, *r;

	pthread_mutex_lock(&lock);
	while (*at && (*at)->id != id)
		at = &(*at)->next;
	r = *at;
	if (r)
		*at = r->next;
	pthread_mutex_unlock(&lock);
	if (r)
		record(notes(), &r->c);
	free(r);
}

static void
name_stream(cudaStream_t stream, const struct __gpusim_note *n)
{
	struct cmdq_command c = begin(FLIGHT_RANGE_STREAM, n);
	struct CUstream_st *s;
	struct cmdq *q;

	if (cuda_connect() != cudaSuccess || stream_of(stream, &s) != cudaSuccess)
		return;
	pthread_mutex_lock(&s->lock);
	if (stream_queue(s, &q) == cudaSuccess)
		record(q, &c);
	pthread_mutex_unlock(&s->lock);
}

unsigned long long
__gpusim_nvtx(int what, unsigned long long arg, const struct __gpusim_note *n)
{
	struct cmdq_command c;

	switch (what) {
	case GPUSIM_NVTX_PUSH:
		return (unsigned long long)push(n);
	case GPUSIM_NVTX_POP:
		return (unsigned long long)pop(n->domain);
	case GPUSIM_NVTX_START:
		return start(n);
	case GPUSIM_NVTX_END:
		end(arg);
		break;
	case GPUSIM_NVTX_STREAM:
		name_stream((cudaStream_t)(uintptr_t)arg, n);
		break;
	case GPUSIM_NVTX_MARK:
	case GPUSIM_NVTX_THREAD:
		c = begin(what == GPUSIM_NVTX_MARK ? FLIGHT_RANGE_MARK : FLIGHT_RANGE_THREAD, n);
		c.u.note.end = c.u.note.begin;
		if (arg)
			c.u.note.tid = (uint32_t)arg;
		record(notes(), &c);
		break;
	}
	return 0;
}

static __attribute__((destructor)) void
finish(void)
{
	if (queue && queue_pid == getpid())
		cmdq_wait(queue, cmdq_tail(queue), END_MS);
}
