#include "nn/npz.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "base/must.h"
#include "nn/input.h"
#include "nn/npy.h"
#include "nn/zip.h"

/*
 * The layout of a file that is written:
 *
 *	per array:  local header | NAME.npy | npy header | data
 *	then per array:  central header | NAME.npy
 *	then:  end record
 */

/* Elements are copied as they lie in memory and declared little-endian. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "npz needs a little-endian machine");

enum {
	ZIP_LOCAL_NBYTES = 30,
	ZIP_CENTRAL_NBYTES = 46,
	ZIP_END_NBYTES = 22,
	ZIP_NAME_MAX = NPZ_MAX_NAME + 4,
	NPY_HEADER_MAX = 256, /* magic to newline, padded to a multiple of 64 */
};

/* One file of the zip. nbytes counts the npy header and the data. */
struct zip_entry {
	char name[ZIP_NAME_MAX + 1]; /* with .npy */
	uint32_t crc, nbytes, offset;
};

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

/* Render a header or the end record; the zip_* return the number of bytes, names included. */
static size_t
zip_local(const struct zip_entry *e, uint8_t out[ZIP_LOCAL_NBYTES + ZIP_NAME_MAX])
{
	return put_name(put_common(put32(out, 0x04034b50), e), e, out);
}

static size_t
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

static size_t
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

/* The element type as numpy spells it, "<f4"; NULL: not one of enum npz_type. */
static const char *
npz_type_name(enum npz_type type)
{
	static const char *const name[] = {
	    [NPZ_F32] = "<f4", [NPZ_I64] = "<i8", [NPZ_F64] = "<f8", [NPZ_U8] = "|u1"};

	return (size_t)type < sizeof name / sizeof name[0] ? name[type] : NULL;
}

/* Render the npy header of an array; ndim <= NPZ_MAX_DIMS. Returns its length. */
static size_t
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

/* The bytes of the data; false when that overflows or is 4 GiB or more. */
static bool
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

/* 1..NPZ_MAX_NAME bytes of [A-Za-z0-9_.-]. */
static bool
npz_name_good(const char *name)
{
	size_t n = strnlen(name, NPZ_MAX_NAME + 1);
	static const char good[] = "abcdefghijklmnopqrstuvwxyz"
				   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

	return n >= 1 && n <= NPZ_MAX_NAME && strspn(name, good) == n;
}

/* ---- writing */

/* zlib's crc32 counts in unsigned int. */
static uint32_t
crc_add(uint32_t crc, const void *bytes, size_t nbytes)
{
	const uint8_t *p = bytes;

	for (size_t n; nbytes > 0; p += n, nbytes -= n) {
		n = nbytes < (1u << 30) ? nbytes : 1u << 30;
		crc = (uint32_t)crc32(crc, p, (uInt)n);
	}
	return crc;
}

/* Check every array and lay the entries out; nothing has been opened yet. */
static enum rc
plan_entries(const char *path, const struct npz_array *array, size_t narrays,
	     struct zip_entry *entry, uint64_t *central_offset, struct err *err)
{
	uint64_t at = 0, data, central = 0;
	char header[NPY_HEADER_MAX];

	for (size_t i = 0; i < narrays; i++) {
		const struct npz_array *a = &array[i];
		struct zip_entry *e = &entry[i];
		size_t n;

		if (!npz_name_good(a->name))
			return err_set(err, RC_INVAL, "%s: array %zu: \"%.*s\" cannot be a name",
				       path, i, NPZ_MAX_NAME, a->name);
		for (size_t j = 0; j < i; j++)
			if (strcmp(array[j].name, a->name) == 0)
				return err_set(err, RC_INVAL, "%s: two arrays have the name %s",
					       path, a->name);
		if (a->ndim > NPZ_MAX_DIMS || !npz_type_name(a->type) ||
		    !npz_data_nbytes(a, &data) || (data > 0 && !a->data))
			return err_set(err, RC_INVAL,
				       "%s: array %s: unknown type, more than %d dimensions, no "
				       "data or more than 4 GiB",
				       path, a->name, NPZ_MAX_DIMS);
		n = npy_header(a, header);
		e->offset = (uint32_t)at;
		e->nbytes = (uint32_t)(n + data);
		snprintf(e->name, sizeof e->name, "%s.npy", a->name);
		e->crc = crc_add(crc_add(0, header, n), a->data, data);
		at += ZIP_LOCAL_NBYTES + strlen(e->name) + n + data;
		central += ZIP_CENTRAL_NBYTES + strlen(e->name);
		if (at + central + ZIP_END_NBYTES >= UINT32_MAX)
			return err_set(err, RC_INVAL, "%s: more than 4 GiB", path);
	}
	*central_offset = at;
	return RC_OK;
}

/* False with errno. */
static bool
write_zip(int fd, const struct npz_array *array, const struct zip_entry *entry, size_t narrays,
	  uint32_t central_offset)
{
	uint8_t h[ZIP_CENTRAL_NBYTES + ZIP_NAME_MAX];
	char header[NPY_HEADER_MAX];
	uint32_t central = 0;
	size_t n;

	for (size_t i = 0; i < narrays; i++) {
		if (!file_write(fd, h, zip_local(&entry[i], h)))
			return false;
		n = npy_header(&array[i], header);
		if (!file_write(fd, header, n) ||
		    !file_write(fd, array[i].data, entry[i].nbytes - n))
			return false;
	}
	for (size_t i = 0; i < narrays; i++) {
		n = zip_central(&entry[i], h);
		central += (uint32_t)n;
		if (!file_write(fd, h, n))
			return false;
	}
	return file_write(fd, h, zip_end(narrays, central_offset, central, h));
}

enum rc
npz_write(const char *path, const struct npz_array *array, size_t narrays, struct err *err)
{
	struct zip_entry *entry = NULL;
	struct file_new file;
	uint64_t central_offset = 0;
	enum rc rc;

	if (narrays > NPZ_MAX_ARRAYS)
		return err_set(err, RC_INVAL, "%s: %zu arrays, at most %d are written", path,
			       narrays, NPZ_MAX_ARRAYS);
	entry = must_alloc(narrays, sizeof *entry);
	rc = plan_entries(path, array, narrays, entry, &central_offset, err);
	if (rc == RC_OK)
		rc = file_new_open(path, &file, err);
	if (rc == RC_OK)
		rc = file_new_close(
		    &file, write_zip(file.fd, array, entry, narrays, (uint32_t)central_offset),
		    err);
	free(entry);
	return rc;
}

/* Write all of a file; false with errno. */
static bool
read_back(int fd, struct buf *out)
{
	off_t n = lseek(fd, 0, SEEK_END), at = 0;
	ssize_t k = 0;

	if (n < 0)
		return false;
	must_reserve(out, (size_t)n);
	for (; at < n && (k = pread(fd, out->data + out->len, (size_t)(n - at), at)) > 0; at += k)
		out->len += (size_t)k;
	return at == n;
}

enum rc
npz_pack(const struct npz_array *array, size_t narrays, struct buf *out, struct err *err)
{
	struct zip_entry *entry = must_alloc(narrays, sizeof *entry);
	uint64_t central_offset = 0;
	enum rc rc = RC_OK;
	int fd = -1;

	if (narrays > NPZ_MAX_ARRAYS)
		rc = err_set(err, RC_INVAL, "%zu arrays; the limit is %d", narrays, NPZ_MAX_ARRAYS);
	if (rc == RC_OK)
		rc = plan_entries("model", array, narrays, entry, &central_offset, err);
	if (rc == RC_OK) {
		fd = memfd_create("model", MFD_CLOEXEC);
		if (fd < 0 || !write_zip(fd, array, entry, narrays, (uint32_t)central_offset) ||
		    !read_back(fd, out))
			rc = err_set(err, RC_FAILED, "a model's bytes: %s", strerror(errno));
	}
	if (fd >= 0)
		close(fd);
	free(entry);
	return rc;
}

/* ---- reading: of any maker; zip.h unpacks, npy.h parses, and only the types of npz.h pass */

static const char suffix[] = ".npy";

/* "fc1.weight.npy" to "fc1.weight". */
static bool
take_name(const char *file, struct npz_array *a)
{
	size_t len = strlen(file), stem = len - (sizeof suffix - 1);

	if (len < sizeof suffix || stem > NPZ_MAX_NAME || strcmp(file + stem, suffix) != 0)
		return false;
	memcpy(a->name, file, stem);
	return npz_name_good(a->name);
}

/* Type and shape. */
static bool
take_header(const struct ndarray *from, struct npz_array *a)
{
	static const struct {
		char kind;
		uint8_t size;
		enum npz_type type;
	} types[] = {{'f', 4, NPZ_F32}, {'f', 8, NPZ_F64}, {'i', 8, NPZ_I64}, {'u', 1, NPZ_U8}};

	if (from->big || (from->fortran && from->ndim > 1) || from->ndim > NPZ_MAX_DIMS)
		return false;
	a->ndim = from->ndim;
	memcpy(a->dim, from->dim, from->ndim * sizeof *a->dim);
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
		if (types[i].kind == from->kind && types[i].size == from->size) {
			a->type = types[i].type;
			return true;
		}
	return false;
}

static enum rc
take_array(const struct zip *zip, const struct zip_file *file, struct buf *bytes, npz_take_fn *take,
	   void *arg, struct npz *npz, struct err *err)
{
	struct npz_array *a = &npz->array[npz->narrays];
	struct ndarray from = {0};
	uint64_t nbytes;
	void *data;
	enum rc rc;

	if (!take_name(file->name, a))
		return err_set(err, RC_BADDATA, "%s: %s: not an array's name", zip->name,
			       file->name);
	rc = zip_take(zip, file, take ? NPY_HEAD_MAX : SIZE_MAX, bytes, err);
	if (rc != RC_OK)
		return rc;
	if (npy_parse(bytes->data, bytes->len, file->nbytes, a->name, &from, err) != RC_OK)
		return err_prefix(err, "%s: array ", zip->name);
	if (!take_header(&from, a) || !ndarray_nbytes(&from, &nbytes))
		return err_set(err, RC_BADDATA,
			       "%s: array %s: not a <f4, <i8, <f8 or |u1 array in C order of at "
			       "most %d dimensions",
			       zip->name, a->name, NPZ_MAX_DIMS);
	a->data = NULL;
	npz->narrays++;
	if (take && !take(arg, a))
		return RC_OK;
	if (bytes->len < file->nbytes) {
		bytes->len = 0;
		if ((rc = zip_take(zip, file, SIZE_MAX, bytes, err)) != RC_OK)
			return rc;
	}
	data = must_alloc((size_t)nbytes, 1);
	memcpy(data, bytes->data + bytes->len - nbytes, (size_t)nbytes);
	a->data = data;
	return RC_OK;
}

enum rc
npz_parse(const void *bytes, size_t nbytes, const char *name, npz_take_fn *take, void *arg,
	  struct npz *npz, struct err *err)
{
	struct npz tmp = {0};
	struct buf unpacked = {0};
	struct zip zip;
	enum rc rc = zip_open(bytes, nbytes, name, &zip, err);

	if (rc != RC_OK)
		return rc;
	if (zip.nfiles > NPZ_MAX_ARRAYS)
		rc = err_set(err, RC_BADDATA, "%s: %zu arrays; the limit is %d", name, zip.nfiles,
			     NPZ_MAX_ARRAYS);
	else
		tmp.array = must_alloc(zip.nfiles, sizeof *tmp.array);
	for (size_t i = 0; rc == RC_OK && i < zip.nfiles; i++) {
		unpacked.len = 0;
		rc = take_array(&zip, &zip.file[i], &unpacked, take, arg, &tmp, err);
	}
	buf_fini(&unpacked);
	zip_close(&zip);
	if (rc != RC_OK)
		npz_fini(&tmp);
	else
		*npz = tmp;
	return rc;
}

enum rc
npz_read(const char *path, struct npz *npz, struct err *err)
{
	struct buf b = {0};
	enum rc rc = input_file(path, UINT32_MAX, &b, err);

	if (rc == RC_OK)
		rc = npz_parse(b.data, b.len, path, NULL, NULL, npz, err);
	buf_fini(&b);
	return rc;
}

const struct npz_array *
npz_find(const struct npz *npz, const char *name)
{
	for (size_t i = 0; i < npz->narrays; i++)
		if (strcmp(npz->array[i].name, name) == 0)
			return &npz->array[i];
	return NULL;
}

void
npz_fini(struct npz *npz)
{
	for (size_t i = 0; i < npz->narrays; i++)
		free((void *)(uintptr_t)npz->array[i].data);
	free(npz->array);
	*npz = (struct npz){0};
}
