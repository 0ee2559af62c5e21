/*
 * put.c - a file becomes an algorithm that is kept: its pieces gathered, parsed, proven, lowered, packed.
 *
 * All of that is done in the step, so the limits of core/limits.h keep it under a second: nobody is answered meanwhile.
 */
#include "coord/algos/algos_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/lower.h"
#include "algo/prove.h"

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

static enum rc
check_size(const struct algo *a, struct err *err)
{
	uint64_t n = count_steps(a);

	if (n > COORD_ALGO_STEPS)
		return err_set(err, RC_INVAL,
			       "algorithm %s has %" PRIu64 " steps; the coordinator takes %u",
			       a->name, n, COORD_ALGO_STEPS);
	if (a->custom)
		return err_set(err, RC_INVAL,
			       "algorithm %s is custom: it can be shown and simulated, not run",
			       a->name);
	return RC_OK;
}

/* The name that it gets. */
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
		    "'%s' cannot be the name of an algorithm: letters, digits, . _ - and "
		    "at most %d of them",
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
				       "algorithm %s takes %zu bytes for rank %u, at most %u",
				       k->name, k->schedule[r].len, r, WIRE_SCHEDULE_MAX);
	if (k->nbytes > COORD_ALGO_BYTES)
		return err_set(err, RC_INVAL, "algorithm %s takes %zu bytes, at most %u", k->name,
			       k->nbytes, COORD_ALGO_BYTES);
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

/* Prove it and make each rank's schedule. */
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

/* Once, for whoever replays a recording. */
static void
tell(struct coord *c, struct kept *k, const char *bytes, size_t n)
{
	struct coord_action a = {.kind = COORD_ALGO};
	GpuSim__TapeAlgo m = GPU_SIM__TAPE_ALGO__INIT;

	if (!c->cfg.records || k->recorded)
		return;
	m.name = k->name;
	m.schedule = k->schedules;
	m.text = (ProtobufCBinaryData){n, (uint8_t *)bytes};
	if (buf_pack(&a.body, &m.base))
		act(c, &a);
	k->recorded = true;
}

static enum rc
hold(struct coord *c, struct kept *k, uint64_t client, struct err *err)
{
	if (!kept_hold(c, k, client))
		return err_set(err, RC_NOMEM, "out of memory");
	algo_record(c, k);
	return RC_OK;
}

static enum rc
add(struct coord *c, const struct algo *a, const char *name, bool replace, uint64_t client,
    const struct tune_file **out, struct err *err)
{
	char own[TUNE_FILE_NAME], digest[17];
	const struct tune_file *old;
	struct kept *k;
	enum rc rc = check_size(a, err);

	if (rc != RC_OK)
		return rc;
	algo_digest(a, digest);
	rc = choose_name(a, name, client, digest, own, err);
	old = rc == RC_OK ? tune_file_find(algos_files(c), own) : NULL;
	k = old ? old->of : NULL;
	if (k && strcmp(k->digest, digest) == 0) {
		/* One that stays is not made a leased one. */
		*out = old;
		k->configured &= !c->started || client != 0;
		return client && !k->info.lease ? RC_OK : hold(c, k, client, err);
	}
	if (k && !replace)
		return err_set(err, RC_BUSY,
			       "there is another algorithm %s: remove it, or replace it", own);
	if (rc == RC_OK)
		rc = make(a, own, digest, &k, err);
	if (rc != RC_OK)
		return rc;
	k->configured = !c->started;
	rc = kept_hold(c, k, client) ? algos_keep(c, k, err)
				     : err_set(err, RC_NOMEM, "out of memory");
	if (rc != RC_OK) {
		kept_free(k);
		return rc;
	}
	algo_record(c, k);
	act_log(c, "algorithm %s: %s of %u ranks, %zu bytes", k->name, coll_name(a->coll),
		a->nranks, k->nbytes);
	*out = tune_file_find(algos_files(c), own);
	return RC_OK;
}

enum rc
algos_add_text(struct coord *c, const char *bytes, size_t n, const char *path, const char *name,
	       bool replace, uint64_t client, const struct tune_file **out, struct err *err)
{
	struct algo *a = NULL;
	enum rc rc;

	if (n > COORD_ALGO_FILE)
		return err_set(err, RC_INVAL, "an algorithm's file of %zu bytes, at most %u", n,
			       COORD_ALGO_FILE);
	rc = algo_parse(bytes, n, path, &a, err);
	if (rc == RC_OK)
		rc = add(c, a, name, replace, client, out, err);
	if (a && rc == RC_BADDATA)
		err_prefix(err, "%s", path);
	if (rc == RC_OK)
		tell(c, (*out)->of, bytes, n);
	algo_free(a);
	return rc;
}

/* ---- pieces */

static struct upload *
upload_of(struct algos *a, uint64_t client)
{
	for (size_t i = 0; i < COORD_ALGO_UPLOADS; i++)
		if (a->upload[i].client == client)
			return &a->upload[i];
	return NULL;
}

static void
upload_end(struct upload *u)
{
	buf_fini(&u->bytes);
	*u = (struct upload){0};
}

static enum rc
check_piece(const GpuSim__AlgoPutRequest *q, struct err *err)
{
	if (q->nbytes == 0 || q->nbytes > COORD_ALGO_FILE)
		return err_set(err, RC_INVAL,
			       "an algorithm's file of %" PRIu64 " bytes: not 1 to %u", q->nbytes,
			       COORD_ALGO_FILE);
	if (q->data.len == 0 || q->data.len > WIRE_BULK_MAX || q->offset > q->nbytes ||
	    q->data.len > q->nbytes - q->offset)
		return err_set(err, RC_INVAL,
			       "a piece of %zu bytes at %" PRIu64 " of a file of %" PRIu64,
			       q->data.len, q->offset, q->nbytes);
	return RC_OK;
}

/* Add the piece to what the client has sent. *out is complete, or NULL. */
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
			return err_set(err, RC_BUSY, "%d files of algorithms come at this moment",
				       COORD_ALGO_UPLOADS);
		u->client = client;
		u->nbytes = q->nbytes;
	}
	if (!u || u->nbytes != q->nbytes || u->bytes.len != q->offset)
		return err_set(err, RC_INVAL,
			       "a piece at %" PRIu64
			       " of a file whose pieces before it are not here",
			       q->offset);
	if (!buf_add(&u->bytes, q->data.data, q->data.len)) {
		upload_end(u);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	if (u->bytes.len == u->nbytes)
		*out = u;
	return RC_OK;
}

enum rc
on_algo_put(struct coord *c, struct pending *p, const GpuSim__Request *req, struct err *err)
{
	GpuSim__AlgoPutResponse r = GPU_SIM__ALGO_PUT_RESPONSE__INIT;
	const GpuSim__AlgoPutRequest *q = req->algoput;
	uint64_t client = pending_asker(p)->client_id;
	const struct tune_file *f;
	struct upload *u;
	enum rc rc = gather(c, client, q, &u, err);

	if (rc != RC_OK)
		return rc;
	if (!u) {
		answer_done(c, p);
		return RC_OK;
	}
	rc = algos_add_text(c, u->bytes.data, u->bytes.len, *q->path ? q->path : "algorithm",
			    q->name, q->replace, q->lease ? client : 0, &f, err);
	upload_end(u);
	if (rc != RC_OK)
		return rc;
	r.algo = &((struct kept *)f->of)->info;
	answer_body(c, p, GPU_SIM__REPLY__BODY_ALGO_PUT, &r);
	return RC_OK;
}
