#include "coll/tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/parse.h"

/*
 * Costs that nothing else was said about, of one machine: a message through a socket, each of both devices' threads, a byte through a socket with its checksum, a byte added.
 * Shared memory: a point where all wait for all, a byte copied, a byte added.
 */
static const struct cost_model defaults[TUNE_NTRANSPORTS] = {
    [TUNE_NET] = {.alpha_us = 8, .beta_us = 0.001, .gamma_us = 0.00004, .host_us = 16},
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

static void
rules_free(struct tuner *t)
{
	for (size_t i = 0; i < t->nrules; i++)
		free(t->rule[i].file);
	free(t->rule);
	t->rule = NULL;
	t->nrules = 0;
}

void
tuner_fini(struct tuner *t)
{
	rules_free(t);
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

/* A list of GPUSIM_ALGO. */
struct list {
	enum gpusim_coll coll; /* GPUSIM_NCOLLS: none was said */
	bool without;
	uint64_t rows;
	struct tune_select files; /* its names of files */
};

/* Those of files cannot be left out: they are taken by their names alone. */
static enum rc
list_file(const struct tuner *t, struct list *l, const char *word, struct err *err)
{
	if (!t->takes_files || !tune_is_name(word))
		return err_set(err, RC_INVAL, "%s%sno algorithm '%s'",
			       l->coll < GPUSIM_NCOLLS ? coll_name(l->coll) : "",
			       l->coll < GPUSIM_NCOLLS ? ": " : "", word);
	if (l->without)
		return err_set(err, RC_INVAL, "'%s' is not built in and cannot be left out", word);
	if (l->files.nfiles == TUNE_MAX_FILES)
		return err_set(err, RC_INVAL, "more than %d algorithms of files", TUNE_MAX_FILES);
	snprintf(l->files.file[l->files.nfiles++], TUNE_FILE_NAME, "%s", word);
	return RC_OK;
}

/* "ALGO,ALGO" up to ; or the end. */
static enum rc
parse_names(const struct tuner *t, const char **text, struct list *l, struct err *err)
{
	char word[WORD_MAX];

	for (;; ++*text) {
		uint64_t found;
		enum rc rc = next_word(text, ",;", word, err);

		if (rc != RC_OK)
			return rc;
		found = rows_named(word, l->coll);
		if (!found && list_file(t, l, word, err) != RC_OK)
			return err->rc;
		l->rows |= found;
		if (**text != ',')
			return RC_OK;
	}
}

static enum rc
select_coll(struct tune_select *s, enum gpusim_coll coll, const struct list *l, struct err *err)
{
	struct tune_select new = l->files;

	new.named = !l->without;
	for (const struct plan_algo *row = plan_algos; row->name; row++)
		if (of_coll(row, coll) && ((l->rows & bit(row)) != 0) != l->without)
			new.allowed |= bit(row);
	if (!new.allowed && !new.nfiles)
		return err_set(err, RC_INVAL, "%s is left without any algorithm", coll_name(coll));
	*s = new;
	return RC_OK;
}

/* Names of files alone, of no said collective: an algorithm knows its own. */
static void
select_files(struct tune_select *s, const struct list *l)
{
	memcpy(s->file, l->files.file, sizeof s->file);
	s->nfiles = l->files.nfiles;
}

/* Is the list about the collective? */
static bool
concerns(const struct list *l, enum gpusim_coll coll)
{
	if (l->coll != GPUSIM_NCOLLS)
		return l->coll == coll;
	for (const struct plan_algo *row = plan_algos; row->name; row++)
		if (of_coll(row, coll) && (l->rows & bit(row)))
			return true;
	return false;
}

/* "[COLLECTIVE:][^]ALGO[,ALGO...]" */
static enum rc
select_list(struct tuner *t, const char **text, struct err *err)
{
	struct list l = {.coll = GPUSIM_NCOLLS};
	char word[WORD_MAX];
	enum rc rc = RC_OK;

	if ((*text)[strcspn(*text, ":;")] == ':') {
		rc = next_word(text, ":", word, err);
		if (rc == RC_OK)
			rc = coll_parse(word, &l.coll, err);
		++*text;
	}
	if (rc != RC_OK)
		return rc;
	l.without = **text == '^';
	*text += l.without;
	rc = parse_names(t, text, &l, err);
	for (int c = 0; c < GPUSIM_NCOLLS && rc == RC_OK; c++)
		if (concerns(&l, (enum gpusim_coll)c))
			rc = select_coll(&t->select[c], (enum gpusim_coll)c, &l, err);
		else if (l.coll == GPUSIM_NCOLLS && l.files.nfiles)
			select_files(&t->select[c], &l);
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

/* Of a rule: what is built in, or a name of a file's where those are taken. */
static enum rc
set_algo(const struct tuner *t, struct tune_rule *r, const char *word, struct err *err)
{
	struct err why = {0};

	if (plan_algo_find(r->coll, word, &r->algo, &why) == RC_OK)
		return RC_OK;
	if (!t->takes_files || !tune_is_name(word) || plan_algo_is_built_in(word))
		return (*err = why).rc;
	free(r->file);
	r->file = strdup(word);
	r->algo = &plan_algo_file;
	return r->file ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
}

static enum rc
set_column(const struct tuner *t, struct tune_rule *r, int col, const char *word, bool *fits,
	   struct err *err)
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
		return set_algo(t, r, word, err);
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

/* r->file is the caller's to free, on failure too. */
static enum rc
parse_rule(const struct tuner *t, const char *line, const char *end, struct tune_rule *r,
	   bool *fits, struct err *err)
{
	char word[WORD_MAX];
	int col = 0;

	*r = (struct tune_rule){.transport = -1};
	*fits = true;
	for (; line; col++) {
		enum rc rc;

		if (col == NCOLS)
			return err_set(err, RC_BADDATA, "more than %d columns", NCOLS);
		rc = next_column(&line, end, word, err);
		if (rc == RC_OK)
			rc = set_column(t, r, col, word, fits, err);
		if (rc != RC_OK)
			return err_prefix(err, "%s", columns[col]);
	}
	if (col <= COL_ALGO)
		return err_set(err, RC_BADDATA, "%s is missing", columns[col]);
	if (r->min_bytes > r->max_bytes)
		return err_set(err, RC_BADDATA, "minBytes is more than maxBytes");
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
		rc = parse_rule(t, p, end, &r, &fits, &why);
		if (rc == RC_OK && fits)
			rc = add_rule(&new, &r, &why);
		if (rc != RC_OK || !fits)
			free(r.file);
		if (rc != RC_OK)
			break;
	}
	if (rc != RC_OK) {
		rules_free(&new);
		return err_set(err, rc == RC_NOMEM ? rc : RC_BADDATA, "%s:%u: %s", name, line,
			       why.text);
	}
	rules_free(t);
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

/* A rule's, or GPUSIM_ALGO's: it counts where it fits in all. */
static const struct tune_file *
fitting(const struct tune_ask *ask, const char *name)
{
	const struct tune_file *f = tune_file_find(ask->files, name);

	return f && tune_file_check(f, ask, NULL) == RC_OK && ask->nbytes >= f->min_bytes &&
		       (!f->max_bytes || ask->nbytes <= f->max_bytes)
		   ? f
		   : NULL;
}

/* GPUSIM_ALGO has listed what is built in, or nothing of files. */
static bool
lists(const struct tune_select *s, const char *file)
{
	if (!s->named)
		return true;
	for (unsigned i = 0; i < s->nfiles; i++)
		if (strcmp(s->file[i], file) == 0)
			return true;
	return false;
}

/* The rule's algorithm can be taken now. */
static bool
rule_usable(const struct tuner *t, const struct tune_ask *ask, const struct tune_rule *r)
{
	if (r->file)
		return lists(&t->select[r->coll], r->file) && fitting(ask, r->file);
	return usable(t, ask, r->algo);
}

static const struct tune_rule *
find_rule(const struct tuner *t, const struct tune_ask *ask)
{
	for (size_t i = 0; i < t->nrules; i++) {
		const struct tune_rule *r = &t->rule[i];

		if (r->coll == ask->coll && ask->nbytes >= r->min_bytes &&
		    ask->nbytes <= r->max_bytes && rule_usable(t, ask, r) &&
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

/* The call's own algorithm is of a file. */
static enum rc
by_call(const struct tune_ask *ask, struct tune_answer *out, struct err *err)
{
	const struct tune_file *f = tune_file_find(ask->files, ask->algo);

	if (!f)
		return plan_algo_find(ask->coll, ask->algo, &out->algo, err);
	out->algo = &plan_algo_file;
	out->file = f;
	return tune_file_check(f, ask, err);
}

/* GPUSIM_ALGO's first algorithm of a file that fits. */
static const struct tune_file *
listed_file(const struct tuner *t, const struct tune_ask *ask)
{
	const struct tune_select *s = &t->select[ask->coll];
	const struct tune_file *f = NULL;

	for (unsigned i = 0; i < s->nfiles && !f; i++)
		f = fitting(ask, s->file[i]);
	return f;
}

/* What the call leaves open. */
static void
by_tuner(const struct tuner *t, const struct tune_ask *ask, struct tune_answer *a)
{
	const struct tune_rule *rule;

	if ((a->file = listed_file(t, ask))) {
		a->by = TUNE_BY_NAME;
		a->algo = &plan_algo_file;
	} else if ((rule = find_rule(t, ask))) {
		a->by = TUNE_BY_FILE;
		a->algo = rule->algo;
		a->file = rule->file ? fitting(ask, rule->file) : NULL;
	} else {
		by_model(t, ask, a);
		if (!a->algo)
			by_name(t, ask, a);
		return;
	}
	best_chunk(t, ask, a);
}

enum rc
tuner_choose(const struct tuner *t, const struct tune_ask *ask, struct tune_answer *out,
	     struct err *err)
{
	struct tune_answer a = {.by = TUNE_BY_CALL};
	bool open = !ask->algo || !*ask->algo || strcmp(ask->algo, "auto") == 0;
	enum rc rc = by_call(ask, &a, err);

	if (rc != RC_OK)
		return rc;
	if (!open && !a.file && is_barred(ask, a.algo))
		return err_set(err, RC_INVAL,
			       "%s %s writes to other ranks' memory, which a communicator that "
			       "recovers from failures does not allow",
			       coll_name(ask->coll), a.algo->name);
	if (!open && !a.file && ask->canonical && ask->nranks > 1 &&
	    plan_algo_check_canonical(a.algo, err) != RC_OK)
		return RC_INVAL;
	if (open)
		by_tuner(t, ask, &a);
	else
		best_chunk(t, ask, &a);
	*out = a;
	return RC_OK;
}
