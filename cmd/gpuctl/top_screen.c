#include "top_screen.h"

#include <curses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <term.h>
#include <unistd.h>

#include "top_text.h"

enum { PLAIN, BAD, LATE, GOOD, DIM }; /* pairs of colours */

static SCREEN *screen;

/* ---- the terminal */

enum rc
top_screen_begin(struct err *err)
{
	const char *term = getenv("TERM");
	int status = 0;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return err_set(err, RC_INVAL,
			       "standard input and output must be a terminal; --batch prints text");
	if (!term || !*term)
		return err_set(err, RC_INVAL, "TERM: not set; --batch needs no terminal");
	if (setupterm(NULL, STDOUT_FILENO, &status) != OK)
		return err_set(err, RC_INVAL,
			       "TERM: unknown terminal '%.64s'%s; --batch needs no terminal", term,
			       status < 0 ? ", because no terminfo is installed" : "");
	screen = cursor_address ? newterm(NULL, stdout, stdin) : NULL;
	if (!screen)
		return err_set(
		    err, RC_INVAL,
		    "TERM: terminal '%.64s' cannot move its cursor; --batch needs no terminal",
		    term);
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(25);
	curs_set(0);
	if (has_colors() && start_color() == OK && use_default_colors() == OK) {
		init_pair(BAD, COLOR_RED, -1);
		init_pair(LATE, COLOR_YELLOW, -1);
		init_pair(GOOD, COLOR_GREEN, -1);
		init_pair(DIM, COLOR_CYAN, -1);
	}
	return RC_OK;
}

void
top_screen_end(void)
{
	if (!screen)
		return;
	endwin();
	delscreen(screen);
	screen = NULL;
}

/* ---- drawing */

static attr_t
colour(int pair)
{
	return has_colors() ? (attr_t)COLOR_PAIR(pair) : A_NORMAL;
}

/* Draw a line, cut at the right edge and filled with blanks. */
static void
put(int y, attr_t how, const char *text)
{
	if (y < 0 || y >= LINES)
		return;
	attrset(how);
	mvprintw(y, 0, "%-*.*s", COLS, COLS, text);
	attrset(A_NORMAL);
}

static attr_t
look_of(const struct top_device *d)
{
	switch (d->state) {
	case TOP_LOST:
	case TOP_GONE:
		return A_BOLD | colour(BAD);
	case TOP_STOPPED:
		return A_BOLD | colour(LATE);
	case TOP_WAITS:
		return colour(LATE);
	case TOP_RUNS:
		return colour(GOOD);
	default:
		return A_NORMAL;
	}
}

static void
put_device(int y, const struct top_layout *l, const struct top_device *d)
{
	char line[TOP_LINE];

	top_line_device(l, d, line);
	put(y, look_of(d) | (d->blamed ? A_REVERSE : 0), line);
}

static void
put_headings(int y, const struct top_layout *l, const struct top_settings *s)
{
	char line[TOP_LINE];
	int at, width;

	top_line_headings(l, line);
	put(y, A_REVERSE, line);
	if (top_layout_find(l, s->sort, &at, &width) && at + width <= COLS)
		mvchgat(y, at, width, A_REVERSE | A_BOLD | A_UNDERLINE, 0, NULL);
}

static void
put_top_lines(const struct top *t, const struct top_settings *s, const char *message)
{
	char line[TOP_LINE] = "", all[TOP_LINE + 64];

	if (t)
		top_line_summary(t, line);
	snprintf(all, sizeof all, "%s%s  every %.3g s", s->frozen ? "FROZEN  " : "", line,
		 s->interval_ms / 1e3);
	put(0, A_BOLD, all);
	if (*message)
		put(1, A_BOLD | colour(BAD), message);
	else
		put(1, A_BOLD | colour(LATE), t ? t->culprit : "");
}

static void
put_comms(int y, const struct top *t, size_t n)
{
	char line[TOP_LINE];

	top_line_comm_headings(line);
	put(y, A_REVERSE, line);
	for (size_t i = 0; i < n; i++) {
		const struct top_comm *c = &t->comm[i];

		top_line_comm(c, line);
		put(y + 1 + (int)i,
		    *c->reason		       ? A_BOLD | colour(BAD)
		    : c->culprit != TOP_NOBODY ? colour(LATE)
					       : A_NORMAL,
		    line);
	}
}

static void
put_help(int y)
{
	static const char *const text[] = {
	    "<  >  left right   choose the column to sort by",
	    "r                  reverse the order",
	    "/                  show only devices with this text; Enter keeps the filter, Esc "
	    "drops it",
	    "f  space           freeze, and continue",
	    "+  -               lengthen or shorten the interval",
	    "up down PgUp PgDn  scroll",
	    "h  ?               show or hide this help",
	    "q  Ctrl-C          quit",
	    "",
	    "Above the table: the device that most others wait for. Its row is reversed.",
	    "RANK   communicator:rank     BUSY   share of time in operations, kernels, copies; all "
	    "streams added",
	    "WAITS  r2:1.5s has been waiting for rank 2 for 1.5 s; <-3 three wait for it",
	    "AWAIT  the device that the communicator waits for",
	};

	for (size_t i = 0; i < sizeof text / sizeof *text; i++)
		put(y + (int)i, A_NORMAL, text[i]);
}

/* Draw the rows that match the filter, from s->first, in `room` lines. Return the number of matching rows. */
static size_t
put_devices(int y, int room, const struct top *t, struct top_settings *s,
	    const struct top_layout *l)
{
	size_t n = 0, seen = 0;

	for (size_t i = 0; i < t->ndevices; i++)
		n += top_matches(&t->device[i], s->filter);
	if (s->first + (size_t)room > n)
		s->first = n > (size_t)room ? n - (size_t)room : 0;
	for (size_t i = 0; i < t->ndevices && room > 0; i++) {
		if (!top_matches(&t->device[i], s->filter) || seen++ < s->first)
			continue;
		put_device(y++, l, &t->device[i]);
		room--;
	}
	return n;
}

/* Draw the bottom line: what is not in sight, and keys. */
static void
put_bottom(const struct top_settings *s, size_t ndevices, int room, size_t ncomms, int shown)
{
	char line[TOP_LINE], devices[64] = "", comms[64] = "";

	if (room > 0 && ndevices > (size_t)room)
		snprintf(devices, sizeof devices, "%zu-%zu of %zu devices  ", s->first + 1,
			 s->first + (size_t)room, ndevices);
	if (shown > 0 && ncomms > (size_t)shown)
		snprintf(comms, sizeof comms, "%d of %zu communicators  ", shown, ncomms);
	if (s->typing)
		snprintf(line, sizeof line, "filter: %s_", s->filter);
	else
		snprintf(line, sizeof line,
			 "%s%sq quit  h help  / filter%s%s  < > sort: %s%s  f %s  r reverse  + - "
			 "interval",
			 devices, comms, *s->filter ? ": " : "", s->filter, top_heading(s->sort),
			 s->reverse ? "!" : "", s->frozen ? "continue" : "freeze");
	put(LINES - 1, colour(DIM), line);
}

void
top_screen_draw(const struct top *t, struct top_settings *s, const char *message)
{
	struct top_layout l = top_layout_screen(COLS);
	int ncomms = t ? (int)t->ncomms : 0, room;
	size_t ndevices = 0;

	erase();
	put_top_lines(t, s, message);
	if (ncomms > LINES / 3)
		ncomms = LINES / 3;
	room = LINES - 4 - (ncomms ? ncomms + 1 : 0);
	if (room < 0)
		room = 0;
	if (s->help) {
		put_help(3);
	} else if (t) {
		put_headings(2, &l, s);
		ndevices = put_devices(3, room, t, s, &l);
		if (ncomms)
			put_comms(3 + room, t, (size_t)ncomms);
	}
	put_bottom(s, ndevices, room, t && !s->help ? t->ncomms : 0, ncomms);
	refresh();
}

/* ---- keys */

static void
move_sort(struct top_settings *s, int by)
{
	s->sort = (enum top_column)(((int)s->sort + by + TOP_NCOLUMNS) % TOP_NCOLUMNS);
}

static void
type(struct top_settings *s, int key)
{
	size_t n = strlen(s->filter);

	if (key == '\r' || key == '\n' || key == KEY_ENTER) {
		s->typing = false;
	} else if (key == 27) {
		s->typing = false;
		*s->filter = '\0';
	} else if ((key == KEY_BACKSPACE || key == 127 || key == '\b') && n) {
		s->filter[n - 1] = '\0';
	} else if (key >= ' ' && key < 127 && n + 1 < sizeof s->filter) {
		s->filter[n] = (char)key;
		s->filter[n + 1] = '\0';
	}
}

static void
change_interval(struct top_settings *s, bool longer)
{
	uint32_t ms = longer ? s->interval_ms * 2 : s->interval_ms / 2;

	s->interval_ms = ms < TOP_INTERVAL_MIN	 ? TOP_INTERVAL_MIN
			 : ms > TOP_INTERVAL_MAX ? TOP_INTERVAL_MAX
						 : ms;
}

static void
scroll_by(struct top_settings *s, int rows, size_t nrows)
{
	if (rows < 0)
		s->first -= s->first < (size_t)-rows ? s->first : (size_t)-rows;
	else if (s->first + (size_t)rows < nrows)
		s->first += (size_t)rows;
}

static void
press(struct top_settings *s, int key, size_t nrows)
{
	switch (key) {
	case 'q':
	case 3:
		s->quit = true;
		break;
	case 'h':
	case '?':
		s->help = !s->help;
		break;
	case 27:
		s->help = false;
		break;
	case 'f':
	case ' ':
		s->frozen = !s->frozen;
		break;
	case 'r':
		s->reverse = !s->reverse;
		break;
	case '<':
	case KEY_LEFT:
		move_sort(s, -1);
		break;
	case '>':
	case KEY_RIGHT:
		move_sort(s, 1);
		break;
	case '+':
		change_interval(s, true);
		break;
	case '-':
		change_interval(s, false);
		break;
	case KEY_UP:
		scroll_by(s, -1, nrows);
		break;
	case KEY_DOWN:
		scroll_by(s, 1, nrows);
		break;
	case KEY_PPAGE:
		scroll_by(s, -LINES / 2, nrows);
		break;
	case KEY_NPAGE:
		scroll_by(s, LINES / 2, nrows);
		break;
	case '/':
		s->typing = true;
		*s->filter = '\0';
		break;
	default:
		break;
	}
}

void
top_screen_keys(struct top_settings *s, size_t nrows)
{
	int key;

	while ((key = getch()) != ERR) {
		if (s->typing)
			type(s, key);
		else
			press(s, key, nrows);
	}
}
