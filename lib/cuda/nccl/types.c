/* Converts NCCL's types and operators to gpusim's. */
#include "nccl/nccl_impl.h"

static const struct {
	uint8_t size, dtype;
} types[ncclNumTypes] = {
    [ncclInt8] = {1, GPUSIM_I8},	   [ncclUint8] = {1, GPUSIM_U8},
    [ncclInt32] = {4, GPUSIM_I32},	   [ncclUint32] = {4, GPUSIM_U32},
    [ncclInt64] = {8, GPUSIM_I64},	   [ncclUint64] = {8, GPUSIM_U64},
    [ncclFloat16] = {2, GPUSIM_F16},	   [ncclFloat32] = {4, GPUSIM_F32},
    [ncclFloat64] = {8, GPUSIM_F64},	   [ncclBfloat16] = {2, GPUSIM_BF16},
    [ncclFloat8e4m3] = {1, GPUSIM_F8E4M3}, [ncclFloat8e5m2] = {1, GPUSIM_F8E5M2},
};

size_t
nccl_dtype_size(ncclDataType_t t)
{
	return (unsigned)t < ncclNumTypes ? types[t].size : 0;
}

enum gpusim_dtype
nccl_dtype(ncclDataType_t t)
{
	return (enum gpusim_dtype)types[t].dtype;
}

enum gpusim_redop
nccl_redop(ncclRedOp_t op)
{
	static const uint8_t of[ncclNumOps] = {[ncclSum] = GPUSIM_SUM,
					       [ncclProd] = GPUSIM_PROD,
					       [ncclMax] = GPUSIM_MAX,
					       [ncclMin] = GPUSIM_MIN,
					       [ncclAvg] = GPUSIM_AVG};

	return (enum gpusim_redop)of[op];
}
