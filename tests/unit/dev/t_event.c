/* dev/event: recordings and who waits for them. */
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "dev/event.h"
#include "tap.h"

static struct event *
event(struct event_table *t, uint64_t id)
{
	struct event *e = NULL;

	event_get(t, id, &e, NULL);
	return e;
}

/* Whether a wait for recording n would end at once. */
static bool
passed(struct event *e, uint64_t n)
{
	struct err err = {0};

	return event_wait(e, n, 0, &err) == RC_OK;
}

static void
test_numbers(struct event_table *t)
{
	struct event *e = event(t, 1);
	uint64_t a, b;

	ok(e && event(t, 1) == e && event(t, 2) != e, "an event is found again by its number");
	ok(event_queued(e) == 0 && passed(e, 0), "a wait before any recording passes");
	a = event_queue(e, 1);
	b = event_queue(e, 3);
	ok(a == 1 && b == 2 && event_queued(e) == 4, "recordings are numbered as they are queued");
	ok(!passed(e, 1) && !passed(e, 4), "none has been reached");
	event_record(e, 1);
	ok(passed(e, 1) && !passed(e, 2), "the first has");
	event_record(e, 2);
	event_record(e, 3);
	ok(passed(e, 3) && !passed(e, 4), "a run's iterations one by one");
	event_record(e, 4);
	ok(passed(e, 4), "all");
	ok(!passed(e, 5), "one that was never queued is not passed");
}

/* Two streams record one event: the later recording may be reached first. */
static void
test_out_of_order(struct event_table *t)
{
	struct event *e = event(t, 3);
	uint64_t slow = event_queue(e, 2), fast = event_queue(e, 2);

	event_record(e, fast);
	ok(!passed(e, slow) && passed(e, fast) && !passed(e, fast + 1),
	   "a wait for the slow stream is not ended by the fast one");
	event_record(e, fast + 1);
	ok(passed(e, fast + 1) && !passed(e, slow), "nor by its last");
	event_record(e, slow + 1);
	ok(passed(e, slow) && passed(e, slow + 1),
	   "a later recording of the same run stands for all");
	event_record(e, slow);
	event_record(e, fast);
	ok(passed(e, slow + 1) && passed(e, fast + 1), "recording again changes nothing");
}

static void
test_limits(struct event_table *t)
{
	struct event *e;
	struct err err = {0};
	uint64_t id = 1000;
	enum rc rc;

	while ((rc = event_get(t, id, &e, &err)) == RC_OK)
		id++;
	ok(rc == RC_BUSY && id - 1000 <= EVENT_MAX, "a device has so many events: %s", err.text);
	ok(event_get(t, 1, &e, &err) == RC_OK, "those that are there go on");
	e = event(t, 1001);
	event_queue(e, 1);
	err = (struct err){0};
	ok(event_wait(e, 1, clock_now_ns(), &err) == RC_TIMEOUT && strstr(err.text, "1001"),
	   "a wait past its deadline names the event: %s", err.text);
}

struct waiting {
	struct event *e;
	uint64_t n;
	enum rc rc;
};

static void *
wait_for(void *arg)
{
	struct waiting *w = arg;

	w->rc = event_wait(w->e, w->n, UINT64_MAX, NULL);
	return NULL;
}

static void
test_threads(struct event_table *t)
{
	enum { N = 8 };
	struct waiting w[N];
	pthread_t thread[N];
	struct event *e = event(t, 5);
	uint64_t first = event_queue(e, N);
	unsigned good = 0;

	for (unsigned i = 0; i < N; i++) {
		w[i] = (struct waiting){e, first + i, RC_INTERNAL};
		pthread_create(&thread[i], NULL, wait_for, &w[i]);
	}
	for (unsigned i = 0; i < N; i++)
		event_record(e, first + i);
	for (unsigned i = 0; i < N; i++) {
		pthread_join(thread[i], NULL);
		good += w[i].rc == RC_OK;
	}
	ok(good == N, "every waiter is woken");
}

int
main(void)
{
	struct event_table *t = event_table_new();

	test_numbers(t);
	test_out_of_order(t);
	test_threads(t);
	test_limits(t);
	event_queue(event(t, 1), 5); /* freed with the table */
	event_table_free(t);
	event_table_free(NULL);
	return tap_done();
}
