/* Messages that CUDA's error codes cannot carry. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cudart/cuda_impl.h"

static _Thread_local char latest[512]; /* of this thread, until somebody has asked for it */

void
cuda_tell(const char *sentence)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static char told[512];

	if (!*sentence)
		return;
	snprintf(latest, sizeof latest, "%s", sentence);
	pthread_mutex_lock(&lock);
	if (strncmp(told, sentence, sizeof told - 1) != 0) {
		snprintf(told, sizeof told, "%s", sentence);
		fprintf(stderr, "libcudart (gpusim): %s\n", told);
	}
	pthread_mutex_unlock(&lock);
}

void
gpusim_cuda_tell(const char *sentence)
{
	cuda_tell(sentence);
}

const char *
gpusim_cuda_told(void)
{
	static _Thread_local char taken[sizeof latest];

	memcpy(taken, latest, sizeof taken);
	latest[0] = '\0';
	return taken;
}
