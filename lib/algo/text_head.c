/* The head: what is said once, before transfers or steps. */
#include "algo/text_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

static bool
head_name(struct reader *x)
{
	const char *at;
	size_t len;

	if (!scan_rest(&x->scan, &at, &len))
		return false;
	snprintf(x->head.name, sizeof x->head.name, "%.*s",
		 (int)(len < sizeof x->head.name ? len : sizeof x->head.name - 1), at);
	if (len >= sizeof x->head.name || !algo_name_ok(x->head.name))
		return scan_fail(&x->scan, RC_BADDATA,
				 "'%.*s' is no name: at most %d letters, digits, . _ -, the first "
				 "one a letter or digit",
				 (int)(len < 80 ? len : 80), at, ALGO_NAME_MAX - 1);
	return true;
}

static bool
head_collective(struct reader *x)
{
	char word[48];
	struct err err = {0};
	const char *at;
	size_t len;

	if (!scan_rest(&x->scan, &at, &len))
		return false;
	snprintf(word, sizeof word, "%.*s", (int)(len < 47 ? len : 47), at);
	return algo_coll_parse(word, &x->head, &err) == RC_OK || text_pass_on(x, &err);
}

static bool
head_proto(struct reader *x)
{
	const char *at;
	size_t len;

	if (!scan_rest(&x->scan, &at, &len))
		return false;
	snprintf(x->head.proto, sizeof x->head.proto, "%.*s",
		 (int)(len < sizeof x->head.proto ? len : sizeof x->head.proto - 1), at);
	if (strcmp(x->head.proto, "Simple") && strcmp(x->head.proto, "LL") &&
	    strcmp(x->head.proto, "LL128"))
		return scan_fail(&x->scan, RC_BADDATA,
				 "protocol '%.*s' is none of Simple, LL, LL128",
				 (int)(len < 40 ? len : 40), at);
	return true;
}

/* A value that expressions may use by its name. */
static bool
constant(struct reader *x, const char *name, uint32_t value)
{
	struct variable *v = &x->scan.variable[x->scan.nvariables++];

	*v = (struct variable){.value = value};
	snprintf(v->name, sizeof v->name, "%s", name);
	return true;
}

static bool
head_ranks(struct reader *x)
{
	return scan_u32(&x->scan, "the number of ranks", 1, ALGO_MAX_RANKS, &x->head.nranks) &&
	       constant(x, "ranks", x->head.nranks);
}

static bool
head_chunks(struct reader *x)
{
	return scan_u32(&x->scan, "the number of chunks", 1, ALGO_MAX_CHUNKS, &x->head.nchunks) &&
	       constant(x, "chunks", x->head.nchunks);
}

static bool
head_channels(struct reader *x)
{
	return scan_u32(&x->scan, "the number of channels", 1, ALGO_MAX_CHANNELS,
			&x->head.nchannels);
}

static bool
head_scratch(struct reader *x)
{
	return scan_u32(&x->scan, "the chunks of scratch", 0, ALGO_MAX_CHUNKS, &x->scratch);
}

static bool
head_root(struct reader *x)
{
	return scan_u32(&x->scan, "the root", 0, ALGO_MAX_RANKS - 1, &x->head.root);
}

static bool
head_in_place(struct reader *x)
{
	x->head.in_place = true;
	return true;
}

static bool
head_out_of_place(struct reader *x)
{
	x->head.out_of_place = true;
	return true;
}

static bool
head_bytes(struct reader *x)
{
	int64_t lo, hi;

	if (!scan_expr(&x->scan, &lo) || !scan_expect_symbol(&x->scan, SYMBOL('.', '.')) ||
	    !scan_expr(&x->scan, &hi))
		return false;
	if (lo < 0 || hi < 0 || (hi && hi < lo))
		return scan_fail(&x->scan, RC_BADDATA, "from %" PRId64 " to %" PRId64 " bytes", lo,
				 hi);
	x->head.min_bytes = (uint64_t)lo;
	x->head.max_bytes = (uint64_t)hi;
	return true;
}

static const struct {
	const char *word;
	bool (*read)(struct reader *x);
	bool needed;
} head_lines[] = {
    {"algorithm", head_name, false},
    {"collective", head_collective, true},
    {"ranks", head_ranks, true},
    {"chunks", head_chunks, true},
    {"channels", head_channels, false},
    {"scratch", head_scratch, false},
    {"root", head_root, false},
    {"inplace", head_in_place, false},
    {"outofplace", head_out_of_place, false},
    {"proto", head_proto, false},
    {"bytes", head_bytes, false},
};

#define NHEAD_LINES (sizeof head_lines / sizeof *head_lines)

/* Out of place. Also in place the larger one is right. */
static void
size_buffers(struct algo *a)
{
	uint32_t n = a->nchunks, per = n / a->nranks;

	for (uint32_t r = 0; r < a->nranks; r++) {
		uint32_t *chunks = a->rank[r].chunks;
		bool off_root = !a->custom && r != a->root;

		chunks[ALGO_IN] = chunks[ALGO_OUT] = n;
		if (!a->custom && a->coll == GPUSIM_ALLGATHER)
			chunks[ALGO_IN] = per;
		if (!a->custom && a->coll == GPUSIM_REDUCESCATTER)
			chunks[ALGO_OUT] = per;
		if (off_root && a->coll == GPUSIM_BROADCAST)
			chunks[ALGO_IN] = 0;
		if (off_root && a->coll == GPUSIM_REDUCE)
			chunks[ALGO_OUT] = 0;
	}
}

bool
text_begin(struct reader *x)
{
	struct algo *a;
	struct algo_rank *rank;

	for (size_t i = 0; i < NHEAD_LINES; i++)
		if (head_lines[i].needed && !(x->said & 1u << i))
			return scan_fail(&x->scan, RC_BADDATA, "there is no line '%s' before this",
					 head_lines[i].word);
	if (x->head.root >= x->head.nranks)
		return scan_fail(&x->scan, RC_BADDATA, "root %" PRIu32 ", but %" PRIu32 " ranks",
				 x->head.root, x->head.nranks);
	a = x->algo = algo_new(x->head.nranks);
	x->sized = alloc_zeroed(x->head.nranks, sizeof *x->sized);
	if (!a || !x->sized)
		return text_no_memory(x);
	rank = a->rank;
	*a = x->head;
	a->rank = rank;
	if (!a->nchannels)
		a->nchannels = ALGO_MAX_CHANNELS;
	size_buffers(a);
	return true;
}

bool
text_head(struct reader *x, bool *done)
{
	*done = false;
	for (size_t i = 0; i < NHEAD_LINES && !*done; i++) {
		if (!scan_is(&x->scan, head_lines[i].word))
			continue;
		if (x->algo)
			return scan_fail(&x->scan, RC_BADDATA,
					 "'%s' belongs to the head, before the first line of "
					 "another kind",
					 head_lines[i].word);
		if (x->said & 1u << i)
			return scan_fail(&x->scan, RC_BADDATA, "'%s' is said twice",
					 head_lines[i].word);
		x->said |= 1u << i;
		if (!scan_next(&x->scan) || !head_lines[i].read(x) || !scan_expect_end(&x->scan))
			return false;
		*done = true;
	}
	return true;
}
