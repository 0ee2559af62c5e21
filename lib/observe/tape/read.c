/* Recordings, read record by record. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/le.h"
#include "tape/tape.h"
#include "wire/crc32c.h"

struct tape_reader {
	int fd;
	uint64_t at; /* of the next record */
	bool cut;
	char path[PATH_MAX];
	unsigned char *body; /* TAPE_BODY_MAX */
};

static enum rc
unreadable(const struct tape_reader *r, struct err *err)
{
	return err_set(err, RC_FAILED, "%s: %s", r->path, strerror(errno));
}

static enum rc
read_head(struct tape_reader *r, struct err *err)
{
	unsigned char head[TAPE_HEAD];
	ssize_t n = file_read_at(r->fd, head, sizeof head, 0);

	if (n < 0)
		return unreadable(r, err);
	if (n != sizeof head || memcmp(head, TAPE_MAGIC, 8) != 0)
		return err_set(err, RC_BADDATA, "%s: not a recording", r->path);
	if (get32(head + 8) != TAPE_VERSION)
		return err_set(err, RC_BADDATA, "%s: recording of version %u, expected %u", r->path,
			       get32(head + 8), TAPE_VERSION);
	r->cut = get32(head + 12) & TAPE_CUT;
	r->at = TAPE_HEAD;
	return RC_OK;
}

enum rc
tape_read_open(const char *path, struct tape_reader **out, struct err *err)
{
	struct tape_reader *r = calloc(1, sizeof *r);
	enum rc rc;

	if (!r || !(r->body = malloc(TAPE_BODY_MAX))) {
		free(r);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	snprintf(r->path, sizeof r->path, "%s", path);
	r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	rc = r->fd < 0 ? unreadable(r, err) : read_head(r, err);
	if (rc != RC_OK)
		tape_read_close(r);
	else
		*out = r;
	return rc;
}

void
tape_read_close(struct tape_reader *r)
{
	if (!r)
		return;
	if (r->fd >= 0)
		close(r->fd);
	free(r->body);
	free(r);
}

bool
tape_read_is_cut(const struct tape_reader *r)
{
	return r->cut;
}

uint64_t
tape_read_end(const struct tape_reader *r)
{
	return r->at;
}

static enum rc
damaged(const struct tape_reader *r, const char *why, struct err *err)
{
	return err_set(err, RC_BADDATA, "%s: damaged at byte %" PRIu64 ": %s", r->path, r->at, why);
}

static enum rc
unpack(const struct tape_reader *r, size_t nbytes, GpuSim__TapeRecord **out, struct err *err)
{
	ProtobufCMessage *m;
	size_t taken;
	struct err why = {0};
	enum rc rc = wire_message_unpack(&gpu_sim__tape_record__descriptor, r->body, nbytes,
					 WIRE_UNPACK_MAX, &m, &taken, &why);

	if (rc == RC_NOMEM)
		return err_set(err, rc, "%s", why.text);
	if (rc != RC_OK)
		return damaged(r, why.text, err);
	*out = (GpuSim__TapeRecord *)m;
	return RC_OK;
}

enum rc
tape_read_next(struct tape_reader *r, GpuSim__TapeRecord **out, uint64_t *at, struct err *err)
{
	unsigned char head[TAPE_RECORD];
	ssize_t n = file_read_at(r->fd, head, sizeof head, r->at), got;
	uint32_t nbytes;
	enum rc rc;

	*out = NULL;
	if (n < 0)
		return unreadable(r, err);
	if (n < (ssize_t)sizeof head) {
		r->cut |= n != 0;
		return RC_OK;
	}
	nbytes = get32(head);
	if (crc32c(head, 8) != get32(head + 8) || nbytes > TAPE_BODY_MAX)
		return damaged(r, "wrong checksum of a record's head", err);
	got = file_read_at(r->fd, r->body, nbytes, r->at + sizeof head);
	if (got < 0)
		return unreadable(r, err);
	if (got < (ssize_t)nbytes) {
		r->cut = true;
		return RC_OK;
	}
	if (crc32c(r->body, nbytes) != get32(head + 4))
		return damaged(r, "wrong checksum of a record", err);
	rc = unpack(r, nbytes, out, err);
	if (rc != RC_OK)
		return rc;
	if (at)
		*at = r->at;
	r->at += sizeof head + nbytes;
	return RC_OK;
}

enum rc
tape_read_at(struct tape_reader *r, uint64_t at, GpuSim__TapeRecord **out, struct err *err)
{
	r->at = at;
	return tape_read_next(r, out, NULL, err);
}

void
tape_record_free(GpuSim__TapeRecord *r)
{
	if (r)
		gpu_sim__tape_record__free_unpacked(r, NULL);
}
