/*
 * tune_show.c - a tuner as the texts that make another one like it: how devices come to choose as the coordinator
 * does. The costs are built in, so they are in no text.
 */
#include <inttypes.h>
#include <string.h>

#include "coll/tune.h"

static bool
differs(const struct tuner *t, const struct tuner *plain, int coll)
{
	return t->select[coll].named || t->select[coll].nfiles ||
	       t->select[coll].allowed != plain->select[coll].allowed;
}

/* "allreduce:^ring,tree": the algorithms that were listed, or those that were left out. */
static bool
show_list(const struct tuner *t, enum gpusim_coll coll, struct buf *out)
{
	const struct tune_select *s = &t->select[coll];
	const char *before = s->named ? "" : "^";

	if (!buf_addf(out, "%s%s:", out->len ? ";" : "", coll_name(coll)))
		return false;
	for (const struct plan_algo *row = plan_algos; row->name; row++) {
		bool allowed = s->allowed >> (row - plan_algos) & 1;

		if (row->coll != coll || allowed != s->named)
			continue;
		if (!buf_addf(out, "%s%s", before, row->name))
			return false;
		before = ",";
	}
	for (unsigned i = 0; i < s->nfiles; i++, before = ",")
		if (!buf_addf(out, "%s%s", before, s->file[i]))
			return false;
	return true;
}

bool
tuner_show_lists(const struct tuner *t, struct buf *out)
{
	struct tuner plain;
	bool good = true;

	tuner_init(&plain);
	for (int c = 0; c < GPUSIM_NCOLLS && good; c++)
		if (differs(t, &plain, c))
			good = show_list(t, (enum gpusim_coll)c, out);
	tuner_fini(&plain);
	return good;
}

bool
tuner_show_rules(const struct tuner *t, uint32_t nranks, struct buf *out)
{
	static const char *const transport[TUNE_NTRANSPORTS] = {
	    [TUNE_NET] = "net", [TUNE_P2P] = "p2p"};
	bool good = true;

	for (size_t i = 0; i < t->nrules && good; i++) {
		const struct tune_rule *r = &t->rule[i];

		if (r->nranks && r->nranks != nranks)
			continue;
		good = buf_addf(out, "%s,%" PRIu64 ",", coll_name(r->coll), r->min_bytes) &&
		       (r->max_bytes == UINT64_MAX ? buf_addf(out, "-1")
						   : buf_addf(out, "%" PRIu64, r->max_bytes)) &&
		       buf_addf(out, ",%s,%s\n", r->file ? r->file : r->algo->name,
				r->transport < 0 ? "-1" : transport[r->transport]);
	}
	return good;
}
