/*
 * rendezvous.h - ranks that join one by one, each with its own request: by an id (init_rank.c), or to make
 * communicators from a communicator (family.c).
 */
#ifndef COORD_RENDEZVOUS_H
#define COORD_RENDEZVOUS_H

#include "coord/comm/comm_impl.h"

/* A rank's seat. */
struct seat {
	struct pending *p; /* NULL: the seat is free */
	bool spared;	   /* no rank is expected here */
	bool gone;	   /* its client disconnected at gone_ms */
	uint64_t gone_ms;
	uint64_t device_id;	/* 0: any */
	char host[HOST_ID_MAX]; /* of its process; "": the rank does not enqueue itself */
	uint32_t user;		/* the same, + 1 */
	bool must_queue;
	int color, key; /* of a split */
	uint32_t op_timeout_ms;
	struct label label;
};

struct rendezvous;

/* A kind of rendezvous. */
struct gathering {
	/* All have joined: answer them, or let them wait for a communicator. On failure all are refused. */
	enum rc (*complete)(struct coord *c, struct rendezvous *v, struct err *err);
	/* Their devices are about to return: complete would fail now. NULL: never. */
	bool (*waits)(const struct coord *c, const struct rendezvous *v);
	/* The beginning of a message: "split of comm 3". */
	void (*name)(const struct rendezvous *v, char *text, size_t room);
};

#define GATHERING_NAME COMM_GATHERING_NAME

struct rendezvous {
	struct rendezvous *next;
	const struct gathering *kind;
	struct unique_id uid; /* {0}: none, or not known yet */
	uint64_t parent;      /* 0: none, or not known yet */
	uint32_t call;	      /* of a split: number of earlier splits of its ranks */
	bool aborts;	      /* of a shrink: also of a communicator that has failed */
	uint64_t client_id;   /* of the first rank */
	uint32_t nranks;      /* seats */
	uint32_t nspared, nhere, ngone;
	bool lease;
	GpuSim__OnFailure on_failure;
	uint32_t op_timeout_ms;
	struct grid grid;
	struct seat seat[];
};

/* ---- rendezvous.c */

/* One of nranks seats, empty. NULL: too many, or out of memory. */
struct rendezvous *rendezvous_new(struct coord *c, const struct gathering *kind, uint32_t nranks,
				  struct err *err);
/* RC_INVAL: the rank has joined already. */
enum rc rendezvous_check_seat(const struct rendezvous *v, uint32_t rank, struct err *err);
/* Put *s with p into the rank's seat. A disconnected client that had it gets a failure. */
void rendezvous_arrive(struct coord *c, struct rendezvous *v, uint32_t rank, struct seat s,
		       struct pending *p);
/* Move the requests of `from` to free seats of v, and end `from`. */
void rendezvous_merge(struct coord *c, struct rendezvous *v, struct rendezvous *from);
/* If all have joined, call the kind's complete. */
void rendezvous_complete(struct coord *c, struct rendezvous *v);
/* "split of comm 3: ..." */
enum rc rendezvous_refuse(const struct rendezvous *v, struct err *err);
/* Answer all waiting ranks with the failure. */
bool same_id(const struct unique_id *a, const struct unique_id *b);
bool id_is_none(const struct unique_id *uid);

/* ---- init_rank.c */

/* The communicator that the id has made; 0: none. */
uint64_t rendezvous_used_by(const struct coord *c, const struct unique_id *uid);
/* Check that the named device, if any, is usable and in no other seat. v may be NULL. */
enum rc rendezvous_check_device(struct coord *c, const struct rendezvous *v, uint32_t rank,
				uint64_t device_id, struct err *err);
/* Devices by rank: those named, then free ones. */
enum rc rendezvous_choose(struct coord *c, const struct rendezvous *v, struct device **dev,
			  struct err *err);
/* Check that the ranks from `from` on can enqueue operations themselves; RC_INVAL. */
enum rc rendezvous_can_queue(const struct rendezvous *v, uint32_t from, struct device *const *dev,
			     struct err *err);
/*
 * Make a communicator over dev[], of the seats rank[] (NULL: all), as q says. The ranks' clients own it, and
 * their requests wait for it from now on. On error nothing has happened.
 */
enum rc rendezvous_make(struct coord *c, const struct rendezvous *v,
			const GpuSim__CommInitRequest *q, bool queued, const uint32_t *rank,
			struct device **dev, uint32_t nranks, struct comm **out, struct err *err);

#endif
