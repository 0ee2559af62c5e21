/*
 * show.c - a schedule drawn: a line a rank, time from left to right.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/pipeline_impl.h"

/* What a cell says; a drawing has one of these for all. */
enum {
	LETTERS,
	NUMBERS,
	STAGES,
	BARS
}; /* F; F0; 2F0 where a rank has several stages; and a bar between cells */

static size_t
label(const struct pipeline *p, const struct pipeline_action *a, int level, char out[32])
{
	const char *kind = pipeline_kind_name(a->kind);

	if (level == LETTERS)
		return (size_t)snprintf(out, 32, "%s", kind);
	if (level == NUMBERS || p->nstages == p->nranks)
		return (size_t)snprintf(out, 32, "%s%u", kind, a->micro);
	return (size_t)snprintf(out, 32, "%u%s%u", a->stage, kind, a->micro);
}

/* Characters for a unit of time, so that each label has room. */
static double
room_for_labels(const struct pipeline *p, const struct pipeline_times *t, int level)
{
	double scale = 0;
	char text[32];

	for (uint32_t r = 0; r < p->nranks; r++)
		for (size_t i = 0; i < p->row[r].n; i++) {
			double takes = t->span[r][i].end - t->span[r][i].begin;

			if (takes > 1e-6 * t->end) /* else nobody sees it */
				scale =
				    fmax(scale, ((double)label(p, &p->row[r].v[i], level, text) +
						 (level == BARS)) /
						    takes);
		}
	return isfinite(scale) ? scale : 0;
}

/* ---- text */

static const char *const escapes[] = {[PIPELINE_F] = "\033[30;104m",
				      [PIPELINE_B] = "\033[30;42m",
				      [PIPELINE_I] = "\033[30;46m",
				      [PIPELINE_W] = "\033[30;43m"};

/* The text of a row, and of each column what is drawn there: 1 and the kind, or 0. */
static void
draw_row(const struct pipeline *p, const struct pipeline_times *t, uint32_t r, int level,
	 double scale, size_t width, char *line, char *kinds)
{
	const struct pipeline_row *row = &p->row[r];

	memset(line, '.', width);
	memset(kinds, 0, width);
	for (size_t i = 0; i < row->n; i++) {
		const struct pipeline_action *a = &row->v[i];
		size_t begin = (size_t)lround(t->span[r][i].begin * scale),
		       end = (size_t)lround(t->span[r][i].end * scale);
		bool bar = level == BARS;
		char text[32];

		if (begin == end) /* also of what takes no time */
			continue;
		memset(kinds + begin, 1 + (int)a->kind, end - begin);
		if (label(p, a, level, text) + bar > end - begin || level == LETTERS) {
			memset(line + begin, *pipeline_kind_name(a->kind), end - begin);
			continue;
		}
		memset(line + begin, ' ', end - begin);
		memcpy(line + begin + bar, text, strlen(text));
		if (bar) {
			line[begin] = i > 0 && row->v[i - 1].joined ? '&' : '|';
			line[end] = '|';
		}
	}
}

bool
pipeline_show_text(const struct pipeline *p, const struct pipeline_times *t, unsigned columns,
		   bool colours, struct buf *out)
{
	double most = columns > 12 ? columns - 8 : 4, scale = 0;
	int level = BARS + 1;
	size_t width;
	char *line;

	while (level > LETTERS) {
		scale = room_for_labels(p, t, --level);
		if (t->end * scale <= most)
			break;
	}
	if (level == LETTERS &&
	    t->end > 0) /* whole columns for equal passes, where there is room for that */
		scale = fmin(fmax(1, floor(most / (t->end * scale))) * scale, most / t->end);
	width = (size_t)lround(t->end * scale) + 1; /* the end of the last */
	line = alloc_zeroed(width, 2);
	for (uint32_t r = 0; line && r < p->nranks; r++) {
		draw_row(p, t, r, level, scale, width, line, line + width);
		buf_addf(out, "%5u  ", r);
		for (size_t i = 0, n; i < width; i += n) {
			char kind = line[width + i];

			for (n = 1; i + n < width && line[width + i + n] == kind; n++)
				;
			buf_addf(out, "%s%.*s%s", colours && kind ? escapes[kind - 1] : "", (int)n,
				 line + i, colours && kind ? "\033[0m" : "");
		}
		if (line[width - 1] == '.')
			out->len--; /* that column is for ends */
		buf_addf(out, "\n");
	}
	free(line);
	return line && !out->failed;
}

/* ---- SVG */

#define LETTER 7.0 /* the width of one, in pixels */
#define LEFT   64.0
#define TOP    40.0
#define HEIGHT 26.0 /* of a row */
#define EACH   32.0 /* row and gap */
#define WIDEST 6000.0

static const struct {
	const char *colour, *name;
} looks[] = {[PIPELINE_F] = {"#8ab4e8", "F: forward"},
	     [PIPELINE_B] = {"#93c47d", "B: backward"},
	     [PIPELINE_I] = {"#7fcdbb", "I: gradient of the input"},
	     [PIPELINE_W] = {"#f2c56b", "W: gradient of the weights"}};

static void
svg_row(const struct pipeline *p, const struct pipeline_times *t, uint32_t r, double scale,
	struct buf *out)
{
	double y = TOP + r * EACH;

	buf_addf(out, "<text x=\"%g\" y=\"%g\" text-anchor=\"end\">rank %u</text>\n", LEFT - 8,
		 y + 17, r);
	buf_addf(out, "<rect x=\"%g\" y=\"%g\" width=\"%.2f\" height=\"%g\" fill=\"#eceff3\"/>\n",
		 LEFT, y, t->end * scale, HEIGHT);
	for (size_t i = 0; i < p->row[r].n; i++) {
		const struct pipeline_action *a = &p->row[r].v[i];
		const struct pipeline_span *s = &t->span[r][i];
		double x = LEFT + s->begin * scale, w = (s->end - s->begin) * scale;
		char text[32];
		size_t n;

		if (!pipeline_computes(a->kind))
			continue;
		n = label(p, a, STAGES, text);
		buf_addf(out,
			 "<g><title>rank %u, %s: %g to %g</title><rect class=\"%s\" x=\"%.2f\" "
			 "y=\"%g\" width=\"%.2f\" "
			 "height=\"%g\"/>",
			 r, text, s->begin, s->end, pipeline_kind_name(a->kind), x, y, w, HEIGHT);
		if ((double)n * LETTER <= w)
			buf_addf(out, "<text class=\"c\" x=\"%.2f\" y=\"%g\">%s</text>", x + w / 2,
				 y + 17, text);
		buf_addf(out, "</g>\n");
		if (a->joined) /* a bar below those that run together */
			buf_addf(out,
				 "<rect x=\"%.2f\" y=\"%g\" width=\"%.2f\" height=\"3\" "
				 "fill=\"#4a5560\"/>\n",
				 x + 1, y + HEIGHT, (s[1].end - s->begin) * scale - 2);
	}
}

/* Ticks of 1, 2 or 5 times a power of ten. */
static void
svg_axis(const struct pipeline *p, double end, double scale, struct buf *out)
{
	double step = pow(10, ceil(log10(70 / scale))), y = TOP + p->nranks * EACH;

	step = step / 5 * scale >= 70 ? step / 5 : step / 2 * scale >= 70 ? step / 2 : step;
	for (double at = 0; at <= end * (1 + 1e-9); at += step)
		buf_addf(out,
			 "<path d=\"M%.2f %gv5\" stroke=\"#8a94a0\"/><text class=\"c\" x=\"%.2f\" "
			 "y=\"%g\">%g</text>\n",
			 LEFT + at * scale, y, LEFT + at * scale, y + 18, at);
}

enum rc
pipeline_show_svg(const struct pipeline *p, const struct pipeline_times *t, struct buf *out,
		  struct err *err)
{
	double scale = room_for_labels(p, t, BARS) * LETTER, x = LEFT;
	size_t n = 0;
	bool has[PIPELINE_NKINDS] = {false}, joins = false;

	for (uint32_t r = 0; r < p->nranks; n += p->row[r++].n)
		for (size_t i = 0; i < p->row[r].n; i++) {
			has[p->row[r].v[i].kind] = true;
			joins |= p->row[r].v[i].joined;
		}
	if (n > PIPELINE_SVG_MAX)
		return err_set(err, RC_INVAL, "%zu actions: an SVG has at most %u", n,
			       PIPELINE_SVG_MAX);
	scale = t->end <= 0 ? 1 : fmin(scale, WIDEST / t->end);
	buf_addf(out,
		 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" "
		 "font-family=\"sans-serif\" font-size=\"11\" "
		 "fill=\"#1f2933\">\n<style>.c{text-anchor:middle}",
		 ceil(LEFT + fmax(t->end * scale, 700) + 24), TOP + p->nranks * EACH + 30);
	for (unsigned k = 0; k <= PIPELINE_W; k++)
		buf_addf(out, ".%s{fill:%s;stroke:#fff}", pipeline_kind_name(k), looks[k].colour);
	buf_addf(out, "</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n");
	for (unsigned k = 0; k <= PIPELINE_W; k++) {
		if (!has[k])
			continue;
		buf_addf(out,
			 "<rect class=\"%s\" x=\"%g\" y=\"12\" width=\"14\" height=\"14\"/><text "
			 "x=\"%g\" y=\"23\">%s</text>\n",
			 pipeline_kind_name(k), x, x + 20, looks[k].name);
		x += 40 + LETTER * (double)strlen(looks[k].name);
	}
	buf_addf(out, "<text x=\"%g\" y=\"23\">%send %g, bubble %g of %g</text>\n", x + 10,
		 joins ? "underlined: together; " : "", t->end, t->bubble, t->busy);
	for (uint32_t r = 0; r < p->nranks; r++)
		svg_row(p, t, r, scale, out);
	svg_axis(p, t->end, scale, out);
	buf_addf(out, "</svg>\n");
	return out->failed ? err_set(err, RC_NOMEM, "out of memory") : RC_OK;
}
