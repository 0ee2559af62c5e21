/* The version of NCCL. */
#include "nccl/nccl_impl.h"

ncclResult_t
ncclGetVersion(int *version)
{
	if (!version)
		return nccl_fail(ncclInvalidArgument, "GetVersion : version argument is NULL");
	*version = NCCL_VERSION_CODE;
	return ncclSuccess;
}
NCCL_ALIAS(ncclGetVersion);

void
ncclResetDebugInit(void)
{
	nccl_log_reset();
}
NCCL_ALIAS(ncclResetDebugInit);
