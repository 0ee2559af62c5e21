/* Rank 0 of two, alone: it fails after GPUSIM_TIMEOUT, and reports the missing rank. */
#include "nccl_test.h"

int
main(void)
{
	ncclUniqueId id;
	ncclComm_t comm = NULL;

	NCCL(ncclGetUniqueId(&id));
	WANT(ncclSystemError, ncclCommInitRank(&comm, 2, id, 0));
	CHECK(comm == NULL);
	printf("%s\n", ncclGetLastError(NULL));
	return 0;
}
