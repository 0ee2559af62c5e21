/*
 * load.h - kernels from shared objects, see include/gpusim_kernel.h.
 *
 * Loaded code belongs to the process and stays until it ends. Load before the device is made:
 * there is no lock.
 */
#ifndef DEV_LOAD_H
#define DEV_LOAD_H

#include "kern/kernel.h"

/*
 * load_kernels - add the kernels of one file to the table; loading a file again does nothing.
 *
 * The file's code runs with this process's rights. RC_INVAL: the file cannot be read.
 * RC_BADDATA: it is not a shared object of this machine, has no table of this version, or a table
 * that is malformed or names a kernel that exists already; then none of it is taken.
 */
enum rc load_kernels(const char *path, struct err *err);

/* Load each file of a list with colons between; empty entries are skipped. */
enum rc load_kernels_list(const char *list, struct err *err);

/* The absolute paths of loaded files, with colons between; less than WIRE_NAME_MAX bytes. */
const char *load_files(void);

/* The i-th loaded kernel; NULL past the end. */
const struct kernel *load_at(unsigned i);

/* Run a loaded kernel. */
enum rc load_run(const struct kernel *k, const struct devmem *mem, const union kernel_value *v,
		 struct err *err);

#endif
