#include "mem/dtype.h"

#include <string.h>

enum kind { REAL, HALF, SIGNED, UNSIGNED };

#define ONE(...) +1
#define DATA(constant, name, type, kind, nccl) \
	[GPUSIM_##constant] = {#name, nccl, sizeof(type), kind},

_Static_assert(DTYPES(ONE) == GPUSIM_NDTYPES, "each constant of enum gpusim_dtype has a row");

static const struct {
	const char *name, *nccl;
	size_t size;
	enum kind kind;
} types[GPUSIM_NDTYPES] = {DTYPES(DATA)};

/* Other names, of C and numpy. */
static const struct {
	const char *name;
	enum gpusim_dtype type;
} aliases[] = {
    {"float64", GPUSIM_F64},
    {"float32", GPUSIM_F32},
    {"float16", GPUSIM_F16},
    {"fp16", GPUSIM_F16},
    {"int", GPUSIM_I32},
    {"e4m3", GPUSIM_F8E4M3},
    {"fp8_e4m3", GPUSIM_F8E4M3},
    {"fp8_e5m2", GPUSIM_F8E5M2},
    {"float8_e4m3", GPUSIM_F8E4M3},
    {"float8_e4m3fn", GPUSIM_F8E4M3},
    {"e5m2", GPUSIM_F8E5M2},
    {"float8_e5m2", GPUSIM_F8E5M2},
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

const char *
dtype_nccl_name(enum gpusim_dtype t)
{
	return (size_t)t < GPUSIM_NDTYPES ? types[t].nccl : "?";
}

bool
dtype_is_float(enum gpusim_dtype t)
{
	return (size_t)t < GPUSIM_NDTYPES && types[t].kind <= HALF;
}

bool
dtype_is_half(enum gpusim_dtype t)
{
	return (size_t)t < GPUSIM_NDTYPES && types[t].kind == HALF;
}

bool
dtype_is_signed(enum gpusim_dtype t)
{
	return (size_t)t < GPUSIM_NDTYPES && types[t].kind == SIGNED;
}

enum rc
dtype_parse(const char *name, enum gpusim_dtype *out, struct err *err)
{
	size_t i;

	for (i = 0; i < GPUSIM_NDTYPES; i++) {
		if (strcmp(name, types[i].name) == 0 || strcmp(name, types[i].nccl) == 0) {
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
	return err_set(err, RC_INVAL, "'%.64s' is not a type (%s)", name, &DTYPE_NAMES[1]);
}
