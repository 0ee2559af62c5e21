/*
 * nccl.h - NCCL's interface, as gpusim has it: libnccl.so.2 over simulated devices.
 *
 * The header is that of NCCL 2.27.7, so that code for the device API of later versions stays off. Later
 * calls are declared as well. A call that gpusim does not implement returns ncclInvalidUsage, and
 * ncclGetLastError() has the reason. gpusim-nccl(7) lists the differences.
 *
 * Conventions, which the comments below do not repeat:
 *	- count is in elements of datatype, size and offsets are in bytes.
 *	- Pointers are device memory of the communicator's device. A device pointer of another device, host memory
 *	  and a range outside its allocation give ncclInvalidArgument.
 *	- A collective is enqueued on the stream, and the call returns. All ranks call with the same arguments in the
 *	  same order; send equal to receive buffer, or to the rank's part of it, means in place.
 *	- Every call has a second name with a p before it, for profilers that replace the first.
 */
#ifndef NCCL_H_
#define NCCL_H_

#include <cuda_runtime.h>
#if defined(__has_include)
#if __has_include(<cuda_fp16.h>)
#include <cuda_fp16.h>
#endif
#if __has_include(<cuda_bf16.h>)
#include <cuda_bf16.h>
#endif
#if defined(__cplusplus) && __has_include(<cuda_fp8.h>)
#include <cuda_fp8.h>
#endif
#endif

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_MAJOR  2
#define NCCL_MINOR  27
#define NCCL_PATCH  7
#define NCCL_SUFFIX ""

#define NCCL_VERSION_CODE 22707
/* Up to 2.8 a version had four digits. */
#define NCCL_VERSION(X, Y, Z) \
	(((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ types */

typedef struct ncclComm *ncclComm_t; /* one rank of a communicator */
#define NCCL_COMM_NULL NULL

typedef struct ncclWindow *ncclWindow_t; /* memory that all ranks have registered */

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
	char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
	ncclSuccess = 0,
	ncclUnhandledCudaError = 1,
	ncclSystemError = 2,   /* the coordinator or a device does not answer */
	ncclInternalError = 3, /* a bug in gpusim itself */
	ncclInvalidArgument = 4,
	ncclInvalidUsage = 5,
	ncclRemoteError = 6, /* another rank has failed, or its process has ended */
	ncclInProgress = 7,
	ncclTimeout = 8, /* of later versions; never returned */
	ncclNumResults = 8
} ncclResult_t;

typedef enum {
	ncclInt8 = 0,
	ncclChar = 0,
	ncclUint8 = 1,
	ncclInt32 = 2,
	ncclInt = 2,
	ncclUint32 = 3,
	ncclInt64 = 4,
	ncclUint64 = 5,
	ncclFloat16 = 6,
	ncclHalf = 6,
	ncclFloat32 = 7,
	ncclFloat = 7,
	ncclFloat64 = 8,
	ncclDouble = 8,
	ncclBfloat16 = 9,
	ncclFloat8e4m3 = 10,
	ncclFloat8e5m2 = 11,
	ncclNumTypes = 12
} ncclDataType_t;

typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;
typedef enum {
	ncclSum = 0,
	ncclProd = 1,
	ncclMax = 2,
	ncclMin = 3,
	ncclAvg = 4,
	ncclNumOps = 5, /* the first one of ncclRedOpCreatePreMulSum */
	ncclMaxRedOp = 0x7fffffff >> (32 - 8 * sizeof(ncclRedOp_dummy_t))
} ncclRedOp_t;

/* The place of a reduction's scalar: on the device, read when the collective runs; or on the host, read by
 * the call. */
typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_SPLIT_NOCOLOR    -1
#define NCCL_UNDEF_FLOAT      -1.0f
#define NCCL_API_MAGIC	      0xcafebeef

/* Of ncclCommWindowRegister. */
#define NCCL_WIN_DEFAULT	    0x00
#define NCCL_WIN_COLL_SYMMETRIC	    0x01
#define NCCL_WIN_STRICT_ORDERING    0x02
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

/* Of ncclConfig_t.CTAPolicy. They have no effect here. */
#define NCCL_CTA_POLICY_DEFAULT	   0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO	   0x02

/* Of ncclCommShrink: abort ends the parent's operations first. */
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT   0x01

#define NCCL_REVOKE_DEFAULT 0x00 /* of ncclCommRevoke, which has no other flag */
#define NCCL_SUSPEND_MEM    0x01 /* of ncclCommSuspend */

/*
 * The configuration of a communicator. Begin with NCCL_CONFIG_INITIALIZER. blocking, commName and
 * deterministic have an effect here; the others are for GPUs, and are only checked.
 */
#define GPUSIM_CONFIG_DETERMINISTIC 1 /* the last field exists; NVIDIA's header lacks it */
typedef struct ncclConfig_v21700 {
	size_t size; /* the first three are the initializer's */
	unsigned int magic;
	unsigned int version;
	int blocking; /* 0: calls return ncclInProgress, and ncclCommGetAsyncError reports their end */
	int cgaClusterSize;
	int minCTAs;
	int maxCTAs;
	const char *netName;
	int splitShare;
	int trafficClass;
	const char *commName; /* in log lines */
	int collnetEnable;
	int CTAPolicy;
	int shrinkShare;
	int nvlsCTAs;
	int deterministic; /* 1: the bits of a reduction depend only on the inputs and the order of ranks; as
			    * GPUSIM_DETERMINISTIC=1, which wins. The same on all ranks */
} ncclConfig_t;

/* clang-format off */
#define NCCL_CONFIG_INITIALIZER { \
	sizeof(ncclConfig_t),  \
	NCCL_API_MAGIC,        \
	NCCL_VERSION_CODE,     \
	NCCL_CONFIG_UNDEF_INT, /* blocking */       \
	NCCL_CONFIG_UNDEF_INT, /* cgaClusterSize */ \
	NCCL_CONFIG_UNDEF_INT, /* minCTAs */        \
	NCCL_CONFIG_UNDEF_INT, /* maxCTAs */        \
	NCCL_CONFIG_UNDEF_PTR, /* netName */        \
	NCCL_CONFIG_UNDEF_INT, /* splitShare */     \
	NCCL_CONFIG_UNDEF_INT, /* trafficClass */   \
	NCCL_CONFIG_UNDEF_PTR, /* commName */       \
	NCCL_CONFIG_UNDEF_INT, /* collnetEnable */  \
	NCCL_CONFIG_UNDEF_INT, /* CTAPolicy */      \
	NCCL_CONFIG_UNDEF_INT, /* shrinkShare */    \
	NCCL_CONFIG_UNDEF_INT, /* nvlsCTAs */       \
	NCCL_CONFIG_UNDEF_INT, /* deterministic */  \
}
/* clang-format on */

/* The result of ncclGroupSimulateEnd. */
typedef struct ncclSimInfo_v22200 {
	size_t size; /* the first three are the initializer's */
	unsigned int magic;
	unsigned int version;
	float estimatedTime; /* microseconds */
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER                                                       \
	{                                                                               \
		sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT, \
	}

/* Declares a call and its second name. */
#define NCCL_CALL(result, name, parameters) \
	result name parameters;             \
	result p##name parameters

/* ------------------------------------------------------------------ version and errors */

NCCL_CALL(ncclResult_t, ncclGetVersion, (int *version));

/* Static storage. */
NCCL_CALL(const char *, ncclGetErrorString, (ncclResult_t result));

/* The message of the latest failure: of comm's work in the background, if that is later than this thread's,
 * else of this thread. comm may be NULL. Valid until the thread's next NCCL call. */
NCCL_CALL(const char *, ncclGetLastError, (ncclComm_t comm));

/* Read NCCL_DEBUG and its companions again. */
NCCL_CALL(void, ncclResetDebugInit, (void));

/* The state of work that was in progress when a call returned: ncclSuccess, ncclInProgress, or its
 * failure. */
NCCL_CALL(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t *asyncError));

/* ------------------------------------------------------------------ communicators */

/* A random id with the coordinator's address. One process makes it and distributes it. */
NCCL_CALL(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * uniqueId));

/* Join as one rank with the current device. Returns when all ranks have called: on threads, in processes,
 * or one after another inside a group. */
NCCL_CALL(ncclResult_t, ncclCommInitRank,
	  (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank));
NCCL_CALL(ncclResult_t, ncclCommInitRankConfig,
	  (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config));
/* As ncclCommInitRankConfig, with nId ids, the same in the same order for all ranks. */
NCCL_CALL(ncclResult_t, ncclCommInitRankScalable,
	  (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId *commIds,
	   ncclConfig_t *config));

/* All ranks in one process. comm: ndev of them [out]; devlist: by rank, NULL: 0 .. ndev - 1. */
NCCL_CALL(ncclResult_t, ncclCommInitAll, (ncclComm_t * comm, int ndev, const int *devlist));

/* Wait until this rank's operations have ended. */
NCCL_CALL(ncclResult_t, ncclCommFinalize, (ncclComm_t comm));

/* Finalize, if that was not done, and release. */
NCCL_CALL(ncclResult_t, ncclCommDestroy, (ncclComm_t comm));

/* End the communicator's operations, on all ranks, and release this rank. The others see ncclRemoteError. */
NCCL_CALL(ncclResult_t, ncclCommAbort, (ncclComm_t comm));

/* As ncclCommAbort without the release: afterwards the communicator can be split, shrunk, grown and
 * destroyed. */
NCCL_CALL(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int revokeFlags));

/* Create a communicator of the ranks of one color, ordered by key, then rank. NCCL_SPLIT_NOCOLOR: *newcomm
 * is NULL. All ranks call. config NULL: as comm. */
NCCL_CALL(ncclResult_t, ncclCommSplit,
	  (ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config));

/* Create a communicator without the listed ranks; the others keep their order. The remaining ranks call. */
NCCL_CALL(ncclResult_t, ncclCommShrink,
	  (ncclComm_t comm, int *excludeRanksList, int excludeRanksCount, ncclComm_t *newcomm,
	   ncclConfig_t *config, int shrinkFlags));

/* Make an id for one ncclCommGrow of comm. */
NCCL_CALL(ncclResult_t, ncclCommGetUniqueId, (ncclComm_t comm, ncclUniqueId *uniqueId));

/*
 * Create a communicator of nRanks: those of comm, then new ones. Ranks of comm call with comm and rank -1;
 * the one that made the id passes it, the others may pass NULL. New ranks call with comm NULL, the id, and
 * their rank.
 */
NCCL_CALL(ncclResult_t, ncclCommGrow,
	  (ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank, ncclComm_t *newcomm,
	   ncclConfig_t *config));

NCCL_CALL(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int *count));
NCCL_CALL(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int *device));
NCCL_CALL(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int *rank));

/* A communicator takes device memory for itself only while windows need it, so nothing is released: the
 * calls only keep the state, and operations between them return ncclInvalidUsage. */
NCCL_CALL(ncclResult_t, ncclCommSuspend, (ncclComm_t comm, int flags));
NCCL_CALL(ncclResult_t, ncclCommResume, (ncclComm_t comm));

typedef enum {
	ncclStatGpuMemSuspend = 0,   /* bytes that suspending would release */
	ncclStatGpuMemSuspended = 1, /* 1: suspended */
	ncclStatGpuMemPersist = 2,   /* bytes that it would keep */
	ncclStatGpuMemTotal = 3
} ncclCommMemStat_t;
NCCL_CALL(ncclResult_t, ncclCommMemStats,
	  (ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value));

/* ------------------------------------------------------------------ memory */

/* Allocate memory of the current device, as cudaMalloc. */
NCCL_CALL(ncclResult_t, ncclMemAlloc, (void **ptr, size_t size));
NCCL_CALL(ncclResult_t, ncclMemFree, (void *ptr));

/* All device memory is mapped by the peers of its host, so registering checks the range and gives a
 * handle. */
NCCL_CALL(ncclResult_t, ncclCommRegister,
	  (const ncclComm_t comm, void *buff, size_t size, void **handle));
NCCL_CALL(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void *handle));

/* All ranks call, in the same order, with memory that ncclPutSignal of the others may write. */
NCCL_CALL(ncclResult_t, ncclCommWindowRegister,
	  (ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int winFlags));
NCCL_CALL(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win));
NCCL_CALL(ncclResult_t, ncclWinGetUserPtr, (ncclComm_t comm, ncclWindow_t win, void **outUserPtr));

/* ------------------------------------------------------------------ collectives */

/* sum(scalar of rank r * input of rank r), for collectives of this communicator and type; ranks may differ
 * in the scalar. */
NCCL_CALL(ncclResult_t, ncclRedOpCreatePreMulSum,
	  (ncclRedOp_t * op, void *scalar, ncclDataType_t datatype, ncclScalarResidence_t residence,
	   ncclComm_t comm));
NCCL_CALL(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm));

/* count elements of both buffers; ncclReduce writes recvbuff on the root only. */
NCCL_CALL(ncclResult_t, ncclAllReduce,
	  (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
	   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream));
NCCL_CALL(ncclResult_t, ncclReduce,
	  (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
	   ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream));
NCCL_CALL(ncclResult_t, ncclBroadcast,
	  (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
	   ncclComm_t comm, cudaStream_t stream));
NCCL_CALL(ncclResult_t, ncclBcast,
	  (void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
	   cudaStream_t stream));

/* The input has nranks * recvcount elements, the result of rank r is part r of the reduction. */
NCCL_CALL(ncclResult_t, ncclReduceScatter,
	  (const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype,
	   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream));

/* The result has nranks * sendcount elements. */
NCCL_CALL(ncclResult_t, ncclAllGather,
	  (const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
	   ncclComm_t comm, cudaStream_t stream));

/* Both buffers have nranks * count elements; not in place. */
NCCL_CALL(ncclResult_t, ncclAlltoAll,
	  (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
	   ncclComm_t comm, cudaStream_t stream));

/* The root's buffer has nranks * count elements, the others' count. */
NCCL_CALL(ncclResult_t, ncclGather,
	  (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
	   ncclComm_t comm, cudaStream_t stream));
NCCL_CALL(ncclResult_t, ncclScatter,
	  (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
	   ncclComm_t comm, cudaStream_t stream));

/* The n-th send to a peer meets the n-th receive of that peer from this rank. Sends and receives of a group
 * run at the same time. To oneself: both in one group. */
NCCL_CALL(ncclResult_t, ncclSend,
	  (const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
	   cudaStream_t stream));
NCCL_CALL(ncclResult_t, ncclRecv,
	  (void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
	   cudaStream_t stream));

/* ------------------------------------------------------------------ one-sided */

/* Write to a peer's window at an offset, then count one more signal there. flags must be 0; sigIdx and ctx
 * are 0. */
NCCL_CALL(ncclResult_t, ncclPutSignal,
	  (const void *localbuff, size_t count, ncclDataType_t datatype, int peer,
	   ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags,
	   ncclComm_t comm, cudaStream_t stream));

/* Send only the signal. */
NCCL_CALL(ncclResult_t, ncclSignal,
	  (int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
	   cudaStream_t stream));

/* Wait for opCnt more signals of a peer than were waited for. */
typedef struct {
	int opCnt;
	int peer;
	int sigIdx;
	int ctx;
} ncclWaitSignalDesc_t;
NCCL_CALL(ncclResult_t, ncclWaitSignal,
	  (int nDesc, ncclWaitSignalDesc_t *signalDescs, ncclComm_t comm, cudaStream_t stream));

/* ------------------------------------------------------------------ groups */

/* The calls of this thread between start and end begin together at the end. Groups nest; the outermost
 * counts. A call that fails makes the whole group fail, and none of its operations begins. */
NCCL_CALL(ncclResult_t, ncclGroupStart, (void));
NCCL_CALL(ncclResult_t, ncclGroupEnd, (void));

/* End the group without running its operations; simInfo [out]: their predicted time. */
NCCL_CALL(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t * simInfo));

/* ------------------------------------------------------------------ parameters */

/* The environment variables that gpusim reads, by name. Strings are valid until the thread's next such
 * call. */
typedef struct ncclParamHandle *ncclParamHandle_t;

NCCL_CALL(ncclResult_t, ncclParamBind, (ncclParamHandle_t * out, const char *key));
NCCL_CALL(ncclResult_t, ncclParamGetI8, (ncclParamHandle_t h, int8_t *out));
NCCL_CALL(ncclResult_t, ncclParamGetI16, (ncclParamHandle_t h, int16_t *out));
NCCL_CALL(ncclResult_t, ncclParamGetI32, (ncclParamHandle_t h, int32_t *out));
NCCL_CALL(ncclResult_t, ncclParamGetI64, (ncclParamHandle_t h, int64_t *out));
NCCL_CALL(ncclResult_t, ncclParamGetU8, (ncclParamHandle_t h, uint8_t *out));
NCCL_CALL(ncclResult_t, ncclParamGetU16, (ncclParamHandle_t h, uint16_t *out));
NCCL_CALL(ncclResult_t, ncclParamGetU32, (ncclParamHandle_t h, uint32_t *out));
NCCL_CALL(ncclResult_t, ncclParamGetU64, (ncclParamHandle_t h, uint64_t *out));
NCCL_CALL(ncclResult_t, ncclParamGetStr, (ncclParamHandle_t h, const char **out));
NCCL_CALL(ncclResult_t, ncclParamGet, (ncclParamHandle_t h, void *out, int maxLen, int *len));
NCCL_CALL(ncclResult_t, ncclParamGetParameter,
	  (const char *key, const char **value, int *valueLen));
NCCL_CALL(ncclResult_t, ncclParamGetAllParameterKeys, (const char ***table, int *tableLen));
NCCL_CALL(void, ncclParamDumpAll, (void));

#undef NCCL_CALL

#ifdef __cplusplus
}
#endif
#endif
