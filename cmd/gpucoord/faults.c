#include "shell_impl.h"

#include "base/clock.h"
#include "base/freeze.h"
#include "base/log.h"
#include "coll/fault.h"
#include "wire/wire.h"

static enum rc
check(const struct gpusim_fault *f, struct err *err)
{
	if (f->at)
		return err_set(err, RC_INVAL, "takes part in no collective; use at=now");
	if (f->kind != GPUSIM_FAULT_KILL && f->kind != GPUSIM_FAULT_STOP &&
	    f->kind != GPUSIM_FAULT_SLOW)
		return err_set(err, RC_INVAL, "has no peers; must be kill, stop or slow");
	return fault_check(f, err);
}

/* The lock is held. */
static enum rc
add(struct faults *t, const struct gpusim_fault *f, struct err *err)
{
	enum rc rc = check(f, err);

	if (rc != RC_OK)
		return rc;
	if (f->kind == GPUSIM_FAULT_SLOW) {
		t->how = *f;
		t->until_ns = f->for_ns ? clock_now_ns() + f->for_ns : UINT64_MAX;
		t->fired++;
		atomic_store(&t->slow, true);
		return RC_OK;
	}
	if (t->nsoon == FAULTS_SOON)
		return err_set(err, RC_BUSY, "%d such faults are pending already", FAULTS_SOON);
	t->soon[t->nsoon++] = *f;
	return RC_OK;
}

static enum rc
add_all(struct faults *t, const GpuSim__InjectRequest *m, struct err *err)
{
	enum rc rc = RC_OK;

	pthread_mutex_lock(&t->lock);
	if (m->clear)
		atomic_store(&t->slow, false);
	for (size_t i = 0; i < m->n_faults && rc == RC_OK; i++) {
		struct gpusim_fault f;

		fault_from_wire(m->faults[i], &f);
		rc = add(t, &f, err);
	}
	pthread_mutex_unlock(&t->lock);
	return rc;
}

static void
answer(struct faults *t, struct rpc_call *call)
{
	GpuSim__InjectResponse r = GPU_SIM__INJECT_RESPONSE__INIT;
	GpuSim__Reply reply = WIRE_REPLY(INJECT, inject, r);
	char text[GPUSIM_TEXT], *line = text;

	pthread_mutex_lock(&t->lock);
	r.n_armed = atomic_load(&t->slow) && clock_now_ns() < t->until_ns;
	r.fired = t->fired;
	fault_show(&t->how, text, sizeof text);
	pthread_mutex_unlock(&t->lock);
	r.armed = &line;
	rpc_reply(call, &reply);
}

void
faults_call(struct faults *t, struct rpc_call *call)
{
	struct err err = {0};
	enum rc rc;

	if (!atomic_load(&t->allowed))
		rc = err_set(&err, RC_INVAL,
			     "does not accept faults: it was started without --allow-inject");
	else
		rc = add_all(t, rpc_request(call)->inject, &err);
	if (rc == RC_OK) {
		answer(t, call);
		return;
	}
	err_prefix(&err, "the coordinator");
	rpc_reply_err(call, &err);
}

void
faults_delay(struct faults *t)
{
	uint64_t ns = 0;

	if (!atomic_load_explicit(&t->slow, memory_order_relaxed))
		return;
	pthread_mutex_lock(&t->lock);
	if (clock_now_ns() < t->until_ns) {
		ns = t->how.by_ns;
		if (t->how.count && --t->how.count == 0)
			atomic_store(&t->slow, false);
	} else {
		atomic_store(&t->slow, false);
	}
	pthread_mutex_unlock(&t->lock);
	clock_sleep(ns);
}

void
faults_tick(struct faults *t)
{
	struct gpusim_fault f = {0};
	bool any;

	pthread_mutex_lock(&t->lock);
	any = t->nsoon > 0;
	if (any) {
		f = t->soon[0];
		for (unsigned k = 1; k < t->nsoon; k++)
			t->soon[k - 1] = t->soon[k];
		t->nsoon--;
		t->fired++;
	}
	pthread_mutex_unlock(&t->lock);
	if (!any)
		return;
	log_say(LOG_WARN, LOG_RAS, "inject: %s now", fault_name(f.kind));
	if (f.kind == GPUSIM_FAULT_KILL)
		freeze_kill();
	freeze_stop(f.for_ns);
}
