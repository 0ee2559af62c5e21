/*
 * Design notes. Two threads: one claims numbers, so that a claim never waits for a report that is being
 * written; the other writes. The state machine's thread waits for a claim, at most CLAIM_MS: a folder on a
 * server that does not answer must not stop the coordinator. A later claim is released. `lock` guards the
 * present claim, the queue of reports, and the claimed files.
 *
 * A number is claimed by creating its file, which fails if another coordinator has created it, and by a
 * lock on the file while it is empty. So an empty file without a lock was left by a coordinator that was
 * killed.
 */
#include "reports.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "statedir.h"

#define CLAIM_MS    250
#define GATHER_MS   3000 /* for devices on other hosts to answer */
#define CLAIMS	    64	 /* not yet written */
#define NUMBER_MOST UINT64_C(999999999999)
#define STALE_SECS  60

struct claim {
	uint64_t number; /* 0: none */
	int fd;
};

struct job {
	struct job *next;
	GpuSim__Report *what;
};

struct reports {
	char dir[512], shown[256];
	struct observer *observer;
	struct recorder *recorder;
	pthread_t claimer, writer;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool stop;
	bool asked, answered; /* for a claim */
	struct claim claim[CLAIMS];
	uint64_t newest; /* the answer */
	struct job *first, **tail;
	bool writing;
	char said[256]; /* the last problem logged */
};

static void
say(struct reports *r, const char *text)
{
	bool again;

	pthread_mutex_lock(&r->lock);
	again = strcmp(r->said, text) == 0;
	snprintf(r->said, sizeof r->said, "%s", text);
	pthread_mutex_unlock(&r->lock);
	if (!again)
		log_line(LOG_WARN, "cannot write a failure report: %s", text);
}

static bool
path_of(const struct reports *r, uint64_t number, char *out, size_t room)
{
	return snprintf(out, room, "%s/report.%" PRIu64, r->dir, number) < (int)room;
}

/* ---- the folder */

/* The number of a report's file; 0: not a report. */
static uint64_t
number_of(const char *name)
{
	char *end;
	uint64_t n;

	if (strncmp(name, "report.", 7) != 0 || name[7] < '1' || name[7] > '9')
		return 0;
	n = strtoull(name + 7, &end, 10);
	return *end == '\0' && n <= NUMBER_MOST ? n : 0;
}

/* Remove a file that its coordinator, which was killed, never filled. */
static void
remove_stale(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0 &&
	    time(NULL) - st.st_mtime > STALE_SECS && flock(fd, LOCK_EX | LOCK_NB) == 0)
		unlink(path);
	close(fd);
}

typedef void each_fn(struct reports *r, uint64_t number, void *arg);

static bool
each_report(struct reports *r, each_fn *fn, void *arg)
{
	DIR *d = opendir(r->dir);
	const struct dirent *e;

	while (d && (e = readdir(d)))
		if (number_of(e->d_name))
			fn(r, number_of(e->d_name), arg);
	if (d)
		closedir(d);
	return d;
}

static void
note_newest(struct reports *r, uint64_t number, void *arg)
{
	uint64_t *newest = arg;

	(void)r;
	if (number > *newest)
		*newest = number;
}

static void
sweep_one(struct reports *r, uint64_t number, void *arg)
{
	char path[600];

	(void)arg;
	if (path_of(r, number, path, sizeof path))
		remove_stale(path);
}

/* ---- removing old reports */

struct kept {
	uint64_t number[REPORTS_KEPT]; /* the newest ones, in descending order */
	size_t n;
};

static void
keep_newest(struct reports *r, uint64_t number, void *arg)
{
	struct kept *k = arg;
	size_t i = 0;

	(void)r;
	while (i < k->n && k->number[i] > number)
		i++;
	if (i == REPORTS_KEPT)
		return;
	if (k->n < REPORTS_KEPT)
		k->n++;
	memmove(&k->number[i + 1], &k->number[i], (k->n - i - 1) * sizeof *k->number);
	k->number[i] = number;
}

static void
remove_older(struct reports *r, uint64_t number, void *arg)
{
	const struct kept *k = arg;
	char path[600];

	if (k->n == REPORTS_KEPT && number < k->number[k->n - 1] &&
	    path_of(r, number, path, sizeof path))
		unlink(path);
}

static void
remove_old(struct reports *r)
{
	struct kept k = {.n = 0};

	if (each_report(r, keep_newest, &k))
		each_report(r, remove_older, &k);
}

/* ---- claims */

static uint64_t
make_file(struct reports *r, int *fd, struct err *err)
{
	uint64_t newest = 0;
	char path[600];

	statedir_make(r->dir);
	if (!each_report(r, note_newest, &newest)) {
		err_set(err, RC_FAILED, "%s: %s", r->dir, strerror(errno));
		return 0;
	}
	each_report(r, sweep_one, NULL);
	for (unsigned tries = 0; tries < 1000 && ++newest < NUMBER_MOST; tries++) {
		if (!path_of(r, newest, path, sizeof path))
			break;
		*fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (*fd >= 0) {
			flock(*fd, LOCK_EX | LOCK_NB);
			return newest;
		}
		if (errno != EEXIST)
			break;
	}
	err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
	return 0;
}

/* Lock held. Find the entry of a claim; 0: a free entry. */
static struct claim *
claim_at(struct reports *r, uint64_t number)
{
	for (size_t i = 0; i < CLAIMS; i++)
		if (r->claim[i].number == number)
			return &r->claim[i];
	return NULL;
}

/* Release a claim: the report is written, or never will be. */
static void
drop_claim(struct reports *r, uint64_t number, bool remove)
{
	struct claim *c;
	char path[600];

	if (remove && path_of(r, number, path, sizeof path))
		unlink(path);
	pthread_mutex_lock(&r->lock);
	c = claim_at(r, number);
	if (c) {
		close(c->fd);
		*c = (struct claim){0};
	}
	pthread_mutex_unlock(&r->lock);
}

static void
claim_one(struct reports *r)
{
	struct err err = {0};
	uint64_t number;
	struct claim *c;
	bool late;
	int fd = -1;

	number = make_file(r, &fd, &err);
	if (!number)
		say(r, err.text);
	pthread_mutex_lock(&r->lock);
	late = !r->asked;
	c = number ? claim_at(r, 0) : NULL;
	if (c)
		*c = (struct claim){number, fd};
	r->newest = c ? number : 0;
	r->answered = true;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
	if (number && !c)
		close(fd);
	if (number && (late || !c))
		drop_claim(r, number, true);
}

static void *
claim_all(void *arg)
{
	struct reports *r = arg;

	pthread_mutex_lock(&r->lock);
	while (!r->stop) {
		if (r->asked && !r->answered) {
			pthread_mutex_unlock(&r->lock);
			claim_one(r);
			pthread_mutex_lock(&r->lock);
		} else {
			pthread_cond_wait(&r->changed, &r->lock);
		}
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

uint64_t
reports_claim(void *arg)
{
	struct timespec ts = deadline_timespec(deadline_in_ms(CLAIM_MS));
	struct reports *r = arg;
	uint64_t number = 0;

	if (!r)
		return 0;
	pthread_mutex_lock(&r->lock);
	r->asked = true;
	r->answered = false;
	pthread_cond_broadcast(&r->changed);
	while (!r->answered && !r->stop &&
	       pthread_cond_clockwait(&r->changed, &r->lock, CLOCK_MONOTONIC, &ts) == 0)
		;
	if (r->answered)
		number = r->newest;
	r->asked = false;
	pthread_mutex_unlock(&r->lock);
	return number;
}

/* ---- reports */

static enum rc
write_one(struct reports *r, const GpuSim__Report *what, const char *path, struct err *err)
{
	struct buf bytes = {0};
	struct file_new f;
	enum rc rc = observe_report(r->observer, what, deadline_in_ms(GATHER_MS), &bytes, err);

	if (rc == RC_OK)
		rc = file_new_open(path, &f, err);
	if (rc == RC_OK) /* only for the owner, like the recorders that it copies */
		rc = file_new_close(
		    &f, fchmod(f.fd, 0600) == 0 && file_write(f.fd, bytes.data, bytes.len), err);
	buf_fini(&bytes);
	return rc;
}

static void
do_job(struct reports *r, const GpuSim__Report *what)
{
	struct err err = {0};
	char path[600];
	enum rc rc;

	if (!path_of(r, what->number, path, sizeof path))
		return;
	rc = write_one(r, what, path, &err);
	if (rc != RC_OK)
		say(r, err.text);
	else
		log_line(LOG_INFO, "comm %" PRIu64 " has failed: %s", what->commid, path);
	recorder_report(r->recorder, what->number, what->commid, rc == RC_OK ? path : err.text, rc);
	drop_claim(r, what->number, rc != RC_OK);
	if (rc == RC_OK)
		remove_old(r);
}

static void
job_free(struct job *j)
{
	gpu_sim__report__free_unpacked(j->what, NULL);
	free(j);
}

static void *
write_all(void *arg)
{
	struct reports *r = arg;
	struct job *j;

	pthread_mutex_lock(&r->lock);
	while (!r->stop) {
		j = r->first;
		if (!j) {
			pthread_cond_wait(&r->changed, &r->lock);
			continue;
		}
		r->first = j->next;
		if (!r->first)
			r->tail = &r->first;
		r->writing = true;
		pthread_mutex_unlock(&r->lock);
		do_job(r, j->what);
		job_free(j);
		pthread_mutex_lock(&r->lock);
		r->writing = false;
		pthread_cond_broadcast(&r->changed);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

void
reports_write(struct reports *r, const struct coord_action *a)
{
	struct job *j = r ? calloc(1, sizeof *j) : NULL;

	if (!j)
		return; /* the file stays empty, and is removed when this process ends */
	j->what = gpu_sim__report__unpack(NULL, a->body.len, (const uint8_t *)a->body.data);
	if (!j->what) {
		free(j);
		return;
	}
	pthread_mutex_lock(&r->lock);
	*r->tail = j;
	r->tail = &j->next;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
}

/* ---- */

static bool
absolute(const char *dir, char *out, size_t room)
{
	char here[512];

	if (*dir == '/')
		return snprintf(out, room, "%s", dir) < (int)room;
	return getcwd(here, sizeof here) && snprintf(out, room, "%s/%s", here, dir) < (int)room;
}

enum rc
reports_new(const char *dir, struct observer *observer, struct recorder *recorder,
	    struct reports **out, struct err *err)
{
	struct reports *r;

	if (dir && strcmp(dir, "none") == 0)
		return RC_OK;
	r = calloc(1, sizeof *r);
	if (!r)
		return err_set(err, RC_NOMEM, "out of memory");
	if (dir ? !absolute(dir, r->dir, sizeof r->dir) : !statedir_path(r->dir, sizeof r->dir)) {
		free(r);
		return dir ? err_set(err, RC_INVAL, "--report-dir: longer than %zu bytes",
				     sizeof r->dir - 1)
			   : RC_OK;
	}
	statedir_show(r->dir, r->shown, sizeof r->shown);
	r->observer = observer;
	r->recorder = recorder;
	r->tail = &r->first;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->changed, NULL);
	if (pthread_create(&r->claimer, NULL, claim_all, r) != 0)
		goto no_claimer;
	if (pthread_create(&r->writer, NULL, write_all, r) != 0)
		goto no_writer;
	*out = r;
	return RC_OK;

no_writer:
	pthread_mutex_lock(&r->lock);
	r->stop = true;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
	pthread_join(r->claimer, NULL);
no_claimer:
	pthread_cond_destroy(&r->changed);
	pthread_mutex_destroy(&r->lock);
	free(r);
	return err_set(err, RC_NOMEM, "cannot start the threads for reports");
}

const char *
reports_dir(const struct reports *r)
{
	return r ? r->shown : "";
}

void
reports_finish(struct reports *r, uint32_t timeout_ms)
{
	struct timespec ts = deadline_timespec(deadline_in_ms(timeout_ms));

	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	while ((r->first || r->writing) &&
	       pthread_cond_clockwait(&r->changed, &r->lock, CLOCK_MONOTONIC, &ts) == 0)
		;
	pthread_mutex_unlock(&r->lock);
}

void
reports_free(struct reports *r)
{
	struct job *next;

	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->stop = true;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
	pthread_join(r->claimer, NULL);
	pthread_join(r->writer, NULL);
	for (struct job *j = r->first; j; j = next) {
		next = j->next;
		job_free(j);
	}
	for (size_t i = 0; i < CLAIMS; i++)
		if (r->claim[i].number)
			drop_claim(r, r->claim[i].number, true);
	pthread_cond_destroy(&r->changed);
	pthread_mutex_destroy(&r->lock);
	free(r);
}
