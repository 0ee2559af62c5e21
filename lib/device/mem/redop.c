#include "mem/redop.h"

#include <string.h>

#include "mem/dtype.h"

#define ONE(constant, ...) +1
enum { ANY, WHOLE };
enum { EXACT, ROUNDS };
#define DATA(constant, name, fold, types, sum, mean, identity, small, ...) \
	[GPUSIM_##constant] = {#name, (types) == WHOLE, (sum) == ROUNDS, mean, identity, small},

_Static_assert(REDOPS(ONE, ) == GPUSIM_NREDOPS, "each constant of enum gpusim_redop has a row");
const struct redop redops[GPUSIM_NREDOPS] = {REDOPS(DATA, )};

const char *
redop_name(enum gpusim_redop redop)
{
	return (size_t)redop < GPUSIM_NREDOPS ? redops[redop].name : "?";
}

bool
redop_takes(enum gpusim_redop redop, enum gpusim_dtype t)
{
	return (size_t)redop < GPUSIM_NREDOPS && dtype_size(t) > 0 &&
	       !(redops[redop].whole && dtype_is_float(t));
}

unsigned
redop_widening(enum gpusim_redop redop, enum gpusim_dtype t)
{
	bool wide = dtype_is_half(t) && (size_t)redop < GPUSIM_NREDOPS && redops[redop].rounds;

	return wide ? (unsigned)(sizeof(float) / dtype_size(t)) : 1;
}

enum rc
redop_check(enum gpusim_redop redop, enum gpusim_dtype t, struct err *err)
{
	if ((size_t)redop >= GPUSIM_NREDOPS || dtype_size(t) == 0)
		return err_set(err, RC_INVAL, "unknown type %d or operation %d", (int)t,
			       (int)redop);
	if (!redop_takes(redop, t))
		return err_set(err, RC_INVAL, "%s is for integers, not for %s", redop_name(redop),
			       dtype_name(t));
	return RC_OK;
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
