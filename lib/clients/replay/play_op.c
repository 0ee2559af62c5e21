/* An operation's buffers and inputs. */
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "coll/parts.h"
#include "coll/shape.h"
#include "mem/dtype.h"
#include "replay/play_impl.h"

static uint64_t
aligned(uint64_t nbytes)
{
	return (nbytes + PLAY_ALIGN - 1) / PLAY_ALIGN * PLAY_ALIGN;
}

/* Find the layout of input and output in one buffer. *mem is the caller's to free. */
static struct shape
shape(const struct story *s, const struct story_op *o, struct plan_part **mem)
{
	uint32_t n = s->comm[o->comm].nranks;
	struct plan_args a = {.coll = (enum gpusim_coll)o->coll,
			      .rank = o->rank,
			      .nranks = n,
			      .root = o->root,
			      .nelem = o->nelem};

	*mem = o->parts ? must_alloc((size_t)2 * n, sizeof **mem) : NULL;
	for (uint32_t r = 0; *mem && r < 2 * n; r++) {
		const uint64_t *at = r < n ? o->parts : o->parts + 2 * (size_t)n;

		(*mem)[r] = (struct plan_part){at[r % n], at[n + r % n]};
	}
	if (*mem) {
		a.part = *mem;
		a.recv_part = o->recv_parts ? *mem + n : NULL;
	}
	return shape_of_args(&a);
}

uint64_t
play_bytes(const struct story *s, const struct story_op *o)
{
	struct plan_part *mem;
	struct shape sh = shape(s, o, &mem);
	uint64_t whole;

	free(mem);
	if (!o->in_place)
		return aligned(o->in_bytes) + aligned(o->out_bytes);
	if (__builtin_mul_overflow(sh.whole, dtype_size((enum gpusim_dtype)o->dtype), &whole) ||
	    whole > UINT64_MAX / 4)
		return UINT64_MAX / 4;
	return aligned(whole);
}

/* Fill in numbers that are valid in every type: integers, or small positive floats. */
static void
invent(const struct story_op *o, unsigned char *to, uint64_t nbytes)
{
	size_t elem = dtype_size((enum gpusim_dtype)o->dtype);
	bool real = dtype_is_float((enum gpusim_dtype)o->dtype);
	uint64_t x = o->number * 0x9e3779b97f4a7c15u + o->rank + 1;

	for (uint64_t i = 0; i < nbytes; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		to[i] = (unsigned char)(x >> 56);
		if (real && i % elem == elem - 1)
			to[i] &= 0x3b; /* finite, and below 2 */
	}
}

static enum rc
fill(struct play *p, const struct story_op *o, bool before, struct gpusim_addr at, struct err *err)
{
	uint64_t n = before ? o->out_bytes : o->in_bytes;
	unsigned char *bytes = n ? must_alloc(n, 1) : NULL;
	struct err why = {0};
	enum rc rc;

	if (n == 0)
		return RC_OK;
	rc = p->s->with_data ? story_input(p->s, o, before, bytes, &why) : RC_NOTFOUND;
	if (rc == RC_NOTFOUND) {
		p->map->hollow += !before && o->number;
		invent(o, bytes, n);
		rc = RC_OK;
	} else if (rc != RC_OK) {
		*err = why;
	}
	if (rc == RC_OK &&
	    gpusim_memcpy_h2d(p->cfg->g, p->cfg->device[o->proc], at, bytes, n) != GPUSIM_OK &&
	    !p->dead[o->proc])
		p->dead[o->proc] = true; /* its later operations fail, and are compared */
	free(bytes);
	return rc;
}

/* Set the addresses, within the device's buffer. */
static void
place(struct play *p, const struct story_op *o, struct play_op *out)
{
	struct gpusim_addr at = gpusim_addr_add(p->base[o->proc], p->used[o->proc]);
	size_t elem = dtype_size((enum gpusim_dtype)o->dtype);
	struct plan_part *mem;
	struct shape sh = shape(p->s, o, &mem);

	free(mem);
	p->used[o->proc] += play_bytes(p->s, o);
	out->send = out->recv = (struct gpusim_addr){0};
	if (o->in_bytes)
		out->send = o->in_place ? gpusim_addr_add(at, sh.in_at * elem) : at;
	if (o->out_bytes)
		out->recv =
		    gpusim_addr_add(at, o->in_place ? sh.out_at * elem : aligned(o->in_bytes));
}

static bool
packed(const struct story *s, const struct story_op *o)
{
	uint32_t n = s->comm[o->comm].nranks;
	uint64_t at = 0;

	for (uint32_t r = 0; r < n; at += o->parts[n + r++])
		if (o->parts[r] != at)
			return false;
	return !o->recv_parts;
}

enum rc
play_prepare(struct play *p, const struct story_op *o, struct play_op *out, struct err *err)
{
	uint32_t n = p->s->comm[o->comm].nranks;
	enum rc rc;

	place(p, o, out);
	rc = fill(p, o, false, out->send, err);
	if (rc == RC_OK && o->gaps && !o->in_place)
		rc = fill(p, o, true, out->recv, err);
	out->scalar = o->scalar;
	out->c = (struct gpusim_collective){
	    GPUSIM_COLLECTIVE_INIT,
	    .coll = (enum gpusim_coll)o->coll,
	    .dtype = (enum gpusim_dtype)o->dtype,
	    .redop = (enum gpusim_redop)o->redop,
	    .algo = o->schedule ? play_algo_name(o->schedule, out->algo) : o->algo,
	    .nelem = o->nelem,
	    .root = o->root,
	    .rank = o->rank,
	    .send = &out->send,
	    .recv = &out->recv,
	    .stream = {o->by_queue ? 0 : o->lane},
	    .chunk_bytes = o->chunk_bytes,
	    .scalar = &out->scalar,
	    .deterministic = o->deterministic};
	if (!o->parts)
		return rc;
	out->c.counts = o->parts + n;
	if (o->recv_parts)
		out->c.recv_counts = o->parts + 3 * (size_t)n;
	if (packed(p->s, o))
		return rc;
	out->c.algo = NULL; /* gaps need the default */
	out->c.displs = o->parts;
	if (o->recv_parts)
		out->c.recv_displs = o->parts + 2 * (size_t)n;
	return rc;
}
