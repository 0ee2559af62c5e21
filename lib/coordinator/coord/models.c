#include "coord/models.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* An upload. Its memory grows with the bytes received, not with the announced size. */
struct upload {
	uint64_t client; /* 0: none */
	uint64_t nbytes;
	struct model *model;
};

struct training {
	uint64_t id, version, used; /* id 0: none; used: order of use */
};

struct models {
	struct model *newest;
	struct upload upload[MODELS_MAX_UPLOADS];
	struct training training[MODELS_MAX_TRAININGS];
	uint64_t total, clock;
};

struct models *
models_new(void)
{
	return calloc(1, sizeof(struct models));
}

void
models_release(struct models *m, struct model *model)
{
	if (!model || --model->refs > 0)
		return;
	m->total -= model->bytes.len;
	buf_fini(&model->bytes);
	free(model);
}

static void
drop(struct models *m, struct upload *u)
{
	if (u->client == 0)
		return;
	m->total -= u->nbytes - u->model->bytes.len;
	models_release(m, u->model);
	*u = (struct upload){0};
}

void
models_free(struct models *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < MODELS_MAX_UPLOADS; i++)
		drop(m, &m->upload[i]);
	models_release(m, m->newest);
	free(m);
}

static struct upload *
find(struct models *m, uint64_t client)
{
	for (size_t i = 0; i < MODELS_MAX_UPLOADS; i++)
		if (m->upload[i].client == client)
			return &m->upload[i];
	return NULL;
}

void
models_gone(struct models *m, uint64_t client)
{
	struct upload *u = client ? find(m, client) : NULL;

	if (u)
		drop(m, u);
}

/* The entry of a training; make: else replace the one that has been silent longest. */
static struct training *
training(struct models *m, uint64_t id, bool make)
{
	struct training *t = &m->training[0];

	for (size_t i = 0; i < MODELS_MAX_TRAININGS; i++) {
		if (m->training[i].id == id)
			return &m->training[i];
		if (m->training[i].used < t->used)
			t = &m->training[i];
	}
	if (!make)
		return NULL;
	*t = (struct training){.id = id};
	return t;
}

static enum rc
check_version(struct models *m, const struct model_piece *p, struct err *err)
{
	const struct training *t = training(m, p->training, false);

	if (t && p->version <= t->version)
		return err_set(err, RC_INVAL,
			       "training %016" PRIx64 ": version %" PRIu64
			       " is not newer than version %" PRIu64,
			       p->training, p->version, t->version);
	return RC_OK;
}

static enum rc
begin(struct models *m, const struct model_piece *p, struct err *err)
{
	struct upload *u = find(m, 0);
	enum rc rc = check_version(m, p, err);

	if (rc != RC_OK)
		return rc;
	if (p->training == 0 || p->nbytes == 0 || p->nbytes > MODELS_MAX_BYTES)
		return err_set(err, RC_INVAL, "a model of %" PRIu64 " bytes: must be 1 to %" PRIu64,
			       p->nbytes, (uint64_t)MODELS_MAX_BYTES);
	if (!u || m->total + p->nbytes > MODELS_MAX_TOTAL)
		return err_set(err, RC_BUSY, "too many uploads of models: try again later");
	u->model = calloc(1, sizeof *u->model);
	if (!u->model)
		return err_set(err, RC_NOMEM, "out of memory");
	*u->model = (struct model){.training = p->training, .version = p->version, .refs = 1};
	u->client = p->client;
	u->nbytes = p->nbytes;
	m->total += p->nbytes;
	return RC_OK;
}

/* The upload is complete: it becomes the newest, unless a newer version overtook it. */
static enum rc
finish(struct models *m, struct upload *u, const struct model_piece *p, struct err *err)
{
	enum rc rc = check_version(m, p, err);
	struct training *t;

	if (rc != RC_OK)
		return rc;
	t = training(m, p->training, true);
	t->version = p->version;
	t->used = ++m->clock;
	models_release(m, m->newest);
	m->newest = u->model;
	*u = (struct upload){0};
	return RC_OK;
}

static enum rc
take(struct models *m, struct upload *u, const struct model_piece *p, struct err *err)
{
	struct model *model = u->model;

	if (p->training != model->training || p->version != model->version ||
	    p->nbytes != u->nbytes || p->offset != model->bytes.len)
		return err_set(err, RC_INVAL, "piece at offset %" PRIu64 ": expected offset %zu",
			       p->offset, model->bytes.len);
	if (p->ndata == 0 || p->ndata > u->nbytes - p->offset)
		return err_set(err, RC_INVAL, "piece of %zu bytes: only %" PRIu64 " are missing",
			       p->ndata, u->nbytes - p->offset);
	if (!buf_add(&model->bytes, p->data, p->ndata))
		return err_set(err, RC_NOMEM, "out of memory");
	return model->bytes.len == u->nbytes ? finish(m, u, p, err) : RC_OK;
}

enum rc
models_put(struct models *m, const struct model_piece *p, struct err *err)
{
	struct upload *u;
	enum rc rc = RC_OK;

	if (p->client == 0)
		return err_set(err, RC_INVAL, "a model without a client");
	if (p->offset == 0) {
		models_gone(m, p->client);
		rc = begin(m, p, err);
	}
	if (rc != RC_OK)
		return rc;
	u = find(m, p->client);
	if (!u)
		return err_set(err, RC_INVAL,
			       "piece at offset %" PRIu64 " of a model that was not begun",
			       p->offset);
	rc = take(m, u, p, err);
	if (rc != RC_OK)
		drop(m, u);
	return rc;
}

struct model *
models_hold(struct models *m)
{
	if (m->newest)
		m->newest->refs++;
	return m->newest;
}
