#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/must.h"
#include "coll/plan.h"
#include "mem/dtype.h"
#include "mem/redop.h"
#include "view/explain_impl.h"
#include "view/world.h"
#include "wire/frame.h"

void
say(struct words *t, const char *fmt, ...)
{
	char text[2 * PART_MAX];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (n > 0)
		must_add(t->out, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

const char *
part(struct words *t, const char *fmt, ...)
{
	char *out = t->part[t->parts++ % PARTS];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(out, PART_MAX, fmt, ap);
	va_end(ap);
	return out;
}

const char *
part_time(struct words *t, uint64_t ns)
{
	if (ns < NS_PER_SEC)
		return part(t, "%" PRIu64 " ms", (uint64_t)(ns / NS_PER_MS));
	if (ns < 600 * NS_PER_SEC)
		return part(t, "%.1f s", (double)ns / 1e9);
	return part(t, "%" PRIu64 " min", (uint64_t)(ns / (60 * NS_PER_SEC)));
}

const char *
part_when(struct words *t, uint64_t wall_ns)
{
	time_t at = (time_t)(wall_ns / NS_PER_SEC);
	struct tm tm;
	char text[32];

	if (!localtime_r(&at, &tm) || !strftime(text, sizeof text, "%H:%M:%S", &tm))
		snprintf(text, sizeof text, "?");
	return part(t, "%s.%03u", text, (unsigned)(wall_ns % NS_PER_SEC / NS_PER_MS));
}

const char *
part_bytes(struct words *t, uint64_t nbytes)
{
	static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	unsigned i = 0;
	double v = (double)nbytes;

	while (v >= 1024 && i < 4) {
		v /= 1024;
		i++;
	}
	return part(t, v == (double)(uint64_t)v ? "%.0f %s" : "%.1f %s", v, unit[i]);
}

/* "8 MiB of f32, sum" */
static const char *
part_data(struct words *t, unsigned coll, unsigned dtype, unsigned redop, uint64_t nelem)
{
	const char *type, *op = "";

	if (coll == GPUSIM_BARRIER || dtype >= GPUSIM_NDTYPES)
		return "";
	type = dtype_name((enum gpusim_dtype)dtype);
	if (coll_reduces((enum gpusim_coll)coll))
		op = part(t, ", %s", redop_name((enum gpusim_redop)redop));
	if (nelem > UINT64_MAX / 8)
		return part(t, "%" PRIu64 " x %s%s", nelem, type, op);
	return part(t, "%s of %s%s", part_bytes(t, nelem * dtype_size((enum gpusim_dtype)dtype)),
		    type, op);
}

static const char *
part_root(struct words *t, enum gpusim_coll coll, uint32_t root)
{
	return coll_has_root(coll) ? part(t, ", root %" PRIu32, root) : "";
}

const char *
part_op(struct words *t, const struct flight_op *op, bool known)
{
	return part(t, "%s #%" PRIu64,
		    known && op->coll < GPUSIM_NCOLLS ? coll_name((enum gpusim_coll)op->coll)
						      : "operation",
		    frame_op_shown(op->seq));
}

const char *
part_shape(struct words *t, const struct scene *s, const struct flight_op *op)
{
	const struct plan_algo *algo = world_algo(op);
	const struct flight_group *g = scene_group(s, op);
	enum gpusim_coll coll = (enum gpusim_coll)op->coll;
	const char *who;

	if (coll_is_sendrecv(coll))
		who = part(t, "%s rank %" PRIu32, coll == GPUSIM_SEND ? "to" : "from", op->root);
	else
		who = part(t, "%s%s%s%s%" PRIu32 " ranks", algo ? algo->name : "", algo ? ", " : "",
			   g	       ? g->name
			   : op->group ? "some"
				       : "",
			   (g && *g->name) || (op->group && !g) ? " of " : "",
			   g		? (uint32_t)g->n
			   : op->nranks ? op->nranks
					: s->n);
	return part(t, "%s%s%s%s", who, coll == GPUSIM_BARRIER ? "" : ", ",
		    part_data(t, op->coll, op->dtype, op->redop, op->count),
		    part_root(t, coll, op->root));
}

const char *
part_work(struct words *t, const GpuSim__Work *m)
{
	enum gpusim_coll coll = (enum gpusim_coll)m->coll;
	const char *name = (unsigned)coll < GPUSIM_NCOLLS ? coll_name(coll) : "?";

	if (!m->known)
		return part(t, "%" PRIu64 " operation%s", m->nops, m->nops == 1 ? "" : "s");
	if (coll == GPUSIM_BARRIER)
		return name;
	return part(t, "%s of %s%s", name,
		    part_data(t, coll, (unsigned)m->dtype, (unsigned)m->redop, m->nelem),
		    part_root(t, coll, m->root));
}

uint32_t
count_ranks(const struct scene *s, pick_rank *pick, uint32_t arg)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < s->n; r++)
		n += pick(s, r, arg);
	return n;
}

const char *
part_place(struct words *t, const struct scene *s, uint32_t r, const char *after)
{
	char place[GRID_TEXT];

	return grid_place_print(s->comm->grid, r, place) ? part(t, "%s%s", place, after) : "";
}

#define PLACES 4 /* ranks that are named with their places */

const char *
part_ranks(struct words *t, const struct scene *s, pick_rank *pick, uint32_t arg)
{
	uint32_t total = count_ranks(s, pick, arg), n = 0, spans = 0;
	const char *out = total == 1 ? "rank " : "ranks ";

	for (uint32_t r = 0, end; r < s->n; r = end) {
		const char *join, *place;

		end = r + 1;
		if (!pick(s, r, arg))
			continue;
		while (end < s->n && pick(s, end, arg))
			end++;
		if (end - r == 2)
			end--; /* "0 and 1", not "0-1" */
		n += end - r;
		join = spans == 0 ? "" : n == total ? " and " : ", ";
		if (spans++ == 16)
			return part(t, "%s ...", out);
		out = part(t, end - r > 1 ? "%s%s%" PRIu32 "-%" PRIu32 : "%s%s%" PRIu32, out, join,
			   r, end - 1);
		place = end - r > 1 || total > PLACES ? "" : part_place(t, s, r, "");
		if (*place)
			out = part(t, "%s (%s)", out, place);
	}
	return out;
}

const char *
part_device(struct words *t, const struct world_device *d)
{
	if (!d || !d->meta->deviceid)
		return "device not listed";
	return part(t, "device %016" PRIx64 ", pid %" PRIu32, d->meta->deviceid->value,
		    d->meta->pid);
}

const char *
part_process(struct words *t, char process, uint32_t tracer)
{
	if (process == 'Z' || process == 'X')
		return "has ended";
	if (tracer)
		return part(t, "is held by a debugger, pid %" PRIu32, tracer);
	return process == 't' ? "is held by a debugger" : "is stopped";
}

const char *
part_release(struct words *t, uint32_t pid, uint32_t tracer)
{
	if (tracer)
		return part(t,
			    "have the debugger, pid %" PRIu32 ", continue or detach pid %" PRIu32,
			    tracer, pid);
	return part(t, "kill -CONT %" PRIu32, pid);
}
