/* gpuctl plan - print a collective's schedule, or its simulated cost. Needs no devices. */
#include "coll/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/must.h"
#include "cli.h"
#include "coll/simulate.h"
#include "coll/shape.h"
#include "coll/tune.h"
#include "mem/dtype.h"
#include "mem/redop.h"
#include "plan_file.h"

static void
list(bool json)
{
	struct json j = {stdout, false};

	if (json)
		json_put(&j, "[");
	for (const struct plan_algo *row = plan_algos; row->name; row++)
		if (json)
			json_put(&j, "{collective:%s algo:%s summary:%s}", coll_name(row->coll),
				 row->name, row->summary);
		else
			printf("%-14s  %-18s  %s\n", coll_name(row->coll), row->name, row->summary);
	if (json)
		json_put(&j, "]\n");
}

/* Without --count or --bytes each rank's part has one element. */
static enum rc
plan_size(enum gpusim_coll coll, const struct args *a, uint64_t *nelem, struct err *err)
{
	uint64_t count = coll_has_parts(coll) ? 1 : a->nranks;

	if (args_given(a, nbytes) && args_given(a, count))
		return err_set(err, RC_INVAL, "--bytes: cannot be combined with --count");
	if (args_given(a, nbytes)) {
		*nelem = a->nbytes / dtype_size(a->dtype);
		if (coll == GPUSIM_ALLTOALL)
			*nelem -= *nelem % a->nranks;
		return RC_OK;
	}
	if (args_given(a, count))
		count = a->count;
	else if (coll == GPUSIM_BARRIER)
		count = 0;
	return shape_nelem(coll, count, a->nranks, nelem, err);
}

/* Configure the tuner as a coordinator over sockets in this environment would. */
static enum rc
tuner_here(struct tuner *t, struct err *err)
{
	return tuner_configure(t, getenv("GPUSIM_ALGO"), getenv("GPUSIM_TUNER_CONFIG_FILE"), err);
}

static enum rc
choose(const struct tuner *t, const struct plan_args *p, const char *algo, struct tune_answer *out,
       struct err *err)
{
	struct tune_ask ask = {.args = *p,
			       .algo = algo,
			       .chunk_bytes =
				   p->chunk * dtype_size(p->dtype) * plan_args_widening(p)};

	return tuner_choose(t, &ask, out, err);
}

static uint64_t
elements(const struct args *a, const struct plan_args *p, const struct tune_answer *answer)
{
	return answer->chunk_bytes /
	       (dtype_size(a->dtype) *
		cost_widening(p->coll, answer->algo->name, p->nranks, plan_args_widening(p)));
}

/* Print a file; without --chunk-elems messages are not cut: whoever runs the file cuts them. */
static enum rc
show_form(const struct tuner *t, struct plan_args *p, const struct args *a, struct buf *text,
	  struct err *err)
{
	struct tune_answer answer;
	enum rc rc = choose(t, p, a->algo, &answer, err);

	return rc == RC_OK ? plan_file_convert(p, a, answer.algo->name, text, err) : rc;
}

/* Print the steps, after a line with the choices that the options leave open. */
static enum rc
show(const struct tuner *t, struct plan_args *p, const struct args *a, struct buf *text,
     struct err *err)
{
	static const char *const by[] = {"request", "the tuner file", "the model", "GPUSIM_ALGO"};
	bool json = a->json;
	struct tune_answer answer;
	enum rc rc;

	if (a->format != PLAN_AS_STEPS)
		return show_form(t, p, a, text, err);
	if (a->algo && *a->algo && strcmp(a->algo, "auto") != 0)
		return (json ? plan_show_json : plan_show)(p, a->algo, text, err);
	rc = choose(t, p, NULL, &answer, err);
	if (rc != RC_OK)
		return rc;
	if (!json)
		must_addf(text, "auto: %s in messages of at most %" PRIu64 " bytes, by %s\n",
			  answer.algo->name, answer.chunk_bytes, by[answer.by]);
	p->chunk = elements(a, p, &answer);
	return (json ? plan_show_json : plan_show)(p, answer.algo->name, text, err);
}

static enum rc
simulate(const struct tuner *t, struct plan_args p, const struct args *a,
	 const struct plan_algo *row, bool taken, struct buf *text, struct err *err)
{
	struct tune_answer answer;
	static const char *const how[] = {"", "  from one rank's messages",
					  "  from a shorter vector"};
	struct prediction f;
	enum rc rc;

	if (p.canonical && !plan_algo_canonical(row))
		return RC_OK;
	rc = choose(t, &p, row->name, &answer, err);
	if (rc != RC_OK)
		return rc;
	p.chunk = elements(a, &p, &answer);
	p.canonical = false; /* same messages, and the sums take as long */
	rc = predict(&p, row->name, dtype_size(a->dtype), &t->model[TUNE_NET], &f, err);
	if (rc == RC_OK && a->json)
		must_addf(text,
			  "%s{\"algo\":\"%s\",\"simulated_us\":%.9g,\"formula_us\":%.9g,\"rounds\":"
			  "%" PRIu32 ",\"messages\":%" PRIu64 ",\"chunk_bytes\":%" PRIu64
			  ",\"auto\":%s,\"extrapolated\":%s}",
			  text->data[text->len - 1] == '[' ? "" : ",", row->name, f.us,
			  isnan(answer.us) ? f.us : answer.us, f.rounds, f.max_messages,
			  answer.chunk_bytes, taken ? "true" : "false",
			  f.how == PREDICT_WHOLE ? "false" : "true");
	else if (rc == RC_OK)
		must_addf(text,
			  "%-18s  %12.1f  %12.1f  %8" PRIu32 "  %8" PRIu64 "  %10" PRIu64 "%s%s\n",
			  row->name, f.us, isnan(answer.us) ? f.us : answer.us, f.rounds,
			  f.max_messages, answer.chunk_bytes, taken ? "  auto" : "", how[f.how]);
	return rc;
}

static enum rc
simulate_all(const struct tuner *t, struct plan_args *p, const struct args *a,
	     const struct algo *file, struct buf *text, struct err *err)
{
	const struct cost_model *m = &t->model[TUNE_NET];
	const struct plan_algo *only = NULL;
	struct tune_answer answer;
	enum rc rc = choose(t, p, NULL, &answer, err);

	if (rc == RC_OK && !file && a->algo && *a->algo && strcmp(a->algo, "auto") != 0)
		rc = plan_algo_find(p->coll, a->algo, &only, err);
	if (a->json)
		must_addf(text,
			  "{\"collective\":\"%s\",\"nranks\":%" PRIu32 ",\"bytes\":%" PRIu64
			  ",\"alpha_us\":%g,\"host_us\":%g,\"beta_ns\":%g,\"gamma_ns\":%g,"
			  "\"algorithms\":[",
			  coll_name(p->coll), p->nranks, p->nelem * dtype_size(a->dtype),
			  m->alpha_us, m->host_us, 1e3 * m->beta_us, 1e3 * m->gamma_us);
	else
		must_addf(text,
			  "%s, ranks %" PRIu32 ", bytes %" PRIu64
			  "; per message %g us, and %g us on each host; per byte %g ns; per byte "
			  "reduced %g ns\n"
			  "%-18s  %12s  %12s  %8s  %8s  %10s\n",
			  coll_name(p->coll), p->nranks, p->nelem * dtype_size(a->dtype),
			  m->alpha_us, m->host_us, 1e3 * m->beta_us, 1e3 * m->gamma_us, "algorithm",
			  "simulated us", "formula us", "rounds", "messages", "chunk");
	if (rc == RC_OK && file)
		rc = plan_file_simulate(file, p, a, m, text, err);
	for (const struct plan_algo *row = plan_algos; row->name && !file && rc == RC_OK; row++) {
		const struct cost_algo *cost = cost_find(p->coll, row->name);

		if (row->coll == p->coll && (!only || row == only) && !(cost && cost->shared))
			rc = simulate(t, *p, a, row, row == answer.algo, text, err);
	}
	if (a->json)
		must_addf(text, "]}\n");
	return rc;
}

enum rc
run_plan(struct cli *cli, const struct args *a, struct err *err)
{
	struct plan_args p = {.dtype = a->dtype,
			      .redop = a->redop,
			      .rank = a->rank,
			      .nranks = a->nranks,
			      .chunk = a->chunk};
	struct link_shape links = args_links(a);
	struct buf text = {0};
	struct algo *file = NULL;
	struct args asked = *a;
	struct tuner t;
	enum rc rc;

	(void)cli;
	if (a->list) {
		list(a->json);
		return RC_OK;
	}
	if (a->nrest < 1)
		return err_set(err, RC_INVAL,
			       "a collective is missing; --list lists the collectives");
	if (a->algo_file && !a->simulate) {
		rc = plan_file_show(a, &text, err);
		if (rc == RC_OK)
			fwrite(text.data, 1, text.len, stdout);
		buf_fini(&text);
		return rc;
	}
	if (a->algo_file && (rc = plan_file_load(a, &file, NULL, err)) != RC_OK)
		return rc;
	if (file && file->custom) {
		algo_free(file);
		return err_set(err, RC_INVAL, "--simulate: a custom algorithm needs --cluster");
	}
	if (file)
		p.nranks = asked.nranks = file->nranks;
	if (!p.nranks)
		return err_set(err, RC_INVAL, "the number of ranks is missing: use -n N");
	tuner_init(&t);
	rc = coll_parse(a->rest[0], &p.coll, err);
	if (rc == RC_OK)
		rc = plan_size(p.coll, &asked, &p.nelem, err);
	if (rc == RC_OK)
		rc = tuner_here(&t, err);
	if (rc == RC_OK)
		t.model[TUNE_NET] = tuner_model(&t, TUNE_NET, &links);
	p.wide = rc == RC_OK && plan_args_widening(&p) > 1;
	p.canonical = rc == RC_OK && a->deterministic && plan_args_ordered(&p);
	p.root = file ? file->root : rc == RC_OK && coll_is_sendrecv(p.coll) ? a->peer : a->root;
	if (rc == RC_OK)
		rc = a->simulate ? simulate_all(&t, &p, a, file, &text, err)
				 : show(&t, &p, a, &text, err);
	if (rc == RC_OK)
		fwrite(text.data, 1, text.len, stdout);
	buf_fini(&text);
	tuner_fini(&t);
	algo_free(file);
	return rc;
}
