/*
 * text.c - the text of a schedule, read and written.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/pipeline_impl.h"

static const char *const kind_names[PIPELINE_NKINDS] = {
    "F",      "B",	"I",	   "W",	      "SEND_F",	    "RECV_F",
    "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD"};

const char *
pipeline_kind_name(enum pipeline_kind k)
{
	return kind_names[k];
}

void
pipeline_free(struct pipeline *p)
{
	for (uint32_t r = 0; p && r < p->nranks; r++)
		free(p->row[r].v);
	if (p) {
		free(p->row);
		free(p->rank_of);
	}
	free(p);
}

bool
pipeline_append(struct pipeline *p, uint32_t rank, struct pipeline_action a)
{
	struct pipeline_row *row = &p->row[rank];

	if (!alloc_room(&row->v, row->n, &row->cap, sizeof *row->v))
		return false;
	row->v[row->n++] = a;
	return true;
}

/* ---- reading */

struct reader {
	const char *at, *end;
	struct pipeline *p;
	size_t rows, nactions; /* room for rows */
	uint32_t column;
	struct err *err;
};

static enum rc
refuse(const struct reader *x, const char *begin, const char *end, const char *why)
{
	int n = (int)(end - begin < 40 ? end - begin : 40);

	for (int i = 0; i < n; i++)
		if (!isprint((unsigned char)begin[i]))
			n = i;
	return err_set(x->err, RC_BADDATA, "row %u, column %u: '%.*s': %s", x->p->nranks, x->column,
		       n, begin, why);
}

/* A number of at most `most`; false: there is none. */
static bool
number(const char **at, const char *end, uint32_t most, uint32_t *out)
{
	const char *begin = *at;
	uint32_t v = 0;

	for (; *at < end && isdigit((unsigned char)**at); ++*at) {
		v = v * 10 + (uint32_t)(**at - '0');
		if (v > most)
			return false;
	}
	*out = v;
	return *at > begin;
}

/* The stage belongs to the row that is being read. */
static enum rc
claim(struct reader *x, uint32_t stage, const char *begin, const char *end)
{
	struct pipeline *p = x->p;
	uint32_t *owner = &p->rank_of[stage];
	char why[64];

	if (*owner == PIPELINE_NOBODY)
		*owner = p->nranks - 1;
	if (stage >= p->nstages)
		p->nstages = stage + 1;
	if (*owner == p->nranks - 1)
		return RC_OK;
	snprintf(why, sizeof why, "stage %u is in row %u already", stage, *owner + 1);
	return refuse(x, begin, end, why);
}

static void
trim(const char **begin, const char **end)
{
	while (*begin < *end && isspace((unsigned char)**begin))
		++*begin;
	while (*end > *begin && isspace((unsigned char)(*end)[-1]))
		--*end;
}

static enum rc
read_action(struct reader *x, const char *begin, const char *end, bool joined)
{
	struct pipeline_action a = {.column = x->column, .joined = joined};
	const char *at = begin, *word;
	unsigned k = PIPELINE_NKINDS;

	if (!number(&at, end, PIPELINE_MAX_STAGES - 1, &a.stage))
		return refuse(x, begin, end,
			      "no action; one begins with the number of its stage, below 4096");
	for (word = at; at < end && (isupper((unsigned char)*at) || *at == '_'); at++)
		;
	while (k-- > 0)
		if (strlen(kind_names[k]) == (size_t)(at - word) &&
		    memcmp(kind_names[k], word, (size_t)(at - word)) == 0)
			break;
	if (k >= PIPELINE_NKINDS)
		return refuse(x, begin, end,
			      "no action; there are F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B, "
			      "UNSHARD, RESHARD and REDUCE_GRAD");
	a.kind = (enum pipeline_kind)k;
	if (k < PIPELINE_UNSHARD) {
		if (!number(&at, end, PIPELINE_MAX_MICRO - 1, &a.micro))
			return refuse(x, begin, end,
				      "needs the number of a microbatch, below 4096");
		if (a.micro >= x->p->nmicro)
			x->p->nmicro = a.micro + 1;
	}
	if (at != end)
		return refuse(x, begin, end, "has something behind it");
	if (++x->nactions > PIPELINE_MAX_ACTIONS)
		return refuse(x, begin, end, "is one action too many: a schedule has at most 2^20");
	x->p->sends |= pipeline_is_message(a.kind);
	x->p->splits |= a.kind == PIPELINE_I;
	x->p->shards |= k == PIPELINE_UNSHARD || k == PIPELINE_RESHARD;
	x->p->reduces |= k == PIPELINE_REDUCE_GRAD;
	if (claim(x, a.stage, begin, end) != RC_OK)
		return x->err->rc;
	return pipeline_append(x->p, x->p->nranks - 1, a)
		   ? RC_OK
		   : err_set(x->err, RC_NOMEM, "out of memory");
}

/* "(0F1;3B0)OVERLAP_F_B" */
static enum rc
read_together(struct reader *x, const char *begin, const char *end)
{
	static const char tail[] = ")OVERLAP_F_B";
	const char *stop = end - (sizeof tail - 1), *next = begin;

	if (stop <= begin || memcmp(stop, tail, sizeof tail - 1) != 0)
		return refuse(x, begin, end,
			      "no action; actions that run together are (0F1;3B0)OVERLAP_F_B");
	while (next < stop) {
		const struct pipeline_row *row = &x->p->row[x->p->nranks - 1];
		const char *at = next + 1, *last;

		next = memchr(at, ';', (size_t)(stop - at));
		next = last = next ? next : stop;
		trim(&at, &last);
		if (read_action(x, at, last, next < stop) != RC_OK)
			return x->err->rc;
		if (!pipeline_computes(row->v[row->n - 1].kind))
			return refuse(x, begin, end, "only F, B, I and W run together");
	}
	return RC_OK;
}

static enum rc
read_cell(struct reader *x, const char *begin, const char *end)
{
	trim(&begin, &end);
	if (end - begin >= 2 && *begin == '"' && end[-1] == '"') {
		begin++;
		end--;
	}
	if (begin == end)
		return RC_OK;
	return *begin == '(' ? read_together(x, begin, end) : read_action(x, begin, end, false);
}

static enum rc
read_row(struct reader *x, const char *end)
{
	struct pipeline *p = x->p;
	enum rc rc = RC_OK;

	if (p->nranks == PIPELINE_MAX_RANKS)
		return err_set(x->err, RC_BADDATA, "row %u: more than %u rows", p->nranks + 1,
			       PIPELINE_MAX_RANKS);
	if (!alloc_room(&p->row, p->nranks, &x->rows, sizeof *p->row))
		return err_set(x->err, RC_NOMEM, "out of memory");
	p->row[p->nranks++] = (struct pipeline_row){0};
	for (x->column = 1; rc == RC_OK; x->column++) {
		const char *comma = memchr(x->at, ',', (size_t)(end - x->at));
		const char *stop = comma ? comma : end;

		rc = read_cell(x, x->at, stop);
		x->at = comma ? comma + 1 : end;
		if (!comma)
			break;
	}
	if (rc == RC_OK && p->row[p->nranks - 1].n == 0)
		rc = err_set(x->err, RC_BADDATA, "row %u has no action: each rank needs a stage",
			     p->nranks);
	return rc;
}

/* Every stage has a row. */
static enum rc
complete(const struct pipeline *p, struct err *err)
{
	if (p->nranks == 0)
		return err_set(err, RC_BADDATA, "no row: a schedule has one for each rank");
	for (uint32_t s = 0; s < p->nstages; s++)
		if (p->rank_of[s] == PIPELINE_NOBODY)
			return err_set(err, RC_BADDATA,
				       "no row has stage %u, but row %u has stage %u", s,
				       p->rank_of[p->nstages - 1] + 1, p->nstages - 1);
	return RC_OK;
}

struct pipeline *
pipeline_new(void)
{
	struct pipeline *p = alloc_zeroed(1, sizeof *p);

	if (p)
		p->rank_of = alloc_zeroed(PIPELINE_MAX_STAGES, sizeof *p->rank_of);
	if (!p || !p->rank_of) {
		free(p);
		return NULL;
	}
	for (uint32_t s = 0; s < PIPELINE_MAX_STAGES; s++)
		p->rank_of[s] = PIPELINE_NOBODY;
	return p;
}

enum rc
pipeline_parse(const char *text, size_t nbytes, struct pipeline **out, struct err *err)
{
	struct reader x = {.at = text, .end = text + nbytes, .p = pipeline_new(), .err = err};
	enum rc rc = x.p ? RC_OK : err_set(err, RC_NOMEM, "out of memory");

	if (rc == RC_OK && nbytes > PIPELINE_MAX_BYTES)
		rc = err_set(err, RC_BADDATA, "a schedule of more than %u bytes",
			     PIPELINE_MAX_BYTES);
	while (x.end > x.at && isspace((unsigned char)x.end[-1]))
		x.end--; /* blank lines at the end */
	while (rc == RC_OK && x.at < x.end) {
		const char *nl = memchr(x.at, '\n', (size_t)(x.end - x.at));
		const char *end = nl ? nl : x.end;

		rc = read_row(&x, end);
		x.at = nl ? nl + 1 : x.end;
	}
	if (rc == RC_OK)
		rc = complete(x.p, err);
	if (rc != RC_OK) {
		pipeline_free(x.p);
		x.p = NULL;
	}
	*out = x.p;
	return rc;
}

/* ---- writing */

bool
pipeline_print_action(const struct pipeline_action *a, struct buf *out)
{
	return a->kind < PIPELINE_UNSHARD
		   ? buf_addf(out, "%u%s%u", a->stage, kind_names[a->kind], a->micro)
		   : buf_addf(out, "%u%s", a->stage, kind_names[a->kind]);
}

bool
pipeline_print(const struct pipeline *p, struct buf *out)
{
	for (uint32_t r = 0; r < p->nranks; r++) {
		const struct pipeline_row *row = &p->row[r];
		bool within = false;

		for (size_t i = 0; i < row->n; i++) {
			const struct pipeline_action *a = &row->v[i];

			buf_addf(out, "%s", i == 0 ? "" : within ? ";" : ",");
			if (a->joined && !within)
				buf_addf(out, "(");
			pipeline_print_action(a, out);
			if (!a->joined && within)
				buf_addf(out, ")OVERLAP_F_B");
			within = a->joined;
		}
		buf_addf(out, "\n");
	}
	return !out->failed;
}
