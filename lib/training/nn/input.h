/*
 * input.h - bytes of a file or of memory; gzip data are unpacked on the way.
 */
#ifndef NN_INPUT_H
#define NN_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/rc.h"

#define INPUT_CHUNK 65536

/* Deflate makes at most 1032 bytes of one (zlib's technical note); a gzip header only lowers the ratio. */
#define DEFLATE_MAX_RATIO 1032

/*
 * Set name, nstored and either fd or next and avail, with fd -1; then input_begin. The name, the
 * memory and the fd stay the caller's.
 */
struct input {
	const char *name;    /* the name of the bytes in error messages */
	int fd;		     /* -1: memory only */
	uint64_t nstored;    /* size as stored; 0: not known */
	const uint8_t *next; /* stored bytes that have been read and not yet used */
	size_t avail;
	bool gzip, member_open; /* member_open: inside a gzip member */
	z_stream z;
	uint8_t chunk[INPUT_CHUNK];
};

/*
 * input_open - a regular file as input: everything that must be set before input_begin.
 *
 * The name is borrowed. RC_FAILED: the system's reason, or not a regular file. After success, and
 * only then, input_close must follow.
 */
enum rc input_open(struct input *in, const char *path, struct err *err);
void input_close(struct input *in);

/* Look at the first bytes: gzip or not. Only after success input_end must follow. */
enum rc input_begin(struct input *in, struct err *err);
void input_end(struct input *in);

/*
 * Up to `want` bytes into dst, *got of them; fewer only at the end. The checksum of the last gzip member is
 * checked by asking for one byte more than it holds. Errors: RC_BADDATA gzip data that are broken, end
 * early or are followed by garbage; RC_FAILED a read error.
 */
enum rc input_get(struct input *in, uint8_t *dst, size_t want, size_t *got, struct err *err);

/* As input_get, but it waits only while no byte is available: *got is 0 only at the end. */
enum rc input_some(struct input *in, uint8_t *dst, size_t want, size_t *got, struct err *err);

/* As input_all, of a file. */
enum rc input_file(const char *path, size_t limit, struct buf *out, struct err *err);

#endif
