/* Recordings in memory: units and their order, and what differs between two. Folders are written as devices
 * write them. */
#include "folder.h"
#include "replay/replay.h"
#include "tap.h"
#include "tape/tape.h"

static struct tape *tape;

static void
begin(const char *dir, unsigned ordinal)
{
	GpuSim__TapeRecord r = GPU_SIM__TAPE_RECORD__INIT;
	GpuSim__TapeBegin m = GPU_SIM__TAPE_BEGIN__INIT;
	struct err err;
	char name[32];

	snprintf(name, sizeof name, "device-%u", ordinal);
	if (tape_open(dir, name, true, NULL, &tape, &err) != RC_OK)
		tap_bail(err.text);
	m.ordinal = ordinal;
	m.withdata = true;
	m.dataaddress = (char *)"ipc:///x";
	r.body_case = GPU_SIM__TAPE_RECORD__BODY_BEGIN;
	r.begin = &m;
	tape_put(tape, &r);
}

static void
comm(uint64_t id, uint32_t rank, uint32_t nranks)
{
	GpuSim__TapeRecord r = GPU_SIM__TAPE_RECORD__INIT;
	GpuSim__TapeComm m = GPU_SIM__TAPE_COMM__INIT;

	m.commid = id;
	m.epoch = 1;
	m.rank = rank;
	m.nranks = nranks;
	r.body_case = GPU_SIM__TAPE_RECORD__BODY_COMM;
	r.comm = &m;
	tape_put(tape, &r);
}

/* An operation that ends with rc (or, below 0, does not) and a checksum. */
static uint64_t
op(uint64_t id, uint32_t rank, uint32_t nranks, enum gpusim_coll coll, uint64_t number,
   uint64_t set, unsigned stream, int rc, uint32_t crc)
{
	GpuSim__TapeRecord r = GPU_SIM__TAPE_RECORD__INIT;
	GpuSim__TapeOp m = GPU_SIM__TAPE_OP__INIT;
	GpuSim__TapeEnd e = GPU_SIM__TAPE_END__INIT;
	static uint64_t clock;

	m.number = e.number = tape_number(tape);
	m.commid = id;
	m.epoch = 1;
	m.rank = rank;
	m.nranks = nranks;
	m.op = number;
	m.set = set == 1 ? m.number : set;
	m.stream = stream;
	m.coll = coll;
	m.dtype = GPUSIM_I32;
	m.algo = (char *)(coll == GPUSIM_ALLREDUCE ? "ring" : "direct");
	m.steps = 2;
	m.root = coll == GPUSIM_ALLREDUCE ? 0 : 1 - rank;
	m.atns = ++clock;
	r.body_case = GPU_SIM__TAPE_RECORD__BODY_OP;
	r.op = &m;
	tape_put(tape, &r);
	e.rc = (uint32_t)(rc < 0 ? 0 : rc);
	e.outcrc = crc;
	e.atns = ++clock;
	e.text = (char *)(rc ? "peer lost" : "");
	r.body_case = GPU_SIM__TAPE_RECORD__BODY_END;
	r.end = &e;
	if (rc >= 0)
		tape_put(tape, &r);
	return m.set;
}

static struct story *
story(const char *dir)
{
	struct story *s = NULL;
	struct err err = {0};

	if (story_read(dir, &s, &err) == RC_OK)
		story_units(s);
	else
		tap_bail(err.text);
	return s;
}

/* Two ranks, two all-reduces of two streams and a set of sends and receives both ways. One all-reduce ends with rc0 at
 * rank 0, then with rc at rank 1. */
static struct story *
write_pair(const char *name, int rc0, int rc, uint32_t crc)
{
	const char *dir = in_folder(name);

	mkdir(dir, 0700);
	for (unsigned r = 0; r < 2; r++) {
		uint64_t set;

		begin(dir, r);
		comm(1, r, 2);
		op(1, r, 2, GPUSIM_ALLREDUCE, r ? 1 : 0, 0, r ? 1 : 0, r ? 0 : rc0, 7);
		op(1, r, 2, GPUSIM_ALLREDUCE, r ? 0 : 1, 0, r ? 0 : 1, r ? rc : 0, crc);
		set = op(1, r, 2, r ? GPUSIM_RECV : GPUSIM_SEND, 100, 1, 0, 0, 7);
		op(1, r, 2, r ? GPUSIM_SEND : GPUSIM_RECV, 101, set, 0, 0, 7);
		tape_close(tape);
	}
	return story(dir);
}

static size_t
size(const struct story *s, size_t u)
{
	return s->unit[u + 1] - s->unit[u];
}

int
main(void)
{
	uint64_t ids[] = {1};
	struct replay_map map = {.comm = ids};
	struct replay_result r;
	struct story *same, *again, *other, *failed, *open, *late, *early;

	folder_begin();
	same = write_pair("same", 0, 0, 9);
	ok(same->nprocs == 2 && same->ncomms == 1 && same->nops == 8,
	   "processes, communicators, operations");
	ok(same->nunits == 3 && size(same, 0) == 2 && size(same, 1) == 2 && size(same, 2) == 4,
	   "two ranks' parts are a unit, and a set with all that it meets");
	ok(same->op[same->order[4]].set != 0, "the set comes behind the all-reduce of its stream");
	again = write_pair("again", 0, 0, 9);
	replay_compare(same, again, &map, &r);
	ok(r.same == 8 && r.differ == 0 && r.failed == 0, "the same: %s", r.first);
	other = write_pair("other", 0, 0, 10);
	/* Inputs of no bytes count as kept. */
	replay_compare(same, other, &map, &r);
	ok(r.differ == 2 &&
	       strstr(r.first,
		      "rank 1 (device 1): recorded output checksum 00000009; replayed 0000000a"),
	   "another result: %s", r.first);
	failed = write_pair("failed", 0, 1, 9);
	ok(story_unit_failed(failed, 0) || story_unit_failed(failed, 1), "a unit has failed");
	replay_compare(same, failed, &map, &r);
	ok(r.differ == 1 && strstr(r.first, "recorded: it succeeded; replayed: peer lost"),
	   "failed now: %s", r.first);
	replay_compare(failed, same, &map, &r);
	ok(r.differ == 1 && strstr(r.first, "recorded: peer lost; replayed: it succeeded"),
	   "failed then: %s", r.first);
	open = write_pair("open", 0, -1, 9);
	replay_compare(failed, open, &map, &r);
	ok(r.differ == 0 && r.failed == 1, "failed both times, each in its way: %s", r.first);
	late = write_pair("late", GPUSIM_ABORTED, GPUSIM_UNREACHABLE, 9);
	replay_compare(late, same, &map, &r);
	ok(r.differ == 0 && r.failed == 2, "aborted, which a rank found out later: %s", r.first);
	early = write_pair("early", GPUSIM_UNREACHABLE, GPUSIM_ABORTED, 9);
	replay_compare(early, same, &map, &r);
	ok(r.differ == 1, "a rank lost, and aborted therefore: %s", r.first);
	ids[0] = 2;
	replay_compare(same, again, &map, &r);
	ok(r.differ == 8 && strstr(r.first, "it did not begin"), "nothing came of it: %s", r.first);
	story_free(same);
	story_free(again);
	story_free(other);
	story_free(failed);
	story_free(open);
	story_free(late);
	story_free(early);
	folder_end();
	return tap_done();
}
