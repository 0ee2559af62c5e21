/*
 * Recordings, written.
 *
 * Design notes. `lock` guards the descriptor and the room; numbers are atomic. A record is one write(2)
 * at the end of the file. A failed write is undone and the flag in the page is set, whose block exists
 * already; from then on tape_put costs one load.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/le.h"
#include "tape/tape.h"
#include "wire/crc32c.h"

struct tape {
	int fd;
	bool with_data;
	void (*say)(const char *line);
	atomic_bool stopped;
	_Atomic uint64_t number;
	pthread_mutex_t lock;
	uint64_t end; /* of the last whole record */
	struct buf room;
	char path[PATH_MAX];
};

static enum rc
write_head(struct tape *t, struct err *err)
{
	unsigned char head[TAPE_HEAD] = TAPE_MAGIC;

	put32(head + 8, TAPE_VERSION);
	if (!file_write(t->fd, head, sizeof head))
		return err_set(err, RC_FAILED, "%s: %s", t->path, strerror(errno));
	t->end = TAPE_HEAD;
	return RC_OK;
}

/* Find the end of an earlier process's records, and remove an incomplete last one. */
static enum rc
find_end(struct tape *t, struct err *err)
{
	struct tape_reader *r;
	GpuSim__TapeRecord *m;
	enum rc rc = tape_read_open(t->path, &r, err);

	if (rc != RC_OK)
		return rc;
	while ((rc = tape_read_next(r, &m, NULL, err)) == RC_OK && m) {
		if (m->body_case == GPU_SIM__TAPE_RECORD__BODY_OP)
			atomic_store(&t->number, m->op->number);
		tape_record_free(m);
	}
	t->end = tape_read_end(r);
	tape_read_close(r);
	if (rc == RC_OK && ftruncate(t->fd, (off_t)t->end) < 0)
		rc = err_set(err, RC_FAILED, "%s: %s", t->path, strerror(errno));
	return rc;
}

static enum rc
take_file(struct tape *t, struct err *err)
{
	off_t size;

	t->fd = open(t->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (t->fd < 0)
		return err_set(err, RC_FAILED, "%s: %s", t->path, strerror(errno));
	if (flock(t->fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(err, RC_BUSY, "%s: another process writes to it", t->path);
	size = lseek(t->fd, 0, SEEK_END);
	return size == 0 ? write_head(t, err) : find_end(t, err);
}

enum rc
tape_open(const char *dir, const char *name, bool with_data, void (*say)(const char *line),
	  struct tape **out, struct err *err)
{
	struct tape *t = calloc(1, sizeof *t);
	enum rc rc;

	if (!t)
		return err_set(err, RC_NOMEM, "out of memory");
	pthread_mutex_init(&t->lock, NULL);
	t->fd = -1;
	t->with_data = with_data;
	t->say = say;
	if (snprintf(t->path, sizeof t->path, "%s/%s%s", dir, name, TAPE_SUFFIX) >=
	    (int)sizeof t->path)
		rc = err_set(err, RC_INVAL, "%.64s...: path too long", dir);
	else
		rc = take_file(t, err);
	if (rc == RC_OK) {
		*out = t;
		return RC_OK;
	}
	if (t->fd >= 0)
		close(t->fd);
	pthread_mutex_destroy(&t->lock);
	free(t);
	return rc;
}

bool
tape_with_data(const struct tape *t)
{
	return t->with_data;
}

uint64_t
tape_number(struct tape *t)
{
	return atomic_fetch_add(&t->number, 1) + 1;
}

/* Lock held. */
static void
stop(struct tape *t, const char *why)
{
	unsigned char flags[4];
	char line[PATH_MAX + 128];

	atomic_store(&t->stopped, true);
	put32(flags, TAPE_CUT);
	fcntl(t->fd, F_SETFL, 0); /* O_APPEND would move pwrite to the end */
	if (ftruncate(t->fd, (off_t)t->end) < 0 ||
	    pwrite(t->fd, flags, sizeof flags, 12) != (ssize_t)sizeof flags)
		why = "and the file cannot be marked";
	snprintf(line, sizeof line, "%s: %s: recording stops here", t->path, why);
	if (t->say)
		t->say(line);
}

/* Lock held. */
static void
append(struct tape *t, const GpuSim__TapeRecord *r)
{
	size_t nbytes = gpu_sim__tape_record__get_packed_size(r);
	unsigned char *at;

	t->room.len = 0;
	if (nbytes > TAPE_BODY_MAX || !buf_reserve(&t->room, TAPE_RECORD + nbytes)) {
		stop(t, nbytes > TAPE_BODY_MAX ? "a record is too long" : "out of memory");
		return;
	}
	at = (unsigned char *)t->room.data;
	gpu_sim__tape_record__pack(r, at + TAPE_RECORD);
	put32(at, (uint32_t)nbytes);
	put32(at + 4, crc32c(at + TAPE_RECORD, nbytes));
	put32(at + 8, crc32c(at, 8));
	if (file_write(t->fd, at, TAPE_RECORD + nbytes))
		t->end += TAPE_RECORD + nbytes;
	else
		stop(t, strerror(errno));
}

void
tape_put(struct tape *t, const GpuSim__TapeRecord *r)
{
	if (atomic_load_explicit(&t->stopped, memory_order_relaxed))
		return;
	pthread_mutex_lock(&t->lock);
	if (!atomic_load(&t->stopped))
		append(t, r);
	pthread_mutex_unlock(&t->lock);
}

void
tape_put_comm(struct tape *t, const GpuSim__CommAttachRequest *m)
{
	GpuSim__TapeRecord r = GPU_SIM__TAPE_RECORD__INIT;
	GpuSim__TapeComm c = GPU_SIM__TAPE_COMM__INIT;
	uint64_t *devices = alloc_zeroed(m->n_ranks, sizeof *devices);

	c.commid = m->commid;
	c.epoch = m->epoch;
	c.rank = m->rank;
	c.nranks = (uint32_t)m->n_ranks;
	c.optimeoutms = m->optimeoutms;
	c.queued = m->queued;
	for (size_t i = 0; devices && i < m->n_ranks; i++)
		devices[i] = m->ranks[i]->deviceid ? m->ranks[i]->deviceid->value : 0;
	c.n_devices = devices ? m->n_ranks : 0;
	c.devices = devices;
	r.body_case = GPU_SIM__TAPE_RECORD__BODY_COMM;
	r.comm = &c;
	tape_put(t, &r);
	free(devices);
}

void
tape_put_data(struct tape *t, uint64_t number, bool before, const void *data, uint64_t nbytes)
{
	GpuSim__TapeRecord r = GPU_SIM__TAPE_RECORD__INIT;
	GpuSim__TapeData m = GPU_SIM__TAPE_DATA__INIT;

	r.body_case = GPU_SIM__TAPE_RECORD__BODY_DATA;
	r.data = &m;
	m.number = number;
	m.before = before;
	for (m.at = 0; m.at < nbytes; m.at += m.data.len) {
		m.data.len = nbytes - m.at < TAPE_DATA_MAX ? nbytes - m.at : TAPE_DATA_MAX;
		m.data.data = (uint8_t *)data + m.at;
		tape_put(t, &r);
	}
}

void
tape_close(struct tape *t)
{
	GpuSim__TapeRecord r = GPU_SIM__TAPE_RECORD__INIT;
	GpuSim__TapeClose m = GPU_SIM__TAPE_CLOSE__INIT;

	if (!t)
		return;
	m.operations = atomic_load(&t->number);
	r.body_case = GPU_SIM__TAPE_RECORD__BODY_CLOSE;
	r.close = &m;
	tape_put(t, &r);
	close(t->fd);
	buf_fini(&t->room);
	pthread_mutex_destroy(&t->lock);
	free(t);
}
