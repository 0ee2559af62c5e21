/*
 * config_file.c - files of options: lines NAME = VALUE as in INI files, and as in .env files, which have
 * "export " before names and quotes around values.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "train/config_impl.h"

struct reading {
	struct config_draft *d;
	struct config_from from; /* the line that is read */
};

static bool
blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool
is_text(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (((unsigned char)s[i] < ' ' && s[i] != '\t') || s[i] == 0x7f)
			return false;
	return true;
}

/* Whether nothing but a comment begins here: it does at the beginning of a line and behind a blank. */
static bool
is_rest(const char *s)
{
	const char *p = s;

	while (blank(*p))
		p++;
	return !*p || ((p > s || blank(p[-1])) && (*p == '#' || *p == ';'));
}

/* End the text where a comment begins, and before blanks. */
static void
cut_comment(char *s)
{
	size_t len = 0;

	while (s[len] && !((s[len] == '#' || s[len] == ';') && (len == 0 || blank(s[len - 1]))))
		len++;
	while (len && blank(s[len - 1]))
		len--;
	s[len] = '\0';
}

static enum rc
refuse(const struct reading *r, const char *reason, struct err *err)
{
	return err_set(err, RC_INVAL, "%s:%d: %s", r->from.file, r->from.line, reason);
}

/* What a character means behind a backslash. */
static char
unescape(char c)
{
	return c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : c;
}

/*
 * A value in quotes, in place. Between single quotes each character is itself; between double quotes \n, \r
 * and \t are control characters, and \ before any other character stands for that.
 */
static enum rc
take_quoted(const struct reading *r, char *value, struct err *err)
{
	char quote = *value, *from = value + 1, *to = value;

	for (; *from != quote; from++) {
		bool escaped = quote == '"' && *from == '\\';

		from += escaped;
		if (!*from)
			return refuse(r, "a quote is never closed", err);
		*to++ = escaped ? unescape(*from) : *from;
	}
	if (!is_rest(from + 1))
		return refuse(r, "text behind a closing quote", err);
	*to = '\0';
	return RC_OK;
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

/* An option that is none: a sentence, which is a warning, or with --strict an error. */
static enum rc
note_unknown(const struct reading *r, const char *key, const char *name, struct err *err)
{
	const char *meant = config_nearest(key);
	struct buf *notes = &r->d->unknown;
	bool good = buf_addf(notes, "%s:%d: no option '%s'; ", r->from.file, r->from.line, name) &&
		    (meant ? buf_addf(notes, "did you mean '%s'?\n", meant)
			   : buf_addf(notes, "mnist-train -h lists them\n"));

	return good ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
}

static enum rc
take_pair(const struct reading *r, const char *key, const char *value, struct err *err)
{
	const struct config_from *f = &r->from;
	unsigned row = config_row_of_key(key);
	char name[48];

	shown(key, name);
	if (row == config_noptions)
		return note_unknown(r, key, name, err);
	if (!config_options[row].parse)
		return err_set(err, RC_INVAL, "%s:%d: %s: not in a file", f->file, f->line, name);
	if (r->d->from[row].rank == f->rank)
		return err_set(err, RC_INVAL, "%s:%d: %s: given in line %d already", f->file,
			       f->line, name, r->d->from[row].line);
	return config_set(r->d, row, name, value, f, err);
}

/* A line without blanks before it, which is cut up. */
static enum rc
take_line(const struct reading *r, char *line, struct err *err)
{
	static const char neither[] = "neither name = value nor [section]";
	char *value, *end;
	enum rc rc = RC_OK;

	if (*line == '[') {
		end = strchr(line, ']');
		return end && is_rest(end + 1) ? RC_OK : refuse(r, neither, err);
	}
	if (strncmp(line, "export", 6) == 0 && blank(line[6]))
		line += 7 + strspn(line + 7, " \t");
	end = strpbrk(line, "=:");
	if (!end || end == line)
		return refuse(r, neither, err);
	value = end + 1 + strspn(end + 1, " \t");
	while (end > line && blank(end[-1]))
		end--;
	*end = '\0';
	if (*value == '"' || *value == '\'')
		rc = take_quoted(r, value, err);
	else
		cut_comment(value);
	return rc == RC_OK ? take_pair(r, line, value, err) : rc;
}

/* The line at s, of len bytes, in a copy without blanks around it and what is comment alone. */
static enum rc
next_line(const struct reading *r, const char *s, size_t len, struct err *err)
{
	char line[CONFIG_MAX_LINE + 1], reason[48];

	if (!is_text(s, len))
		return refuse(r, "not text", err);
	while (len && blank(*s))
		s++, len--;
	while (len && blank(s[len - 1]))
		len--;
	if (!len || *s == '#' || *s == ';')
		return RC_OK;
	if (len > CONFIG_MAX_LINE) {
		snprintf(reason, sizeof reason, "longer than %d bytes", CONFIG_MAX_LINE);
		return refuse(r, reason, err);
	}
	memcpy(line, s, len);
	line[len] = '\0';
	return take_line(r, line, err);
}

/* Neurons that this file gave, as layers: 0 is what the data have. */
static enum rc
take_neurons(struct config_draft *d, int rank, struct err *err)
{
	static const char *const keys[] = {"inputLayerNeurons", "hiddenLayerNeurons",
					   "outputLayerNeurons"};
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
	const struct config_from *train = &d->from[config_row("trainFraction")];
	const struct config_from *validation = &d->from[config_row("validationFraction")];
	const struct config_from *test = &d->from[config_row("testFraction")];
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
	struct reading r = {.d = d, .from = {.rank = rank, .file = name}};
	size_t len;
	enum rc rc = RC_OK;

	if (strncmp(text, "\xef\xbb\xbf", 3) == 0) /* a byte order mark */
		text += 3;
	for (; rc == RC_OK && *text; text += len + (text[len] == '\n')) {
		len = strcspn(text, "\n");
		r.from.line++;
		rc = next_line(&r, text, len - (len && text[len - 1] == '\r'), err);
	}
	if (rc == RC_OK)
		rc = take_neurons(d, rank, err);
	return rc == RC_OK ? take_fractions(d, rank, err) : rc;
}
