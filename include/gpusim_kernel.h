/*
 * gpusim_kernel.h - kernels of your own, in C or C++, which a device runs like those of the house.
 *
 *	cc -shared -fPIC -O2 -o mine.so mine.c
 *	gpudev --kernels ./mine.so            or: gpuctl run -n 2 --kernels ./mine.so -- COMMAND
 *	gpuctl launch DEVICE mykernel x=0x10000 n=1000
 *
 * The file exports one symbol, gpusim_kernels, a table. It needs nothing of gpusim to link with:
 *
 *	static const struct gpusim_kernel kernels[] = {{"mykernel", "what it does", params, run}};
 *	const struct gpusim_kernel_table gpusim_kernels = {GPUSIM_KERNEL_ABI, 1, kernels};
 *
 * A device checks the table when it starts, before it registers, and refuses a file whose table is
 * not as it is said here. It keeps the file until it ends. Names, summaries and parameters are read
 * then, and must stay as they are. examples/kernels/saxpby.c is a whole one.
 */
#ifndef GPUSIM_KERNEL_H
#define GPUSIM_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUSIM_KERNEL_ABI	 1   /* of this header; a device takes no other */
#define GPUSIM_KERNEL_MAX_PARAMS 16  /* of a kernel */
#define GPUSIM_KERNEL_MAX	 64  /* kernels of a table */
#define GPUSIM_KERNEL_NAME_MAX	 63  /* bytes of a name: a letter, then letters, digits and _ */
#define GPUSIM_KERNEL_TEXT_MAX	 200 /* bytes of a summary or a help: one line */

enum gpusim_kernel_kind {
	GPUSIM_KERNEL_END = 0,	 /* ends a list of parameters */
	GPUSIM_KERNEL_ADDR = 1,	 /* device address */
	GPUSIM_KERNEL_COUNT = 2, /* elements, rows ... */
	GPUSIM_KERNEL_DTYPE = 3, /* enum gpusim_dtype of gpusim.h; an unknown type never comes */
	GPUSIM_KERNEL_FLAG = 4,	 /* 0 or 1; nothing else ever comes */
	GPUSIM_KERNEL_REAL = 5,	 /* double */
};

struct gpusim_kernel_param {
	const char *name; /* its argument's, as kernels are named */
	enum gpusim_kernel_kind kind;
	int optional;	  /* then `dflt` is its value when it is not given */
	double dflt;	  /* a whole number but for REAL; 0 for an ADDR: none */
	const char *help; /* a few words: shape and unit */
};

union gpusim_kernel_value {
	uint64_t u; /* all kinds but REAL */
	double f;   /* REAL */
};

/* What a run came to. All but OK go with a sentence in `why`. */
enum gpusim_kernel_result {
	GPUSIM_KERNEL_OK = 0,
	GPUSIM_KERNEL_FAILED = 1,  /* the operation failed */
	GPUSIM_KERNEL_INVAL = 2,   /* an argument is wrong */
	GPUSIM_KERNEL_BADDATA = 5, /* what lies in memory is wrong */
};

/* A device's memory, for the time of one run. */
struct gpusim_kernel_memory {
	/* As gpusim_kernel_at, which calls it. */
	void *(*at)(const struct gpusim_kernel_memory *mem, const char *what, uint64_t addr,
		    uint64_t nelem, uint64_t size, char *why, size_t nwhy);
};

/*
 * gpusim_kernel_at - the host pointer of nelem elements of `size` bytes at a device address.
 *
 *	what	the argument's name, for the sentence
 *	size	bytes of an element: 1, 2, 4, 8 or 16; the address must be a multiple
 *
 * NULL when a byte of it lies outside the device's memory, and *why says so: then return
 * GPUSIM_KERNEL_INVAL. No elements have a pointer too, which is not to be followed. It is valid until
 * the run ends. Get all that the kernel needs before it writes the first element, so that a wrong
 * argument leaves memory as it was.
 */
static inline void *
gpusim_kernel_at(const struct gpusim_kernel_memory *mem, const char *what, uint64_t addr,
		 uint64_t nelem, uint64_t size, char *why, size_t nwhy)
{
	return mem->at(mem, what, addr, nelem, size, why, nwhy);
}

struct gpusim_kernel {
	const char *name;    /* not one that the device has already */
	const char *summary; /* a few words, for lists */
	/* Ends with one of kind GPUSIM_KERNEL_END; at least one before it. */
	const struct gpusim_kernel_param *params;
	/*
	 * Runs it. value[i] belongs to params[i]; all are present and of their kind. May be called
	 * by several threads at once, with different memory or values. why: [nwhy] bytes for a
	 * sentence without the kernel's name, "" at first. Returns enum gpusim_kernel_result.
	 */
	int (*run)(const struct gpusim_kernel_memory *mem, const union gpusim_kernel_value *value,
		   char *why, size_t nwhy);
};

struct gpusim_kernel_table {
	uint32_t abi; /* GPUSIM_KERNEL_ABI */
	uint32_t nkernels;
	const struct gpusim_kernel *kernels;
};

/* The symbol that the file exports, whatever the compiler hides by default. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
extern const struct gpusim_kernel_table gpusim_kernels;

#ifdef __cplusplus
}
#endif

#endif
