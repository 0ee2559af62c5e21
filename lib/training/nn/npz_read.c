/* Reads any maker's .npz: zip.h unpacks, npy.h parses, and only the types of npz.h pass. */
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "nn/input.h"
#include "nn/npy.h"
#include "nn/npz_format.h"
#include "nn/zip.h"

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
