#include "nn/zip.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/le.h"
#include "base/must.h"

enum {
	LOCAL_NBYTES = 30,
	CENTRAL_NBYTES = 46,
	END_NBYTES = 22,
	MAX_COMMENT = 65535,
	FLAG_ENCRYPTED = 1,
	STORED = 0,
	DEFLATED = 8,
	CHUNK = 1 << 16,
};

static uint32_t
get16(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static bool
has_mark(const uint8_t *p, const char *mark)
{
	return memcmp(p, mark, 4) == 0;
}

bool
zip_is(const void *bytes, size_t nbytes)
{
	return nbytes >= 4 && has_mark(bytes, "PK\x03\x04");
}

/* The end record, with only its comment after it; NULL: not found. */
static const uint8_t *
find_end(const uint8_t *bytes, size_t nbytes)
{
	for (size_t comment = 0; comment <= MAX_COMMENT && comment + END_NBYTES <= nbytes;
	     comment++) {
		const uint8_t *p = bytes + nbytes - comment - END_NBYTES;

		if (has_mark(p, "PK\x05\x06") && get16(p + 20) == comment)
			return p;
	}
	return NULL;
}

/* The directory's entry at p, of at most `left` bytes; *used [out] its length. */
static enum rc
take_entry(const struct zip *z, const uint8_t *p, size_t left, struct zip_file *f, size_t *used,
	   struct err *err)
{
	size_t len, i;

	if (left < CENTRAL_NBYTES || !has_mark(p, "PK\x01\x02"))
		return err_set(err, RC_BADDATA, "%s: entry %zu of the zip directory is bad",
			       z->name, z->nfiles);
	len = get16(p + 28);
	*used = CENTRAL_NBYTES + len + get16(p + 30) + get16(p + 32);
	if (*used > left || len == 0 || len > ZIP_MAX_NAME)
		return err_set(err, RC_BADDATA, "%s: entry %zu of the zip directory is bad",
			       z->name, z->nfiles);
	*f = (struct zip_file){.method = get16(p + 10),
			       .crc = get32(p + 16),
			       .stored = get32(p + 20),
			       .nbytes = get32(p + 24),
			       .at = get32(p + 42)};
	memcpy(f->name, p + CENTRAL_NBYTES, len);
	for (i = 0; i < len; i++)
		if ((uint8_t)f->name[i] < 0x20 || f->name[i] == 0x7f)
			return err_set(err, RC_BADDATA, "%s: name %zu in the archive is not text",
				       z->name, z->nfiles);
	for (i = 0; i < z->nfiles; i++)
		if (strcmp(z->file[i].name, f->name) == 0)
			return err_set(err, RC_BADDATA, "%s: two files have the name %s", z->name,
				       f->name);
	if (get16(p + 8) & FLAG_ENCRYPTED)
		return err_set(err, RC_BADDATA, "%s: %s: encrypted", z->name, f->name);
	if (f->stored == UINT32_MAX || f->nbytes == UINT32_MAX || f->at == UINT32_MAX)
		return err_set(err, RC_BADDATA, "%s: %s: more than 4 GiB", z->name, f->name);
	return RC_OK;
}

static enum rc
take_directory(struct zip *z, const uint8_t *end, struct err *err)
{
	uint32_t n = get16(end + 10), nbytes = get32(end + 12), at = get32(end + 16);
	size_t left = nbytes, used;
	const uint8_t *p;
	enum rc rc = RC_OK;

	if (get16(end + 4) != 0 || get16(end + 6) != 0 || get16(end + 8) != n)
		return err_set(err, RC_BADDATA,
			       "%s: a zip archive in several parts is not supported", z->name);
	if (n > ZIP_MAX_FILES)
		return err_set(err, RC_BADDATA, "%s: %" PRIu32 " files; the limit is %d", z->name,
			       n, ZIP_MAX_FILES);
	if ((uint64_t)at + nbytes > (uint64_t)(end - z->bytes))
		return err_set(err, RC_BADDATA, "%s: not a zip archive, or truncated", z->name);
	z->file = must_alloc(n, sizeof *z->file);
	for (p = z->bytes + at; rc == RC_OK && z->nfiles < n; p += used, left -= used) {
		used = 0;
		rc = take_entry(z, p, left, &z->file[z->nfiles], &used, err);
		z->nfiles += rc == RC_OK;
	}
	return rc;
}

enum rc
zip_open(const void *bytes, size_t nbytes, const char *name, struct zip *zip, struct err *err)
{
	struct zip z = {.bytes = bytes, .nbytes = nbytes, .name = name};
	const uint8_t *end = find_end(bytes, nbytes);
	enum rc rc;

	if (!end)
		return err_set(err, RC_BADDATA, "%s: not a zip archive, or truncated", name);
	rc = take_directory(&z, end, err);
	if (rc != RC_OK)
		zip_close(&z);
	else
		*zip = z;
	return rc;
}

void
zip_close(struct zip *zip)
{
	free(zip->file);
	*zip = (struct zip){0};
}

/* Where a file's stored bytes begin; NULL: not within the archive. */
static const uint8_t *
find_data(const struct zip *z, const struct zip_file *f)
{
	const uint8_t *p = z->bytes + f->at;
	uint64_t at = (uint64_t)f->at + LOCAL_NBYTES;

	if (at + strlen(f->name) > z->nbytes || !has_mark(p, "PK\x03\x04"))
		return NULL;
	if (get16(p + 26) != strlen(f->name) ||
	    memcmp(p + LOCAL_NBYTES, f->name, strlen(f->name)) != 0)
		return NULL;
	at += get16(p + 26) + get16(p + 28);
	return at + f->stored <= z->nbytes ? z->bytes + at : NULL;
}

/* Memory grows with the unpacked bytes, not with the directory's claims. RC_BADDATA without a
 * message: damaged. */
static enum rc
inflate_first(const struct zip_file *f, const uint8_t *from, size_t most, struct buf *out)
{
	z_stream s = {.next_in = (Bytef *)(uintptr_t)from, .avail_in = f->stored};
	size_t first = out->len;
	enum rc rc = RC_OK;
	int z = Z_OK;

	must(inflateInit2(&s, -15) == Z_OK);
	while (z == Z_OK && out->len - first < most) {
		if (out->len - first > f->nbytes) {
			rc = RC_BADDATA;
			break;
		}
		must_reserve(out, CHUNK);
		s.next_out = (Bytef *)out->data + out->len;
		s.avail_out = CHUNK;
		z = inflate(&s, Z_NO_FLUSH);
		must(z != Z_MEM_ERROR);
		out->len += CHUNK - s.avail_out;
	}
	inflateEnd(&s);
	if (rc == RC_OK && (most >= f->nbytes || z != Z_OK) &&
	    (z != Z_STREAM_END || out->len - first != f->nbytes || s.avail_in))
		rc = RC_BADDATA;
	return rc;
}

enum rc
zip_take(const struct zip *zip, const struct zip_file *file, size_t most, struct buf *out,
	 struct err *err)
{
	const uint8_t *from = find_data(zip, file);
	size_t first = out->len;
	enum rc rc = from ? RC_OK : RC_BADDATA;
	uLong crc;

	if (file->method != STORED && file->method != DEFLATED)
		return err_set(err, RC_BADDATA,
			       "%s: %s: compressed by method %" PRIu32
			       "; supported are deflate and none",
			       zip->name, file->name, file->method);
	if (rc == RC_OK && file->method == DEFLATED)
		rc = inflate_first(file, from, most, out);
	else if (rc == RC_OK && file->stored != file->nbytes)
		rc = RC_BADDATA;
	else if (rc == RC_OK)
		must_add(out, from, file->stored < most ? file->stored : most);
	if (rc == RC_OK && out->len - first < file->nbytes && most < file->nbytes)
		return RC_OK;
	crc = out->len > first ? crc32_z(0, (const Bytef *)out->data + first, out->len - first) : 0;
	if (rc != RC_OK || crc != file->crc)
		return err_set(err, RC_BADDATA, "%s: %s: %s", zip->name, file->name,
			       rc == RC_OK ? "wrong checksum" : "damaged");
	return RC_OK;
}
