/* The table of command queues: open, close, end. Design notes: cmdq_impl.h. */
#include "dev/cmdq.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "dev/cmdq_impl.h"
#include "dev/device_recorder.h"

enum rc
cmdqs_new(const struct program_env *env, struct streams *streams, void (*wake)(void *), void *arg,
	  struct cmdqs **out, struct err *err)
{
	struct cmdqs *s = calloc(1, sizeof *s);

	if (!s)
		return err_set(err, RC_NOMEM, "out of memory");
	s->env = *env;
	s->streams = streams;
	s->wake = wake;
	s->wake_arg = arg;
	s->reports_tail = &s->reports;
	s->epoll = s->stop_fd = -1;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->ended, NULL);
	*out = s;
	return RC_OK;
}

static enum rc
start(struct queue *q, struct err *err)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rv;

	if (q->stream != CMDQS_OWN)
		streams_attach(q->all->streams, q->stream, &q->turns);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rv = pthread_create(&thread, &attr, queue_main, q);
	pthread_attr_destroy(&attr);
	if (rv != 0 && q->stream != CMDQS_OWN)
		streams_detach(q->all->streams, &q->turns);
	if (rv != 0)
		return err_set(err, RC_BUSY, "cannot start a thread for the queue: %s",
			       strerror(rv));
	q->refs++;
	q->all->threads++;
	return RC_OK;
}

/* Lock held. Make a queue with its page only. */
static enum rc
make(struct cmdqs *s, uint32_t pid, uint32_t stream, struct queue **out, struct err *err)
{
	struct queue *q = calloc(1, sizeof *q);
	void *page;
	enum rc rc = q ? devmem_own_alloc(s->env.mem, sizeof *q->page, &page, err)
		       : err_set(err, RC_NOMEM, "out of memory");

	if (rc != RC_OK) {
		free(q);
		return rc;
	}
	memset(page, 0, sizeof *q->page);
	recorder_init(&q->recorder);
	q->all = s;
	q->page = page;
	q->pid = pid;
	q->stream = stream;
	q->id = ++s->last_id;
	q->page->id = q->id;
	q->page->size = CMDQ_SIZE;
	q->page->pid = pid;
	q->page->magic = CMDQ_MAGIC;
	q->turns.tail = &q->page->tail;
	q->turns.head = &q->page->head;
	q->turns.head_sleeps = &q->page->client_sleeps;
	q->refs = 1;
	*out = q;
	return RC_OK;
}

/* Lock held. */
static enum rc
open_for(struct cmdqs *s, struct cmdq_client *c, uint32_t stream, struct queue **out,
	 struct err *err)
{
	struct queue *q = NULL;
	enum rc rc;

	if (s->threads >= CMDQS_MAX)
		return err_set(err, RC_BUSY, "a device has at most %d command queues", CMDQS_MAX);
	if (c->nqueues >= CMDQS_CLIENT_MAX)
		return err_set(err, RC_BUSY,
			       "process %u has %d command queues here, which is the limit", c->pid,
			       CMDQS_CLIENT_MAX);
	rc = make(s, c->pid, stream, &q, err);
	if (rc == RC_OK)
		rc = start(q, err);
	if (rc != RC_OK && q)
		queue_drop(q);
	if (rc != RC_OK)
		return rc;
	q->client = c;
	c->nqueues++;
	s->nqueues++;
	q->next = s->queues;
	s->queues = q;
	*out = q;
	return RC_OK;
}

enum rc
cmdqs_open(struct cmdqs *s, uint32_t pid, uint32_t stream, const struct cmdq_page **page,
	   struct err *err)
{
	struct cmdq_client *c;
	struct queue *q = NULL;
	enum rc rc;

	if (stream >= STREAM_MAX && stream != CMDQS_OWN)
		return err_set(err, RC_INVAL, "stream %u: must be 0 to %d", stream, STREAM_MAX - 1);
	pthread_mutex_lock(&s->lock);
	rc = client_get(s, pid, &c, err);
	if (rc == RC_OK) {
		rc = open_for(s, c, stream, &q, err);
		client_settle(s, c);
	}
	if (rc == RC_OK)
		*page = q->page;
	pthread_mutex_unlock(&s->lock);
	return rc;
}

enum rc
cmdqs_close(struct cmdqs *s, uint64_t id, struct err *err)
{
	struct queue *q;

	pthread_mutex_lock(&s->lock);
	q = queue_find(s, id);
	if (q)
		queue_close(q);
	pthread_mutex_unlock(&s->lock);
	return q ? RC_OK
		 : err_set(err, RC_NOTFOUND, "no command queue %" PRIu64 " on this device", id);
}

void
cmdqs_stop(struct cmdqs *s)
{
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	bounds_stop(s);
	for (struct queue *q = s->queues; q; q = q->next)
		queue_attend(q, QUEUE_END);
	while (s->threads)
		pthread_cond_wait(&s->ended, &s->lock);
	pthread_mutex_unlock(&s->lock);
	clients_unwatch(s);
}

void
cmdqs_free(struct cmdqs *s)
{
	struct report *r;

	if (!s)
		return;
	cmdqs_stop(s);
	while (s->queues)
		queue_close(s->queues);
	comms_free(s);
	while ((r = s->reports)) {
		s->reports = r->next;
		free(r);
	}
	pthread_cond_destroy(&s->ended);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

bool
cmdqs_report(struct cmdqs *s, struct cmdq_report *out)
{
	struct report *r;

	pthread_mutex_lock(&s->lock);
	r = s->reports;
	if (r && !(s->reports = r->next))
		s->reports_tail = &s->reports;
	pthread_mutex_unlock(&s->lock);
	if (!r)
		return false;
	*out = r->r;
	free(r);
	return true;
}

size_t
cmdqs_progress(struct cmdqs *s, struct progress *out, size_t max)
{
	size_t n = 0;

	pthread_mutex_lock(&s->lock);
	for (const struct queue *q = s->queues; q && n < max; q = q->next)
		n += recorder_read(&q->recorder, &out[n]);
	pthread_mutex_unlock(&s->lock);
	return n;
}

#define GROUP_MS 300 /* report a group that has been open for longer */

/* Lock held. The client holds operations in a group that it has not ended. */
static void
watch_group(struct bound *b, struct device_recorder *r)
{
	uint32_t n = atomic_load(&b->record->grouped);
	uint64_t now = ticks_now(), at = atomic_load(&b->record->grouped_at);

	if (now - at < ticks_hz() / 1000 * GROUP_MS)
		n = 0;
	if (n == b->grouped)
		return;
	b->grouped = n;
	device_recorder_mark(r,
			     &(struct flight_mark){.what = FLIGHT_MARK_GROUP,
						   .epoch = b->epoch,
						   .at = n ? at : now,
						   .comm = b->comm,
						   .value = n,
						   .rank = b->rank + 1},
			     NULL);
}

void
cmdqs_tick(struct cmdqs *s, struct device_recorder *r)
{
	pthread_mutex_lock(&s->lock);
	for (struct bound *b = s->bounds; b; b = b->next) {
		struct progress p, most = {0};

		/* Publish the rank that its client waits for: the longest wait of its queues. */
		for (const struct queue *q = s->queues; q; q = q->next)
			if (recorder_read(&q->recorder, &p) && p.comm == b->comm && p.waits_for &&
			    (!most.waits_for || p.idle_ns > most.idle_ns))
				most = p;
		atomic_store_explicit(&b->record->waits_since_ns,
				      most.waits_for ? clock_now_ns() - most.idle_ns : 0,
				      memory_order_relaxed);
		atomic_store_explicit(&b->record->waits_for, (int32_t)most.waits_for - 1,
				      memory_order_release);
		watch_group(b, r);
	}
	pthread_mutex_unlock(&s->lock);
}
