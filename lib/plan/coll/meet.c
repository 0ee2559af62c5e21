#include "coll/meet.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* A pass over all plans' steps. */
struct pass {
	const struct plan *plans;
	uint32_t nplans, nranks;
	struct meet *m;
};

/* The key of the connection on which a step of plan r sends or receives. */
static uint64_t
key_of(const struct pass *p, uint32_t r, const struct plan_step *step)
{
	uint32_t from = meet_receives(step) ? step->peer : r,
		 to = meet_receives(step) ? r : step->peer;

	return (uint64_t)(from % p->nplans) << 32 | (to + p->nranks - from) % p->nranks;
}

static uint32_t *
find_bucket(const struct meet *m, uint64_t key)
{
	uint32_t mask = 2 * m->cap - 1, i;

	for (i = (uint32_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & mask;
	     m->bucket[i] != NONE && m->conn[m->bucket[i]].key != key; i = (i + 1) & mask)
		;
	return &m->bucket[i];
}

static bool
grow(struct meet *m)
{
	uint32_t cap = m->cap ? 2 * m->cap : 64;
	struct meet_conn *conn = alloc_resize(m->conn, cap, sizeof *conn);
	uint32_t *bucket;

	if (!conn)
		return false;
	m->conn = conn;
	bucket = alloc_resize(m->bucket, 2 * (size_t)cap, sizeof *bucket);
	if (!bucket)
		return false;
	m->bucket = bucket;
	m->cap = cap;
	memset(bucket, 0xff, 2 * (size_t)cap * sizeof *bucket);
	for (uint32_t i = 0; i < m->nconn; i++)
		*find_bucket(m, conn[i].key) = i;
	return true;
}

static enum rc
no_memory(const struct pass *p, struct err *err)
{
	return err_set(err, RC_NOMEM, "no memory to simulate %" PRIu32 " ranks", p->nranks);
}

/* Find the send's connection, or add it. */
static enum rc
connect(struct pass *p, uint32_t r, const struct plan_step *step, uint32_t *out, struct err *err)
{
	struct meet *m = p->m;
	uint64_t key = key_of(p, r, step);
	uint32_t *at;

	if (m->nconn == m->cap && !grow(m))
		return no_memory(p, err);
	at = find_bucket(m, key);
	if (*at == NONE) {
		m->conn[m->nconn] = (struct meet_conn){.key = key, .from = r, .to = step->peer};
		*at = m->nconn++;
	}
	m->conn[*at].total++;
	*out = *at;
	return RC_OK;
}

static enum rc
connect_sends(struct pass *p, struct err *err)
{
	struct meet *m = p->m;
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < p->nplans; r++)
		for (size_t i = 0; i < p->plans[r].nstep && rc == RC_OK; i++) {
			const struct plan_step *step = &p->plans[r].step[i];

			if (step->kind >= STEP_SYNC)
				return err_set(err, RC_INVAL, "one-sided steps send no messages");
			if (step->kind <= STEP_RECV_REDUCE && step->peer >= p->nranks)
				return err_set(err, RC_FAILED,
					       "rank %" PRIu32 ": peer %" PRIu32 " of %" PRIu32
					       " ranks",
					       r, step->peer, p->nranks);
			if (step->kind == STEP_SEND)
				rc = connect(p, r, step, &m->conn_of[m->first[r] + i], err);
			m->nmessages += step->kind == STEP_SEND;
		}
	return rc;
}

/* Find the connection of each receive. */
static enum rc
connect_receives(struct pass *p, struct err *err)
{
	struct meet *m = p->m;
	uint32_t *left = alloc_zeroed((size_t)m->nconn + 1, sizeof *left);
	size_t taken = 0;
	bool fit = true;

	if (!left)
		return no_memory(p, err);
	for (uint32_t c = 0; c < m->nconn; c++)
		left[c] = m->conn[c].total;
	for (uint32_t r = 0; r < p->nplans; r++)
		for (size_t i = 0; i < p->plans[r].nstep; i++) {
			const struct plan_step *step = &p->plans[r].step[i];
			uint32_t c;

			if (!meet_receives(step))
				continue;
			taken++;
			c = m->nconn ? *find_bucket(m, key_of(p, r, step)) : NONE;
			if (c == NONE || left[c] == 0) {
				fit = false;
				continue;
			}
			m->conn_of[m->first[r] + i] = c;
			left[c]--;
		}
	free(left);
	return fit && taken == m->nmessages
		   ? RC_OK
		   : err_set(err, RC_FAILED, "%zu sends do not match %zu receives", m->nmessages,
			     taken);
}

enum rc
meet_make(const struct plan *plans, uint32_t nplans, uint32_t nranks, struct meet *out,
	  struct err *err)
{
	struct pass p = {plans, nplans, nranks, out};
	size_t n = 0;
	enum rc rc;

	*out = (struct meet){.first = alloc_zeroed((size_t)nplans + 1, sizeof *out->first)};
	for (uint32_t r = 0; out->first && r < nplans; r++) {
		out->first[r] = out->nstep;
		out->nstep += plans[r].nstep;
	}
	out->conn_of = alloc_zeroed(out->nstep + 1, sizeof *out->conn_of);
	if (!out->first || !out->conn_of)
		return no_memory(&p, err);
	rc = connect_sends(&p, err);
	if (rc == RC_OK)
		rc = connect_receives(&p, err);
	for (uint32_t c = 0; c < out->nconn; c++) {
		out->conn[c].first = n;
		n += out->conn[c].total;
	}
	return rc;
}

void
meet_fini(struct meet *m)
{
	free(m->first);
	free(m->conn_of);
	free(m->conn);
	free(m->bucket);
	*m = (struct meet){0};
}
