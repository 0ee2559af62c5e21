/*
 * Design notes. The main thread runs one operation after the other (operate.c); a second thread injects
 * faults by the clock; the main thread injects faults by operations, before their operation. `lock` guards
 * the data of both threads: the members of the communicator and the counts.
 */
#include "chaos/chaos_impl.h"

#include <inttypes.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/must.h"

#define WARMUP_OPS 48		       /* before daemons are measured: they keep memory for later */
#define WARMUP_AT  (UINT64_C(1) << 40) /* their numbers, apart from the others */

/* ---- faults */

/* The victim: a device, or 0 for the coordinator. False: there is none now. */
static bool
find_victim(struct chaos *c, const struct chaos_fault *f, struct gpusim_device *device)
{
	bool found;

	device->id = 0;
	if (f->coordinator)
		return true;
	pthread_mutex_lock(&c->lock);
	found = c->live && gpusim_comm_count(c->comm) > 0;
	if (found)
		*device = gpusim_comm_device(c->comm, f->victim % gpusim_comm_count(c->comm));
	pthread_mutex_unlock(&c->lock);
	return found;
}

/* Inject fault number c->nfaults, which is *f. */
static void
inject(struct chaos *c, const struct chaos_fault *f)
{
	char text[GPUSIM_TEXT];
	const char *what = "";
	struct gpusim_device device;
	uint64_t *count = &c->sum->missed;

	/* If devices are not restarted, two must remain, also after faults that are armed. */
	if (f->f.kind == GPUSIM_FAULT_KILL &&
	    c->cfg->comm.on_failure != GPUSIM_ON_FAILURE_RESPAWN &&
	    c->sum->did[GPUSIM_FAULT_KILL] + 2 >= c->ndevices) {
		count = &c->sum->skipped;
		what = ": skipped, only two devices remain";
	} else if (find_victim(c, f, &device) &&
		   gpusim_inject(c->side, device, 0, &f->f, 1, NULL) == GPUSIM_OK) {
		count = &c->sum->did[f->f.kind];
	} else {
		what = ": missed, the victim does not answer";
	}
	chaos_show_fault(f, text, sizeof text);
	chaos_say(c, CHAOS_FAULT, "fault %" PRIu64 ": %s", c->nfaults, text);
	if (*what)
		chaos_say(c, CHAOS_DETAIL, "fault %" PRIu64 "%s", c->nfaults, what);
	pthread_mutex_lock(&c->lock);
	++*count;
	c->nfaults++;
	pthread_mutex_unlock(&c->lock);
}

/* The next fault; sets its time c->next_fault. */
static void
draw_next(struct chaos *c, double rate, struct chaos_fault *f)
{
	chaos_draw_fault(c->cfg->seed, c->nfaults, c->cfg->kinds, c->by_memory, f);
	c->next_fault += f->after / rate;
}

/* Inject the faults that come by the clock. */
static void *
inject_main(void *arg)
{
	struct chaos *c = arg;
	struct chaos_fault f;
	bool ending = false;

	while (!ending) {
		struct timespec ts;
		int timed = 0;

		draw_next(c, c->cfg->rate, &f);
		ts = deadline_timespec(c->start_ns + (uint64_t)(c->next_fault * 1e9));
		pthread_mutex_lock(&c->lock);
		while (!c->ending && timed == 0)
			timed = pthread_cond_clockwait(&c->ended, &c->lock, CLOCK_MONOTONIC, &ts);
		ending = c->ending;
		pthread_mutex_unlock(&c->lock);
		if (!ending)
			inject(c, &f);
	}
	return NULL;
}

/* ---- the whole */

/* Operations without faults. Wrong results count, the operations do not. */
static enum rc
warm_up(struct chaos *c, struct err *err)
{
	enum rc rc = chaos_settle(c, err);

	c->quiet = true;
	for (uint64_t i = 0; i < WARMUP_OPS && rc == RC_OK; i++) {
		chaos_operate(c, WARMUP_AT + i);
		rc = chaos_settle(c, err);
	}
	c->quiet = false;
	c->sum->ops = c->sum->good = c->sum->slowest_ns = 0;
	return rc;
}

static enum rc
run(struct chaos *c, struct err *err)
{
	bool by_clock = !c->cfg->rate_by_op && c->cfg->rate > 0;
	uint64_t most = c->cfg->for_ms * NS_PER_MS;
	pthread_t thread;
	enum rc rc = RC_OK;

	c->start_ns = clock_now_ns();
	if (by_clock && pthread_create(&thread, NULL, inject_main, c) != 0)
		return err_set(err, RC_FAILED, "no thread");
	for (uint64_t i = 0; rc == RC_OK && (c->cfg->nops ? c->sum->ops < c->cfg->nops
							  : clock_now_ns() - c->start_ns < most);
	     i++) {
		struct chaos_fault f;

		rc = chaos_settle(c, err);
		if (rc != RC_OK)
			break;
		while (c->cfg->rate_by_op && c->cfg->rate > 0 && c->next_fault < (double)i) {
			draw_next(c, c->cfg->rate, &f);
			inject(c, &f);
		}
		chaos_operate(c, i);
	}
	if (by_clock) {
		pthread_mutex_lock(&c->lock);
		c->ending = true;
		pthread_cond_signal(&c->ended);
		pthread_mutex_unlock(&c->lock);
		pthread_join(thread, NULL);
	}
	return rc;
}

/* ---- daemons, before and after */

/* Their descriptors, threads and memory, from /proc; all zero when it cannot be read. */
static void
chaos_usage(uint32_t pid, struct chaos_usage *out)
{
	unsigned long long kib;
	char path[64], line[256];
	unsigned fds = 0;
	DIR *d;
	FILE *f;

	*out = (struct chaos_usage){.pid = pid};
	snprintf(path, sizeof path, "/proc/%u/fd", pid);
	d = opendir(path);
	while (d && readdir(d))
		fds++;
	if (d)
		closedir(d);
	out->fds = fds > 2 ? fds - 2 : 0;
	snprintf(path, sizeof path, "/proc/%u/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f)) {
		if (sscanf(line, "RssAnon: %llu", &kib) == 1)
			out->kib = kib;
		sscanf(line, "Threads: %u", &out->threads);
	}
	if (f)
		fclose(f);
}

static enum rc
look_before(struct chaos *c, struct err *err)
{
	struct chaos_report *r = c->sum;
	struct gpusim_status s;
	enum rc rc = api(gpusim_status(c->side, &s), err);

	if (rc != RC_OK)
		return rc;
	r->daemons = must_alloc(s.ndevices + 1, sizeof *r->daemons);
	r->ndaemons = s.ndevices + 1;
	c->ndevices = (uint32_t)s.ndevices;
	chaos_usage(s.pid, &r->daemons[0].before);
	for (size_t i = 0; i < s.ndevices; i++) {
		r->daemons[i + 1].device = s.devices[i].device;
		if (!s.devices[i].lost)
			chaos_usage(s.devices[i].pid, &r->daemons[i + 1].before);
	}
	gpusim_status_fini(&s);
	return RC_OK;
}

static void
look_after(struct chaos *c)
{
	struct chaos_report *r = c->sum;
	struct gpusim_status s;

	if (gpusim_status(c->side, &s) != GPUSIM_OK)
		return;
	chaos_usage(s.pid, &r->daemons[0].after);
	for (size_t i = 1; i < r->ndaemons; i++)
		for (size_t k = 0; k < s.ndevices; k++)
			if (s.devices[k].device.id == r->daemons[i].device.id && !s.devices[k].lost)
				chaos_usage(s.devices[k].pid, &r->daemons[i].after);
	gpusim_status_fini(&s);
}

/* Disarm all faults, as far as possible. */
static void
clear_faults(struct chaos *c)
{
	struct gpusim_device_info *list;
	size_t n;

	gpusim_inject(c->side, (struct gpusim_device){0}, 1, NULL, 0, NULL);
	if (gpusim_devices(c->side, &list, &n) != GPUSIM_OK)
		return;
	for (size_t i = 0; i < n; i++)
		if (!list[i].lost)
			gpusim_inject(c->side, list[i].device, 1, NULL, 0, NULL);
	free(list);
}

static enum rc
check(const struct chaos_config *cfg, struct err *err)
{
	if (cfg->nranks < 2)
		return err_set(err, RC_FAILED, "needs at least 2 devices, not %" PRIu32,
			       cfg->nranks);
	if (cfg->nranks > CHAOS_MAX_RANKS)
		return err_set(err, RC_INVAL, "%" PRIu32 " ranks: must be at most %d", cfg->nranks,
			       CHAOS_MAX_RANKS);
	if (!cfg->kinds || cfg->kinds & ~CHAOS_ALL_KINDS)
		return err_set(err, RC_INVAL, "kinds of faults: 0x%x is not 1 to 0x%x", cfg->kinds,
			       CHAOS_ALL_KINDS);
	return RC_OK;
}

enum rc
chaos_run(const struct chaos_config *cfg, struct chaos_report *out, struct err *err)
{
	struct chaos c = {.cfg = cfg,
			  .g = cfg->g,
			  .side = cfg->side,
			  .bound_ns = cfg->bound_ms * NS_PER_MS,
			  .sum = out};
	enum rc rc = check(cfg, err);

	*out = (struct chaos_report){0};
	if (rc != RC_OK)
		return rc;
	pthread_mutex_init(&c.lock, NULL);
	pthread_cond_init(&c.ended, NULL);
	gpusim_set_timeout_ms(c.side, CHAOS_SIDE_MS);
	rc = api(gpusim_inject(c.side, (struct gpusim_device){0}, 1, NULL, 0, NULL),
		 err); /* RC_FAILED where daemons allow no faults */
	c.room = must_alloc(CHAOS_MAX_RANKS, CHAOS_BYTES);
	if (rc == RC_OK)
		rc = chaos_begin(&c, err);
	if (rc == RC_OK)
		rc = warm_up(&c, err);
	if (rc == RC_OK)
		rc = look_before(&c, err);
	if (rc == RC_OK) {
		rc = run(&c, err);
		clear_faults(&c);
		look_after(&c);
		chaos_drop(&c);
	}
	gpusim_comm_free(c.comm);
	free(c.room);
	return rc;
}

void
chaos_report_fini(struct chaos_report *r)
{
	free(r->daemons);
	*r = (struct chaos_report){0};
}
