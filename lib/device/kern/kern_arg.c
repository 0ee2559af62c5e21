/*
 * kern_arg.c - a kernel's arguments become checked host pointers.
 */
#include "kern/kern_impl.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum rc
kern_fail(struct kern_call *c, enum rc rc, const char *fmt, ...)
{
	char text[sizeof c->err->text];
	va_list ap;

	if (c->rc != RC_OK)
		return c->rc;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	c->rc = rc;
	return err_set(c->err, rc, "%s: %s", c->k->name, text);
}

size_t
kern_type(struct kern_call *c, unsigned param)
{
	uint64_t t = c->v[param].u;

	if (t >= GPUSIM_NDTYPES) {
		kern_fail(c, RC_INVAL, "%s: %" PRIu64 " is not a type", c->k->params[param].name,
			  t);
		return 0;
	}
	return dtype_size((enum gpusim_dtype)t);
}

size_t
kern_float(struct kern_call *c, unsigned param)
{
	size_t size = kern_type(c, param);
	uint64_t t = c->v[param].u;

	if (size != 0 && t != GPUSIM_F32 && t != GPUSIM_F64) {
		kern_fail(c, RC_INVAL, "%s: must be f32 or f64, not %s", c->k->params[param].name,
			  dtype_name((enum gpusim_dtype)t));
		return 0;
	}
	return size;
}

void *
kern_at(struct kern_call *c, unsigned param, uint64_t rows, uint64_t cols, size_t size)
{
	const char *name = c->k->params[param].name;
	uint64_t addr = c->v[param].u, nbytes;
	struct err err;
	enum rc rc;
	void *p;

	if (c->rc != RC_OK)
		return NULL;
	if (__builtin_mul_overflow(rows, cols, &nbytes) ||
	    __builtin_mul_overflow(nbytes, size, &nbytes)) {
		kern_fail(c, RC_INVAL, "%s: %" PRIu64 " x %" PRIu64 " elements are too many", name,
			  rows, cols);
		return NULL;
	}
	rc = devmem_range(c->mem, name, addr, nbytes, &p, &err);
	if (rc != RC_OK) {
		kern_fail(c, rc, "%s", err.text);
		return NULL;
	}
	if ((uintptr_t)p % size != 0) {
		kern_fail(c, RC_INVAL, "%s: 0x%" PRIx64 " is not a multiple of %zu", name, addr,
			  size);
		return NULL;
	}
	c->area[param].p = p;
	c->area[param].nbytes = nbytes;
	return p;
}

void
kern_apart(struct kern_call *c, unsigned p, unsigned q)
{
	uintptr_t a = (uintptr_t)c->area[p].p, b = (uintptr_t)c->area[q].p;
	size_t na = c->area[p].nbytes, nb = c->area[q].nbytes;

	if (na != 0 && nb != 0 && a < b + nb && b < a + na)
		kern_fail(c, RC_INVAL, "%s and %s overlap", c->k->params[p].name,
			  c->k->params[q].name);
}

void
kern_inplace(struct kern_call *c, unsigned p, unsigned q)
{
	if (c->area[p].p != c->area[q].p || c->area[p].nbytes != c->area[q].nbytes)
		kern_apart(c, p, q);
}

void
kern_apart_from(struct kern_call *c, unsigned written, const unsigned *others, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (others[i] != written)
			kern_apart(c, written, others[i]);
	}
}

uint64_t
kern_product(struct kern_call *c, const char *what, const uint64_t *factor, size_t n)
{
	uint64_t product = 1;
	size_t i;

	for (i = 0; i < n; i++) {
		if (__builtin_mul_overflow(product, factor[i], &product)) {
			kern_fail(c, RC_INVAL, "%s: the elements are too many", what);
			return 0;
		}
	}
	return product;
}
