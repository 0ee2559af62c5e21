/* The lab's transfers: streams of one operation, each with a thread that ends with it. */
#include <inttypes.h>
#include <stdlib.h>

#include "dev/stream_impl.h"

struct stream *
transfer_find(struct streams *s, uint64_t id)
{
	struct stream *st = s->transfers;

	while (st && st->id != id)
		st = st->next;
	return st;
}

const struct finished *
transfer_find_finished(const struct streams *s, uint64_t id)
{
	unsigned n = s->nfinished < FINISHED_TRANSFERS ? s->nfinished : FINISHED_TRANSFERS;

	for (unsigned i = 0; i < n; i++)
		if (s->finished[i].id == id)
			return &s->finished[i];
	return NULL;
}

void
transfer_retire(struct stream *st, const struct err *why)
{
	struct streams *s = st->all;
	struct stream **at = &s->transfers;

	while (*at != st)
		at = &(*at)->next;
	*at = st->next;
	s->ntransfers--;
	s->finished[s->nfinished++ % FINISHED_TRANSFERS] =
	    (struct finished){st->id, *why, st->receive};
	pthread_cond_destroy(&st->work);
	free(st);
}

/* Lock held. */
static enum rc
begin(struct streams *s, struct stream *st, struct segment *g, struct err *err)
{
	enum rc rc = RC_OK;

	if (st->id < STREAM_MAX || transfer_find(s, st->id) || transfer_find_finished(s, st->id))
		rc = err_set(err, RC_BUSY, "stream %" PRIu64 " is already in use", st->id);
	else if (s->ntransfers == STREAM_MAX_TRANSFER)
		rc = err_set(err, RC_BUSY, "%d transfers are already in progress",
			     STREAM_MAX_TRANSFER);
	else
		rc = stream_start(st, err);
	if (rc != RC_OK)
		return rc;
	g->run->spec.program->refs++;
	st->next = s->transfers;
	s->transfers = st;
	s->ntransfers++;
	stream_enqueue(st, g);
	return RC_OK;
}

static bool
is_that(const struct transfer_receive *r, uint64_t stream, uint64_t comm)
{
	return r->nbytes && (stream == 0 || r->stream == stream) && (comm == 0 || r->comm == comm);
}

/* Lock held. The last successful receive, if not reported before. */
static bool
take_finished(struct streams *s, uint64_t stream, uint64_t comm, struct transfer_receive *out)
{
	for (unsigned i = 1; i <= s->nfinished && i <= FINISHED_TRANSFERS; i++) {
		struct finished *f = &s->finished[(s->nfinished - i) % FINISHED_TRANSFERS];

		if (f->why.rc != RC_OK || !is_that(&f->receive, stream, comm))
			continue;
		*out = f->receive;
		out->over = true;
		f->receive = (struct transfer_receive){0};
		return !out->told;
	}
	return false;
}

bool
streams_at_work(struct streams *s, uint64_t stream)
{
	bool found;

	pthread_mutex_lock(&s->lock);
	found = transfer_find(s, stream) != NULL;
	pthread_mutex_unlock(&s->lock);
	return found;
}

enum rc
streams_receive(struct streams *s, uint64_t stream, uint64_t comm, struct transfer_receive *out,
		struct err *err)
{
	struct stream *found = NULL;
	unsigned n = 0;

	pthread_mutex_lock(&s->lock);
	for (struct stream *st = s->transfers; st; st = st->next)
		if (is_that(&st->receive, stream, comm)) {
			found = st;
			n++;
		}
	if (n == 1) {
		*out = found->receive;
		found->receive.told = true;
	} else if (n == 0) {
		n = take_finished(s, stream, comm, out);
	}
	pthread_mutex_unlock(&s->lock);
	if (n == 0)
		return err_set(err, RC_FAILED,
			       "no receive waits for a chunk: call BeginReceive first");
	if (n > 1)
		return err_set(err, RC_FAILED,
			       "%u receives have begun, and a chunk without a stream id "
			       "could be for any",
			       n);
	return RC_OK;
}

enum rc
streams_transfer(struct streams *s, uint64_t id, struct program *p, uint64_t addr, struct err *err)
{
	struct run_spec spec = {.program = p, .iterations = 1};
	const struct inst_coll *c = &p->inst[0].coll;
	struct segment *g[STREAM_MAX];
	struct stream *st = calloc(1, sizeof *st);
	struct run *r = st ? run_new(&spec, g) : NULL;
	enum rc rc;

	if (!r) {
		free(st);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	stream_init(st, s, id);
	st->transfer = true;
	if (c->args.coll == GPUSIM_RECV && c->plan.nstep) /* the chunks that it waits for */
		st->receive = (struct transfer_receive){.stream = id,
							.comm = p->comm,
							.src = c->plan.step[0].peer,
							.addr = addr,
							.nbytes = c->args.nelem * c->elem,
							.chunk = c->plan.step[0].count * c->elem};
	pthread_mutex_lock(&s->lock);
	rc = begin(s, st, g[0], err);
	pthread_mutex_unlock(&s->lock);
	if (rc == RC_OK)
		return RC_OK;
	pthread_cond_destroy(&st->work);
	free(st);
	segment_free(g[0]);
	run_free(r);
	return rc;
}
