/*
 * tape.h - recordings: files of records, appended by one process at a time, whole after a kill.
 *
 * A file is a page of TAPE_HEAD bytes, then records. Numbers are little-endian.
 *
 *	page	 0  "gpusimtp"
 *		 8  u32 version, TAPE_VERSION
 *		12  u32 flags, TAPE_CUT: writing has stopped, for example on a full disk; later records are missing
 *		16  zeros
 *	record	 0  u32 bytes of the body
 *		 4  u32 CRC-32C of the body
 *		 8  u32 CRC-32C of the 8 bytes before
 *		12  the body: a TapeRecord of proto/gpu_sim.proto
 *
 * A process that is killed while it writes leaves an incomplete last record; readers skip it, and the
 * next process that appends removes it.
 */
#ifndef TAPE_TAPE_H
#define TAPE_TAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"
#include "wire/wire.h"

#define TAPE_MAGIC    "gpusimtp"
#define TAPE_VERSION  1u
#define TAPE_HEAD     64u /* bytes before the first record */
#define TAPE_CUT      1u
#define TAPE_RECORD   12u	 /* bytes before a record's body */
#define TAPE_BODY_MAX (2u << 20) /* bytes of a body */
#define TAPE_DATA_MAX (1u << 20) /* bytes of data in one record */
#define TAPE_SUFFIX   ".rec"

/* ---- writing: from any thread */

struct tape;

/*
 * tape_open - append to DIR/NAME.rec; the file is created if missing, DIR must exist.
 *
 *	with_data	inputs are wanted (tape_with_data)
 *	say		called once when writing stops, on the thread that writes; or NULL
 *
 * RC_BUSY: another process writes to it. RC_BADDATA: the file is not a recording, or damaged. RC_FAILED.
 */
enum rc tape_open(const char *dir, const char *name, bool with_data, void (*say)(const char *line),
		  struct tape **out, struct err *err);

/* Write the last record, and close. NULL is legal. */
void tape_close(struct tape *t);

bool tape_with_data(const struct tape *t);

/* The next number of an operation, from 1, unique in the file since tape_open. */
uint64_t tape_number(struct tape *t);

/* Append a record. After a failure nothing more is written; say has been called. */
void tape_put(struct tape *t, const GpuSim__TapeRecord *r);

/* Append a communicator, from the attach of one of its ranks. */
void tape_put_comm(struct tape *t, const GpuSim__CommAttachRequest *m);

/* Append an operation's bytes, in records of TAPE_DATA_MAX. */
void tape_put_data(struct tape *t, uint64_t number, bool before, const void *data, uint64_t nbytes);

/* ---- reading */

struct tape_reader;

/* RC_FAILED it cannot be read; RC_BADDATA not a recording, with the reason. */
enum rc tape_read_open(const char *path, struct tape_reader **out, struct err *err);
void tape_read_close(struct tape_reader *r); /* NULL is legal */

/* The writer stopped early; after the last record also: the last was incomplete. */
bool tape_read_is_cut(const struct tape_reader *r);

/*
 * tape_read_next - the next record; *out is the caller's (tape_record_free), NULL at the end.
 *
 *	at	[out] the record's offset, for tape_read_at; may be NULL
 *
 * RC_BADDATA: damage, with file and offset.
 */
enum rc tape_read_next(struct tape_reader *r, GpuSim__TapeRecord **out, uint64_t *at,
		       struct err *err);

/* The record at an offset; reading continues after it. */
enum rc tape_read_at(struct tape_reader *r, uint64_t at, GpuSim__TapeRecord **out, struct err *err);

/* The end of the last complete record. */
uint64_t tape_read_end(const struct tape_reader *r);

void tape_record_free(GpuSim__TapeRecord *r); /* NULL is legal */

#endif
