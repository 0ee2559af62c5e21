/*
 * record.c - the record of an algorithm from a file: all that the next coordinator needs to run it.
 */
#include "coord/algos/algos_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/schedule.h"

static void
key_of(const struct kept *k, char key[static RECORD_KEY_MAX])
{
	snprintf(key, RECORD_KEY_MAX, ALGO_KEY "%s", k->name);
}

void
algo_unrecord(struct coord *c, const struct kept *k)
{
	char key[RECORD_KEY_MAX];

	key_of(k, key);
	record_put(c, key, NULL, false);
}

void
algo_record(struct coord *c, const struct kept *k)
{
	GpuSim__AlgoRecord m = GPU_SIM__ALGO_RECORD__INIT;
	char key[RECORD_KEY_MAX];

	if (!c->cfg.persists)
		return;
	m.info = (GpuSim__AlgoInfo *)&k->info;
	m.configured = k->configured;
	m.schedules = alloc_zeroed(k->info.nranks, sizeof *m.schedules);
	m.clients = alloc_zeroed(k->nholders + 1, sizeof *m.clients);
	key_of(k, key);
	if (m.schedules && m.clients) {
		for (uint32_t r = 0; r < k->info.nranks; r++)
			m.schedules[m.n_schedules++] = (ProtobufCBinaryData){
			    k->schedule[r].len, (uint8_t *)k->schedule[r].data};
		for (size_t i = 0; i < k->nholders; i++)
			m.clients[m.n_clients++] = k->holder[i].client;
		record_put(c, key, &m.base, true);
	} else {
		act_log(c, "%s is not stored: out of memory", key);
	}
	free(m.schedules);
	free(m.clients);
}

/* The record is well-formed: one schedule a rank, all of one algorithm of that name. */
static bool
check_schedule(const GpuSim__AlgoRecord *m, uint32_t rank, uint64_t *digest)
{
	const ProtobufCBinaryData *b = &m->schedules[rank];
	struct schedule *s;
	struct err err;
	bool good;

	if (b->len > WIRE_SCHEDULE_MAX || schedule_unpack(b->data, b->len, &s, &err) != RC_OK)
		return false;
	if (rank == 0)
		*digest = s->digest;
	good = s->rank == rank && s->nranks == m->info->nranks && s->root == m->info->root &&
	       s->digest == *digest && (uint32_t)s->coll == (uint32_t)m->info->coll &&
	       strcmp(s->name, m->info->name) == 0;
	schedule_free_all(s, 1);
	return good;
}

static bool
check(const GpuSim__AlgoRecord *m)
{
	uint64_t digest = 0;

	if (!m->info || !tune_is_name(m->info->name) || plan_algo_is_built_in(m->info->name) ||
	    m->info->nranks < 1 || m->info->nranks > ALGO_MAX_RANKS ||
	    m->n_schedules != m->info->nranks || m->n_clients > WIRE_MAX_RANKS ||
	    strlen(m->info->digest) != 16)
		return false;
	for (uint32_t r = 0; r < m->info->nranks; r++)
		if (!check_schedule(m, r, &digest))
			return false;
	return true;
}

/* The schedules have passed the check. */
static uint64_t
schedules_digest(const struct buf *packed)
{
	struct schedule *s;
	struct err err;
	uint64_t digest;

	if (schedule_unpack(packed->data, packed->len, &s, &err) != RC_OK)
		return 0;
	digest = s->digest;
	schedule_free_all(s, 1);
	return digest;
}

static enum rc
add(struct coord *c, const char *key, const GpuSim__AlgoRecord *m, struct err *err)
{
	struct kept *k = alloc_zeroed(1, sizeof *k);
	bool good = k != NULL;

	if (k) {
		k->info = *m->info;
		snprintf(k->name, sizeof k->name, "%s", m->info->name);
		snprintf(k->digest, sizeof k->digest, "%s", m->info->digest);
		k->info.name = k->name;
		k->info.digest = k->digest;
		k->configured = m->configured;
		k->schedule = alloc_zeroed(m->info->nranks, sizeof *k->schedule);
		good = k->schedule != NULL;
	}
	for (uint32_t r = 0; good && r < m->info->nranks; r++) {
		good = buf_add(&k->schedule[r], m->schedules[r].data, m->schedules[r].len);
		k->nbytes += m->schedules[r].len;
	}
	if (good)
		k->schedules = schedules_digest(&k->schedule[0]);
	for (size_t i = 0; good && i < m->n_clients; i++)
		good = kept_hold(c, k, m->clients[i]);
	if (good && algos_keep(c, k, err) == RC_OK)
		return RC_OK;
	kept_free(k);
	return good ? record_nonsense(key, err) : record_nomem(key, err);
}

enum rc
algo_restore(struct coord *c, const char *key, const uint8_t *value, size_t n, struct err *err)
{
	GpuSim__AlgoRecord *m = gpu_sim__algo_record__unpack(NULL, n, value);
	enum rc rc = m && check(m) ? add(c, key, m, err) : record_nonsense(key, err);

	if (m)
		gpu_sim__algo_record__free_unpacked(m, NULL);
	return rc;
}

bool
algo_record_stays(const uint8_t *value, size_t n)
{
	GpuSim__AlgoRecord *m = gpu_sim__algo_record__unpack(NULL, n, value);
	bool stays = m && m->info && !m->info->lease && !m->configured;

	if (m)
		gpu_sim__algo_record__free_unpacked(m, NULL);
	return stays;
}
