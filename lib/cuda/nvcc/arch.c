/* Merging two preprocessed forms of a source, by file and line. */
#include "nvcc/arch.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/must.h"
#include "nvcc/rewrite.h"

struct line {
	struct buf host, device; /* without blanks at its ends; empty: no such line */
	enum rewrite_place place;
	bool has_place;
	bool take; /* the device's */
	bool written;
};

/* A file; of the user's its lines from 1. */
struct source {
	const char *name; /* borrowed from the text */
	size_t name_len;
	/* As it begins: words of a system's macro are marked so in the user's files, too. */
	bool system;
	struct line *v;
	size_t n;
	size_t next; /* the line that is written next */
	bool seen;   /* in this text */
	bool again;  /* included a second time in this text */
	bool twice;  /* it has lines more than once: it stays as the host's */
};

struct merge {
	struct source *v;
	size_t n;
	bool is_device;	     /* which text is read */
	struct source *at;   /* where the text is */
	struct source *last; /* of the line that was written last */
	struct buf *out;
};

/* ---- lines of a preprocessed text */

/* The place that a text is at. */
struct at {
	const char *name;
	size_t name_len, line;
	bool system, enters, leaves; /* the marker begins an included file, returns from one */
};

/* `# 12 "file" 1 3`. False: not a line marker. */
static bool
read_marker(const char *s, size_t n, struct at *at)
{
	const char *open = memchr(s, '"', n), *close;
	char *end;
	size_t line;

	if (n < 5 || s[0] != '#' || s[1] != ' ' || !isdigit((unsigned char)s[2]) || !open)
		return false;
	line = strtoul(s + 2, &end, 10);
	close = memrchr(s, '"', n);
	*at = (struct at){.name = open + 1, .name_len = (size_t)(close - open) - 1, .line = line};
	for (const char *f = close + 1; f < s + n; f++) {
		at->enters = at->enters || *f == '1';
		at->system = at->system || *f == '3';
		at->leaves = at->leaves || *f == '2';
	}
	return true;
}

static struct source *
find_source(struct merge *m, const char *name, size_t n)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->v[i].name_len == n && memcmp(m->v[i].name, name, n) == 0)
			return &m->v[i];
	return NULL;
}

static struct source *
source_of(struct merge *m, const struct at *at)
{
	struct source *s = find_source(m, at->name, at->name_len);

	if (s)
		return s;
	m->v = must_resize(m->v, m->n + 1, sizeof *m->v);
	m->v[m->n] = (struct source){at->name, at->name_len, .system = at->system, .next = 1};
	return &m->v[m->n++];
}

static struct line *
line_of(struct source *s, size_t line)
{
	if (line >= s->n) {
		size_t n = line + line / 2 + 64;

		s->v = must_resize(s->v, n, sizeof *s->v);
		memset(s->v + s->n, 0, (n - s->n) * sizeof *s->v);
		s->n = n;
	}
	return &s->v[line];
}

/* Append without blanks at the ends. */
static void
add_trimmed(struct buf *b, const char *s, size_t n)
{
	while (n && isspace((unsigned char)*s))
		s++, n--;
	while (n && isspace((unsigned char)s[n - 1]))
		n--;
	if (n && b->len)
		must_add(b, " ", 1);
	must_add(b, s, n);
}

static bool
same(const struct line *l)
{
	return l->host.len == l->device.len &&
	       (l->host.len == 0 || memcmp(l->host.data, l->device.data, l->host.len) == 0);
}

/* Call fn for each line. marker: the line is one, and `at` is where it leads. */
static void
each_line(struct merge *m, const struct buf *text,
	  void (*fn)(struct merge *m, const struct at *at, bool marker, const char *s, size_t n))
{
	struct at at = {0};

	for (const char *s = text->data, *end = s + text->len, *eol; s < end; s = eol + 1) {
		bool marker;

		eol = memchr(s, '\n', (size_t)(end - s));
		eol = eol ? eol : end;
		marker = read_marker(s, (size_t)(eol - s), &at);
		fn(m, &at, marker, s, (size_t)(eol - s));
		at.line += !marker;
	}
}

/* A line with words of a system's macro comes in parts, each after a marker. */
static void
note_line(struct merge *m, const struct at *at, bool marker, const char *s, size_t n)
{
	struct source *source = m->at;
	struct line *l;

	if (marker)
		m->at = source = source_of(m, at);
	if (!source || source->system)
		return;
	if (marker && at->enters)
		source->again = source->seen;
	if (marker || n == 0 || *s == '#')
		return;
	source->seen = true;
	l = line_of(source, at->line);
	add_trimmed(m->is_device ? &l->device : &l->host, s, n);
	source->twice =
	    source->twice || (source->again && (m->is_device ? l->device.len : l->host.len));
}

static void
note_place(void *arg, const char *file, unsigned line, enum rewrite_place place)
{
	struct source *s = find_source(arg, file, strlen(file));
	struct line *l = s ? line_of(s, line) : NULL;

	if (l && (!l->has_place || place == REWRITE_DEVICE))
		l->place = place;
	if (l)
		l->has_place = true;
}

/* ---- choosing: lines that only one text has are runs */

static bool
has_only(const struct line *l, bool device)
{
	return !same(l) && (device ? l->host.len == 0 : l->device.len == 0);
}

/* Are lines (from, to) of the file the other branch of an #if? */
static bool
is_else(const struct source *s, size_t from, size_t to)
{
	struct buf text = {0};
	char *name;
	size_t line = 1;
	bool found = false;

	must((name = strndup(s->name, s->name_len)) != NULL);
	if (file_bytes(name, SIZE_MAX, &text, NULL) == RC_OK)
		for (const char *p = text.data, *end = p + text.len, *eol; p && p < end;
		     p = eol + 1, line++) {
			eol = memchr(p, '\n', (size_t)(end - p));
			eol = eol ? eol : end;
			while (p < eol && strchr(" \t#", *p))
				p++;
			found = found || (line > from && line < to && eol - p > 3 &&
					  memcmp(p, "el", 2) == 0);
		}
	buf_fini(&text);
	free(name);
	return found;
}

/* Does a run have code of a device alone? */
static bool
has_mark(const struct source *s, size_t from, size_t to)
{
	for (; from < to; from++) {
		const struct buf *b = &s->v[from].device;

		if (b->len && !memmem(b->data, b->len, "__gpusim_host__", 15) &&
		    (memmem(b->data, b->len, "__gpusim_device__", 17) ||
		     memmem(b->data, b->len, "__gpusim_global__", 17)))
			return true;
	}
	return false;
}

/*
 * Outside of functions, both texts' lines are there, unless they are branches of one #if: then those of the device, if
 * they have code of a device alone, else those of the host.
 */
static void
choose_ground(struct source *s, size_t from, size_t to)
{
	size_t next = to;

	for (size_t i = from; i < to; i++)
		s->v[i].take = true;
	while (next < s->n && same(&s->v[next]) && !s->v[next].host.len)
		next++;
	if (next < s->n && has_only(&s->v[next], false) && is_else(s, to - 1, next)) {
		bool take = has_mark(s, from, to);

		for (size_t i = from; i < to; i++)
			s->v[i].take = take;
		for (; next < s->n && (has_only(&s->v[next], false) || !s->v[next].host.len);
		     next++)
			s->v[next].take = take;
	}
}

static void
choose(struct source *s)
{
	enum rewrite_place place = REWRITE_GROUND;

	for (size_t i = s->n; i-- > 0;) /* what is not there is where the next line is */
		if (s->v[i].has_place)
			place = s->v[i].place;
		else
			s->v[i].place = place;
	for (size_t i = 0, end; i < s->n; i = end) {
		const bool device = has_only(&s->v[i], true);

		end = i + 1;
		if (same(&s->v[i]))
			continue;
		if (s->v[i].place == REWRITE_DEVICE) {
			s->v[i].take = true;
		} else if (s->v[i].place == REWRITE_GROUND && device) {
			while (end < s->n && (has_only(&s->v[end], true) ||
					      (same(&s->v[end]) && !s->v[end].host.len)))
				end++;
			while (!has_only(&s->v[end - 1], true))
				end--;
			choose_ground(s, i, end);
		}
	}
}

/* ---- writing */

/* Lines before `to` that only the device's text has. */
static void
write_missing(struct merge *m, struct source *s, size_t to)
{
	for (; s->next < to && s->next < s->n && !s->twice; s->next++)
		if (s->v[s->next].take && s->v[s->next].device.len && !s->v[s->next].written)
			must_addf(m->out, "# %zu \"%.*s\"\n%.*s\n", s->next, (int)s->name_len,
				  s->name, (int)s->v[s->next].device.len,
				  s->v[s->next].device.data);
	if (s->next < to)
		s->next = to;
}

static void
write_line(struct merge *m, const struct at *at, bool marker, const char *s, size_t n)
{
	struct source *source = marker ? find_source(m, at->name, at->name_len) : m->last;
	struct line *l;

	if (source && source->system)
		source = NULL;
	if (marker && at->leaves && m->last && m->last != source)
		write_missing(m, m->last, m->last->n);
	if (source && (!marker || source == m->last || at->leaves))
		write_missing(m, source, at->line);
	m->last = source;
	l = source && !marker && !source->twice && at->line < source->n ? &source->v[at->line]
									: NULL;
	if (!l || !l->take)
		must_add(m->out, s, n);
	else if (l->device.len && !l->written)
		must_add(m->out, l->device.data, l->device.len);
	must_add(m->out, "\n", 1);
	if (l) {
		l->written = true;
		source->next = source->next > at->line + 1 ? source->next : at->line + 1;
	}
}

bool
arch_matters(const struct buf *host)
{
	struct at at;
	bool matters = false;

	for (const char *s = host->data, *end = s + host->len, *eol; s < end && !matters;
	     s = eol + 1) {
		struct buf text = {0};
		char *name;

		eol = memchr(s, '\n', (size_t)(end - s));
		eol = eol ? eol : end;
		/* Once a file: where it begins. */
		if (*s != '#' || !read_marker(s, (size_t)(eol - s), &at) || at.system ||
		    at.line > 1)
			continue;
		must((name = strndup(at.name, at.name_len)) != NULL);
		if (file_bytes(name, SIZE_MAX, &text, NULL) == RC_OK)
			matters = text.len && memmem(text.data, text.len, "__CUDA_ARCH__", 13);
		buf_fini(&text);
		free(name);
	}
	return matters;
}

void
arch_merge(const struct buf *host, const struct buf *device, const char *name, struct buf *out)
{
	struct merge m = {.out = out};

	each_line(&m, host, note_line);
	m.at = NULL;
	for (size_t i = 0; i < m.n; i++)
		m.v[i].seen = m.v[i].again = false;
	m.is_device = true;
	each_line(&m, device, note_line);
	rewrite_places(device->data, device->len, name, note_place, &m);
	for (size_t i = 0; i < m.n; i++)
		choose(&m.v[i]);
	each_line(&m, host, write_line);
	for (size_t i = 0; i < m.n; i++) {
		write_missing(&m, &m.v[i], m.v[i].n);
		for (size_t k = 0; k < m.v[i].n; k++) {
			buf_fini(&m.v[i].v[k].host);
			buf_fini(&m.v[i].v[k].device);
		}
		free(m.v[i].v);
	}
	free(m.v);
}
