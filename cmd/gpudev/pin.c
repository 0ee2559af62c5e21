#include "pin.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/parse.h"

enum rc
pin_parse(const char *arg, int *pin, struct err *err)
{
	uint32_t cpu;
	enum rc rc = RC_OK;

	if (strcmp(arg, "auto") == 0)
		*pin = PIN_AUTO;
	else if (strcmp(arg, "none") == 0)
		*pin = PIN_NONE;
	else if ((rc = parse_u32(arg, 0, CPU_SETSIZE - 1, &cpu, err)) == RC_OK)
		*pin = (int)cpu;
	return rc;
}

/* The n-th CPU of a set, or PIN_NONE. */
static int
nth_cpu(const cpu_set_t *set, uint32_t n)
{
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, set) && n-- == 0)
			return cpu;
	return PIN_NONE;
}

enum rc
pin_apply(int pin, uint32_t ordinal, struct err *err)
{
	cpu_set_t set;

	if (pin == PIN_AUTO) {
		/* The machine has more CPUs than a set holds: do not pin. */
		if (sched_getaffinity(0, sizeof set, &set) != 0)
			return RC_OK;
		pin = nth_cpu(&set, ordinal);
	}
	if (pin == PIN_NONE)
		return RC_OK;
	CPU_ZERO(&set);
	CPU_SET(pin, &set);
	if (sched_setaffinity(0, sizeof set, &set) != 0)
		return err_set(err, RC_FAILED, "cannot pin to CPU %d: %s", pin, strerror(errno));
	return RC_OK;
}
