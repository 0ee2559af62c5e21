/*
 * memcheck.h - findings about a program's use of memory, with GPUSIM_MEMCHECK. Without it every function does
 * nothing, and memcheck_on is false.
 */
#ifndef CUDART_MEMCHECK_H
#define CUDART_MEMCHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory;

bool memcheck_on(void);

/* The place in the program that made the current call; NULL: none, such as in a thread of the library. */
const void *memcheck_site(void);

/*
 * Report a finding, unless the same one was reported for the same sites; printf's format.
 *
 *	kind	"out-of-bounds" ..
 *	call	the place of the call; NULL: the current one. allocated: of the allocation; NULL: not known
 */
void memcheck_report(const char *kind, const void *call, const void *allocated, const char *fmt,
		     ...) __attribute__((format(printf, 4, 5)));

/* A new allocation, before the program has it: fill it, also behind its end. */
void memcheck_fill(const struct memory *m);

/* A call uses [p, p + nbytes); what: "sendbuff of AllReduce". */
void memcheck_range(const char *what, const void *p, size_t nbytes);
/* The bytes leave the device now: report those that were never written. */
void memcheck_written(const char *what, const void *call, const void *p, size_t nbytes);

/* A free that fails. */
void memcheck_bad_free(const void *p);
/* Freed memory: keep it, so that its addresses stay inaccessible. False: the caller gives it back. */
bool memcheck_keep(const struct memory *m);
/* Give back what is kept of a device, which is full or reset. False: nothing is. */
bool memcheck_flush(int ordinal);

/* In a helper: begin. */
void memcheck_helper(void);
/* In a helper. Memory was mapped, or unmapped; a kernel has ended: check what is behind allocations. */
void memcheck_mapped(const struct memory *m);
void memcheck_unmapped(const void *p, uint64_t nbytes);
void memcheck_kernel(const char *name);

#endif
