/*
 * must.h - memory for programs: when it is out, the program ends, with one line and the exit status of RC_NOMEM.
 *
 * Only for what programs alone are linked with. Daemons and libraries return RC_NOMEM: base/buf.h.
 */
#ifndef BASE_MUST_H
#define BASE_MUST_H

#include "base/buf.h"

void must_fail(void) __attribute__((noreturn));

/* What a call that fails only for want of memory has returned. */
static inline void
must(bool good)
{
	if (!good)
		must_fail();
}

/* As alloc_zeroed, alloc_resize and alloc_room. */
void *must_alloc(size_t n, size_t size) __attribute__((returns_nonnull));
void *must_resize(void *p, size_t n, size_t size) __attribute__((returns_nonnull));

static inline void
must_room(void *array, size_t n, size_t *cap, size_t size)
{
	must(alloc_room(array, n, cap, size));
}

/* As strdup, strndup and asprintf. */
char *must_strdup(const char *s) __attribute__((returns_nonnull));
char *must_strndup(const char *s, size_t n) __attribute__((returns_nonnull));
char *must_printf(const char *fmt, ...) __attribute__((returns_nonnull, format(printf, 1, 2)));

/* As buf_reserve, buf_add and buf_addf. */
void must_reserve(struct buf *b, size_t more);
void must_add(struct buf *b, const void *src, size_t nbytes);
void must_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
