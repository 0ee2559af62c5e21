/*
 * cmdq_algos.h - the algorithms from files in the attach of a queued communicator.
 */
#ifndef DEV_CMDQ_ALGOS_H
#define DEV_CMDQ_ALGOS_H

#include "coll/schedule.h"
#include "coll/tune.h"
#include "gpu_sim.pb-c.h"

/* Shared by the attach and the processes that have bound the communicator; the last one frees it. */
struct cmdq_algos;

/* NULL when there are none. RC_BADDATA malformed or for another rank; RC_NOMEM. */
enum rc cmdq_algos_new(GpuSim__RankAlgo *const *v, size_t n, uint32_t rank, uint32_t nranks,
		       struct cmdq_algos **out, struct err *err);
/* NULL is legal in all of these. */
struct cmdq_algos *cmdq_algos_share(struct cmdq_algos *a);
void cmdq_algos_drop(struct cmdq_algos *a);

const struct tune_files *cmdq_algos_files(const struct cmdq_algos *a);
/* The schedule of an algorithm. */
const struct schedule *cmdq_algo_schedule(const struct tune_file *f);
/* The first of a collective whose name has this mark (cmdq_algo_mark); the same on all ranks. NULL: none. */
const struct tune_file *cmdq_algos_marked(const struct cmdq_algos *a, enum gpusim_coll coll,
					  uint16_t mark);

#endif
