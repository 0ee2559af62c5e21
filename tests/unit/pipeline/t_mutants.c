/*
 * t_mutants.c - right schedules, broken at random: the proof accepts those that run, and no other.
 *
 * The judge reads the text itself and runs it: ranks take turns at random, each send either ends at once or waits for
 * its receive, values carry their names through one queue for each pair of ranks. What is wrong in one of the runs is
 * wrong.
 */
#include "pipeline/pipeline.h"

#include <string.h>

#include "base/mix.h"
#include "tap.h"

#define MUTANTS (SANITIZED ? 600u : 4000u)
#define RUNS	6
#define RANKS	6
#define STAGES	12
#define MICRO	8
#define CELLS	160
#define NOTHING 0xffff

/* ---- the judge */

struct cell {
	unsigned stage, micro;
	char kind[16];
};

struct
    queue { /* from one rank to another: the k-th value that is sent, the k-th place that waits for one */
	unsigned sent[CELLS], place[CELLS];
	int nsent, nplaces;
};

struct world {
	struct cell cell[RANKS][CELLS];
	int n[RANKS], at[RANKS], nranks;
	int owner[STAGES], nstages;
	unsigned nmicro;
	bool sends, unshards, reduces;
	/* of a run */
	struct queue queue[RANKS][RANKS];
	unsigned got[STAGES][MICRO][2]; /* the name of the value that was received, or NOTHING */
	bool posted[STAGES][MICRO][2];	/* the receive was posted */
	bool f[STAGES][MICRO], b[STAGES][MICRO],
	    w[STAGES][MICRO]; /* made: output, input's gradient, weights' gradients */
	bool there[STAGES], reduced[STAGES];
	int sending[RANKS]; /* the number of the send in which a rank waits, or -1 */
	const char *error;
};

static bool
is(const struct cell *c, const char *kind)
{
	return strcmp(c->kind, kind) == 0;
}

static unsigned
name_of(unsigned stage, unsigned micro, unsigned back)
{
	return (stage * MICRO + micro) * 2 + back;
}

/* Read; false: no schedule, or too large for this judge. */
static bool
read_world(struct world *w, const char *text)
{
	memset(w, 0, sizeof *w);
	memset(w->owner, -1, sizeof w->owner);
	for (const char *row = text; *row; row = strchr(row, '\n') + 1) {
		int r = w->nranks++;

		for (const char *at = row; *at != '\n'; at += *at == ',') {
			struct cell *c = &w->cell[r][w->n[r]++];
			int used = 0;

			if (sscanf(at, "%u%15[A-Z_]%n", &c->stage, c->kind, &used) < 2 ||
			    c->stage >= STAGES)
				return false;
			at += used;
			used = 0;
			if (*at >= '0' && *at <= '9' && sscanf(at, "%u%n", &c->micro, &used) == 1 &&
			    c->micro >= MICRO)
				return false;
			at += used;
			if (w->owner[c->stage] >= 0 && w->owner[c->stage] != r)
				return false;
			w->owner[c->stage] = r;
			w->nstages = (int)c->stage >= w->nstages ? (int)c->stage + 1 : w->nstages;
			w->nmicro = c->micro >= w->nmicro ? c->micro + 1 : w->nmicro;
			w->sends |=
			    strncmp(c->kind, "SEND", 4) == 0 || strncmp(c->kind, "RECV", 4) == 0;
			w->unshards |= is(c, "UNSHARD") || is(c, "RESHARD");
			w->reduces |= is(c, "REDUCE_GRAD");
		}
		if (w->n[r] == 0)
			return false;
	}
	for (int s = 0; s < w->nstages; s++)
		if (w->owner[s] < 0)
			return false;
	return w->nranks > 0;
}

/* The value that a pass needs: 1 there, 0 not yet, -1 wrong. */
static int
input(struct world *w, int r, const struct cell *c, unsigned back)
{
	int from = back ? (int)c->stage + 1 : (int)c->stage - 1;
	bool made;

	if (from < 0 || from == w->nstages)
		return 1;
	made = back ? w->b[from][c->micro] : w->f[from][c->micro];
	if (w->owner[from] == r)
		return made ? 1 : -1;
	if (!w->sends)
		return made;
	if (!w->posted[c->stage][c->micro][back])
		return -1;
	if (w->got[c->stage][c->micro][back] == NOTHING)
		return 0;
	return w->got[c->stage][c->micro][back] == name_of((unsigned)from, c->micro, back) ? 1 : -1;
}

/* What has both its send and its receive arrives. */
static void
deliver(struct world *w, struct queue *q)
{
	for (int k = 0; k < q->nsent && k < q->nplaces; k++) {
		unsigned place = q->place[k];

		w->got[place / 2 / MICRO][place / 2 % MICRO][place % 2] = q->sent[k];
	}
}

/* A send or a receive: 1 done, 0 it waits, -1 wrong. */
static int
message(struct world *w, int r, const struct cell *c, bool send, bool blocks)
{
	unsigned back = c->kind[5] == 'B', s = c->stage, m = c->micro;
	int other = (back != 0) == send ? (int)s - 1 : (int)s + 1, peer;
	struct queue *q;

	if (other < 0 || other >= w->nstages || w->owner[other] == r)
		return -1;
	peer = w->owner[other];
	q = send ? &w->queue[r][peer] : &w->queue[peer][r];
	if (send) {
		if (w->sending[r] < 0) {
			if (!(back ? w->b[s][m] : w->f[s][m]))
				return -1;
			w->sending[r] = q->nsent;
			q->sent[q->nsent++] = name_of(s, m, back);
		}
		deliver(w, q);
		if (blocks && q->nplaces <= w->sending[r])
			return 0;
		w->sending[r] = -1;
		return 1;
	}
	if (w->posted[s][m][back])
		return -1; /* it would overwrite the value */
	w->posted[s][m][back] = true;
	q->place[q->nplaces++] = name_of(s, m, back);
	deliver(w, q);
	return 1;
}

static int
pass(struct world *w, int r, const struct cell *c)
{
	unsigned s = c->stage, m = c->micro;
	int there;

	if ((w->unshards && !w->there[s]) || (w->reduced[s] && !is(c, "F")))
		return -1;
	if (is(c, "W")) {
		if (!w->b[s][m] || w->w[s][m])
			return -1;
		w->w[s][m] = true;
		return 1;
	}
	there = input(w, r, c, !is(c, "F"));
	if (there != 1)
		return there;
	if (is(c, "F") ? w->f[s][m] : !w->f[s][m] || w->b[s][m])
		return -1;
	if (is(c, "F"))
		w->f[s][m] = true;
	else
		w->b[s][m] = true;
	if (is(c, "B"))
		w->w[s][m] = true;
	return 1;
}

static int
act(struct world *w, int r, bool blocks)
{
	const struct cell *c = &w->cell[r][w->at[r]];

	if (strncmp(c->kind, "SEND_", 5) == 0 || strncmp(c->kind, "RECV_", 5) == 0)
		return message(w, r, c, *c->kind == 'S', blocks);
	if (is(c, "UNSHARD") || is(c, "RESHARD")) {
		w->there[c->stage] = is(c, "UNSHARD");
		return 1;
	}
	if (!is(c, "REDUCE_GRAD"))
		return pass(w, r, c);
	for (unsigned m = 0; m < w->nmicro; m++)
		if (!w->w[c->stage][m])
			return -1;
	if (w->reduced[c->stage])
		return -1;
	return w->reduced[c->stage] = true;
}

enum verdict { RIGHT, WRONG, STUCK };

/* One run; `blocking`: of 4 sends how many wait for their receives. */
static enum verdict
play(struct world *w, unsigned blocking, uint64_t *random)
{
	int ended = 0, waits = 0;

	memset(w->at, 0, sizeof w->at);
	memset(w->queue, 0, sizeof w->queue);
	memset(w->posted, 0, sizeof w->posted);
	memset(w->f, 0, sizeof w->f);
	memset(w->b, 0, sizeof w->b);
	memset(w->w, 0, sizeof w->w);
	memset(w->there, 0, sizeof w->there);
	memset(w->reduced, 0, sizeof w->reduced);
	memset(w->sending, -1, sizeof w->sending);
	for (unsigned i = 0; i < STAGES * MICRO * 2; i++)
		w->got[i / 2 / MICRO][i / 2 % MICRO][i % 2] = NOTHING;
	while (ended < w->nranks &&
	       waits < 64 * w->nranks) { /* so many turns in vain: nobody can go on */
		int r = (int)(splitmix64(random) % (unsigned)w->nranks), did;

		if (w->at[r] == w->n[r]) {
			waits++;
			continue;
		}
		did = act(w, r,
			  blocking == 4 ||
			      mix64((unsigned)(r * CELLS + w->at[r]) + *random % 2) % 4 < blocking);
		if (did < 0)
			return WRONG;
		waits = did ? 0 : waits + 1;
		w->at[r] += did;
		ended += did && w->at[r] == w->n[r];
	}
	if (ended < w->nranks)
		return STUCK;
	for (int s = 0; s < w->nstages; s++)
		for (unsigned m = 0; m < w->nmicro; m++)
			if (!w->f[s][m] || !w->b[s][m] || !w->w[s][m] ||
			    (w->reduces && !w->reduced[s]))
				return WRONG;
	for (int q = 0; q < RANKS * RANKS; q++)
		if (w->queue[q / RANKS][q % RANKS].nsent != w->queue[q / RANKS][q % RANKS].nplaces)
			return WRONG;
	return RIGHT;
}

static enum verdict
judge(const char *text, uint64_t seed)
{
	static struct world w;

	if (!read_world(&w, text))
		return WRONG;
	for (unsigned i = 0; i < RUNS; i++) {
		enum verdict v = play(&w, i < 2 ? 4 : i - 2, &seed);

		if (v != RIGHT)
			return v;
	}
	return RIGHT;
}

/* ---- the mutants */

struct rows {
	char cell[RANKS][CELLS][20];
	int n[RANKS], nranks;
};

static void
to_rows(const char *text, struct rows *t)
{
	memset(t, 0, sizeof *t);
	for (; *text; text++) {
		size_t len = strcspn(text, ",\n");

		snprintf(t->cell[t->nranks][t->n[t->nranks]++], 20, "%.*s", (int)len, text);
		text += len;
		t->nranks += *text == '\n';
	}
}

static void
to_text(const struct rows *t, struct buf *out)
{
	out->len = 0;
	for (int r = 0; r < t->nranks; r++)
		for (int i = 0; i < t->n[r]; i++)
			buf_addf(out, "%s%c", t->cell[r][i], i + 1 < t->n[r] ? ',' : '\n');
}

static unsigned
below(uint64_t *random, int n)
{
	return (unsigned)(splitmix64(random) % (unsigned)n);
}

static void
insert(struct rows *t, unsigned r, unsigned at, const char *cell)
{
	char word[20];

	snprintf(word, sizeof word, "%s", cell);
	memmove(t->cell[r][at + 1], t->cell[r][at],
		((unsigned)t->n[r] - at) * sizeof t->cell[r][0]);
	memcpy(t->cell[r][at], word, sizeof word);
	t->n[r]++;
}

static void delete (struct rows *t, unsigned r, unsigned at)
{
	t->n[r]--;
	memmove(t->cell[r][at], t->cell[r][at + 1],
		((unsigned)t->n[r] - at) * sizeof t->cell[r][0]);
}

/* Change one thing. Most changes are small, as those are the ones that might run. */
static void
mutate(struct rows *t, uint64_t *random)
{
	unsigned r = below(random, t->nranks), i = below(random, t->n[r]), k;
	char word[20];

	switch (below(random, 8)) {
	case 0: /* swap neighbours */
	case 1:
		k = i + 1 < (unsigned)t->n[r] ? i + 1 : 0;
		memcpy(word, t->cell[r][i], sizeof word);
		memcpy(t->cell[r][i], t->cell[r][k], sizeof word);
		memcpy(t->cell[r][k], word, sizeof word);
		break;
	case 2: /* move, a few cells or anywhere */
	case 3:
		memcpy(word, t->cell[r][i], sizeof word);
		delete (t, r, i);
		k = below(random, 2) ? below(random, t->n[r] + 1) : i + below(random, 5);
		insert(t, r, k < (unsigned)t->n[r] ? k : (unsigned)t->n[r], word);
		break;
	case 4: /* move a send or a receive */
		for (int tries = 0; tries < 20 && !strchr(t->cell[r][i], '_'); tries++)
			i = below(random, t->n[r]);
		memcpy(word, t->cell[r][i], sizeof word);
		delete (t, r, i);
		k = i + below(random, 7);
		k = k < 3 ? 0 : k - 3;
		insert(t, r, k < (unsigned)t->n[r] ? k : (unsigned)t->n[r], word);
		break;
	case 5:
		if (t->n[r] > 1)
			delete (t, r, i);
		break;
	case 6:
		insert(t, r, below(random, t->n[r] + 1), t->cell[r][i]);
		break;
	default: /* renumber: of the microbatch, or of the stage */
		k = below(random, 2) ? 0 : (unsigned)strlen(t->cell[r][i]) - 1;
		t->cell[r][i][k] = (char)('0' + below(random, 4));
	}
}

/* A right schedule: any scheme, small, with sends or without, with parameters that come and go or without. */
static void
original(uint64_t *random, struct buf *out)
{
	static struct pipeline_facts facts;
	struct pipeline *p = NULL;
	struct rows t;
	struct err e;
	bool shards = below(random, 3) == 0;

	while (pipeline_make((enum pipeline_scheme)below(random, PIPELINE_NSCHEMES),
			     1 + below(random, 4), 1 + below(random, 6), 1 + below(random, 2), &p,
			     &e))
		;
	if (below(random, 4))
		pipeline_check(p, &facts, &e);
	out->len = 0;
	pipeline_print(p, out);
	to_rows(out->data, &t);
	for (uint32_t s = 0; shards && s < p->nstages; s++) {
		char word[20];
		uint32_t r = p->rank_of[s];

		snprintf(word, sizeof word, "%uUNSHARD", s);
		insert(&t, r, 0, word);
		snprintf(word, sizeof word, "%uREDUCE_GRAD", s);
		insert(&t, r, (unsigned)t.n[r], word);
		snprintf(word, sizeof word, "%uRESHARD", s);
		insert(&t, r, (unsigned)t.n[r], word);
	}
	to_text(&t, out);
	pipeline_free(p);
}

static enum rc
prove(const char *text, struct buf *derived, struct err *e)
{
	static struct pipeline_facts facts;
	struct pipeline *p = NULL;
	enum rc rc = pipeline_parse(text, strlen(text), &p, e);

	rc = rc ? rc : pipeline_check(p, &facts, e);
	derived->len = 0;
	if (!rc)
		pipeline_print(p, derived);
	pipeline_free(p);
	return rc;
}

/* The proof is stricter than the runs: parameters that are gathered twice, or freed twice, do no harm there. */
static bool
is_strict(const char *error)
{
	return strstr(error, "SHARD comes where the parameters are") != NULL;
}

int
main(void)
{
	unsigned right = 0, stuck = 0, refused = 0, strict = 0, errors = 0;
	struct buf text = {0}, derived = {0};
	uint64_t random = 27;

	for (unsigned i = 0; i < MUTANTS; i++) {
		struct err e = {0};
		struct rows t;
		enum verdict v;
		enum rc rc;

		original(&random, &text);
		if (i % 16 && (to_rows(text.data, &t), true)) { /* each 16th stays as it is */
			for (unsigned n = 1 + (i % 5 == 0); n > 0; n--)
				mutate(&t, &random);
			to_text(&t, &text);
		}
		v = judge(text.data, i);
		rc = prove(text.data, &derived, &e);
		if (!rc && judge(derived.data, i) != RIGHT)
			v = WRONG; /* where sends were put in */
		right += v == RIGHT && !rc;
		stuck += v == STUCK;
		refused += rc == RC_BADDATA;
		strict += rc && v == RIGHT && is_strict(e.text);
		if ((v == RIGHT) == !rc || (rc == RC_BADDATA && v == RIGHT && is_strict(e.text)))
			continue;
		errors++;
		printf("# %u: %s, but %s\n%s", i,
		       v == RIGHT   ? "it runs"
		       : v == STUCK ? "it gets stuck"
				    : "it is wrong",
		       rc ? e.text : "accepted", text.data);
	}
	ok(errors == 0,
	   "of %u mutants those are accepted that run: %u, and %u are refused, %u too strictly",
	   MUTANTS, right, refused, strict);
	ok(right > MUTANTS / 10 && refused > MUTANTS / 3 && stuck > MUTANTS / 50 &&
	       strict < MUTANTS / 20,
	   "all kinds are among them; %u get stuck", stuck);
	buf_fini(&text);
	buf_fini(&derived);
	return tap_done();
}
