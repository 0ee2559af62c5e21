/* The drawing in the README of coord is that of the table in comm/life.c. */
#include <stdio.h>
#include <string.h>

#include "coord/comm/comm.h"
#include "tap.h"

#define ARROW	 "--> "
#define MAX_ROWS 64

static char drawn[MAX_ROWS][400];
static size_t ndrawn;

/* "a --e--> b --f--> c" is two rows. */
static void
take_line(char *line)
{
	char *from = line, *arrow;

	line[strcspn(line, "\n")] = '\0';
	while ((arrow = strstr(from, ARROW)) && ndrawn < MAX_ROWS) {
		char *to = arrow + strlen(ARROW);

		snprintf(drawn[ndrawn++], sizeof drawn[0], "%.*s",
			 (int)((size_t)(to - from) + strcspn(to, " ")), from);
		from = to;
	}
}

static bool
read_drawing(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[400];

	if (!f)
		return false;
	while (fgets(line, sizeof line, f))
		if (strstr(line, ARROW))
			take_line(line);
	fclose(f);
	return ndrawn > 0;
}

static bool
is_drawn_once(const char *row)
{
	size_t n = 0;

	for (size_t i = 0; i < ndrawn; i++)
		n += strcmp(drawn[i], row) == 0;
	return n == 1;
}

int
main(void)
{
	char row[400];
	size_t n = 0;

	ok(read_drawing("lib/coordinator/coord/README.md"),
	   "the README draws the states of a communicator");
	for (; comm_row(n, row, sizeof row); n++)
		ok(is_drawn_once(row), "%s", row);
	ok(n == ndrawn, "it draws no other rows");
	return tap_done();
}
