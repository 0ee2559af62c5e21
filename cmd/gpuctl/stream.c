/*
 * gpuctl allreduce --stream ... - a filter that processes block after block, on devices that it keeps.
 *
 * One buffer holds the unprocessed input: at most a block and a piece. A block runs as soon as it is
 * complete, and its result is written before the next block is searched. So a block whose operation begins
 * again was never printed, and none is printed twice.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/must.h"
#include "filter.h"
#include "io.h"
#include "mem/dtype.h"
#include "mem/vectext.h"

struct stream {
	const struct args *a;
	struct ranks ranks;
	struct results out;
	uint32_t nvec;	   /* vectors of a block */
	size_t nbytes;	   /* raw: bytes of a block */
	struct buf in;	   /* the input from in.data + at is unprocessed */
	size_t at, looked; /* text: lines up to in.data + looked are counted; */
	uint32_t nlines;   /* lines of the block, */
	size_t nbefore;	   /* and of the blocks before it */
};

static enum rc
measure(struct stream *s, struct err *err)
{
	size_t size = dtype_size(s->a->dtype), nbytes;

	s->nvec = ranks_take_one(s->ranks.c.coll) ? 1 : s->ranks.want;
	if (!s->a->raw)
		return RC_OK;
	if (__builtin_mul_overflow(size * s->nvec, s->a->count, &nbytes) || nbytes > SIZE_MAX / 2)
		return err_set(err, RC_INVAL, "--count: %" PRIu64 " elements are too many",
			       s->a->count);
	s->nbytes = nbytes;
	return RC_OK;
}

/* ---- input */

/* Read the available input. *end: the stream has ended. */
static enum rc
read_some(struct stream *s, bool *end, struct err *err)
{
	size_t left = s->in.len - s->at, got;
	enum rc rc;

	if (s->at)
		memmove(s->in.data, s->in.data + s->at, left);
	s->in.len = left;
	s->looked -= s->at;
	s->at = 0;
	must_reserve(&s->in, IO_PIECE);
	rc = io_read_some(STDIN_FILENO, FILTER_STDIN, s->in.data + left, s->in.cap - left, &got,
			  err);
	if (rc == RC_OK)
		s->in.len += got;
	*end = rc == RC_OK && got == 0;
	return rc;
}

/* The bytes of the first block if it is complete; else 0. */
static size_t
find_block(struct stream *s)
{
	const char *nl;

	if (s->a->raw)
		return s->in.len - s->at >= s->nbytes ? s->nbytes : 0;
	while (s->nlines < s->nvec && s->looked < s->in.len) {
		nl = memchr(s->in.data + s->looked, '\n', s->in.len - s->looked);
		s->looked = nl ? (size_t)(nl + 1 - s->in.data) : s->in.len;
		s->nlines += nl != NULL;
	}
	return s->nlines == s->nvec ? s->looked - s->at : 0;
}

/* The last block, whose last line may lack its newline. RC_BADDATA: it is incomplete. */
static enum rc
last_block(struct stream *s, size_t *nbytes, struct err *err)
{
	size_t left = s->in.len - s->at;
	bool open = left && s->in.data[s->in.len - 1] != '\n';

	*nbytes = 0;
	if (left == 0)
		return RC_OK;
	if (s->a->raw)
		return err_set(err, RC_BADDATA,
			       FILTER_STDIN " ends after %zu of the %zu bytes of a block", left,
			       s->nbytes);
	s->nlines += open;
	if (s->nlines < s->nvec)
		return err_set(err, RC_BADDATA,
			       FILTER_STDIN " ends with line %zu, after %" PRIu32 " of the %" PRIu32
					    " lines of a block",
			       s->nbefore + s->nlines, s->nlines, s->nvec);
	*nbytes = left;
	return RC_OK;
}

/* Wait for the next block; 0 bytes: none. */
static enum rc
next_block(struct stream *s, size_t *nbytes, struct err *err)
{
	bool end = false;
	enum rc rc = RC_OK;

	while ((*nbytes = find_block(s)) == 0 && !end && rc == RC_OK)
		rc = read_some(s, &end, err);
	return rc == RC_OK && end ? last_block(s, nbytes, err) : rc;
}

/* ---- blocks */

static enum rc
do_block(struct stream *s, size_t nbytes, struct err *err)
{
	const char *data = s->in.data + s->at;
	struct vectext text = {0};
	uint64_t nelem = s->a->count;
	enum rc rc = RC_OK;

	if (!s->a->raw) {
		rc = vectext_parse(s->a->dtype, data, nbytes, s->nbefore + 1, &text, err);
		data = text.data;
		nelem = text.nelem;
	}
	if (rc == RC_OK)
		rc = ranks_do(&s->ranks, data, nelem, NULL, &s->out, err);
	if (rc == RC_OK)
		rc = filter_print(s->a, &s->out, err);
	vectext_fini(&text);
	s->at += nbytes;
	s->nbefore += s->nlines;
	s->nlines = 0;
	return rc;
}

static enum rc
do_blocks(struct stream *s, struct err *err)
{
	size_t nbytes = 0;
	enum rc rc;

	do {
		rc = next_block(s, &nbytes, err);
		if (rc == RC_OK && nbytes)
			rc = do_block(s, nbytes, err);
	} while (rc == RC_OK && nbytes);
	return rc;
}

static enum rc
check(const struct args *a, struct err *err)
{
	if (args_given(a, count) && !a->raw)
		return err_set(err, RC_INVAL, "--count: needs --raw; lines need no count");
	if (a->raw && !a->count)
		return err_set(err, RC_INVAL,
			       "--count N is missing: elements of each rank's vector in a block");
	return RC_OK;
}

enum rc
filter_stream(struct cli *cli, enum gpusim_coll coll, const struct args *a, struct err *err)
{
	struct stream s = {.a = a};
	uint32_t nranks;
	enum rc rc = check(a, err);

	if (rc == RC_OK)
		rc = ranks_init(&s.ranks, cli, coll, a, err);
	if (rc == RC_OK)
		rc = filter_nranks(a, &nranks, err);
	if (rc == RC_OK)
		rc = filter_take(&s.ranks, nranks, err);
	if (rc == RC_OK)
		rc = measure(&s, err);
	if (rc == RC_OK)
		rc = do_blocks(&s, err);
	ranks_release(&s.ranks, rc);
	results_fini(&s.out);
	buf_fini(&s.in);
	return rc;
}
