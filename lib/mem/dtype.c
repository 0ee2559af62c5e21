#include "mem/dtype.h"

#include <string.h>

#include "mem/half.h"

static const struct {
	const char *name;
	size_t size;
	bool is_float;
} types[GPUSIM_NDTYPES] = {
    [GPUSIM_F64] = {"f64", 8, true},  [GPUSIM_F32] = {"f32", 4, true},
    [GPUSIM_F16] = {"f16", 2, true},  [GPUSIM_BF16] = {"bf16", 2, true},
    [GPUSIM_I8] = {"i8", 1, false},   [GPUSIM_U8] = {"u8", 1, false},
    [GPUSIM_I32] = {"i32", 4, false}, [GPUSIM_U32] = {"u32", 4, false},
    [GPUSIM_I64] = {"i64", 8, false}, [GPUSIM_U64] = {"u64", 8, false},
};

static const char *const ops[GPUSIM_NREDOPS] = {
    [GPUSIM_SUM] = "sum", [GPUSIM_PROD] = "prod", [GPUSIM_MIN] = "min",
    [GPUSIM_MAX] = "max", [GPUSIM_AVG] = "avg",
};

/* What C, numpy and NCCL call them. */
static const struct {
	const char *name;
	enum gpusim_dtype type;
} aliases[] = {
    {"double", GPUSIM_F64},  {"float64", GPUSIM_F64},	{"float", GPUSIM_F32},
    {"float32", GPUSIM_F32}, {"half", GPUSIM_F16},	{"float16", GPUSIM_F16},
    {"fp16", GPUSIM_F16},    {"bfloat16", GPUSIM_BF16}, {"int8", GPUSIM_I8},
    {"uint8", GPUSIM_U8},    {"int32", GPUSIM_I32},	{"int", GPUSIM_I32},
    {"uint32", GPUSIM_U32},  {"int64", GPUSIM_I64},	{"uint64", GPUSIM_U64},
};

size_t
dtype_size(enum gpusim_dtype t)
{
	return (size_t)t < GPUSIM_NDTYPES ? types[t].size : 0;
}

const char *
dtype_name(enum gpusim_dtype t)
{
	return (size_t)t < GPUSIM_NDTYPES ? types[t].name : "?";
}

bool
dtype_is_float(enum gpusim_dtype t)
{
	return (size_t)t < GPUSIM_NDTYPES && types[t].is_float;
}

const char *
redop_name(enum gpusim_redop redop)
{
	return (size_t)redop < GPUSIM_NREDOPS ? ops[redop] : "?";
}

enum rc
dtype_parse(const char *name, enum gpusim_dtype *out, struct err *err)
{
	size_t i;

	for (i = 0; i < GPUSIM_NDTYPES; i++) {
		if (strcmp(name, types[i].name) == 0) {
			*out = (enum gpusim_dtype)i;
			return RC_OK;
		}
	}
	for (i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
		if (strcmp(name, aliases[i].name) == 0) {
			*out = aliases[i].type;
			return RC_OK;
		}
	}
	return err_set(err, RC_INVAL,
		       "'%.64s' is not a type (i8 u8 i32 u32 i64 u64 f16 bf16 f32 f64)", name);
}

enum rc
redop_parse(const char *name, enum gpusim_redop *out, struct err *err)
{
	size_t i;

	for (i = 0; i < GPUSIM_NREDOPS; i++) {
		if (strcmp(name, ops[i]) == 0) {
			*out = (enum gpusim_redop)i;
			return RC_OK;
		}
	}
	return err_set(err, RC_INVAL, "'%.64s' is not an operation (sum prod min max avg)", name);
}

float
half_to_f32(uint16_t h)
{
	return half_widen(h);
}

uint16_t
half_from_f32(float f)
{
	return half_narrow(f);
}

float
bf16_to_f32(uint16_t h)
{
	return bf16_widen(h);
}

uint16_t
bf16_from_f32(float f)
{
	return bf16_narrow(f);
}
