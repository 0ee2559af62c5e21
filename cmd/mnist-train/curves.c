#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"

#define COLUMNS	   80 /* of a plot */
#define PANEL_ROWS 4  /* title, axis and ticks of a panel, and the line between them */
#define OTHER_ROWS 3  /* the epoch's line, the bar, the cursor */

enum { LOSS, ACCURACY, NPANELS };
enum { TEST, VALIDATION };

/* The rows of a panel with which both fit on the terminal; 0: not a terminal, or too small. */
static unsigned
rows_here(void)
{
	const char *term = getenv("TERM");
	struct winsize size;
	int room;

	if (!isatty(STDOUT_FILENO) || !term || strcmp(term, "dumb") == 0 ||
	    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < COLUMNS)
		return 0;
	room = (size.ws_row - OTHER_ROWS) / NPANELS - PANEL_ROWS;
	return room < 3 ? 0 : room > PLOT_ROWS ? PLOT_ROWS : (unsigned)room;
}

enum rc
curves_open(struct curves *c, const struct train_config *o, struct err *err)
{
	static const struct plot_style loss = {.colour = 0x0072B2, .mark = '*'},
				       test = {.name = "test", .colour = 0xD55E00, .mark = '*'},
				       validation = {.name = "validation",
						     .look = PLOT_DASHED,
						     .colour = 0x009E73,
						     .mark = 'v'};
	struct plot_panel *p = c->plot.panel;

	if (!o->plot)
		return RC_OK;
	if (plot_check(o->plot, err) != RC_OK)
		return err_prefix(err, "--plot");
	c->path = o->plot;
	c->rows = strcmp(o->plot, "-") == 0 && !o->quiet ? rows_here() : 0;
	c->plot.title = "Training";
	c->plot.npanels = NPANELS;
	p[LOSS] = (struct plot_panel){.title = "Loss",
				      .text = "mean loss over epochs",
				      .x = {.label = "epoch", .counts = true},
				      .y = {.label = "mean loss over the training images"}};
	p[ACCURACY] = (struct plot_panel){.title = "Accuracy",
					  .text = "accuracy in % over epochs: * test, v validation",
					  .x = {.label = "epoch", .counts = true},
					  .y = {.label = "accuracy (%)", .whole = true}};
	plot_curve_add(&p[LOSS], &loss);
	plot_curve_add(&p[ACCURACY], &test);
	plot_curve_add(&p[ACCURACY], &validation);
	return RC_OK;
}

void
curves_lift(struct curves *c)
{
	if (c->drawn)
		printf("\033[%uA\033[J", c->drawn);
	c->drawn = 0;
}

void
curves_drop(struct curves *c)
{
	struct buf text = {0};

	if (c->rows) {
		plot_text(&c->plot, c->rows, &text);
		for (size_t i = 0; i < text.len; i++)
			c->drawn += text.data[i] == '\n';
		fwrite(text.data, 1, text.len, stdout);
		fflush(stdout);
	}
	buf_fini(&text);
}

void
curves_epoch(struct curves *c, uint32_t number, const struct epoch *e)
{
	struct plot_panel *p = c->plot.panel;

	if (!c->path)
		return;
	plot_point_add(&p[LOSS].curve[0], number, e->loss);
	plot_point_add(&p[ACCURACY].curve[TEST], number, e->accuracy * 100);
	plot_point_add(&p[ACCURACY].curve[VALIDATION], number, e->validation * 100);
}

enum rc
curves_close(struct curves *c, struct err *err)
{
	enum rc rc = RC_OK;

	if (c->path && !plot_has_points(&c->plot))
		log_line(LOG_WARN, "--plot: nothing to draw: no epoch has ended");
	else if (c->path && !c->rows && plot_show(&c->plot, c->path, stdout, err) != RC_OK)
		rc = err_prefix(err, "--plot");
	plot_fini(&c->plot);
	c->path = NULL;
	return rc;
}
