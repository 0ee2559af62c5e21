/*
 * Arrows. An end is kept in a table until the other one is added, so each arrow is written whole, or
 * not at all. The table is a ring: a new end replaces the oldest.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "view/timeline_impl.h"

_Static_assert((TIMELINE_FLOWS & (TIMELINE_FLOWS - 1)) == 0, "a mask");

enum rc
flows_init(struct flows *f, struct err *err)
{
	f->end = alloc_zeroed(TIMELINE_FLOWS, sizeof *f->end);
	f->bucket = alloc_zeroed(TIMELINE_FLOWS, sizeof *f->bucket);
	return f->end && f->bucket ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
}

void
flows_fini(struct flows *f)
{
	free(f->end);
	free(f->bucket);
}

static uint64_t
mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 29;
}

static uint32_t *
bucket(struct flows *f, const struct flow_key *k)
{
	uint64_t h = mix(mix(k->comm, k->seq), (uint64_t)k->epoch << 32 | k->n);

	h = mix(h, (uint64_t)k->src << 32 | k->dst);
	return &f->bucket[h & (TIMELINE_FLOWS - 1)];
}

static bool
same(const struct flow_key *a, const struct flow_key *b)
{
	return a->comm == b->comm && a->seq == b->seq && a->epoch == b->epoch && a->src == b->src &&
	       a->dst == b->dst && a->n == b->n;
}

static void
unlink_end(struct flows *f, struct flow_end *e)
{
	uint32_t *at = bucket(f, &e->key), place = (uint32_t)(e - f->end) + 1;

	while (*at && *at != place)
		at = &f->end[*at - 1].next;
	if (*at)
		*at = e->next;
	e->used = false;
}

static struct flow_end *
find_other(struct flows *f, const struct flow_end *e)
{
	for (uint32_t i = *bucket(f, &e->key); i; i = f->end[i - 1].next)
		if (f->end[i - 1].receives != e->receives && same(&f->end[i - 1].key, &e->key))
			return &f->end[i - 1];
	return NULL;
}

static void
write_end(struct timeline *t, const struct flow_end *e)
{
	trace_begin(&t->out, e->receives ? 'f' : 's', e->pid, e->tid);
	trace_us(&t->out, "ts", e->at_ns);
	trace_number(&t->out, "id", t->flows.id);
	trace_text(&t->out, "name", "chunk");
	trace_text(&t->out, "cat", "flow");
	if (e->receives)
		trace_text(&t->out, "bp", "e");
	trace_end(&t->out);
}

void
flow_add(struct timeline *t, const struct flow_end *end)
{
	struct flows *f = &t->flows;
	struct flow_end *other = find_other(f, end), *e;
	uint32_t *head;

	if (other) {
		f->id++;
		write_end(t, end->receives ? other : end);
		write_end(t, end->receives ? end : other);
		unlink_end(f, other);
		return;
	}
	e = &f->end[f->at];
	if (e->used) {
		unlink_end(f, e);
		f->given_up++;
	}
	*e = *end;
	e->used = true;
	head = bucket(f, &e->key);
	e->next = *head;
	*head = f->at + 1;
	f->at = (f->at + 1) % TIMELINE_FLOWS;
}
