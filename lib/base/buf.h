/*
 * buf.h - a growable byte buffer, and overflow-checked allocation.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* Initialise with {0}; buf_fini releases. data is NULL while cap is 0. */
struct buf {
	char *data;
	size_t len, cap;
	/* Memory was out for an append, so something is missing: a writer of many pieces checks once. */
	bool failed;
};

/* Make room for `more` bytes beyond len. False: out of memory; what the buffer has is as it was. */
bool buf_reserve(struct buf *b, size_t more);

/* Append; false: out of memory, nothing appended. */
bool buf_add(struct buf *b, const void *src, size_t nbytes);
bool buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool buf_addv(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

/* Release the memory and make it {0}. */
void buf_fini(struct buf *b);

/* calloc / realloc of n things of size bytes; NULL when n * size overflows or memory ends. */
void *alloc_zeroed(size_t n, size_t size);
void *alloc_resize(void *p, size_t n, size_t size);

/*
 * Make room for one more in the array that *array points to (a pointer to elements of size bytes) with n
 * elements and room for *cap. False: out of memory, the array is unchanged.
 */
bool alloc_more(void *array, size_t *cap, size_t size);

static inline bool
alloc_room(void *array, size_t n, size_t *cap, size_t size)
{
	return n < *cap || alloc_more(array, cap, size);
}

#endif
