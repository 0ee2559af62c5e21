/* Design notes. One lock and condition for all events of a device: they are few, and waits are
 * short. */
#include "dev/event.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"

/* Recordings queued together, first .. last; those before `next` are reached. */
struct batch {
	struct batch *after;
	uint64_t first, last, next;
};

struct event {
	struct event_table *table;
	struct event *next;
	uint64_t id, queued;
	struct batch *pending; /* not completely reached; numbers in no batch are reached */
};

struct event_table {
	pthread_mutex_t lock;
	pthread_cond_t passed;
	struct event *events;
	unsigned n;
};

struct event_table *
event_table_new(void)
{
	struct event_table *t = calloc(1, sizeof *t);

	if (t) {
		pthread_mutex_init(&t->lock, NULL);
		pthread_cond_init(&t->passed, NULL);
	}
	return t;
}

void
event_table_free(struct event_table *t)
{
	struct event *e;

	if (!t)
		return;
	while ((e = t->events)) {
		struct batch *b;

		while ((b = e->pending)) {
			e->pending = b->after;
			free(b);
		}
		t->events = e->next;
		free(e);
	}
	pthread_cond_destroy(&t->passed);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

enum rc
event_get(struct event_table *t, uint64_t id, struct event **out, struct err *err)
{
	struct event *e;
	enum rc rc = RC_OK;

	pthread_mutex_lock(&t->lock);
	for (e = t->events; e && e->id != id; e = e->next)
		;
	if (!e && t->n == EVENT_MAX) {
		rc = err_set(err, RC_BUSY, "a device has at most %d events", EVENT_MAX);
	} else if (!e) {
		e = calloc(1, sizeof *e);
		if (e) {
			*e = (struct event){.table = t, .next = t->events, .id = id};
			t->events = e;
			t->n++;
		} else {
			rc = err_set(err, RC_NOMEM, "out of memory");
		}
	}
	pthread_mutex_unlock(&t->lock);
	if (rc == RC_OK)
		*out = e;
	return rc;
}

uint64_t
event_queue(struct event *e, uint64_t n)
{
	struct batch *b = calloc(1, sizeof *b);
	struct batch **at = &e->pending;
	uint64_t first;

	if (!b)
		return 0;
	pthread_mutex_lock(&e->table->lock);
	first = e->queued + 1;
	e->queued += n;
	*b = (struct batch){.first = first, .next = first, .last = e->queued};
	while (*at)
		at = &(*at)->after;
	*at = b;
	pthread_mutex_unlock(&e->table->lock);
	return first;
}

uint64_t
event_id(const struct event *e)
{
	return e->id;
}

uint64_t
event_queued(struct event *e)
{
	uint64_t n;

	pthread_mutex_lock(&e->table->lock);
	n = e->queued;
	pthread_mutex_unlock(&e->table->lock);
	return n;
}

/* Lock held. The link to the batch of a number; *result is NULL when it is reached or not queued. */
static struct batch **
find_batch(struct event *e, uint64_t n)
{
	struct batch **at = &e->pending;

	while (*at && (*at)->last < n)
		at = &(*at)->after;
	if (*at && n < (*at)->first)
		while (*at)
			at = &(*at)->after;
	return at;
}

void
event_record(struct event *e, uint64_t n)
{
	struct batch **at, *b;

	pthread_mutex_lock(&e->table->lock);
	at = find_batch(e, n);
	b = *at;
	if (b && n >= b->next) {
		b->next = n + 1;
		if (n == b->last) {
			*at = b->after;
			free(b);
		}
		pthread_cond_broadcast(&e->table->passed);
	}
	pthread_mutex_unlock(&e->table->lock);
}

/* Lock held. */
static bool
has_passed(struct event *e, uint64_t n)
{
	const struct batch *b = *find_batch(e, n);

	return n == 0 || (n <= e->queued && (!b || n < b->next));
}

enum rc
event_wait(struct event *e, uint64_t n, uint64_t deadline_ns, struct err *err)
{
	struct timespec ts = deadline_timespec(deadline_ns);
	enum rc rc = RC_OK;

	pthread_mutex_lock(&e->table->lock);
	while (!has_passed(e, n) && rc == RC_OK)
		if (pthread_cond_clockwait(&e->table->passed, &e->table->lock, CLOCK_MONOTONIC,
					   &ts) != 0 &&
		    !has_passed(e, n))
			rc = err_set(err, RC_TIMEOUT, "event %" PRIu64 " was not recorded in time",
				     e->id);
	pthread_mutex_unlock(&e->table->lock);
	return rc;
}
