/*
 * search.h - the best schedule of a pipeline for given costs and memory.
 */
#ifndef PIPELINE_SEARCH_H
#define PIPELINE_SEARCH_H

#include "pipeline/pipeline.h"

#define PIPELINE_SEARCH_RANKS 64u
#define PIPELINE_SEARCH_MAX   16384u /* ranks * microbatches */

struct pipeline_goal {
	uint32_t nranks, nmicro; /* a stage a rank */
	struct pipeline_costs costs;
	uint32_t memory; /* most passes forward whose W has not ended, on a rank */
};

struct pipeline_found {
	struct pipeline *pipeline; /* released with pipeline_free */
	double bubble, end;	   /* as in struct pipeline_times */
	bool exact;		   /* no schedule with a stage a rank has a smaller bubble */
};

/*
 * pipeline_search - the schedule with the smallest bubble; among equal ones that which ends first.
 *
 * It is at least as good as each of pipeline_make that fits the memory. Same goal, same schedule.
 *
 * Errors: INVAL: no memory, or numbers that are too large; NOMEM.
 * Checked by: tests/unit/pipeline/t_search.c against all schedules of small pipelines
 */
enum rc pipeline_search(const struct pipeline_goal *goal, struct pipeline_found *out,
			struct err *err);

#endif
