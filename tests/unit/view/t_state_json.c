/*
 * The JSON of /status.json and the live page: whole, escaped, and of damaged worlds too; trainings' curves; rates.
 */
#include "tap.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coord/curves.h"
#include "view/state_json.h"

/* Quotes and brackets that belong together; not all of JSON, which page.bats has a browser read. */
static bool
is_balanced(const char *s, size_t n)
{
	int depth = 0;
	bool quoted = false;

	for (size_t i = 0; i < n; i++) {
		if (quoted && s[i] == '\\')
			i++;
		else if (s[i] == '"')
			quoted = !quoted;
		else if (!quoted && (s[i] == '{' || s[i] == '['))
			depth++;
		else if (!quoted && (s[i] == '}' || s[i] == ']'))
			depth--;
		if (depth < 0 || (unsigned char)s[i] < ' ')
			return false;
	}
	return depth == 0 && !quoted && s[0] == '{';
}

static GpuSim__StatusResponse *
status_new(void)
{
	GpuSim__StatusResponse *s = malloc(sizeof *s);

	gpu_sim__status_response__init(s);
	s->version = strdup("1");
	s->address = strdup("ipc:///tmp/\"quoted\"\n</script>");
	return s;
}

static void
add_device(GpuSim__StatusResponse *s, uint64_t id, uint32_t state)
{
	GpuSim__DeviceMetadata *m = malloc(sizeof *m);

	gpu_sim__device_metadata__init(m);
	m->deviceid = malloc(sizeof *m->deviceid);
	gpu_sim__device_id__init(m->deviceid);
	m->deviceid->value = id;
	m->state = state;
	s->devices = realloc(s->devices, (s->n_devices + 1) * sizeof *s->devices);
	s->devices[s->n_devices++] = m;
}

static void
add_comm(GpuSim__StatusResponse *s, uint64_t id, size_t n)
{
	GpuSim__CommSummary *c = malloc(sizeof *c);

	gpu_sim__comm_summary__init(c);
	c->commid = id;
	c->reason = strdup("because of <b>\\\"that\"");
	c->deviceids = calloc(n, sizeof *c->deviceids);
	c->n_deviceids = n;
	for (size_t i = 0; i < n; i++)
		c->deviceids[i] = i + 1;
	s->comms = realloc(s->comms, (s->n_comms + 1) * sizeof *s->comms);
	s->comms[s->n_comms++] = c;
}

/* A recorder with one operation that ended, and counters. */
static void
give_recorder(struct world *w, size_t i, uint64_t nops, uint64_t algo)
{
	struct world_recorder *r = calloc(1, sizeof *r);

	r->nrings = 1;
	r->ring = calloc(1, sizeof *r->ring);
	r->ring->record = calloc(1, sizeof *r->ring->record);
	r->ring->nrecords = 1;
	r->ring->record[0].op = (struct flight_op){.kind = FLIGHT_OP,
						   .coll = GPUSIM_ALLREDUCE,
						   .dtype = GPUSIM_F32,
						   .algo = (uint8_t)algo,
						   .comm = 7,
						   .count = 1000,
						   .end = 5};
	r->clock.ns_per_tick = 1;
	r->ring->ring.counts.op[GPUSIM_ALLREDUCE][1].n = nops;
	r->ring->ring.counts.op[GPUSIM_ALLREDUCE][1].ns = nops * 3000;
	r->ring->ring.counts.op[GPUSIM_ALLREDUCE][1].bucket[2] = nops;
	r->ring->ring.counts.sent = nops * 100;
	w->device[i].recorder = r;
}

static struct world *
world_of(uint64_t now_ns, uint64_t nops, uint64_t algo)
{
	GpuSim__StatusResponse *s = status_new();
	struct world *w = NULL;
	struct err err = {0};

	for (uint64_t i = 0; i < 4; i++)
		add_device(s, i + 1, i == 3);
	add_comm(s, 7, 4);
	add_comm(s, 8, 100); /* of devices that are not there */
	if (world_new(s, NULL, now_ns, &w, &err) != RC_OK)
		abort();
	for (size_t i = 0; i < 4; i++)
		give_recorder(w, i, nops, algo);
	return w;
}

static void
test_state(void)
{
	struct world *before = world_of(1000000000, 10, 1), *now = world_of(3000000000, 30, 1);
	struct buf out = {0};
	struct rates r;
	struct err err = {0};
	const char *edges;

	ok(state_json(now, before, &out, &r, &err) == RC_OK && is_balanced(out.data, out.len),
	   "an object, whole, whatever texts are in it");
	buf_add(&out, "", 1);
	ok(!strchr(out.data, '\n') && strstr(out.data, "\\\"quoted\\\""), "on one line");
	ok(strstr(out.data, "\"state\":\"lost\"") && strstr(out.data, "\"devices\":[0,1,2,3]"),
	   "a lost device, a communicator's devices by rank");
	edges = strstr(out.data, "\"edges\":[[");
	ok(edges && strstr(out.data, "\"collective\":\"allreduce\""),
	   "the operation that ended last, with the edges of its plan");
	ok(r.seconds == 2 && r.ops == 40 && r.bytes == 4000 && r.mean_us == 3, "rates: %g %g %g %g",
	   r.seconds, r.ops, r.bytes, r.mean_us);
	ok(r.p50_us >= 2 && r.p50_us <= 4 && r.p99_us >= r.p50_us, "quantiles lie in their bucket");
	rates_between(before, now, &r);
	ok(r.seconds == 0 && r.ops == 0, "a world from the future gives no rates");
	buf_fini(&out);
	world_free(before);
	world_free(now);
	now = world_of(1, 1, 255);
	ok(state_json(now, NULL, &out, &r, &err) == RC_OK && is_balanced(out.data, out.len),
	   "an algorithm that does not exist");
	buf_fini(&out);
	world_free(now);
}

/* The operation that ended last was one of ranks 1 and 3. */
static void
test_group(void)
{
	struct world *w = world_of(1000, 10, 1);
	struct flight_header *h = &w->device[0].recorder->header;
	struct buf out = {0};
	struct rates r;
	struct err err = {0};

	w->device[0].recorder->ring->record[0].op.end = 7;
	w->device[0].recorder->ring->record[0].op.group = 1;
	h->ngroups = 1;
	h->group[0] = (struct flight_group){.n = 2, .ascending = 1, .rank = {1 << 1 | 1 << 3}};
	ok(state_json(w, NULL, &out, &r, &err) == RC_OK &&
	       strstr(out.data, "\"edges\":[[1,3],[3,1]]"),
	   "edges of a group are those of its members");
	buf_fini(&out);
	h->ngroups = 0;
	ok(state_json(w, NULL, &out, &r, &err) == RC_OK && strstr(out.data, "\"edges\":[]"),
	   "of an unknown group there are none");
	buf_fini(&out);
	world_free(w);
}

static enum rc
put(struct curves *c, uint64_t training, uint64_t step, double loss)
{
	GpuSim__TrainingPutRequest m = GPU_SIM__TRAINING_PUT_REQUEST__INIT;
	struct err err = {0};
	char name[] = "net \"a\"";

	m.training = training;
	m.epoch = (uint32_t)step;
	m.step = step;
	m.loss = loss;
	m.accuracy = 0.5;
	m.name = name;
	return curves_put(c, &m, 1, &err);
}

static size_t
count_of(const char *text, const char *what)
{
	size_t n = 0;

	for (const char *at = text; (at = strstr(at, what)); at++)
		n++;
	return n;
}

static void
test_curves(void)
{
	struct curves *c = curves_new();
	struct buf out = {0};
	struct err err = {0};
	bool good = true;

	ok(put(c, 0, 1, 1) == RC_INVAL, "a training without a number is refused");
	ok(put(c, 1, 5, NAN) == RC_OK && put(c, 1, 4, 1) == RC_INVAL, "steps do not go back");
	for (uint64_t i = 0; i < 5000; i++)
		good = good && put(c, 2, i, 1.0 / (double)(i + 1)) == RC_OK;
	for (uint64_t t = 3; t < 40; t++)
		good = good && put(c, t, 1, 1) == RC_OK;
	good = good && put(c, 2, 9999, 0.125) == RC_OK;
	ok(good && curves_json(c, &out, &err) == RC_OK && buf_add(&out, "", 1), "many trainings");
	ok(count_of(out.data, "\"points\"") == CURVES_MAX, "only the last ones are kept");
	curves_free(c);
	buf_fini(&out);
	c = curves_new();
	for (uint64_t i = 0; i < 5000; i++)
		good = good && put(c, 2, i, NAN) == RC_OK;
	curves_json(c, &out, &err);
	buf_add(&out, "", 1);
	ok(good && count_of(out.data, "],[") < CURVES_MAX_POINTS &&
	       strstr(out.data, "[[0,0,null") && strstr(out.data, "[4999,4999,null"),
	   "a long curve keeps its first and its last point; NaN is null");
	curves_free(c);
	buf_fini(&out);
}

/* Whatever its length, the points lie evenly, but for the newest, and there are enough of them. */
static void
test_even(void)
{
	struct curves *c = curves_new();
	struct err err = {0};
	bool good = true;
	uint64_t n = 0;

	for (uint64_t length = 1; length < 200000 && good; length += length / 3 + 1) {
		uint64_t last = 0, stride = 0, points = 0, epoch;
		struct buf out = {0};

		for (; n < length; n++)
			good = good && put(c, 2, n, 1) == RC_OK;
		curves_json(c, &out, &err);
		buf_add(&out, "", 1);
		for (const char *at = strstr(out.data, "[["); at; at = strstr(at + 1, ",[")) {
			epoch = strtoull(at + 2, NULL, 10);
			stride = points == 1 ? epoch : stride;
			good = good && (points < 2 || epoch - last == stride ||
					(epoch == length - 1 && epoch - last < stride));
			last = epoch;
			points++;
		}
		good = good && last == length - 1 && points <= CURVES_MAX_POINTS &&
		       points >= (length < 256 ? length : 256);
		if (!good)
			printf("# of %" PRIu64 ": %" PRIu64 " points, stride %" PRIu64 "\n", length,
			       points, stride);
		buf_fini(&out);
	}
	ok(good, "points lie evenly over all of a curve");
	curves_free(c);
}

int
main(void)
{
	test_state();
	test_group();
	test_curves();
	test_even();
	return tap_done();
}
