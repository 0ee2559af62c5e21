#include "mem/redop.h"

#include <string.h>

#define ONE(constant, ...) +1
#define DATA(constant, name, fold, mean, identity, small, ...) \
	[GPUSIM_##constant] = {#name, mean, identity, small},

_Static_assert(REDOPS(ONE, ) == GPUSIM_NREDOPS, "each constant of enum gpusim_redop has a row");
const struct redop redops[GPUSIM_NREDOPS] = {REDOPS(DATA, )};

const char *
redop_name(enum gpusim_redop redop)
{
	return (size_t)redop < GPUSIM_NREDOPS ? redops[redop].name : "?";
}

enum rc
redop_parse(const char *name, enum gpusim_redop *out, struct err *err)
{
	for (size_t i = 0; i < GPUSIM_NREDOPS; i++) {
		if (strcmp(name, redops[i].name) == 0) {
			*out = (enum gpusim_redop)i;
			return RC_OK;
		}
	}
	return err_set(err, RC_INVAL, "'%.64s' is not an operation (%s)", name, &REDOP_NAMES[1]);
}
