/*
 * tune_file.c - algorithms of files in the tuner: chosen by name, where they fit.
 */
#include <ctype.h>
#include <string.h>

#include "coll/tune.h"

bool
tune_is_name(const char *text)
{
	size_t n = strlen(text);

	if (n == 0 || n >= TUNE_FILE_NAME || !isalnum((unsigned char)*text))
		return false;
	for (const char *p = text; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
			return false;
	return true;
}

const struct tune_file *
tune_file_find(const struct tune_files *files, const char *name)
{
	for (size_t i = 0; name && files && i < files->n; i++)
		if (strcmp(files->v[i].name, name) == 0)
			return &files->v[i];
	return NULL;
}

enum rc
tune_file_check(const struct tune_file *f, const struct tune_ask *ask, struct err *err)
{
	if (f->coll != ask->args.coll)
		return err_set(err, RC_INVAL, "algorithm %s is for %s, not %s", f->name,
			       coll_name(f->coll), coll_name(ask->args.coll));
	if (f->nranks != ask->args.nranks)
		return err_set(err, RC_INVAL, "algorithm %s is for %u ranks, not %u", f->name,
			       f->nranks, ask->args.nranks);
	if (coll_has_root(f->coll) && f->root != ask->args.root)
		return err_set(err, RC_INVAL, "algorithm %s is for root %u, not %u", f->name,
			       f->root, ask->args.root);
	if (ask->args.canonical && coll_reduces(f->coll))
		return err_set(err, RC_INVAL, "algorithm %s does not sum by the canonical tree",
			       f->name);
	if (ask->parts)
		return err_set(err, RC_INVAL, "algorithm %s does not accept counts per rank",
			       f->name);
	return RC_OK;
}

static bool
is_listed(const struct tuner *t, enum gpusim_coll coll, const char *name)
{
	const struct tune_select *s = &t->select[coll];

	for (unsigned i = 0; i < s->nfiles; i++)
		if (strcmp(s->file[i], name) == 0)
			return true;
	return false;
}

bool
tuner_names_file(const struct tuner *t, const char *name)
{
	for (size_t i = 0; i < t->nrules; i++)
		if (t->rule[i].file && strcmp(t->rule[i].file, name) == 0)
			return true;
	for (int c = 0; c < GPUSIM_NCOLLS; c++)
		if (is_listed(t, (enum gpusim_coll)c, name))
			return true;
	return false;
}

/* Check that the name is that of an algorithm of the collective, or is also listed for its own
 * collective. */
static enum rc
check_name(const struct tuner *t, const struct tune_files *files, enum gpusim_coll coll,
	   const char *name, const char *whose, struct err *err)
{
	const struct tune_file *f = tune_file_find(files, name);

	if (!f)
		return err_set(err, RC_INVAL,
			       "%s: unknown algorithm '%s': neither built in nor from a file",
			       whose, name);
	if (f->coll != coll && (!t || !is_listed(t, f->coll, name)))
		return err_set(err, RC_INVAL, "%s: algorithm %s is for %s, not %s", whose, name,
			       coll_name(f->coll), coll_name(coll));
	return RC_OK;
}

enum rc
tuner_check_files(const struct tuner *t, const struct tune_files *files, struct err *err)
{
	for (int c = 0; c < GPUSIM_NCOLLS; c++)
		for (unsigned i = 0; i < t->select[c].nfiles; i++)
			if (check_name(t, files, (enum gpusim_coll)c, t->select[c].file[i],
				       "GPUSIM_ALGO", err) != RC_OK)
				return err->rc;
	for (size_t i = 0; i < t->nrules; i++)
		if (t->rule[i].file && check_name(NULL, files, t->rule[i].coll, t->rule[i].file,
						  "the tuner file", err) != RC_OK)
			return err->rc;
	return RC_OK;
}
