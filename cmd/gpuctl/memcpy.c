/* gpuctl memcpy SRC DST - copy between stdin, stdout, files and devices. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/must.h"
#include "base/parse.h"
#include "cli.h"
#include "io.h"

#define DEVICE_CHARS 32 /* longest name of a device, and its NUL */

/* One end of a copy: device memory, or a file. */
struct end {
	const char *path; /* NULL: a device */
	struct gpusim_device device;
	struct gpusim_addr addr;
	uint64_t nbytes; /* when has_nbytes */
	bool has_nbytes;
};

/* ADDR[:NBYTES] */
static enum rc
parse_range(const char *text, struct end *e, struct err *err)
{
	const char *colon = strchr(text, ':');
	char addr[DEVICE_CHARS];
	size_t len = colon ? (size_t)(colon - text) : strlen(text);
	enum rc rc;

	snprintf(addr, sizeof addr, "%.*s", (int)(len < sizeof addr ? len : sizeof addr), text);
	rc = parse_u64(addr, 0, UINT64_MAX, &e->addr.addr, err);
	e->has_nbytes = colon != NULL;
	if (rc == RC_OK && colon)
		rc = parse_size(colon + 1, &e->nbytes, err);
	return rc;
}

/* Parse DEVICE:ADDR[:NBYTES] or a path; a path of that form needs a slash. */
static enum rc
parse_end(struct cli *cli, const struct args *a, const char *word, struct end *e, struct err *err)
{
	const char *colon = strchr(word, ':');
	size_t len = colon ? (size_t)(colon - word) : 0;
	char name[DEVICE_CHARS];
	enum rc rc;

	*e = (struct end){.path = word};
	if (!colon || len >= sizeof name || !cli_is_device(word, len))
		return RC_OK;
	e->path = NULL;
	snprintf(name, sizeof name, "%.*s", (int)len, word);
	rc = parse_range(colon + 1, e, err);
	if (rc != RC_OK)
		return err_prefix(err, "%.64s", word);
	return cli_device(cli, a, name, &e->device, err);
}

/* Check the whole range before anything is copied, so that no file is half-written. */
static enum rc
check_range(struct cli *cli, const struct end *e, uint64_t nbytes, struct err *err)
{
	struct gpusim_device_info *list;
	size_t n;
	enum rc rc = api(gpusim_devices(cli->g, &list, &n), err);

	if (rc != RC_OK)
		return rc;
	for (size_t i = 0; i < n && rc == RC_OK; i++)
		if (list[i].device.id == e->device.id &&
		    (e->addr.addr < list[i].min_addr.addr || e->addr.addr > list[i].max_addr.addr ||
		     nbytes > list[i].max_addr.addr - e->addr.addr))
			rc = err_set(err, RC_INVAL,
				     "device %016" PRIx64 ": 0x%" PRIx64 ", %" PRIu64
				     " bytes: outside its memory 0x%" PRIx64 "..0x%" PRIx64,
				     e->device.id, e->addr.addr, nbytes, list[i].min_addr.addr,
				     list[i].max_addr.addr);
	free(list);
	return rc;
}

static enum rc
open_end(const struct end *e, int flags, int standard, const char **name, int *fd, struct err *err)
{
	bool dash = strcmp(e->path, "-") == 0;

	*name = !dash ? e->path : standard == STDIN_FILENO ? "standard input" : "standard output";
	*fd = dash ? standard : open(e->path, flags | O_CLOEXEC, 0666);
	return *fd >= 0 ? RC_OK : err_set(err, RC_FAILED, "%.200s: %s", *name, strerror(errno));
}

/* The rest of a regular file must have the size that DST names; if DST names none, it sets the size. A pipe
 * may be longer. */
static enum rc
check_file(int fd, const char *name, struct end *dst, struct err *err)
{
	off_t at = lseek(fd, 0, SEEK_CUR);
	struct stat st;

	if (at < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return RC_OK;
	if (!dst->has_nbytes)
		dst->nbytes = st.st_size > at ? (uint64_t)(st.st_size - at) : 0;
	else if (dst->nbytes != (uint64_t)(st.st_size - at))
		return err_set(err, RC_BADDATA, "%.200s has %jd bytes, but %" PRIu64 " are needed",
			       name, (intmax_t)(st.st_size - at), dst->nbytes);
	dst->has_nbytes = true;
	return RC_OK;
}

static enum rc
host_to_device(struct cli *cli, const struct end *src, struct end *dst, struct err *err)
{
	uint64_t done = 0, left;
	void *room = must_alloc(1, IO_PIECE);
	const char *name;
	size_t want, got;
	int fd = -1;
	enum rc rc = open_end(src, O_RDONLY, STDIN_FILENO, &name, &fd, err);

	if (rc == RC_OK)
		rc = check_file(fd, name, dst, err);
	if (rc == RC_OK)
		rc = check_range(cli, dst, dst->nbytes, err);
	if (rc == RC_OK)
		io_widen(fd);
	while (rc == RC_OK) {
		left = dst->has_nbytes ? dst->nbytes - done : IO_PIECE;
		want = left < IO_PIECE ? (size_t)left : IO_PIECE;
		rc = io_read(fd, name, room, want, &got, err);
		if (rc == RC_OK && got)
			rc = api(gpusim_memcpy_h2d(cli->g, dst->device,
						   gpusim_addr_add(dst->addr, done), room, got),
				 err);
		done += got;
		if (rc != RC_OK || got < want || want == 0)
			break;
	}
	if (rc == RC_OK && dst->has_nbytes && done < dst->nbytes)
		rc = err_set(err, RC_BADDATA,
			     "%.200s has %" PRIu64 " bytes, but %" PRIu64 " are needed", name, done,
			     dst->nbytes);
	if (fd > STDERR_FILENO)
		close(fd);
	free(room);
	return rc;
}

/* Create the file when the first piece has arrived. */
static enum rc
device_to_host(struct cli *cli, const struct end *src, const struct end *dst, struct err *err)
{
	void *room = must_alloc(1, IO_PIECE);
	const char *name = NULL;
	uint64_t done = 0;
	size_t n;
	int fd = -1;
	enum rc rc;

	do {
		n = src->nbytes - done < IO_PIECE ? src->nbytes - done : IO_PIECE;
		rc = api(gpusim_memcpy_d2h(cli->g, room, src->device,
					   gpusim_addr_add(src->addr, done), n),
			 err);
		if (rc == RC_OK && fd < 0)
			rc = open_end(dst, O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO, &name, &fd,
				      err);
		if (rc == RC_OK && done == 0 && n == IO_PIECE)
			io_widen(fd);
		if (rc == RC_OK)
			rc = io_write(fd, name, room, n, err);
		done += n;
	} while (rc == RC_OK && done < src->nbytes);
	if (fd > STDERR_FILENO && close(fd) < 0 && rc == RC_OK)
		rc = err_set(err, RC_FAILED, "%.200s: %s", name, strerror(errno));
	free(room);
	return rc;
}

enum rc
run_memcpy(struct cli *cli, const struct args *a, struct err *err)
{
	struct end src, dst;
	uint64_t nbytes;
	enum rc rc = parse_end(cli, a, a->rest[0], &src, err);

	if (rc == RC_OK)
		rc = parse_end(cli, a, a->rest[1], &dst, err);
	if (rc != RC_OK)
		return rc;
	if (src.path && dst.path)
		return err_set(err, RC_INVAL, "neither '%.64s' nor '%.64s' is DEVICE:ADDR",
			       src.path, dst.path);
	if (src.path)
		return host_to_device(cli, &src, &dst, err);
	if (!src.has_nbytes && (dst.path || !dst.has_nbytes))
		return err_set(err, RC_INVAL,
			       "the number of bytes is missing: SRC must be DEVICE:ADDR:NBYTES");
	if (!dst.path && src.has_nbytes && dst.has_nbytes && src.nbytes != dst.nbytes)
		return err_set(err, RC_INVAL, "SRC names %" PRIu64 " bytes, but DST %" PRIu64,
			       src.nbytes, dst.nbytes);
	nbytes = src.has_nbytes ? src.nbytes : dst.nbytes;
	rc = check_range(cli, &src, nbytes, err);
	if (rc == RC_OK && dst.path)
		return device_to_host(cli, &src, &dst, err);
	if (rc == RC_OK)
		rc = check_range(cli, &dst, nbytes, err);
	return rc == RC_OK ? api(gpusim_memcpy_d2d(cli->g, dst.device, dst.addr, src.device,
						   src.addr, nbytes),
				 err)
			   : rc;
}
