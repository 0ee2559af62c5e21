/*
 * Measures a step: the devices record all its operations with their steps; the allocators say what is in use.
 *
 * Elements are counted where a plan's step sends a chunk, whatever the collective is. The ranks that an operation's
 * chunks come from and go to say whose it is: they differ from the own rank in one place of the grid.
 */
#include "account.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/api.h"
#include "base/json.h"
#include "base/must.h"
#include "client/recorder.h"
#include "coll/plan.h"
#include "train/trainer.h"

#define TRACE_MS 60000 /* at most: the step is much shorter */
#define READ	 1024

/* Bytes of an element: what trainings exchange is integers of 8 bytes, and floats. */
static uint64_t
size_of(uint8_t dtype)
{
	return dtype == GPUSIM_I64 ? 8 : dtype == GPUSIM_F16 || dtype == GPUSIM_BF16 ? 2 : 4;
}

/* ---- records */

/* What a ring's records said of the operation that has not ended yet. */
struct open_op {
	uint64_t seq, sent;
	uint32_t peer; /* + 1; 0: none yet */
};

struct device_reader {
	struct client_recorder *r;
	struct flight_source s;
	struct flight_header h;
	uint64_t next[FLIGHT_RINGS_MAX], lost;
};

static enum account_group
group_of(const struct account_input *in, uint32_t rank, uint32_t peer)
{
	const struct grid *g = &in->grid;
	uint32_t shards = in->spread ? in->spread->layout->c.shards : g->dp;
	struct grid_place a = grid_at(g, rank), b = grid_at(g, peer);
	unsigned n = (a.d != b.d) + (a.t != b.t) + (a.p != b.p);

	if (n != 1 || peer >= grid_size(g))
		return ACCOUNT_OTHER;
	if (a.d != b.d)
		return shards > 1 && a.d % shards == b.d % shards ? ACCOUNT_REP : ACCOUNT_DP;
	return a.t != b.t ? ACCOUNT_TP : ACCOUNT_PP;
}

static enum account_coll
coll_of(uint8_t coll)
{
	return coll == GPUSIM_ALLREDUCE	      ? ACCOUNT_ALLREDUCE
	       : coll == GPUSIM_ALLGATHER     ? ACCOUNT_ALLGATHER
	       : coll == GPUSIM_REDUCESCATTER ? ACCOUNT_REDUCESCATTER
	       : coll == GPUSIM_SEND	      ? ACCOUNT_SEND
					      : ACCOUNT_ELSE;
}

/* What records mean, and where they are counted. */
struct counting {
	const struct account_input *in;
	const struct flight_header *h;
	struct account_seen *out;
};

static void
take_op(const struct flight_op *op, const struct open_op *of, const struct counting *c)
{
	const struct flight_group *members = flight_group_of(c->h, op);
	bool sends = op->coll == GPUSIM_SEND, steps = of->seq == op->seq;
	uint64_t elements = sends ? op->count : steps ? of->sent / size_of(op->dtype) : 0;
	enum account_group group = ACCOUNT_OTHER;
	struct account_count *to;

	if (op->coll == GPUSIM_RECV) /* its send is counted */
		return;
	if (sends)
		group = group_of(c->in, op->rank, op->root);
	else if (c->in->spread &&
		 (op->group == 0 || (members && strcmp(members->name, "grid") == 0)))
		group = ACCOUNT_GRID;
	else if (of->peer && steps)
		group = group_of(c->in, op->rank, of->peer - 1);
	to = &c->out->by[group][coll_of(op->coll)];
	to->n++;
	to->elements += elements;
}

static void
take(const union flight_record *r, struct open_op *of, const struct counting *c)
{
	if (r->kind == FLIGHT_STEP) {
		if (of->seq != r->step.seq)
			*of = (struct open_op){.seq = r->step.seq};
		if (r->step.what == STEP_SEND + 1)
			of->sent += r->step.bytes;
		if (r->step.peer)
			of->peer = r->step.peer;
	} else if (r->kind == FLIGHT_OP && r->op.result == RC_OK) {
		take_op(&r->op, of, c);
		*of = (struct open_op){.seq = UINT64_MAX};
	}
}

/* Where the records of each ring end now. */
static enum rc
begin(struct device_reader *d, struct err *err)
{
	struct flight_ring *ring = must_alloc(1, sizeof *ring);
	enum rc rc = flight_read_header(&d->s, &d->h, err);

	for (uint32_t i = 0; rc == RC_OK && i < d->h.nrings; i++)
		if (flight_read_ring(&d->s, &d->h, i, ring, NULL) == RC_OK)
			d->next[i] = atomic_load(&ring->head);
	free(ring);
	return rc == RC_OK ? api(client_recorder_trace(d->r, TRACE_MS), err) : rc;
}

static enum rc
count(struct device_reader *d, const struct account_input *in, struct account_seen *out,
      struct err *err)
{
	const struct counting c = {in, &d->h, out};
	union flight_record *r = must_alloc(READ, sizeof *r);
	struct flight_ring *ring = must_alloc(1, sizeof *ring);
	enum rc rc = flight_read_header(&d->s, &d->h, err);

	for (uint32_t i = 0; rc == RC_OK && i < d->h.nrings; i++) {
		struct open_op of = {.seq = UINT64_MAX};
		size_t n = 1;

		if (flight_read_ring(&d->s, &d->h, i, ring, NULL) != RC_OK)
			continue;
		/* One that was never written to before has no record 0 to miss. */
		if (d->next[i] == 0 && atomic_load(&ring->head) > d->h.nrecords - FLIGHT_MARGIN)
			d->lost++;
		while (rc == RC_OK && n && d->next[i] < atomic_load(&ring->head)) {
			rc = flight_read_records(&d->s, &d->h, i, &d->next[i], r, READ, &n,
						 &d->lost, &d->lost, err);
			for (size_t k = 0; k < n && rc == RC_OK; k++)
				take(&r[k], &of, &c);
		}
	}
	free(ring);
	free(r);
	return rc;
}

/* ---- the step */

static enum rc
open_readers(struct gpusim *g, const struct trainer *t, uint32_t n, struct device_reader *d,
	     struct err *err)
{
	GpuSim__Reply *reply;
	enum rc rc = api(client_status(g, &reply), err);

	if (rc != RC_OK)
		return rc;
	for (uint32_t r = 0; r < n && rc == RC_OK; r++) {
		uint64_t id = account_device(t, r).id;
		const GpuSim__DeviceMetadata *meta = NULL;

		for (size_t i = 0; i < reply->status->n_devices; i++)
			if (reply->status->devices[i]->deviceid &&
			    reply->status->devices[i]->deviceid->value == id)
				meta = reply->status->devices[i];
		rc = meta ? api(client_recorder_open(g, meta, &d[r].r), err)
			  : err_set(err, RC_NOTFOUND, "rank %" PRIu32 " has no device", r);
		if (rc == RC_OK) {
			d[r].s = client_recorder_source(d[r].r);
			rc = begin(&d[r], err);
		}
	}
	wire_reply_free(reply);
	return rc;
}

static enum rc
measure(struct gpusim *g, struct trainer *t, const struct account_input *in,
	struct account_seen *seen, struct err *err)
{
	uint32_t n = grid_size(&in->grid);
	struct device_reader *d = must_alloc(n, sizeof *d);
	uint64_t lost = 0;
	enum rc rc = open_readers(g, t, n, d, err);

	for (uint32_t r = 0; r < n && rc == RC_OK; r++)
		rc = api(client_used_bytes(g, account_device(t, r), &seen[r].used_bytes), err);
	if (rc == RC_OK)
		rc = account_step(t, err);
	for (uint32_t r = 0; r < n && rc == RC_OK; r++) {
		rc = count(&d[r], in, &seen[r], err);
		lost += d[r].lost;
	}
	if (rc == RC_OK && lost)
		rc = err_set(err, RC_FAILED,
			     "%" PRIu64 " records of the step were overwritten before they were "
			     "read: run it under gpuctl run --recorder 256K",
			     lost);
	for (uint32_t r = 0; r < n; r++)
		client_recorder_close(d[r].r);
	free(d);
	return rc;
}

/* ---- the table */

static const char *
number(double v, char out[32])
{
	if (isnan(v))
		return "-";
	snprintf(out, 32, fabs(v - round(v)) < 1e-9 ? "%.0f" : "%.4f", v);
	return out;
}

/* The lines about one pipeline rank, or about all. */
static void
print_row(const struct account *a, uint32_t row)
{
	char e[32], m[32], formula[160];

	for (size_t i = 0; i < a->n; i++) {
		const struct account_line *l = &a->line[i];

		if (l->row != row)
			continue;
		snprintf(formula, sizeof formula, "%s (%s)", number(l->expected, e), l->formula);
		printf("  %-42s %-64s %s%s\n", l->what, formula, number(l->measured, m),
		       l->agrees ? "" : "  DIFFERS");
	}
}

static void
print(const struct account *a, uint32_t nrows)
{
	printf("account of one step: %s\n", a->title);
	for (uint32_t row = 0; row < nrows; row++) {
		printf("pipeline rank %" PRIu32 ", mean of its ranks:\n", row);
		print_row(a, row);
	}
	printf("all ranks:\n");
	print_row(a, UINT32_MAX);
	fflush(stdout);
}

static void
write_json(const struct account *a, FILE *f)
{
	struct json j = {f, false};

	json_put(&j, "{account:[");
	for (size_t i = 0; i < a->n; i++) {
		const struct account_line *l = &a->line[i];

		json_put(&j, "{what:%s expected:%.17g formula:%s measured:%.17g agrees:%hhu",
			 l->what, l->expected, l->formula, l->measured, l->agrees);
		if (l->row != UINT32_MAX)
			json_put(&j, "pipeline_rank:%u", l->row);
		json_put(&j, "}");
	}
	json_put(&j, "] agrees:%hhu}\n", (unsigned char)(a->ndisagree == 0));
}

enum rc
account_run(struct gpusim *g, struct trainer *t, FILE *json, struct err *err)
{
	struct account_input in;
	struct account_seen *seen;
	struct account a;
	enum rc rc;

	account_of(t, &in);
	seen = must_alloc(grid_size(&in.grid), sizeof *seen);
	in.seen = seen;
	rc = measure(g, t, &in, seen, err);
	if (rc == RC_OK) {
		account_make(&in, &a);
		print(&a, in.grid.pp);
		if (json)
			write_json(&a, json);
		if (a.ndisagree)
			rc = err_set(err, RC_FAILED,
				     "%zu of %zu numbers differ from what formulas give",
				     a.ndisagree, a.n);
		account_fini(&a);
	}
	free(seen);
	return rc == RC_OK ? rc : err_prefix(err, "--account");
}
