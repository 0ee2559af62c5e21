#include "nn/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/must.h"
#include "nn/augment.h"
#include "nn/npz.h"

#define NAME_FORMAT  "ckpt-%012" PRIu64 ".npz"
#define SHARD_FORMAT "ckpt-%012" PRIu64 ".%" PRIu64 "-of-%" PRIu64 ".npz"
#define NAME_DIGITS  12
#define MAX_SHARDS   1024
#define MAX_STEPS    UINT64_C(999999999999) /* the most that a name has digits for */
#define VERSION	     2
#define MAX_VALUES   (UINT64_C(1) << 30)

struct checkpoint_dir {
	char *path;
	int fd; /* holds the lock */
};

/* ---- numbers: one scalar array each */

struct field {
	const char *name;
	enum npz_type type; /* NPZ_I64: a uint64_t, at most INT64_MAX unless it is a seed */
	size_t offset;
};

#define WHOLE(name, member)                                        \
	{                                                          \
		name, NPZ_I64, offsetof(struct checkpoint, member) \
	}
#define REAL(name, member)                                         \
	{                                                          \
		name, NPZ_F64, offsetof(struct checkpoint, member) \
	}

static const struct field fields[] = {
    WHOLE("epoch", epoch),
    WHOLE("step", step),
    REAL("loss_sum", loss_sum),
    WHOLE("steps_an_epoch", steps_an_epoch),
    WHOLE("global_batch", global_batch),
    WHOLE("optimizer_steps", optimizer_steps),
    WHOLE("nvalues", terms.nvalues),
    WHOLE("sync", terms.sync),
    WHOLE("local_steps", terms.local_steps),
    WHOLE("optimizer", terms.optimizer),
    WHOLE("schedule", terms.schedule),
    WHOLE("batch", terms.batch),
    WHOLE("seed", terms.seed),
    WHOLE("augment", terms.augment), /* 0 where a file has none; also the next three */
    WHOLE("leaf", terms.leaf),
    WHOLE("shards", nshards),
    WHOLE("method", terms.method),
    REAL("lr", terms.lr),
    REAL("momentum", terms.momentum),
    REAL("weight_decay", terms.weight_decay),
    WHOLE("train_items", terms.train_items),
    WHOLE("test_items", terms.test_items),
    WHOLE("data_crc", terms.data_crc),
};

enum {
	NFIELDS = sizeof fields / sizeof fields[0],
	/* version, stamp, net, params, own */
	MAX_ARRAYS = NFIELDS + 5 + CHECKPOINT_MAX_STATE
};

static struct npz_array
named(const char *name, enum npz_type type, uint32_t ndim, uint64_t dim, const void *data)
{
	struct npz_array a = {.type = type, .ndim = ndim, .dim = {dim}, .data = data};

	snprintf(a.name, sizeof a.name, "%s", name);
	return a;
}

/* ---- names */

/* The steps in a checkpoint's name; false: it is not one. */
static bool
name_steps(const char *name, uint64_t *steps)
{
	char again[64];
	uint64_t n;

	if (strncmp(name, "ckpt-", 5) != 0 || strspn(name + 5, "0123456789") != NAME_DIGITS)
		return false;
	n = strtoull(name + 5, NULL, 10);
	snprintf(again, sizeof again, NAME_FORMAT, n);
	if (strcmp(name, again) != 0)
		return false;
	*steps = n;
	return true;
}

/* A file that a killed npz_write left: ckpt-STEP.npz.PID-N.tmp. */
static bool
is_leftover(const char *name)
{
	size_t n = strlen(name);

	return strncmp(name, "ckpt-", 5) == 0 && n > 9 && strcmp(name + n - 4, ".tmp") == 0 &&
	       strstr(name, ".npz.") != NULL;
}

/* A file of vectors, ckpt-STEP.K-of-N.npz: its checkpoint's steps, and N. */
static bool
shard_steps(const char *name, uint64_t *steps, uint64_t *n)
{
	uint64_t k;
	char again[96];

	if (sscanf(name, "ckpt-%" SCNu64 ".%" SCNu64 "-of-%" SCNu64, steps, &k, n) != 3)
		return false;
	snprintf(again, sizeof again, SHARD_FORMAT, *steps, k, *n);
	return strcmp(name, again) == 0;
}

static int
newest_first(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* The steps of all checkpoints, as uint64_t in *out, newest first; the caller releases *out. A
 * missing folder counts as empty. leftovers: also remove half-written files. */
static enum rc
list(const char *path, bool leftovers, struct buf *out, struct err *err)
{
	DIR *d = opendir(path);
	struct dirent *e;
	uint64_t steps;

	if (!d)
		return errno == ENOENT ? RC_OK
				       : err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
	while ((e = readdir(d))) {
		if (leftovers && is_leftover(e->d_name))
			(void)unlinkat(dirfd(d), e->d_name, 0);
		if (name_steps(e->d_name, &steps))
			must_add(out, &steps, sizeof steps);
	}
	closedir(d);
	if (out->len)
		qsort(out->data, out->len / sizeof steps, sizeof steps, newest_first);
	return RC_OK;
}

/* ---- the folder */

/* Remove the files of vectors whose checkpoints are not there, or, after `steps`, have another number of them. */
static void
remove_orphans(const struct checkpoint_dir *d, uint64_t steps, uint64_t nshards)
{
	DIR *dir = opendir(d->path);
	struct dirent *e;
	uint64_t of, n;
	char name[64];

	while (dir && (e = readdir(dir))) {
		if (!shard_steps(e->d_name, &of, &n))
			continue;
		snprintf(name, sizeof name, NAME_FORMAT, of);
		if ((of == steps && n != nshards) ||
		    (faccessat(d->fd, name, F_OK, 0) != 0 && errno == ENOENT))
			(void)unlinkat(d->fd, e->d_name, 0);
	}
	if (dir)
		closedir(dir);
}

enum rc
checkpoint_dir_open(const char *path, struct checkpoint_dir **out, struct err *err)
{
	struct checkpoint_dir *d = must_alloc(1, sizeof *d);
	struct buf names = {0};
	enum rc rc = RC_OK;

	d->path = must_strdup(path);
	if (mkdir(path, 0777) != 0 && errno != EEXIST)
		rc = err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
	d->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (rc == RC_OK && d->fd < 0)
		rc = err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
	if (rc == RC_OK && flock(d->fd, LOCK_EX | LOCK_NB) != 0)
		rc = errno == EWOULDBLOCK
			 ? err_set(err, RC_BUSY,
				   "%s: another training is writing its checkpoints here", path)
			 : err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
	if (rc == RC_OK)
		rc = list(path, true, &names, err);
	buf_fini(&names);
	if (rc == RC_OK)
		remove_orphans(d, UINT64_MAX, 0);
	if (rc != RC_OK)
		checkpoint_dir_close(d);
	else
		*out = d;
	return rc;
}

void
checkpoint_dir_close(struct checkpoint_dir *d)
{
	if (!d)
		return;
	if (d->fd >= 0)
		close(d->fd);
	free(d->path);
	free(d);
}

enum rc
checkpoint_any(const char *path, bool *any, struct err *err)
{
	struct buf names = {0};
	enum rc rc = list(path, false, &names, err);

	if (rc == RC_OK)
		*any = names.len > 0;
	buf_fini(&names);
	return rc;
}

/* Remove all but the newest CHECKPOINT_KEPT up to `steps`, and all after `steps`. */
static void
remove_old(const struct checkpoint_dir *d, uint64_t steps, uint64_t nshards)
{
	struct buf names = {0};
	const uint64_t *at;
	char name[64];
	unsigned kept = 0;

	if (list(d->path, false, &names, NULL) == RC_OK)
		for (size_t i = 0; i < names.len / sizeof *at; i++) {
			at = (const uint64_t *)(const void *)names.data + i;
			if (*at <= steps && kept++ < CHECKPOINT_KEPT)
				continue;
			snprintf(name, sizeof name, NAME_FORMAT, *at);
			(void)unlinkat(d->fd, name, 0);
		}
	buf_fini(&names);
	remove_orphans(d, steps, nshards);
}

/* ---- writing */

uint64_t
checkpoint_steps(const struct checkpoint *c)
{
	return c->epoch * c->steps_an_epoch + c->step;
}

static const char *const vector_names[] = {"params", "state0", "state1"};

/* The vectors, and their number. */
static unsigned
vectors(const struct checkpoint *c, const float *out[1 + CHECKPOINT_MAX_STATE])
{
	out[0] = c->params;
	for (unsigned i = 0; i < c->nstate; i++)
		out[1 + i] = c->state[i];
	return 1 + c->nstate;
}

/* Append values [begin, end) of each vector. */
static size_t
add_vectors(const struct checkpoint *c, uint64_t begin, uint64_t end, struct npz_array *array)
{
	const float *v[1 + CHECKPOINT_MAX_STATE];
	unsigned n = vectors(c, v);

	for (unsigned i = 0; i < n; i++)
		array[i] = named(vector_names[i], NPZ_F32, 1, end - begin, v[i] + begin);
	return n;
}

/* The files of the vectors. */
static enum rc
write_shards(const struct checkpoint_dir *d, const struct checkpoint *c, const uint64_t *stamp,
	     struct err *err)
{
	struct npz_array array[2 + CHECKPOINT_MAX_STATE];
	char path[PATH_MAX];
	enum rc rc = RC_OK;

	for (uint64_t k = 0; k < c->nshards && rc == RC_OK; k++) {
		size_t n = add_vectors(c, c->nparams * k / c->nshards,
				       c->nparams * (k + 1) / c->nshards, array);

		array[n++] = named("stamp", NPZ_I64, 0, 0, stamp);
		if (snprintf(path, sizeof path, "%s/" SHARD_FORMAT, d->path, checkpoint_steps(c),
			     k + 1, c->nshards) >= PATH_MAX)
			return err_set(err, RC_FAILED, "%.64s...: %s", d->path,
				       strerror(ENAMETOOLONG));
		rc = npz_write(path, array, n, err);
	}
	return rc;
}

enum rc
checkpoint_write(struct checkpoint_dir *d, const struct checkpoint *c, struct err *err)
{
	static const int64_t version = VERSION;
	struct npz_array array[MAX_ARRAYS];
	uint64_t steps = checkpoint_steps(c), stamp = clock_now_ns() >> 1;
	char path[PATH_MAX];
	size_t n = 0;
	enum rc rc;

	if (snprintf(path, sizeof path, "%s/" NAME_FORMAT, d->path, steps) >= PATH_MAX)
		return err_set(err, RC_FAILED, "%.64s...: %s", d->path, strerror(ENAMETOOLONG));
	if (steps > MAX_STEPS)
		return err_set(err, RC_FAILED, "%s: the step count has more than %d digits",
			       d->path, NAME_DIGITS);
	array[n++] = named("version", NPZ_I64, 0, 0, &version);
	for (size_t i = 0; i < NFIELDS; i++)
		array[n++] =
		    named(fields[i].name, fields[i].type, 0, 0, (const char *)c + fields[i].offset);
	array[n++] = named("net", NPZ_U8, 1, sizeof c->terms.net, c->terms.net);
	if (c->own.rows) {
		array[n] = named("own", NPZ_U8, 2, c->own.rows, c->own.bytes);
		array[n++].dim[1] = c->own.cols;
	}
	if (c->nshards)
		array[n++] = named("stamp", NPZ_I64, 0, 0, &stamp);
	else
		n += add_vectors(c, 0, c->nparams, array + n);
	rc = write_shards(d, c, &stamp, err);
	if (rc == RC_OK)
		rc = npz_write(path, array, n, err);
	if (rc == RC_OK)
		remove_old(d, steps, c->nshards);
	else
		remove_orphans(d, UINT64_MAX, 0);
	return rc;
}

/* ---- reading */

/* A scalar of the file. RC_BADDATA: the file has none of that name and type. */
static enum rc
read_field(const struct npz *npz, const struct field *f, const char *path, void *out,
	   struct err *err)
{
	const struct npz_array *a = npz_find(npz, f->name);

	if (!a && (f->offset == offsetof(struct checkpoint, terms.augment) ||
		   f->offset == offsetof(struct checkpoint, terms.leaf) ||
		   f->offset == offsetof(struct checkpoint, nshards) ||
		   f->offset == offsetof(struct checkpoint, terms.method)))
		return RC_OK;
	if (!a || a->type != f->type || a->ndim != 0)
		return err_set(err, RC_BADDATA, "%s: not a checkpoint: it has no number %s", path,
			       f->name);
	memcpy(out, a->data, 8);
	return RC_OK;
}

/* Copy values [begin, end) of a vector from a file; *out NULL: there is none yet. absent: the file may have none. */
static enum rc
read_vector(const struct npz *npz, unsigned i, const char *path, struct checkpoint *c,
	    uint64_t begin, uint64_t end, bool absent, struct err *err)
{
	const struct npz_array *a = npz_find(npz, vector_names[i]);
	float **out = i ? &c->state[i - 1] : &c->params;

	if (!a && absent)
		return RC_OK;
	if (!a || a->type != NPZ_F32 || a->ndim != 1 || a->dim[0] != end - begin)
		return err_set(err, RC_BADDATA, "%s: %s is not one of %" PRIu64 " parameters", path,
			       vector_names[i], end - begin);
	if (!*out)
		*out = must_alloc(c->nparams, sizeof **out);
	memcpy(*out + begin, a->data, (end - begin) * sizeof **out);
	return RC_OK;
}

/* All vectors' values [begin, end) of a file. first: what the first file does not have, the others do not have
 * either. */
static enum rc
read_vectors(const struct npz *npz, const char *path, struct checkpoint *c, uint64_t begin,
	     uint64_t end, bool first, struct err *err)
{
	enum rc rc = read_vector(npz, 0, path, c, begin, end, false, err);

	if (rc == RC_OK && (first || c->state[0]))
		rc = read_vector(npz, 1, path, c, begin, end, first, err);
	if (rc == RC_OK && c->state[0] && (first || c->state[1]))
		rc = read_vector(npz, 2, path, c, begin, end, first, err);
	return rc;
}

static enum rc
read_shard(const char *dir, uint64_t steps, uint64_t k, uint64_t stamp, struct checkpoint *c,
	   struct err *err)
{
	static const struct field stamp_field = {"stamp", NPZ_I64, 0};
	uint64_t own, n = c->nshards;
	struct npz npz = {0};
	char path[PATH_MAX];
	enum rc rc;

	if (snprintf(path, sizeof path, "%s/" SHARD_FORMAT, dir, steps, k + 1, n) >= PATH_MAX)
		return err_set(err, RC_FAILED, "%.64s...: %s", dir, strerror(ENAMETOOLONG));
	rc = npz_read(path, &npz, err);
	if (rc == RC_OK)
		rc = read_field(&npz, &stamp_field, path, &own, err);
	if (rc == RC_OK && own != stamp)
		rc = err_set(err, RC_BADDATA, "%s: it belongs to another checkpoint", path);
	if (rc == RC_OK)
		rc = read_vectors(&npz, path, c, c->nparams * k / n, c->nparams * (k + 1) / n,
				  k == 0, err);
	npz_fini(&npz);
	return rc;
}

/* The vectors, in the checkpoint's own file or in files of their own. */
static enum rc
read_values(const struct npz *npz, const char *dir, const char *path, uint64_t steps,
	    struct checkpoint *c, struct err *err)
{
	static const struct field stamp_field = {"stamp", NPZ_I64, 0};
	uint64_t stamp;
	enum rc rc;

	if (!c->nshards)
		return read_vectors(npz, path, c, 0, c->nparams, true, err);
	if (c->nshards > MAX_SHARDS)
		return err_set(err, RC_BADDATA, "%s: in %" PRIu64 " files", path, c->nshards);
	rc = read_field(npz, &stamp_field, path, &stamp, err);
	for (uint64_t k = 0; k < c->nshards && rc == RC_OK; k++)
		rc = read_shard(dir, steps, k, stamp, c, err);
	return rc;
}

/* What each rank has of its own, if anything. */
static enum rc
read_own(const struct npz *npz, const char *path, struct checkpoint_bytes *out, struct err *err)
{
	const struct npz_array *a = npz_find(npz, "own");

	if (!a)
		return RC_OK;
	if (a->type != NPZ_U8 || a->ndim != 2 || a->dim[0] == 0 || a->dim[1] == 0)
		return err_set(err, RC_BADDATA, "%s: own is not a table of bytes", path);
	*out = (struct checkpoint_bytes){a->dim[0], a->dim[1], must_alloc(a->dim[0], a->dim[1])};
	memcpy(out->bytes, a->data, a->dim[0] * a->dim[1]);
	return RC_OK;
}

/* The net, and its number of values. */
static enum rc
read_net(const struct npz *npz, const char *path, struct checkpoint *c, struct err *err)
{
	const struct npz_array *a = npz_find(npz, "net");

	if (!a || a->type != NPZ_U8 || a->ndim != 1 || a->dim[0] != sizeof c->terms.net)
		return err_set(err, RC_BADDATA, "%s: not a checkpoint: it has no net", path);
	memcpy(c->terms.net, a->data, sizeof c->terms.net);
	c->nparams = c->terms.nvalues;
	if (memchr(c->terms.net, '\0', sizeof c->terms.net) == NULL || c->nparams < 1 ||
	    c->nparams > MAX_VALUES)
		return err_set(err, RC_BADDATA, "%s: a net of %" PRIu64 " values", path,
			       c->nparams);
	return RC_OK;
}

/* Each number is within its range. */
static enum rc
check_position(const struct checkpoint *c, uint64_t steps, const char *path, struct err *err)
{
	if (c->global_batch < 1 || c->global_batch > UINT32_MAX || c->steps_an_epoch < 1 ||
	    c->steps_an_epoch > UINT32_MAX || c->step >= c->steps_an_epoch ||
	    c->epoch > UINT32_MAX || checkpoint_steps(c) != steps)
		return err_set(err, RC_BADDATA,
			       "%s: epoch %" PRIu64 ", step %" PRIu64 " of %" PRIu64 ", %" PRIu64
			       " images a step: these numbers are inconsistent",
			       path, c->epoch, c->step, c->steps_an_epoch, c->global_batch);
	return RC_OK;
}

static enum rc
parse(const struct npz *npz, const char *dir, const char *path, uint64_t steps,
      struct checkpoint *c, struct err *err)
{
	static const struct field version_field = {"version", NPZ_I64, 0};
	uint64_t version;
	enum rc rc = read_field(npz, &version_field, path, &version, err);

	if (rc == RC_OK && version != VERSION)
		rc = err_set(err, RC_BADDATA, "%s: version %" PRIu64 "; this program reads %d",
			     path, version, VERSION);
	for (size_t i = 0; rc == RC_OK && i < NFIELDS; i++)
		rc = read_field(npz, &fields[i], path, (char *)c + fields[i].offset, err);
	if (rc == RC_OK)
		rc = check_position(c, steps, path, err);
	if (rc == RC_OK)
		rc = read_net(npz, path, c, err);
	if (rc == RC_OK)
		rc = read_values(npz, dir, path, steps, c, err);
	if (rc == RC_OK)
		rc = read_own(npz, path, &c->own, err);
	c->nstate = !c->state[0] ? 0 : !c->state[1] ? 1 : 2;
	return rc;
}

static enum rc
read_one(const char *dir, uint64_t steps, struct checkpoint *out, struct err *err)
{
	struct checkpoint c = {0};
	struct npz npz = {0};
	char path[PATH_MAX];
	enum rc rc;

	if (snprintf(path, sizeof path, "%s/" NAME_FORMAT, dir, steps) >= PATH_MAX)
		return err_set(err, RC_FAILED, "%.64s...: %s", dir, strerror(ENAMETOOLONG));
	rc = npz_read(path, &npz, err);
	if (rc == RC_OK)
		rc = parse(&npz, dir, path, steps, &c, err);
	npz_fini(&npz);
	if (rc != RC_OK)
		checkpoint_fini(&c);
	else
		*out = c;
	return rc;
}

enum rc
checkpoint_newest(const char *path, checkpoint_damaged_fn damaged, void *arg, struct checkpoint *c,
		  bool *found, struct err *err)
{
	struct buf names = {0};
	uint64_t steps;
	enum rc rc = list(path, false, &names, err);
	size_t n = names.len / sizeof steps, i;

	*found = false;
	for (i = 0; i < n && rc == RC_OK && !*found; i++) {
		memcpy(&steps, names.data + i * sizeof steps, sizeof steps);
		rc = read_one(path, steps, c, err);
		*found = rc == RC_OK;
		if (rc == RC_BADDATA || rc == RC_FAILED) {
			damaged(arg, err->text);
			rc = RC_OK;
		}
	}
	if (rc == RC_OK && n > 0 && !*found)
		rc = err_set(err, RC_BADDATA, "%s: none of the checkpoints can be read", path);
	buf_fini(&names);
	return rc;
}

void
checkpoint_fini(struct checkpoint *c)
{
	free(c->params);
	for (unsigned i = 0; i < CHECKPOINT_MAX_STATE; i++)
		free(c->state[i]);
	free(c->own.bytes);
	*c = (struct checkpoint){0};
}

/* ---- agreeing */

static enum rc
differs(const char *path, const char *what, double then, double now, struct err *err)
{
	return err_set(err, RC_INVAL, "%s: was made with %s %.9g; it is now %.9g", path, what, then,
		       now);
}

enum rc
checkpoint_agree(const struct checkpoint *c, const struct checkpoint_terms *now, const char *path,
		 struct err *err)
{
	const struct checkpoint_terms *then = &c->terms;

	if (strcmp(then->net, now->net) != 0 || then->nvalues != now->nvalues)
		return err_set(err, RC_INVAL,
			       "%s: was made with a different model: %.80s, not %.80s", path,
			       then->net, now->net);
	if (then->sync != now->sync)
		return err_set(err, RC_INVAL, "%s: was made with a different --sync", path);
	if (then->local_steps != now->local_steps)
		return differs(path, "--local-steps", (double)then->local_steps,
			       (double)now->local_steps, err);
	if (then->method != now->method)
		return err_set(
		    err, RC_INVAL,
		    "%s: was made with a different --compress or --outer, or other numbers of "
		    "theirs",
		    path);
	if (then->schedule != now->schedule)
		return err_set(err, RC_INVAL, "%s: was made with a different --lr-schedule", path);
	if (then->optimizer != now->optimizer)
		return err_set(err, RC_INVAL, "%s: was made with a different --optimizer", path);
	if (then->leaf != now->leaf)
		return then->leaf && now->leaf
			   ? differs(path, "--leaf", (double)then->leaf, (double)now->leaf, err)
			   : err_set(err, RC_INVAL, "%s: was made with%s --deterministic", path,
				     then->leaf ? "" : "out");
	if (then->batch != now->batch && !(then->batch && now->batch))
		return err_set(err, RC_INVAL, "%s: was made with%s --global-batch", path,
			       then->batch ? "out" : "");
	if (then->batch != now->batch)
		return differs(path, "--batch", (double)then->batch, (double)now->batch, err);
	if (then->augment != now->augment)
		return err_set(err, RC_INVAL, "%s: was made with --augment %s; it is now %s", path,
			       augment_name((uint32_t)then->augment),
			       augment_name((uint32_t)now->augment));
	if (then->seed != now->seed)
		return err_set(err, RC_INVAL,
			       "%s: was made with --seed %" PRIu64 "; it is now %" PRIu64, path,
			       then->seed, now->seed);
	if (then->lr != now->lr)
		return differs(path, "--lr", then->lr, now->lr, err);
	if (then->momentum != now->momentum)
		return differs(path, "--momentum", then->momentum, now->momentum, err);
	if (then->weight_decay != now->weight_decay)
		return differs(path, "--weight-decay", then->weight_decay, now->weight_decay, err);
	if (then->train_items != now->train_items || then->test_items != now->test_items ||
	    then->data_crc != now->data_crc)
		return err_set(err, RC_INVAL, "%s: was made with different --data", path);
	return RC_OK;
}
