/*
 * Design notes. Each type x op is one plain loop; `reduce_loops` holds them all, so that one
 * function is multiversioned and one ifunc is resolved. Signed sums and products run in the
 * unsigned type of the same width: the bits are the same and wrapping is defined.
 */
#include "mem/reduce.h"

#include <math.h>
#include <stdbool.h>

#include "mem/clones.h"
#include "mem/half.h"
#include "mem/halfvec.h"

#define F16_BLOCK 1024

/* Elements as they lie in memory: at any address, and whatever the caller calls them. */
#define UNALIGNED(type, name) typedef type name __attribute__((aligned(1), may_alias))
UNALIGNED(uint8_t, mem_u8);
UNALIGNED(int8_t, mem_i8);
UNALIGNED(uint16_t, mem_u16);
UNALIGNED(uint32_t, mem_u32);
UNALIGNED(int32_t, mem_i32);
UNALIGNED(uint64_t, mem_u64);
UNALIGNED(int64_t, mem_i64);
UNALIGNED(float, mem_f32);
UNALIGNED(double, mem_f64);

/*
 * IEEE 754-2019 minimum and maximum. The comparison with a NaN is false and takes y, which leaves
 * the NaN in x to see to. Equal numbers differ at most in the sign of zero, which or-ing (min) or
 * and-ing (max) the bits settles.
 */
#define FLOAT_MINMAX(name, less, zeros, type, uint, bits, of_bits, pick)     \
	static inline type name(type x, type y)                              \
	{                                                                    \
		uint bx = bits(x), by = bits(y), r = pick(x less y, bx, by); \
                                                                             \
		r = pick(x == y, bx zeros by, r);                            \
		return of_bits(pick(x != x, bx, r));                         \
	}
FLOAT_MINMAX(min_f32, <, |, float, uint32_t, f32_bits, f32_of_bits, pick32)
FLOAT_MINMAX(max_f32, >, &, float, uint32_t, f32_bits, f32_of_bits, pick32)
FLOAT_MINMAX(min_f64, <, |, double, uint64_t, f64_bits, f64_of_bits, pick64)
FLOAT_MINMAX(max_f64, >, &, double, uint64_t, f64_bits, f64_of_bits, pick64)

#define LOOP(mem, expr)                     \
	do {                                \
		mem *d = dst;               \
		const mem *pa = a, *pb = b; \
                                            \
		HOT_LOOP                    \
		for (i = 0; i < nelem; i++) \
			d[i] = (expr);      \
	} while (0)

#define INT_CASES(TYPE, mem, umem, utype)                 \
	case KEY(TYPE, GPUSIM_SUM):                       \
		LOOP(umem, (utype)(pa[i] + pb[i]));       \
		break;                                    \
	case KEY(TYPE, GPUSIM_PROD):                      \
		LOOP(umem, (utype)(pa[i] * pb[i]));       \
		break;                                    \
	case KEY(TYPE, GPUSIM_MIN):                       \
		LOOP(mem, pa[i] < pb[i] ? pa[i] : pb[i]); \
		break;                                    \
	case KEY(TYPE, GPUSIM_MAX):                       \
		LOOP(mem, pa[i] > pb[i] ? pa[i] : pb[i]); \
		break

/* load and store go between the bits in memory and the type the arithmetic is in. */
#define FLOAT_CASES(TYPE, mem, load, store, suffix)                       \
	case KEY(TYPE, GPUSIM_SUM):                                       \
		LOOP(mem, store(load(pa[i]) + load(pb[i])));              \
		break;                                                    \
	case KEY(TYPE, GPUSIM_PROD):                                      \
		LOOP(mem, store(load(pa[i]) * load(pb[i])));              \
		break;                                                    \
	case KEY(TYPE, GPUSIM_MIN):                                       \
		LOOP(mem, store(min_##suffix(load(pa[i]), load(pb[i])))); \
		break;                                                    \
	case KEY(TYPE, GPUSIM_MAX):                                       \
		LOOP(mem, store(max_##suffix(load(pa[i]), load(pb[i])))); \
		break

#define KEY(type, op) ((type)*GPUSIM_NOPS + (op))
#define SAME(x)	      (x)

HOT_CLONES static void
reduce_loops(unsigned key, void *dst, const void *a, const void *b, size_t nelem)
{
	size_t i;

	switch (key) {
		INT_CASES(GPUSIM_I8, mem_i8, mem_u8, uint8_t);
		INT_CASES(GPUSIM_U8, mem_u8, mem_u8, uint8_t);
		INT_CASES(GPUSIM_I32, mem_i32, mem_u32, uint32_t);
		INT_CASES(GPUSIM_U32, mem_u32, mem_u32, uint32_t);
		INT_CASES(GPUSIM_I64, mem_i64, mem_u64, uint64_t);
		INT_CASES(GPUSIM_U64, mem_u64, mem_u64, uint64_t);
		FLOAT_CASES(GPUSIM_BF16, mem_u16, bf16_widen, bf16_narrow, f32);
		FLOAT_CASES(GPUSIM_F32, mem_f32, SAME, SAME, f32);
		FLOAT_CASES(GPUSIM_F64, mem_f64, SAME, SAME, f64);
	}
}

/* binary16 goes through f32 in blocks that stay in the first-level cache. */
static void
reduce_f16(enum gpusim_op op, unsigned char *dst, const unsigned char *a, const unsigned char *b,
	   size_t nelem)
{
	float fa[F16_BLOCK], fb[F16_BLOCK];
	size_t n;

	for (; nelem; nelem -= n, dst += 2 * n, a += 2 * n, b += 2 * n) {
		n = nelem < F16_BLOCK ? nelem : F16_BLOCK;
		halfvec_widen(fa, a, n);
		halfvec_widen(fb, b, n);
		reduce_loops(KEY((unsigned)GPUSIM_F32, op), fa, fa, fb, n);
		halfvec_narrow(dst, fa, n);
	}
}

void
reduce_apply(enum gpusim_dtype t, enum gpusim_op op, void *dst, const void *a, const void *b,
	     size_t nelem)
{
	if ((unsigned)t >= GPUSIM_NDTYPES || (unsigned)op >= GPUSIM_NOPS)
		return;
	if (op == GPUSIM_AVG)
		op = GPUSIM_SUM;
	if (t == GPUSIM_F16)
		reduce_f16(op, dst, a, b, nelem);
	else
		reduce_loops(KEY((unsigned)t, op), dst, a, b, nelem);
}

#define DIVIDE(mem, expr)                   \
	do {                                \
		mem *d = buf;               \
                                            \
		for (i = 0; i < nelem; i++) \
			d[i] = (expr);      \
	} while (0)

HOT_CLONES static void
divide_loops(enum gpusim_dtype t, void *buf, size_t nelem, uint32_t nranks)
{
	const int64_t n = nranks;
	const float nf = (float)nranks;
	size_t i;

	switch (t) {
	case GPUSIM_F64:
		DIVIDE(mem_f64, d[i] / nranks);
		break;
	case GPUSIM_F32:
		DIVIDE(mem_f32, d[i] / nf);
		break;
	case GPUSIM_F16: /* divide_f16 */
	case GPUSIM_NDTYPES:
		break;
	case GPUSIM_BF16:
		DIVIDE(mem_u16, bf16_narrow(bf16_widen(d[i]) / nf));
		break;
	case GPUSIM_I8:
		DIVIDE(mem_i8, (int8_t)(d[i] / n));
		break;
	case GPUSIM_U8:
		DIVIDE(mem_u8, (uint8_t)(d[i] / nranks));
		break;
	case GPUSIM_I32:
		DIVIDE(mem_i32, (int32_t)(d[i] / n));
		break;
	case GPUSIM_U32:
		DIVIDE(mem_u32, d[i] / nranks);
		break;
	case GPUSIM_I64:
		DIVIDE(mem_i64, d[i] / n);
		break;
	case GPUSIM_U64:
		DIVIDE(mem_u64, d[i] / nranks);
		break;
	}
}

static void
divide_f16(unsigned char *buf, size_t nelem, uint32_t nranks)
{
	float f[F16_BLOCK];
	size_t n;

	for (; nelem; nelem -= n, buf += 2 * n) {
		n = nelem < F16_BLOCK ? nelem : F16_BLOCK;
		halfvec_widen(f, buf, n);
		divide_loops(GPUSIM_F32, f, n, nranks);
		halfvec_narrow(buf, f, n);
	}
}

void
reduce_finish(enum gpusim_dtype t, enum gpusim_op op, void *buf, size_t nelem, uint32_t nranks)
{
	if (op != GPUSIM_AVG || nranks <= 1)
		return;
	if (t == GPUSIM_F16)
		divide_f16(buf, nelem, nranks);
	else
		divide_loops(t, buf, nelem, nranks);
}

#define IDENTITY(mem, zero, one, most, least)              \
	do {                                               \
		mem *d = buf;                              \
		const mem v = op == GPUSIM_PROD	 ? (one)   \
			      : op == GPUSIM_MIN ? (most)  \
			      : op == GPUSIM_MAX ? (least) \
						 : (zero); \
                                                           \
		for (i = 0; i < nelem; i++)                \
			d[i] = v;                          \
	} while (0)

void
reduce_identity(enum gpusim_dtype t, enum gpusim_op op, void *buf, size_t nelem)
{
	size_t i;

	switch (t) {
	case GPUSIM_F64:
		IDENTITY(mem_f64, 0, 1, (double)INFINITY, -(double)INFINITY);
		break;
	case GPUSIM_F32:
		IDENTITY(mem_f32, 0, 1, INFINITY, -INFINITY);
		break;
	case GPUSIM_F16:
		IDENTITY(mem_u16, 0, 0x3c00, 0x7c00, 0xfc00);
		break;
	case GPUSIM_BF16:
		IDENTITY(mem_u16, 0, 0x3f80, 0x7f80, 0xff80);
		break;
	case GPUSIM_I8:
		IDENTITY(mem_i8, 0, 1, INT8_MAX, INT8_MIN);
		break;
	case GPUSIM_U8:
		IDENTITY(mem_u8, 0, 1, UINT8_MAX, 0);
		break;
	case GPUSIM_I32:
		IDENTITY(mem_i32, 0, 1, INT32_MAX, INT32_MIN);
		break;
	case GPUSIM_U32:
		IDENTITY(mem_u32, 0, 1, UINT32_MAX, 0);
		break;
	case GPUSIM_I64:
		IDENTITY(mem_i64, 0, 1, INT64_MAX, INT64_MIN);
		break;
	case GPUSIM_U64:
		IDENTITY(mem_u64, 0, 1, UINT64_MAX, 0);
		break;
	case GPUSIM_NDTYPES:
		break;
	}
}
