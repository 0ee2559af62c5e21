/* Rank 0 of two, alone: it fails when GPUSIM_TIMEOUT is over, and says who is missing. */
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
