/*
 * dtype.h - element types: one row per type, and everything derived from it.
 */
#ifndef MEM_DTYPE_H
#define MEM_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "mem/half.h"

/*
 * DTYPES - one row per element type, in the order of enum gpusim_dtype.
 *
 *	constant	GPUSIM_constant, and DataType's in gpu_sim.proto
 *	name		on command lines, and in the names of functions for the type
 *	type		in C; the short floats are bits in an integer
 *	kind		REAL computes in the type, HALF (shorter than f32) in float; the others are integers
 *	nccl		the name in NCCL's tables, also accepted on command lines
 *
 * A type that has a constant and no row, or a row and no constant, does not compile; neither does a
 * switch that forgets it.
 */
/* clang-format off */
#define DTYPES(ROW)                                    \
	ROW(F64,  f64,  double,   REAL,     "double")  \
	ROW(F32,  f32,  float,    REAL,     "float")   \
	ROW(F16,  f16,  uint16_t, HALF,     "half")    \
	ROW(BF16, bf16, uint16_t, HALF,     "bfloat16")\
	ROW(I8,   i8,   int8_t,   SIGNED,   "int8")    \
	ROW(U8,   u8,   uint8_t,  UNSIGNED, "uint8")   \
	ROW(I32,  i32,  int32_t,  SIGNED,   "int32")   \
	ROW(U32,  u32,  uint32_t, UNSIGNED, "uint32")  \
	ROW(I64,  i64,  int64_t,  SIGNED,   "int64")   \
	ROW(U64,  u64,  uint64_t, UNSIGNED, "uint64")  \
	ROW(F8E4M3, f8e4m3, uint8_t, HALF,  "f8e4m3")  \
	ROW(F8E5M2, f8e5m2, uint8_t, HALF,  "f8e5m2")
/* clang-format on */

/* " f64 f32 ...", for messages. */
#define DTYPE_NAME(constant, name, ...) " " #name
#define DTYPE_NAMES			DTYPES(DTYPE_NAME)

/* Bytes of one element; 0: not a type (so this is also the validity check). */
size_t dtype_size(enum gpusim_dtype t);

/* "f32"; "?": not a type. Static storage. */
const char *dtype_name(enum gpusim_dtype t);
const char *dtype_nccl_name(enum gpusim_dtype t); /* "float" */

/* Parse a name; the error lists the names. Also accepts float double half bfloat16 int8 e4m3 ... */
enum rc dtype_parse(const char *name, enum gpusim_dtype *out, struct err *err);

bool dtype_is_float(enum gpusim_dtype t);

/* f16, bf16, f8e4m3 or f8e5m2, which compute in float. */
bool dtype_is_half(enum gpusim_dtype t);

/* An integer with a sign. */
bool dtype_is_signed(enum gpusim_dtype t);

#endif
