/*
 * synth_impl.h - the state of a search. Only for synth*.c and candidates.c.
 */
#ifndef SYNTH_IMPL_H
#define SYNTH_IMPL_H

#include "synth/draft.h"
#include "synth/synth.h"

#define SYNTH_ELEM 4u  /* bytes of an element, by which candidates are timed */
#define SYNTH_KEPT 12u /* of which slices are tried, and which are tried as files */

struct search {
	const struct synth_ask *ask;
	const struct links *links;
	struct synth_result *out;
	struct draft kept[SYNTH_KEPT]; /* the fastest first */
	double us[SYNTH_KEPT], score[SYNTH_KEPT];
	size_t nkept;
	bool timed;	/* the best one has run in a trial */
	uint64_t chunk; /* of the best built-in, elements */
	enum rc rc;
	struct err *err;
};

/* No failure, and time is left. */
bool search_goes_on(struct search *s);
void search_fail(struct search *s, enum rc rc);

/* Of equally fast ones the first stays. */
bool search_is_faster(double us, double than);
uint64_t search_nelem(const struct search *s);
/* INFINITY: devices cannot run these plans. */
double search_time(struct search *s, const struct plan *plans);

/* Draft, time and keep the fastest of all kinds but the built-in ones. */
void search_candidates(struct search *s);

#endif
