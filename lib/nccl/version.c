/* Which NCCL this is. */
#include "nccl.h"

ncclResult_t
ncclGetVersion(int *version)
{
	*version = NCCL_VERSION_CODE;
	return ncclSuccess;
}
