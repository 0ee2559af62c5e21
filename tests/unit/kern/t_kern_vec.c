/* fill, copy, gather, axpy, scale against one element at a time. */
#include "kern_test.h"

static const size_t counts[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 64, 65, 100, 513};

#define EACH(i, list) for (i = 0; i < sizeof(list) / sizeof *(list); i++)

/* Element i of any type, for small whole numbers. */
static double
element(uint64_t addr, enum gpusim_dtype t, size_t i)
{
	void *p = kt_at(addr + i * dtype_size(t));

	switch (t) {
	case GPUSIM_F64:
		return *(double *)p;
	case GPUSIM_F32:
		return (double)*(float *)p;
	case GPUSIM_F16:
		return (double)f16_to_f32(*(uint16_t *)p);
	case GPUSIM_BF16:
		return (double)bf16_to_f32(*(uint16_t *)p);
	case GPUSIM_F8E4M3:
		return (double)f8e4m3_to_f32(*(uint8_t *)p);
	case GPUSIM_F8E5M2:
		return (double)f8e5m2_to_f32(*(uint8_t *)p);
	case GPUSIM_I8:
		return *(int8_t *)p;
	case GPUSIM_U8:
		return *(uint8_t *)p;
	case GPUSIM_I32:
		return *(int32_t *)p;
	case GPUSIM_U32:
		return *(uint32_t *)p;
	case GPUSIM_I64:
		return (double)*(int64_t *)p;
	default:
		return (double)*(uint64_t *)p;
	}
}

static void
fill(void)
{
	static const double whole[] = {0, 1, 96, 112};
	static const struct {
		enum gpusim_dtype t;
		double value;
	} wrong[] = {
	    {GPUSIM_U8, 256},	  {GPUSIM_U8, -1},	     {GPUSIM_I8, 128},
	    {GPUSIM_I8, -129},	  {GPUSIM_I32, 0x1p31},	     {GPUSIM_U32, 0x1p32},
	    {GPUSIM_I64, 0x1p63}, {GPUSIM_U64, 0x1p64},	     {GPUSIM_U64, -1},
	    {GPUSIM_I32, 0.5},	  {GPUSIM_I64, (double)NAN}, {GPUSIM_U64, (double)INFINITY}};
	uint64_t dst = kt_alloc(520 * 8);
	bool good = true;
	size_t i, j, k;
	unsigned t;

	for (t = 0; t < GPUSIM_NDTYPES; t++) {
		size_t size = dtype_size(t);

		EACH(j, counts)
		{
			double value = whole[j % 4], guard = whole[(j + 1) % 4];

			good = good &&
			       kt_run("fill", ARGS(U("dst", dst), U("n", 520), R("value", guard),
						   U("dtype", t))) == RC_OK &&
			       kt_run("fill", ARGS(U("dst", dst + size), U("n", counts[j]),
						   R("value", value), U("dtype", t))) == RC_OK;
			for (k = 0; good && k < 520; k++)
				good = kt_near(dtype_name(t), k, element(dst, t, k),
					       k > 0 && k <= counts[j] ? value : guard, 0);
		}
	}
	ok(good, "fill: every type, every count, nothing beside it");
	good = kt_run("fill", ARGS(U("dst", dst), U("n", 1), R("value", -0x1p63),
				   U("dtype", GPUSIM_I64))) == RC_OK &&
	       *(int64_t *)kt_at(dst) == INT64_MIN &&
	       kt_run("fill", ARGS(U("dst", dst), U("n", 1), R("value", 0x1p64 - 2048),
				   U("dtype", GPUSIM_U64))) == RC_OK &&
	       *(uint64_t *)kt_at(dst) == UINT64_MAX - 2047 &&
	       kt_run("fill", ARGS(U("dst", dst), U("n", 1), R("value", (double)NAN))) == RC_OK &&
	       isnan(*(float *)kt_at(dst)) &&
	       kt_run("fill", ARGS(U("dst", dst), U("n", 1), R("value", 0.1))) == RC_OK &&
	       *(float *)kt_at(dst) == 0.1f;
	ok(good, "fill: the ends of the 64-bit types, NaN, rounding");
	good = true;
	EACH(i, wrong)
	good = kt_refuses(RC_INVAL, "fill",
			  ARGS(U("dst", dst), U("n", 4), R("value", wrong[i].value),
			       U("dtype", wrong[i].t))) &&
	       good;
	ok(good, "fill: refuses what is no number of an integer type");
	ok(kt_sweep("fill", NULL,
		    ARGS(U("dst", dst), U("n", 9), R("value", 3.0), U("dtype", GPUSIM_F32))),
	   "fill: refuses bad arguments");
}

static void
copy(void)
{
	uint64_t a = kt_alloc(256), at;
	unsigned char want[256], *p = kt_at(a);
	bool good = true;
	unsigned i;

	for (i = 0; i <= 32; i++) {
		for (at = 0; at < 256; at++)
			p[at] = (unsigned char)kt_rnd();
		memcpy(want, p, sizeof want);
		memmove(want + i * 4, want + 64, 100);
		good = kt_run("copy", ARGS(U("dst", a + i * 4), U("src", a + 64), U("n", 25))) ==
			   RC_OK &&
		       memcmp(p, want, sizeof want) == 0 && good;
	}
	ok(good, "copy: as memmove, at every overlap");
	ok(kt_run("copy", ARGS(U("dst", a + 1), U("src", a), U("n", 3), U("dtype", GPUSIM_U8))) ==
	       RC_OK,
	   "copy: bytes lie anywhere");
	ok(kt_run("copy", ARGS(U("dst", devmem_max(kt_mem)), U("src", a), U("n", 0))) == RC_OK,
	   "copy: nothing at the end of memory is fine");
	ok(kt_sweep("copy", NULL, ARGS(U("dst", a), U("src", a + 64), U("n", 9), U("dtype", 1))),
	   "copy: refuses bad arguments");
}

/* gather to every type is gather, then cast. */
static void
gather_cast(uint64_t index, size_t n, size_t rows)
{
	const size_t cols = 100;
	const double scales[] = {1, 1.0 / 255, 0.1, -3};
	uint64_t src = kt_alloc(rows * cols), mid = kt_alloc(n * cols),
		 got = kt_alloc(n * cols * 8), want = kt_alloc(n * cols * 8);
	bool good = true;
	unsigned to, s;

	for (to = 0; to < GPUSIM_NDTYPES; to++) {
		for (s = 0; s < sizeof scales / sizeof *scales; s++)
			good =
			    kt_run("gather",
				   ARGS(U("dst", got), U("src", src), U("index", index), U("n", n),
					U("rows", rows), U("cols", cols), U("dtype", GPUSIM_U8),
					U("to", to), R("scale", scales[s]))) == RC_OK &&
			    kt_run("gather", ARGS(U("dst", mid), U("src", src), U("index", index),
						  U("n", n), U("rows", rows), U("cols", cols),
						  U("dtype", GPUSIM_U8))) == RC_OK &&
			    kt_run("cast", ARGS(U("dst", want), U("src", mid), U("n", n * cols),
						U("from", GPUSIM_U8), U("to", to),
						R("scale", scales[s]))) == RC_OK &&
			    memcmp(kt_at(got), kt_at(want), n * cols * dtype_size(to)) == 0 && good;
	}
	ok(good, "gather: to every type, as cast does it");
	ok(kt_refuses(RC_INVAL, "gather",
		      ARGS(U("dst", got), U("src", src), U("index", index), U("n", n),
			   U("rows", rows), U("cols", 1 + (devmem_max(kt_mem) - got) / n / 8),
			   U("dtype", GPUSIM_U8), U("to", GPUSIM_F64))) &&
	       kt_refuses(RC_INVAL, "gather",
			  ARGS(U("dst", got + 1), U("src", src), U("index", index), U("n", n),
			       U("rows", rows), U("cols", 1), U("dtype", GPUSIM_U8),
			       U("to", GPUSIM_F32))),
	   "gather: dst has the size of its own type");
	devmem_free(kt_mem, src, NULL);
	devmem_free(kt_mem, mid, NULL);
	devmem_free(kt_mem, got, NULL);
	devmem_free(kt_mem, want, NULL);
}

static void
gather(void)
{
	const size_t rows = 11, n = 20;
	uint64_t src, dst, index = kt_alloc(n * 4);
	uint32_t *ix = kt_at(index);
	bool good = true;
	size_t cols, i, row_bytes;
	unsigned t;

	for (i = 0; i < n; i++)
		ix[i] = (uint32_t)(kt_rnd() % rows);
	for (t = 0; t < GPUSIM_NDTYPES; t++) {
		for (cols = 0; cols < 10; cols += 3) {
			row_bytes = cols * dtype_size(t);
			src = kt_alloc(rows * row_bytes);
			dst = kt_alloc(n * row_bytes);
			good = kt_run("gather", ARGS(U("dst", dst), U("src", src),
						     U("index", index), U("n", n), U("rows", rows),
						     U("cols", cols), U("dtype", t))) == RC_OK &&
			       good;
			for (i = 0; i < n; i++)
				good = good && memcmp((char *)kt_at(dst) + i * row_bytes,
						      (char *)kt_at(src) + ix[i] * row_bytes,
						      row_bytes) == 0;
			devmem_free(kt_mem, src, NULL);
			devmem_free(kt_mem, dst, NULL);
		}
	}
	ok(good, "gather: rows of every type");
	gather_cast(index, n, rows);
	src = kt_alloc(rows * 4 * 4);
	dst = kt_alloc(n * 4 * 4);
#define GATHER \
	U("dst", dst), U("src", src), U("index", index), U("n", n), U("rows", rows), U("cols", 4)
	ok(kt_sweep("gather", NULL, ARGS(GATHER, U("dtype", GPUSIM_F32))) &&
	       kt_sweep("gather", NULL, ARGS(GATHER, U("dtype", GPUSIM_F32), U("to", GPUSIM_I32))),
	   "gather: refuses bad arguments");
	ok(kt_refuses(RC_INVAL, "gather",
		      ARGS(U("dst", src + 16), U("src", src), U("index", index), U("n", 2),
			   U("rows", rows), U("cols", 4))) &&
	       kt_refuses(RC_INVAL, "gather",
			  ARGS(U("dst", index), U("src", src), U("index", index), U("n", 2),
			       U("rows", rows), U("cols", 4))),
	   "gather: refuses to write over what it reads");
	ix[n - 1] = (uint32_t)rows;
	ok(kt_refuses(RC_BADDATA, "gather", ARGS(GATHER)) &&
	       strstr(kt_err.text, "index[19] is 11") != NULL,
	   "gather: names the index that is no row, and moves nothing");
	ix[n - 1] = UINT32_MAX;
	ok(kt_refuses(RC_BADDATA, "gather", ARGS(GATHER)), "gather: nor the largest");
}

/* y = y + alpha x and x = alpha x, rounded once per operation (or once in all, where it is fused).
 */
static void
axpy_scale(enum gpusim_dtype t)
{
	size_t size = dtype_size(t), i, j;
	double eps = size == 4 ? 0x1p-23 : 0x1p-52, alpha = -1.7, want[520];
	uint64_t x = kt_vector(520, size), y = kt_vector(520, size);
	bool good = true;

	EACH(j, counts)
	{
		for (i = 0; i < 520; i++)
			want[i] =
			    kt_get(y, i, size) + (i < counts[j] ? alpha * kt_get(x, i, size) : 0);
		good = kt_run("axpy", ARGS(U("x", x), U("y", y), U("n", counts[j]),
					   R("alpha", alpha), U("dtype", t))) == RC_OK &&
		       good;
		for (i = 0; i < 520; i++)
			good = good && kt_near("y", i, kt_get(y, i, size), want[i],
					       i < counts[j] ? eps * (2 + fabs(want[i])) : 0);
	}
	ok(good, "axpy %s: within 1 ulp of 2 + |y|", dtype_name(t));
	good = true;
	EACH(j, counts)
	{
		for (i = 0; i < 520; i++)
			want[i] = kt_get(x, i, size) * (i < counts[j] ? alpha : 1);
		good = kt_run("scale", ARGS(U("x", x), U("n", counts[j]), R("alpha", alpha),
					    U("dtype", t))) == RC_OK &&
		       good;
		for (i = 0; i < 520; i++)
			good = good && kt_near("x", i, kt_get(x, i, size), want[i],
					       i < counts[j] ? eps * fabs(want[i]) : 0);
	}
	ok(good, "scale %s: within 1 ulp", dtype_name(t));
	kt_put(x, 0, size, 3);
	ok(kt_run("axpy", ARGS(U("x", x), U("y", x), U("n", 5), R("alpha", 2.0), U("dtype", t))) ==
		   RC_OK &&
	       kt_get(x, 0, size) == 9,
	   "axpy %s: a vector to itself", dtype_name(t));
	ok(kt_refuses(RC_INVAL, "axpy",
		      ARGS(U("x", x), U("y", x + size), U("n", 5), U("dtype", t))),
	   "axpy %s: refuses a shifted overlap", dtype_name(t));
	ok(kt_sweep("axpy", NULL,
		    ARGS(U("x", x), U("y", y), U("n", 5), R("alpha", 2.0), U("dtype", t))) &&
	       kt_sweep("scale", NULL, ARGS(U("x", x), U("n", 5), R("alpha", 2.0), U("dtype", t))),
	   "axpy, scale %s: refuse bad arguments", dtype_name(t));
}

int
main(void)
{
	uint64_t x;
	unsigned t;
	bool good = true;

	kt_open();
	fill();
	copy();
	gather();
	axpy_scale(GPUSIM_F32);
	axpy_scale(GPUSIM_F64);
	x = kt_alloc(64);
	for (t = 0; t < GPUSIM_NDTYPES; t++) {
		if (t > GPUSIM_BF16)
			good = kt_refuses(
				   RC_INVAL, "scale",
				   ARGS(U("x", x), U("n", 2), R("alpha", 2.0), U("dtype", t))) &&
			       good;
	}
	ok(good, "scale: refuses types other than floats of 16 bits or more");
	kt_close();
	return tap_done();
}
