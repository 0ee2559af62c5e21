#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum rc
file_text(const char *path, const char *what, struct buf *out, struct err *err)
{
	FILE *f = fopen(path, "re");
	size_t n, first = out->len;
	enum rc rc = RC_OK;

	if (!f)
		return err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
	do {
		if (!buf_reserve(out, 65536)) {
			rc = err_set(err, RC_NOMEM, "%s: out of memory", path);
			break;
		}
		n = fread(out->data + out->len, 1, 65535, f);
		out->len += n;
	} while (n > 0 && out->len - first <= FILE_TEXT_MAX);
	if (rc == RC_OK && ferror(f))
		rc = err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
	else if (rc == RC_OK && (out->len - first > FILE_TEXT_MAX ||
				 memchr(out->data + first, 0, out->len - first)))
		rc = err_set(err, RC_BADDATA, "%s: not %s", path, what);
	fclose(f);
	if (rc == RC_OK)
		out->data[out->len++] = '\0';
	return rc;
}
