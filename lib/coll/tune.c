#include "coll/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/parse.h"

/*
 * Costs that nothing else was said about, of one machine: a message and its acknowledgement through
 * a socket and both devices' threads, a byte through a socket with its checksum, a byte added.
 * Shared memory: a point where all wait for all, a byte copied, a byte added.
 */
static const struct cost_model defaults[TUNE_NTRANSPORTS] = {
    [TUNE_NET] = {.alpha_us = 40, .beta_us = 0.001, .gamma_us = 0.00004},
    [TUNE_P2P] = {.alpha_us = 1.4, .beta_us = 0.0001, .gamma_us = 0.0002},
};

static bool
of_coll(const struct plan_algo *row, enum gpusim_coll coll)
{
	return row->coll == coll;
}

static uint64_t
bit(const struct plan_algo *row)
{
	return UINT64_C(1) << (row - plan_algos);
}

static bool
allows(const struct tuner *t, const struct plan_algo *row)
{
	return (t->select[row->coll].allowed & bit(row)) != 0;
}

void
tuner_init(struct tuner *t)
{
	*t = (struct tuner){0};
	memcpy(t->model, defaults, sizeof t->model);
	for (const struct plan_algo *row = plan_algos; row->name; row++)
		t->select[row->coll].allowed |= bit(row);
}

void
tuner_fini(struct tuner *t)
{
	free(t->rule);
	t->rule = NULL;
	t->nrules = 0;
}

/* ---- GPUSIM_ALGO */

#define WORD_MAX 64

/* Cut the word up to one of `ends` off *text; RC_INVAL: longer than any name. */
static enum rc
next_word(const char **text, const char *ends, char word[static WORD_MAX], struct err *err)
{
	size_t n = strcspn(*text, ends);

	if (n >= WORD_MAX)
		return err_set(err, RC_INVAL, "'%.32s...' is no name", *text);
	memcpy(word, *text, n);
	word[n] = '\0';
	*text += n;
	return RC_OK;
}

/* The rows of this name, of one collective or (GPUSIM_NCOLLS) of all. */
static uint64_t
rows_named(const char *name, enum gpusim_coll coll)
{
	uint64_t rows = 0;

	for (const struct plan_algo *row = plan_algos; row->name; row++)
		if ((coll == GPUSIM_NCOLLS || of_coll(row, coll)) && plan_algo_named(row, name))
			rows |= bit(row);
	return rows;
}

/* "ALGO,ALGO" up to ; or the end. */
static enum rc
parse_names(const char **text, enum gpusim_coll coll, uint64_t *rows, struct err *err)
{
	char word[WORD_MAX];

	*rows = 0;
	for (;; ++*text) {
		uint64_t found;
		enum rc rc = next_word(text, ",;", word, err);

		if (rc != RC_OK)
			return rc;
		found = rows_named(word, coll);
		if (!found)
			return err_set(err, RC_INVAL, "%s%sno algorithm '%s'",
				       coll < GPUSIM_NCOLLS ? coll_name(coll) : "",
				       coll < GPUSIM_NCOLLS ? ": " : "", word);
		*rows |= found;
		if (**text != ',')
			return RC_OK;
	}
}

static enum rc
select_coll(struct tune_select *s, enum gpusim_coll coll, uint64_t rows, bool without,
	    struct err *err)
{
	struct tune_select new = {.named = !without};

	for (const struct plan_algo *row = plan_algos; row->name; row++)
		if (of_coll(row, coll) && ((rows & bit(row)) != 0) != without)
			new.allowed |= bit(row);
	if (!new.allowed)
		return err_set(err, RC_INVAL, "%s is left without any algorithm", coll_name(coll));
	*s = new;
	return RC_OK;
}

/* Does the list name one of the collective's? */
static bool
concerns(uint64_t rows, enum gpusim_coll coll)
{
	for (const struct plan_algo *row = plan_algos; row->name; row++)
		if (of_coll(row, coll) && (rows & bit(row)))
			return true;
	return false;
}

/* "[COLLECTIVE:][^]ALGO[,ALGO...]" */
static enum rc
select_list(struct tuner *t, const char **text, struct err *err)
{
	enum gpusim_coll coll = GPUSIM_NCOLLS;
	char word[WORD_MAX];
	uint64_t rows;
	bool without;
	enum rc rc = RC_OK;

	if ((*text)[strcspn(*text, ":;")] == ':') {
		rc = next_word(text, ":", word, err);
		if (rc == RC_OK)
			rc = coll_parse(word, &coll, err);
		++*text;
	}
	if (rc != RC_OK)
		return rc;
	without = **text == '^';
	*text += without;
	rc = parse_names(text, coll, &rows, err);
	for (int c = 0; c < GPUSIM_NCOLLS && rc == RC_OK; c++)
		if (coll == GPUSIM_NCOLLS ? concerns(rows, (enum gpusim_coll)c)
					  : coll == (enum gpusim_coll)c)
			rc = select_coll(&t->select[c], (enum gpusim_coll)c, rows, without, err);
	return rc;
}

enum rc
tuner_select(struct tuner *t, const char *text, struct err *err)
{
	struct tuner new = *t;
	enum rc rc = RC_OK;

	while (*text && rc == RC_OK) {
		rc = select_list(&new, &text, err);
		if (rc == RC_OK && *text == ';')
			text++;
	}
	if (rc == RC_OK)
		memcpy(t->select, new.select, sizeof t->select);
	return rc;
}

/* ---- the file */

enum column {
	COL_COLL,
	COL_MIN,
	COL_MAX,
	COL_ALGO,
	COL_PROTOCOL,
	COL_CHANNELS,
	COL_NODES,
	COL_RANKS,
	COL_PIPE_OPS,
	COL_REG_BUFF,
	NCOLS,
};

static const char *const columns[NCOLS] = {"collType",	 "minBytes", "maxBytes", "algorithm",
					   "protocol",	 "channels", "nNodes",	 "nRanks",
					   "numPipeOps", "regBuff"};

/* -1 is `any`. */
static enum rc
number(const char *word, uint64_t any, uint64_t *out, struct err *err)
{
	if (strcmp(word, "-1") == 0) {
		*out = any;
		return RC_OK;
	}
	return parse_size(word, out, err);
}

/* Protocols of NCCL between GPUs, which mean any transport here, and algorithms that only GPUs have. */
static const char *const any_protocol[] = {"-1", "ll", "ll128", "simple", NULL};
static const char *const of_gpus[] = {"collnet_direct", "collnet_chain", "nvls",
				      "nvls_tree",	"pat",		 NULL};

static bool
is_one_of(const char *word, const char *const *words)
{
	while (*words && strcmp(word, *words) != 0)
		words++;
	return *words != NULL;
}

static enum rc
set_column(struct tune_rule *r, int col, const char *word, bool *fits, struct err *err)
{
	uint64_t n = 0;
	enum rc rc;

	switch (col) {
	case COL_COLL:
		return coll_parse(word, &r->coll, err);
	case COL_MIN:
		return number(word, 0, &r->min_bytes, err);
	case COL_MAX:
		return number(word, UINT64_MAX, &r->max_bytes, err);
	case COL_ALGO:
		if (!*word || strcmp(word, "auto") == 0)
			return err_set(err, RC_BADDATA, "no algorithm '%s'", word);
		if (is_one_of(word, of_gpus)) {
			*fits = false;
			return RC_OK;
		}
		return plan_algo_find(r->coll, word, &r->algo, err);
	case COL_PROTOCOL:
		r->transport = strcmp(word, "net") == 0	  ? TUNE_NET
			       : strcmp(word, "p2p") == 0 ? TUNE_P2P
							  : -1;
		if (r->transport < 0 && !is_one_of(word, any_protocol))
			return err_set(err, RC_BADDATA,
				       "'%s' is not net, p2p, ll, ll128, simple or -1", word);
		return RC_OK;
	default:
		rc = number(word, UINT64_MAX, &n, err);
		if (rc == RC_OK && col == COL_NODES && n != 1 && n != UINT64_MAX)
			*fits = false;
		if (rc != RC_OK || col != COL_RANKS || n == UINT64_MAX)
			return rc;
		if (n == 0 || n > PLAN_MAX_RANKS)
			return err_set(err, RC_BADDATA, "'%s' is not 1..%u or -1", word,
				       PLAN_MAX_RANKS);
		r->nranks = (uint32_t)n;
		return RC_OK;
	}
}

/* The column's text, without blanks around it; *line moves past its comma, or becomes NULL. */
static enum rc
next_column(const char **line, const char *end, char word[static WORD_MAX], struct err *err)
{
	const char *p = *line, *comma = memchr(p, ',', (size_t)(end - p)), *stop;

	stop = comma ? comma : end;
	*line = comma ? comma + 1 : NULL;
	while (p < stop && strchr(" \t", *p))
		p++;
	while (stop > p && strchr(" \t\r", stop[-1]))
		stop--;
	if (stop - p >= WORD_MAX)
		return err_set(err, RC_BADDATA, "longer than any value");
	memcpy(word, p, (size_t)(stop - p));
	word[stop - p] = '\0';
	return RC_OK;
}

static enum rc
parse_rule(const char *line, const char *end, struct tune_rule *out, bool *fits, struct err *err)
{
	struct tune_rule r = {.transport = -1};
	char word[WORD_MAX];
	int col = 0;

	*fits = true;
	for (; line; col++) {
		enum rc rc;

		if (col == NCOLS)
			return err_set(err, RC_BADDATA, "more than %d columns", NCOLS);
		rc = next_column(&line, end, word, err);
		if (rc == RC_OK)
			rc = set_column(&r, col, word, fits, err);
		if (rc != RC_OK)
			return err_prefix(err, "%s", columns[col]);
	}
	if (col <= COL_ALGO)
		return err_set(err, RC_BADDATA, "%s is missing", columns[col]);
	if (r.min_bytes > r.max_bytes)
		return err_set(err, RC_BADDATA, "minBytes is more than maxBytes");
	*out = r;
	return RC_OK;
}

static enum rc
add_rule(struct tuner *t, const struct tune_rule *r, struct err *err)
{
	struct tune_rule *v;

	if (t->nrules == TUNE_MAX_RULES)
		return err_set(err, RC_BADDATA, "more than %d lines", TUNE_MAX_RULES);
	v = alloc_resize(t->rule, t->nrules + 1, sizeof *v);
	if (!v)
		return err_set(err, RC_NOMEM, "out of memory");
	t->rule = v;
	v[t->nrules++] = *r;
	return RC_OK;
}

enum rc
tuner_rules(struct tuner *t, const char *text, const char *name, struct err *err)
{
	struct tuner new = {0};
	struct err why = {0};
	unsigned line = 1;
	enum rc rc = RC_OK;

	for (const char *p = text, *end; *p; p = *end ? end + 1 : end, line++) {
		struct tune_rule r;
		bool fits;

		end = p + strcspn(p, "\n");
		p += strspn(p, " \t\r");
		if (p >= end || *p == '#')
			continue;
		rc = parse_rule(p, end, &r, &fits, &why);
		if (rc == RC_OK && fits)
			rc = add_rule(&new, &r, &why);
		if (rc != RC_OK)
			break;
	}
	if (rc != RC_OK) {
		tuner_fini(&new);
		return err_set(err, rc == RC_NOMEM ? rc : RC_BADDATA, "%s:%u: %s", name, line,
			       why.text);
	}
	free(t->rule);
	t->rule = new.rule;
	t->nrules = new.nrules;
	return RC_OK;
}

enum rc
tuner_configure(struct tuner *t, const char *algo, const char *path, struct err *err)
{
	struct buf text = {0};
	enum rc rc;

	if (algo && tuner_select(t, algo, err) != RC_OK)
		return err_prefix(err, "GPUSIM_ALGO");
	if (!path || !*path)
		return RC_OK;
	rc = file_text(path, "a tuner file", &text, err);
	if (rc == RC_OK)
		rc = tuner_rules(t, text.data, path, err);
	buf_fini(&text);
	return rc;
}

/* ---- choosing */

static double
cost(const struct tuner *t, const struct tune_ask *ask, const struct cost_algo *row,
     uint64_t chunk_bytes)
{
	struct cost_args a = {ask->nranks, (double)ask->nbytes, (double)chunk_bytes, 1};

	if (!row || ask->nranks < 2)
		return NAN;
	a.widening = cost_widening(row->coll, row->name, ask->nranks, ask->widening);
	return row->us(&a, &t->model[ask->transport]);
}

/* A large vector goes through sockets in pieces whose window fits a core's cache. */
static uint64_t
largest_chunk(const struct tune_ask *ask)
{
	return ask->transport == TUNE_NET && ask->nbytes > TUNE_LARGE_BYTES ? TUNE_LARGE_CHUNK_BYTES
									    : TUNE_CHUNK_BYTES;
}

/* The algorithm's best size of messages: a smaller one must gain something. */
static void
best_chunk(const struct tuner *t, const struct tune_ask *ask, struct tune_answer *a)
{
	const struct cost_algo *row = cost_find(ask->coll, a->algo->name);

	a->chunk_bytes = ask->chunk_bytes ? ask->chunk_bytes : largest_chunk(ask);
	a->us = cost(t, ask, row, a->chunk_bytes);
	if (ask->chunk_bytes || !row || !row->pipelined)
		return;
	for (uint64_t c = largest_chunk(ask) / 2; c >= TUNE_MIN_CHUNK_BYTES; c /= 2) {
		double us = cost(t, ask, row, c);

		if (us < 0.98 * a->us) {
			a->us = us;
			a->chunk_bytes = c;
		}
	}
}

/* A single rank stores into no peer. */
static bool
is_barred(const struct tune_ask *ask, const struct plan_algo *algo)
{
	return ask->no_stores && ask->nranks > 1 && plan_algo_stores(algo);
}

/* Allowed, and possible with this transport? */
static bool
usable(const struct tuner *t, const struct tune_ask *ask, const struct plan_algo *algo)
{
	const struct cost_algo *row = cost_find(algo->coll, algo->name);

	return algo->coll == ask->coll && allows(t, algo) &&
	       !(ask->canonical && ask->nranks > 1 && !plan_algo_canonical(algo)) &&
	       (!row || !row->shared || ask->transport == TUNE_P2P) && !is_barred(ask, algo);
}

/* May the model take it? */
static bool
eligible(const struct tuner *t, const struct tune_ask *ask, const struct cost_algo *row,
	 const struct plan_algo **algo)
{
	return row->coll == ask->coll && (!row->slow || t->select[row->coll].named) &&
	       plan_algo_find(row->coll, row->name, algo, NULL) == RC_OK && usable(t, ask, *algo);
}

static const struct tune_rule *
find_rule(const struct tuner *t, const struct tune_ask *ask)
{
	for (size_t i = 0; i < t->nrules; i++) {
		const struct tune_rule *r = &t->rule[i];

		if (r->coll == ask->coll && ask->nbytes >= r->min_bytes &&
		    ask->nbytes <= r->max_bytes && usable(t, ask, r->algo) &&
		    (r->transport < 0 || r->transport == (int)ask->transport) &&
		    (!r->nranks || r->nranks == ask->nranks))
			return r;
	}
	return NULL;
}

/* The cheapest; of equals the first of cost_algos. algo is NULL: the model may take none. */
static void
by_model(const struct tuner *t, const struct tune_ask *ask, struct tune_answer *out)
{
	*out = (struct tune_answer){.us = INFINITY};
	for (const struct cost_algo *row = cost_algos; row->name; row++) {
		struct tune_answer a = {.by = TUNE_BY_MODEL};

		if (!eligible(t, ask, row, &a.algo))
			continue;
		best_chunk(t, ask, &a);
		if (!out->algo || a.us < 0.98 * out->us)
			*out = a;
	}
}

/* GPUSIM_ALGO has left algorithms that the model does not take by itself: take the first of them. Or it
 * has left none that this transport can do: ignore it. */
static void
by_name(const struct tuner *t, const struct tune_ask *ask, struct tune_answer *out)
{
	struct tuner all;

	for (const struct plan_algo *row = plan_algos; row->name; row++) {
		if (!usable(t, ask, row))
			continue;
		*out = (struct tune_answer){.algo = row, .by = TUNE_BY_NAME};
		best_chunk(t, ask, out);
		return;
	}
	tuner_init(&all);
	memcpy(all.model, t->model, sizeof all.model);
	by_model(&all, ask, out);
}

enum rc
tuner_choose(const struct tuner *t, const struct tune_ask *ask, struct tune_answer *out,
	     struct err *err)
{
	const struct tune_rule *rule;
	struct tune_answer a = {.by = TUNE_BY_CALL};
	bool open = !ask->algo || !*ask->algo || strcmp(ask->algo, "auto") == 0;
	enum rc rc = plan_algo_find(ask->coll, ask->algo, &a.algo, err);

	if (rc != RC_OK)
		return rc;
	if (!open && is_barred(ask, a.algo))
		return err_set(err, RC_INVAL,
			       "%s %s writes to other ranks' memory, which a communicator that "
			       "recovers from failures does not allow",
			       coll_name(ask->coll), a.algo->name);
	if (!open && ask->canonical && ask->nranks > 1 &&
	    plan_algo_check_canonical(a.algo, err) != RC_OK)
		return RC_INVAL;
	rule = open ? find_rule(t, ask) : NULL;
	if (rule) {
		a.algo = rule->algo;
		a.by = TUNE_BY_FILE;
	}
	if (!open || rule)
		best_chunk(t, ask, &a);
	else
		by_model(t, ask, &a);
	if (!a.algo)
		by_name(t, ask, &a);
	*out = a;
	return RC_OK;
}
