/*
 * text_impl.h - the reader of the text form. Only for text*.c.
 */
#ifndef ALGO_TEXT_IMPL_H
#define ALGO_TEXT_IMPL_H

#include "algo/algo.h"
#include "algo/scan.h"
#include "algo/transfers.h"

/* A line that is not blank. */
struct line {
	const char *at;
	uint32_t number;
	uint32_t end, other; /* of for and if: the line of its end, and of else or the same */
};

/* The file's names for the vector's buffers. */
enum naming { UNNAMED, AS_DATA, AS_IN_AND_OUT };

struct reader {
	struct scan scan;
	struct line *line;
	size_t nlines, cap;
	struct algo *algo; /* NULL: still in the head */
	struct algo head;
	uint32_t said; /* lines of the head that were read, bits by text_head.c's table */
	uint32_t scratch;
	struct transfers *transfers; /* NULL: none yet */
	struct algo_rank *rank;	     /* of the following steps; NULL: none */
	struct algo_block *block;
	bool *sized; /* ranks whose chunks are set */
	size_t nsteps;
	unsigned loops;	    /* current depth of loops */
	uint32_t nchannels; /* in use */
	enum naming naming;
	uint32_t naming_line;
};

static inline bool
text_no_memory(struct reader *x)
{
	return scan_fail(&x->scan, RC_NOMEM, "out of memory");
}

/* Fail with the error of another part, with this line. */
static inline bool
text_pass_on(struct reader *x, const struct err *err)
{
	return scan_fail(&x->scan, err->rc, "%s", err->text);
}

/* Each of these returns false with the reason in scan.err. */

/* A line of the head: *done. */
bool text_head(struct reader *x, bool *done);

/* The head is complete; make the algorithm. */
bool text_begin(struct reader *x);

/* A transfer, or a line of ranks, blocks and steps. */
bool text_action(struct reader *x);

#endif
