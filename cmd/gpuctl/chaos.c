/*
 * gpuctl chaos - random collectives under random faults, each result checked.
 *
 * Design notes. The main thread runs one operation after the other (chaos_operate.c); faults that come
 * by the clock are injected by a thread of their own, those that come by operations before their
 * operation. What is drawn depends on the seed and a number alone, so the schedule is the same each
 * time; what the faults meet is not. `lock` guards what both threads look at: who is in the
 * communicator, and the counts.
 */
#include "chaos.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "coll/fault.h"

#define DEFAULT_MS	60000
#define DEFAULT_BOUND	60000 /* ms */
#define OP_TIMEOUT_MS	4000
#define SIDE_TIMEOUT_MS 3000
#define RATE_SECOND	0.5
#define RATE_OP		0.1
#define WARMUP_OPS	48 /* before daemons are looked at: they keep memory for later */
#define WARMUP_AT	(UINT64_C(1) << 40) /* their numbers, apart from the others */

/* ---- faults */

/* Whose it is: a device, or 0 for the coordinator. False: nobody's now. */
static bool
find_victim(struct chaos *c, const struct chaos_fault *f, uint64_t *device)
{
	bool found;

	*device = 0;
	if (f->coordinator)
		return true;
	pthread_mutex_lock(&c->lock);
	found = c->live && c->comm.nranks > 0;
	if (found)
		*device = c->comm.device[f->victim % c->comm.nranks].id;
	pthread_mutex_unlock(&c->lock);
	return found;
}

/* Two devices must be left, where nobody starts them again; also of those that a fault waits for. */
static bool
is_too_many(const struct chaos *c, const struct chaos_fault *f)
{
	return f->f.kind == GPUSIM_FAULT_KILL &&
	       c->config.on_failure != GPUSIM_ON_FAILURE_RESPAWN &&
	       c->did[GPUSIM_FAULT_KILL] + 2 >= c->ndevices;
}

/* Inject fault number c->nfaults, which is *f. */
static void
inject(struct chaos *c, const struct chaos_fault *f)
{
	char text[GPUSIM_TEXT];
	const char *what = "";
	uint64_t device, *count = &c->missed;

	if (is_too_many(c, f)) {
		count = &c->skipped;
		what = ": skipped, two devices are left";
	} else if (find_victim(c, f, &device) &&
		   gpusim_inject(c->side, device, 0, &f->f, 1, NULL) == GPUSIM_OK) {
		count = &c->did[f->f.kind];
	} else {
		what = ": missed, the victim does not answer";
	}
	chaos_show_fault(f, text, sizeof text);
	pthread_mutex_lock(&c->lock);
	if (c->a->verbose)
		fprintf(chaos_aside(c), "fault %" PRIu64 ": %s\n", c->nfaults, text);
	if (c->a->verbose > 1 && *what)
		fprintf(stderr, "fault %" PRIu64 "%s\n", c->nfaults, what);
	++*count;
	c->nfaults++;
	pthread_mutex_unlock(&c->lock);
}

/* The next fault, and when: c->next_fault is set. */
static void
draw_next(struct chaos *c, double rate, struct chaos_fault *f)
{
	chaos_draw_fault(c->a->seed, c->nfaults, c->kinds, c->by_memory, f);
	c->next_fault += f->after / rate;
}

/* Those that come by the clock. */
static void *
inject_main(void *arg)
{
	struct chaos *c = arg;
	struct chaos_fault f;
	bool ending = false;

	while (!ending) {
		struct timespec ts;
		int timed = 0;

		draw_next(c, c->a->rate, &f);
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

/* Those that come before operation i. */
static void
inject_by_ops(struct chaos *c, uint64_t i)
{
	struct chaos_fault f;

	if (!c->a->rate_by_op || c->a->rate <= 0)
		return;
	while (c->next_fault < (double)i) {
		draw_next(c, c->a->rate, &f);
		inject(c, &f);
	}
}

/* ---- the whole */

static bool
is_over(const struct chaos *c)
{
	if (c->a->ops)
		return c->ops >= c->a->ops;
	return clock_now_ns() - c->start_ns >= c->a->for_ms * NS_PER_MS;
}

/* Operations that nothing happens to; a wrong result counts, the others do not. */
static enum rc
warm_up(struct chaos *c, struct err *err)
{
	unsigned verbose = c->a->verbose;
	enum rc rc = chaos_settle(c, err);

	c->a->verbose = 0;
	for (uint64_t i = 0; i < WARMUP_OPS && rc == RC_OK; i++) {
		chaos_operate(c, WARMUP_AT + i);
		rc = chaos_settle(c, err);
	}
	c->a->verbose = verbose;
	c->ops = c->good = c->slowest_ns = 0;
	return rc;
}

static enum rc
run(struct chaos *c, struct err *err)
{
	bool by_clock = !c->a->rate_by_op && c->a->rate > 0;
	pthread_t thread;
	enum rc rc = RC_OK;

	c->start_ns = clock_now_ns();
	if (by_clock && pthread_create(&thread, NULL, inject_main, c) != 0)
		return err_set(err, RC_FAILED, "no thread");
	for (uint64_t i = 0; rc == RC_OK && !is_over(c); i++) {
		rc = chaos_settle(c, err);
		if (rc == RC_OK) {
			inject_by_ops(c, i);
			chaos_operate(c, i);
		}
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

/* Coordinator and devices, as they are now. */
struct daemons {
	struct chaos_usage *v;
	size_t n;
};

static enum rc
look(struct chaos *c, struct daemons *out, struct err *err)
{
	struct gpusim_status s;
	enum rc rc = api(gpusim_status(c->side, &s), err);

	if (rc != RC_OK)
		return rc;
	out->v = alloc_zeroed(s.ndevices + 1, sizeof *out->v);
	if (out->v) {
		out->n = s.ndevices + 1;
		chaos_usage(s.pid, out->v);
		for (size_t i = 0; i < s.ndevices; i++) {
			if (!s.devices[i].lost)
				chaos_usage(s.devices[i].pid, &out->v[i + 1]);
			out->v[i + 1].device = s.devices[i].id;
		}
	}
	gpusim_status_fini(&s);
	return out->v ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
}

/* What a daemon of before is now; all zero when it is no more. */
static struct chaos_usage
find_daemon(const struct daemons *d, uint64_t device)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->v[i].device == device)
			return d->v[i];
	return (struct chaos_usage){0};
}

static void
print_usage(const struct daemons *before, const struct daemons *now)
{
	printf("%-16s %8s %13s %13s %17s\n", "daemon", "pid", "descriptors", "threads",
	       "memory (KiB)");
	for (size_t i = 0; i < before->n; i++) {
		const struct chaos_usage *b = &before->v[i];
		struct chaos_usage u = find_daemon(now, b->device);
		char name[24] = "coordinator";

		if (b->device)
			snprintf(name, sizeof name, "%016" PRIx64, b->device);
		printf("%-16s %8u %6u %6u %6u %6u %8" PRIu64 " %8" PRIu64 "%s\n", name, b->pid,
		       b->fds, u.fds, b->threads, u.threads, b->kib, u.kib,
		       u.pid == 0	 ? "  gone"
		       : b->pid != u.pid ? "  started again"
					 : "");
	}
}

static void
print_text(const struct chaos *c)
{
	printf("seed %" PRIu64 ", on failure %s: %" PRIu64 " operations, %" PRIu64
	       " right, %" PRIu64 " failed; %" PRIu64 " wrong, %" PRIu64 " stuck\n",
	       c->a->seed, gpusim_on_failure_name((int)c->config.on_failure), c->ops, c->good,
	       c->failed, c->wrong, c->stuck);
	printf("faults:");
	for (int k = 0; k < GPUSIM_NFAULTS; k++)
		printf(" %s %" PRIu64 ",", fault_name((enum gpusim_fault_kind)k), c->did[k]);
	printf(" missed %" PRIu64 ", skipped %" PRIu64 "\n", c->missed, c->skipped);
	printf("recoveries: %" PRIu64 "; communicators: %" PRIu64
	       "; slowest operation: %.3fs of at most %.0fs\n",
	       c->recovered, c->comms, (double)c->slowest_ns / 1e9, (double)c->bound_ns / 1e9);
}

static void
print_json(const struct chaos *c, const struct daemons *before, const struct daemons *now)
{
	printf("{\"seed\":%" PRIu64 ",\"on_failure\":\"%s\",\"operations\":%" PRIu64
	       ",\"right\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"wrong\":%" PRIu64
	       ",\"stuck\":%" PRIu64 ",\"faults\":{",
	       c->a->seed, gpusim_on_failure_name((int)c->config.on_failure), c->ops, c->good,
	       c->failed, c->wrong, c->stuck);
	for (int k = 0; k < GPUSIM_NFAULTS; k++)
		printf("%s\"%s\":%" PRIu64, k ? "," : "", fault_name((enum gpusim_fault_kind)k),
		       c->did[k]);
	printf("},\"missed\":%" PRIu64 ",\"skipped\":%" PRIu64 ",\"recoveries\":%" PRIu64
	       ",\"communicators\":%" PRIu64 ",\"slowest_ms\":%" PRIu64 ",\"daemons\":[",
	       c->missed, c->skipped, c->recovered, c->comms,
	       (uint64_t)(c->slowest_ns / NS_PER_MS));
	for (size_t i = 0; i < before->n; i++) {
		const struct chaos_usage *b = &before->v[i];
		struct chaos_usage u = find_daemon(now, b->device);

		printf("%s{\"device\":\"%016" PRIx64
		       "\",\"pid\":[%u,%u],\"fds\":[%u,%u],\"threads\":[%u,%u],\"kib\":[%" PRIu64
		       ",%" PRIu64 "]}",
		       i ? "," : "", b->device, b->pid, u.pid, b->fds, u.fds, b->threads, u.threads,
		       b->kib, u.kib);
	}
	printf("]}\n");
}

/* Forget what is armed, wherever that can be done. */
static void
clear_faults(struct chaos *c)
{
	struct gpusim_device_info *list;
	size_t n;

	gpusim_inject(c->side, 0, 1, NULL, 0, NULL);
	if (gpusim_devices(c->side, &list, &n) != GPUSIM_OK)
		return;
	for (size_t i = 0; i < n; i++)
		if (!list[i].lost)
			gpusim_inject(c->side, list[i].id, 1, NULL, 0, NULL);
	free(list);
}

static enum rc
parse_kinds(struct chaos *c, struct err *err)
{
	char word[16];
	const char *at = c->a->kinds;
	struct gpusim_fault f;

	c->kinds = at ? 0 : (1u << GPUSIM_NFAULTS) - 1;
	while (at && *at) {
		size_t n = strcspn(at, ",");

		snprintf(word, sizeof word, "%.*s", n < sizeof word ? (int)n : 0, at);
		if (!fault_kind_parse(word, &f))
			return err_set(
			    err, RC_INVAL,
			    "--kinds: '%.32s' is none of kill stop slow drop corrupt cut", at);
		c->kinds |= 1u << f.kind;
		at += n + (at[n] == ',');
	}
	return c->kinds ? RC_OK : err_set(err, RC_INVAL, "--kinds: none is named");
}

/* What was not said, and whether the daemons play along. */
static enum rc
prepare(struct chaos *c, struct args *a, struct err *err)
{
	enum rc rc = parse_kinds(c, err);

	if (rc == RC_OK && args_has(a, OPT(FOR)) && args_has(a, OPT(OPS)))
		rc = err_set(err, RC_INVAL, "--for and --ops both say when it is over");
	if (rc == RC_OK && a->nranks > CHAOS_MAX_RANKS)
		rc = err_set(err, RC_INVAL, "-n: %u is more than %d", a->nranks, CHAOS_MAX_RANKS);
	if (rc == RC_OK && args_has(a, OPT(RANKS)) && a->nranks < 2)
		rc = err_set(err, RC_INVAL, "-n: at least two");
	if (!args_has(a, OPT(FOR)))
		a->for_ms = DEFAULT_MS;
	if (!args_has(a, OPT(RATE))) {
		a->rate_by_op = args_has(a, OPT(OPS));
		a->rate = a->rate_by_op ? RATE_OP : RATE_SECOND;
	}
	if (!args_has(a, OPT(OP_TIMEOUT)))
		a->op_timeout_ms = OP_TIMEOUT_MS;
	if (!c->cli->timeout_ms)
		c->cli->timeout_ms = DEFAULT_BOUND;
	c->bound_ns = c->cli->timeout_ms * NS_PER_MS;
	if (rc == RC_OK)
		rc = cli_config(a, GPUSIM_LEASE, &c->config, err);
	if (rc == RC_OK)
		rc = cli_open(c->cli, err);
	if (rc == RC_OK)
		rc = api(gpusim_open(c->cli->coordinator, &c->side), err);
	if (rc != RC_OK)
		return rc;
	gpusim_set_timeout_ms(c->side, SIDE_TIMEOUT_MS);
	rc = api(gpusim_inject(c->side, 0, 1, NULL, 0, NULL), err);
	if (rc == RC_OK)
		rc = cli_nranks_or_all(c->cli, a, &c->want, err);
	if (rc == RC_OK && c->want > CHAOS_MAX_RANKS)
		c->want = CHAOS_MAX_RANKS;
	if (rc == RC_OK && c->want < 2)
		rc = err_set(err, RC_FAILED, "it takes at least 2 devices, not %u", c->want);
	c->room = rc == RC_OK ? malloc((size_t)CHAOS_MAX_RANKS * CHAOS_BYTES) : NULL;
	if (rc == RC_OK && !c->room)
		rc = err_set(err, RC_NOMEM, "out of memory");
	return rc;
}

enum rc
run_chaos(struct cli *cli, const struct args *given, struct err *err)
{
	struct args a = *given;
	struct chaos c = {.cli = cli, .a = &a};
	struct daemons before = {0}, now = {0};
	enum rc rc;

	pthread_mutex_init(&c.lock, NULL);
	pthread_cond_init(&c.ended, NULL);
	rc = prepare(&c, &a, err);
	if (rc == RC_OK)
		rc = chaos_begin(&c, err);
	if (rc == RC_OK)
		rc = warm_up(&c, err);
	if (rc == RC_OK)
		rc = look(&c, &before, err);
	c.ndevices = (uint32_t)(before.n ? before.n - 1 : 0);
	if (rc == RC_OK) {
		rc = run(&c, err);
		clear_faults(&c);
		(void)look(&c, &now, NULL);
		if (args_has(&a, OPT(JSON))) {
			print_json(&c, &before, &now);
		} else {
			print_text(&c);
			print_usage(&before, &now);
		}
		chaos_drop(&c);
	}
	if (rc == RC_OK && (c.wrong || c.stuck))
		rc = err_set(err, RC_FAILED,
			     "%" PRIu64 " wrong results, %" PRIu64 " stuck operations", c.wrong,
			     c.stuck);
	gpusim_comm_fini(&c.comm);
	gpusim_close(c.side);
	free(before.v);
	free(now.v);
	free(c.room);
	return rc;
}
