/*
 * persist.c - stores a step's records before its other actions, and restores another coordinator's records.
 *
 * Each room makes and restores its own records. This file calls the rooms in order, and owns the record
 * of the numbers that must not be given twice.
 */
#include "coord/persist/persist_impl.h"

#include <inttypes.h>
#include <string.h>

enum rc
persist_init(struct coord *c)
{
	c->persist = alloc_zeroed(1, sizeof *c->persist);
	return c->persist ? RC_OK : RC_NOMEM;
}

static void
put_meta(struct coord *c)
{
	GpuSim__MetaRecord m = GPU_SIM__META_RECORD__INIT;
	uint64_t mark;

	m.instance = c->cfg.instance;
	m.lastcomm = comms_last(c);
	runs_reserve_numbers(c, &m.lastrun, &m.lastgraph);
	mark = record_mix(record_mix(record_mix(1, m.lastcomm), m.lastrun), m.lastgraph);
	if (c->persist->meta == mark)
		return;
	c->persist->meta = mark;
	m.version = RECORD_VERSION;
	record_put(c, "0/meta", &m.base, true);
}

/* ---- a step */

/* Move the records to the front, keeping the order otherwise. */
static void
sort_actions(struct coord_actions *a)
{
	size_t nstore = 0;

	for (size_t i = 0; i < a->n; i++) {
		struct coord_action store;

		if (a->v[i].kind != COORD_STORE)
			continue;
		store = a->v[i];
		memmove(&a->v[nstore + 1], &a->v[nstore], (i - nstore) * sizeof *a->v);
		a->v[nstore++] = store;
	}
}

void
persist_step(struct coord *c)
{
	if (!c->cfg.persists)
		return;
	put_meta(c);
	devices_record(c);
	for (struct comm *comm = comm_next(c, NULL); comm; comm = comm_next(c, comm)) {
		comm_record(c, comm, runs_reserve(comm));
		runs_record(c, comm);
	}
	sort_actions(c->out);
}

/* ---- a commit that failed */

static void
fail_answer(struct coord_action *a, const struct err *why)
{
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	struct buf body = {0};
	struct err err;

	err_set(&err, RC_FAILED, "the coordinator cannot store its state: %s", why->text);
	wire_reply_failure(&reply, &err);
	if (!buf_pack(&body, &reply.base))
		return;
	buf_fini(&a->body);
	a->body = body;
}

void
persist_uncommitted(struct coord *c, const struct err *why, struct coord_actions *out)
{
	size_t n;

	c->refuse = *why;
	n = out->n; /* remove the records */
	out->n = 0;
	for (size_t i = 0; i < n; i++)
		if (out->v[i].kind == COORD_STORE)
			buf_fini(&out->v[i].body);
		else
			out->v[out->n++] = out->v[i];
	n = out->n;
	for (size_t i = 0; i < n; i++) {
		if (out->v[i].kind != COORD_ANSWER || !out->v[i].promise)
			continue;
		fail_answer(&out->v[i], why);
		/* Its client will never learn of it. */
		comm_disown(c, out->v[i].made);
	}
}

/* ---- another coordinator's records */

static enum rc
restore_meta(struct coord *c, const char *key, const uint8_t *value, size_t n, struct err *err)
{
	GpuSim__MetaRecord *m = gpu_sim__meta_record__unpack(NULL, n, value);

	if (!m)
		return record_nonsense(key, err);
	if (m->version > RECORD_VERSION) {
		err_set(err, RC_BADDATA,
			"a newer gpusim stored this state: its records have version %" PRIu32
			", this version reads up to %d",
			m->version, RECORD_VERSION);
		gpu_sim__meta_record__free_unpacked(m, NULL);
		return err->rc;
	}
	c->cfg.instance = m->instance;
	comms_set_last(c, m->lastcomm);
	runs_restore_numbers(c, m->lastrun, m->lastgraph);
	gpu_sim__meta_record__free_unpacked(m, NULL);
	return RC_OK;
}

static enum rc
restore_comm(struct coord *c, const char *key, const uint8_t *value, size_t n, struct err *err)
{
	struct comm *comm;
	uint64_t next_seq;
	enum rc rc = comm_restore(c, key, value, n, &comm, &next_seq, err);

	if (rc == RC_OK)
		runs_restore_seq(comm, next_seq);
	return rc;
}

enum rc
persist_restore(struct coord *c, const char *key, const void *value, size_t nbytes,
		struct coord_actions *out, struct err *err)
{
	static const struct {
		const char *prefix;
		restore_record *restore;
	} kinds[] = {
	    {"0/meta", restore_meta},	  {ALGO_KEY, algo_restore}, {"1/device/", device_restore},
	    {"2/comm/", restore_comm},	  {"2/ops/", ops_restore},  {"2/pairs/", pairs_restore},
	    {"3/graph/", graph_restore},  {"4/run/", run_restore},  {"5/reply/", reply_restore},
	    {"6/event/", events_restore},
	};
	struct coord_actions none = {0};
	const size_t nkinds = sizeof kinds / sizeof kinds[0];
	size_t i = 0;
	enum rc rc;

	while (i < nkinds && strncmp(key, kinds[i].prefix, strlen(kinds[i].prefix)) != 0)
		i++;
	if (i == nkinds)
		return record_nonsense(key, err);
	c->out = kinds[i].restore == reply_restore ? out : &none; /* drops old log lines */
	rc = kinds[i].restore(c, key, value, nbytes, err);
	c->out = NULL;
	coord_actions_fini(&none);
	/* A clean end leaves only these; nothing continues then. */
	c->persist->resumes |= kinds[i].restore != algo_restore;
	return rc;
}

bool
persist_resume(struct coord *c)
{
	struct comm *next;

	if (!c->persist->resumes)
		return false;
	c->persist->resumes = false;
	for (size_t at = 0; at < c->persist->stale.len;
	     at += strlen(c->persist->stale.data + at) + 1)
		record_put(c, c->persist->stale.data + at, NULL, false);
	buf_fini(&c->persist->stale);
	algos_resume(c);
	devices_resume(c);
	replies_resume(c);
	pendings_resume(c);
	for (struct comm *comm = comm_next(c, NULL); comm; comm = next) {
		next = comm_next(c, comm);
		if (comm_is_live(comm)) {
			comm_resume(c, comm);
			runs_resume_live(c, comm);
		} else {
			runs_resume_failed(comm);
			comm_resume(c, comm);
		}
	}
	event_add(c, &(struct event){.kind = GPU_SIM__EVENT_KIND__STARTED},
		  "the coordinator was restarted, with %zu device%s and %u communicator%s",
		  devices_count(c), devices_count(c) == 1 ? "" : "s", comms_count(c),
		  comms_count(c) == 1 ? "" : "s");
	act_log(c, "restored %zu devices, %u communicators", devices_count(c), comms_count(c));
	return true;
}
