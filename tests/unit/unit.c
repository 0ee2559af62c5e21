/*
 * unit.c - the main of a room's unit tests, which are linked into one program.
 *
 * Each t_NAME.c has a main of its own, which the Makefile calls t_NAME_main. The program runs the test that
 * it is called as (build/unit/t_NAME is a link to it), or the test that its first argument names.
 */
#include <stdio.h>
#include <string.h>

/* UNITS is the list of the room's tests: UNIT(t_NAME) ... */
#define UNIT(name) int name##_main(int argc, char **argv);
UNITS
#undef UNIT
#define UNIT(name) {#name, name##_main},

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} units[] = {UNITS};

#define NUNITS (sizeof units / sizeof *units)

int
main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/'), *name = slash != NULL ? slash + 1 : argv[0];
	int shift;
	size_t i;

	for (shift = 0; shift < 2 && shift < argc; shift++, name = argv[1])
		for (i = 0; i < NUNITS; i++)
			if (strcmp(units[i].name, name) == 0)
				return units[i].run(argc - shift, argv + shift);
	for (i = 0; i < NUNITS; i++)
		fprintf(stderr, "%s%s", i > 0 ? " " : "one of: ", units[i].name);
	fprintf(stderr, "\n");
	return 2;
}
