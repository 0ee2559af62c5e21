/*
 * The program's side of helpers.
 *
 * Design notes. A device has one helper at a time, made under the device's lock. It is a grandchild, so
 * that a program that waits for its children never sees it. It dies with the program, whose pidfd it polls.
 * The program notices its death by a pipe whose other end only the helper holds; a thread reads it, and
 * fails all pending works, so that no queue waits for a dead helper. Later launches fail.
 *
 * A queue's works have one writer at a time, under the queue's lock: work n is written before its
 * command is appended, because the device may request it at once. Its space is free again when the
 * device has passed the command, run or not.
 */
#include "cudart/helper_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "cudart/cuda_impl.h"
#include "cudart/registry.h"
#include "mem/devmem_file.h"

struct side {
	pthread_mutex_t lock;
	struct cmdq *q; /* NULL: free */
	uint64_t next;	/* number of the next work */
	uint64_t first; /* the oldest that may be pending */
	uint64_t position[HELPER_WORKS];
	uint64_t end[HELPER_WORKS]; /* end of its arguments, on the scale of `filled` */
	uint64_t filled;	    /* bytes of arguments so far */
};

struct helper {
	pthread_mutex_t lock;
	struct helper_shared *shared; /* NULL: never started */
	unsigned long known;	      /* registry_count() when it was forked */
	_Atomic uint32_t dead;	      /* it has ended; its works fail */
	bool runs;
	int life; /* the pipe's end */
	pthread_t watch;
	struct side side[HELPER_QUEUES];
};

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct helper **helpers; /* by ordinal */

static struct helper *
new_helper(void)
{
	struct helper *h = calloc(1, sizeof *h);

	if (!h)
		return NULL;
	pthread_mutex_init(&h->lock, NULL);
	for (int i = 0; i < HELPER_QUEUES; i++)
		pthread_mutex_init(&h->side[i].lock, NULL);
	return h;
}

/* NULL: out of memory. */
static struct helper *
helper_of(int ordinal)
{
	struct helper *h = NULL;

	pthread_mutex_lock(&all_lock);
	if (!helpers)
		helpers = calloc((size_t)cuda_device_count(), sizeof *helpers);
	if (helpers) {
		if (!helpers[ordinal])
			helpers[ordinal] = new_helper();
		h = helpers[ordinal];
	}
	pthread_mutex_unlock(&all_lock);
	return h;
}

static enum rc
no_memory(struct err *err)
{
	return err_set(err, RC_NOMEM, "out of memory");
}

/* ---- its death */

/* Fail the work that the device waits for, if there is one. */
static void
fail_work(struct side *s, const char *sentence)
{
	struct cmdq_extern *x = &cmdq_page(s->q)->ext[0];
	uint64_t go = atomic_load(&x->go);

	if (go <= atomic_load(&x->done))
		return;
	snprintf(x->text, sizeof x->text, "%s", sentence);
	atomic_store(&x->rc, GPUSIM_FAILED);
	cmdq_publish(&x->done, &x->device_sleeps, go);
}

/* True: some works are still pending. */
static bool
fail_all(struct helper *h, const char *sentence)
{
	bool more = false;

	for (int i = 0; i < HELPER_QUEUES; i++) {
		struct side *s = &h->side[i];

		pthread_mutex_lock(&s->lock);
		if (s->q && s->next > s->first) {
			uint64_t last = s->position[(s->next - 1) % HELPER_WORKS];

			if (!cmdq_done(s->q, last) && !atomic_load(&cmdq_page(s->q)->closed)) {
				fail_work(s, sentence);
				more = true;
			}
		}
		pthread_mutex_unlock(&s->lock);
	}
	return more;
}

static void *
watch(void *arg)
{
	struct helper *h = arg;
	struct timespec nap = {.tv_nsec = 2 * NS_PER_MS};
	uint32_t none = 0;
	char c;

	while (read(h->life, &c, 1) < 0 && errno == EINTR)
		;
	space_helper_ended(h->shared->ordinal);
	if (!atomic_load(&h->shared->stop)) {
		atomic_store(&h->dead, 1);
		atomic_compare_exchange_strong(&h->shared->error, &none, cudaErrorLaunchFailure);
		cmdq_publish(&h->shared->started, &h->shared->program_sleeps, 2);
		while (fail_all(
		    h, "the helper process of the device, which runs its kernels, has ended"))
			nanosleep(&nap, NULL);
	}
	return NULL;
}

/* ---- its birth */

#define STUCK_MS    UINT64_C(300000)
#define THREADS_MAX 1024

/* The threads for the blocks of a grid: $GPUSIM_THREADS, else the cores, divided by the host's devices. */
static uint32_t
threads(void)
{
	const char *s = getenv("GPUSIM_THREADS");
	long fair = sysconf(_SC_NPROCESSORS_ONLN) / cuda_device_count();
	struct err err = {0};
	uint32_t n;

	if (s && *s) {
		if (parse_u32(s, 1, THREADS_MAX, &n, &err) == RC_OK)
			return n;
		err_prefix(&err, "GPUSIM_THREADS");
		cuda_tell(err.text);
	}
	return fair < 1 ? 1 : fair > THREADS_MAX ? THREADS_MAX : (uint32_t)fair;
}

static enum rc
make_shared(struct helper *h, int ordinal, struct err *err)
{
	void *p;

	if (h->shared)
		return RC_OK;
	p = mmap(NULL, sizeof *h->shared, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return no_memory(err);
	h->shared = p;
	h->shared->ordinal = ordinal;
	atomic_store(&cuda_device_at(ordinal)->kernel_error, &h->shared->error);
	snprintf(h->shared->path, sizeof h->shared->path, "%s",
		 cuda_device_at(ordinal)->space->path);
	h->shared->threads = threads();
	h->shared->stuck_ns =
	    (cuda_timeout_ms() ? cuda_timeout_ms() / 4 * 3 : STUCK_MS) * NS_PER_MS;
	return RC_OK;
}

/* Device memory for a module's variables. */
static enum rc
place_data(int ordinal, const struct registry_data *m, struct helper_data *out, struct err *err)
{
	struct memory memory;
	cudaError_t e =
	    memory_for_variables(cuda_device_at(ordinal), (size_t)(m->after - m->first), &memory);

	if (e != cudaSuccess)
		return err_set(err, RC_NOMEM, "__device__ variables: %s", cudaGetErrorString(e));
	*out = (struct helper_data){.first = m->first,
				    .after = m->after,
				    .on_device = memory.base,
				    .file_offset = devmem_file_offset(memory.addr)};
	return RC_OK;
}

static enum rc
place_all_data(struct helper *h, int ordinal, struct err *err)
{
	struct helper_shared *s = h->shared;
	struct registry_data m;
	enum rc rc = RC_OK;

	for (; rc == RC_OK && s->ndata < HELPER_DATA && registry_data(s->ndata, &m); s->ndata++) {
		rc = place_data(ordinal, &m, &s->data[s->ndata], err);
		if (rc != RC_OK)
			break;
	}
	return rc;
}

/* In the grandchild. Only the files that it needs stay open: an open copy of another could keep a
 * peer of the program waiting. */
static _Noreturn void
begin_helper(struct helper_shared *s, int parent, int life, int output)
{
	int null = open("/dev/null", O_RDONLY);

	/* Above the numbers that they are moved to. */
	parent = fcntl(parent, F_DUPFD, 10);
	life = fcntl(life, F_DUPFD, 10);
	dup2(null, 0);
	dup2(output, 1);
	dup2(parent, 3);
	dup2(life, 4);
	syscall(SYS_close_range, 5u, ~0u, 0u);
	helper_main(s, 3);
}

/* Fork twice, and reap the first child. */
static enum rc
fork_helper(struct helper_shared *s, int parent, int life[2], int output, struct err *err)
{
	sigset_t all, before;
	pid_t pid;
	int status;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = fork();
	if (pid == 0) {
		if (fork() == 0)
			begin_helper(s, parent, life[1], output);
		_exit(0);
	}
	if (pid > 0)
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return pid > 0 ? RC_OK
		       : err_set(err, RC_FAILED, "cannot start the helper process for kernels: %s",
				 strerror(errno));
}

static enum rc
await_start(struct helper *h, struct err *err)
{
	struct helper_shared *s = h->shared;

	cmdq_await(&s->started, &s->program_sleeps, 1, &h->dead, UINT64_MAX);
	if (atomic_load(&s->started) == 1 && !atomic_load(&h->dead))
		return RC_OK;
	return err_set(err, RC_FAILED, "%.*s", (int)sizeof s->text - 1,
		       *s->text ? s->text : "the helper process could not start");
}

/* Lock held. */
static enum rc
begin(struct helper *h, int ordinal, struct err *err)
{
	int parent = -1, life[2] = {-1, -1}, output = helper_output(err);
	struct helper_shared *s;
	enum rc rc = output < 0 ? RC_FAILED : make_shared(h, ordinal, err);

	if (rc == RC_OK)
		rc = place_all_data(h, ordinal, err);
	if (rc != RC_OK)
		return rc;
	s = h->shared;
	atomic_store(&s->stop, 0);
	atomic_store(&s->started, 0);
	s->text[0] = '\0';
	parent = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (parent < 0 || pipe2(life, O_CLOEXEC) != 0)
		rc = err_set(err, RC_FAILED, "cannot start the helper process for kernels: %s",
			     strerror(errno));
	if (rc == RC_OK) {
		h->known = registry_count();
		rc = fork_helper(s, parent, life, output, err);
	}
	if (parent >= 0)
		close(parent);
	if (life[1] >= 0)
		close(life[1]);
	h->life = life[0];
	atomic_store(&h->dead, 0);
	if (rc == RC_OK && pthread_create(&h->watch, NULL, watch, h) != 0)
		rc = err_set(err, RC_FAILED, "cannot start a thread to watch the helper process");
	if (rc == RC_OK) {
		h->runs = true;
		rc = await_start(h, err);
	}
	return rc;
}

/* Lock held. The helper ends after its current work. */
static void
stop(struct helper *h)
{
	if (!h->runs)
		return;
	atomic_store(&h->shared->stop, 1);
	space_wake(h->shared->ordinal);
	pthread_join(h->watch, NULL);
	close(h->life);
	h->runs = false;
}

enum rc
helper_start(int ordinal, struct err *err)
{
	struct helper *h = helper_of(ordinal);
	enum rc rc = RC_OK;

	if (!h)
		return no_memory(err);
	pthread_mutex_lock(&h->lock);
	if (atomic_load(&h->dead)) {
		rc = err_set(err, RC_FAILED,
			     "the helper process that ran kernels of device %d has ended", ordinal);
	} else if (!h->runs) {
		rc = begin(h, ordinal, err);
	} else if (h->known != registry_count()) {
		gpusim_cuda_drain(ordinal, 0);
		stop(h);
		rc = begin(h, ordinal, err);
	}
	pthread_mutex_unlock(&h->lock);
	return rc;
}

/* ---- enqueueing */

/* Find the queue's slot; a new queue takes a free slot, and the helper is notified. */
static struct side *
side_of(struct helper *h, struct cmdq *q, unsigned *at)
{
	struct side *found = NULL;

	pthread_mutex_lock(&all_lock);
	for (unsigned i = 0; i < HELPER_QUEUES && !found; i++) {
		struct side *s = &h->side[i];

		if (s->q && s->q != q)
			continue;
		*at = i;
		found = s;
		if (!s->q) {
			s->q = q;
			s->next = s->first = 1;
			h->shared->queue[i].page = cmdq_offset(q);
			atomic_store(&h->shared->queue[i].used, 1);
			space_wake(h->shared->ordinal);
		}
	}
	pthread_mutex_unlock(&all_lock);
	return found;
}

static bool
has_room(struct side *s, uint64_t nbytes)
{
	uint64_t freed;

	while (s->first < s->next && cmdq_done(s->q, s->position[s->first % HELPER_WORKS]))
		s->first++;
	freed = s->first == 1 ? 0 : s->end[(s->first - 1) % HELPER_WORKS];
	return s->next - s->first < HELPER_WORKS - 1 && s->filled + nbytes - freed <= HELPER_ARGS;
}

/* Lock held. Reserve nbytes of contiguous space at *at. */
static enum rc
make_room(struct helper *h, struct side *s, uint64_t nbytes, uint32_t *at, struct err *err)
{
	uint64_t skip = HELPER_ARGS - s->filled % HELPER_ARGS;

	skip = skip < nbytes ? skip : 0;
	while (!has_room(s, nbytes + skip)) {
		if (atomic_load(&h->dead) || atomic_load(&cmdq_page(s->q)->closed))
			return err_set(err, RC_UNREACHABLE, "the device or its helper has ended");
		cmdq_wait(s->q, s->position[s->first % HELPER_WORKS], 100);
	}
	s->filled += skip;
	*at = (uint32_t)(s->filled % HELPER_ARGS);
	s->filled += nbytes;
	return RC_OK;
}

static uint32_t
round16(uint32_t n)
{
	return (n + 15) / 16 * 16;
}

static void
write_work(struct helper_queue *hq, uint64_t n, uint32_t at, const struct helper_launch *l)
{
	struct helper_work *w = &hq->work[n % HELPER_WORKS];
	uint32_t table = round16(l->nparams * (uint32_t)sizeof *l->offset);

	*w = (struct helper_work){.run = l->kernel->run,
				  .kernel = l->kernel,
				  .shared = l->shared,
				  .resident = l->resident,
				  .cooperative = l->cooperative,
				  .host_param = l->host_param,
				  .nparams = l->nparams,
				  .nbytes = l->nbytes,
				  .at = at};
	memcpy(w->grid, l->grid, sizeof w->grid);
	memcpy(w->block, l->block, sizeof w->block);
	if (l->nparams) {
		memcpy(hq->args + at, l->offset, l->nparams * sizeof *l->offset);
		memcpy(hq->args + at + table, l->args, l->nbytes);
	}
}

enum rc
helper_enqueue(int ordinal, struct cmdq *q, const struct helper_launch *l, struct err *err)
{
	struct helper *h = helper_of(ordinal);
	uint32_t nbytes =
	    round16(l->nparams * (uint32_t)sizeof *l->offset) + round16(l->nbytes) + 16;
	unsigned i = 0;
	struct side *s = h ? side_of(h, q, &i) : NULL;
	uint32_t at = 0;
	uint64_t n;
	enum rc rc;

	if (!s)
		return err_set(err, RC_BUSY, "kernels run on more than %d streams of a device",
			       HELPER_QUEUES);
	pthread_mutex_lock(&s->lock);
	rc = atomic_load(&h->dead)
		 ? err_set(err, RC_FAILED, "the helper process that ran kernels has ended")
		 : make_room(h, s, nbytes, &at, err);
	if (rc == RC_OK) {
		write_work(&h->shared->queue[i], s->next, at, l);
		s->end[s->next % HELPER_WORKS] = s->filled;
		rc = (enum rc)cmdq_append_extern(q, 0, &n, &s->position[s->next % HELPER_WORKS]);
		if (rc != RC_OK)
			err_set(err, rc, "%s", gpusim_error());
		else if (n != s->next)
			rc = err_set(err, RC_INTERNAL,
				     "internal error: a launch has a wrong number");
		s->next += rc == RC_OK;
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

/* ---- variables, errors, the end */

enum rc
helper_symbol(int ordinal, const void *symbol, void **out, struct err *err)
{
	enum rc rc = helper_start(ordinal, err);
	struct helper *h = helper_of(ordinal);
	struct registry_data m;

	if (rc != RC_OK)
		return rc;
	for (unsigned i = 0; registry_data(i, &m) && i < h->shared->ndata; i++)
		if ((uintptr_t)symbol - (uintptr_t)m.begin < (size_t)(m.end - m.begin)) {
			*out = h->shared->data[i].on_device +
			       ((const unsigned char *)symbol - m.first);
			return RC_OK;
		}
	return err_set(err, RC_NOTFOUND, "not a __device__ or __constant__ variable");
}

int
helper_error(int ordinal)
{
	struct helper *h;
	int e = 0;

	pthread_mutex_lock(&all_lock);
	h = helpers ? helpers[ordinal] : NULL;
	if (h && h->shared)
		e = (int)atomic_load(&h->shared->error);
	if (h && atomic_load(&h->dead) && !e)
		e = cudaErrorLaunchFailure;
	pthread_mutex_unlock(&all_lock);
	return e;
}

void
helper_reset(int ordinal)
{
	struct helper *h;

	pthread_mutex_lock(&all_lock);
	h = helpers ? helpers[ordinal] : NULL;
	pthread_mutex_unlock(&all_lock);
	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	stop(h);
	if (h->shared) {
		h->shared->ndata = 0;
		atomic_store(&h->shared->error, 0);
	}
	atomic_store(&h->dead, 0);
	pthread_mutex_unlock(&h->lock);
}
