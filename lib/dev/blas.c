#include "dev/blas.h"

#include <cblas.h>

void
blas_set_threads(unsigned n)
{
	openblas_set_num_threads((int)n);
}
