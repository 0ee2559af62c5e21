/*
 * The reader parses as little as it must, renders the headers again from that, and compares. A
 * file that differs from npz_write's output in any byte is refused.
 */
#include "nn/npz.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/buf.h"
#include "nn/npz_format.h"

static uint32_t
get16(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t
get32(const uint8_t *p)
{
	return get16(p) | get16(p + 2) << 16;
}

/* The central header at p, of at most `left` bytes; its length, 0 when it is not one. */
static size_t
parse_central(const uint8_t *p, size_t left, struct zip_entry *e)
{
	uint8_t again[ZIP_CENTRAL_NBYTES + ZIP_NAME_MAX];
	size_t n;

	if (left < ZIP_CENTRAL_NBYTES)
		return 0;
	*e = (struct zip_entry){
	    .crc = get32(p + 16), .nbytes = get32(p + 20), .offset = get32(p + 42)};
	n = get16(p + 28);
	if (n > ZIP_NAME_MAX || n > left - ZIP_CENTRAL_NBYTES)
		return 0;
	memcpy(e->name, p + ZIP_CENTRAL_NBYTES, n);
	if (strlen(e->name) != n)
		return 0;
	n = zip_central(e, again);
	return memcmp(p, again, n) == 0 ? n : 0;
}

/* Type and shape out of an npy header; *header_nbytes [out]. */
static bool
parse_npy(const uint8_t *p, size_t nbytes, struct npz_array *a, size_t *header_nbytes)
{
	char text[NPY_HEADER_MAX + 1] = "", again[NPY_HEADER_MAX];
	char *at, *end;

	if (nbytes < 10)
		return false;
	memcpy(text, p, nbytes < NPY_HEADER_MAX ? nbytes : NPY_HEADER_MAX);
	at = text + 10; /* magic, version, length: compared below */
	a->type = strncmp(at, "{'descr': '<i8'", 15) == 0   ? NPZ_I64
		  : strncmp(at, "{'descr': '<f8'", 15) == 0 ? NPZ_F64
		  : strncmp(at, "{'descr': '|u1'", 15) == 0 ? NPZ_U8
							    : NPZ_F32;
	a->ndim = 0;
	at = strchr(at, '(');
	if (!at)
		return false;
	for (at++; *at >= '0' && *at <= '9'; at = end) {
		if (a->ndim == NPZ_MAX_DIMS)
			return false;
		a->dim[a->ndim++] = strtoull(at, &end, 10);
		end += strspn(end, ", ");
	}
	*header_nbytes = npy_header(a, again);
	return *header_nbytes <= nbytes && memcmp(p, again, *header_nbytes) == 0;
}

/* Entry e, whose local header must lie at *at; *at moves behind its data. */
static enum rc
parse_entry(const uint8_t *bytes, uint64_t nbytes, const char *name, const struct zip_entry *e,
	    uint64_t *at, struct npz_array *a, struct err *err)
{
	uint8_t again[ZIP_LOCAL_NBYTES + ZIP_NAME_MAX];
	size_t n = zip_local(e, again), header, len = strlen(e->name);
	uint64_t data_nbytes;
	const uint8_t *p;
	void *data;

	if (len < 5 || strcmp(e->name + len - 4, ".npy") != 0)
		return err_set(err, RC_BADDATA, "%s: an entry that is not a .npy file", name);
	memcpy(a->name, e->name, len - 4);
	a->name[len - 4] = '\0';
	if (!npz_name_good(a->name))
		return err_set(err, RC_BADDATA, "%s: an array with an unfit name", name);
	if (e->offset != *at || n > nbytes - *at || e->nbytes > nbytes - *at - n ||
	    memcmp(bytes + *at, again, n) != 0)
		return err_set(err, RC_BADDATA,
			       "%s: array %s: the zip directory and the entry at byte %" PRIu64
			       " do not agree",
			       name, a->name, *at);
	p = bytes + *at + n;
	if (crc32_z(0, p, e->nbytes) != e->crc)
		return err_set(err, RC_BADDATA, "%s: array %s: wrong checksum", name, a->name);
	if (!parse_npy(p, e->nbytes, a, &header) || !npz_data_nbytes(a, &data_nbytes))
		return err_set(err, RC_BADDATA,
			       "%s: array %s: not a <f4, <i8, <f8 or |u1 array in C order", name,
			       a->name);
	if (data_nbytes != e->nbytes - header)
		return err_set(err, RC_BADDATA,
			       "%s: array %s: its shape needs %" PRIu64
			       " bytes, there are %" PRIu64,
			       name, a->name, data_nbytes, (uint64_t)(e->nbytes - header));
	data = alloc_zeroed((size_t)data_nbytes, 1);
	if (!data)
		return err_set(err, RC_NOMEM, "%s: array %s: out of memory", name, a->name);
	memcpy(data, p + header, (size_t)data_nbytes);
	a->data = data;
	*at += n + e->nbytes;
	return RC_OK;
}

/* Every entry of the directory [central, central + left) into tmp, in step with the entries. */
static enum rc
parse_entries(const uint8_t *bytes, uint32_t central, size_t left, size_t n, const char *name,
	      struct npz *tmp, struct err *err)
{
	const uint8_t *p = bytes + central;
	uint64_t at = 0;
	enum rc rc;

	for (size_t i = 0; i < n; i++) {
		struct npz_array a = {0};
		struct zip_entry e;
		size_t used = parse_central(p, left, &e);

		if (used == 0)
			return err_set(err, RC_BADDATA, "%s: entry %zu of the zip directory is bad",
				       name, i);
		rc = parse_entry(bytes, central, name, &e, &at, &a, err);
		if (rc != RC_OK)
			return rc;
		if (npz_find(tmp, a.name)) {
			free((void *)(uintptr_t)a.data);
			return err_set(err, RC_BADDATA, "%s: two arrays are called %s", name,
				       a.name);
		}
		tmp->array[tmp->narrays++] = a;
		p += used;
		left -= used;
	}
	if (left > 0 || at != central)
		return err_set(err, RC_BADDATA, "%s: bytes that belong to no array", name);
	return RC_OK;
}

enum rc
npz_parse(const void *bytes, size_t nbytes, const char *name, struct npz *npz, struct err *err)
{
	uint8_t again[ZIP_END_NBYTES];
	const uint8_t *end;
	uint32_t central, central_nbytes;
	struct npz tmp = {0};
	size_t n;
	enum rc rc;

	if (nbytes < ZIP_END_NBYTES || nbytes > UINT32_MAX)
		return err_set(err, RC_BADDATA, "%s: %zu bytes cannot be a .npz file", name,
			       nbytes);
	end = (const uint8_t *)bytes + nbytes - ZIP_END_NBYTES;
	n = get16(end + 10);
	central_nbytes = get32(end + 12);
	central = get32(end + 16);
	zip_end(n, central, central_nbytes, again);
	if (memcmp(end, again, sizeof again) != 0 ||
	    (uint64_t)central + central_nbytes != nbytes - ZIP_END_NBYTES)
		return err_set(err, RC_BADDATA, "%s: not a .npz file, or truncated", name);
	if (n > NPZ_MAX_ARRAYS)
		return err_set(err, RC_BADDATA, "%s: %zu arrays, at most %d are read", name, n,
			       NPZ_MAX_ARRAYS);
	tmp.array = alloc_zeroed(n, sizeof *tmp.array);
	if (!tmp.array)
		return err_set(err, RC_NOMEM, "%s: out of memory", name);
	rc = parse_entries(bytes, central, central_nbytes, n, name, &tmp, err);
	if (rc != RC_OK)
		npz_fini(&tmp);
	else
		*npz = tmp;
	return rc;
}

/* The whole file into b; a file that shrinks meanwhile is simply shorter. */
static enum rc
slurp(const char *path, struct buf *b, struct err *err)
{
	struct stat st;
	ssize_t n = -1;
	enum rc rc = RC_OK;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
	if (fstat(fd, &st) != 0)
		rc = err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		rc = err_set(err, RC_FAILED, "%s: not a regular file", path);
	else if (st.st_size > UINT32_MAX)
		rc = err_set(err, RC_BADDATA, "%s: more than 4 GiB", path);
	else if (!buf_reserve(b, (size_t)st.st_size))
		rc = err_set(err, RC_NOMEM, "%s: out of memory", path);
	while (rc == RC_OK && n != 0 && b->len < (size_t)st.st_size) {
		n = read(fd, b->data + b->len, (size_t)st.st_size - b->len);
		if (n > 0)
			b->len += (size_t)n;
		else if (n < 0 && errno != EINTR)
			rc = err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
	}
	close(fd);
	return rc;
}

enum rc
npz_read(const char *path, struct npz *npz, struct err *err)
{
	struct buf b = {0};
	enum rc rc = slurp(path, &b, err);

	if (rc == RC_OK)
		rc = npz_parse(b.data, b.len, path, npz, err);
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
