/* Images moved and mirrored, against a loop over the padded image. */
#include "kern_test.h"

struct images {
	size_t n, c, h, w, pad;
	uint64_t dst, src, how;
	enum gpusim_dtype t;
};

#define AUGMENT(v)                                                                  \
	U("dst", (v)->dst), U("src", (v)->src), U("how", (v)->how), U("n", (v)->n), \
	    U("c", (v)->c), U("h", (v)->h), U("w", (v)->w), U("pad", (v)->pad), U("dtype", (v)->t)

static struct images
images_new(size_t n, size_t c, size_t h, size_t w, size_t pad, enum gpusim_dtype t)
{
	struct images v = {.n = n, .c = c, .h = h, .w = w, .pad = pad, .t = t};
	size_t nbytes = n * c * h * w * dtype_size(t);

	v.dst = kt_alloc(nbytes + 8);
	v.src = kt_alloc(nbytes);
	v.how = kt_alloc(n * sizeof(uint32_t));
	for (size_t i = 0; i < n; i++)
		((uint32_t *)kt_at(v.how))[i] =
		    (uint32_t)(kt_rnd() % (2 * pad + 1) + kt_rnd() % (2 * pad + 1) * 256 +
			       kt_rnd() % 2 * 65536);
	return v;
}

/* The bytes of a pixel are those of where it comes from, or zeros. */
static bool
pixel_same(const struct images *v, size_t i, size_t ch, size_t y, size_t x)
{
	static const unsigned char zeros[8];
	uint32_t how = ((uint32_t *)kt_at(v->how))[i];
	size_t size = dtype_size(v->t), row = y + (how & 0xff);
	size_t column = (how >> 16 ? v->w - 1 - x : x) + (how >> 8 & 0xff);
	const unsigned char *dst = kt_at(v->dst), *src = kt_at(v->src);
	bool inside =
	    row >= v->pad && row < v->pad + v->h && column >= v->pad && column < v->pad + v->w;

	dst += (((i * v->c + ch) * v->h + y) * v->w + x) * size;
	if (inside)
		src += (((i * v->c + ch) * v->h + row - v->pad) * v->w + column - v->pad) * size;
	return memcmp(dst, inside ? src : zeros, size) == 0;
}

static bool
check(size_t n, size_t c, size_t h, size_t w, size_t pad, enum gpusim_dtype t)
{
	struct images v;
	bool good;
	uint64_t *end, guard;

	kt_open();
	v = images_new(n, c, h, w, pad, t);
	end = kt_at(v.dst + (n * c * h * w * dtype_size(t) + 7) / 8 * 8);
	guard = n * c * h * w * dtype_size(t) % 8 ? 0 : *end;
	good = kt_run("augment", ARGS(AUGMENT(&v))) == RC_OK;
	for (size_t i = 0; i < n * c * h * w; i++)
		good = good && pixel_same(&v, i / (c * h * w), i / (h * w) % c, i / w % h, i % w);
	good = good && (!guard || *end == guard);
	kt_close();
	return good;
}

static void
test_refusals(void)
{
	struct images v, w;
	uint32_t *how;
	bool good = true;

	kt_open();
	v = images_new(3, 2, 5, 4, 2, GPUSIM_F32);
	how = kt_at(v.how);
	for (size_t k = 0; k < 4; k++) {
		uint32_t was = how[2];

		how[2] = (uint32_t[]){5, 5 << 8, 2 << 16, 1u << 31}[k];
		good = kt_refuses(RC_BADDATA, "augment", ARGS(AUGMENT(&v))) && good;
		how[2] = was;
	}
	ok(good && strstr(kt_err.text, "how[2]"), "augment: a word that says something else");
	w = v;
	w.pad = 128;
	good = kt_refuses(RC_INVAL, "augment", ARGS(AUGMENT(&w)));
	w = v;
	w.dst = v.src + 4;
	good = kt_refuses(RC_INVAL, "augment", ARGS(AUGMENT(&w))) && good;
	w.dst = v.how;
	ok(kt_refuses(RC_INVAL, "augment", ARGS(AUGMENT(&w))) && good, "augment: refuses overlaps");
	kt_any_count = "pad"; /* what it may be is checked above */
	ok(kt_sweep("augment", NULL, ARGS(AUGMENT(&v))), "augment: refuses bad arguments");
	kt_close();
}

int
main(void)
{
	static const enum gpusim_dtype types[] = {GPUSIM_U8, GPUSIM_F16, GPUSIM_F32, GPUSIM_F64};

	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
		ok(check(9, 3, 8, 7, 4, types[i]) && check(5, 1, 3, 2, 4, types[i]) &&
		       check(7, 2, 6, 5, 0, types[i]) && check(0, 1, 4, 4, 1, types[i]) &&
		       check(3, 1, 1, 1, 127, types[i]) && check(2, 1, 0, 4, 1, types[i]),
		   "augment %s: each pixel is where it belongs, nothing beside it",
		   dtype_name(types[i]));
	test_refusals();
	return tap_done();
}
