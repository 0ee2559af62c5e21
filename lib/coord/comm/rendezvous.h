/*
 * rendezvous.h - ranks that come one by one, each with a request of its own, until all are there: by an id
 * (init_rank.c), or to make communicators of a communicator (family.c).
 */
#ifndef COORD_RENDEZVOUS_H
#define COORD_RENDEZVOUS_H

#include "coord/comm/comm_impl.h"

/* A rank's seat. */
struct seat {
	struct pending *p; /* NULL: the seat is free */
	bool spared;	   /* nobody is to come */
	bool gone;	   /* its client is away since gone_ms */
	uint64_t gone_ms;
	uint64_t device_id;	/* 0: any */
	char host[HOST_ID_MAX]; /* of its process; "": the rank enqueues nothing itself */
	uint32_t user;		/* the same, + 1 */
	bool must_queue;
	int color, key; /* of a split */
	uint32_t op_timeout_ms;
	struct label label;
};

struct rendezvous;

/* A kind of rendezvous. */
struct gathering {
	/* All are there: their requests are answered, or wait for a communicator from now on; all are refused if it fails. */
	enum rc (*complete)(struct coord *c, struct rendezvous *v, struct err *err);
	/* Of what it is, which begins a sentence: "split of comm 3". */
	void (*name)(const struct rendezvous *v, char *text, size_t room);
};

#define GATHERING_NAME COMM_GATHERING_NAME

struct rendezvous {
	struct rendezvous *next;
	const struct gathering *kind;
	struct unique_id uid; /* {0}: none, or not known yet */
	uint64_t parent; /* the communicator of which it makes others; 0: none, or not known yet */
	uint32_t call;	 /* of a split: how many splits its ranks have made before */
	bool aborts;	 /* of a shrink: also of a communicator that has failed */
	uint64_t client_id; /* of the first */
	uint32_t nranks;    /* seats */
	uint32_t nspared, nhere, ngone;
	bool lease;
	GpuSim__OnFailure on_failure;
	uint32_t op_timeout_ms;
	struct seat seat[];
};

/* ---- rendezvous.c */

/* One of nranks seats, empty. NULL: too many, or out of memory. */
struct rendezvous *rendezvous_new(struct coord *c, const struct gathering *kind, uint32_t nranks,
				  struct err *err);
void rendezvous_free(struct coord *c, struct rendezvous *v);
/* RC_INVAL: the rank is there already. */
enum rc rendezvous_check_seat(const struct rendezvous *v, uint32_t rank, struct err *err);
/* The rank is here: *s in its seat, with p. Who had it and has gone is told so. */
void rendezvous_arrive(struct coord *c, struct rendezvous *v, uint32_t rank, struct seat s,
		       struct pending *p);
/* The requests of `from` are of v from now on, which has their seats free; and `from` ends. */
void rendezvous_merge(struct coord *c, struct rendezvous *v, struct rendezvous *from);
/* If all are there: what its kind does then. */
void rendezvous_complete(struct coord *c, struct rendezvous *v);
/* "split of comm 3: ..." */
enum rc rendezvous_refuse(const struct rendezvous *v, struct err *err);
/* All that are there hear why they have waited in vain. */
void rendezvous_answer(struct coord *c, struct rendezvous *v, const struct err *why);
bool same_id(const struct unique_id *a, const struct unique_id *b);
bool id_is_none(const struct unique_id *uid);

/* ---- family.c */

/* The communicator that rank `rank` names as the parent of others. RC_NOTFOUND, RC_FAILED it has failed, RC_BUSY it
 * recovers; with `aborts` these two do not matter. RC_INVAL: there is no such rank in it. */
enum rc family_parent(struct coord *c, uint64_t id, uint32_t rank, bool aborts, struct comm **out,
		      struct err *err);
/* A child is as its parent, but for what its first rank says. */
void family_inherit(const struct comm *parent, const struct seat *first,
		    GpuSim__CommInitRequest *q);

/* ---- init_rank.c */

/* The communicator that the id has made; 0: none. */
uint64_t rendezvous_used_by(const struct coord *c, const struct unique_id *uid);
/* The device that rank r of q names, if any, can be used, and no other seat has it. v may be NULL. */
enum rc rendezvous_check_device(struct coord *c, const struct rendezvous *v, uint32_t rank,
				uint64_t device_id, struct err *err);
/* Devices by rank: those named, then free ones. */
enum rc rendezvous_choose(struct coord *c, const struct rendezvous *v, struct device **dev,
			  struct err *err);
/* Whether the ranks from `from` on can enqueue operations themselves; RC_INVAL: why one cannot. */
enum rc rendezvous_can_queue(const struct rendezvous *v, uint32_t from, struct device *const *dev,
			     struct err *err);
/*
 * A communicator as q says of the seats rank[], NULL: of all, over dev[]. Its ranks' clients own it, and their requests
 * wait for it from now on. On error nothing has happened.
 */
enum rc rendezvous_make(struct coord *c, const struct rendezvous *v,
			const GpuSim__CommInitRequest *q, bool queued, const uint32_t *rank,
			struct device **dev, uint32_t nranks, struct comm **out, struct err *err);

#endif
