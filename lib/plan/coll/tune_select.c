/* tune_select.c - GPUSIM_ALGO: the allowed algorithms. */
#include <stdio.h>
#include <string.h>

#include "coll/tune_impl.h"

/* Cut the word up to one of `ends` off *text; RC_INVAL: too long for a name. */
static enum rc
next_word(const char **text, const char *ends, char word[static TUNE_WORD_MAX], struct err *err)
{
	size_t n = strcspn(*text, ends);

	if (n >= TUNE_WORD_MAX)
		return err_set(err, RC_INVAL, "'%.32s...' is not a name", *text);
	memcpy(word, *text, n);
	word[n] = '\0';
	*text += n;
	return RC_OK;
}

/* A list of GPUSIM_ALGO. */
struct list {
	enum gpusim_coll coll; /* GPUSIM_NCOLLS: none was given */
	bool without;
	uint64_t rows;
	struct tune_select files; /* its algorithms of files */
};

/* Add an algorithm of a file. It cannot be excluded: it is chosen only by name. */
static enum rc
list_file(const struct tuner *t, struct list *l, const char *word, struct err *err)
{
	if (!t->takes_files || !tune_is_name(word))
		return err_set(err, RC_INVAL, "%s%sunknown algorithm '%s'",
			       l->coll < GPUSIM_NCOLLS ? coll_name(l->coll) : "",
			       l->coll < GPUSIM_NCOLLS ? ": " : "", word);
	if (l->without)
		return err_set(err, RC_INVAL, "'%s' is not built in and cannot be excluded", word);
	if (l->files.nfiles == TUNE_MAX_FILES)
		return err_set(err, RC_INVAL, "more than %d algorithms of files", TUNE_MAX_FILES);
	snprintf(l->files.file[l->files.nfiles++], TUNE_FILE_NAME, "%s", word);
	return RC_OK;
}

/* "ALGO,ALGO" up to ; or the end. */
static enum rc
parse_names(const struct tuner *t, const char **text, struct list *l, struct err *err)
{
	char word[TUNE_WORD_MAX];

	for (;; ++*text) {
		uint64_t found;
		enum rc rc = next_word(text, ",;", word, err);

		if (rc != RC_OK)
			return rc;
		found = 0;
		for (const struct plan_algo *row = plan_algos; row->name; row++)
			if ((l->coll == GPUSIM_NCOLLS || row->coll == l->coll) &&
			    plan_algo_named(row, word))
				found |= tune_bit(row);
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
		if (row->coll == coll && ((l->rows & tune_bit(row)) != 0) != l->without)
			new.allowed |= tune_bit(row);
	if (!new.allowed && !new.nfiles)
		return err_set(err, RC_INVAL, "%s is left without any algorithm", coll_name(coll));
	*s = new;
	return RC_OK;
}

/* Return true if the list is for the collective. */
static bool
concerns(const struct list *l, enum gpusim_coll coll)
{
	if (l->coll != GPUSIM_NCOLLS)
		return l->coll == coll;
	for (const struct plan_algo *row = plan_algos; row->name; row++)
		if (row->coll == coll && (l->rows & tune_bit(row)))
			return true;
	return false;
}

/* "[COLLECTIVE:][^]ALGO[,ALGO...]" */
static enum rc
select_list(struct tuner *t, const char **text, struct err *err)
{
	struct list l = {.coll = GPUSIM_NCOLLS};
	char word[TUNE_WORD_MAX];
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
		if (concerns(&l, (enum gpusim_coll)c)) {
			rc = select_coll(&t->select[c], (enum gpusim_coll)c, &l, err);
		} else if (l.coll == GPUSIM_NCOLLS && l.files.nfiles) {
			/* Algorithms of files without a collective: each knows its own. */
			memcpy(t->select[c].file, l.files.file, sizeof l.files.file);
			t->select[c].nfiles = l.files.nfiles;
		}
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
