/*
 * Design notes
 *
 * Observing the world takes requests to ourselves and reading the recorders of all devices, so the server's
 * thread must not do it. It queues asks in a list; our thread takes the whole list, observes once, and
 * answers all of them, so any number of clients costs one observation at a time. `lock` guards the list and
 * the flag. Our thread owns the sums.
 */
#include "measure.h"

#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "view/metrics.h"

#define PATIENCE_MS 4000 /* of a look; a scrape times out after 10 s by default */

struct ask {
	struct http_ask *http;
	enum metrics_form form;
};

struct measure {
	struct observer *observer;
	struct metrics *sums;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t came;
	bool ends;
	size_t n;
	struct ask ask[HTTP_SERVER_MAX_CONNS];
};

/* ---- this process */

static uint64_t
count_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	const struct dirent *e;
	uint64_t n = 0;

	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return n ? n - 1 : 0; /* without the folder itself */
}

static uint64_t
resident_bytes(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	uint64_t pages = 0;

	if (f && fscanf(f, "%*u %" SCNu64, &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static struct metrics_process
look_at_self(void)
{
	struct metrics_process p = {.open_fds = count_files(), .resident_bytes = resident_bytes()};
	struct timespec cpu;
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY)
		p.max_fds = files.rlim_cur;
	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) == 0)
		p.cpu_ns = (uint64_t)cpu.tv_sec * NS_PER_SEC + (uint64_t)cpu.tv_nsec;
	return p;
}

/* ---- answers */

/* Reply 200 with the text, which the answer then owns; or 503 with the reason. */
static void
reply(const struct ask *a, struct buf *text, const struct err *err)
{
	struct http_answer out;

	if (err->rc == RC_OK) {
		http_answer_text(&out, 200, metrics_type(a->form), text);
	} else {
		buf_fini(text);
		http_answer_error(&out, 503, err->text);
	}
	http_reply(a->http, &out);
}

static void
answer_all(struct measure *m, const struct ask *ask, size_t n)
{
	struct metrics_process self = look_at_self();
	struct world *w = NULL;
	struct err err = {0};
	enum rc rc = observe_world(m->observer, 0, deadline_in_ms(PATIENCE_MS), &w, &err);

	for (size_t i = 0; i < n; i++) {
		struct buf text = {0};

		if (rc == RC_OK)
			metrics_text(m->sums, w, &self, ask[i].form, &text, &err);
		reply(&ask[i], &text, &err);
	}
	world_free(w);
}

static void *
run(void *arg)
{
	struct measure *m = arg;
	struct ask ask[HTTP_SERVER_MAX_CONNS];
	size_t n = 1;

	while (n) {
		pthread_mutex_lock(&m->lock);
		while (!m->n && !m->ends)
			pthread_cond_wait(&m->came, &m->lock);
		n = m->n;
		memcpy(ask, m->ask, n * sizeof *ask);
		m->n = 0;
		pthread_mutex_unlock(&m->lock);
		if (n)
			answer_all(m, ask, n);
	}
	return NULL;
}

void
measure_answer(struct measure *m, struct http_ask *ask, struct http_answer *out)
{
	struct ask a = {ask, metrics_form_of(http_ask_header(ask, "Accept"))};

	pthread_mutex_lock(&m->lock);
	out->status = m->ends || m->n == HTTP_SERVER_MAX_CONNS ? 503 : HTTP_LATER;
	out->nbytes = 0;
	if (out->status == HTTP_LATER) {
		m->ask[m->n++] = a;
		pthread_cond_signal(&m->came);
	}
	pthread_mutex_unlock(&m->lock);
}

enum rc
measure_start(struct observer *observer, struct measure **out, struct err *err)
{
	struct measure *m = calloc(1, sizeof *m);

	if (!m || !(m->sums = metrics_new())) {
		free(m);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	m->observer = observer;
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->came, NULL);
	if (pthread_create(&m->thread, NULL, run, m) != 0) {
		m->ends = true;
		measure_free(m);
		return err_set(err, RC_FAILED, "cannot start the thread for /metrics");
	}
	*out = m;
	return RC_OK;
}

void
measure_stop(struct measure *m)
{
	if (!m)
		return;
	pthread_mutex_lock(&m->lock);
	m->ends = true;
	pthread_cond_signal(&m->came);
	pthread_mutex_unlock(&m->lock);
	pthread_join(m->thread, NULL);
}

void
measure_free(struct measure *m)
{
	if (!m)
		return;
	metrics_free(m->sums);
	pthread_cond_destroy(&m->came);
	pthread_mutex_destroy(&m->lock);
	free(m);
}
