#include "dev/cmdq_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

static void
algos_free(struct cmdq_algos *a)
{
	for (size_t i = 0; i < a->files.n; i++)
		schedule_free_all(a->files.v[i].of, 1);
	free(a->files.v);
	free(a);
}

static enum rc
take(const GpuSim__RankAlgo *m, uint32_t rank, uint32_t nranks, struct tune_file *out,
     struct err *err)
{
	struct schedule *s;
	enum rc rc = schedule_unpack(m->schedule.data, m->schedule.len, &s, err);

	if (rc != RC_OK)
		return err_prefix(err, "algorithm %.63s", m->name);
	if (s->rank != rank || s->nranks != nranks || (uint32_t)s->coll != (uint32_t)m->coll ||
	    !tune_is_name(m->name)) {
		schedule_free_all(s, 1);
		return err_set(err, RC_BADDATA, "algorithm %.63s: not for rank %u of %u", m->name,
			       rank, nranks);
	}
	*out = (struct tune_file){.coll = s->coll,
				  .nranks = nranks,
				  .root = s->root,
				  .min_bytes = m->minbytes,
				  .max_bytes = m->maxbytes,
				  .of = s};
	snprintf(out->name, sizeof out->name, "%s", m->name);
	return RC_OK;
}

enum rc
cmdq_algos_new(GpuSim__RankAlgo *const *v, size_t n, uint32_t rank, uint32_t nranks,
	       struct cmdq_algos **out, struct err *err)
{
	struct cmdq_algos *a;
	enum rc rc = RC_OK;

	*out = NULL;
	if (n == 0)
		return RC_OK;
	a = alloc_zeroed(1, sizeof *a);
	if (a)
		a->files.v = alloc_zeroed(n, sizeof *a->files.v);
	if (!a || !a->files.v) {
		free(a);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	a->users = 1;
	for (size_t i = 0; i < n && rc == RC_OK; i++) {
		rc = take(v[i], rank, nranks, &a->files.v[i], err);
		a->files.n += rc == RC_OK;
	}
	if (rc == RC_OK)
		*out = a;
	else
		algos_free(a);
	return rc;
}

void
cmdq_algos_drop(struct cmdq_algos *a)
{
	if (a && atomic_fetch_sub(&a->users, 1) == 1)
		algos_free(a);
}
