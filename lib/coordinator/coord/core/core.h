/*
 * core.h - shared by all rooms of the coordinator: the step, its actions, records.
 *
 * struct coord is the only struct of the coordinator whose fields every room reads. Each room hangs its own
 * state below it, by a pointer to a struct that the others do not know.
 */
#ifndef COORD_CORE_H
#define COORD_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"
#include "coord/core/limits.h"
#include "coord/core/step.h"
#include "gpu_sim.pb-c.h"
#include "wire/wire.h"

struct coord;
struct pending;
struct pendings;
struct history;
struct algos;
struct devices;
struct comms;
struct runs;
struct persist;

#define COUNT_REQUESTS 128 /* numbers of requests */
#define COUNT_NUMBERS  32  /* of an enum that EACH names; more than any has */
#define COUNT_POLICIES 8   /* on failure */
#define COUNT_CODES    16  /* enum rc */

/*
 * COUNTERS - one row a counter: its field in struct counts, and in StatusResponse, which gets it from the row.
 * Count it where the event is. EACH has a number for each value of an enum of gpu_sim.proto.
 */
#define COUNTERS(ONE, EACH)                  \
	EACH(event, eventcounts, event_kind) \
	ONE(beats_missed, beatsmissed)

#define COUNTER_FIELD(name, ...)  uint64_t name;
#define COUNTER_FIELDS(name, ...) uint64_t name[COUNT_NUMBERS];

/* Counts since the process started; they only grow. */
struct counts {
	COUNTERS(COUNTER_FIELD, COUNTER_FIELDS)
	uint64_t request[COUNT_REQUESTS];		 /* by number; 0: a larger one */
	uint64_t recovered[COUNT_POLICIES][COUNT_CODES]; /* communicators, by failure */
	uint64_t failed[COUNT_POLICIES][COUNT_CODES];	 /* permanently */
};

struct coord {
	struct coord_config cfg;
	struct counts counts;
	uint32_t lost_ms;   /* a device that is silent for this long is lost */
	struct tuner model; /* chooses algorithms when the configuration names no tuner */
	bool started;	    /* the first step has begun */
	uint64_t start_ms, now_ms;
	uint64_t wall_ms;	   /* since 1970; 0: unknown */
	uint64_t wall_ns;	   /* of the current event; 0: unknown */
	uint64_t client_id;	   /* the client whose request this step handles; 0: none */
	uint64_t report;	   /* claimed in this step; 0: none */
	uint64_t last_number;	   /* of runs and attaches: grows, across restarts too */
	struct err refuse;	   /* why no new work is accepted; RC_OK: accepted */
	struct coord_actions *out; /* of this step */
	/* Called before a pending request is answered; for the room that stores answers. */
	void (*answering)(struct coord *c, const struct pending *p, GpuSim__Reply *reply,
			  struct coord_action *a);
	struct pendings *pendings;
	struct history *history;
	struct algos *algos;
	struct devices *devices;
	struct comms *comms;
	struct runs *runs;
	struct persist *persist;
};

/* Define a getter of a field, which the header of the struct declares. */
#define GETTER(type, name, thing, field)     \
	type name(const struct thing *thing) \
	{                                    \
		return thing->field;         \
	}

/* ---- action.c */

/* n initialised messages of a kind, by an array of pointers to them; free(3) of it frees all. NULL: out of
 * memory. */
void *messages_new(size_t n, const ProtobufCMessageDescriptor *kind);

/* *body = a Request whose field `field` is head followed by `tail` (more encoded fields). False: out of
 * memory. */
bool pack_request(uint32_t field, const ProtobufCMessage *head, const struct buf *tail,
		  struct buf *body);
/* Append an action. Takes its body, on failure too. */
bool act(struct coord *c, struct coord_action *a);
void act_log(struct coord *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Append a note for the recorder only; of a communicator and a device, or 0. */
void act_note(struct coord *c, uint64_t comm_id, uint64_t device_id, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Append a call. Takes the body. token 0: the result is not needed. */
bool act_call(struct coord *c, uint64_t token, uint64_t device_id, const char *address,
	      uint64_t timeout_ms, struct buf *body);

/* ---- action.c: bounded text */

struct text {
	char *at;
	size_t room;
};

void text_add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- record.c: one record per object, under a key that sorts after the keys of objects it refers to */

#define RECORD_KEY_MAX 80
#define RECORD_VERSION 1 /* of the format of all records; gpusim 0.1 wrote none, which is 0 */

/* Store the message under the key; NULL: drop the record. promise: it must survive a machine crash. */
void record_put(struct coord *c, const char *key, const ProtobufCMessage *value, bool promise);
/* "PREFIX/ID", in hex. */
void record_key(char key[RECORD_KEY_MAX], const char *prefix, uint64_t id);
/* Extend the mark h (1 at first) by v. */
uint64_t record_mix(uint64_t h, uint64_t v);
/* Reserve COORD_RESERVE more numbers when the reserved ones are used up. */
void record_reserve(uint64_t used, uint64_t *reserved);
/* Set RC_BADDATA, RC_NOMEM, with the key. */
enum rc record_nonsense(const char *key, struct err *err);
enum rc record_nomem(const char *key, struct err *err);

/* Restore a record of another coordinator, after checks. RC_BADDATA, RC_NOMEM. */
typedef enum rc restore_record(struct coord *c, const char *key, const uint8_t *value, size_t n,
			       struct err *err);

#endif
