#include "mem/halfvec.h"

#include "mem/reduce_isa.h"

void
halfvec_widen(float *dst, const void *src, size_t nelem)
{
	reduce_isa_at(0)->widen(GPUSIM_F16, dst, src, nelem);
}

void
halfvec_narrow(void *dst, const float *src, size_t nelem)
{
	reduce_isa_at(0)->narrow(GPUSIM_F16, dst, src, nelem);
}
