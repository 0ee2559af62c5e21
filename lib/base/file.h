/*
 * file.h - a small text file, whole.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/buf.h"
#include "base/rc.h"

#define FILE_TEXT_MAX (4u << 20)

/*
 * file_text - append a file's bytes and a NUL to *out, which the caller releases in any case.
 *
 *	what	completes "PATH: not ...": "a configuration file"
 *
 * RC_FAILED it cannot be read, RC_BADDATA more than FILE_TEXT_MAX bytes, or a NUL among them;
 * RC_NOMEM.
 */
enum rc file_text(const char *path, const char *what, struct buf *out, struct err *err);

#endif
