/*
 * kernel.c - the table of kernels, built in and from shared objects, and the binding of named arguments to one.
 *
 * The table of a shared object is checked whole and copied before the first of its kernels is added, so a
 * rejected file leaves nothing but its code, which the dynamic linker keeps.
 */
#include "kern/kernel.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/nearest.h"
#include "gpusim_kernel.h"
#include "kern/elf.h"
#include "kern/kern_impl.h"
#include "mem/dtype.h"
#include "wire/wire.h"

#define SYMBOL	   "gpusim_kernels"
#define MAX_LOADED 1024

_Static_assert(GPUSIM_KERNEL_MAX_PARAMS <= KERNEL_MAX_PARAMS, "the public header says so");
_Static_assert(GPUSIM_KERNEL_NAME_MAX < WIRE_NAME_MAX, "names go over the wire");

#define ENTRY(name) &kernel_##name,
static const struct kernel *const kernels[] = {KERNELS(ENTRY)};
static struct kernel *loaded[MAX_LOADED];
static unsigned nloaded;
static char files[WIRE_NAME_MAX];

const struct kernel *
kernel_at(unsigned i)
{
	const unsigned n = sizeof kernels / sizeof kernels[0];

	if (i < n)
		return kernels[i];
	return i - n < nloaded ? loaded[i - n] : NULL;
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

const char *
load_files(void)
{
	return files;
}

/* ---- arguments */

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

/* ---- loading */

static bool
is_name(const char *s)
{
	size_t i;

	if (s == NULL || !(s[0] >= 'a' && s[0] <= 'z') ||
	    strnlen(s, GPUSIM_KERNEL_NAME_MAX + 1) > GPUSIM_KERNEL_NAME_MAX)
		return false;
	for (i = 0; s[i] != '\0'; i++) {
		if (!(s[i] >= 'a' && s[i] <= 'z') && !(s[i] >= 'A' && s[i] <= 'Z') &&
		    !(s[i] >= '0' && s[i] <= '9') && s[i] != '_')
			return false;
	}
	return true;
}

/* One line, not empty. */
static bool
is_text(const char *s)
{
	size_t i, n = s != NULL ? strnlen(s, GPUSIM_KERNEL_TEXT_MAX + 1) : 0;

	for (i = 0; i < n; i++) {
		if ((unsigned char)s[i] < ' ' || s[i] == 0x7f)
			return false;
	}
	return n > 0 && n <= GPUSIM_KERNEL_TEXT_MAX;
}

/* The default is a value of its parameter's kind. */
static bool
is_default(const struct gpusim_kernel_param *p)
{
	bool whole = p->dflt >= 0 && p->dflt <= 0x1p53 && p->dflt == (double)(uint64_t)p->dflt;

	switch (p->kind) {
	case GPUSIM_KERNEL_ADDR:
		return p->dflt == 0;
	case GPUSIM_KERNEL_COUNT:
		return whole;
	case GPUSIM_KERNEL_DTYPE:
		return whole && p->dflt < GPUSIM_NDTYPES;
	case GPUSIM_KERNEL_FLAG:
		return whole && p->dflt <= 1;
	default:
		return true;
	}
}

/* Convert one parameter; n others precede it. */
static enum rc
take_param(struct kernel *k, unsigned n, const struct gpusim_kernel_param *p, struct err *err)
{
	static const enum kernel_param_kind kinds[] = {
	    [GPUSIM_KERNEL_ADDR] = KP_ADDR,   [GPUSIM_KERNEL_COUNT] = KP_COUNT,
	    [GPUSIM_KERNEL_DTYPE] = KP_DTYPE, [GPUSIM_KERNEL_FLAG] = KP_FLAG,
	    [GPUSIM_KERNEL_REAL] = KP_REAL,
	};
	unsigned i, kind = (unsigned)p->kind;

	if (n == GPUSIM_KERNEL_MAX_PARAMS)
		return err_set(err, RC_BADDATA, "%s: more than %d parameters", k->name,
			       GPUSIM_KERNEL_MAX_PARAMS);
	if (!is_name(p->name))
		return err_set(err, RC_BADDATA, "%s: parameter %u has no valid name", k->name, n);
	if (kind >= sizeof kinds / sizeof kinds[0])
		return err_set(err, RC_BADDATA, "%s: %s: %u is not a kind of parameter", k->name,
			       p->name, kind);
	if (!is_text(p->help))
		return err_set(err, RC_BADDATA, "%s: %s: no valid help", k->name, p->name);
	if (p->optional && !is_default(p))
		return err_set(err, RC_BADDATA, "%s: %s: %g is not a default of its kind", k->name,
			       p->name, p->dflt);
	for (i = 0; i < n; i++) {
		if (strcmp(k->params[i].name, p->name) == 0)
			return err_set(err, RC_BADDATA, "%s: two parameters are named %s", k->name,
				       p->name);
	}
	k->params[n] = (struct kernel_param){p->name, kinds[kind], p->optional != 0,
					     p->optional ? p->dflt : 0, p->help};
	return RC_OK;
}

/* Convert kernel i of a table. */
static enum rc
take_kernel(const struct gpusim_kernel *from, unsigned i, struct kernel *k, struct err *err)
{
	enum rc rc = RC_OK;
	unsigned n;

	if (!is_name(from->name))
		return err_set(err, RC_BADDATA, "kernel %u has no valid name", i);
	k->name = from->name;
	k->summary = from->summary;
	k->user = from;
	if (!is_text(from->summary))
		return err_set(err, RC_BADDATA, "%s: no valid summary", k->name);
	if (from->run == NULL)
		return err_set(err, RC_BADDATA, "%s: no function to run", k->name);
	if (from->params == NULL || from->params[0].kind == GPUSIM_KERNEL_END)
		return err_set(err, RC_BADDATA, "%s: no parameters", k->name);
	for (n = 0; rc == RC_OK && from->params[n].kind != GPUSIM_KERNEL_END; n++)
		rc = take_param(k, n, &from->params[n], err);
	if (rc == RC_OK && kernel_find(k->name) != NULL)
		rc = err_set(err, RC_BADDATA, "a kernel named %s already exists", k->name);
	return rc;
}

static enum rc
check_table(const struct gpusim_kernel_table *t, struct err *err)
{
	if (t->abi != GPUSIM_KERNEL_ABI)
		return err_set(err, RC_BADDATA,
			       "its table has version %" PRIu32 "; this device takes version %d",
			       t->abi, GPUSIM_KERNEL_ABI);
	if (t->nkernels == 0 || t->nkernels > GPUSIM_KERNEL_MAX || t->kernels == NULL)
		return err_set(err, RC_BADDATA,
			       "its table has %" PRIu32 " kernels: must be 1 to %d",
			       t->kernels != NULL ? t->nkernels : 0, GPUSIM_KERNEL_MAX);
	if (nloaded + t->nkernels > MAX_LOADED)
		return err_set(err, RC_INVAL, "more than %d kernels", MAX_LOADED);
	return RC_OK;
}

/* Add all of a table, or nothing. */
static enum rc
take_table(const struct gpusim_kernel_table *t, struct err *err)
{
	enum rc rc = check_table(t, err);
	struct kernel *k;
	unsigned i, j;

	if (rc != RC_OK)
		return rc;
	k = alloc_zeroed(t->nkernels, sizeof *k);
	if (k == NULL)
		return err_set(err, RC_NOMEM, "out of memory");
	for (i = 0; rc == RC_OK && i < t->nkernels; i++) {
		rc = take_kernel(&t->kernels[i], i, &k[i], err);
		for (j = 0; rc == RC_OK && j < i; j++) {
			if (strcmp(k[j].name, k[i].name) == 0)
				rc =
				    err_set(err, RC_BADDATA, "two kernels are named %s", k[i].name);
		}
	}
	if (rc != RC_OK) {
		free(k);
		return rc;
	}
	for (i = 0; i < t->nkernels; i++)
		loaded[nloaded++] = &k[i];
	return RC_OK;
}

/* The table's kernels are loaded already, because its file was named twice. */
static bool
is_taken(const struct gpusim_kernel_table *t)
{
	unsigned i;

	for (i = 0; i < nloaded; i++) {
		if (loaded[i]->user == t->kernels)
			return true;
	}
	return false;
}

/* The dynamic linker's message, on one line and without its path. */
static enum rc
linker_error(const char *path, struct err *err)
{
	const char *text = dlerror();
	size_t n = strlen(path);

	if (text == NULL)
		text = "the dynamic linker gives no reason";
	if (strncmp(text, path, n) == 0 && strncmp(text + n, ": ", 2) == 0)
		text += n + 2;
	return err_set(err, RC_BADDATA, "%s: %.*s", path, (int)strcspn(text, "\n"), text);
}

static enum rc
open_file(const char *path, struct err *err)
{
	const struct gpusim_kernel_table *t;
	enum rc rc = elf_check(path, err);
	void *handle;

	if (rc != RC_OK)
		return rc;
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (handle == NULL)
		return linker_error(path, err);
	t = dlsym(handle, SYMBOL);
	if (t == NULL)
		return err_set(err, RC_BADDATA, "%s: has no symbol " SYMBOL, path);
	if (t->abi == GPUSIM_KERNEL_ABI && is_taken(t))
		return RC_OK;
	rc = take_table(t, err);
	if (rc != RC_OK)
		return err_prefix(err, "%s", path);
	if (*files)
		strcat(files, ":");
	strcat(files, path); /* load_kernels has checked the room */
	return RC_OK;
}

enum rc
load_kernels(const char *path, struct err *err)
{
	char real[PATH_MAX];

	/* With a slash in the path the linker does not search its folders. */
	if (realpath(path, real) == NULL)
		return err_set(err, RC_INVAL, "%.200s: %s", path, strerror(errno));
	if (strchr(real, ':') != NULL)
		return err_set(err, RC_INVAL, "%.200s: the path has a colon", path);
	if (strlen(files) + 1 + strlen(real) >= sizeof files)
		return err_set(err, RC_INVAL, "%.200s: all paths together are limited to %zu bytes",
			       path, sizeof files - 2);
	return open_file(real, err);
}

enum rc
load_kernels_list(const char *list, struct err *err)
{
	char path[PATH_MAX];
	enum rc rc = RC_OK;
	size_t n;

	for (; rc == RC_OK && *list != '\0'; list += n + (list[n] == ':')) {
		n = strcspn(list, ":");
		if (n >= sizeof path)
			return err_set(err, RC_INVAL, "%.64s: path of %zu bytes is too long", list,
				       n);
		memcpy(path, list, n);
		path[n] = '\0';
		if (n > 0)
			rc = load_kernels(path, err);
	}
	return rc;
}

/* ---- runs */

/* A run's view of the memory; pub comes first, because the run has its address. */
struct memory {
	struct gpusim_kernel_memory pub;
	const struct devmem *mem;
};

static void *
memory_at(const struct gpusim_kernel_memory *pub, const char *what, uint64_t addr, uint64_t nelem,
	  uint64_t size, char *why, size_t nwhy)
{
	const struct memory *m = (const struct memory *)pub;
	struct err err = {0};
	uint64_t nbytes;
	void *p;

	what = what != NULL ? what : "an address";
	if (size == 0 || size > 16 || (size & (size - 1)) != 0) {
		snprintf(why, nwhy, "%s: an element of %" PRIu64 " bytes", what, size);
		return NULL;
	}
	if (__builtin_mul_overflow(nelem, size, &nbytes)) {
		snprintf(why, nwhy, "%s: %" PRIu64 " elements are too many", what, nelem);
		return NULL;
	}
	if (devmem_range(m->mem, what, addr, nbytes, &p, &err) != RC_OK) {
		snprintf(why, nwhy, "%s", err.text);
		return NULL;
	}
	if (addr % size != 0) {
		snprintf(why, nwhy, "%s: 0x%" PRIx64 " is not a multiple of %" PRIu64, what, addr,
			 size);
		return NULL;
	}
	return p;
}

/* The message of a run, forced onto one line. */
static void
one_line(char *why, size_t n)
{
	size_t i;

	why[n - 1] = '\0';
	for (i = 0; why[i] != '\0'; i++) {
		if ((unsigned char)why[i] < ' ' || why[i] == 0x7f)
			why[i] = ' ';
	}
}

/* Run a loaded kernel. */
static enum rc
run_loaded(const struct kernel *k, const struct devmem *mem, const union kernel_value *v,
	   struct err *err)
{
	union gpusim_kernel_value value[KERNEL_MAX_PARAMS] = {{0}};
	struct memory m = {{memory_at}, mem};
	char why[256] = "";
	unsigned i;
	int result;
	enum rc rc;

	for (i = 0; k->params[i].kind != KP_END; i++) {
		if (k->params[i].kind == KP_REAL)
			value[i].f = v[i].f;
		else
			value[i].u = v[i].u;
	}
	result = k->user->run(&m.pub, value, why, sizeof why);
	if (result == GPUSIM_KERNEL_OK)
		return RC_OK;
	rc = result == GPUSIM_KERNEL_INVAL     ? RC_INVAL
	     : result == GPUSIM_KERNEL_BADDATA ? RC_BADDATA
					       : RC_FAILED;
	one_line(why, sizeof why);
	if (why[0] == '\0')
		snprintf(why, sizeof why, "failed with %d", result);
	return err_set(err, rc, "%s: %s", k->name, why);
}

enum rc
kernel_run(const struct kernel *k, const struct devmem *mem, const union kernel_value *v,
	   struct err *err)
{
	struct kern_call call = {.k = k, .mem = mem, .v = v, .err = err};
	enum rc rc = k->run != NULL ? k->run(&call) : run_loaded(k, mem, v, err);

	kern_end(&call, rc == RC_OK);
	return rc;
}
