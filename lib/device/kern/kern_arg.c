/*
 * kern_arg.c - a kernel's arguments become checked host pointers.
 */
#include "kern/kern_impl.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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

	if (size == sizeof(uint16_t) && dtype_is_float((enum gpusim_dtype)t)) {
		c->half = (enum gpusim_dtype)t;
		return sizeof(float);
	}
	if (size != 0 && t != GPUSIM_F32 && t != GPUSIM_F64) {
		kern_fail(c, RC_INVAL, "%s: must be " KERN_FLOATS ", not %s",
			  c->k->params[param].name, dtype_name((enum gpusim_dtype)t));
		return 0;
	}
	return size;
}

void *
kern_plain(struct kern_call *c, unsigned param, uint64_t rows, uint64_t cols, size_t size)
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

/* The f32 values of an area of halves; one copy of an area that two parameters share. */
static float *
widen(struct kern_call *c, unsigned param)
{
	size_t nbytes = c->area[param].nbytes;
	struct kern_cast cast;
	float *values;

	for (unsigned i = 0; i < KERNEL_MAX_PARAMS; i++)
		if (i != param && c->area[i].values && c->area[i].p == c->area[param].p &&
		    c->area[i].nbytes == nbytes)
			return c->area[i].values;
	values = malloc(nbytes * 2 + 1);
	if (!values) {
		kern_fail(c, RC_NOMEM, "out of memory");
		return NULL;
	}
	kern_cast_init(&cast, GPUSIM_F32, c->half, 1);
	kern_cast(&cast, values, c->area[param].p, nbytes / 2);
	c->area[param].own = true;
	return values;
}

void *
kern_at(struct kern_call *c, unsigned param, uint64_t rows, uint64_t cols, size_t size)
{
	void *p;

	if (size != sizeof(float) || !c->half)
		return kern_plain(c, param, rows, cols, size);
	p = kern_plain(c, param, rows, cols, sizeof(uint16_t));
	return p ? c->area[param].values = widen(c, param) : NULL;
}

void *
kern_out(struct kern_call *c, unsigned param, uint64_t rows, uint64_t cols, size_t size)
{
	c->area[param].out = true;
	return kern_at(c, param, rows, cols, size);
}

void
kern_end(struct kern_call *c, bool ok)
{
	struct kern_cast cast;

	if (!c->half)
		return;
	kern_cast_init(&cast, c->half, GPUSIM_F32, 1);
	for (unsigned i = 0; i < KERNEL_MAX_PARAMS && ok; i++)
		if (c->area[i].out && c->area[i].values)
			kern_cast(&cast, c->area[i].p, c->area[i].values, c->area[i].nbytes / 2);
	for (unsigned i = 0; i < KERNEL_MAX_PARAMS; i++)
		if (c->area[i].own)
			free(c->area[i].values);
}

double
kern_factor(struct kern_call *c, unsigned param, const unsigned *written, size_t nwritten)
{
	const float *at;

	if (c->v[param].u == 0)
		return 1;
	at = kern_plain(c, param, 1, 1, sizeof *at);
	for (size_t i = 0; i < nwritten; i++)
		kern_apart(c, written[i], param);
	return c->rc == RC_OK ? (double)*at : 1;
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
