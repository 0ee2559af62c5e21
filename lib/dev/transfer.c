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
	s->finished[s->nfinished++ % FINISHED_TRANSFERS] = (struct finished){st->id, *why};
	pthread_cond_destroy(&st->work);
	free(st);
}

/* Lock held. */
static enum rc
begin(struct streams *s, struct stream *st, struct segment *g, struct err *err)
{
	enum rc rc = RC_OK;

	if (st->id < STREAM_MAX || transfer_find(s, st->id) || transfer_find_finished(s, st->id))
		rc = err_set(err, RC_BUSY, "stream %" PRIu64 " is in use here already", st->id);
	else if (s->ntransfers == STREAM_MAX_TRANSFER)
		rc = err_set(err, RC_BUSY, "%d transfers are at work already", STREAM_MAX_TRANSFER);
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

/* What a program of one receive waits for. */
static void
note_receive(struct stream *st, const struct program *p)
{
	const struct inst_coll *c = &p->inst[0].coll;

	if (c->coll == GPUSIM_RECV && c->plan.nstep)
		st->receive = (struct transfer_receive){.stream = st->id,
							.comm = p->comm,
							.src = c->plan.step[0].peer,
							.nbytes = c->nelem * c->elem,
							.chunk = c->plan.step[0].count * c->elem};
}

enum rc
streams_receive(struct streams *s, uint64_t stream, uint64_t comm, struct transfer_receive *out,
		struct err *err)
{
	const struct stream *found = NULL;
	unsigned n = 0;

	pthread_mutex_lock(&s->lock);
	for (const struct stream *st = s->transfers; st; st = st->next)
		if (st->receive.nbytes && (stream == 0 || st->id == stream) &&
		    (comm == 0 || st->receive.comm == comm)) {
			found = st;
			n++;
		}
	if (n == 1)
		*out = found->receive;
	pthread_mutex_unlock(&s->lock);
	if (n == 0)
		return err_set(err, RC_FAILED,
			       "no receive waits here for a chunk: BeginReceive comes first");
	if (n > 1)
		return err_set(err, RC_FAILED,
			       "%u receives have begun here, and a chunk that names no stream "
			       "could be of any",
			       n);
	return RC_OK;
}

enum rc
streams_transfer(struct streams *s, uint64_t id, struct program *p, struct err *err)
{
	struct run_spec spec = {.program = p, .iterations = 1};
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
	note_receive(st, p);
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
