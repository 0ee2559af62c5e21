/* Who one is among many, by the launchers' variables. */
#include "base/launcher.h"

#include <stdlib.h>
#include <string.h>

#include "tap.h"

static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID",
				    "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"};

static void
forget(void)
{
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		unsetenv(names[i]);
}

/* The rank, or 1000 when it is refused. */
static uint32_t
rank_or(uint32_t dflt)
{
	return launcher_rank(&dflt, NULL) == RC_OK ? dflt : 1000;
}

static uint32_t
size_or(uint32_t dflt)
{
	return launcher_size(&dflt, NULL) == RC_OK ? dflt : 1000;
}

static void
refused(const char *name, const char *value)
{
	struct err err = {0};
	uint32_t v = 42;
	bool size = strstr(name, "SIZE") || strstr(name, "NTASKS");

	forget();
	setenv(name, value, 1);
	ok((size ? launcher_size(&v, &err) : launcher_rank(&v, &err)) == RC_INVAL && v == 42 &&
	       strncmp(err.text, name, strlen(name)) == 0,
	   "%s='%s' is refused: %s", name, value, err.text);
}

int
main(void)
{
	forget();
	ok(rank_or(42) == 42 && size_or(42) == 42, "without a launcher nothing is said");
	for (int i = 2; i >= 0; i--) {
		char text[2] = {(char)('3' + i), '\0'};

		setenv(names[i], text, 1);
		setenv(names[3 + i], text, 1);
		ok(rank_or(42) == 3 + (uint32_t)i && size_or(42) == 3 + (uint32_t)i,
		   "%s and %s go before what was set so far", names[i], names[3 + i]);
	}
	setenv("OMPI_COMM_WORLD_RANK", "", 1);
	ok(rank_or(42) == 4, "an empty one is none");
	for (int i = 0; i < 6; i++)
		refused(names[i], i % 2 ? "two" : "-1");
	refused("PMI_RANK", "4294967296");
	refused("SLURM_PROCID", "1 ");
	refused("SLURM_NTASKS", "0");
	return tap_done();
}
