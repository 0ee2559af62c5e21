#include "coord/curves.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

struct point {
	uint32_t epoch;
	uint64_t step;
	double loss, accuracy, rate;
};

struct curve {
	uint64_t training; /* 0: free */
	uint64_t at_ms;	   /* last message */
	uint64_t heard;	   /* order of the last message */
	uint32_t epochs;
	char name[CURVES_NAME];
	/* Every stride-th point from the first on; and the newest. */
	struct point point[CURVES_MAX_POINTS];
	size_t n;
	uint64_t came, stride;
};

struct curves {
	struct curve curve[CURVES_MAX];
	uint64_t heard;
};

struct curves *
curves_new(void)
{
	return calloc(1, sizeof(struct curves));
}

void
curves_free(struct curves *c)
{
	free(c);
}

/* The training's curve, or the one to replace. */
static struct curve *
curve_of(struct curves *c, uint64_t training)
{
	struct curve *oldest = &c->curve[0];

	for (size_t i = 0; i < CURVES_MAX; i++) {
		if (c->curve[i].training == training)
			return &c->curve[i];
		if (c->curve[i].heard < oldest->heard)
			oldest = &c->curve[i];
	}
	return oldest;
}

enum rc
curves_put(struct curves *c, const GpuSim__TrainingPutRequest *m, uint64_t now_ms, struct err *err)
{
	struct curve *k = curve_of(c, m->training);

	if (m->training == 0)
		return err_set(err, RC_INVAL, "the training's number must not be 0");
	if (k->training == m->training && k->n && m->step < k->point[k->n - 1].step)
		return err_set(err, RC_INVAL,
			       "training %016" PRIx64 ": step %" PRIu64 " is already known",
			       m->training, m->step);
	if (k->training != m->training)
		*k = (struct curve){.training = m->training, .stride = 1};
	if (k->n && (k->came - 1) % k->stride != 0)
		k->n--; /* it was kept as the newest */
	if (k->n == CURVES_MAX_POINTS) {
		for (k->n = 0; k->n < CURVES_MAX_POINTS / 2; k->n++)
			k->point[k->n] = k->point[2 * k->n];
		k->stride *= 2;
	}
	k->point[k->n++] = (struct point){m->epoch, m->step, m->loss, m->accuracy, m->rate};
	k->came++;
	k->epochs = m->epochs;
	k->at_ms = now_ms;
	k->heard = ++c->heard;
	snprintf(k->name, sizeof k->name, "%s", m->name);
	return RC_OK;
}

static void
put_curve(FILE *f, const struct curve *k)
{
	fprintf(f, "{\"id\":\"%016" PRIx64 "\"", k->training);
	json_member("name", k->name, f);
	fprintf(f, ",\"epochs\":%" PRIu32 ",\"atMs\":%" PRIu64 ",\"points\":[", k->epochs,
		k->at_ms);
	for (size_t i = 0; i < k->n; i++) {
		const struct point *p = &k->point[i];

		fprintf(f, "%s[%" PRIu32 ",%" PRIu64 ",", i ? "," : "", p->epoch, p->step);
		json_real(p->loss, f);
		fputc(',', f);
		json_real(p->accuracy, f);
		fputc(',', f);
		json_real(p->rate, f);
		fputc(']', f);
	}
	fprintf(f, "]}");
}

/* The curve with the latest message before `heard`, or NULL. */
static const struct curve *
heard_before(const struct curves *c, uint64_t heard)
{
	const struct curve *best = NULL;

	for (size_t i = 0; i < CURVES_MAX; i++) {
		const struct curve *k = &c->curve[i];

		if (k->training && k->heard < heard && (!best || k->heard > best->heard))
			best = k;
	}
	return best;
}

enum rc
curves_json(const struct curves *c, struct buf *out, struct err *err)
{
	const struct curve *k = heard_before(c, UINT64_MAX);
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);
	enum rc rc = RC_OK;

	if (!f)
		return err_set(err, RC_NOMEM, "out of memory");
	fputc('[', f);
	for (bool first = true; k; k = heard_before(c, k->heard), first = false) {
		if (!first)
			fputc(',', f);
		put_curve(f, k);
	}
	fputc(']', f);
	if ((ferror(f) | fclose(f)) || !buf_add(out, text, n))
		rc = err_set(err, RC_NOMEM, "out of memory");
	free(text);
	return rc;
}
