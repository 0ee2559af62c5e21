/* Layouts and numbers of NCCL's interface, as in NCCL 2.27: programs are compiled against either header. */
#include <stddef.h>
#include <string.h>

#include "nccl.h"
#include "tap.h"

#define SIZE(type, n)                  \
	{                              \
#type, sizeof(type), n \
	}
#define AT(type, field, n)                                 \
	{                                                  \
#type "." #field, offsetof(type, field), n \
	}
#define CONFIG(field, n) AT(ncclConfig_t, field, n)
#define NUMBER(name, n)                  \
	{                                \
#name, (size_t)(name), n \
	}

static const struct {
	const char *name;
	size_t ours, nccl;
} facts[] = {
    SIZE(ncclUniqueId, 128),
    SIZE(ncclConfig_t, 80),
    SIZE(ncclSimInfo_t, 24),
    SIZE(ncclWaitSignalDesc_t, 16),
    SIZE(ncclResult_t, 4),
    SIZE(ncclDataType_t, 4),
    SIZE(ncclRedOp_t, 4),
    SIZE(ncclScalarResidence_t, 4),
    CONFIG(size, 0),
    CONFIG(magic, 8),
    CONFIG(version, 12),
    CONFIG(blocking, 16),
    CONFIG(cgaClusterSize, 20),
    CONFIG(minCTAs, 24),
    CONFIG(maxCTAs, 28),
    CONFIG(netName, 32),
    CONFIG(splitShare, 40),
    CONFIG(trafficClass, 44),
    CONFIG(commName, 48),
    CONFIG(collnetEnable, 56),
    CONFIG(CTAPolicy, 60),
    CONFIG(shrinkShare, 64),
    CONFIG(nvlsCTAs, 68),
    CONFIG(deterministic, 72), /* NCCL's ends here */
    AT(ncclSimInfo_t, magic, 8),
    AT(ncclSimInfo_t, estimatedTime, 16),
    NUMBER(NCCL_VERSION_CODE, 22707),
    NUMBER(NCCL_VERSION(2, 27, 7), 22707),
    NUMBER(NCCL_VERSION(2, 8, 4), 2804),
    NUMBER(NCCL_UNIQUE_ID_BYTES, 128),
    NUMBER(NCCL_API_MAGIC, 0xcafebeef),
    NUMBER(NCCL_WIN_COLL_SYMMETRIC, 1),
    NUMBER(NCCL_SHRINK_ABORT, 1),
    NUMBER(ncclSuccess, 0),
    NUMBER(ncclUnhandledCudaError, 1),
    NUMBER(ncclSystemError, 2),
    NUMBER(ncclInternalError, 3),
    NUMBER(ncclInvalidArgument, 4),
    NUMBER(ncclInvalidUsage, 5),
    NUMBER(ncclRemoteError, 6),
    NUMBER(ncclInProgress, 7),
    NUMBER(ncclNumResults, 8),
    NUMBER(ncclSum, 0),
    NUMBER(ncclProd, 1),
    NUMBER(ncclMax, 2),
    NUMBER(ncclMin, 3),
    NUMBER(ncclAvg, 4),
    NUMBER(ncclNumOps, 5),
    NUMBER(ncclMaxRedOp, 0x7fffffff),
    NUMBER(ncclInt8, 0),
    NUMBER(ncclChar, 0),
    NUMBER(ncclUint8, 1),
    NUMBER(ncclInt32, 2),
    NUMBER(ncclInt, 2),
    NUMBER(ncclUint32, 3),
    NUMBER(ncclInt64, 4),
    NUMBER(ncclUint64, 5),
    NUMBER(ncclFloat16, 6),
    NUMBER(ncclHalf, 6),
    NUMBER(ncclFloat32, 7),
    NUMBER(ncclFloat, 7),
    NUMBER(ncclFloat64, 8),
    NUMBER(ncclDouble, 8),
    NUMBER(ncclBfloat16, 9),
    NUMBER(ncclFloat8e4m3, 10),
    NUMBER(ncclFloat8e5m2, 11),
    NUMBER(ncclNumTypes, 12),
    NUMBER(ncclScalarDevice, 0),
    NUMBER(ncclScalarHostImmediate, 1),
    NUMBER(ncclStatGpuMemTotal, 3),
};

int
main(void)
{
	const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	const ncclSimInfo_t sim = NCCL_SIM_INFO_INITIALIZER;

	for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
		ok(facts[i].ours == facts[i].nccl, "%s: %zu", facts[i].name, facts[i].nccl);
	ok(config.size == 80 && config.magic == 0xcafebeef && config.version == 22707 &&
	       config.blocking == INT_MIN && !config.netName && config.nvlsCTAs == INT_MIN &&
	       config.deterministic == INT_MIN,
	   "NCCL_CONFIG_INITIALIZER leaves every field undefined");
	ok(sim.size == 24 && sim.magic == 0x74685283 && sim.estimatedTime == -1.0f,
	   "NCCL_SIM_INFO_INITIALIZER");
	return tap_done();
}
