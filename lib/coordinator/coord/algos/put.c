/*
 * put.c - a client's or a configured file becomes an algorithm: gathered from its pieces, parsed, verified,
 * lowered and packed beside the steps, one file at a time.
 */
#include "coord/algos/algos_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"

/* ---- checks before the work */

static uint64_t
count_steps(const struct algo *a)
{
	uint64_t n = 0;

	for (uint32_t r = 0; r < a->nranks; r++)
		for (size_t b = 0; b < a->rank[r].nblock; b++)
			n += a->rank[r].block[b].nstep;
	return n;
}

/* The name under which to keep it. */
static enum rc
choose_name(const struct algo *a, const char *name, uint64_t client, const char *digest,
	    char out[static TUNE_FILE_NAME], struct err *err)
{
	if (!*name && client)
		snprintf(out, TUNE_FILE_NAME, "%.*s.%s", (int)(TUNE_FILE_NAME - 18), a->name,
			 digest);
	else if (!tune_is_name(*name ? name : a->name))
		return err_set(
		    err, RC_INVAL,
		    "'%s' is not an algorithm name: it may have letters, digits, . _ - and "
		    "at most %d characters",
		    *name ? name : a->name, TUNE_FILE_NAME - 1);
	else
		snprintf(out, TUNE_FILE_NAME, "%s", *name ? name : a->name);
	if (plan_algo_is_built_in(out))
		return err_set(err, RC_INVAL, "algorithm '%s' is built in: choose another name",
			       out);
	return RC_OK;
}

/* ---- the work */

static bool
pack_all(struct schedule *s, struct kept *k)
{
	k->schedule = alloc_zeroed(k->info.nranks, sizeof *k->schedule);
	for (uint32_t r = 0; k->schedule && r < k->info.nranks; r++) {
		snprintf(s[r].name, sizeof s[r].name, "%s", k->name);
		if (!schedule_pack(&s[r], &k->schedule[r]))
			return false;
		k->nbytes += k->schedule[r].len;
	}
	return k->schedule != NULL;
}

static enum rc
check_packed(const struct kept *k, struct err *err)
{
	for (uint32_t r = 0; r < k->info.nranks; r++)
		if (k->schedule[r].len > WIRE_SCHEDULE_MAX)
			return err_set(err, RC_INVAL,
				       "algorithm %s needs %zu bytes for rank %u; the limit is %u",
				       k->name, k->schedule[r].len, r, WIRE_SCHEDULE_MAX);
	if (k->nbytes > COORD_ALGO_BYTES)
		return err_set(err, RC_INVAL, "algorithm %s needs %zu bytes; the limit is %u",
			       k->name, k->nbytes, COORD_ALGO_BYTES);
	return RC_OK;
}

static void
fill_info(const struct algo *a, const struct proof *proof, struct kept *k)
{
	k->info = (GpuSim__AlgoInfo)GPU_SIM__ALGO_INFO__INIT;
	k->info.name = k->name;
	k->info.digest = k->digest;
	k->info.coll = (GpuSim__Collective)a->coll;
	k->info.nranks = a->nranks;
	k->info.root = a->root;
	k->info.chunks = a->nchunks;
	k->info.inplace = a->in_place;
	k->info.outofplace = a->out_of_place;
	k->info.minbytes = a->min_bytes;
	k->info.maxbytes = a->max_bytes;
	k->info.slots = proof->min_slots;
	k->info.steps = count_steps(a);
	k->info.messages = proof->nmessages;
}

/* Verify the algorithm and make each rank's schedule. */
static enum rc
make(const struct algo *a, const char *name, const char *digest, struct kept **out, struct err *err)
{
	struct kept *k = alloc_zeroed(1, sizeof *k);
	struct schedule *s = NULL;
	struct proof proof = {0};
	enum rc rc = k ? algo_prove(a, &proof, err) : err_set(err, RC_NOMEM, "out of memory");

	if (rc == RC_OK)
		rc = algo_lower(a, NULL, &s, err);
	if (rc == RC_OK) {
		k->schedules = s[0].digest;
		snprintf(k->name, sizeof k->name, "%s", name);
		snprintf(k->digest, sizeof k->digest, "%s", digest);
		fill_info(a, &proof, k);
		rc =
		    pack_all(s, k) ? check_packed(k, err) : err_set(err, RC_NOMEM, "out of memory");
	}
	schedule_free_all(s, a->nranks);
	if (rc != RC_OK) {
		kept_free(k);
		return rc;
	}
	*out = k;
	return RC_OK;
}

/* Write the file to the recording, once. */
static void
tell(struct coord *c, struct kept *k, ProtobufCBinaryData text)
{
	struct coord_action a = {.kind = COORD_ALGO};
	GpuSim__TapeAlgo m = GPU_SIM__TAPE_ALGO__INIT;

	if (!c->cfg.records || k->recorded)
		return;
	m.name = k->name;
	m.schedule = k->schedules;
	m.text = text;
	if (buf_pack(&a.body, &m.base))
		act(c, &a);
	k->recorded = true;
}

static void
prove(struct coord_proof *p, const atomic_bool *stop)
{
	const GpuSim__AlgoPutRequest *q = p->ask;
	struct algo_budget budget = {COORD_ALGO_STEPS, COORD_ALGO_WORK, 0, stop};
	const char *path = *q->path ? q->path : "algorithm";
	char own[TUNE_FILE_NAME], digest[17];
	struct algo *a = NULL;
	struct err *err = &p->err;
	enum rc rc = algo_parse((const char *)q->data.data, q->data.len, path, &budget, &a, err);

	if (rc == RC_OK && a->custom)
		rc = err_set(err, RC_INVAL,
			     "algorithm %s is a custom collective, which can be shown and "
			     "simulated but not run",
			     a->name);
	if (rc == RC_OK) {
		algo_digest(a, digest);
		rc = choose_name(a, q->name, q->lease, digest, own, err);
	}
	if (rc == RC_OK)
		rc = make(a, own, digest, &p->kept, err);
	if (a && (rc == RC_BADDATA || budget.work == budget.max_work))
		err_prefix(err, "%s", path);
	algo_free(a);
}

struct coord_proof *
coord_prove(const struct buf *body, const atomic_bool *stop)
{
	struct coord_proof *p = alloc_zeroed(1, sizeof *p);

	if (!p)
		return NULL;
	p->ask = gpu_sim__algo_put_request__unpack(NULL, body->len, (const uint8_t *)body->data);
	if (p->ask)
		prove(p, stop);
	else
		err_set(&p->err, RC_NOMEM, "out of memory");
	return p;
}

void
coord_proof_free(struct coord_proof *p)
{
	if (!p)
		return;
	kept_free(p->kept);
	if (p->ask)
		gpu_sim__algo_put_request__free_unpacked(p->ask, NULL);
	free(p);
}

/* Add a verified algorithm for the client; 0: without a lease. */
static enum rc
add(struct coord *c, struct coord_proof *p, uint64_t client, struct kept **out, struct err *err)
{
	struct kept *k = p->kept;
	const struct tune_file *f = k ? tune_file_find(algos_files(c), k->name) : NULL;
	struct kept *old = f ? f->of : NULL;
	bool same = old && strcmp(old->digest, k->digest) == 0;

	if (!k)
		return (*err = p->err).rc;
	if (old && !same && !p->ask->replace)
		return err_set(err, RC_BUSY,
			       "a different algorithm %s exists: remove or replace it", k->name);
	if (same) {
		k = old;
		k->configured &= !c->started || client != 0;
	} else {
		k->configured = !c->started;
	}
	/* An algorithm without a lease stays without one. */
	if ((!same || !client || k->info.lease) && !kept_hold(c, k, client))
		return err_set(err, RC_NOMEM, "out of memory");
	if (!same && algos_keep(c, k, err) != RC_OK)
		return err->rc;
	algo_record(c, k);
	if (!same) {
		p->kept = NULL;
		act_log(c, "algorithm %s: %s of %u ranks, %zu bytes", k->name,
			coll_name((enum gpusim_coll)k->info.coll), k->info.nranks, k->nbytes);
	}
	tell(c, k, p->ask->data);
	*out = k;
	return RC_OK;
}

enum rc
algos_add_text(struct coord *c, const char *bytes, size_t n, const char *path, struct err *err)
{
	GpuSim__AlgoPutRequest q = GPU_SIM__ALGO_PUT_REQUEST__INIT;
	struct coord_proof *p = NULL;
	struct buf ask = {0};
	struct kept *k;
	enum rc rc;

	if (n > COORD_ALGO_FILE)
		return err_set(err, RC_INVAL, "algorithm file: %zu bytes; the limit is %u", n,
			       COORD_ALGO_FILE);
	q.path = (char *)path;
	q.data = (ProtobufCBinaryData){n, (uint8_t *)bytes};
	q.replace = true;
	if (buf_pack(&ask, &q.base))
		p = coord_prove(&ask, NULL);
	rc = p ? add(c, p, 0, &k, err) : err_set(err, RC_NOMEM, "out of memory");
	coord_proof_free(p);
	buf_fini(&ask);
	return rc;
}

/* ---- pieces */

static struct upload *
upload_of(struct algos *a, uint64_t client)
{
	for (size_t i = 0; i < COORD_ALGO_UPLOADS; i++)
		if (a->upload[i].client == client && !a->upload[i].job)
			return &a->upload[i];
	return NULL;
}

static enum rc
check_piece(const GpuSim__AlgoPutRequest *q, struct err *err)
{
	if (q->nbytes == 0 || q->nbytes > COORD_ALGO_FILE)
		return err_set(err, RC_INVAL, "algorithm file: %" PRIu64 " bytes; must be 1 to %u",
			       q->nbytes, COORD_ALGO_FILE);
	if (q->data.len == 0 || q->data.len > WIRE_BULK_MAX || q->offset > q->nbytes ||
	    q->data.len > q->nbytes - q->offset)
		return err_set(err, RC_INVAL,
			       "algorithm file: piece of %zu bytes at offset %" PRIu64
			       " of %" PRIu64,
			       q->data.len, q->offset, q->nbytes);
	return RC_OK;
}

/* Add the piece to the client's upload. *out is the upload when complete, or NULL. */
static enum rc
gather(struct coord *c, uint64_t client, const GpuSim__AlgoPutRequest *q, struct upload **out,
       struct err *err)
{
	struct upload *u = upload_of(c->algos, client);

	*out = NULL;
	if (check_piece(q, err) != RC_OK)
		return err->rc;
	if (q->offset == 0) {
		if (u)
			upload_end(u);
		else
			u = upload_of(c->algos, 0);
		if (!u)
			return err_set(err, RC_BUSY,
				       "%d algorithm files are being uploaded: try again later",
				       COORD_ALGO_UPLOADS);
		u->client = client;
		u->nbytes = q->nbytes;
	}
	if (!u || u->nbytes != q->nbytes || u->bytes.len != q->offset)
		return err_set(err, RC_NOTFOUND,
			       "algorithm file: piece at offset %" PRIu64
			       ": the pieces before it are missing",
			       q->offset);
	if (!buf_add(&u->bytes, q->data.data, q->data.len)) {
		upload_end(u);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	if (u->bytes.len == u->nbytes)
		*out = u;
	return RC_OK;
}

/* ---- proofs, one at a time */

static struct upload *
job_of(struct algos *a, uint64_t job)
{
	for (size_t i = 0; job && i < COORD_ALGO_UPLOADS; i++)
		if (a->upload[i].job == job)
			return &a->upload[i];
	return NULL;
}

static void
left(struct coord *c, struct pending *p)
{
	struct upload *u = job_of(c->algos, pending_id(p));

	if (u)
		upload_end(u);
}

static bool
name_proof(struct coord *c, struct pending *p, struct err *err)
{
	err_set(err, RC_TIMEOUT, "the algorithm was not verified within %.1fs",
		(double)(c->now_ms - pending_asker(p)->asked_ms) / 1e3);
	return false;
}

static const struct wait wait_proof = {.idle = true, .late = name_proof, .left = left};

/* Start the proof of the upload that has waited longest. */
static void
next_proof(struct coord *c)
{
	struct coord_action prove = {.kind = COORD_PROVE};
	struct algos *a = c->algos;
	struct upload *u = NULL;

	for (size_t i = 0; i < COORD_ALGO_UPLOADS; i++)
		if (a->upload[i].job && (!u || a->upload[i].job < u->job))
			u = &a->upload[i];
	if (!u || a->proving)
		return;
	a->proving = prove.token = u->job;
	prove.body = u->ask;
	u->ask = (struct buf){0};
	if (!act(c, &prove))
		algos_proven(c, u->job, NULL);
}

/* Answer the request; the upload ends. */
static void
finish(struct coord *c, struct upload *u, struct coord_proof *proof)
{
	GpuSim__AlgoPutResponse r = GPU_SIM__ALGO_PUT_RESPONSE__INIT;
	struct pending *p = pending_find(c, &wait_proof, u->job);
	struct err err = {RC_NOMEM, "out of memory"};
	struct kept *k;
	enum rc rc = RC_NOMEM;

	if (proof)
		rc = add(c, proof, proof->ask && proof->ask->lease ? u->client : 0, &k, &err);
	if (u->gone)
		algos_client_is(c, u->client, true);
	if (rc != RC_OK) {
		answer_failure(c, p, &err);
		return;
	}
	r.algo = &k->info;
	answer_body(c, p, GPU_SIM__REPLY__BODY_ALGO_PUT, &r);
}

void
algos_proven(struct coord *c, uint64_t job, struct coord_proof *proof)
{
	struct upload *u = job_of(c->algos, job);

	c->algos->proving = 0;
	if (u)
		finish(c, u, proof);
	coord_proof_free(proof);
	next_proof(c);
}

enum rc
on_algo_put(struct coord *c, struct pending *p, const GpuSim__Request *req, struct err *err)
{
	GpuSim__AlgoPutRequest q = *req->algoput;
	struct upload *u;
	enum rc rc = gather(c, pending_asker(p)->client_id, &q, &u, err);

	if (rc != RC_OK)
		return rc;
	if (!u) {
		answer_done(c, p);
		return RC_OK;
	}
	q.data = (ProtobufCBinaryData){u->bytes.len, (uint8_t *)u->bytes.data};
	if (!buf_pack(&u->ask, &q.base)) {
		upload_end(u);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	u->job = ++c->algos->last_job;
	buf_fini(&u->bytes);
	pending_wait(c, p, &wait_proof, u->job, NULL);
	next_proof(c);
	return RC_OK;
}
