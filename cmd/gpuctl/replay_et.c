/* gpuctl replay - replay execution traces of Chakra: one file per rank. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/must.h"
#include "cli.h"
#include "coll/plan.h"
#include "launch/launch.h"
#include "replay.h"
#include "replay/et.h"

#define STUCK_MS 10000
#define MEM_MIN	 (64u << 20)

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

/* ---- results */

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
play(const struct args *a, const struct et_job *job, struct err *err)
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
				    .say = replay_say};
	struct et_config play = {.compute_scale = a->compute_scale, .stuck_ms = STUCK_MS};
	struct gpusim_device *device = NULL;
	struct et_result result = {0};
	struct launch *l = NULL;
	enum rc rc;

	snprintf(mem, sizeof mem, "%" PRIu64, 6 * et_room(job) + MEM_MIN);
	if (a->transport)
		setenv("GPUSIM_P2P_LEVEL", "LOC", 1);
	rc = launch_start(&cfg, &l, err);
	if (rc == RC_OK)
		rc = api(gpusim_open(launch_coordinator(l), &play.g), err);
	if (rc == RC_OK)
		rc = replay_devices(play.g, job->nranks, &device, err);
	play.device = device;
	if (rc == RC_OK)
		rc = et_play(job, &play, &result, err);
	if (rc == RC_OK)
		say_result(job, &result, a->json);
	free(result.row);
	free(result.compute_ns);
	free(device);
	gpusim_close(play.g);
	launch_end(l);
	return rc;
}

enum rc
replay_traces(const struct args *a, struct err *err)
{
	struct et_job job = {0};
	enum rc rc = read_all(a, &job, err);

	if (rc == RC_OK)
		rc = play(a, &job, err);
	et_job_fini(&job);
	return rc;
}
