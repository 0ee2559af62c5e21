/*
 * dir.c - a store in a directory: a journal, rewritten when most of it is history.
 *
 * The file only grows at its end. A batch that could not be written is truncated again. After a failed
 * fsync the content of the disk is unknown (the kernel drops the pages), so the file is rewritten from
 * memory before the next commit. A new file is written beside the old one and renamed over it when it is
 * synced.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "store/journal.h"
#include "store/store_impl.h"

#define NAME_JOURNAL "gpusim.journal"
#define NAME_NEW     "gpusim.journal.new"
#define NAME_LOCK    "gpusim.lock"

#define FLOOR	   (4u << 20) /* a journal up to this size is not worth rewriting */
#define PIECE	   (1u << 20) /* bytes of one batch of a snapshot, about */
#define PIECE_MAX  256	      /* changes of it */
#define LOCK_TRIES 100

struct dir {
	char *path;    /* of the directory */
	char *journal; /* path of the file, for messages */
	int fd, lock, file;
	struct journal j;
	size_t nbytes; /* of the file */
	size_t retry;  /* a snapshot is not tried before the file has this size */
	bool suspect;  /* the file may not hold the table */
	struct buf out;
};

static enum rc
fail(struct err *err, const struct dir *d, const char *what)
{
	return err_set(err, RC_FAILED, "%s: %s: %s", d->path, what, strerror(errno));
}

static void
dir_free(struct dir *d)
{
	if (d->file >= 0)
		close(d->file);
	if (d->lock >= 0)
		close(d->lock);
	if (d->fd >= 0)
		close(d->fd);
	buf_fini(&d->out);
	free(d->path);
	free(d->journal);
	free(d);
}

static struct dir *
dir_new(const char *path)
{
	struct dir *d = alloc_zeroed(1, sizeof *d);

	if (!d)
		return NULL;
	d->fd = d->lock = d->file = -1;
	d->path = strdup(path);
	if (!d->path || asprintf(&d->journal, "%s/" NAME_JOURNAL, path) < 0) {
		d->journal = NULL;
		dir_free(d);
		return NULL;
	}
	return d;
}

/* ---- the directory */

static enum rc
take_directory(struct dir *d, struct err *err)
{
	struct stat st;

	if (mkdir(d->path, 0700) != 0 && errno != EEXIST)
		return err_set(err, RC_FAILED, "%s: cannot create it: %s", d->path,
			       strerror(errno));
	d->fd = open(d->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (d->fd < 0 || fstat(d->fd, &st) != 0)
		return err_set(err, RC_FAILED, "%s: %s", d->path, strerror(errno));
	if (st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
		return err_set(err, RC_FAILED,
			       "%s: writable by others; it must be writable by its owner only",
			       d->path);
	return RC_OK;
}

/* One process owns the directory. The last owner may remove the lock file while we open it. */
static enum rc
take_lock(struct dir *d, struct err *err)
{
	struct stat mine, there;

	for (int i = 0; i < LOCK_TRIES; i++) {
		d->lock = openat(d->fd, NAME_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (d->lock < 0)
			return fail(err, d, NAME_LOCK);
		if (flock(d->lock, LOCK_EX | LOCK_NB) != 0)
			return err_set(err, RC_BUSY, "%s: another process uses it", d->path);
		if (fstat(d->lock, &mine) == 0 && fstatat(d->fd, NAME_LOCK, &there, 0) == 0 &&
		    mine.st_ino == there.st_ino && mine.st_dev == there.st_dev)
			return RC_OK;
		close(d->lock);
		d->lock = -1;
	}
	return err_set(err, RC_BUSY, "%s: other processes keep taking its lock", d->path);
}

/* Sync the directory's own name too, if its parent can be opened. */
static void
sync_parent(const struct dir *d)
{
	int up = openat(d->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (up < 0)
		return;
	fsync(up);
	close(up);
}

/* ---- writing */

static enum rc
write_at(const struct dir *d, int fd, const void *data, size_t nbytes, size_t at, struct err *err)
{
	if (file_write_at(fd, data, nbytes, at))
		return RC_OK;
	return err_set(err, RC_FAILED, "%s: cannot write %zu bytes: %s", d->journal, nbytes,
		       strerror(errno));
}

static enum rc
sync_file(const struct dir *d, int fd, struct err *err)
{
	if (fdatasync(fd) == 0)
		return RC_OK;
	return err_set(err, RC_FAILED, "%s: cannot sync: %s", d->journal, strerror(errno));
}

/* Write n entries after *at as one batch. */
static enum rc
write_piece(struct dir *d, int fd, struct journal *j, struct entry *const *v, size_t n, size_t *at,
	    struct err *err)
{
	struct store_change change[PIECE_MAX];
	enum rc rc;

	for (size_t i = 0; i < n; i++)
		change[i] = (struct store_change){v[i]->key, v[i]->value, v[i]->nbytes};
	d->out.len = 0;
	rc = journal_batch(j, change, n, &d->out, err);
	if (rc == RC_OK)
		rc = write_at(d, fd, d->out.data, d->out.len, *at, err);
	*at += d->out.len;
	return rc;
}

/* All of the table, and then the header. */
static enum rc
write_all(struct dir *d, int fd, struct journal *j, const struct table *t, struct err *err)
{
	unsigned char header[JOURNAL_HEADER];
	size_t at = JOURNAL_HEADER;
	enum rc rc = RC_OK;

	for (struct entry *const *v = t->v; rc == RC_OK && v && *v;) {
		size_t n = 0, nbytes = 0;

		while (v[n] && n < PIECE_MAX && nbytes < PIECE)
			nbytes += v[n++]->nbytes;
		rc = write_piece(d, fd, j, v, n, &at, err);
		v += n;
	}
	j->base = at;
	journal_header(j, header);
	if (rc == RC_OK)
		rc = write_at(d, fd, header, sizeof header, 0, err);
	return rc == RC_OK ? sync_file(d, fd, err) : rc;
}

/* Write the table to a new file, and use that from now on. On failure the old file is unchanged. */
static enum rc
rewrite(struct store *s, struct err *err)
{
	struct dir *d = s->own;
	struct journal j = {0};
	int fd = -1;
	enum rc rc = RC_OK;

	if (getrandom(&j.nonce, sizeof j.nonce, 0) != sizeof j.nonce)
		rc = fail(err, d, "random numbers");
	if (rc == RC_OK) {
		unlinkat(d->fd, NAME_NEW, 0);
		fd = openat(d->fd, NAME_NEW, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		rc = fd < 0 ? fail(err, d, NAME_NEW) : write_all(d, fd, &j, &s->table, err);
	}
	if (rc == RC_OK && renameat(d->fd, NAME_NEW, d->fd, NAME_JOURNAL) != 0)
		rc = fail(err, d, NAME_JOURNAL);
	if (rc != RC_OK) {
		if (fd >= 0) {
			close(fd);
			unlinkat(d->fd, NAME_NEW, 0);
		}
		return rc;
	}
	if (d->file >= 0)
		close(d->file);
	d->file = fd;
	d->j = j;
	d->nbytes = j.base;
	d->retry = 0;
	/* A commit is not promised before the file's name is synced. */
	d->suspect = fsync(d->fd) != 0;
	return d->suspect ? fail(err, d, "cannot sync") : RC_OK;
}

/* ---- opening */

static bool
read_change(void *arg, const struct store_change *c)
{
	return store_apply(arg, c);
}

/* The bytes of the journal; false with errno: they could not be read. */
static bool
slurp(int fd, struct buf *out)
{
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) != 0)
		return false;
	if (!buf_reserve(out, (size_t)st.st_size + 1)) {
		errno = ENOMEM;
		return false;
	}
	n = file_read_at(fd, out->data, (size_t)st.st_size, 0);
	out->len = n > 0 ? (size_t)n : 0;
	return n >= 0;
}

/* Drop an incomplete last commit, so that the next one follows the last complete one. */
static enum rc
cut(struct store *s, size_t good, size_t nbytes, struct err *err)
{
	struct dir *d = s->own;

	d->nbytes = good;
	if (good == nbytes)
		return RC_OK;
	if (ftruncate(d->file, (off_t)good) != 0)
		return fail(err, d, NAME_JOURNAL);
	err_set(
	    &s->note, RC_OK,
	    "%s: the last commit was incomplete; dropped its %zu bytes, which were not promised",
	    d->journal, nbytes - good);
	return RC_OK;
}

static enum rc
read_file(struct store *s, struct err *err)
{
	struct dir *d = s->own;
	struct buf data = {0};
	size_t good = 0;
	enum rc rc;

	rc = slurp(d->file, &data) ? RC_OK : fail(err, d, NAME_JOURNAL);
	if (rc == RC_OK)
		rc = journal_read(data.data, data.len, d->journal, read_change, &s->table, &d->j,
				  &good, err);
	if (rc == RC_OK)
		rc = cut(s, good, data.len, err);
	buf_fini(&data);
	return rc;
}

static enum rc
take_journal(struct store *s, struct err *err)
{
	struct dir *d = s->own;

	d->file = openat(d->fd, NAME_JOURNAL, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (d->file >= 0)
		return read_file(s, err);
	if (errno != ENOENT)
		return fail(err, d, NAME_JOURNAL);
	sync_parent(d);
	return rewrite(s, err);
}

static enum rc
dir_open(struct store *s, const char *where, struct err *err)
{
	struct dir *d;
	enum rc rc;

	if (!*where)
		return err_set(err, RC_INVAL, "'' is not a directory");
	d = dir_new(where);
	if (!d)
		return err_set(err, RC_NOMEM, "%s: out of memory", where);
	s->own = d;
	rc = take_directory(d, err);
	if (rc == RC_OK)
		rc = take_lock(d, err);
	if (rc == RC_OK)
		rc = take_journal(s, err);
	if (rc != RC_OK) {
		dir_free(d);
		s->own = NULL;
	}
	return rc;
}

/* ---- committing */

/* Truncate the appended bytes; if that fails, the file is suspect. */
static void
take_back(struct dir *d, const struct journal *before)
{
	d->j = *before;
	if (ftruncate(d->file, (off_t)d->nbytes) != 0)
		d->suspect = true;
}

static enum rc
dir_commit(struct store *s, const struct store_change *change, size_t n,
	   enum store_durability durability, struct err *err)
{
	struct dir *d = s->own;
	struct journal before;
	enum rc rc = d->suspect ? rewrite(s, err) : RC_OK;

	if (rc != RC_OK)
		return rc;
	before = d->j;
	d->out.len = 0;
	rc = journal_batch(&d->j, change, n, &d->out, err);
	if (rc != RC_OK)
		return rc;
	rc = write_at(d, d->file, d->out.data, d->out.len, d->nbytes, err);
	if (rc == RC_OK && durability == STORE_SYNC) {
		rc = sync_file(d, d->file, err);
		d->suspect = rc != RC_OK;
	}
	if (rc == RC_OK)
		d->nbytes += d->out.len;
	else
		take_back(d, &before);
	return rc;
}

/* Rewrite a journal that is mostly history. On failure the old file stays in use. */
static void
dir_committed(struct store *s)
{
	struct dir *d = s->own;
	size_t live = s->table.nbytes + s->table.n * JOURNAL_CHANGE;

	if (d->out.cap > 4 * PIECE)
		buf_fini(&d->out);
	if (d->nbytes < FLOOR + 2 * live || d->nbytes < d->retry)
		return;
	if (rewrite(s, NULL) != RC_OK)
		d->retry = d->nbytes + FLOOR;
}

static enum rc
dir_close(struct store *s, enum store_end end, struct err *err)
{
	struct dir *d = s->own;
	enum rc rc = RC_OK;

	if (end == STORE_KEEP) {
		rc = d->suspect ? rewrite(s, err) : sync_file(d, d->file, err);
	} else {
		unlinkat(d->fd, NAME_NEW, 0);
		if (unlinkat(d->fd, NAME_JOURNAL, 0) != 0 && errno != ENOENT)
			rc = fail(err, d, NAME_JOURNAL);
		unlinkat(d->fd, NAME_LOCK, 0);
		/* Not empty: other files stay. */
		if (rmdir(d->path) != 0 && errno != ENOTEMPTY && errno != ENOENT && rc == RC_OK)
			rc = fail(err, d, "cannot remove it");
	}
	dir_free(d);
	s->own = NULL;
	return rc;
}

const struct medium store_dir = {dir_open, dir_commit, dir_committed, dir_close};
