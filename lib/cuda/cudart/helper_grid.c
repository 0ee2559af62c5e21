/*
 * Runs grids: the blocks of one are divided among system threads.
 *
 * Design notes. A queue's thread takes part in each of its grids. Other threads are made when they are first needed,
 * wait in one list while they are idle, and belong to one grid at a time; all of this is under one lock, which nobody
 * holds while blocks run. A small grid runs on the queue's thread alone: waking another costs more than it gains. A
 * fault ends the grid: the thread that had it first writes the sentence, and the others begin no further block.
 */
#include "cudart/helper_impl.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "cudart/cuda_impl.h"
#include "cudart/fiber.h"
#include "mem/cmdq.h"

#define SMALL	   8192 /* threads of a grid */
#define WATCH_NS   (100 * NS_PER_MS)
#define SPARE_NICE 10 /* of threads beyond those that a grid may have */
#define CALM	   2  /* looks without progress before further blocks begin */

/* A grid that runs. */
struct run {
	struct fiber_grid grid;
	struct fiber_team team;
	const struct helper_work *work;
	struct helper_shared *all;
	struct cmdq_extern *x;
	_Atomic uint32_t failed;
	/* Guarded by the lock. */
	struct run *next;
	uint64_t nblocks, joined; /* runners besides the queue's thread */
	uint64_t seen, seen_ns;	  /* blocks that had ended when one had lately; when that was */
	unsigned calm;
	_Atomic uint32_t stuck; /* its threads have been told to end */
};

struct helper_runner {
	struct helper_fault fault;
	struct fiber_gang *gang;
	pthread_t thread;
	struct run *run;	    /* the next */
	_Atomic(struct run *) busy; /* whose blocks it runs; NULL: none */
	struct helper_runner *next, *all;
	pthread_cond_t go;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t left = PTHREAD_COND_INITIALIZER; /* a thread has left a grid */
static struct helper_runner *idle, *all_runners;
static struct run *runs;

struct helper_runner *
helper_runner_new(void)
{
	struct helper_runner *r = calloc(1, sizeof *r);

	if (!r || !helper_fault_stack() || !(r->gang = fiber_gang_new())) {
		free(r);
		return NULL;
	}
	r->thread = pthread_self();
	pthread_cond_init(&r->go, NULL);
	r->fault.gang = r->gang;
	__gpusim_inside = 1;
	pthread_mutex_lock(&lock);
	r->all = all_runners;
	all_runners = r;
	pthread_mutex_unlock(&lock);
	return r;
}

/* ---- one thread's share */

static void
fail(struct helper_runner *r, struct run *run, uint32_t code)
{
	uint32_t none = 0;

	atomic_store(&run->team.stop, 1);
	if (atomic_compare_exchange_strong(&run->failed, &none, 1))
		helper_fault_note(&r->fault, run->all, run->x, run->work, code);
	cmdq_publish(&run->team.passed, &run->team.sleeps, atomic_load(&run->team.passed) + 1);
}

/* The fault was in a kernel's part for all threads of a block: find the thread that has it. */
static void
find_thread(struct helper_runner *r)
{
	struct helper_fault first = r->fault;
	enum fiber_end end = FIBER_ENDED;

	fiber_forget(r->gang);
	if (sigsetjmp(r->fault.back, 1) == 0) {
		helper_fault_here = &r->fault;
		end = fiber_again(r->gang);
		if (end == FIBER_ENDED) /* not again */
			r->fault = first;
	}
	helper_fault_here = NULL;
}

static void
run_share(struct helper_runner *r, struct run *run)
{
	enum fiber_end end;

	if (sigsetjmp(r->fault.back, 1) == 0) {
		helper_fault_here = &r->fault;
		atomic_store(&r->busy, run);
		end = fiber_run(r->gang, &run->grid, &run->team);
		atomic_store(&r->busy, NULL);
		helper_fault_here = NULL;
		if (end == FIBER_STUCK || end == FIBER_NO_MEMORY) {
			snprintf(r->fault.why, sizeof r->fault.why, "%s",
				 end == FIBER_STUCK
				     ? "its threads wait at a barrier that not all of them reach"
				     : "no memory for stacks");
			fail(r, run, cudaErrorLaunchFailure);
		}
		return;
	}
	atomic_store(&r->busy, NULL);
	helper_fault_here = NULL;
	if (atomic_load(&run->stuck))
		snprintf(
		    r->fault.why, sizeof r->fault.why,
		    "no block ends: %u run at once, and may wait for others that have not begun; "
		    "use cudaLaunchCooperativeKernel, or at most %u blocks",
		    run->work->resident, run->work->resident);
	else if (fiber_in_block_part(r->gang))
		find_thread(r);
	fail(r, run,
	     atomic_load(&run->stuck) ? cudaErrorLaunchTimeout : helper_fault_explain(&r->fault));
	fiber_forget(r->gang);
}

/* ---- further threads */

/* Lock held. */
static void
leave(struct run *run)
{
	run->joined--;
	pthread_cond_broadcast(&left);
}

static void *
serve(void *first)
{
	struct helper_runner *r = helper_runner_new();
	struct run *run = first;
	bool spare;

	/* Blocks that spin must not keep the device from its heartbeats. */
	pthread_mutex_lock(&lock);
	spare = run->joined >= run->all->threads;
	pthread_mutex_unlock(&lock);
	if (spare)
		setpriority(PRIO_PROCESS, (id_t)gettid(), SPARE_NICE);
	while (r) {
		run_share(r, run);
		pthread_mutex_lock(&lock);
		leave(run);
		r->next = idle;
		idle = r;
		while (!r->run)
			pthread_cond_wait(&r->go, &lock);
		run = r->run;
		r->run = NULL;
		pthread_mutex_unlock(&lock);
	}
	pthread_mutex_lock(&lock);
	leave(run);
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* Lock held: n further threads run blocks of it. False: fewer do. */
static bool
join(struct run *run, uint64_t n)
{
	for (; n > 0; n--) {
		struct helper_runner *r = idle;
		pthread_t t;

		run->joined++;
		if (r) {
			idle = r->next;
			r->run = run;
			pthread_cond_signal(&r->go);
		} else if (pthread_create(&t, NULL, serve, run) == 0) {
			pthread_detach(t);
		} else {
			run->joined--;
			return false;
		}
	}
	return true;
}

/* Threads besides the queue's own that the grid begins with. */
static uint64_t
wants(const struct run *run)
{
	const uint32_t *b = run->work->block;
	uint64_t n = run->all->threads < run->nblocks ? run->all->threads : run->nblocks;

	if (run->work->cooperative)
		return run->nblocks - 1;
	return run->nblocks * b[0] * b[1] * b[2] < SMALL ? 0 : n - 1;
}

static void
begin(struct run *run)
{
	pthread_mutex_lock(&lock);
	run->next = runs;
	runs = run;
	run->seen_ns = clock_now_ns();
	if (!join(run, wants(run)) && run->work->cooperative)
		atomic_store(&run->team.stop, 1);
	pthread_mutex_unlock(&lock);
}

static void
end(struct run *run)
{
	struct run **at = &runs;

	pthread_mutex_lock(&lock);
	while (run->joined)
		pthread_cond_wait(&left, &lock);
	while (*at != run)
		at = &(*at)->next;
	*at = run->next;
	pthread_mutex_unlock(&lock);
}

void
helper_grid_run(struct helper_runner *self, struct helper_shared *all, struct cmdq_extern *x,
		const struct helper_work *work, void *const *args)
{
	struct run run = {.work = work, .all = all, .x = x};

	run.grid = (struct fiber_grid){
	    .shared = work->shared, .run = work->run, .args = args, .flags = work->kernel->flags};
	memcpy(run.grid.grid, work->grid, sizeof run.grid.grid);
	memcpy(run.grid.block, work->block, sizeof run.grid.block);
	run.nblocks = (uint64_t)work->grid[0] * work->grid[1] * work->grid[2];
	run.team.nblocks = work->cooperative ? run.nblocks : 0;
	if (work->host_param) {
		snprintf(self->fault.why, sizeof self->fault.why,
			 "parameter %u points to memory of the program, which kernels cannot "
			 "access: use cudaMallocManaged or cudaMallocHost",
			 work->host_param);
		fail(self, &run, cudaErrorIllegalAddress);
		return;
	}
	begin(&run);
	run_share(self, &run);
	end(&run);
	if (atomic_load(&run.team.stop) && !atomic_load(&run.failed)) {
		snprintf(self->fault.why, sizeof self->fault.why,
			 "cannot start a thread for each block");
		fail(self, &run, cudaErrorLaunchFailure);
	}
}

/* ---- blocks that wait for others */

/* Lock held. All blocks that may run at once do, and none ends: end the threads' kernels. */
static void
give_up(struct run *run)
{
	if (atomic_exchange(&run->stuck, 1))
		return;
	for (struct helper_runner *r = all_runners; r; r = r->all)
		if (atomic_load(&r->busy) == run)
			pthread_kill(r->thread, HELPER_STUCK_SIGNAL);
}

static void
watch(struct run *run)
{
	uint64_t ended = atomic_load(&run->team.ended), now = clock_now_ns();
	uint64_t begun = atomic_load(&run->team.next), n = run->joined + 1;

	if (ended != run->seen) {
		run->seen = ended;
		run->seen_ns = now;
		run->calm = 0;
	} else if (++run->calm >= CALM && begun < run->nblocks) {
		if (n < run->work->resident)
			join(run, n < run->work->resident - n ? n : run->work->resident - n);
		else if (now - run->seen_ns > run->all->stuck_ns)
			give_up(run);
	}
}

void
helper_grid_watch(void)
{
	for (;;) {
		clock_sleep(WATCH_NS);
		pthread_mutex_lock(&lock);
		for (struct run *r = runs; r; r = r->next)
			watch(r);
		pthread_mutex_unlock(&lock);
	}
}
