#include "mem/reduce.h"

#include <math.h>

#include "mem/reduce_isa.h"
#include "mem/reduce_many.h"

#define HALF_BLOCK 1024

/* avg divides at the end, in reduce_finish. */
void
reduce_apply(enum gpusim_dtype t, enum gpusim_op op, void *dst, const void *a, const void *b,
	     size_t nelem)
{
	const void *src[] = {a, b};

	reduce_many(t, op == GPUSIM_AVG ? GPUSIM_SUM : op, &dst, 1, src, 2, nelem, 0);
}

/* f16 and bf16 go through f32 in blocks that stay in the first-level cache. */
static void
divide_half(const struct reduce_isa *isa, enum gpusim_dtype t, unsigned char *buf, size_t nelem,
	    uint32_t nranks)
{
	float f[HALF_BLOCK];
	size_t n;

	for (; nelem; nelem -= n, buf += 2 * n) {
		n = nelem < HALF_BLOCK ? nelem : HALF_BLOCK;
		isa->widen(t, f, buf, n);
		isa->divide(GPUSIM_F32, f, n, nranks);
		isa->narrow(t, buf, f, n);
	}
}

void
reduce_finish(enum gpusim_dtype t, enum gpusim_op op, void *buf, size_t nelem, uint32_t nranks)
{
	const struct reduce_isa *isa = reduce_isa_at(0);

	if (op != GPUSIM_AVG || nranks <= 1)
		return;
	if (t == GPUSIM_F16 || t == GPUSIM_BF16)
		divide_half(isa, t, buf, nelem, nranks);
	else
		isa->divide(t, buf, nelem, nranks);
}

/* Elements as they lie in memory: at any address, and whatever the caller calls them. */
#define UNALIGNED(type, name) typedef type name __attribute__((aligned(1), may_alias))
UNALIGNED(float, mem_f32);
UNALIGNED(double, mem_f64);
UNALIGNED(int32_t, mem_i32);
UNALIGNED(int64_t, mem_i64);
UNALIGNED(int8_t, mem_i8);
UNALIGNED(uint16_t, mem_u16);
UNALIGNED(uint32_t, mem_u32);
UNALIGNED(uint64_t, mem_u64);
UNALIGNED(uint8_t, mem_u8);

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
