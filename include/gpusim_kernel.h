/*
 * gpusim_kernel.h - your own kernels, in C or C++, which a device runs like its built-in kernels.
 *
 *	cc -shared -fPIC -O2 -o mine.so mine.c
 *	gpudev --kernels ./mine.so            or: gpuctl run -n 2 --kernels ./mine.so -- COMMAND
 *	gpuctl launch --device 0 mykernel x=0x10000 n=1000
 *
 * The file exports one symbol, gpusim_kernels, a table. It does not link with gpusim:
 *
 *	static const struct gpusim_kernel kernels[] = {{"mykernel", "what it does", params, run}};
 *	const struct gpusim_kernel_table gpusim_kernels = {GPUSIM_KERNEL_ABI, 1, kernels};
 *
 * A device checks the table when it starts, before it registers, and rejects a table that breaks a rule
 * below. It reads names, summaries and parameters then, and they must not change. The file stays loaded
 * until the device ends. examples/kernels/saxpby.c is a complete file; gpusim-kernels(7) has the rules.
 */
#ifndef GPUSIM_KERNEL_H
#define GPUSIM_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUSIM_KERNEL_ABI	 1   /* of this header; a device rejects any other */
#define GPUSIM_KERNEL_MAX_PARAMS 16  /* of a kernel */
#define GPUSIM_KERNEL_MAX	 64  /* kernels of a table */
#define GPUSIM_KERNEL_NAME_MAX	 63  /* bytes of a name: a letter, then letters, digits and _ */
#define GPUSIM_KERNEL_TEXT_MAX	 200 /* bytes of a summary or a help: one line */

enum gpusim_kernel_kind {
	GPUSIM_KERNEL_END = 0,	 /* ends a list of parameters */
	GPUSIM_KERNEL_ADDR = 1,	 /* device address */
	GPUSIM_KERNEL_COUNT = 2, /* elements, rows ... */
	GPUSIM_KERNEL_DTYPE = 3, /* enum gpusim_dtype of gpusim.h; the device has checked it */
	GPUSIM_KERNEL_FLAG = 4,	 /* 0 or 1; the device has checked it */
	GPUSIM_KERNEL_REAL = 5,	 /* double */
};

struct gpusim_kernel_param {
	const char *name; /* of the argument; same characters as in names of kernels */
	enum gpusim_kernel_kind kind;
	int optional;	  /* without the argument, its value is dflt */
	double dflt;	  /* a whole number, except for REAL; 0 for an ADDR: none */
	const char *help; /* a few words: shape and unit */
};

union gpusim_kernel_value {
	uint64_t u; /* all kinds except REAL */
	double f;   /* REAL */
};

/* The result of a run. All except OK need a message in `why`. */
enum gpusim_kernel_result {
	GPUSIM_KERNEL_OK = 0,
	GPUSIM_KERNEL_FAILED = 1,  /* the operation failed */
	GPUSIM_KERNEL_INVAL = 2,   /* an argument is wrong */
	GPUSIM_KERNEL_BADDATA = 5, /* data in memory are wrong */
};

/* A device's memory, during one run. */
struct gpusim_kernel_memory {
	/* gpusim_kernel_at calls it. */
	void *(*at)(const struct gpusim_kernel_memory *mem, const char *what, uint64_t addr,
		    uint64_t nelem, uint64_t size, char *why, size_t nwhy);
};

/*
 * gpusim_kernel_at - get the host pointer of nelem elements of `size` bytes at a device address.
 *
 *	what	name of the argument, for the message
 *	size	bytes of an element: 1, 2, 4, 8 or 16; the address must be a multiple
 *
 * Returns NULL if a byte is outside the device's memory, with a message in why; the kernel then returns
 * GPUSIM_KERNEL_INVAL. The pointer is valid until the run ends. For 0 elements it is not NULL, and the kernel
 * must not follow it. Get all pointers before writing the first element, so that a wrong argument leaves
 * memory unchanged.
 */
static inline void *
gpusim_kernel_at(const struct gpusim_kernel_memory *mem, const char *what, uint64_t addr,
		 uint64_t nelem, uint64_t size, char *why, size_t nwhy)
{
	return mem->at(mem, what, addr, nelem, size, why, nwhy);
}

struct gpusim_kernel {
	const char *name;    /* unique on the device */
	const char *summary; /* a few words, for lists */
	/* At least one parameter, then one of kind GPUSIM_KERNEL_END. */
	const struct gpusim_kernel_param *params;
	/*
	 * Run the kernel. value[i] belongs to params[i]; the device has checked all of them. Several
	 * threads may call it at once, with different memory or values. why has nwhy bytes for a message
	 * without the kernel's name, and is "" at first. Returns enum gpusim_kernel_result.
	 */
	int (*run)(const struct gpusim_kernel_memory *mem, const union gpusim_kernel_value *value,
		   char *why, size_t nwhy);
};

struct gpusim_kernel_table {
	uint32_t abi; /* GPUSIM_KERNEL_ABI */
	uint32_t nkernels;
	const struct gpusim_kernel *kernels;
};

/* The symbol that the file exports, even if the compiler hides symbols by default. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
extern const struct gpusim_kernel_table gpusim_kernels;

#ifdef __cplusplus
}
#endif

#endif
