/* helper_output.h - what kernels print, on its way to the program's standard output. */
#ifndef CUDART_HELPER_OUTPUT_H
#define CUDART_HELPER_OUTPUT_H

#include "base/rc.h"

/* The file that helpers have as standard output; made by the first call. -1: there is none, with the sentence. */
int helper_output(struct err *err);

#endif
