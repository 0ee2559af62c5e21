/* Messages that CUDA's error codes cannot carry. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cudart/cuda_impl.h"

void
cuda_tell(const char *sentence)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static char told[512];

	pthread_mutex_lock(&lock);
	if (*sentence && strncmp(told, sentence, sizeof told - 1) != 0) {
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
