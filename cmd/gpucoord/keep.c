/*
 * Design notes. `lock` guards the list and its entries; holders read a recorder without it. A held recorder
 * does not change: a file that has lost its name is replaced in the list by a copy of its recorder, and
 * closed when nobody holds it. An open file without a name keeps all the memory of its device, which should
 * go back to the host.
 *
 * The keeper's thread opens, copies and closes, so that no other thread waits for a file system. It looks
 * for removed names every LOOK_NS.
 */
#include "keep.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "mem/devmem_file.h"

#define BUCKETS 256
#define LOOK_NS (250 * NS_PER_MS)

enum kept_state {
	KEPT_NEW,  /* its file must be opened */
	KEPT_OPEN, /* read from the file */
	KEPT_COPY, /* read from a copy; the file is closed */
	KEPT_NOT   /* it cannot be read; `why` has the reason */
};

struct kept {
	struct kept *next;
	unsigned refs; /* the list has one */
	enum kept_state state;
	bool old; /* the device has another file now */
	uint64_t device_id, incarnation, dev, inode;
	char path[256];
	struct err why;
	struct flight_file file;
	struct buf copy;
	struct flight_bytes bytes;
	uint64_t gone; /* number of the copy; a newer one is greater */
};

struct keeper {
	pthread_mutex_t lock;
	pthread_cond_t work;
	pthread_t thread;
	bool stop, news; /* news: a file must be opened */
	char host[64];
	struct kept *bucket[BUCKETS];
	unsigned nfiles, ngone; /* number of recorders without copies, and of copies */
	size_t gone_bytes;
	uint64_t last_gone;
};

static struct kept **
bucket_of(struct keeper *k, uint64_t device_id)
{
	return &k->bucket[(device_id * 0x9e3779b97f4a7c15u) >> 56];
}

/* ---- one recorder */

static void
kept_free(struct kept *e)
{
	if (e->file.fd >= 0)
		close(e->file.fd);
	buf_fini(&e->copy);
	free(e);
}

/* Lock held. */
static void
unref(struct kept *e)
{
	if (--e->refs == 0)
		kept_free(e);
}

/* Lock held. Remove an entry from the list. */
static void
drop(struct keeper *k, struct kept *e)
{
	struct kept **at = bucket_of(k, e->device_id);

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	if (e->state == KEPT_COPY) {
		k->ngone--;
		k->gone_bytes -= e->copy.len;
	} else {
		k->nfiles--;
	}
	unref(e);
}

static struct kept *
kept_new(const GpuSim__DeviceMetadata *m)
{
	struct kept *e = calloc(1, sizeof *e);

	if (!e)
		return NULL;
	e->refs = 1;
	e->file.fd = -1;
	e->device_id = m->deviceid->value;
	e->incarnation = m->incarnation;
	e->dev = m->memdev;
	e->inode = m->meminode;
	snprintf(e->path, sizeof e->path, "%s", m->mempath);
	return e;
}

/* Open the file that the device has registered, and no other. */
static enum rc
open_file(const struct kept *e, struct flight_file *out, struct err *err)
{
	int fd = open(e->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	enum rc rc;

	if (fd < 0)
		return err_set(err, RC_NOTFOUND, "%s: %s", e->path, strerror(errno));
	if (fstat(fd, &st) != 0 || st.st_dev != e->dev || st.st_ino != e->inode)
		rc = err_set(err, RC_NOTFOUND, "%s: another file has this name now", e->path);
	else
		rc = devmem_file_recorder(e->path, fd, e->device_id, &out->offset, &out->nbytes,
					  err);
	if (rc != RC_OK)
		close(fd);
	else
		out->fd = fd;
	return rc;
}

/* Return true if no device can use the file again, as far as we can see. */
static bool
is_nameless(const struct kept *e)
{
	struct stat st;

	return fstat(e->file.fd, &st) != 0 || st.st_nlink == 0 || e->old;
}

/* ---- the thread */

/* Lock held, and released meanwhile. */
static void
open_one(struct keeper *k, struct kept *e)
{
	struct flight_file file = {.fd = -1};
	struct err why = {0};

	e->refs++;
	pthread_mutex_unlock(&k->lock);
	open_file(e, &file, &why);
	pthread_mutex_lock(&k->lock);
	if (e->state != KEPT_NEW ||
	    e->refs == 1) { /* another thread was first, or the entry was dropped */
		if (file.fd >= 0)
			close(file.fd);
	} else if (file.fd >= 0) {
		e->file = file;
		e->state = KEPT_OPEN;
	} else {
		e->why = why;
		e->state = KEPT_NOT;
	}
	unref(e);
}

/* Lock held. Drop the oldest copies while there are too many. */
static void
limit_copies(struct keeper *k)
{
	while (k->ngone > KEEP_GONE || k->gone_bytes > KEEP_GONE_BYTES) {
		struct kept *oldest = NULL;

		for (unsigned i = 0; i < BUCKETS; i++)
			for (struct kept *e = k->bucket[i]; e; e = e->next)
				if (e->state == KEPT_COPY && (!oldest || e->gone < oldest->gone))
					oldest = e;
		drop(k, oldest);
	}
}

/* Lock held, and released meanwhile. Replace a file by a copy. */
static void
copy_one(struct keeper *k, struct kept *e)
{
	struct flight_source s = flight_file_source(&e->file);
	struct kept *copy = calloc(1, sizeof *copy);
	struct buf bytes = {0};
	struct err why = {0};

	e->refs++;
	pthread_mutex_unlock(&k->lock);
	if (!copy || flight_copy(&s, &bytes, &why) != RC_OK)
		buf_fini(&bytes);
	pthread_mutex_lock(&k->lock);
	if (copy && bytes.len && e->refs > 1) {
		struct kept **at = bucket_of(k, e->device_id);

		*copy = *e;
		copy->refs = 1;
		copy->file = (struct flight_file){.fd = -1};
		copy->next = *at;
		copy->state = KEPT_COPY;
		copy->copy = bytes;
		copy->bytes = (struct flight_bytes){bytes.data, bytes.len};
		copy->gone = ++k->last_gone;
		*at = copy;
		k->ngone++;
		k->gone_bytes += bytes.len;
	} else {
		free(copy);
		buf_fini(&bytes);
	}
	if (e->refs > 1)
		drop(k, e);
	unref(e);
	limit_copies(k);
}

typedef bool kept_is(const struct kept *e);

static bool
is_new(const struct kept *e)
{
	return e->state == KEPT_NEW;
}

static bool
is_to_copy(const struct kept *e)
{
	return e->state == KEPT_OPEN && is_nameless(e);
}

static bool
is_useless(const struct kept *e)
{
	return e->refs == 1 && e->state == KEPT_NOT;
}

static bool
is_dead(const struct kept *e)
{
	return e->refs == 1 && e->state == KEPT_OPEN && !devmem_file_lives(e->file.fd);
}

/* Lock held. Find the first entry for which `is` is true, else NULL. */
static struct kept *
first_that(struct keeper *k, kept_is *is)
{
	for (unsigned i = 0; i < BUCKETS; i++)
		for (struct kept *e = k->bucket[i]; e; e = e->next)
			if (is(e))
				return e;
	return NULL;
}

static void *
keep(void *arg)
{
	struct keeper *k = arg;
	uint64_t look_ns = 0;

	pthread_mutex_lock(&k->lock);
	while (!k->stop) {
		bool look = clock_now_ns() >= look_ns;
		struct kept *e = k->news ? first_that(k, is_new) : NULL;
		struct timespec ts;

		if (e) {
			open_one(k, e);
			continue;
		}
		k->news = false;
		if (look && (e = first_that(k, is_to_copy))) {
			copy_one(k, e);
			continue;
		}
		if (look)
			look_ns = clock_now_ns() + LOOK_NS;
		ts = deadline_timespec(look_ns);
		pthread_cond_clockwait(&k->work, &k->lock, CLOCK_MONOTONIC, &ts);
	}
	pthread_mutex_unlock(&k->lock);
	return NULL;
}

/* ---- */

enum rc
keeper_new(const char *host, struct keeper **out, struct err *err)
{
	struct keeper *k = calloc(1, sizeof *k);

	if (!k)
		return err_set(err, RC_NOMEM, "out of memory");
	snprintf(k->host, sizeof k->host, "%s", host);
	pthread_mutex_init(&k->lock, NULL);
	pthread_cond_init(&k->work, NULL);
	if (pthread_create(&k->thread, NULL, keep, k) != 0) {
		pthread_cond_destroy(&k->work);
		pthread_mutex_destroy(&k->lock);
		free(k);
		return err_set(err, RC_NOMEM,
			       "cannot start the thread for the recorders of devices");
	}
	*out = k;
	return RC_OK;
}

void
keeper_free(struct keeper *k)
{
	if (!k)
		return;
	pthread_mutex_lock(&k->lock);
	k->stop = true;
	pthread_cond_signal(&k->work);
	pthread_mutex_unlock(&k->lock);
	pthread_join(k->thread, NULL);
	for (unsigned i = 0; i < BUCKETS; i++)
		while (k->bucket[i])
			drop(k, k->bucket[i]);
	pthread_cond_destroy(&k->work);
	pthread_mutex_destroy(&k->lock);
	free(k);
}

static bool
is_ours(const struct keeper *k, const GpuSim__DeviceMetadata *m)
{
	return m && m->deviceid && k->host[0] && strcmp(m->host, k->host) == 0 &&
	       m->mempath[0] == '/' && strlen(m->mempath) < sizeof((struct kept *)0)->path &&
	       (m->memuser == 0 || m->memuser == (uint32_t)geteuid() + 1);
}

/* Lock held. Find the entry of the device's file, else of its newest former file; NULL: none. */
static struct kept *
find(struct keeper *k, const GpuSim__DeviceMetadata *m)
{
	struct kept *any = NULL;

	for (struct kept *e = *bucket_of(k, m->deviceid->value); e; e = e->next) {
		if (e->device_id != m->deviceid->value)
			continue;
		if (e->dev == m->memdev && e->inode == m->meminode)
			return e;
		if (!any || any->gone < e->gone)
			any = e;
	}
	return any;
}

/* Lock held. Add the file of a new device. */
static struct kept *
enter(struct keeper *k, const GpuSim__DeviceMetadata *m)
{
	struct kept **at = bucket_of(k, m->deviceid->value), *e;

	if (k->nfiles == KEEP_FILES &&
	    ((e = first_that(k, is_useless)) || (e = first_that(k, is_dead))))
		drop(k, e);
	e = k->nfiles < KEEP_FILES ? kept_new(m) : NULL;
	if (!e)
		return NULL;
	k->nfiles++;
	for (struct kept *o = *at; o; o = o->next)
		o->old |= o->device_id == e->device_id;
	e->next = *at;
	*at = e;
	k->news = true;
	pthread_cond_signal(&k->work);
	return e;
}

void
keeper_hears(struct keeper *k, const GpuSim__DeviceMetadata *m)
{
	struct kept *e;

	if (!is_ours(k, m))
		return;
	pthread_mutex_lock(&k->lock);
	e = find(k, m);
	if (!e || e->dev != m->memdev || e->inode != m->meminode) {
		enter(k, m);
	} else if (e->incarnation != m->incarnation) { /* another process has taken the file */
		e->incarnation = m->incarnation;
		if (e->state == KEPT_NOT || e->state == KEPT_COPY) {
			drop(k, e);
			enter(k, m);
		}
	}
	pthread_mutex_unlock(&k->lock);
}

enum rc
keeper_hold(struct keeper *k, const GpuSim__DeviceMetadata *m, struct kept **out, struct err *err)
{
	enum rc rc = RC_OK;
	struct kept *e;

	if (!is_ours(k, m))
		return err_set(err, RC_NOTFOUND, "the device belongs to another host or user");
	pthread_mutex_lock(&k->lock);
	e = find(k, m);
	if (!e)
		e = enter(k, m);
	if (e && e->state == KEPT_NEW)
		open_one(k, e);
	if (!e)
		rc = err_set(err, RC_NOTFOUND, "%u device files are open already", k->nfiles);
	else if (e->state == KEPT_NOT)
		rc = (*err = e->why).rc;
	if (rc == RC_OK) {
		e->refs++;
		*out = e;
	}
	pthread_mutex_unlock(&k->lock);
	return rc;
}

struct flight_source
kept_source(struct kept *e)
{
	return e->state == KEPT_COPY ? flight_bytes_source(&e->bytes)
				     : flight_file_source(&e->file);
}

void
keeper_release(struct keeper *k, struct kept *e)
{
	pthread_mutex_lock(&k->lock);
	unref(e);
	pthread_mutex_unlock(&k->lock);
}
