/*
 * comm.h - communicators: their ranks and epochs, how they fail and recover. README.md draws their states.
 */
#ifndef COORD_COMM_H
#define COORD_COMM_H

#include "coord/algos/algos.h"
#include "coord/device/device.h"

struct comm;
struct work; /* the operations of a communicator, the room above's */

#define RANK_LEAVES	    UINT32_MAX
#define COMM_GATHERING_NAME 80 /* bytes of what ranks gather for */

/* The room above: how a communicator's operations stand, and what becomes of them. */
struct comm_hooks {
	/* It is new. False: out of memory. */
	bool (*made)(struct comm *comm);
	/* The rank owes the end of a run; some run has begun; one that is to run again failed too long ago;
	 * no graph is being defined again. */
	bool (*owes)(const struct comm *comm, uint32_t rank);
	bool (*begun)(const struct comm *comm);
	bool (*overdue)(const struct coord *c, const struct comm *comm);
	bool (*defined)(const struct comm *comm);
	/* Part of each step, before the communicator's own. */
	void (*step)(struct coord *c, struct comm *comm);
	/* It will fail for good, *why: end what has not begun. It has failed for good: end everything. */
	void (*failing)(struct coord *c, struct comm *comm, const struct err *why);
	void (*failed)(struct coord *c, struct comm *comm, const struct err *why);
	/* Nobody waits for its ranks any more. */
	void (*stop)(struct coord *c, struct comm *comm);
	/* Rank r of `from` is to[r] now, or RANK_LEAVES. to NULL: ranks have come behind them. */
	void (*ranks)(struct coord *c, struct comm *comm, const uint32_t *to, uint32_t from);
	/* All ranks are attached again: define its graphs there. */
	void (*define)(struct coord *c, struct comm *comm);
	/* It is live again: run again what can be. */
	void (*live)(struct coord *c, struct comm *comm);
	/* It is destroyed, *why: end everything, start nothing. It is freed. */
	void (*end)(struct coord *c, struct comm *comm, const struct err *why);
	void (*freed)(struct coord *c, struct comm *comm);
};

enum rc comms_init(struct coord *c, const struct comm_hooks *hooks);
/* Ends all. */
void comms_fini(struct coord *c);
/* The end of a step: all that is due happens. */
void comms_step(struct coord *c);
/* Leases of clients that stay away end. */
void comm_leases_tick(struct coord *c);
/* As struct device_hooks wants. */
extern const struct device_hooks comm_device_hooks;

/* ---- one communicator */

struct comm *comm_next(const struct coord *c, const struct comm *comm); /* NULL: the first */
uint32_t comms_count(const struct coord *c);
/* By its id: in any state; one that clients see; one that takes work (RC_NOTFOUND, RC_FAILED; RC_INVAL it is
 * queued). */
struct comm *comm_any(const struct coord *c, uint64_t id);
struct comm *comm_find(const struct coord *c, uint64_t id);
enum rc comm_usable(struct coord *c, uint64_t id, struct comm **out, struct err *err);

uint64_t comm_id(const struct comm *comm);
uint64_t comm_client(const struct comm *comm);
uint32_t comm_epoch(const struct comm *comm);
uint32_t comm_nranks(const struct comm *comm);
/* How many ranks it was made with, and which of them the rank was; UINT32_MAX: it came later. */
uint32_t comm_first_nranks(const struct comm *comm);
uint32_t comm_first_rank(const struct comm *comm, uint32_t rank);
struct device *comm_device(const struct comm *comm, uint32_t rank);
/* The rank's device has not restarted since it was attached. */
bool comm_holds(const struct comm *comm, uint32_t rank);
/* Its ranks enqueue operations themselves. */
bool comm_is_queued(const struct comm *comm);
/* Every rank has mapped every other's memory. */
bool comm_by_memory(const struct comm *comm);
/* The slowest of its ranks' links. */
struct link_shape comm_links(const struct comm *comm);
/* Its policy is not to fail, and nobody has aborted it. */
bool comm_recovers(const struct comm *comm);
/* It takes runs to its devices now; it has failed for good; it is between epochs. */
bool comm_is_live(const struct comm *comm);
const struct err *comm_failed(const struct comm *comm);
bool comm_busy(const struct comm *comm);
/* How often it has recovered, and the last time's sentence. */
uint32_t comm_recoveries(const struct comm *comm);
const char *comm_recovered(const struct comm *comm);
/* It goes on with the ranks that were left, or is about to: graphs are defined again before a recovery counts. */
bool comm_has_shrunk(const struct comm *comm);
/* The failure that it recovers from, RC_OK: none; a rank's memory is lost with it. */
const struct err *comm_cause(const struct comm *comm);
bool comm_is_blank(const struct comm *comm);
struct work *comm_work(const struct comm *comm);
void comm_set_work(struct comm *comm, struct work *work);

/* "comm 3: out of memory" */
enum rc comm_nomem(const struct comm *comm, struct err *err);
/* "comm 3 rank 2 (device ..) lost: why" */
enum rc comm_rank_lost(const struct comm *comm, uint32_t rank, struct err *err);

/* ---- what happens to it */

/* A rank, or an operation, has failed. */
void comm_fail(struct coord *c, struct comm *comm, const struct err *why);
/* A call to the rank has failed, which tells of the rank. */
void comm_call_failed(struct comm *comm, uint32_t rank, const struct outcome *o);
/* n runs have not ended yet; those who wait for it to be idle may hear. */
void comm_count_runs(struct comm *comm, uint32_t n);
void comm_idle(struct coord *c, struct comm *comm);
/* More work comes by a call of the lab's, whose client hears of the end by the communicator's status alone. */
void comm_works_for_lab(struct comm *comm);
/* A run that nobody waits for has failed: the lab's client finds that in the status, until it sends more work. */
void comm_unheard(struct comm *comm, const struct err *why);
/* By how long the rank held up the others in a run of nops operations. */
void comm_late(struct comm *comm, uint32_t rank, uint64_t nops, uint64_t ns);
/* A device that registers tells how far its ranks are. */
void progress_heard(struct coord *c, struct device *d, const GpuSim__RegisterRequest *q);
/* And how many operations its ranks of queued communicators have carried out. */
void operations_heard(struct coord *c, struct device *d, const GpuSim__RegisterRequest *q);
/* Nobody knows that it was made: end it. */
void comm_disown(struct coord *c, uint64_t id);
/* A client has gone, or come back. */
void comms_client_is(struct coord *c, uint64_t client_id, bool gone);
/* A client did not come back after a restart: it had gone before that. */
void comms_client_lost(struct coord *c, uint64_t client_id);

/* ---- telling of it */

/* A summary, with room for a device id per rank, with the operations only of a queued one; and its ranks' progress, at most `room` messages. */
void comm_summary(const struct comm *comm, uint64_t *ids, GpuSim__CommSummary *out);
/* Of a queued one, by rank, how many operations have ended; their number: its ranks, or 0. */
size_t comm_counts(const struct comm *comm, uint64_t *operations);
size_t progress_show(const struct coord *c, const struct comm *comm, GpuSim__Progress **v,
		     size_t room);

/* ---- rendezvous.c, queue.c: ranks that wait for each other, requests that wait for devices */

/* Those that have waited too long end. Before pendings_tick. */
void rendezvous_tick(struct coord *c);
void queue_tick(struct coord *c);
/* The end of a step: requests get the devices that are free. */
void queue_step(struct coord *c);
uint32_t queue_length(const struct coord *c);
/* The first that wait for devices; those that are being gathered, with room for `nranks` missing ranks of all. How many. */
size_t queue_show(const struct coord *c, GpuSim__WaitingRequest **v, size_t room);
size_t rendezvous_show(const struct coord *c, GpuSim__Gathering **v, size_t room,
		       char (*name)[COMM_GATHERING_NAME], uint32_t *rank, size_t nranks);

/* ---- records */

/* Store it if it has changed; next_seq belongs to its record. */
void comm_record(struct coord *c, struct comm *comm, uint64_t next_seq);
enum rc comm_restore(struct coord *c, const char *key, const uint8_t *value, size_t n,
		     struct comm **out, uint64_t *next_seq, struct err *err);
/* After a restart: it goes on where it was. */
void comm_resume(struct coord *c, struct comm *comm);
/* The id of the last one made. */
uint64_t comms_last(const struct coord *c);
void comms_set_last(struct coord *c, uint64_t id);

/* ---- the table of its life, for the test that compares it with README.md */

/* Row i as "state --event--> state", with | between states that share it. False: there are less rows. */
bool comm_row(size_t i, char *text, size_t room);

handler on_comm_init, on_comm_init_rank, on_comm_destroy, on_comm_status, on_comm_abort,
    on_comm_shrink, on_comm_grow, on_comm_split_rank, on_comm_shrink_rank, on_comm_grow_rank;

#endif
