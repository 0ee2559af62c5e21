/* helper_divide.h - a division of integers that this processor has no result for. */
#ifndef CUDART_HELPER_DIVIDE_H
#define CUDART_HELPER_DIVIDE_H

#include <stdbool.h>

/*
 * In a handler of SIGFPE: give the instruction the result that a GPU gives, and go on behind it. A quotient by zero is
 * all ones, its remainder the dividend; the least number by -1 is itself.
 *
 *	context	the handler's third argument
 *
 * False: it is no such instruction, or the processor is not x86-64 (aarch64 has no such fault).
 */
bool helper_divide(void *context);

#endif
