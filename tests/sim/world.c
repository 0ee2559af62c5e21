/* world.c - random numbers, time, processes, faults, and the invariants at the end. */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EVENTS 400000 /* a world that needs more is stuck */

/* ---- chance */

uint64_t
roll64(struct world *w)
{
	uint64_t z = w->rng += 0x9e3779b97f4a7c15ull; /* splitmix64 */

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

uint32_t
roll(struct world *w, uint32_t n)
{
	return (uint32_t)(roll64(w) % n);
}

bool
chance(struct world *w, uint32_t of1000)
{
	return of1000 && roll(w, 1000) < of1000;
}

uint64_t
between(struct world *w, uint64_t lo, uint64_t hi)
{
	return lo + roll64(w) % (hi - lo + 1);
}

/* ---- messages */

void
trace(struct world *w, const char *fmt, ...)
{
	va_list ap;

	if (!w->verbose)
		return;
	printf("%10.3f ", (double)w->now / 1e6);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

void
wrong(struct world *w, const char *fmt, ...)
{
	va_list ap;

	if (w->wrong[0])
		return;
	va_start(ap, fmt);
	vsnprintf(w->wrong, sizeof w->wrong, fmt, ap);
	va_end(ap);
	trace(w, "WRONG: %s", w->wrong);
}

/* ---- the queue */

static bool
before(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void
sift_up(struct event *h, size_t i)
{
	struct event e = h[i];

	for (; i && before(&e, &h[(i - 1) / 2]); i = (i - 1) / 2)
		h[i] = h[(i - 1) / 2];
	h[i] = e;
}

static struct event
pop(struct world *w)
{
	struct event *h = w->heap, top = h[0], last = h[--w->nheap];
	size_t i = 0, k;

	while ((k = 2 * i + 1) < w->nheap) {
		if (k + 1 < w->nheap && before(&h[k + 1], &h[k]))
			k++;
		if (!before(&h[k], &last))
			break;
		h[i] = h[k];
		i = k;
	}
	h[i] = last;
	return top;
}

/* The caller may set a, b, c, d, body: they take no part in the order. */
struct event *
post(struct world *w, uint64_t at, enum event_kind kind, uint32_t node)
{
	size_t i = w->nheap++;
	struct event *e;

	if (i == w->heap_cap) {
		w->heap_cap = w->heap_cap ? 2 * w->heap_cap : 256;
		w->heap = alloc_resize(w->heap, w->heap_cap, sizeof *w->heap);
		if (!w->heap)
			abort();
	}
	w->heap[i] = (struct event){.at = at,
				    .order = ++w->order,
				    .kind = kind,
				    .node = node,
				    .life = node == NONE ? 0 : w->node[node].life};
	sift_up(w->heap, i);
	for (e = w->heap + i; e->order != w->order; e = w->heap + (size_t)(e - w->heap - 1) / 2)
		;
	return e;
}

/* ---- processes */

bool
is_up(const struct world *w, uint32_t n)
{
	return w->node[n].alive && w->node[n].frozen_until <= w->now;
}

bool
reaches(const struct world *w, uint32_t a, uint32_t b)
{
	return w->node[a].side == w->node[b].side;
}

static const char *const kind_name[] = {"coordinator", "device", "client"};

void
node_start(struct world *w, uint32_t n)
{
	struct node *p = &w->node[n];

	if (p->alive)
		return;
	p->alive = true;
	p->frozen_until = 0;
	p->life++;
	if (p->kind != NODE_CLIENT)
		p->cache = replycache_new();
	trace(w, "%s %u starts", kind_name[p->kind], p->index);
	if (p->kind == NODE_COORD)
		coordinator_start(w);
	else if (p->kind == NODE_DEVICE)
		device_start(w, p->index);
	else
		client_start(w, p->index);
}

void
node_kill(struct world *w, uint32_t n, const char *why)
{
	struct node *p = &w->node[n];

	if (!p->alive)
		return;
	trace(w, "%s %u dies: %s", kind_name[p->kind], p->index, why);
	p->alive = false;
	p->died = w->now;
	if (p->kind == NODE_COORD) {
		coordinator_kill(w);
	} else if (p->kind == NODE_DEVICE) {
		device_kill(w, p->index);
		if (w->node[0].alive && roll(w, 4))
			post(w, w->now + between(w, MS, 200 * MS), EV_UNREACHABLE, 0)->b = p->index;
		if (w->node[0].alive && roll(w, 2)) {
			struct event *e = post(w, w->now + between(w, MS, 200 * MS), EV_EXITED, 0);

			e->b = pid_of_device(p->index, p->life);
			e->c = 9;
		}
	} else {
		post(w, w->now + between(w, 25 * MS, 200 * MS), EV_GONE, 0)->b =
		    w->client[p->index].client_id;
		if (w->queued)
			ranks_died(w, p->index);
	}
	replycache_free(p->cache);
	p->cache = NULL;
	for (size_t i = 0; i < w->nserved; i++)
		if (w->served[i].node == n && w->served[i].req) {
			wire_request_free(w->served[i].req);
			w->served[i].req = NULL;
		}
	for (size_t i = 0; i < w->ncalls; i++)
		if (w->call[i].from == n)
			w->call[i].done = true;
}

/* ---- faults */

static uint32_t
strength(struct world *w, uint32_t low, uint32_t high)
{
	uint32_t how[] = {0, 0, low, high};

	return how[roll(w, 4)];
}

static void
make_faults(struct world *w)
{
	w->faults = (struct profile){.lose = strength(w, 10, 100),
				     .repeat = strength(w, 10, 150),
				     .crash = strength(w, 20, 120),
				     .freeze = strength(w, 20, 100),
				     .split = strength(w, 5, 40),
				     .coord_freeze = strength(w, 3, 20),
				     .coord_crash = strength(w, 5, 30),
				     .client_dies = strength(w, 2, 15),
				     .slow_us = roll(w, 2) ? 400 * MS : 2500 * MS,
				     .latency_us = roll(w, 2) ? 2000 : 20000};
}

/* A world whose only fault is that events are late. */
static void
make_starving(struct world *w)
{
	w->starving = true;
	w->faults = (struct profile){.repeat = w->faults.repeat,
				     .starve = 150,
				     .slow_us = 400 * MS,
				     .latency_us = w->faults.latency_us};
}

static void
freeze(struct world *w, uint32_t n, uint64_t us)
{
	struct node *p = &w->node[n];

	if (!is_up(w, n))
		return;
	p->frozen_until = w->now + us;
	trace(w, "%s %u freezes for %.1fs", kind_name[p->kind], p->index, (double)us / 1e6);
}

static void
split(struct world *w)
{
	uint32_t hit = 1 + roll(w, w->nnodes - 1);

	for (uint32_t n = 0; n < w->nnodes; n++)
		w->node[n].side = roll(w, 3) ? n == hit : roll(w, 2);
	post(w, w->now + between(w, 200 * MS, 6000 * MS), EV_MEND, NONE);
	trace(w, "the network splits");
}

static void
mend(struct world *w)
{
	for (uint32_t n = 0; n < w->nnodes; n++)
		w->node[n].side = 0;
	trace(w, "the network is whole");
}

static void
crash(struct world *w, uint32_t n, uint64_t most)
{
	node_kill(w, n, "kill -9");
	post(w, w->now + between(w, 50 * MS, most), EV_START, NONE)->a = n;
}

/* Neither the coordinator nor a device gets CPU time. The device misses less than the operation timeout. */
static void
starve(struct world *w, uint32_t d)
{
	if (w->behind_until < w->now) {
		w->behind_us = between(w, 100 * MS, 2500 * MS);
		w->behind_until = w->now + between(w, 500 * MS, 6000 * MS);
		trace(w, "the coordinator is %.1fs behind", (double)w->behind_us / 1e6);
	}
	if (w->dev[d].starved_until < w->now)
		w->dev[d].starved_until = w->now + between(w, 500 * MS, 2500 * MS);
}

static void
begin_faults(struct world *w)
{
	const struct profile *p = &w->faults;
	uint32_t some = node_of_device(roll(w, w->ndevices));

	if (chance(w, p->crash))
		crash(w, some, roll(w, 2) ? 1000 * MS : 8000 * MS);
	if (chance(w, p->freeze))
		freeze(w, node_of_device(roll(w, w->ndevices)),
		       between(w, 50 * MS, roll(w, 2) ? 1500 * MS : 8000 * MS));
	if (chance(w, p->split))
		split(w);
	if (chance(w, p->coord_freeze))
		freeze(w, 0, between(w, 50 * MS, 2500 * MS));
	if (chance(w, p->coord_crash))
		crash(w, 0, 2000 * MS);
	if (chance(w, p->starve))
		starve(w, some - 1);
	if (chance(w, p->client_dies))
		crash(w, 1 + w->ndevices + roll(w, w->nclients), 500 * MS);
	post(w, w->now + between(w, 20 * MS, 200 * MS), EV_FAULT, NONE);
}

static void
calm(struct world *w)
{
	w->calm = true;
	w->faults = (struct profile){.latency_us = 1000};
	trace(w, "calm");
	mend(w);
	for (uint32_t n = 0; n < w->nnodes; n++)
		node_start(w, n); /* a frozen node runs again when its time comes */
}

/* ---- events */

static void
digest_event(struct digest *d, const struct event *e)
{
	const uint64_t v[] = {e->at, e->kind, e->node, e->life, e->a, e->b, e->c, e->d};

	for (size_t i = 0; i < sizeof v / sizeof *v; i++)
		digest_add(d, v[i]);
}

static void
happen(struct world *w, const struct event *e)
{
	struct coord_event ev;
	char address[32];

	digest_event(&w->digest, e);
	switch (e->kind) {
	case EV_REQUEST:
		rpc_request_arrives(w, e);
		break;
	case EV_REPLY:
		rpc_reply_arrives(w, e);
		break;
	case EV_RETRY:
		rpc_retry(w, e);
		break;
	case EV_TICK:
		coordinator_tick(w);
		break;
	case EV_REGISTER:
		device_register(w, w->node[e->node].index);
		break;
	case EV_RUN:
	case EV_ABORTED:
	case EV_REFUSED:
	case EV_COLL:
	case EV_COLL_LATE:
		device_run_event(w, e);
		break;
	case EV_COLL_TRY:
		coll_try(w, e->a);
		break;
	case EV_CLIENT:
		client_step(w, w->node[e->node].index);
		break;
	case EV_FAULT:
		if (!w->calm)
			begin_faults(w);
		break;
	case EV_START:
		node_start(w, e->a);
		break;
	case EV_MEND:
		mend(w);
		break;
	case EV_UNREACHABLE:
		if (w->node[node_of_device((uint32_t)e->b)].alive)
			break;
		snprintf(address, sizeof address, "sim:%u", (unsigned)e->b);
		ev = (struct coord_event){
		    .kind = COORD_UNREACHABLE, .device_id = e->b + 1, .text = address};
		coordinator_event(w, &ev);
		break;
	case EV_ECHO:
		ev = (struct coord_event){.kind = COORD_ECHO};
		coordinator_event(w, &ev);
		break;
	case EV_LOOKED:
		ev = (struct coord_event){.kind = COORD_LOOKED, .device_id = e->b};
		if (w->dev[e->b - 1].starved_until > w->dev[e->b - 1].looked)
			ev.found = COORD_LOOK_STARVED;
		w->dev[e->b - 1].looked = w->now;
		coordinator_event(w, &ev);
		break;
	case EV_SPAWNED:
		ev = (struct coord_event){.kind = COORD_SPAWNED,
					  .device_id = e->b + 1,
					  .pid = (uint32_t)e->c,
					  .rc = e->c ? RC_OK : RC_FAILED,
					  .text = "it cannot be"};
		coordinator_event(w, &ev);
		break;
	case EV_EXITED:
		ev = (struct coord_event){
		    .kind = COORD_EXITED, .pid = (uint32_t)e->b, .status = (int)e->c};
		coordinator_event(w, &ev);
		break;
	case EV_GONE:
		ev = (struct coord_event){.kind = COORD_GONE, .client_id = e->b};
		coordinator_event(w, &ev);
		break;
	}
}

/* The same event, later. */
static void
post_again(struct world *w, const struct event *e, uint64_t at)
{
	struct event *later = post(w, at, e->kind, e->node);

	later->a = e->a;
	later->b = e->b;
	later->c = e->c;
	later->d = e->d;
	later->waited = e->waited;
	later->body = e->body;
	later->nbytes = e->nbytes;
}

/* The time until which it waits for CPU time, or 0. */
static uint64_t
starves_until(struct world *w, const struct event *e)
{
	uint64_t at = w->inbox_at;

	if (e->waited || e->node == NONE)
		return 0;
	if (e->kind == EV_REGISTER)
		return w->dev[w->node[e->node].index].starved_until;
	if (e->node != 0 || (e->kind != EV_TICK && e->kind != EV_REQUEST && e->kind != EV_REPLY &&
			     e->kind != EV_ECHO))
		return 0;
	if (w->behind_until > w->now && at < w->now + w->behind_us)
		at = w->now + w->behind_us;
	return w->inbox_at = at;
}

/* Handle the next event, or drop or delay it if its process has ended or is frozen. */
static void
go_on(struct world *w)
{
	struct event e = pop(w);
	uint64_t starved;

	w->events++;
	if (e.at > w->now)
		w->now = e.at;
	if (e.node != NONE && (!w->node[e.node].alive || w->node[e.node].life != e.life)) {
		free(e.body);
		return;
	}
	if (e.node != NONE && w->node[e.node].frozen_until > w->now) {
		post_again(w, &e, w->node[e.node].frozen_until);
		return;
	}
	starved = starves_until(w, &e);
	if (starved > w->now) {
		e.waited = true;
		post_again(w, &e, starved);
		return;
	}
	happen(w, &e);
	free(e.body);
}

static void
play_until(struct world *w, uint64_t until)
{
	while (!w->wrong[0] && w->nheap && w->heap[0].at <= until && w->events < MAX_EVENTS)
		go_on(w);
	if (w->events >= MAX_EVENTS)
		wrong(w, "the world does not come to rest: %u events", MAX_EVENTS);
	w->now = until > w->now ? until : w->now;
}

/* ---- the end */

/* Return true if no device has pending work. */
static void
check_devices(struct world *w)
{
	for (uint32_t d = 0; d < w->ndevices && !w->wrong[0]; d++) {
		struct buf text = {0};

		protocol_dump(w->dev[d].protocol, &text);
		if (text.data && strstr(text.data, "run "))
			wrong(w, "device %u has runs left: %s", d, text.data);
		if (w->dev[d].nruns)
			wrong(w, "device %u executes %u runs at the end", d, w->dev[d].nruns);
		buf_fini(&text);
	}
}

static bool
clients_done(const struct world *w)
{
	for (uint32_t k = 0; k < w->nclients; k++)
		if (w->client[k].call != NONE || w->client[k].ops)
			return false;
	return true;
}

static void
world_init(struct world *w, uint64_t seed, int verbose)
{
	*w = (struct world){.seed = seed, .rng = seed, .verbose = verbose, .digest = {seed}};
	roll64(w);
	w->ndevices = roll(w, 4) ? 2 + roll(w, 4) : 2 + roll(w, MAX_DEVICES - 1);
	w->nclients = 1 + roll(w, 3);
	w->queued = seed % 5 == 4;
	if (w->queued)
		w->nclients = w->ndevices < MAX_CLIENTS ? w->ndevices : MAX_CLIENTS;
	w->nnodes = 1 + w->ndevices + w->nclients;
	w->dev = alloc_zeroed(w->ndevices, sizeof *w->dev);
	w->client = alloc_zeroed(w->nclients, sizeof *w->client);
	if (!w->dev || !w->client)
		abort();
	for (uint32_t n = 0; n < w->nnodes; n++) {
		w->node[n].kind = n == 0	     ? NODE_COORD
				  : n <= w->ndevices ? NODE_DEVICE
						     : NODE_CLIENT;
		w->node[n].index = n == 0 ? 0 : n <= w->ndevices ? n - 1 : n - 1 - w->ndevices;
	}
	w->policy = roll(w, 4);
	for (uint32_t d = 1; d < w->ndevices; d++)
		w->dev[d].spare = w->ndevices > 2 && roll(w, 4) == 0;
	for (uint32_t k = 0; k < w->nclients; k++) {
		w->client[k].call = NONE;
		w->client[k].ops = 1;
	}
	make_faults(w);
	w->calm_at = between(w, 3000 * MS, 12000 * MS);
	if (roll(w, 8) == 0)
		make_starving(w);
}

bool
world_play(struct world *w, uint64_t seed, int verbose)
{
	world_init(w, seed, verbose);
	trace(w, "%u devices, %u clients", w->ndevices, w->nclients);
	for (uint32_t n = 0; n < w->nnodes; n++)
		post(w, n == 0 ? 0 : roll(w, 300) * MS, EV_START, NONE)->a = n;
	post(w, 1000 * MS, EV_FAULT, NONE);
	play_until(w, w->calm_at);
	if (w->wrong[0])
		return false;
	calm(w);
	for (int s = 0; s < 90 && !w->wrong[0] && !clients_done(w); s++)
		play_until(w, w->now + 1000 * MS);
	if (!w->wrong[0] && !clients_done(w))
		wrong(w, "a client is not done %.0f s after the last fault",
		      (double)(w->now - w->calm_at) / 1e6);
	if (!w->wrong[0])
		clients_last_check(w);
	for (int s = 0; s < 60 && !w->wrong[0] && !clients_done(w); s++)
		play_until(w, w->now + 1000 * MS);
	if (!w->wrong[0] && !clients_done(w))
		wrong(w, "the last check is not done after a minute");
	if (!w->wrong[0])
		play_until(w, w->now + 2 * OP_TIMEOUT_MS * MS);
	if (!w->wrong[0])
		check_devices(w);
	coordinator_check_history(w);
	return !w->wrong[0];
}

void
world_free(struct world *w)
{
	w->verbose = 0;
	for (uint32_t n = 0; n < w->nnodes; n++)
		node_kill(w, n, "the end");
	while (w->nheap)
		free(w->heap[--w->nheap].body);
	for (size_t i = 0; i < w->ncalls; i++)
		buf_fini(&w->call[i].body);
	for (size_t i = 0; i < w->nrecords; i++) {
		free(w->record[i].key);
		buf_fini(&w->record[i].value);
	}
	buf_fini(&w->told);
	coord_actions_fini(&w->actions);
	free(w->record);
	free(w->heap);
	free(w->call);
	free(w->served);
	free(w->coll);
	free(w->dev);
	free(w->client);
}
