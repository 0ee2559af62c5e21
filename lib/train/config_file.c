#include <ini.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/config_impl.h"

/* inih reads line by line through next_line, so on_pair knows the line it is called for. */
struct reading {
	struct config_draft *d;
	const char *next; /* text that is left */
	struct config_from from;
	struct err *err; /* set when reading has ended early, of line from.line */
};

static bool
blank(char c)
{
	return c == ' ' || c == '\t';
}

/* How much of a line is no comment: it begins at its beginning or after a blank. */
static size_t
content(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((s[i] == '#' || s[i] == ';') && (i == 0 || blank(s[i - 1])))
			return i;
	return len;
}

static bool
is_text(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (((unsigned char)s[i] < ' ' && s[i] != '\t') || s[i] == 0x7f)
			return false;
	return true;
}

/* As fgets: the next line, without blanks around it and comments. Leading blanks would make it a
 * continuation of the one before. */
static char *
next_line(char *out, int size, void *arg)
{
	struct reading *r = arg;
	const char *s = r->next;
	size_t len = strcspn(s, "\n");

	if (!*s || r->err->rc != RC_OK)
		return NULL;
	r->from.line++;
	r->next = s + len + (s[len] == '\n');
	if (len && s[len - 1] == '\r')
		len--;
	if (!is_text(s, len)) {
		err_set(r->err, RC_INVAL, "%s:%d: not text", r->from.file, r->from.line);
		return NULL;
	}
	while (len && blank(*s))
		s++, len--;
	len = content(s, len);
	while (len && blank(s[len - 1]))
		len--;
	if (len > CONFIG_MAX_LINE || len + 2 > (size_t)size) {
		err_set(r->err, RC_INVAL, "%s:%d: longer than %d bytes", r->from.file, r->from.line,
			CONFIG_MAX_LINE);
		return NULL;
	}
	memcpy(out, s, len);
	out[len] = '\n';
	out[len + 1] = '\0';
	return out;
}

/* The key as it may be shown. */
static const char *
shown(const char *key, char out[48])
{
	size_t n = 0;

	for (; key[n] && n < 40; n++)
		out[n] = key[n] > ' ' && key[n] < 0x7f ? key[n] : '?';
	out[n] = '\0';
	return out;
}

static enum rc
take_pair(struct reading *r, const char *key, const char *value)
{
	const struct config_from *f = &r->from;
	unsigned row = config_row_of_key(key);
	char name[48];

	shown(key, name);
	if (row == config_noptions)
		return err_set(r->err, RC_INVAL, "%s:%d: no option '%s'; mnist-train -h lists them",
			       f->file, f->line, name);
	if (!config_options[row].parse)
		return err_set(r->err, RC_INVAL, "%s:%d: %s: not in a file", f->file, f->line,
			       name);
	if (r->d->from[row].rank == f->rank)
		return err_set(r->err, RC_INVAL, "%s:%d: %s: given in line %d already", f->file,
			       f->line, name, r->d->from[row].line);
	return config_set(r->d, row, name, value, f, r->err);
}

/* For inih: 1 goes on. */
static int
on_pair(void *arg, const char *section, const char *key, const char *value)
{
	struct reading *r = arg;

	(void)section;
	return r->err->rc == RC_OK && take_pair(r, key, value) == RC_OK;
}

/* Neurons that this file gave, as layers: 0 is what the data have. */
static enum rc
take_neurons(struct config_draft *d, int rank, struct err *err)
{
	static const char *const keys[] = {"inputlayerneurons", "hiddenlayerneurons",
					   "outputlayerneurons"};
	const struct config_from *from = NULL;
	const struct config_neurons *n = &d->neurons;
	struct net_config *net = &d->c.net;

	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
		if (d->from[config_row(keys[i])].rank == rank)
			from = &d->from[config_row(keys[i])];
	if (!from)
		return RC_OK;
	if (d->from[config_row("layers")].rank == rank)
		return err_set(err, RC_INVAL, "%s:%d: layers and their neurons are both given",
			       from->file, from->line);
	if (!n->input && !n->nhidden)
		return err_set(err, RC_INVAL,
			       "%s:%d: outputLayerNeurons needs the layers before it", from->file,
			       from->line);
	net->nsizes = 0;
	net->size[net->nsizes++] = 0;
	if (n->input)
		net->size[net->nsizes++] = n->input;
	for (uint32_t i = 0; i < n->nhidden; i++)
		net->size[net->nsizes++] = n->hidden[i];
	net->size[net->nsizes++] = n->output;
	d->from[config_row("layers")] = *from;
	return RC_OK;
}

/* Fractions that this file gave: what is left is for testing, or for training. */
static enum rc
take_fractions(struct config_draft *d, int rank, struct err *err)
{
	struct dataset_options *s = &d->c.dataset;
	const struct config_from *train = &d->from[config_row("trainfraction")];
	const struct config_from *validation = &d->from[config_row("validationfraction")];
	const struct config_from *test = &d->from[config_row("testfraction")];
	const struct config_from *from = train->rank == rank	    ? train
					 : validation->rank == rank ? validation
								    : test;
	if (from->rank != rank)
		return RC_OK;
	if (d->from[config_row("split")].rank == rank)
		return err_set(err, RC_INVAL, "%s:%d: split and its fractions are both given",
			       from->file, from->line);
	if (train->rank && !test->rank)
		s->test = fmax(0, 1 - s->train - s->validation);
	else if (test->rank && !train->rank)
		s->train = fmax(0, 1 - s->test - s->validation);
	if (s->train + s->validation + s->test > 1 + 1e-9)
		return err_set(err, RC_INVAL, "%s:%d: the fractions sum to more than 1", from->file,
			       from->line);
	d->from[config_row("split")] = *from;
	return RC_OK;
}

enum rc
config_file_text(struct config_draft *d, const char *text, const char *name, int rank,
		 struct err *err)
{
	struct err why = {0};
	struct reading r = {
	    .d = d, .next = text, .from = {.rank = rank, .file = name}, .err = &why};
	int line = ini_parse_stream(next_line, &r, on_pair, &r);
	enum rc rc;

	if (line < 0)
		return err_set(err, RC_NOMEM, "%s: out of memory", name);
	if (line > 0 && (why.rc == RC_OK || line < r.from.line))
		return err_set(err, RC_INVAL, "%s:%d: neither name = value nor [section]", name,
			       line);
	if (why.rc != RC_OK)
		return err_set(err, why.rc, "%s", why.text);
	rc = take_neurons(d, rank, err);
	return rc == RC_OK ? take_fractions(d, rank, err) : rc;
}
