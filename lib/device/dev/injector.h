/*
 * injector.h - carries out faults on this device: at once, or when a collective reaches their point.
 */
#ifndef DEV_INJECTOR_H
#define DEV_INJECTOR_H

#include "dev/inject.h"
#include "dev/program.h"
#include "dev/device_recorder.h"

#define INJECT_SOON 8 /* faults of the process that wait until the answer has been sent */

struct injector {
	struct inject_table table;
	struct xport *xport;
	struct tape *tape; /* recording of faults, or NULL */
	void (*say)(const char *line);
	struct device_recorder *recorder;      /* or NULL */
	struct gpusim_fault soon[INJECT_SOON]; /* lock: the table's */
	unsigned nsoon;
};

/* The xport and the tape (or NULL) outlive it. NULL: out of memory. */
struct injector *injector_new(struct xport *x, struct tape *tape, void (*say)(const char *line));
void injector_free(struct injector *i); /* NULL is legal */

/* Add a requested fault. RC_INVAL, RC_NOTFOUND, RC_BUSY. */
enum rc injector_add(struct injector *i, const struct gpusim_fault *f, struct err *err);
void injector_clear(struct injector *i);

/* Kill or stop now; called every 100 ms or so. NULL is legal. */
void injector_tick(struct injector *i);

/* A step is about to run: carry out the due faults. */
void injector_step(struct injector *i, const struct program *p, const struct inst_coll *c,
		   uint64_t op, size_t step);

/* The same, nearly free when nothing is armed. */
static inline void
inject_step(const struct program *p, const struct inst_coll *c, uint64_t op, size_t step)
{
	if (p->inject && inject_any(&p->inject->table))
		injector_step(p->inject, p, c, op, step);
}

/* The operation has ended: flip the due bits of its result. */
void injector_end(struct injector *i, const struct program *p, const struct inst_coll *c,
		  uint64_t op);

static inline void
inject_end(const struct program *p, const struct inst_coll *c, uint64_t op)
{
	if (p->inject && inject_any(&p->inject->table))
		injector_end(p->inject, p, c, op);
}

#endif
