/*
 * samples_files.c - samples of files one after another; their names are given, or come line by line.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/must.h"
#include "nn/samples_impl.h"

bool
samples_is_name(const struct samples *s)
{
	static const char *const ends[] = {".png", ".jpg", ".jpeg", ".pgm", ".ppm"};
	const char *text = (const char *)s->chunk, *nl = memchr(text, '\n', s->len);
	size_t len = nl ? (size_t)(nl - text) : s->len;
	char path[PATH_MAX];
	struct stat st;

	if (len && text[len - 1] == '\r')
		len--;
	if (!len || len >= sizeof path || memchr(text, '\0', len))
		return false;
	memcpy(path, text, len);
	path[len] = '\0';
	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
		if (len > strlen(ends[i]) && strcasecmp(path + len - strlen(ends[i]), ends[i]) == 0)
			return true;
	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

void
samples_close_file(struct samples *s)
{
	samples_close(s->inner);
	s->inner = NULL;
	if (s->fd > STDIN_FILENO)
		close(s->fd);
	s->fd = -1;
	free(s->name);
	s->name = NULL;
}

/* The next line that is not blank; *name NULL: no line is left. */
static enum rc
next_line(struct samples *s, char **name, struct err *err)
{
	struct buf line = {0};
	enum rc rc;
	int c;

	*name = NULL;
	while ((rc = samples_peek(s, &c, err)) == RC_OK && c >= 0) {
		char byte = (char)c;

		s->pos++;
		if (c == '\n' && line.len && line.data[line.len - 1] == '\r')
			line.len--;
		if (c == '\n' && line.len)
			break;
		if (c == '\n')
			continue;
		if (c == '\0' || line.len == PATH_MAX)
			rc = err_set(err, RC_BADDATA, "%s: the line is not a file's name",
				     s->in.name);
		if (rc != RC_OK)
			break;
		must_add(&line, &byte, 1);
	}
	if (rc == RC_OK && line.len)
		*name = must_strndup(line.data, line.len);
	buf_fini(&line);
	return rc;
}

static enum rc
next_name(struct samples *s, char **name, struct err *err)
{
	*name = NULL;
	if (s->in.fd >= 0)
		return next_line(s, name, err);
	if (!s->nnames)
		return RC_OK;
	*name = must_strdup(*s->names++);
	s->nnames--;
	return RC_OK;
}

/* Open the next file; *more false: no file is left. */
static enum rc
open_next(struct samples *s, bool *more, struct err *err)
{
	bool standard;
	enum rc rc = next_name(s, &s->name, err);

	*more = rc == RC_OK && s->name;
	if (!*more)
		return rc;
	standard = s->in.fd < 0 && strcmp(s->name, "-") == 0;
	s->fd = standard ? STDIN_FILENO : open(s->name, O_RDONLY | O_CLOEXEC);
	if (s->fd < 0)
		return err_set(err, RC_FAILED, "%s: %s", s->name, strerror(errno));
	return samples_open(s->fd, standard ? "standard input" : s->name,
			    standard ? SAMPLES_STREAM : SAMPLES_FILE, &s->want, &s->inner, err);
}

/* The next sample of the file that is open, as 32-bit numbers. */
static enum rc
next_of_file(struct samples *s, float *values, bool *more, struct err *err)
{
	uint64_t n = net_shape_size(s->want.shape);
	bool bytes = samples_dtype(s->inner) == GPUSIM_U8;
	enum rc rc = samples_next(s->inner, bytes ? (void *)s->item : values, more, err);

	for (uint64_t i = 0; rc == RC_OK && *more && bytes && i < n; i++)
		values[i] = s->item[i];
	return rc;
}

static enum rc
next_sample(struct samples *s, void *item, bool *more, struct err *err)
{
	enum rc rc = RC_OK;

	for (*more = true; rc == RC_OK && *more;) {
		if (s->inner) {
			rc = next_of_file(s, item, more, err);
			if (rc != RC_OK || *more)
				return rc;
			samples_close_file(s);
		}
		rc = open_next(s, more, err);
	}
	return rc;
}

void
samples_begin_files(struct samples *s)
{
	s->dtype = GPUSIM_F32;
	s->next = next_sample;
	s->item = must_alloc((size_t)net_shape_size(s->want.shape), 1);
}
