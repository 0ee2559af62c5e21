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
#include "nn/npz_format.h"

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
