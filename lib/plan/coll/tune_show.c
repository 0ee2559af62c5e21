/*
 * tune_show.c - write a tuner as texts that make an equal one, so that devices choose as the
 * coordinator does. Built-in costs are not written.
 */
#include <inttypes.h>
#include <string.h>

#include "coll/tune.h"

static const char *const transport[TUNE_NTRANSPORTS] = {[TUNE_NET] = "net", [TUNE_P2P] = "p2p"};

/* "allreduce:^ring,tree": the listed algorithms, or the excluded ones. */
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
		if (t->select[c].named || t->select[c].nfiles ||
		    t->select[c].allowed != plain.select[c].allowed)
			good = show_list(t, (enum gpusim_coll)c, out);
	tuner_fini(&plain);
	return good;
}

static bool
tune_show_costs(enum tune_transport by, const struct cost_model *m, struct buf *out)
{
	return buf_addf(out, "cost,%s,alpha_us=%.17g,host_us=%.17g,beta_ns=%.17g,gamma_ns=%.17g\n",
			transport[by], m->alpha_us, m->host_us, 1e3 * m->beta_us,
			1e3 * m->gamma_us);
}

bool
tune_show_sent(enum tune_transport by, const struct cost_model *m, struct buf *out)
{
	return buf_addf(out, "cost,%s,alpha_us=%.6g,host_us=%.4g,beta_ns=%.4g\n", transport[by],
			m->alpha_us, m->host_us, 1e3 * m->beta_us);
}

bool
tuner_show_rules(const struct tuner *t, uint32_t nranks, const struct link_shape *links,
		 struct buf *out)
{
	struct tuner plain;
	bool good = true;

	tuner_init(&plain);
	for (int by = 0; by < TUNE_NTRANSPORTS && good; by++) {
		struct cost_model m = tuner_model(t, (enum tune_transport)by, links);

		if (memcmp(&m, &plain.model[by], sizeof m) != 0)
			good = tune_show_costs((enum tune_transport)by, &m, out);
	}
	tuner_fini(&plain);
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
