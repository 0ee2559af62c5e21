/* gpuctl replay - replay a recording, or execution traces of Chakra (one file per rank), on fresh devices. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/must.h"
#include "cli.h"
#include "coll/plan.h"
#include "launch/launch.h"
#include "replay/et.h"
#include "replay/replay.h"
#include "tape/folder.h"

#define STUCK_MS 10000
#define WAIT_MS	 10000 /* for what failed in the recording */
#define MEM_MIN	 (64u << 20)
#define ROOM_MAX (UINT64_C(1) << 40) /* for one device; no device has more */

/* The devices' own recording, and the cluster. */
struct stage {
	char dir[PATH_MAX];
	bool ours; /* remove the folder at the end */
	struct launch *launch;
	struct gpusim *g;
	struct gpusim_device *device; /* by ordinal */
};

/* Print the launcher's warnings and errors. */
static void
say(enum log_level level, const char *sentence)
{
	if (level <= LOG_WARN)
		fprintf(stderr, "gpuctl: replay: %s\n", sentence);
}

/* Start the cluster, and list its devices by ordinal. RC_FAILED: it has not as many. */
static enum rc
open_stage(struct stage *st, const struct launch_config *cfg, struct err *err)
{
	struct gpusim_device_info *v = NULL;
	size_t n = (size_t)cfg->ndevices, have = 0;
	enum rc rc = launch_start(cfg, &st->launch, err);

	if (rc == RC_OK)
		rc = api(gpusim_open(launch_coordinator(st->launch), &st->g), err);
	if (rc == RC_OK)
		rc = api(gpusim_devices(st->g, &v, &have), err);
	st->device = must_alloc(n + 1, sizeof *st->device);
	for (size_t i = 0; rc == RC_OK && i < have && i < n; i++)
		st->device[i] = v[i].device; /* sorted by ordinal */
	if (rc == RC_OK && have != n)
		rc = err_set(err, RC_FAILED, "needs %zu devices; %zu are available", n, have);
	free(v);
	return rc;
}

static void
end_stage(struct stage *st)
{
	gpusim_close(st->g);
	launch_end(st->launch);
	st->g = NULL;
	st->launch = NULL;
	free(st->device);
	st->device = NULL;
}

static enum rc
make_folder(struct stage *st, const char *wanted, struct err *err)
{
	const char *tmp = getenv("TMPDIR");

	if (wanted) {
		snprintf(st->dir, sizeof st->dir, "%s", wanted);
		if (tape_folder_new(wanted, err) != RC_OK)
			return err_prefix(err, "--record");
		if (!realpath(wanted, st->dir))
			return err_set(err, RC_FAILED, "%s: %s", wanted, strerror(errno));
		return RC_OK;
	}
	snprintf(st->dir, sizeof st->dir, "%s/gpusim-replay.XXXXXX", tmp && *tmp ? tmp : "/tmp");
	st->ours = mkdtemp(st->dir) != NULL;
	return st->ours ? RC_OK : err_set(err, RC_FAILED, "%s: %s", st->dir, strerror(errno));
}

/* Start a device for each process of the recording, with its kind of sockets and its memory. */
static enum rc
begin_stage(struct stage *st, const struct story *s, uint64_t room, const char *wanted,
	    struct err *err)
{
	char mem[32];
	const char *dev[] = {"--allow-inject", "--record", st->dir, "--data", "tcp://127.0.0.1:0"};
	const char *coord[] = {"--allow-inject", "--report-dir", "none"};
	struct launch_config cfg = {.ndevices = (int)s->nprocs,
				    .mem = mem,
				    .dev_args = dev,
				    .ndev_args = 3 + 2 * s->proc[0].by_tcp,
				    .coord_args = coord,
				    .ncoord_args = 3,
				    .say = say};
	enum rc rc = make_folder(st, wanted, err);

	snprintf(mem, sizeof mem, "%" PRIu64, 3 * room + MEM_MIN);
	if (!s->proc[0].by_memory)
		setenv("GPUSIM_P2P_LEVEL", "LOC", 1);
	else
		unsetenv("GPUSIM_P2P_LEVEL");
	return rc == RC_OK ? open_stage(st, &cfg, err) : rc;
}

/* ---- results */

static void
say_story(const struct story *s)
{
	size_t queued = 0;

	for (size_t i = 0; i < s->nops; i++)
		queued += s->op[i].by_queue;
	printf("recorded: %zu device process%s, %zu communicator%s, %zu operations of ranks (%zu "
	       "from queues), %zu fault%s, %zu decisions, inputs %s\n",
	       s->nprocs, s->nprocs == 1 ? "" : "es", s->ncomms, s->ncomms == 1 ? "" : "s", s->nops,
	       queued, s->nfaults, s->nfaults == 1 ? "" : "s", s->ndecisions,
	       s->with_data ? "kept" : "not kept");
	if (s->cut)
		printf("the recording is incomplete: the part that was written is replayed\n");
}

static void
say_replayed(const struct story *s, const struct replay_map *map, const struct replay_result *r)
{
	printf("replayed: %" PRIu64 " succeeded again%s, %" PRIu64 " were in operations that "
	       "failed again or were aborted, %" PRIu64 " differ; %" PRIu64 " of %" PRIu64
	       " faults took place at the same steps\n",
	       r->same, s->with_data ? ", with bit-identical results" : "", r->failed, r->differ,
	       r->met, r->nfaults);
	if (s->with_data && map->hollow)
		printf("%" PRIu64
		       " inputs were not recorded completely: their results are not compared\n",
		       map->hollow);
	if (r->differ)
		printf("first difference: %s\n", r->first);
}

static enum rc
play(const struct args *a, struct story *s, struct err *err)
{
	struct stage st = {.ours = false};
	struct replay_map map = {0};
	struct replay_result result;
	struct story *now = NULL;
	uint64_t room = replay_room(s);
	enum rc rc =
	    room <= ROOM_MAX
		? begin_stage(&st, s, room, a->record, err)
		: err_set(err, RC_BADDATA, "%s: an operation of %" PRIu64 " bytes is too large",
			  a->rest[0], room);

	if (rc == RC_OK) {
		struct replay_config cfg = {
		    .g = st.g, .device = st.device, .story = s, .room = room, .wait_ms = WAIT_MS};

		rc = replay_play(&cfg, &map, err);
	}
	end_stage(&st);
	if (rc == RC_OK)
		rc = story_read(st.dir, &now, err);
	if (rc == RC_OK) {
		replay_compare(s, now, &map, &result);
		if (a->json) {
			json_put(&(struct json){stdout, false},
				 "{devices:%zu communicators:%zu operations:%zu incomplete:%hhu "
				 "data:%hhu same:%" PRIu64 " failed:%" PRIu64 " differ:%" PRIu64
				 " faults:%" PRIu64 " met:%" PRIu64 " first:%s}\n",
				 s->nprocs, s->ncomms, s->nops, s->cut, s->with_data, result.same,
				 result.failed, result.differ, result.nfaults, result.met,
				 result.first);
		} else
			say_replayed(s, &map, &result);
		if (result.differ)
			rc = err_set(err, RC_FAILED, "%" PRIu64 " operations or faults differ",
				     result.differ);
		else if (s->stopped)
			rc = err_set(err, RC_BADDATA,
				     "%s: the recording is incomplete: writing it failed, as on a "
				     "full disk; only the recorded part was replayed",
				     a->rest[0]);
	}
	story_free(now);
	replay_map_fini(&map);
	if (st.ours)
		tape_folder_clear(st.dir);
	return rc;
}

static enum rc
replay_folder(const struct args *a, struct err *err)
{
	struct story *s = NULL;
	enum rc rc = story_read(a->rest[0], &s, err);

	if (rc == RC_OK)
		story_units(s);
	if (rc == RC_OK && s->nops == 0)
		rc = err_set(err, RC_BADDATA, "%s: no operation was recorded", a->rest[0]);
	if (rc == RC_OK && !a->json)
		say_story(s);
	if (rc == RC_OK)
		rc = play(a, s, err);
	story_free(s);
	return rc;
}

/* ---- execution traces */

static enum rc
read_file(struct et_job *job, uint32_t rank, const char *path, struct err *err)
{
	struct buf b = {0};
	enum rc rc = file_bytes(path, ET_MAX_BYTES, &b, err);

	if (rc == RC_OK && (rc = et_read(job, rank, b.data, b.len, err)) != RC_OK)
		err_prefix(err, "%s", path);
	buf_fini(&b);
	return rc;
}

/* The file of a rank: the rank-th operand, or with one operand PREFIX the file PREFIX.RANK.et. False:
 * none. */
static bool
path_of(const struct args *a, uint32_t rank, char path[PATH_MAX])
{
	const char *dot = strrchr(a->rest[0], '.');

	if (a->nrest > 1 || (dot && strcmp(dot, ".et") == 0)) {
		if (rank < (uint32_t)a->nrest)
			snprintf(path, PATH_MAX, "%s", a->rest[rank]);
		return rank < (uint32_t)a->nrest;
	}
	snprintf(path, PATH_MAX, "%s.%u.et", a->rest[0], rank);
	return access(path, F_OK) == 0;
}

static enum rc
read_all(const struct args *a, struct et_job *job, struct err *err)
{
	char path[PATH_MAX];
	enum rc rc = RC_OK;

	job->rank = must_alloc(ET_MAX_RANKS, sizeof *job->rank);
	while (rc == RC_OK && path_of(a, job->nranks, path)) {
		if (job->nranks == ET_MAX_RANKS)
			return err_set(err, RC_INVAL, "more than %d ranks", ET_MAX_RANKS);
		rc = read_file(job, job->nranks++, path, err);
	}
	if (rc == RC_OK && job->nranks == 0)
		rc = err_set(err, RC_FAILED, "%s: no such folder, and no %s.0.et", a->rest[0],
			     a->rest[0]);
	return rc == RC_OK ? et_check(job, err) : rc;
}

static const char *
what(const struct et_node *n)
{
	return n->type == ET_COLL ? coll_name((enum gpusim_coll)n->coll) : "sendrecv";
}

/* Bytes of the whole vector. */
static uint64_t
whole(const struct et_node *n, uint32_t nranks)
{
	bool parts =
	    n->type == ET_COLL && (n->coll == GPUSIM_ALLGATHER || n->coll == GPUSIM_GATHER);

	return parts ? n->nbytes * nranks : n->nbytes;
}

static void
say_row(const struct et_job *job, const struct et_row *r, struct json *j)
{
	const char *group = r->node->type != ET_COLL || r->node->group == ET_NONE
				? "all"
				: job->group[r->node->group].name;
	uint64_t size = whole(r->node, r->want);
	double us = (double)(r->end_ns - r->last_ns) / 1e3;
	double skew = (double)(r->last_ns - r->first_ns) / 1e3;
	double alg = us > 0 ? (double)size / us / 1e3 : 0, bus = alg;

	if (r->node->type == ET_COLL && r->want > 1)
		bus *= coll_bus_factor(r->node->coll, r->want);
	if (j)
		json_put(j,
			 "{coll:%s node:%" PRIu64 " rank:%u size:%" PRIu64
			 " ranks:%u wait_us:%.1f time_us:%.1f algbw:%.3f busbw:%.3f}",
			 what(r->node), r->node->id, r->rank, size, r->want, skew, us, alg, bus);
	else
		printf("%12" PRIu64 "  %-14s %6u  %-10.10s %12.1f %12.1f %8.2f %8.2f  %s\n", size,
		       what(r->node), r->want, group, skew, us, alg, bus, r->node->name);
}

static void
say_result(const struct et_job *job, const struct et_result *r, bool json)
{
	double comm = 0, compute = 0;
	size_t nnodes = 0;
	struct json j = {stdout, false};

	for (uint32_t k = 0; k < job->nranks; k++) {
		nnodes += job->rank[k].nnodes;
		if ((double)r->compute_ns[k] > compute)
			compute = (double)r->compute_ns[k];
	}
	if (json)
		json_put(&j, "{rows:[");
	else
		printf("%12s  %-14s %6s  %-10s %12s %12s %8s %8s  %s\n%12s  %-14s %6s  %-10s %12s "
		       "%12s %8s "
		       "%8s\n",
		       "size", "operation", "ranks", "group", "wait", "time", "algbw", "busbw",
		       "node", "(B)", "", "", "", "(us)", "(us)", "(GB/s)", "(GB/s)");
	for (size_t i = 0; i < r->nrows; i++) {
		say_row(job, &r->row[i], json ? &j : NULL);
		comm += (double)(r->row[i].end_ns - r->row[i].last_ns);
	}
	if (json)
		json_put(
		    &j,
		    "] ranks:%u nodes:%zu total_us:%.1f communication_us:%.1f compute_us:%.1f}\n",
		    job->nranks, nnodes, (double)r->total_ns / 1e3, comm / 1e3, compute / 1e3);
	else
		printf("total: %.1f us, %u ranks, %zu nodes; operations took %.1f us together, "
		       "compute nodes %.1f us on the rank that computed most\n",
		       (double)r->total_ns / 1e3, job->nranks, nnodes, comm / 1e3, compute / 1e3);
}

static enum rc
play_traces(const struct args *a, const struct et_job *job, struct err *err)
{
	char mem[32];
	const char *dev[] = {"--data", "tcp://127.0.0.1:0"};
	const char *coord[] = {"--report-dir", "none"};
	struct launch_config cfg = {.ndevices = (int)job->nranks,
				    .mem = mem,
				    .dev_args = dev,
				    .ndev_args = a->transport == TRANSPORT_TCP ? 2 : 0,
				    .coord_args = coord,
				    .ncoord_args = 2,
				    .say = say};
	struct et_config play = {.compute_scale = a->compute_scale, .stuck_ms = STUCK_MS};
	struct stage st = {.ours = false};
	struct et_result result = {0};
	enum rc rc;

	snprintf(mem, sizeof mem, "%" PRIu64, 6 * et_room(job) + MEM_MIN);
	if (a->transport)
		setenv("GPUSIM_P2P_LEVEL", "LOC", 1);
	rc = open_stage(&st, &cfg, err);
	play.g = st.g;
	play.device = st.device;
	if (rc == RC_OK)
		rc = et_play(job, &play, &result, err);
	if (rc == RC_OK)
		say_result(job, &result, a->json);
	free(result.row);
	free(result.compute_ns);
	end_stage(&st);
	return rc;
}

static enum rc
replay_traces(const struct args *a, struct err *err)
{
	struct et_job job = {0};
	enum rc rc = read_all(a, &job, err);

	if (rc == RC_OK)
		rc = play_traces(a, &job, err);
	et_job_fini(&job);
	return rc;
}

enum rc
run_replay(struct cli *cli, const struct args *a, struct err *err)
{
	struct stat st;

	(void)cli;
	if (a->nrest > 1 || stat(a->rest[0], &st) != 0 || !S_ISDIR(st.st_mode))
		return replay_traces(a, err);
	if (a->transport || args_given(a, compute_scale))
		return err_set(err, RC_INVAL,
			       "--transport and --compute-scale are for execution traces");
	return replay_folder(a, err);
}
