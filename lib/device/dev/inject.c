#include "dev/inject.h"

#include "coll/fault.h"

void
inject_init(struct inject_table *t)
{
	*t = (struct inject_table){0};
	pthread_mutex_init(&t->lock, NULL);
}

void
inject_fini(struct inject_table *t)
{
	pthread_mutex_destroy(&t->lock);
}

/* Lock held. The others keep their order. */
static void
take_out(struct inject_table *t, unsigned i)
{
	unsigned n = t->n - 1;

	for (; i < n; i++)
		t->armed[i] = t->armed[i + 1];
	t->n = n;
}

static uint64_t
end_of(const struct gpusim_fault *f, uint64_t now_ns)
{
	return f->for_ns ? now_ns + f->for_ns : UINT64_MAX;
}

enum rc
inject_arm(struct inject_table *t, const struct gpusim_fault *f, uint64_t now_ns, struct err *err)
{
	enum rc rc = RC_OK;

	pthread_mutex_lock(&t->lock);
	if (t->n == GPUSIM_FAULTS_MAX) {
		rc = err_set(err, RC_BUSY, "%d faults are armed, which is the limit",
			     GPUSIM_FAULTS_MAX);
	} else {
		struct inject_armed *a = &t->armed[t->n];

		*a = (struct inject_armed){.f = *f, .until_ns = UINT64_MAX};
		if (!f->at) {
			a->live = true;
			a->until_ns = end_of(f, now_ns);
			t->fired++;
		}
		t->n++;
	}
	pthread_mutex_unlock(&t->lock);
	return rc;
}

void
inject_clear(struct inject_table *t)
{
	pthread_mutex_lock(&t->lock);
	t->n = 0;
	pthread_mutex_unlock(&t->lock);
}

void
inject_fired(struct inject_table *t, uint64_t n)
{
	pthread_mutex_lock(&t->lock);
	t->fired += n;
	pthread_mutex_unlock(&t->lock);
}

/* The point matches the fault. */
static bool
is_met(const struct gpusim_fault *f, const struct inject_point *at)
{
	return f->at && (!f->comm.id || f->comm.id == at->comm) &&
	       (f->coll < 0 || f->coll == (int)at->coll) && (f->next || f->seq == at->op) &&
	       (f->step ? f->step == at->step : at->step != FAULT_AT_END);
}

bool
inject_due(struct inject_table *t, const struct inject_point *at, struct gpusim_fault *out)
{
	bool found = false;

	pthread_mutex_lock(&t->lock);
	for (unsigned i = 0; i < t->n && !found; i++) {
		const struct gpusim_fault *f = &t->armed[i].f;

		if (f->kind == GPUSIM_FAULT_SLOW || !is_met(f, at))
			continue;
		*out = *f;
		take_out(t, i);
		found = true;
	}
	pthread_mutex_unlock(&t->lock);
	return found;
}

uint64_t
inject_slow_ns(struct inject_table *t, const struct inject_point *at, uint64_t now_ns)
{
	uint64_t ns = 0;

	pthread_mutex_lock(&t->lock);
	for (unsigned i = 0; i < t->n; i++) {
		struct inject_armed *a = &t->armed[i];

		if (a->f.kind != GPUSIM_FAULT_SLOW || (a->f.comm.id && a->f.comm.id != at->comm))
			continue;
		if (!a->live && is_met(&a->f, at)) {
			a->live = true;
			a->until_ns = end_of(&a->f, now_ns);
			a->f.comm.id = at->comm;
			a->f.seq = at->op;
			a->f.next = 0;
			t->fired++;
		}
		if (!a->live)
			continue;
		/* It has ended before this step; or it is bound to its operation, and this is a later one. */
		if (now_ns >= a->until_ns ||
		    (a->f.at && !a->f.for_ns && !a->f.count && at->op != a->f.seq)) {
			take_out(t, i--);
			continue;
		}
		ns += a->f.by_ns;
		if (a->f.count && --a->f.count == 0)
			take_out(t, i--);
	}
	pthread_mutex_unlock(&t->lock);
	return ns;
}

size_t
inject_list(struct inject_table *t, uint64_t now_ns, struct gpusim_fault *out, size_t max,
	    uint64_t *fired)
{
	size_t n = 0;

	pthread_mutex_lock(&t->lock);
	for (unsigned i = 0; i < t->n && n < max; i++)
		if (!t->armed[i].live || now_ns < t->armed[i].until_ns)
			out[n++] = t->armed[i].f;
	*fired = t->fired;
	pthread_mutex_unlock(&t->lock);
	return n;
}
