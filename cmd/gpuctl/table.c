#include "table.h"

#include <inttypes.h>
#include <time.h>

#include "base/json.h"

static const char *
device_state(const struct gpusim_device_info *d)
{
	if (d->lost)
		return "lost";
	return d->comm.id ? "busy" : d->spare ? "spare" : d->join ? "join" : "free";
}

const char *
state_name(int state)
{
	static const char *const names[] = {[GPUSIM_IN_PROGRESS] = "in-progress",
					    [GPUSIM_SUCCESS] = "success",
					    [GPUSIM_STATE_FAILED] = "failed"};

	return state >= 0 && state <= GPUSIM_STATE_FAILED ? names[state] : "unknown";
}

/* "256M": exact in the largest unit that divides it, else rounded to a tenth. */
static const char *
size_text(uint64_t nbytes, char out[16])
{
	static const char units[] = "BKMGTPE";
	double v = (double)nbytes;
	int u = 0;

	for (; v >= 1024 && units[u + 1]; u++)
		v /= 1024;
	snprintf(out, 16, v == (double)(uint64_t)v ? "%.0f%c" : "%.1f%c", v, units[u]);
	return out;
}

const char *
time_text(uint64_t ms, char out[TIME_TEXT])
{
	time_t t = (time_t)(ms / 1000);
	struct tm tm;

	if (!localtime_r(&t, &tm) || strftime(out, TIME_TEXT, "%F %T", &tm) == 0)
		snprintf(out, TIME_TEXT, "?");
	return out;
}

/* " lost at 2026-11-22 10:00:00: killed by signal 9, is being started again" */
static void
print_loss(const struct gpusim_device_info *d, FILE *f)
{
	char when[TIME_TEXT];

	fprintf(f, "  lost at %s: %s%s%s", time_text(d->lost_at_ms, when), d->lost_why,
		d->lost_remedy[0] ? ", " : "", d->lost_remedy);
}

void
table_devices(const struct gpusim_device_info *d, size_t n, FILE *f)
{
	char memory[16], used[16], comm[24];

	fprintf(f, "%5s  %-16s  %6s  %6s  %-5s  %4s  %7s  %s\n", "INDEX", "ID", "MEMORY", "USED",
		"STATE", "COMM", "PID", "ADDRESS");
	for (size_t i = 0; i < n; i++) {
		snprintf(comm, sizeof comm, "%" PRIu64, d[i].comm.id);
		fprintf(f, "%5zu  %016" PRIx64 "  %6s  %6s  %-5s  %4s  %7" PRIu32 "  %s", i,
			d[i].device.id, size_text(d[i].max_addr.addr - d[i].min_addr.addr, memory),
			size_text(d[i].used_bytes, used), device_state(&d[i]),
			d[i].comm.id ? comm : "-", d[i].pid, d[i].address);
		if (d[i].lost)
			print_loss(&d[i], f);
		putc('\n', f);
	}
}

void
table_comms(const struct gpusim_comm_info *c, size_t n, FILE *f)
{
	fprintf(f, "%4s  %-11s  %5s  %5s  %-10s  %10s  %7s  %10s  %s\n", "COMM", "STATE", "RANKS",
		"EPOCH", "ON FAILURE", "RECOVERIES", "PENDING", "OPERATIONS", "REASON");
	for (size_t i = 0; i < n; i++)
		fprintf(f,
			"%4" PRIu64 "  %-11s  %5" PRIu32 "  %5" PRIu32 "  %-10s  %10" PRIu32
			"  %7" PRIu64 "  %10" PRIu64 "  %s\n",
			c[i].id.id, state_name(c[i].state), c[i].nranks, c[i].epoch,
			gpusim_on_failure_name(c[i].on_failure), c[i].recoveries, c[i].pending,
			c[i].operations, c[i].reason[0] ? c[i].reason : "-");
}

static void
json_device(struct json *j, const struct gpusim_device_info *d, size_t index)
{
	json_put(j,
		 "{index:%zu id:%016" PRIx64 " ordinal:%" PRIu32
		 " state:%s spare:%hhu join:%hhu comm:%" PRIu64 " pid:%" PRIu32 " min_addr:%" PRIu64
		 " max_addr:%" PRIu64 " used_bytes:%" PRIu64
		 " address:%s data_address:%s mem_path:%s host:%s mem_private:%s",
		 index, d->device.id, d->ordinal, device_state(d), (bool)d->spare, (bool)d->join,
		 d->comm.id, d->pid, d->min_addr.addr, d->max_addr.addr, d->used_bytes, d->address,
		 d->data_address, d->mem_path, d->host, d->mem_private);
	if (d->lost)
		json_put(j, "lost_at_ms:%" PRIu64 " lost_why:%s lost_remedy:%s", d->lost_at_ms,
			 d->lost_why, d->lost_remedy);
	json_put(j, "}");
}

void
json_devices(struct json *j, const struct gpusim_device_info *d, const size_t *index, size_t n)
{
	json_put(j, "[");
	for (size_t i = 0; i < n; i++)
		json_device(j, &d[i], index ? index[i] : i);
	json_put(j, "]");
}

void
table_progress(const struct gpusim_comm_info *c, size_t n, FILE *f)
{
	char waits[24];

	fprintf(f, "%4s  %5s  %-16s  %10s  %13s  %8s  %s\n", "COMM", "RANK", "DEVICE", "OPERATION",
		"STEP", "IDLE", "WAITS FOR");
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < c[i].nprogress; k++) {
			const struct gpusim_progress *p = &c[i].progress[k];

			snprintf(waits, sizeof waits, "rank %d", p->waits_for);
			fprintf(f,
				"%4" PRIu64 "  %5" PRIu32 "  %016" PRIx64 "  %10" PRIu64
				"  %6" PRIu32 "/%-6" PRIu32 "  %7.1fs  %s\n",
				c[i].id.id, p->rank, p->device.id, p->operation, p->step, p->steps,
				(double)p->idle_ms / 1e3, p->waits_for < 0 ? "-" : waits);
		}
}

static void
json_progress(struct json *j, const struct gpusim_progress *p)
{
	json_put(j,
		 "{rank:%" PRIu32 " device:%016" PRIx64 " operation:%" PRIu64 " step:%" PRIu32
		 " steps:%" PRIu32 " idle_ms:%" PRIu64 " waits_for:%d}",
		 p->rank, p->device.id, p->operation, p->step, p->steps, p->idle_ms, p->waits_for);
}

void
json_comm(struct json *j, const struct gpusim_comm_info *c, const char *recovered)
{
	json_put(j,
		 "{id:%" PRIu64 " state:%s epoch:%" PRIu32 " nranks:%" PRIu32
		 " on_failure:%s recoveries:%" PRIu32 " pending:%" PRIu64 " operations:%" PRIu64
		 " devices:[",
		 c->id.id, state_name(c->state), c->epoch, c->nranks,
		 gpusim_on_failure_name(c->on_failure), c->recoveries, c->pending, c->operations);
	for (uint32_t r = 0; r < c->nranks; r++)
		json_put(j, "%016" PRIx64, c->devices[r].id);
	json_put(j, "] reason:%s", c->reason);
	if (recovered) {
		json_put(j, "recovered:%s}", recovered);
		return;
	}
	json_put(j, "progress:[");
	for (size_t i = 0; i < c->nprogress; i++)
		json_progress(j, &c->progress[i]);
	json_put(j, "]}");
}

void
json_members(struct json *j, struct gpusim_comm *comm)
{
	json_put(j, "comm:%" PRIu64 " nranks:%" PRIu32 " devices:[", gpusim_comm_id(comm).id,
		 gpusim_comm_count(comm));
	for (uint32_t r = 0; r < gpusim_comm_count(comm); r++)
		json_put(j, "%016" PRIx64, gpusim_comm_device(comm, r).id);
	json_put(j, "]");
}
