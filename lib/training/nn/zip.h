/*
 * zip.h - files in a zip archive of any maker, in memory: stored or deflated.
 *
 * Source: PKWARE APPNOTE 6.3, sections 4.3 and 4.4.
 */
#ifndef NN_ZIP_H
#define NN_ZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"

#define ZIP_MAX_FILES 4096
#define ZIP_MAX_NAME  127

struct zip_file {
	char name[ZIP_MAX_NAME + 1];
	uint32_t crc, stored, nbytes; /* bytes in the archive, and unpacked */
	uint32_t method;
	uint32_t at; /* its local header */
};

struct zip {
	const uint8_t *bytes; /* the caller's, as is the name */
	size_t nbytes;
	const char *name;
	struct zip_file *file;
	size_t nfiles;
};

/* Return true if bytes begin as an archive that is not empty. */
bool zip_is(const void *bytes, size_t nbytes);

/*
 * zip_open - read the directory at the end.
 *
 *	zip	[out] released with zip_close; untouched on error
 *
 * Errors: RC_BADDATA "NAME: reason": not a zip archive, damaged, encrypted, in several parts, of
 * more than 4 GiB or ZIP_MAX_FILES files, or a name that two files have.
 * Checked by: tests/unit/nn/t_zip.c
 */
enum rc zip_open(const void *bytes, size_t nbytes, const char *name, struct zip *zip,
		 struct err *err);
void zip_close(struct zip *zip);

/* Append a file's bytes to *out, which the caller releases in any case; of a larger file than
 * `most`, those and some more bytes, without comparing its checksum. RC_BADDATA: damaged, or an
 * unsupported compression. */
enum rc zip_take(const struct zip *zip, const struct zip_file *file, size_t most, struct buf *out,
		 struct err *err);

#endif
