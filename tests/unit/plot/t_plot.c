/* Plots: the ranges of axes, text on linear and logarithmic ones, gnuplot's script, pictures that are whole
 * or not there. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/must.h"
#include "plot/plot.h"
#include "tap.h"

static struct err err;

/* Two curves of bandwidth over size. */
static void
begin(struct plot *p)
{
	static const struct plot_style styles[] = {
	    {.name = "ring", .colour = 0x0072B2, .mark = 'r'},
	    {.name = "it's", .look = PLOT_DASHED, .colour = PLOT_GREY, .mark = 'i'}};

	*p = (struct plot){.title = "all-reduce, 2 ranks", .npanels = 1};
	p->panel[0] = (struct plot_panel){.title = "bus bandwidth",
					  .text = "busbw in GB/s over size",
					  .x = {.label = "size", .log = true, .sizes = true},
					  .y = {.label = "GB/s", .log = true}};
	for (unsigned i = 0; i < 2; i++) {
		struct plot_curve *c = plot_curve_add(&p->panel[0], &styles[i]);

		for (int k = 3; c && k <= 23; k++)
			plot_point_add(c, ldexp(1, k), ldexp(1, k - 23) * (i + 1));
	}
}

static const char *
text_of(const struct plot *p, unsigned rows, struct buf *text)
{
	text->len = 0;
	plot_text(p, rows, text);
	must_add(text, "", 1);
	text->len--;
	return text->data;
}

static size_t
lines(const char *text)
{
	size_t n = 0;

	for (; (text = strchr(text, '\n')); text++)
		n++;
	return n;
}

static void
t_text(void)
{
	struct buf text = {0};
	const char *top;
	struct plot p;

	begin(&p);
	text_of(&p, 14, &text);
	top = strstr(text.data, "\n   2.00 |");
	ok(top && strcspn(top + 1, "\n") == 79 && top[79] == 'i',
	   "the highest is at the top and the right");
	ok(strstr(text.data, "\n1.2e-06 |r") || strstr(text.data, "\n9.5e-07 |r"),
	   "the lowest at the bottom and the left, of a logarithmic axis");
	ok(strstr(text.data, "\n         8         64         512       4K "),
	   "sizes below, as people write them");
	ok(strstr(text.data, "r ring  i it's  # several\n"), "a legend");
	ok(lines(text_of(&p, 5, &text)) == 5 + 2 + 2 + 2, "as many rows as asked for");
	plot_fini(&p);
	ok(!*text_of(&p, 14, &text), "nothing of nothing");
	buf_fini(&text);
}

/* What is on no axis, one point, all the same. */
static void
t_odd(void)
{
	struct buf text = {0};
	struct plot p = {.npanels = 1};
	struct plot_curve *c;

	p.panel[0] = (struct plot_panel){
	    .text = "odd", .x = {.log = true, .sizes = true}, .y = {.log = true}};
	c = plot_curve_add(&p.panel[0], &(struct plot_style){.name = "a", .mark = 'a'});
	plot_point_add(c, 0, 1);
	plot_point_add(c, 1, -1);
	plot_point_add(c, NAN, 1);
	plot_point_add(c, 1, INFINITY);
	ok(!plot_has_points(&p) && !*text_of(&p, 14, &text), "points that are on no axis are none");
	plot_gnuplot(&p, PLOT_SVG, &text);
	ok(text.len == 0, "nor is there a script");
	plot_point_add(c, 4096, 3);
	ok(plot_has_points(&p) && strchr(text_of(&p, 14, &text), 'a') && strstr(text.data, "4K"),
	   "one point is a plot");
	text.len = 0;
	plot_gnuplot(&p, PLOT_SVG, &text);
	ok(strstr(text.data, "<< END\n4096 3\nEND\n"), "and has a script with a range");
	plot_fini(&p);
	buf_fini(&text);
}

static void
t_script(void)
{
	struct buf text = {0};
	struct plot p;

	begin(&p);
	plot_gnuplot(&p, PLOT_SVG, &text);
	ok(strstr(text.data, "set terminal svg") && strstr(text.data, "set logscale x") &&
	       strstr(text.data, "'4K' 4096") && strstr(text.data, "dashtype 2"),
	   "with a terminal, logarithmic axes, ticks, looks");
	ok(strstr(text.data, "title 'it''s'"), "names are quoted");
	text.len = 0;
	plot_gnuplot(&p, PLOT_PNG, &text);
	ok(strstr(text.data, "pngcairo"), "for PNG as well");
	plot_fini(&p);
	buf_fini(&text);
}

/* A folder with a gnuplot of that script, as all of PATH. */
static void
fake(const char *dir, const char *script)
{
	char path[256];

	snprintf(path, sizeof path, "%s/gnuplot", dir);
	unlink(path);
	if (script &&
	    (file_replace(path, script, strlen(script), &err) != RC_OK || chmod(path, 0755) != 0))
		exit(1);
	setenv("PATH", dir, 1);
}

static void
t_save(void)
{
	char dir[] = "/tmp/gpusim.plot.XXXXXX", svg[64], png[64];
	struct buf text = {0};
	struct plot p;

	if (!mkdtemp(dir))
		exit(1);
	snprintf(svg, sizeof svg, "%s/a.svg", dir);
	snprintf(png, sizeof png, "%s/a.png", dir);
	begin(&p);
	fake(dir, NULL);
	ok(plot_save(&p, svg, &err) == RC_NOTFOUND && access(svg, F_OK) != 0, "without gnuplot");
	fake(dir, "#!/bin/sh\n/bin/cat >/dev/null\necho '<?xml><svg></svg>'\n");
	ok(plot_save(&p, svg, &err) == RC_OK && access(svg, F_OK) == 0,
	   "its picture goes to the file");
	ok(plot_save(&p, png, &err) == RC_FAILED &&
	       strcmp(err.text, "gnuplot: no picture in its output") == 0 && access(png, F_OK) != 0,
	   "other output does not");
	fake(dir, "#!/bin/sh\n/bin/echo '<?xml><svg></svg>'\nprintf 'first\\nline 3: oh dear\\n   "
		  "^\\n' >&2\nexit 3\n");
	ok(plot_save(&p, png, &err) == RC_FAILED &&
	       strcmp(err.text, "gnuplot: line 3: oh dear") == 0,
	   "why it failed");
	fake(dir, "#!/bin/sh\nkill -9 $$\n");
	ok(plot_save(&p, png, &err) == RC_FAILED &&
	       strcmp(err.text, "gnuplot: ended by signal 9") == 0,
	   "or how");
	ok(file_text(svg, "a picture", &text, &err) == RC_OK &&
	       strcmp(text.data, "<?xml><svg></svg>\n") == 0,
	   "a picture that was there stays as it was");
	ok(plot_check("a.pdf", &err) == RC_INVAL && plot_check(".svg", &err) == RC_INVAL &&
	       plot_check("/nowhere/a.svg", &err) == RC_FAILED && plot_check("-", &err) == RC_OK &&
	       plot_check(png, &err) == RC_OK && access(png, F_OK) != 0,
	   "what can be drawn where is known before");
	fake(dir, NULL);
	unlink(svg);
	rmdir(dir);
	plot_fini(&p);
	buf_fini(&text);
}

int
main(void)
{
	t_text();
	t_odd();
	t_script();
	t_save();
	return tap_done();
}
