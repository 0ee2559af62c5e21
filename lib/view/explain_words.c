#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "coll/plan.h"
#include "mem/dtype.h"
#include "mem/redop.h"
#include "view/explain_impl.h"
#include "view/world.h"
#include "wire/frame.h"

void
say(struct words *t, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (n < 0 || !buf_add(t->out, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1))
		t->full = true;
}

void
say_time(struct words *t, uint64_t ns)
{
	if (ns < NS_PER_SEC)
		say(t, "%" PRIu64 " ms", (uint64_t)(ns / NS_PER_MS));
	else if (ns < 600 * NS_PER_SEC)
		say(t, "%.1f s", (double)ns / 1e9);
	else
		say(t, "%" PRIu64 " min", (uint64_t)(ns / (60 * NS_PER_SEC)));
}

void
say_when(struct words *t, uint64_t wall_ns)
{
	time_t at = (time_t)(wall_ns / NS_PER_SEC);
	struct tm tm;
	char text[32];

	if (!localtime_r(&at, &tm) || !strftime(text, sizeof text, "%H:%M:%S", &tm))
		snprintf(text, sizeof text, "?");
	say(t, "%s.%03u", text, (unsigned)(wall_ns % NS_PER_SEC / NS_PER_MS));
}

void
say_bytes(struct words *t, uint64_t nbytes)
{
	static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	unsigned i = 0;
	double v = (double)nbytes;

	while (v >= 1024 && i < 4) {
		v /= 1024;
		i++;
	}
	if (v == (double)(uint64_t)v)
		say(t, "%" PRIu64 " %s", (uint64_t)v, unit[i]);
	else
		say(t, "%.1f %s", v, unit[i]);
}

/* "of 8 MiB of f32, sum"-like details of an operation. */
static void
say_data(struct words *t, unsigned coll, unsigned dtype, unsigned redop, uint64_t nelem)
{
	if (coll == GPUSIM_BARRIER || dtype >= GPUSIM_NDTYPES)
		return;
	if (nelem > UINT64_MAX / 8) {
		say(t, "%" PRIu64 " x %s", nelem, dtype_name((enum gpusim_dtype)dtype));
	} else {
		say_bytes(t, nelem * dtype_size((enum gpusim_dtype)dtype));
		say(t, " of %s", dtype_name((enum gpusim_dtype)dtype));
	}
	if (coll_reduces((enum gpusim_coll)coll))
		say(t, ", %s", redop_name((enum gpusim_redop)redop));
}

void
say_op(struct words *t, const struct flight_op *op, bool known)
{
	say(t, "%s #%" PRIu64,
	    known && op->coll < GPUSIM_NCOLLS ? coll_name((enum gpusim_coll)op->coll) : "operation",
	    frame_op_shown(op->seq));
}

void
say_shape(struct words *t, const struct flight_op *op, uint32_t nranks)
{
	const struct plan_algo *algo = world_algo(op);
	enum gpusim_coll coll = (enum gpusim_coll)op->coll;

	if (coll_is_sendrecv(coll))
		say(t, "%s rank %" PRIu32, op->coll == GPUSIM_SEND ? "to" : "from", op->root);
	else
		say(t, "%s%s%" PRIu32 " ranks", algo ? algo->name : "", algo ? ", " : "", nranks);
	if (op->coll != GPUSIM_BARRIER)
		say(t, ", ");
	say_data(t, op->coll, op->dtype, op->redop, op->count);
	if (coll_has_root(coll))
		say(t, ", root %" PRIu32, op->root);
}

void
say_work(struct words *t, const GpuSim__Work *m)
{
	if (!m->known) {
		say(t, "%" PRIu64 " operation%s", m->nops, m->nops == 1 ? "" : "s");
		return;
	}
	say(t, "%s",
	    (unsigned)m->coll < GPUSIM_NCOLLS ? coll_name((enum gpusim_coll)m->coll) : "?");
	if ((unsigned)m->coll == GPUSIM_BARRIER)
		return;
	say(t, " of ");
	say_data(t, (unsigned)m->coll, (unsigned)m->dtype, (unsigned)m->redop, m->nelem);
	if (coll_has_root((enum gpusim_coll)m->coll))
		say(t, ", root %" PRIu32, m->root);
}

uint32_t
count_ranks(const struct scene *s, pick_rank *pick, uint32_t arg)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < s->n; r++)
		n += pick(s, r, arg);
	return n;
}

uint32_t
say_ranks(struct words *t, const struct scene *s, pick_rank *pick, uint32_t arg)
{
	uint32_t total = count_ranks(s, pick, arg), n = 0, spans = 0;

	say(t, "rank%s ", total == 1 ? "" : "s");
	for (uint32_t r = 0, end; r < s->n; r = end) {
		const char *join;

		end = r + 1;
		if (!pick(s, r, arg))
			continue;
		while (end < s->n && pick(s, end, arg))
			end++;
		if (end - r == 2)
			end--; /* "0 and 1", not "0-1" */
		n += end - r;
		join = spans == 0 ? "" : n == total ? " and " : ", ";
		if (spans++ == 16) {
			say(t, " ...");
			break;
		}
		say(t, "%s%" PRIu32, join, r);
		if (end - r > 1)
			say(t, "-%" PRIu32, end - 1);
	}
	return total;
}

void
say_device(struct words *t, const struct world_device *d)
{
	if (!d || !d->meta->deviceid)
		say(t, "device not listed");
	else
		say(t, "device %016" PRIx64 ", pid %" PRIu32, d->meta->deviceid->value,
		    d->meta->pid);
}
