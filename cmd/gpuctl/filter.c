#include "filter.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "coll/plan.h"
#include "io.h"
#include "mem/dtype.h"
#include "mem/vectext.h"

struct filter {
	const struct args *a;
	enum gpusim_coll coll;
	struct buf in;	/* the vectors, one after the other */
	size_t nvec;	/* text: number of vectors */
	uint64_t nelem; /* elements of one rank's input */
	struct ranks ranks;
	struct results out;
};

/* ---- input */

static enum rc
read_text(struct filter *f, struct err *err)
{
	struct vectext text = {0};
	struct buf b = {0};
	enum rc rc = io_read_all(STDIN_FILENO, FILTER_STDIN, &b, err);

	if (rc == RC_OK)
		rc = vectext_parse(f->a->dtype, b.data, b.len, 1, &text, err);
	buf_fini(&b);
	if (rc != RC_OK)
		return rc;
	f->nvec = text.nvec;
	f->nelem = text.nelem;
	f->in.data = text.data;
	f->in.len = f->in.cap = text.nvec * text.nelem * dtype_size(f->a->dtype);
	if (ranks_take_one(f->coll) && f->nvec != 1)
		return err_set(err, RC_BADDATA,
			       "needs one vector, the root's; " FILTER_STDIN " has %zu", f->nvec);
	if (f->nvec > PLAN_MAX_RANKS)
		return err_set(err, RC_FAILED, "%zu vectors exceed the limit of %u ranks", f->nvec,
			       PLAN_MAX_RANKS);
	return RC_OK;
}

static enum rc
read_input(struct filter *f, struct err *err)
{
	enum rc rc;

	if (!f->a->raw)
		return read_text(f, err);
	rc = io_read_all(STDIN_FILENO, FILTER_STDIN, &f->in, err);
	if (rc == RC_OK && f->in.len == 0)
		rc = err_set(err, RC_BADDATA, "no vectors on " FILTER_STDIN);
	return rc;
}

/* Cut the input into vectors, now that their number is known. */
static enum rc
cut(struct filter *f, struct err *err)
{
	uint32_t n = ranks_take_one(f->coll) ? 1 : f->ranks.want;
	size_t each = dtype_size(f->a->dtype) * n;

	if (f->in.len % each)
		return err_set(err, RC_BADDATA,
			       "%zu bytes on " FILTER_STDIN
			       " are not a whole number of %s elements "
			       "for each of %" PRIu32 " rank%s: must be a multiple of %zu",
			       f->in.len, dtype_name(f->a->dtype), n, n == 1 ? "" : "s", each);
	f->nelem = f->in.len / each;
	return RC_OK;
}

/* ---- ranks */

enum rc
filter_nranks(const struct args *a, uint32_t *nranks, struct err *err)
{
	if (!a->comm)
		return cli_need_nranks(a, nranks, err);
	*nranks = a->nranks ? a->nranks : 0;
	return RC_OK;
}

enum rc
filter_take(struct ranks *r, uint32_t nranks, struct err *err)
{
	char what[32];

	snprintf(what, sizeof what, "%" PRIu32 " rank%s", nranks, nranks == 1 ? "" : "s");
	return ranks_take(r, nranks, what, err);
}

/* Take as many ranks as there are vectors, where each rank has one. */
static enum rc
take(struct filter *f, uint32_t nranks, struct err *err)
{
	size_t n = f->nvec;
	char what[32];

	if (nranks || f->a->raw || ranks_take_one(f->coll))
		return filter_take(&f->ranks, nranks, err);
	snprintf(what, sizeof what, "%zu vector%s", n, n == 1 ? "" : "s");
	if (f->a->nranks && n != f->a->nranks)
		return err_set(err, RC_BADDATA, "%s, but -n is %" PRIu32, what, f->a->nranks);
	return ranks_take(&f->ranks, (uint32_t)n, what, err);
}

/* ---- output */

static enum rc
flush(struct buf *text, struct err *err)
{
	enum rc rc = io_write(STDOUT_FILENO, FILTER_STDOUT, text->data, text->len, err);

	text->len = 0;
	return rc;
}

/* Write one vector, a piece at a time; the last piece ends the line. */
static enum rc
print_text(const struct args *a, const char *data, uint64_t nelem, struct buf *text,
	   struct err *err)
{
	size_t size = dtype_size(a->dtype);
	uint64_t most = IO_PIECE / size, done = 0, n;
	enum rc rc;

	do {
		n = nelem - done < most ? nelem - done : most;
		rc = vectext_format(a->dtype, data + done * size, n, text, err);
		done += n;
		if (rc == RC_OK && done < nelem)
			text->data[text->len - 1] = ' ';
		if (rc == RC_OK && text->len >= IO_PIECE)
			rc = flush(text, err);
	} while (rc == RC_OK && done < nelem);
	return rc;
}

enum rc
filter_print(const struct args *a, const struct results *r, struct err *err)
{
	struct buf text = {0};
	enum rc rc = RC_OK;

	if (r->data.len >= IO_PIECE)
		io_widen(STDOUT_FILENO);
	for (size_t i = 0; i < r->n && rc == RC_OK; i++) {
		const char *data = r->data.data + r->v[i].at;
		uint64_t nelem = r->v[i].nelem;

		rc = a->raw ? io_write(STDOUT_FILENO, FILTER_STDOUT, data,
				       nelem * dtype_size(a->dtype), err)
			    : print_text(a, data, nelem, &text, err);
	}
	if (rc == RC_OK)
		rc = flush(&text, err);
	buf_fini(&text);
	return rc;
}

/* ---- the filter */

enum rc
filter_run(struct cli *cli, enum gpusim_coll coll, const struct args *a, struct err *err)
{
	struct filter f = {.a = a, .coll = coll};
	uint32_t nranks = 0;
	/* Report a wrong option before waiting for stdin. */
	enum rc rc = ranks_init(&f.ranks, cli, coll, a, err);

	if (rc == RC_OK && (a->raw || ranks_take_one(coll)))
		rc = filter_nranks(a, &nranks, err);
	if (rc == RC_OK)
		rc = read_input(&f, err);
	if (rc == RC_OK)
		rc = take(&f, nranks, err);
	if (rc == RC_OK && a->raw)
		rc = cut(&f, err);
	if (rc == RC_OK)
		rc = ranks_do(&f.ranks, f.in.data, f.nelem, &f.in, &f.out, err);
	ranks_release(&f.ranks, rc);
	if (rc == RC_OK)
		rc = filter_print(a, &f.out, err);
	results_fini(&f.out);
	buf_fini(&f.in);
	return rc;
}

enum rc
filter_barrier(struct cli *cli, const struct args *a, struct err *err)
{
	struct results none = {0};
	struct ranks ranks;
	uint32_t nranks;
	enum rc rc = ranks_init(&ranks, cli, GPUSIM_BARRIER, a, err);

	if (rc == RC_OK)
		rc = filter_nranks(a, &nranks, err);
	if (rc == RC_OK)
		rc = filter_take(&ranks, nranks, err);
	if (rc == RC_OK)
		rc = ranks_do(&ranks, NULL, 0, NULL, &none, err);
	ranks_release(&ranks, rc);
	results_fini(&none);
	return rc;
}
