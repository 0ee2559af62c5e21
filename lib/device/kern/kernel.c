/*
 * kernel.c - the table of kernels, and the binding of named arguments to one.
 */
#include "kern/kernel.h"
#include "base/nearest.h"

#include <inttypes.h>
#include <string.h>

#include "kern/kern_impl.h"
#include "kern/load.h"

#define ENTRY(name) &kernel_##name,
static const struct kernel *const kernels[] = {KERNELS(ENTRY)};

const struct kernel *
kernel_at(unsigned i)
{
	const unsigned n = sizeof kernels / sizeof kernels[0];

	return i < n ? kernels[i] : load_at(i - n);
}

enum rc
kernel_run(const struct kernel *k, const struct devmem *mem, const union kernel_value *v,
	   struct err *err)
{
	struct kern_call call = {.k = k, .mem = mem, .v = v, .err = err};

	return k->run != NULL ? k->run(&call) : load_run(k, mem, v, err);
}

const struct kernel *
kernel_find(const char *name)
{
	const struct kernel *k;
	unsigned i;

	for (i = 0; (k = kernel_at(i)) != NULL; i++) {
		if (strcmp(k->name, name) == 0)
			return k;
	}
	return NULL;
}

enum rc
kernel_unknown(const char *name, struct err *err)
{
	struct nearest n = nearest_begin(name);
	const struct kernel *k;

	for (unsigned i = 0; (k = kernel_at(i)) != NULL; i++)
		nearest_offer(&n, k->name);
	if (n.name)
		return err_set(err, RC_NOTFOUND, "no kernel '%.64s', did you mean '%s'?", name,
			       n.name);
	return err_set(err, RC_NOTFOUND, "no kernel '%.64s'; gpuctl launch --list lists them",
		       name);
}

/* The index of a parameter, or the number of parameters if there is none. */
static unsigned
param_find(const struct kernel *k, const char *name)
{
	unsigned i;

	for (i = 0; k->params[i].kind != KP_END; i++) {
		if (strcmp(k->params[i].name, name) == 0)
			break;
	}
	return i;
}

/* Convert one value to its parameter's kind. */
static enum rc
arg_check(const struct kernel *k, const struct kernel_param *p, const struct kernel_arg *arg,
	  union kernel_value *out, struct err *err)
{
	uint64_t u = arg->value.u;

	if (p->kind != KP_ADDR && p->kind != KP_COUNT && arg->step != 0)
		return err_set(err, RC_INVAL, "%s: %s cannot have a step", k->name, p->name);
	if (p->kind == KP_REAL) {
		if (arg->is_real) {
			out->f = arg->value.f;
			return RC_OK;
		}
		/* Up to 2^53 every whole number is a double. */
		if (u > UINT64_C(1) << 53)
			return err_set(err, RC_INVAL, "%s: %s: %" PRIu64 " is too large for a real",
				       k->name, p->name, u);
		out->f = (double)u;
		return RC_OK;
	}
	if (arg->is_real)
		return err_set(err, RC_INVAL, "%s: %s: %g is not a whole number", k->name, p->name,
			       arg->value.f);
	if (p->kind == KP_DTYPE && u >= GPUSIM_NDTYPES)
		return err_set(err, RC_INVAL, "%s: %s: %" PRIu64 " is not a type", k->name, p->name,
			       u);
	if (p->kind == KP_FLAG && u > 1)
		return err_set(err, RC_INVAL, "%s: %s: %" PRIu64 " is not 0 or 1", k->name, p->name,
			       u);
	out->u = u;
	return RC_OK;
}

static enum rc
unknown_argument(const struct kernel *k, const char *name, struct err *err)
{
	struct nearest n = nearest_begin(name);

	for (unsigned i = 0; k->params[i].kind != KP_END; i++)
		nearest_offer(&n, k->params[i].name);
	if (n.name)
		return err_set(err, RC_INVAL,
			       "%s: no argument is named '%.64s', did you mean '%s'?", k->name,
			       name, n.name);
	return err_set(err, RC_INVAL, "%s: no argument is named '%.64s'", k->name, name);
}

enum rc
kernel_bind(const struct kernel *k, const struct kernel_arg *args, size_t nargs,
	    union kernel_value *v, uint64_t *step, struct err *err)
{
	union kernel_value bound[KERNEL_MAX_PARAMS] = {{0}};
	uint64_t steps[KERNEL_MAX_PARAMS] = {0};
	bool given[KERNEL_MAX_PARAMS] = {false};
	const struct kernel_param *p;
	enum rc rc;
	unsigned i;
	size_t a;

	for (a = 0; a < nargs; a++) {
		i = param_find(k, args[a].name);
		p = &k->params[i];
		if (p->kind == KP_END)
			return unknown_argument(k, args[a].name, err);
		if (given[i])
			return err_set(err, RC_INVAL, "%s: %s is given twice", k->name, p->name);
		rc = arg_check(k, p, &args[a], &bound[i], err);
		if (rc != RC_OK)
			return rc;
		steps[i] = args[a].step;
		given[i] = true;
	}
	for (i = 0; k->params[i].kind != KP_END; i++) {
		p = &k->params[i];
		if (given[i])
			continue;
		if (!p->optional)
			return err_set(err, RC_INVAL, "%s: %s is missing (%s)", k->name, p->name,
				       p->help);
		if (p->kind == KP_REAL)
			bound[i].f = p->dflt;
		else
			bound[i].u = (uint64_t)p->dflt;
	}
	memcpy(v, bound, sizeof bound);
	memcpy(step, steps, sizeof steps);
	return RC_OK;
}
