/*
 * The helper: a process forked from the program, in which kernels run.
 *
 * Design notes. The main thread starts a thread for each queue that the program announces, and
 * joins them on stop; another thread ends the process when the program has ended. A queue's thread
 * waits until the device requests a work, runs it (helper_grid.c) and reports its end.
 * The program's own handlers, locks and connections are copies here, and nothing touches them.
 */
#include "cudart/helper_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cudart/fiber.h"
#include "cudart/memcheck.h"
#include "cudart/registry.h"
#include "cudart/space.h"

#define PARAMS 1024

struct worker {
	pthread_t thread;
	struct helper_shared *all;
	struct helper_queue *queue;
	struct cmdq_page *page;
	struct helper_runner *runner;
	const struct __gpusim_kernel *told; /* the name in the page belongs to it */
	void *args[PARAMS];
};

/* For the device's recorder. */
static void
tell_kernel(struct worker *w, const struct helper_work *work)
{
	struct cmdq_kernel *k = &w->page->ext[0].kernel;

	if (w->told != work->kernel)
		registry_name(work->kernel, k->name, sizeof k->name);
	w->told = work->kernel;
	memcpy(k->grid, work->grid, sizeof k->grid);
	k->threads = work->block[0] * work->block[1] * work->block[2];
	k->argbytes = work->nbytes;
}

/* ---- works */

static void
run_work(struct worker *w, const struct helper_work *work)
{
	const uint32_t *offset = (const uint32_t *)(const void *)(w->queue->args + work->at);
	uint32_t table = (work->nparams * (uint32_t)sizeof *offset + 15) / 16 * 16;

	for (uint32_t i = 0; i < work->nparams && i < PARAMS; i++)
		w->args[i] = w->queue->args + work->at + table + offset[i];
	helper_grid_run(w->runner, w->all, &w->page->ext[0], work, w->args);
	fflush(stdout);
}

/* Works come in order; the device skips some without requesting them. */
static void *
serve(void *arg)
{
	struct worker *w = arg;
	struct cmdq_extern *x = &w->page->ext[0];

	if (!(w->runner = helper_runner_new()))
		_exit(1);
	x->tid = (uint32_t)gettid();
	for (;;) {
		uint64_t done = atomic_load(&x->done), go;

		if (!cmdq_await(&x->go, &x->worker_sleeps, done + 1, &w->all->stop, UINT64_MAX))
			return NULL; /* to stop */
		go = atomic_load(&x->go);
		tell_kernel(w, &w->queue->work[go % HELPER_WORKS]);
		space_enter();
		run_work(w, &w->queue->work[go % HELPER_WORKS]);
		if (memcheck_on())
			memcheck_kernel(w->page->ext[0].kernel.name);
		space_leave();
		cmdq_publish(&x->done, &x->device_sleeps, go);
	}
}

/* ---- the process */

static _Noreturn void
refuse(struct helper_shared *s, const char *why)
{
	snprintf(s->text, sizeof s->text, "%s", why);
	cmdq_publish(&s->started, &s->program_sleeps, 2);
	_exit(1);
}

static void
take_signals(void)
{
	/* These signals are for the program; the helper ends with the program. */
	static const int theirs[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2};
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++)
		signal(theirs[i], SIG_IGN);
	helper_fault_take();
	sigemptyset(&none);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
}

static void *
watch_program(void *arg)
{
	struct pollfd p = {.fd = *(int *)arg, .events = POLLIN};

	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
	_exit(0);
}

static void *
watch_grids(void *arg)
{
	(void)arg;
	helper_grid_watch();
}

/* Map the device's memory at the addresses of the program's variables; the first helper copies
 * their initial values there. */
static void
map_data(struct helper_shared *s, int fd)
{
	for (uint32_t i = 0; i < s->ndata; i++) {
		struct helper_data *d = &s->data[i];
		size_t nbytes = (size_t)(d->after - d->first);

		if (!atomic_load(&d->filled) &&
		    pwrite(fd, d->first, nbytes, (off_t)d->file_offset) != (ssize_t)nbytes)
			refuse(s, "cannot initialise __device__ variables");
		atomic_store(&d->filled, 1);
		if (mmap(d->first, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
			 (off_t)d->file_offset) == MAP_FAILED)
			refuse(s, "cannot map __device__ variables");
	}
}

static void
begin_worker(struct helper_shared *s, struct helper_queue *q, struct worker **out, int fd)
{
	struct worker *w = calloc(1, sizeof *w);
	long page = sysconf(_SC_PAGESIZE);
	off_t from = (off_t)(q->page / (uint64_t)page * (uint64_t)page);
	size_t skip = (size_t)(q->page - (uint64_t)from);
	unsigned char *p =
	    mmap(NULL, sizeof *w->page + skip, PROT_READ | PROT_WRITE, MAP_SHARED, fd, from);

	if (!w || p == MAP_FAILED)
		_exit(1);
	w->all = s;
	w->queue = q;
	w->page = (struct cmdq_page *)(void *)(p + skip);
	if (w->page->magic != CMDQ_MAGIC || pthread_create(&w->thread, NULL, serve, w) != 0)
		_exit(1);
	*out = w;
}

void
helper_main(struct helper_shared *s, int parent)
{
	struct worker *workers[HELPER_QUEUES] = {0};
	struct space_slot *slot = &space_shared()->slot[s->ordinal];
	struct err err = {0};
	pthread_t t;
	int fd;

	take_signals();
	__fpurge(stdout); /* the program's own text */
	fd = open(s->path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		refuse(s, "cannot open the device's memory");
	if (space_helper_begin(s->ordinal, &err) != RC_OK)
		refuse(s, err.text);
	if (pthread_create(&t, NULL, watch_program, &parent) != 0 ||
	    pthread_create(&t, NULL, watch_grids, NULL) != 0)
		refuse(s, "cannot start a thread to watch the program");
	map_data(s, fd);
	cmdq_publish(&s->started, &s->program_sleeps, 1);
	for (uint64_t seen = 0; !atomic_load(&s->stop);) {
		seen = atomic_load(&slot->changes);
		for (int i = 0; i < HELPER_QUEUES; i++)
			if (!workers[i] && atomic_load(&s->queue[i].used))
				begin_worker(s, &s->queue[i], &workers[i], fd);
		space_sync();
		cmdq_await(&slot->changes, &slot->helper_sleeps, seen + 1, &s->stop, UINT64_MAX);
	}
	for (int i = 0; i < HELPER_QUEUES; i++)
		if (workers[i])
			pthread_join(workers[i]->thread, NULL);
	_exit(0);
}
