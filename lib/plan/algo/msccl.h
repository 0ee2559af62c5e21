/*
 * msccl.h - read and write MSCCL's XML. Pure except for expat.
 *
 * One addition of ours: the attribute root of algo (0), for broadcast and reduce.
 */
#ifndef ALGO_MSCCL_H
#define ALGO_MSCCL_H

#include "algo/algo.h"
#include "base/buf.h"

/*
 * msccl_parse - an algorithm from XML.
 *
 *	name	of the file, for sentences
 *	budget	see algo_parse
 *	out	[out] the caller's, to release with algo_free; its shape has been checked
 *
 * Unknown attributes are ignored; unknown elements, DOCTYPE and with it all entities are rejected. A
 * character that is illegal in our names becomes '_'. RC_BADDATA "NAME:LINE: reason", RC_NOMEM.
 */
enum rc msccl_parse(const char *bytes, size_t n, const char *name, struct algo_budget *budget,
		    struct algo **out, struct err *err);

/* Append as XML; msccl_parse makes the same structure of it. False: out of memory. */
bool msccl_print(const struct algo *a, struct buf *out);

#endif
