#include "nn/npz_format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ZIP_VERSION = 20, ZIP_DATE_1980_01_01 = 0x21, NPY_ALIGN = 64, NPY_PREFIX = 10 };

static uint8_t *
put16(uint8_t *p, uint32_t v)
{
	*p++ = (uint8_t)v;
	*p++ = (uint8_t)(v >> 8);
	return p;
}

static uint8_t *
put32(uint8_t *p, uint32_t v)
{
	return put16(put16(p, v), v >> 16);
}

/* The common part of local and central headers, from "version needed" on. */
static uint8_t *
put_common(uint8_t *p, const struct zip_entry *e)
{
	p = put16(p, ZIP_VERSION);
	p = put16(p, 0); /* flags */
	p = put16(p, 0); /* method: stored */
	p = put16(p, 0); /* time */
	p = put16(p, ZIP_DATE_1980_01_01);
	p = put32(p, e->crc);
	p = put32(p, e->nbytes); /* as stored */
	p = put32(p, e->nbytes);
	p = put16(p, (uint32_t)strlen(e->name));
	return put16(p, 0); /* extra field */
}

static size_t
put_name(uint8_t *p, const struct zip_entry *e, const uint8_t *begin)
{
	size_t n = strlen(e->name);

	memcpy(p, e->name, n);
	return (size_t)(p - begin) + n;
}

size_t
zip_local(const struct zip_entry *e, uint8_t out[ZIP_LOCAL_NBYTES + ZIP_NAME_MAX])
{
	return put_name(put_common(put32(out, 0x04034b50), e), e, out);
}

size_t
zip_central(const struct zip_entry *e, uint8_t out[ZIP_CENTRAL_NBYTES + ZIP_NAME_MAX])
{
	uint8_t *p = put32(out, 0x02014b50);

	p = put16(p, 3 << 8 | ZIP_VERSION); /* made by: Unix */
	p = put_common(p, e);
	p = put16(p, 0);	      /* comment */
	p = put16(p, 0);	      /* disk */
	p = put16(p, 0);	      /* internal attributes */
	p = put32(p, 0100644u << 16); /* external attributes: -rw-r--r-- */
	return put_name(put32(p, e->offset), e, out);
}

size_t
zip_end(size_t nentries, uint32_t central_offset, uint32_t central_nbytes,
	uint8_t out[ZIP_END_NBYTES])
{
	uint8_t *p = put32(out, 0x06054b50);

	p = put32(p, 0); /* this disk, disk of the directory */
	p = put16(p, (uint32_t)nentries);
	p = put16(p, (uint32_t)nentries);
	p = put32(p, central_nbytes);
	p = put32(p, central_offset);
	put16(p, 0); /* comment */
	return ZIP_END_NBYTES;
}

const char *
npz_type_name(enum npz_type type)
{
	static const char *const name[] = {
	    [NPZ_F32] = "<f4", [NPZ_I64] = "<i8", [NPZ_F64] = "<f8", [NPZ_U8] = "|u1"};

	return (size_t)type < sizeof name / sizeof name[0] ? name[type] : NULL;
}

size_t
npy_header(const struct npz_array *a, char out[NPY_HEADER_MAX])
{
	char *text = out + NPY_PREFIX;
	size_t cap = NPY_HEADER_MAX - NPY_PREFIX, n, total;

	n = (size_t)snprintf(text, cap, "{'descr': '%s', 'fortran_order': False, 'shape': (",
			     npz_type_name(a->type));
	for (uint32_t i = 0; i < a->ndim; i++)
		n += (size_t)snprintf(text + n, cap - n, "%s%" PRIu64, i ? ", " : "", a->dim[i]);
	n += (size_t)snprintf(text + n, cap - n, "%s), }", a->ndim == 1 ? "," : "");
	total = (NPY_PREFIX + n + 1 + NPY_ALIGN - 1) / NPY_ALIGN * NPY_ALIGN;
	memset(text + n, ' ', total - NPY_PREFIX - n);
	out[total - 1] = '\n';
	memcpy(out, "\x93NUMPY\x01", 8); /* with the minor version, 0 */
	put16((uint8_t *)out + 8, (uint32_t)(total - NPY_PREFIX));
	return total;
}

bool
npz_data_nbytes(const struct npz_array *a, uint64_t *nbytes)
{
	uint64_t n = a->type == NPZ_U8 ? 1 : a->type == NPZ_F32 ? 4 : 8;

	for (uint32_t i = 0; i < a->ndim; i++)
		if (__builtin_mul_overflow(n, a->dim[i], &n))
			return false;
	if (n > UINT32_MAX)
		return false;
	*nbytes = n;
	return true;
}

bool
npz_name_good(const char *name)
{
	size_t n = strnlen(name, NPZ_MAX_NAME + 1);
	static const char good[] = "abcdefghijklmnopqrstuvwxyz"
				   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

	return n >= 1 && n <= NPZ_MAX_NAME && strspn(name, good) == n;
}
