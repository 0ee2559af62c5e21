/*
 * kernel.h - the kernels a device can launch by name: one table for lookup, checking and help.
 *
 * Matrices are row-major and dense. Counts are elements. Every address range a kernel touches is
 * checked against the device's memory before the first element is touched; a wrong argument leaves
 * memory as it was. Kernels of one device may run concurrently on several streams.
 */
#ifndef DEV_KERNEL_H
#define DEV_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/rc.h"
#include "mem/devmem.h"

#define KERNEL_MAX_PARAMS 20 /* at least GPUSIM_KERNEL_MAX_PARAMS, of loaded kernels */

enum kernel_param_kind {
	KP_END = 0, /* ends a parameter list */
	KP_ADDR,    /* device address */
	KP_COUNT,   /* elements, rows ... */
	KP_DTYPE,   /* enum gpusim_dtype */
	KP_FLAG,    /* 0 or 1 */
	KP_REAL,    /* double */
};

struct gpusim_kernel;
struct kern_call; /* kern_impl.h */

struct kernel_param {
	const char *name;
	enum kernel_param_kind kind;
	/* `dflt` holds when it is not given: 0 for no address, GPUSIM_NDTYPES for no type. */
	bool optional;
	double dflt;
	const char *help; /* a few words: shape and unit */
};

union kernel_value {
	uint64_t u; /* all kinds but KP_REAL */
	double f;   /* KP_REAL */
};

struct kernel {
	const char *name, *summary;
	struct kernel_param params[KERNEL_MAX_PARAMS + 1];
	/* call->v[i] belongs to params[i]; all are present (given or default). NULL: use `user`. */
	enum rc (*run)(struct kern_call *call);
	const struct gpusim_kernel *user; /* a loaded kernel; or NULL */
};

/* Run it on values from kernel_bind. */
enum rc kernel_run(const struct kernel *k, const struct devmem *mem, const union kernel_value *v,
		   struct err *err);

/* Find a kernel by name, or NULL. */
const struct kernel *kernel_find(const char *name);

/* Set RC_NOTFOUND for an unknown name, with the most similar name. */
enum rc kernel_unknown(const char *name, struct err *err);

/* List all kernels with their arguments: as text, or as one array of JSON. */
void kernel_list(FILE *f);
void kernel_list_json(FILE *f);

/* The i-th kernel, in the order of the table, then the loaded ones; NULL past the end. */
const struct kernel *kernel_at(unsigned i);

/* One argument as it comes from the wire. */
struct kernel_arg {
	const char *name;
	bool is_real; /* f is set, else u. A real parameter takes a whole number too. */
	union kernel_value value;
	uint64_t step; /* added to u once per graph iteration */
};

/*
 * kernel_bind - order and check arguments by name, once, before (repeated) running.
 *
 *	v	[out] KERNEL_MAX_PARAMS values in parameter order, defaults filled in
 *	step	[out] likewise: increments per iteration (0: none)
 *
 * RC_INVAL names the kernel and the argument: unknown, missing, given twice, of the wrong kind.
 */
enum rc kernel_bind(const struct kernel *k, const struct kernel_arg *args, size_t nargs,
		    union kernel_value *v, uint64_t *step, struct err *err);

/*
 * load_kernels - add the kernels of a shared object to the table, see include/gpusim_kernel.h; loading a file
 * again does nothing.
 *
 * The file's code runs with this process's rights, belongs to the process and stays until it ends. Load before
 * the device is made: there is no lock. RC_INVAL: the file cannot be read. RC_BADDATA: it is not a shared
 * object of this machine, has no table of this version, or a table that is malformed or names a kernel that
 * exists already; then none of it is taken.
 */
enum rc load_kernels(const char *path, struct err *err);

/* Load each file of a list with colons between; empty entries are skipped. */
enum rc load_kernels_list(const char *list, struct err *err);

/* The absolute paths of loaded files, with colons between; less than WIRE_NAME_MAX bytes. */
const char *load_files(void);

#endif
