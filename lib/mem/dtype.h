/*
 * dtype.h - element types and reduction operations: names, sizes, conversion to and from double.
 */
#ifndef MEM_DTYPE_H
#define MEM_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

/* Bytes of one element; 0 for a number that is no type (so: also the validity check). */
size_t dtype_size(enum gpusim_dtype t);

/* "f32"; "?" for a number that is no type. Static storage. */
const char *dtype_name(enum gpusim_dtype t);
const char *redop_name(enum gpusim_redop redop);

/* From a name; the error lists the names there are. Also takes float double half bfloat16 int8 ...
 */
enum rc dtype_parse(const char *name, enum gpusim_dtype *out, struct err *err);
enum rc redop_parse(const char *name, enum gpusim_redop *out, struct err *err);

bool dtype_is_float(enum gpusim_dtype t);

/* IEEE binary16 and bfloat16 as bits, rounded to nearest even; NaN stays NaN, overflow is infinity.
 */
float half_to_f32(uint16_t h);
uint16_t half_from_f32(float f);
float bf16_to_f32(uint16_t h);
uint16_t bf16_from_f32(float f);

#endif
