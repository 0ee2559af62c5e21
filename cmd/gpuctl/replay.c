/* gpuctl replay - replay a recording on fresh devices, and compare. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/must.h"
#include "cli.h"
#include "launch/launch.h"
#include "replay.h"
#include "replay/replay.h"
#include "tape/folder.h"

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

void
replay_say(enum log_level level, const char *sentence)
{
	if (level <= LOG_WARN)
		fprintf(stderr, "gpuctl: replay: %s\n", sentence);
}

enum rc
replay_devices(struct gpusim *g, size_t n, struct gpusim_device **out, struct err *err)
{
	struct gpusim_device_info *v = NULL;
	struct gpusim_device *list = must_alloc(n + 1, sizeof *list);
	size_t have = 0;
	enum rc rc = api(gpusim_devices(g, &v, &have), err);

	for (size_t i = 0; rc == RC_OK && i < have && i < n; i++)
		list[i] = v[i].device; /* sorted by ordinal */
	if (rc == RC_OK && have != n)
		rc = err_set(err, RC_FAILED, "needs %zu devices; %zu are available", n, have);
	free(v);
	if (rc == RC_OK)
		*out = list;
	else
		free(list);
	return rc;
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
				    .say = replay_say};
	enum rc rc = make_folder(st, wanted, err);

	snprintf(mem, sizeof mem, "%" PRIu64, 3 * room + MEM_MIN);
	if (!s->proc[0].by_memory)
		setenv("GPUSIM_P2P_LEVEL", "LOC", 1);
	else
		unsetenv("GPUSIM_P2P_LEVEL");
	if (rc == RC_OK)
		rc = launch_start(&cfg, &st->launch, err);
	if (rc == RC_OK)
		rc = api(gpusim_open(launch_coordinator(st->launch), &st->g), err);
	return rc == RC_OK ? replay_devices(st->g, s->nprocs, &st->device, err) : rc;
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
say_result(const struct story *s, const struct replay_map *map, const struct replay_result *r)
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
			say_result(s, &map, &result);
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
