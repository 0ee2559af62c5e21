#include "plan_file.h"

#include <inttypes.h>
#include <string.h>

#include "algo/algo.h"
#include "base/file.h"
#include "base/must.h"
#include "coll/check.h"
#include "coll/tune.h"
#include "mem/dtype.h"

static enum rc
load(const char *path, struct algo **out, struct err *err)
{
	struct buf text = {0};
	enum rc rc = file_text_upto(path, "an algorithm's file", ALGO_MAX_BYTES, &text, err);

	if (rc == RC_OK)
		rc = algo_parse(text.data, text.len - 1, path, NULL, out, err);
	buf_fini(&text);
	return rc;
}

/* Check that the command's words agree with the file. */
static enum rc
check_asked(const struct algo *f, const struct args *a, struct err *err)
{
	struct algo asked = {0};
	enum rc rc;

	if (a->algo)
		return err_set(err, RC_INVAL, "--algo-file: cannot be combined with --algo");
	rc = algo_coll_parse(a->rest[0], &asked, err);
	if (rc != RC_OK)
		return err_set(err, RC_INVAL, "'%s' is not a collective of algorithm files",
			       a->rest[0]);
	if (asked.custom != f->custom || (!asked.custom && asked.coll != f->coll))
		return err_set(err, RC_INVAL, "%s: the algorithm is for %s, not %s", a->algo_file,
			       algo_coll_name(f), algo_coll_name(&asked));
	if (a->nranks && a->nranks != f->nranks)
		return err_set(err, RC_INVAL,
			       "%s: the algorithm is for %" PRIu32 " ranks, but -n is %" PRIu32,
			       a->algo_file, f->nranks, a->nranks);
	if (args_given(a, root) && a->root != f->root)
		return err_set(err, RC_INVAL,
			       "%s: the algorithm's root is %" PRIu32 ", but --root is %" PRIu32,
			       a->algo_file, f->root, a->root);
	return RC_OK;
}

enum rc
plan_file_load(const struct args *a, struct algo **out, struct proof *proof, struct err *err)
{
	struct algo *f = NULL;
	struct proof own;
	enum rc rc = load(a->algo_file, &f, err);

	if (rc != RC_OK)
		return rc;
	rc = check_asked(f, a, err);
	if (rc == RC_OK && algo_prove(f, proof ? proof : &own, err) != RC_OK)
		rc = err_prefix(err, "%s", a->algo_file);
	if (rc == RC_OK)
		*out = f;
	else
		algo_free(f);
	return rc;
}

enum rc
plan_file_show(const struct args *a, struct buf *out, struct err *err)
{
	struct algo *f = NULL;
	struct proof proof;
	enum rc rc = plan_file_load(a, &f, &proof, err);

	if (rc == RC_OK) {
		if (a->format == PLAN_AS_TEXT)
			must(text_print(f, out));
		else if (a->format == PLAN_AS_XML)
			must(msccl_print(f, out));
		else
			must((a->json ? algo_show_json : algo_show)(f, &proof, out));
	}
	algo_free(f);
	return rc;
}

/* Simulate with the messages that gpuctl synth times and that runs use. */
enum rc
plan_file_simulate(const struct algo *f, struct plan_args *p, const struct args *a,
		   const struct cost_model *m, struct buf *out, struct err *err)
{
	size_t elem = dtype_size(a->dtype);
	uint64_t chunk = a->chunk			      ? a->chunk * elem
			 : p->nelem * elem > TUNE_LARGE_BYTES ? TUNE_LARGE_CHUNK_BYTES
							      : TUNE_CHUNK_BYTES;
	struct schedule *s = NULL;
	struct plan *plans = NULL;
	struct plan_counts n;
	double us;
	enum rc rc = algo_lower(f, NULL, &s, err);

	p->chunk = chunk / elem;
	p->schedule = s;
	if (rc == RC_OK)
		rc = plan_build_all(p, NULL, &plans, err);
	if (rc == RC_OK) {
		plan_count(plans, f->nranks, &n);
		rc = plan_simulate(plans, f->nranks, elem, m, &us, err);
		plan_free_all(plans, f->nranks);
	}
	schedule_free_all(s, f->nranks);
	if (rc != RC_OK)
		return rc;
	must_addf(out,
		  a->json ? "{\"algo\":\"%s\",\"simulated_us\":%.9g,\"rounds\":%" PRIu32
			    ",\"messages\":%" PRIu64 ",\"chunk_bytes\":%" PRIu64 "}"
			  : "%-18s  %12.1f             -  %8" PRIu32 "  %8" PRIu64 "  %10" PRIu64
			    "\n",
		  f->name, us, n.rounds, n.max_messages, chunk);
	return RC_OK;
}

enum rc
plan_file_convert(const struct plan_args *p, const struct args *a, const char *algo,
		  struct buf *out, struct err *err)
{
	struct algo *f = NULL;
	struct buf text = {0};
	enum rc rc = text_print_plans(p, algo, &text, err);

	if (rc == RC_OK && a->format == PLAN_AS_TEXT)
		must_add(out, text.data, text.len);
	else if (rc == RC_OK)
		rc = text_parse(text.data, text.len, algo, NULL, &f, err);
	if (f)
		must(msccl_print(f, out));
	algo_free(f);
	buf_fini(&text);
	return rc;
}
