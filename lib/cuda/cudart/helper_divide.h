/* helper_divide.h - an integer division without a result on this processor. */
#ifndef CUDART_HELPER_DIVIDE_H
#define CUDART_HELPER_DIVIDE_H

#include <stdbool.h>

/*
 * In a handler of SIGFPE: give the instruction the result that a GPU gives, and continue after it. A
 * quotient by zero is all ones, its remainder the dividend; the least number divided by -1 is itself.
 *
 *	context	the handler's third argument
 *
 * False: not such an instruction, or the processor is not x86-64 (aarch64 has no such fault).
 */
bool helper_divide(void *context);

#endif
