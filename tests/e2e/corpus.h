/*
 * corpus.h - the hostile inputs of corpus.c: each has a name, and is the same every time.
 *
 * A generator calls `input` for each of its inputs, in groups. Its arguments are borrowed for the
 * call. Names are in static storage.
 */
#ifndef E2E_CORPUS_H
#define E2E_CORPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum input_kind {
	INPUT_REQUEST, /* the bytes of a Request, sent as one message; an answer is due */
	INPUT_RAW,     /* bytes on a new connection, which is then closed */
	INPUT_OPEN,    /* as BYTES, but the connection stays open until the group ends */
	INPUT_SLOW,    /* as BYTES, each byte in a separate write */
};

/* Ids that exist at the target, so that inputs pass the first check. */
struct corpus_target {
	bool ipc;
	uint64_t comm;	 /* a live communicator */
	uint32_t epoch;	 /* its epoch */
	uint64_t device; /* the device that is rank 1 of it */
	char dir[128];	 /* has fifo, dir, link: not memory files */
};

struct corpus {
	const struct corpus_target *target;
	void (*group)(void *arg, const char *name);
	void (*input)(void *arg, enum input_kind kind, const char *name, const void *data,
		      size_t nbytes);
	void *arg;
};

/* Every kind of request: empty, plausible, and with each field set to hostile values in turn. */
void corpus_requests(const struct corpus *c);

/* Requests damaged below the level of messages: SP, protobuf, the envelope. */
void corpus_bytes(const struct corpus *c);

/* Frames, for a data address. */
void corpus_frames(const struct corpus *c);

#endif
