/* Passes a recording's algorithms from files to the coordinator of its replay. */
#include <inttypes.h>
#include <stdio.h>

#include "replay/play_impl.h"

/* Not the recorded name: two algorithms may have had it, one after the other. */
const char *
play_algo_name(uint64_t schedule, char room[static PLAY_ALGO_NAME])
{
	snprintf(room, PLAY_ALGO_NAME, "replay.%016" PRIx64, schedule);
	return room;
}

static enum rc
add(struct gpusim *g, const struct story_algo *a, struct err *err)
{
	char name[PLAY_ALGO_NAME];
	const struct gpusim_algo_config cfg = {GPUSIM_ALGO_CONFIG_INIT,
					       .name = play_algo_name(a->schedule, name),
					       .path = a->name, .life = GPUSIM_LEASE};

	if (!a->nbytes || a->have < a->nbytes)
		return err_set(err, RC_BADDATA,
			       "operations ran algorithm %s of a file, but the recording does not "
			       "have the file: the coordinator read it before the recording began",
			       a->name);
	return api(gpusim_algo_add(g, a->text, a->nbytes, &cfg, NULL), err);
}

enum rc
play_add_algos(const struct play *p, struct err *err)
{
	enum rc rc = RC_OK;

	for (size_t i = 0; rc == RC_OK && i < p->s->nalgos; i++)
		if (p->s->algo[i].name)
			rc = add(p->cfg->g, &p->s->algo[i], err);
	return rc;
}
