#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *
alloc_zeroed(size_t n, size_t size)
{
	size_t nbytes;

	if (__builtin_mul_overflow(n, size, &nbytes))
		return NULL;
	return calloc(1, nbytes ? nbytes : 1);
}

void *
alloc_resize(void *p, size_t n, size_t size)
{
	size_t nbytes;

	if (__builtin_mul_overflow(n, size, &nbytes))
		return NULL;
	return realloc(p, nbytes ? nbytes : 1);
}

bool
alloc_more(void *array, size_t *cap, size_t size)
{
	size_t want = *cap <= SIZE_MAX / 2 - 8 ? 2 * *cap + 8 : SIZE_MAX;
	void *p;

	memcpy(&p, array, sizeof p);
	p = alloc_resize(p, want, size);
	if (!p)
		return false;
	memcpy(array, &p, sizeof p);
	*cap = want;
	return true;
}

bool
buf_reserve(struct buf *b, size_t more)
{
	size_t want, cap = b->cap;
	char *p;

	if (more > SIZE_MAX / 2 - b->len)
		return !(b->failed = true);
	want = b->len + more;
	if (want <= cap)
		return true;
	cap = cap ? cap : 256;
	while (cap < want)
		cap += cap / 2;
	p = realloc(b->data, cap);
	if (!p)
		return !(b->failed = true);
	b->data = p;
	b->cap = cap;
	return true;
}

bool
buf_add(struct buf *b, const void *src, size_t nbytes)
{
	if (!buf_reserve(b, nbytes))
		return false;
	if (nbytes)
		memcpy(b->data + b->len, src, nbytes);
	b->len += nbytes;
	return true;
}

bool
buf_addv(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	if (n < 0 || !buf_reserve(b, (size_t)n + 1))
		return false;
	vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
	b->len += (size_t)n;
	return true;
}

bool
buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	bool good;

	va_start(ap, fmt);
	good = buf_addv(b, fmt, ap);
	va_end(ap);
	return good;
}

void
buf_fini(struct buf *b)
{
	free(b->data);
	*b = (struct buf){0};
}
