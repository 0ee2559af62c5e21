/*
 * comm.h - communicators: their ranks and epochs, how they fail and recover. README.md draws their states.
 */
#ifndef COORD_COMM_H
#define COORD_COMM_H

#include "coord/algos/algos.h"
#include "coord/device/device.h"

struct comm;
struct work; /* a communicator's operations; of the room above */

#define RANK_LEAVES	    UINT32_MAX
#define COMM_GATHERING_NAME 80 /* bytes of the purpose of a rendezvous */

/* The room above: how a communicator's operations stand, and what becomes of them. */
struct comm_hooks {
	/* A communicator was made. False: out of memory. */
	bool (*made)(struct comm *comm);
	/* The rank has not ended a run; some run has begun; a run that is to run again failed too long ago;
	 * no graph is being defined again. */
	bool (*owes)(const struct comm *comm, uint32_t rank);
	bool (*begun)(const struct comm *comm);
	bool (*overdue)(const struct coord *c, const struct comm *comm);
	bool (*defined)(const struct comm *comm);
	/* Called in each step, before the communicator's own part. */
	void (*step)(struct coord *c, struct comm *comm);
	/* It will fail permanently with *why: end what has not begun. It has failed: end everything. */
	void (*failing)(struct coord *c, struct comm *comm, const struct err *why);
	void (*failed)(struct coord *c, struct comm *comm, const struct err *why);
	/* Nobody waits for its ranks any more. */
	void (*stop)(struct coord *c, struct comm *comm);
	/* Rank r of `from` is to[r] now, or RANK_LEAVES. to NULL: ranks were appended. */
	void (*ranks)(struct coord *c, struct comm *comm, const uint32_t *to, uint32_t from);
	/* All ranks are attached again: define the graphs there. */
	void (*define)(struct coord *c, struct comm *comm);
	/* It is live again: repeat the runs that can be repeated. */
	void (*live)(struct coord *c, struct comm *comm);
	/* It is destroyed because of *why: end everything, start nothing. The communicator is being freed. */
	void (*end)(struct coord *c, struct comm *comm, const struct err *why);
	void (*freed)(struct coord *c, struct comm *comm);
};

enum rc comms_init(struct coord *c, const struct comm_hooks *hooks);
/* End all communicators. */
void comms_fini(struct coord *c);
/* The end of a step: handle all events that are due. */
void comms_step(struct coord *c);
/* End the leases of clients that stay disconnected. */
void comm_leases_tick(struct coord *c);
/* The hooks for the room device. */
extern const struct device_hooks comm_device_hooks;

/* ---- one communicator */

struct comm *comm_next(const struct coord *c, const struct comm *comm); /* NULL: the first */
uint32_t comms_count(const struct coord *c);
/* Find by id: in any state; visible to clients; able to take work (RC_NOTFOUND, RC_FAILED; RC_INVAL: it is
 * queued). */
struct comm *comm_any(const struct coord *c, uint64_t id);
struct comm *comm_find(const struct coord *c, uint64_t id);
enum rc comm_usable(struct coord *c, uint64_t id, struct comm **out, struct err *err);

uint64_t comm_id(const struct comm *comm);
uint64_t comm_client(const struct comm *comm);
uint32_t comm_epoch(const struct comm *comm);
uint32_t comm_nranks(const struct comm *comm);
/* The number of ranks it was made with; the rank's number then, UINT32_MAX: it joined later. */
uint32_t comm_first_nranks(const struct comm *comm);
uint32_t comm_first_rank(const struct comm *comm, uint32_t rank);
struct device *comm_device(const struct comm *comm, uint32_t rank);
/* The rank's device has not restarted since it was attached. */
bool comm_holds(const struct comm *comm, uint32_t rank);
/* Its ranks enqueue operations themselves. */
bool comm_is_queued(const struct comm *comm);
/* Every rank has mapped the memory of every other. */
bool comm_by_memory(const struct comm *comm);
/* The slowest of its ranks' links. */
struct link_shape comm_links(const struct comm *comm);
/* Its policy is not abort, and no client has aborted it. */
bool comm_recovers(const struct comm *comm);
/* It accepts runs now; it has failed permanently; it is between epochs. */
bool comm_is_live(const struct comm *comm);
const struct err *comm_failed(const struct comm *comm);
bool comm_busy(const struct comm *comm);
/* The number of recoveries, and the message of the last one. */
uint32_t comm_recoveries(const struct comm *comm);
const char *comm_recovered(const struct comm *comm);
/* It continues, or is about to continue, with the remaining ranks (graphs are defined before that counts). */
bool comm_has_shrunk(const struct comm *comm);
/* The failure that it recovers from, RC_OK: none; whether a rank's memory is lost with it. */
const struct err *comm_cause(const struct comm *comm);
bool comm_is_blank(const struct comm *comm);
struct work *comm_work(const struct comm *comm);
void comm_set_work(struct comm *comm, struct work *work);

/* "comm 3: out of memory" */
enum rc comm_nomem(const struct comm *comm, struct err *err);
/* "comm 3 rank 2 (device ..) lost: why" */
enum rc comm_rank_lost(const struct comm *comm, uint32_t rank, struct err *err);

/* ---- events of a communicator */

/* A rank, or an operation, has failed. */
void comm_fail(struct coord *c, struct comm *comm, const struct err *why);
/* A call to the rank has failed. */
void comm_call_failed(struct comm *comm, uint32_t rank, const struct outcome *o);
/* n runs have not ended yet; answers requests that wait for 0. */
void comm_count_runs(struct comm *comm, uint32_t n);
void comm_idle(struct coord *c, struct comm *comm);
/* A call of the lab adds work; its client learns of the end only from the status. */
void comm_works_for_lab(struct comm *comm);
/* A run without a waiting request has failed: the status reports it until the lab adds work. */
void comm_unheard(struct comm *comm, const struct err *why);
/* The rank held up the others by ns in a run of nops operations. */
void comm_late(struct comm *comm, uint32_t rank, uint64_t nops, uint64_t ns);
/* Take the progress of a device's ranks from its registration. */
void progress_heard(struct coord *c, struct device *d, const GpuSim__RegisterRequest *q);
/* Take the counts of operations that its ranks of queued communicators have completed. */
void operations_heard(struct coord *c, struct device *d, const GpuSim__RegisterRequest *q);
/* No client knows that it was made: end it. */
void comm_disown(struct coord *c, uint64_t id);
/* A client has disconnected, or connected again. */
void comms_client_is(struct coord *c, uint64_t client_id, bool gone);
/* A client did not connect again after a restart. */
void comms_client_lost(struct coord *c, uint64_t client_id);

/* ---- status */

/* Its summary, with a device id per rank, and the operations of a queued communicator; its ranks'
 * progress, at most `room` messages. */
void comm_summary(const struct comm *comm, uint64_t *ids, GpuSim__CommSummary *out);
/* Of a queued communicator, ended operations by rank. Return the number of entries, or 0. */
size_t comm_counts(const struct comm *comm, uint64_t *operations);
size_t progress_show(const struct coord *c, const struct comm *comm, GpuSim__Progress **v,
		     size_t room);

/* ---- rendezvous.c, queue.c: ranks that wait for each other, requests that wait for devices */

/* End those that have waited too long. Call before pendings_tick. */
void rendezvous_tick(struct coord *c);
void queue_tick(struct coord *c);
/* The end of a step: give free devices to requests. */
void queue_step(struct coord *c);
uint32_t queue_length(const struct coord *c);
/* The first requests that wait for devices; rendezvous, with at most `nranks` missing ranks in all. Return
 * their number. */
size_t queue_show(const struct coord *c, GpuSim__WaitingRequest **v, size_t room);
size_t rendezvous_show(const struct coord *c, GpuSim__Gathering **v, size_t room,
		       char (*name)[COMM_GATHERING_NAME], uint32_t *rank, size_t nranks);

/* ---- records */

/* Store it if it has changed; next_seq belongs to its record. */
void comm_record(struct coord *c, struct comm *comm, uint64_t next_seq);
enum rc comm_restore(struct coord *c, const char *key, const uint8_t *value, size_t n,
		     struct comm **out, uint64_t *next_seq, struct err *err);
/* Continue after a restart. */
void comm_resume(struct coord *c, struct comm *comm);
/* The id of the newest communicator. */
uint64_t comms_last(const struct coord *c);
void comms_set_last(struct coord *c, uint64_t id);

/* ---- the table of life.c, which a test compares with README.md */

/* Row i as "state --event--> state", with | between states that share it. False: no such row. */
bool comm_row(size_t i, char *text, size_t room);

handler on_comm_init, on_comm_init_rank, on_comm_destroy, on_comm_status, on_comm_abort,
    on_comm_shrink, on_comm_grow, on_comm_split_rank, on_comm_shrink_rank, on_comm_grow_rank;

#endif
