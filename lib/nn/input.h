/*
 * input.h - bytes of a file or of memory, unpacked on the way when they are gzip.
 */
#ifndef NN_INPUT_H
#define NN_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include "base/rc.h"

#define INPUT_CHUNK 65536

/* Deflate makes at most 1032 bytes of one (zlib's technical note); a gzip header only lowers it. */
#define DEFLATE_MAX_RATIO 1032

/*
 * Set name, nstored and either fd or next and avail, with fd -1; then input_begin. The name, the
 * memory and the fd stay the caller's.
 */
struct input {
	const char *name;    /* what the bytes are called in sentences */
	int fd;		     /* -1: memory only */
	uint64_t nstored;    /* size as stored */
	const uint8_t *next; /* stored bytes that are there and not yet used */
	size_t avail;
	bool gzip, member_open; /* member_open: inside a gzip member */
	z_stream z;
	uint8_t chunk[INPUT_CHUNK];
};

/* Look at the first bytes: gzip or not. Only after success input_end must follow. */
enum rc input_begin(struct input *in, struct err *err);
void input_end(struct input *in);

/*
 * Up to `want` bytes into dst, *got of them; fewer only at the end. The checksum of the last gzip
 * member is checked by asking for one byte more than it holds.
 * Errors: RC_BADDATA gzip that is broken, ends early or is followed by rubbish; RC_FAILED a read
 * error; RC_NOMEM.
 */
enum rc input_get(struct input *in, uint8_t *dst, size_t want, size_t *got, struct err *err);

#endif
