/*
 * gpusim_nvtx.h - NVTX: the interface between its headers and libcudart.so.12. Programs do not include it directly.
 */
#ifndef GPUSIM_NVTX_H
#define GPUSIM_NVTX_H

#ifdef __cplusplus
extern "C" {
#endif

struct __gpusim_note {
	const void *domain; /* its name, as a string; NULL: none */
	const char *text;   /* UTF-8; 31 bytes are shown, the domain's included */
	unsigned colour;    /* ARGB; 0: none */
	unsigned category;
};

enum {
	GPUSIM_NVTX_PUSH,  /* of this thread: returns its depth, from 0 */
	GPUSIM_NVTX_POP,   /* returns the depth of what ended; -1: there is none */
	GPUSIM_NVTX_START, /* returns an id, never 0 */
	GPUSIM_NVTX_END,   /* arg: the id; unknown ones are ignored */
	GPUSIM_NVTX_MARK,
	GPUSIM_NVTX_THREAD, /* arg: a thread of the system, whose name `text` is */
	GPUSIM_NVTX_STREAM  /* arg: a cudaStream_t */
};

/* NULL in a program that has not loaded libcudart. n is only read. Thread-safe. */
unsigned long long __gpusim_nvtx(int what, unsigned long long arg, const struct __gpusim_note *n)
    __attribute__((weak));

#ifdef __cplusplus
}
#endif

#endif
