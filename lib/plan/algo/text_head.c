/* The head: settings before transfers or steps. */
#include "algo/text_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

#define AT(member) offsetof(struct reader, member)

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
		return scan_fail(
		    &x->scan, RC_BADDATA,
		    "'%.*s' is not a legal name: at most %d letters, digits, . _ -, the "
		    "first one a letter or digit",
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
				 "protocol '%.*s': must be Simple, LL or LL128",
				 (int)(len < 40 ? len : 40), at);
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
		return scan_fail(&x->scan, RC_BADDATA, "bytes: bad range %" PRId64 "..%" PRId64 "",
				 lo, hi);
	x->head.min_bytes = (uint64_t)lo;
	x->head.max_bytes = (uint64_t)hi;
	return true;
}

/* A line has a reader, or is a number or a flag stored at `at` in the reader. */
static const struct head_line {
	const char *word;
	bool (*read)(struct reader *x);
	bool needed;
	const char *number;
	uint32_t lo, hi;
	size_t at;
} head_lines[] = {
    {.word = "algorithm", .read = head_name},
    {.word = "collective", .read = head_collective, .needed = true},
    {"ranks", NULL, true, "the number of ranks", 1, ALGO_MAX_RANKS, AT(head.nranks)},
    {"chunks", NULL, true, "the number of chunks", 1, ALGO_MAX_CHUNKS, AT(head.nchunks)},
    {"channels", NULL, false, "the number of channels", 1, ALGO_MAX_CHANNELS, AT(head.nchannels)},
    {"scratch", NULL, false, "the chunks of scratch", 0, ALGO_MAX_CHUNKS, AT(scratch)},
    {"root", NULL, false, "the root", 0, ALGO_MAX_RANKS - 1, AT(head.root)},
    {.word = "inplace", .at = AT(head.in_place)},
    {.word = "outofplace", .at = AT(head.out_of_place)},
    {.word = "proto", .read = head_proto},
    {.word = "bytes", .read = head_bytes},
};

#define NHEAD_LINES (sizeof head_lines / sizeof *head_lines)

static bool
read_line(struct reader *x, const struct head_line *l)
{
	void *at = (char *)x + l->at;
	struct variable *v;

	if (l->read)
		return l->read(x);
	if (!l->number)
		return *(bool *)at = true;
	if (!scan_u32(&x->scan, l->number, l->lo, l->hi, at))
		return false;
	if (l->needed) { /* expressions may use its name */
		v = &x->scan.variable[x->scan.nvariables++];
		*v = (struct variable){.value = *(uint32_t *)at};
		snprintf(v->name, sizeof v->name, "%s", l->word);
	}
	return true;
}

/* Out of place; in place the larger one is right, too. */
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
			return scan_fail(&x->scan, RC_BADDATA, "a line '%s' must come before this",
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
			return scan_fail(&x->scan, RC_BADDATA, "'%s' occurs twice",
					 head_lines[i].word);
		x->said |= 1u << i;
		if (!scan_next(&x->scan) || !read_line(x, &head_lines[i]) ||
		    !scan_expect_end(&x->scan))
			return false;
		*done = true;
	}
	return true;
}
