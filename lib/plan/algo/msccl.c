#include "algo/algo.h"

#include <errno.h>
#include <expat.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An attribute that is a number. */
struct field {
	const char *name;
	int64_t lo, hi;
	int64_t absent; /* its default value; NEEDED: required */
};

#define NEEDED INT64_MIN

enum { NCHANNELS, NCHUNKS, NGPUS, IN_PLACE, OUT_OF_PLACE, MIN_BYTES, MAX_BYTES, ROOT, NALGO };
enum { GPU_ID, I_CHUNKS, O_CHUNKS, S_CHUNKS, NGPU };
enum { TB_ID, TB_SEND, TB_RECV, TB_CHAN, NTB };
enum { STEP_S, STEP_SRCOFF, STEP_DSTOFF, STEP_CNT, STEP_DEPID, STEP_DEPS, STEP_HASDEP, NSTEP };

static const struct field algo_fields[NALGO] = {
    [NCHANNELS] = {"nchannels", 1, ALGO_MAX_CHANNELS, NEEDED},
    [NCHUNKS] = {"nchunksperloop", 1, ALGO_MAX_CHUNKS, NEEDED},
    [NGPUS] = {"ngpus", 1, ALGO_MAX_RANKS, NEEDED},
    [IN_PLACE] = {"inplace", 0, 1, 0},
    [OUT_OF_PLACE] = {"outofplace", 0, 1, -1},
    [MIN_BYTES] = {"minBytes", 0, INT64_MAX, 0},
    [MAX_BYTES] = {"maxBytes", 0, INT64_MAX, 0},
    [ROOT] = {"root", 0, ALGO_MAX_RANKS - 1, 0},
};

static const struct field gpu_fields[NGPU] = {
    [GPU_ID] = {"id", 0, ALGO_MAX_RANKS - 1, NEEDED},
    [I_CHUNKS] = {"i_chunks", 0, ALGO_MAX_CHUNKS, NEEDED},
    [O_CHUNKS] = {"o_chunks", 0, ALGO_MAX_CHUNKS, NEEDED},
    [S_CHUNKS] = {"s_chunks", 0, ALGO_MAX_CHUNKS, NEEDED},
};

static const struct field tb_fields[NTB] = {
    [TB_ID] = {"id", 0, INT32_MAX, NEEDED},
    [TB_SEND] = {"send", -1, ALGO_MAX_RANKS - 1, NEEDED},
    [TB_RECV] = {"recv", -1, ALGO_MAX_RANKS - 1, NEEDED},
    [TB_CHAN] = {"chan", 0, ALGO_MAX_CHANNELS - 1, NEEDED},
};

static const struct field step_fields[NSTEP] = {
    [STEP_S] = {"s", 0, ALGO_MAX_STEPS, NEEDED},
    [STEP_SRCOFF] = {"srcoff", -1, ALGO_MAX_CHUNKS, NEEDED},
    [STEP_DSTOFF] = {"dstoff", -1, ALGO_MAX_CHUNKS, NEEDED},
    [STEP_CNT] = {"cnt", 0, ALGO_MAX_CHUNKS, NEEDED},
    [STEP_DEPID] = {"depid", -1, INT32_MAX, -1},
    [STEP_DEPS] = {"deps", -1, ALGO_MAX_STEPS, -1},
    [STEP_HASDEP] = {"hasdep", 0, 1, 0},
};

enum level { OUTSIDE, IN_ALGO, IN_GPU, IN_TB, IN_STEP, NLEVELS };

static const char *const elements[NLEVELS] = {"", "algo", "gpu", "tb", "step"};

struct reader {
	XML_Parser parser;
	const char *name;
	struct algo *algo;
	struct algo_rank *rank;	  /* whose gpu is open */
	struct algo_block *block; /* whose tb is open */
	enum level level;
	size_t nsteps;
	struct algo_budget *budget;
	bool *seen;	/* gpus, by rank */
	struct err err; /* the first error */
};

static uint32_t
line_of(const struct reader *x)
{
#if XML_MAJOR_VERSION > 2 || XML_MINOR_VERSION >= 9
	return (uint32_t)XML_GetCurrentLineNumber64(x->parser);
#else
	return (uint32_t)XML_GetCurrentLineNumber(x->parser);
#endif
}

/* The first error ends the parsing. Always false. */
static bool __attribute__((format(printf, 3, 4)))
refuse(struct reader *x, enum rc rc, const char *fmt, ...)
{
	va_list ap;

	if (x->err.rc != RC_OK)
		return false;
	va_start(ap, fmt);
	vsnprintf(x->err.text, sizeof x->err.text, fmt, ap);
	va_end(ap);
	x->err.rc = rc;
	err_prefix(&x->err, "%s:%" PRIu32, x->name, line_of(x));
	XML_StopParser(x->parser, XML_FALSE);
	return false;
}

static bool
no_memory(struct reader *x)
{
	return refuse(x, RC_NOMEM, "out of memory");
}

/* ---- attributes */

static const char *
attribute(const char **atts, const char *name)
{
	for (; atts[0]; atts += 2)
		if (strcmp(atts[0], name) == 0)
			return atts[1];
	return NULL;
}

/* Attributes that are words; NULL: missing, which is reported. */
static const char *
word(struct reader *x, const char **atts, const char *name)
{
	const char *s = attribute(atts, name);

	if (!s)
		refuse(x, RC_BADDATA, "%s has no %s", elements[x->level + 1], name);
	return s;
}

static bool
number(struct reader *x, const char **atts, const struct field *f, int64_t *out)
{
	const char *s = attribute(atts, f->name), *element = elements[x->level + 1];
	char *end;
	long long v;

	if (!s && f->absent == NEEDED)
		return refuse(x, RC_BADDATA, "%s has no %s", element, f->name);
	if (!s) {
		*out = f->absent;
		return true;
	}
	errno = 0;
	v = strtoll(s, &end, 10);
	if (!strchr("-0123456789", *s) || end == s || *end)
		return refuse(x, RC_BADDATA, "%s: %s=\"%.40s\" is not a number", element, f->name,
			      s);
	if (errno || v < f->lo || v > f->hi)
		return refuse(x, RC_BADDATA, "%s: %s=\"%.40s\" must be %" PRId64 " to %" PRId64,
			      element, f->name, s, f->lo, f->hi);
	*out = v;
	return true;
}

static bool
numbers(struct reader *x, const char **atts, const struct field *f, size_t n, int64_t *v)
{
	for (size_t i = 0; i < n; i++)
		if (!number(x, atts, &f[i], &v[i]))
			return false;
	return true;
}

/* ---- elements */

/* Make a legal name: letters and digits, and . _ - after the first. */
static void
take_name(struct algo *a, const char *s)
{
	static const char good[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t n = 0;

	if (!s || !*s)
		s = "unnamed";
	if (strchr("._-", *s) || !strchr(good, *s))
		a->name[n++] = 'x';
	for (; *s && n < ALGO_NAME_MAX - 1; s++)
		a->name[n++] = strchr(good, *s) ? *s : '_';
	a->name[n] = '\0';
}

static bool
take_proto(struct reader *x, const char *s)
{
	static const char *const known[] = {"Simple", "LL", "LL128"};

	for (size_t i = 0; s && i < sizeof known / sizeof *known; i++)
		if (strcmp(s, known[i]) == 0) {
			snprintf(x->algo->proto, sizeof x->algo->proto, "%s", s);
			return true;
		}
	return !s || refuse(x, RC_BADDATA, "algo: proto=\"%.40s\" must be Simple, LL or LL128", s);
}

static bool
open_algo(struct reader *x, const char **atts)
{
	const char *coll = word(x, atts, "coll");
	struct err err = {0};
	int64_t v[NALGO];
	struct algo *a;

	if (!coll || !numbers(x, atts, algo_fields, NALGO, v))
		return false;
	a = x->algo = algo_new((uint32_t)v[NGPUS]);
	x->seen = alloc_zeroed((size_t)v[NGPUS], sizeof *x->seen);
	if (!a || !x->seen)
		return no_memory(x);
	a->nchannels = (uint32_t)v[NCHANNELS];
	a->nchunks = (uint32_t)v[NCHUNKS];
	a->root = (uint32_t)v[ROOT];
	a->in_place = v[IN_PLACE];
	a->out_of_place = v[OUT_OF_PLACE] == -1 ? !a->in_place : v[OUT_OF_PLACE];
	a->min_bytes = (uint64_t)v[MIN_BYTES];
	a->max_bytes = (uint64_t)v[MAX_BYTES];
	take_name(a, attribute(atts, "name"));
	if (algo_coll_parse(coll, a, &err) != RC_OK)
		return refuse(x, err.rc, "%s", err.text);
	return take_proto(x, attribute(atts, "proto"));
}

static bool
open_gpu(struct reader *x, const char **atts)
{
	int64_t v[NGPU];

	if (!numbers(x, atts, gpu_fields, NGPU, v))
		return false;
	if (v[GPU_ID] >= x->algo->nranks)
		return refuse(x, RC_BADDATA, "gpu %" PRId64 ", but ngpus=\"%" PRIu32 "\"",
			      v[GPU_ID], x->algo->nranks);
	if (x->seen[v[GPU_ID]])
		return refuse(x, RC_BADDATA, "gpu %" PRId64 " occurs twice", v[GPU_ID]);
	x->seen[v[GPU_ID]] = true;
	x->rank = &x->algo->rank[v[GPU_ID]];
	x->rank->chunks[ALGO_IN] = (uint32_t)v[I_CHUNKS];
	x->rank->chunks[ALGO_OUT] = (uint32_t)v[O_CHUNKS];
	x->rank->chunks[ALGO_SCRATCH] = (uint32_t)v[S_CHUNKS];
	return true;
}

static bool
open_tb(struct reader *x, const char **atts)
{
	int64_t v[NTB];

	if (!numbers(x, atts, tb_fields, NTB, v))
		return false;
	if (x->rank->nblock == ALGO_MAX_BLOCKS)
		return refuse(x, RC_BADDATA, "more than %u thread blocks of a gpu",
			      ALGO_MAX_BLOCKS);
	for (size_t b = 0; b < x->rank->nblock; b++)
		if (x->rank->block[b].id == v[TB_ID])
			return refuse(x, RC_BADDATA, "tb %" PRId64 " occurs twice", v[TB_ID]);
	x->block =
	    algo_add_block(x->rank, v[TB_SEND] < 0 ? ALGO_NONE : (uint32_t)v[TB_SEND],
			   v[TB_RECV] < 0 ? ALGO_NONE : (uint32_t)v[TB_RECV], (uint32_t)v[TB_CHAN]);
	if (!x->block)
		return no_memory(x);
	x->block->id = (uint32_t)v[TB_ID];
	return true;
}

static int
kind_of(const char *s)
{
	for (int k = 0; k < ALGO_NKINDS; k++)
		if (strcmp(algo_kind_name((unsigned)k), s) == 0)
			return k;
	return -1;
}

/* One side of a step, where its kind has it. */
static bool
take_side(struct reader *x, const char **atts, const char *name, int64_t at, uint8_t *buf,
	  uint32_t *off)
{
	const char *s = word(x, atts, name);

	if (!s)
		return false;
	for (unsigned b = 0; b < ALGO_NBUFS; b++)
		if (strcmp(algo_buf_name(b), s) == 0) {
			if (at < 0)
				return refuse(x, RC_BADDATA, "step has no %.3soff", name);
			*buf = (uint8_t)b;
			*off = (uint32_t)at;
			return true;
		}
	return refuse(x, RC_BADDATA, "step: %s=\"%.40s\" must be i, o or s", name, s);
}

static bool
take_step(struct reader *x, const char **atts, const int64_t *v, struct algo_step *s)
{
	const char *type = word(x, atts, "type");
	int kind = type ? kind_of(type) : -1;

	if (!type)
		return false;
	if (kind < 0)
		return refuse(x, RC_BADDATA,
			      "step: type=\"%.40s\" must be s, r, rcs, rrs, rrc, rrcs, cpy, "
			      "re or nop",
			      type);
	s->kind = (uint8_t)kind;
	s->count = kind == ALGO_NOP ? 0 : (uint32_t)v[STEP_CNT];
	s->line = line_of(x);
	if ((v[STEP_DEPID] < 0) != (v[STEP_DEPS] < 0))
		return refuse(x, RC_BADDATA,
			      "step: depid=\"%" PRId64 "\" and deps=\"%" PRId64
			      "\": only one of them is set",
			      v[STEP_DEPID], v[STEP_DEPS]);
	s->dep_block = v[STEP_DEPID] < 0 ? ALGO_NONE : (uint32_t)v[STEP_DEPID];
	s->dep_step = v[STEP_DEPS] < 0 ? ALGO_NONE : (uint32_t)v[STEP_DEPS];
	return (!algo_kind_reads(s->kind) ||
		take_side(x, atts, "srcbuf", v[STEP_SRCOFF], &s->src, &s->src_at)) &&
	       (!algo_kind_writes(s->kind) ||
		take_side(x, atts, "dstbuf", v[STEP_DSTOFF], &s->dst, &s->dst_at));
}

static bool
open_step(struct reader *x, const char **atts)
{
	struct algo_step s = {0};
	int64_t v[NSTEP];

	if (!numbers(x, atts, step_fields, NSTEP, v) || !take_step(x, atts, v, &s))
		return false;
	if (v[STEP_S] != (int64_t)x->block->nstep)
		return refuse(x, RC_BADDATA, "step s=\"%" PRId64 "\" is number %zu of its tb",
			      v[STEP_S], x->block->nstep);
	if (x->nsteps++ == algo_max_steps(x->budget))
		return refuse(x, RC_BADDATA, "more than %u steps", algo_max_steps(x->budget));
	s.has_dep = (uint8_t)v[STEP_HASDEP];
	return algo_add_step(x->block, s) || no_memory(x);
}

static void XMLCALL
on_start(void *arg, const char *name, const char **atts)
{
	static bool (*const open[NLEVELS])(struct reader *, const char **) = {
	    NULL, open_algo, open_gpu, open_tb, open_step};
	struct reader *x = arg;

	if (x->err.rc != RC_OK)
		return;
	if (x->level + 1 == NLEVELS || strcmp(name, elements[x->level + 1]) != 0)
		refuse(x, RC_BADDATA, "<%.40s> %s%s%s", name,
		       x->level == OUTSIDE ? "is not <algo>" : "cannot be in <", elements[x->level],
		       x->level == OUTSIDE ? "" : ">");
	else if (open[x->level + 1](x, atts))
		x->level++;
}

static void XMLCALL
on_end(void *arg, const char *name)
{
	struct reader *x = arg;

	(void)name;
	if (x->err.rc == RC_OK)
		x->level--;
}

/* Where entities would be declared. */
static void XMLCALL
on_doctype(void *arg, const char *name, const char *system, const char *public, int internal)
{
	(void)name, (void)system, (void)public, (void)internal;
	refuse(arg, RC_BADDATA, "a DOCTYPE is not allowed");
}

/* ---- the whole */

static size_t
block_of(const struct algo_rank *rank, uint32_t id)
{
	size_t b = 0;

	if (id < rank->nblock && rank->block[id].id == id)
		return id;
	while (b < rank->nblock && rank->block[b].id != id)
		b++;
	return b;
}

/*
 * Steps name blocks by the file's ids; from here on by index. A step that another one waits for must have
 * hasdep: MSCCL posts its end only then.
 */
static enum rc
resolve_step(const struct algo *a, uint32_t r, struct algo_step *s, const char *name,
	     struct err *err)
{
	const struct algo_rank *rank = &a->rank[r];
	size_t dep = block_of(rank, s->dep_block);

	if (s->dep_block == ALGO_NONE)
		return RC_OK;
	if (dep == rank->nblock)
		return err_set(err, RC_BADDATA,
			       "%s:%" PRIu32 ": depid=\"%" PRIu32 "\" is not a tb of gpu %" PRIu32,
			       name, s->line, s->dep_block, r);
	if (s->dep_step < rank->block[dep].nstep && !rank->block[dep].step[s->dep_step].has_dep)
		return err_set(err, RC_BADDATA,
			       "%s:%" PRIu32 ": gpu %" PRIu32 " waits for step %" PRIu32
			       " of tb %" PRIu32 ", which has hasdep=\"0\": it would wait forever",
			       name, s->line, r, s->dep_step, s->dep_block);
	s->dep_block = (uint32_t)dep;
	return RC_OK;
}

static enum rc
resolve(const struct algo *a, const char *name, struct err *err)
{
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < a->nranks; r++)
		for (size_t b = 0; b < a->rank[r].nblock; b++) {
			struct algo_block *block = &a->rank[r].block[b];

			for (size_t i = 0; i < block->nstep && rc == RC_OK; i++)
				rc = resolve_step(a, r, &block->step[i], name, err);
		}
	return rc;
}

/* Check the whole, after the file's last byte. */
static enum rc
finish(const struct reader *x, struct err *err)
{
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < x->algo->nranks; r++)
		if (!x->seen[r])
			return err_set(err, RC_BADDATA,
				       "%s: gpu %" PRIu32 " of ngpus=\"%" PRIu32 "\" is missing",
				       x->name, r, x->algo->nranks);
	rc = resolve(x->algo, x->name, err);
	if (rc != RC_OK)
		return rc;
	rc = algo_check_shape(x->algo, err);
	return rc == RC_OK ? RC_OK : err_prefix(err, "%s", x->name);
}

static enum rc
parse(struct reader *x, const char *bytes, size_t n, struct err *err)
{
	enum XML_Status status;

	XML_SetUserData(x->parser, x);
	XML_SetElementHandler(x->parser, on_start, on_end);
	XML_SetStartDoctypeDeclHandler(x->parser, on_doctype);
	status = XML_Parse(x->parser, bytes, (int)n, XML_TRUE);
	if (x->err.rc != RC_OK) {
		if (err)
			*err = x->err;
		return x->err.rc;
	}
	if (status == XML_STATUS_OK)
		return finish(x, err);
	if (XML_GetErrorCode(x->parser) == XML_ERROR_NO_MEMORY)
		return err_set(err, RC_NOMEM, "%s: out of memory", x->name);
	return err_set(err, RC_BADDATA, "%s:%" PRIu32 ": %s", x->name, line_of(x),
		       XML_ErrorString(XML_GetErrorCode(x->parser)));
}

enum rc
msccl_parse(const char *bytes, size_t n, const char *name, struct algo_budget *budget,
	    struct algo **out, struct err *err)
{
	struct reader x = {.parser = XML_ParserCreate(NULL), .name = name, .budget = budget};
	enum rc rc;

	if (n > ALGO_MAX_BYTES)
		rc = err_set(err, RC_BADDATA, "%s: more than %u bytes", name, ALGO_MAX_BYTES);
	else if (!x.parser)
		rc = err_set(err, RC_NOMEM, "%s: out of memory", name);
	else
		rc = parse(&x, bytes, n, err);
	if (x.parser)
		XML_ParserFree(x.parser);
	free(x.seen);
	if (rc == RC_OK) {
		x.algo->budget = budget;
		*out = x.algo;
	} else {
		algo_free(x.algo);
	}
	return rc;
}

/* ---- writing */

static int64_t
or_minus_one(uint32_t v)
{
	return v == ALGO_NONE ? -1 : (int64_t)v;
}

static bool
print_step(const struct algo_step *s, size_t number, bool has_dep, struct buf *out)
{
	int64_t unused = s->kind == ALGO_NOP ? -1 : 0;

	return buf_addf(out,
			"      <step s=\"%zu\" type=\"%s\" srcbuf=\"%s\" srcoff=\"%" PRId64
			"\" dstbuf=\"%s\" dstoff=\"%" PRId64 "\" cnt=\"%" PRIu32
			"\" depid=\"%" PRId64 "\" deps=\"%" PRId64 "\" hasdep=\"%d\"/>\n",
			number, algo_kind_name(s->kind), algo_buf_name(s->src),
			algo_kind_reads(s->kind) ? (int64_t)s->src_at : unused,
			algo_buf_name(s->dst),
			algo_kind_writes(s->kind) ? (int64_t)s->dst_at : unused, s->count,
			or_minus_one(s->dep_block), or_minus_one(s->dep_step), has_dep);
}

/* first[b] is the number of the first step of block b among the rank's; posts has a byte for each. */
static bool
print_blocks(const struct algo_rank *rank, const size_t *first, const uint8_t *posts,
	     struct buf *out)
{
	bool good = true;

	for (size_t b = 0; b < rank->nblock; b++) {
		const struct algo_block *block = &rank->block[b];

		good = good && buf_addf(out,
					"    <tb id=\"%zu\" send=\"%" PRId64 "\" recv=\"%" PRId64
					"\" chan=\"%" PRIu32 "\">\n",
					b, or_minus_one(block->send), or_minus_one(block->recv),
					block->channel);
		for (size_t i = 0; i < block->nstep && good; i++)
			good = print_step(&block->step[i], i, posts[first[b] + i], out);
		good = good && buf_addf(out, "    </tb>\n");
	}
	return good;
}

static bool
print_rank(const struct algo_rank *rank, struct buf *out)
{
	size_t *first = alloc_zeroed(rank->nblock + 1, sizeof *first);
	uint8_t *posts = NULL;
	bool good = first != NULL;

	for (size_t b = 0; b < rank->nblock && good; b++)
		first[b + 1] = first[b] + rank->block[b].nstep;
	if (good)
		posts = alloc_zeroed(first[rank->nblock] + 1, 1);
	for (size_t b = 0; b < rank->nblock && posts; b++)
		for (size_t i = 0; i < rank->block[b].nstep; i++) {
			const struct algo_step *s = &rank->block[b].step[i];

			if (s->dep_block != ALGO_NONE)
				posts[first[s->dep_block] + s->dep_step] = 1;
		}
	good = posts && print_blocks(rank, first, posts, out);
	free(first);
	free(posts);
	return good;
}

bool
msccl_print(const struct algo *a, struct buf *out)
{
	const char *coll = a->coll == GPUSIM_REDUCESCATTER ? "reducescatter" : coll_name(a->coll);
	bool good = buf_addf(out,
			     "<algo name=\"%s\" proto=\"%s\" nchannels=\"%" PRIu32
			     "\" nchunksperloop=\"%" PRIu32 "\" ngpus=\"%" PRIu32
			     "\" coll=\"%s\" inplace=\"%d\" outofplace=\"%d\" minBytes=\"%" PRIu64
			     "\" maxBytes=\"%" PRIu64 "\"",
			     a->name, *a->proto ? a->proto : "Simple", a->nchannels, a->nchunks,
			     a->nranks, a->custom ? "custom" : coll, a->in_place, a->out_of_place,
			     a->min_bytes, a->max_bytes);

	if (a->root)
		good = good && buf_addf(out, " root=\"%" PRIu32 "\"", a->root);
	good = good && buf_addf(out, ">\n");
	for (uint32_t r = 0; r < a->nranks && good; r++)
		good = buf_addf(out,
				"  <gpu id=\"%" PRIu32 "\" i_chunks=\"%" PRIu32
				"\" o_chunks=\"%" PRIu32 "\" s_chunks=\"%" PRIu32 "\">\n",
				r, a->rank[r].chunks[ALGO_IN], a->rank[r].chunks[ALGO_OUT],
				a->rank[r].chunks[ALGO_SCRATCH]) &&
		       print_rank(&a->rank[r], out) && buf_addf(out, "  </gpu>\n");
	return good && buf_addf(out, "</algo>\n");
}
