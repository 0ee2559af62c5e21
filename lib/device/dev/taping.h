/*
 * taping.h - recordings: operations between ranks, written before their first step and after their last.
 *
 * program.tape NULL: nothing is written, at the cost of one comparison an operation.
 */
#ifndef DEV_TAPING_H
#define DEV_TAPING_H

#include "dev/program.h"
#include "tape/tape.h"

/* Write the process and the device. */
void taping_device(struct tape *t, const GpuSim__DeviceMetadata *m);

/* An operation begins; set 0: the first of its set. Returns its number. */
uint64_t taping_begin(const struct program *p, const struct inst_coll *c, uint64_t op,
		      uint64_t set);

/* An operation has ended. */
void taping_end(const struct program *p, const struct inst_coll *c, uint64_t number, enum rc rc,
		const struct err *err);

/* A fault takes place: at a step of an operation (p and c), or (NULL) now. */
void taping_fault(struct tape *t, const struct gpusim_fault *f, const struct program *p,
		  const struct inst_coll *c, uint64_t op, uint32_t step);

#endif
