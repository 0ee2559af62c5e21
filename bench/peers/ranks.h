/*
 * ranks.h - n processes of one host, for peers without a launcher: forked, with a barrier and a
 * maximum in shared memory, so that neither touches what is measured. For C and C++.
 */
#ifndef RANKS_H
#define RANKS_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#define RANKS_MAX 64

struct ranks {
	pthread_barrier_t barrier;
	double value[RANKS_MAX];
	int nranks;
};

/* Memory that all ranks share, zeroed. */
static inline void *
ranks_shared(size_t nbytes)
{
	void *p = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		perror("ranks: mmap");
		exit(2);
	}
	return p;
}

static inline struct ranks *
ranks_new(int nranks)
{
	struct ranks *s = (struct ranks *)ranks_shared(sizeof *s);
	pthread_barrierattr_t attr;

	if (nranks < 1 || nranks > RANKS_MAX) {
		fprintf(stderr, "ranks: 1 to %d ranks\n", RANKS_MAX);
		exit(2);
	}
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&s->barrier, &attr, (unsigned)nranks);
	s->nranks = nranks;
	return s;
}

/* Returns the rank in each child. The parent waits for all and gets -1, with the worst exit status.
 * If one dies the others are ended, since they would wait for it at the barrier. */
static inline int
ranks_fork(int nranks, int *exit_status)
{
	pid_t pid[RANKS_MAX];
	int worst = 0, status;

	fflush(NULL);
	for (int r = 0; r < nranks; r++) {
		pid[r] = fork();
		if (pid[r] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			return r;
		}
		if (pid[r] < 0) {
			perror("ranks: fork");
			exit(2);
		}
	}
	while (wait(&status) > 0) {
		int code = WIFEXITED(status) ? WEXITSTATUS(status) : 2;

		if (code > 1 && worst < 2)
			for (int r = 0; r < nranks; r++)
				kill(pid[r], SIGKILL);
		worst = code > worst ? code : worst;
	}
	*exit_status = worst;
	return -1;
}

static inline void
ranks_barrier(struct ranks *s)
{
	pthread_barrier_wait(&s->barrier);
}

static inline double
ranks_max(struct ranks *s, int rank, double mine)
{
	double most = mine;

	s->value[rank] = mine;
	ranks_barrier(s);
	for (int r = 0; r < s->nranks; r++)
		most = s->value[r] > most ? s->value[r] : most;
	ranks_barrier(s);
	return most;
}

#endif
