#include "counts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/must.h"
#include "base/parse.h"
#include "coll/parts.h"
#include "io.h"

#define SEPARATORS   ",; \t\r\n"
#define NUMBER_CHARS 24

enum rc
counts_verb(const char *name, enum gpusim_coll *coll, bool *v, struct err *err)
{
	char base[32];
	size_t len = strlen(name);

	*v = false;
	if (coll_parse(name, coll, NULL) == RC_OK)
		return RC_OK;
	if (len && name[len - 1] == 'v' && len < sizeof base) {
		snprintf(base, sizeof base, "%.*s", (int)len - 1, name);
		*v = coll_parse(base, coll, NULL) == RC_OK && coll_has_parts(*coll);
	}
	return *v ? RC_OK : coll_parse(name, coll, err);
}

static enum rc
parse(const char *text, size_t *n, uint64_t **out, struct err *err)
{
	size_t cap = 0, k = 0;
	uint64_t *v = NULL;
	enum rc rc = RC_OK;

	for (const char *p = text + strspn(text, SEPARATORS); *p && rc == RC_OK;
	     p += strspn(p, SEPARATORS)) {
		size_t len = strcspn(p, SEPARATORS);
		char word[NUMBER_CHARS];

		must_room(&v, k, &cap, sizeof *v);
		snprintf(word, sizeof word, "%.*s",
			 (int)(len < sizeof word ? len : sizeof word - 1), p);
		rc = parse_u64(word, 0, UINT64_MAX, &v[k++], err);
		p += len;
	}
	if (rc == RC_OK && k == 0)
		rc = err_set(err, RC_INVAL, "no numbers");
	if (rc == RC_OK && *n && k != *n)
		rc = err_set(err, RC_INVAL, "needs %zu number%s, not %zu", *n, *n == 1 ? "" : "s",
			     k);
	if (rc != RC_OK) {
		free(v);
		return rc;
	}
	*n = k;
	*out = v;
	return RC_OK;
}

static enum rc
parse_file(const char *path, size_t *n, uint64_t **out, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct buf text = {0};
	enum rc rc;

	if (fd < 0)
		return err_set(err, RC_FAILED,
			       "%.200s: not a list of numbers, and no such file: %s", path,
			       strerror(errno));
	rc = io_read_all(fd, path, &text, err);
	close(fd);
	if (rc == RC_OK)
		must_add(&text, "", 1);
	if (rc == RC_OK && parse(text.data, n, out, err) != RC_OK)
		rc = err_prefix(err, "%.200s", path);
	buf_fini(&text);
	return rc;
}

enum rc
counts_parse(const char *option, const char *text, size_t *n, uint64_t **out, struct err *err)
{
	enum rc rc;

	*out = NULL;
	if (!text)
		return RC_OK;
	rc = strspn(text, "0123456789" SEPARATORS) == strlen(text) ? parse(text, n, out, err)
								   : parse_file(text, n, out, err);
	return rc == RC_OK ? rc : err_prefix(err, "%s", option);
}
