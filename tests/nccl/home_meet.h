/* home_meet.h - how processes started by a shell meet: rank 0 makes an id and writes it to FIFO.1,
 * FIFO.2 and so on; rank r reads it from FIFO.r. */
#ifndef HOME_MEET_H
#define HOME_MEET_H

#include <cuda_runtime.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(call)                                                          \
	do {                                                                \
		int rc_ = (int)(call);                                      \
		if (rc_ != 0) {                                             \
			fprintf(stderr, "line %d: %d: %s\n", __LINE__, rc_, \
				ncclGetLastError(NULL));                    \
			exit(1);                                            \
		}                                                           \
	} while (0)

static void
hand_over(const ncclUniqueId *id, const char *fifo, int rank)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof path, "%s.%d", fifo, rank);
	f = fopen(path, "wb");
	MUST(!f || fwrite(id, sizeof *id, 1, f) != 1 || fclose(f));
}

static void
meet(ncclUniqueId *id, int nranks, int rank, const char *fifo)
{
	char path[4096];
	FILE *f;

	if (rank == 0) {
		MUST(ncclGetUniqueId(id));
		for (int r = 1; r < nranks; r++)
			hand_over(id, fifo, r);
		return;
	}
	snprintf(path, sizeof path, "%s.%d", fifo, rank);
	f = fopen(path, "rb");
	MUST(!f || fread(id, sizeof *id, 1, f) != 1 || fclose(f));
}

#endif
