/*
 * load.h - kernels out of shared objects, see include/gpusim_kernel.h.
 *
 * Loaded code belongs to the process and stays until it ends. Load before the device is made:
 * there is no lock.
 */
#ifndef DEV_LOAD_H
#define DEV_LOAD_H

#include "dev/kernel.h"

/*
 * load_kernels - take the kernels of one file into the table; again the same file does nothing.
 *
 * The file's code runs, with all that this process may do. RC_INVAL: the file cannot be read.
 * RC_BADDATA: it is not a shared object of this machine, has no table of this version, or a table
 * that is malformed or names a kernel that exists already; then none of it is taken.
 */
enum rc load_kernels(const char *path, struct err *err);

/* The same for each file of a list with colons between; nothing between two is nothing. */
enum rc load_kernels_list(const char *list, struct err *err);

/* The absolute paths of what is loaded, with colons between; fewer than WIRE_NAME_MAX bytes. */
const char *load_files(void);

/* The i-th kernel that was loaded; NULL past the end. */
const struct kernel *load_at(unsigned i);

/* Runs a kernel that was loaded. */
enum rc load_run(const struct kernel *k, const struct devmem *mem, const union kernel_value *v,
		 struct err *err);

#endif
