/*
 * algos.c - algorithms from files, kept by name until they are removed or their clients disconnect; their records,
 * all that the next coordinator needs to run them.
 */
#include "coord/algos/algos_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/schedule.h"

enum rc
algos_init(struct coord *c)
{
	c->algos = alloc_zeroed(1, sizeof *c->algos);
	return c->algos ? RC_OK : RC_NOMEM;
}

void
kept_free(struct kept *k)
{
	if (!k)
		return;
	for (uint32_t r = 0; k->schedule && r < k->info.nranks; r++)
		buf_fini(&k->schedule[r]);
	free(k->schedule);
	free(k->holder);
	free(k);
}

void
upload_end(struct upload *u)
{
	buf_fini(&u->bytes);
	buf_fini(&u->ask);
	*u = (struct upload){0};
}

void
algos_fini(struct coord *c)
{
	struct algos *a = c->algos;

	if (!a)
		return;
	for (size_t i = 0; i < a->files.n; i++)
		kept_free(a->files.v[i].of);
	for (size_t i = 0; i < COORD_ALGO_UPLOADS; i++)
		upload_end(&a->upload[i]);
	free(a->files.v);
	free(a);
}

const struct tune_files *
algos_files(const struct coord *c)
{
	return &c->algos->files;
}

const struct buf *
algo_schedule(const struct tune_file *f, uint32_t rank)
{
	const struct kept *k = f->of;

	return &k->schedule[rank];
}

uint64_t
algo_id(const struct tune_file *f)
{
	return ((const struct kept *)f->of)->id;
}

size_t
algo_schedule_max(const struct tune_file *f)
{
	const struct kept *k = f->of;
	size_t max = 0;

	for (uint32_t r = 0; r < k->info.nranks; r++)
		max = k->schedule[r].len > max ? k->schedule[r].len : max;
	return max;
}

/* The tuner's description of the algorithm. */
static struct tune_file
kept_file(struct kept *k)
{
	struct tune_file f = {.coll = (enum gpusim_coll)k->info.coll,
			      .nranks = k->info.nranks,
			      .root = k->info.root,
			      .min_bytes = k->info.minbytes,
			      .max_bytes = k->info.maxbytes,
			      .of = k};

	snprintf(f.name, sizeof f.name, "%s", k->name);
	return f;
}

bool
kept_hold(const struct coord *c, struct kept *k, uint64_t client)
{
	struct holder *v;

	if (client == 0) {
		k->nholders = 0;
		k->info.lease = false;
		return true;
	}
	for (size_t i = 0; i < k->nholders; i++)
		if (k->holder[i].client == client)
			return true;
	v = alloc_resize(k->holder, k->nholders + 1, sizeof *v);
	if (!v)
		return false;
	k->holder = v;
	v[k->nholders++] = (struct holder){.client = client, .gone_ms = c->now_ms};
	k->info.lease = true;
	return true;
}

static size_t
index_of(const struct algos *a, const struct tune_file *f)
{
	return (size_t)(f - a->files.v);
}

/* ---- records */

static void
key_of(const struct kept *k, char key[static RECORD_KEY_MAX])
{
	snprintf(key, RECORD_KEY_MAX, ALGO_KEY "%s", k->name);
}

static void
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

static void
drop(struct coord *c, size_t i)
{
	struct algos *a = c->algos;
	struct kept *k = a->files.v[i].of;

	algo_unrecord(c, k);
	a->nbytes -= k->nbytes;
	kept_free(k);
	a->files.n--;
	memmove(&a->files.v[i], &a->files.v[i + 1], (a->files.n - i) * sizeof *a->files.v);
}

enum rc
algos_keep(struct coord *c, struct kept *k, struct err *err)
{
	struct algos *a = c->algos;
	const struct tune_file *old = tune_file_find(&a->files, k->name);
	size_t taken = old ? ((struct kept *)old->of)->nbytes : 0, i = 0;
	struct tune_file *v;

	if (!old && a->files.n == COORD_MAX_ALGOS)
		return err_set(err, RC_BUSY,
			       "%d algorithms from files exist, which is the limit: remove one",
			       COORD_MAX_ALGOS);
	if (a->nbytes - taken + k->nbytes > COORD_ALGOS_BYTES)
		return err_set(err, RC_BUSY,
			       "algorithms from files would take more than %u MiB: remove one",
			       COORD_ALGOS_BYTES >> 20);
	v = alloc_resize(a->files.v, a->files.n + 1, sizeof *v);
	if (!v)
		return err_set(err, RC_NOMEM, "out of memory");
	a->files.v = v;
	if (old)
		drop(c, index_of(a, tune_file_find(&a->files, k->name)));
	while (i < a->files.n && strcmp(v[i].name, k->name) < 0)
		i++;
	memmove(&v[i + 1], &v[i], (a->files.n - i) * sizeof *v);
	k->id = ++a->last_id;
	v[i] = kept_file(k);
	a->files.n++;
	a->nbytes += k->nbytes;
	return RC_OK;
}

/* ---- restored */

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

/* ---- leases */

void
algos_client_is(struct coord *c, uint64_t client_id, bool gone)
{
	struct algos *a = c->algos;

	for (size_t i = 0; i < a->files.n; i++) {
		struct kept *k = a->files.v[i].of;

		for (size_t h = 0; h < k->nholders; h++)
			if (k->holder[h].client == client_id && k->holder[h].gone != gone) {
				k->holder[h].gone = gone;
				k->holder[h].gone_ms = c->now_ms;
			}
	}
	for (size_t i = 0; i < COORD_ALGO_UPLOADS; i++) {
		struct upload *u = &a->upload[i];

		if (u->client != client_id || u->gone == gone)
			continue;
		u->gone = gone;
		if (gone && !u->job)
			upload_end(u);
	}
}

/* All clients that lease it are disconnected; long enough for the lease to end. */
static bool
is_away(const struct kept *k)
{
	for (size_t h = 0; h < k->nholders; h++)
		if (!k->holder[h].gone)
			return false;
	return k->nholders > 0;
}

static bool
is_deserted(const struct coord *c, const struct kept *k)
{
	for (size_t h = 0; h < k->nholders; h++)
		if (c->now_ms < k->holder[h].gone_ms + TIME_LEASE_MS)
			return false;
	return is_away(k);
}

void
algos_tick(struct coord *c)
{
	for (size_t i = c->algos->files.n; i-- > 0;) {
		const struct kept *k = c->algos->files.v[i].of;

		if (!is_deserted(c, k))
			continue;
		act_log(c, "algorithm %s removed: its client disconnected", k->name);
		drop(c, i);
	}
}

void
algos_resume(struct coord *c)
{
	for (size_t i = 0; i < c->algos->files.n; i++) {
		struct kept *k = c->algos->files.v[i].of;

		for (size_t h = 0; h < k->nholders; h++) {
			k->holder[h].gone = true;
			k->holder[h].gone_ms = c->now_ms + TIME_RETURN_MS - TIME_LEASE_MS;
		}
	}
}

/* ---- requests */

enum rc
on_algo_remove(struct coord *c, struct pending *p, const GpuSim__Request *req, struct err *err)
{
	const char *name = req->algoremove->name;
	const struct tune_file *f = tune_file_find(&c->algos->files, name);

	if (!f && plan_algo_is_built_in(name))
		return err_set(err, RC_INVAL, "algorithm '%s' is built in", name);
	if (!f)
		return err_set(err, RC_NOTFOUND, "no algorithm '%s' from a file", name);
	if (tuner_names_file(c->cfg.tuner, name))
		return err_set(err, RC_BUSY,
			       "algorithm %s is in use: the tuner file or GPUSIM_ALGO names it",
			       name);
	drop(c, index_of(c->algos, f));
	act_log(c, "algorithm %s removed", name);
	answer_done(c, p);
	return RC_OK;
}

enum rc
on_algo_list(struct coord *c, struct pending *p, const GpuSim__Request *req, struct err *err)
{
	GpuSim__AlgoListResponse r = GPU_SIM__ALGO_LIST_RESPONSE__INIT;
	GpuSim__AlgoInfo *info[COORD_MAX_ALGOS];

	(void)req;
	(void)err;
	r.algos = info;
	for (size_t i = 0; i < c->algos->files.n; i++) {
		struct kept *k = c->algos->files.v[i].of;

		/* Do not show algorithms that are about to be removed. */
		if (!is_away(k))
			info[r.n_algos++] = &k->info;
	}
	answer_body(c, p, GPU_SIM__REPLY__BODY_ALGO_LIST, &r);
	return RC_OK;
}
