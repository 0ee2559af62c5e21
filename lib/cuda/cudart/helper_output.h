/* helper_output.h - the kernels' output, on its way to the program's standard output. */
#ifndef CUDART_HELPER_OUTPUT_H
#define CUDART_HELPER_OUTPUT_H

#include "base/rc.h"

/* The file that helpers have as standard output; made by the first call. -1: not available, with
 * the reason in *err. */
int helper_output(struct err *err);

#endif
