#include "base/must.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

void
must_fail(void)
{
	log_line(LOG_ERROR, "%s", rc_name(RC_NOMEM));
	exit(rc_exit(RC_NOMEM));
}

void *
must_alloc(size_t n, size_t size)
{
	void *p = alloc_zeroed(n, size);

	must(p);
	return p;
}

void *
must_resize(void *p, size_t n, size_t size)
{
	p = alloc_resize(p, n, size);
	must(p);
	return p;
}

char *
must_strdup(const char *s)
{
	return must_strndup(s, strlen(s));
}

char *
must_strndup(const char *s, size_t n)
{
	char *copy = strndup(s, n);

	must(copy);
	return copy;
}

char *
must_printf(const char *fmt, ...)
{
	va_list ap;
	char *text;

	va_start(ap, fmt);
	must(vasprintf(&text, fmt, ap) >= 0);
	va_end(ap);
	return text;
}

void
must_reserve(struct buf *b, size_t more)
{
	must(buf_reserve(b, more));
}

void
must_add(struct buf *b, const void *src, size_t nbytes)
{
	must(buf_add(b, src, nbytes));
}

void
must_addf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	must(buf_addv(b, fmt, ap));
	va_end(ap);
}
