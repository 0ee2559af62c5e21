/*
 * journal.h - the file of a store: a header, a snapshot, then one batch for each commit. Pure: bytes
 * in memory. All numbers are little-endian.
 *
 *	header	0 magic "gpusim-J"	16 nonce, random for each file
 *		8 version		24 base: where the snapshot ends
 *		12 crc of the rest
 *	batch	0 magic "gBat"		16 bytes that follow the head
 *		4 changes		20 crc of those
 *		8 seq: 1, 2, 3 ...	24 crc of nonce and bytes 0..23, then 4 zero bytes
 *	change	0 kind: 1 put, 2 delete	4 bytes of the value
 *		1 bytes of the key	8 key, value
 *		2 two zero bytes
 *
 * The snapshot is one or more batches too. A file is complete up to base before it gets its name, so only
 * later data may be torn, at its end. Checked by: tests/unit/store/t_store.c, tests/fuzz/f_journal.c
 */
#ifndef STORE_JOURNAL_H
#define STORE_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "store/store.h"

#define JOURNAL_VERSION 1u
#define JOURNAL_HEADER	32u
#define JOURNAL_BATCH	32u
#define JOURNAL_CHANGE	8u

struct journal {
	uint64_t nonce;
	uint64_t base; /* bytes of header and snapshot */
	uint64_t seq;  /* of the last batch */
};

void journal_header(const struct journal *j, unsigned char out[JOURNAL_HEADER]);

/* Append the batch that comes next to *out, and count it in *j. RC_INVAL too large, RC_NOMEM: both
 * are as they were. */
enum rc journal_batch(struct journal *j, const struct store_change *change, size_t n,
		      struct buf *out, struct err *err);

/* A change that was read; the key is terminated. False: out of memory, stop. */
typedef bool journal_fn(void *arg, const struct store_change *change);

/*
 * journal_read - pass on the changes of all complete batches, batch by batch.
 *
 *	name	of the file, for messages
 *	good	[out] bytes up to the end of the last whole batch; less than nbytes: the last batch
 *		was torn
 *
 * RC_BADDATA: not a journal, of another version, or damaged elsewhere than in its last batch. Some
 * changes may have been passed on by then. RC_NOMEM.
 */
enum rc journal_read(const void *data, size_t nbytes, const char *name, journal_fn *fn, void *arg,
		     struct journal *out, size_t *good, struct err *err);

#endif
