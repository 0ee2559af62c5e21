/*
 * ps_impl.h - shared by the files of the parameter server.
 */
#ifndef PS_PS_IMPL_H
#define PS_PS_IMPL_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "net/queue.h"
#include "net/rpc_client.h"
#include "net/rpc_server.h"
#include "nn/launch.h"
#include "ps/pool.h"
#include "ps/ps.h"
#include "train/replica.h"

static inline const struct dataset_part *
tested(const struct task *t, unsigned part)
{
	return part == TESTS ? &t->data.test : &t->data.validation;
}

struct ps;

/* An entry of the queue, as bytes; an item's samples may follow. */
struct ticket {
	uint64_t instance; /* of the server */
	uint32_t epoch, item;
};

/* ---- item.c: the size of items, and samples in messages */

/* Of an update in a training that begins with nworkers learners: its images; its gradients, at most
 * one for each part of the images; the most images of a gradient. */
uint64_t ps_global(const struct task *task, uint32_t nworkers);
uint32_t ps_aggregate(const struct task *task, uint32_t nworkers);
uint32_t ps_item_rows(const struct task *task, uint32_t nworkers);

/* The leaf of a deterministic training, else 0; and the bytes of a gradient in a slot. */
uint32_t ps_leaf(const struct task *task);
uint64_t ps_slot_bytes(const struct task *task, uint32_t leaf);

#define PS_ITEM_MAX \
	(NET_QUEUE_MAX - 4096) /* bytes of an item's samples; leaves room for the header */

/* A learner's minibatch. The pointers are borrowed. */
struct minibatch {
	uint32_t rows;
	const void *draws;   /* u32[rows] */
	const void *labels;  /* u8[rows] */
	const void *samples; /* [rows, item]; NULL: they are on the device */
};

uint64_t ps_item_bytes(const struct dataset *data, uint32_t rows);

/* RC_INVAL: an item does not fit into a message. */
enum rc ps_item_check(const struct task *task, uint32_t nworkers, struct err *err);

/* Lock held. Make the order of the epoch that begins, if samples are fed. */
void ps_order(struct ps *ps);

/* Lock held. Append an item's samples. False: no such item, or out of memory. */
bool ps_item_put(const struct ps *ps, uint32_t item, struct buf *out);

/* Read a minibatch from a peer's bytes. False: they are not this many rows of such data. */
bool ps_item_take(const void *bytes, size_t nbytes, const struct dataset *data, uint32_t rows,
		  struct minibatch *out);

/* A sink that appends to a list of one rank. */
struct emit_sink ps_sink(struct gpusim_ops *o);

/* ---- away.c: unreachable coordinators and lost devices */

/* RC_OK: the device of a communicator works, or its state is unknown because the coordinator is
 * unreachable. Else the reason why it does not. */
enum rc ps_device_gone(struct gpusim_comm *comm, bool *away, struct err *err);

struct ps_trouble {
	unsigned tries; /* the number of repeated calls */
	bool away;	/* the coordinator is unreachable */
};

/*
 * ps_again - decide whether to repeat a call that failed with *err.
 *
 *	comm	the communicator of the call's device: it is usable, and nothing is in progress on it
 *	t	{0} at first
 *
 * Waits for an unreachable coordinator. RC_OK: repeat the call. Else the reason not to: an error
 * that would repeat, a lost device, or a coordinator that was unreachable for TASK_AWAY_MS.
 */
enum rc ps_again(struct gpusim_comm *comm, struct ps_trouble *t, struct err *err);

/* ---- store.c: the server's device */

struct store {
	struct gpusim *g;
	const struct task *task;
	struct shape shape;
	struct gpusim_comm *comm; /* of the one device */
	struct replica r;
	uint64_t published; /* the allocation of: */
	uint64_t copy[2];   /* of the weights */
	uint64_t versions;  /* u64[2]: version + 1 of each; 0: the copy is being written */
	uint64_t began;	    /* u64: version + 1 of the update that has begun */
	struct gpusim_graph whole[NTESTS], rest[NTESTS]; /* 0: not needed */
	uint64_t slot[POOL_MAX_AGGREGATE + POOL_MAX_LEARNERS];
	uint32_t nslots;
	bool gone; /* the device no longer answers */
};

enum rc ps_store_open(struct store *s, struct gpusim *g, const struct task *task,
		      const struct checkpoint *from, uint64_t version, struct err *err);
void ps_store_close(struct store *s);

/* Have at least n slots. */
enum rc store_slots(struct store *s, uint32_t n, struct err *err);

/* Apply an update, with the learning rate times a factor, and publish the new weights. */
enum rc store_update(struct store *s, const struct pool_update *u, double factor, struct err *err);

/* The reason why the device is lost; RC_OK: not lost, as far as is known. */
enum rc store_gone(struct store *s, struct err *err);

/* Fractions of the test and validation parts that are classified correctly; NAN: the part is empty. */
enum rc store_test(struct store *s, double right[NTESTS], struct err *err);

/* Copy to the host: the weights; the state for a checkpoint, which the caller frees. */
enum rc store_weights(struct store *s, float *values, struct err *err);
enum rc store_state(struct store *s, struct checkpoint *out, struct err *err);

/* ---- members.c, server.c, messages.c: the server */

struct member {
	uint64_t id; /* 0: none */
	uint64_t device;
	uint64_t heard_ns;   /* its last message */
	uint64_t asked_ns;   /* it requested or got an item */
	uint64_t dropped_ns; /* its connection closed, and no message came since; 0: no */
	uint32_t pid, number;
};

/* A learner that was given up, and may still write to its slot. */
struct ghost {
	uint64_t id, since_ns; /* id 0: none */
	uint32_t pid;
};

/* A claim that waits for its answer. */
struct waiting {
	struct rpc_call *call;
	uint64_t id, since_ns;
	uint32_t hint;
};

struct child {
	pid_t pid;
	bool ended;
};

struct ps {
	struct gpusim *g;
	const struct task *task;
	struct ps_hooks hooks;
	struct store store;
	struct net_queue *queue;
	struct rpc_server *server;
	uint64_t instance;
	uint32_t data_crc, aggregate;
	/* The main thread's: */
	struct pool_update update;
	uint64_t alone_ns;		/* the last time a learner was present */
	uint64_t published, publish_ns; /* the version, plus 1; the earliest time of the next */
	uint64_t progress_ns;
	/* The learners that were started here. */
	struct child *child;
	uint32_t nchildren, nworkers;

	pthread_mutex_t lock;	/* guards all of the following */
	pthread_cond_t changed; /* for the main thread */
	pthread_cond_t room;	/* for the feeder */
	struct pool *pool;
	uint32_t *order; /* of the epoch's samples, if they are fed; else NULL */
	struct member member[POOL_MAX_LEARNERS];
	struct ghost ghost[POOL_MAX_LEARNERS];
	uint32_t ncome; /* learners that have joined so far */
	struct waiting waiting[POOL_MAX_LEARNERS];
	uint32_t nwaiting;
	uint32_t epoch;	   /* epochs done */
	bool over;	   /* no more epochs */
	bool stop;	   /* for the feeder */
	uint64_t moved_ns; /* an item was claimed, or a gradient came */
	double compute_s, comm_s;
	struct buf lines; /* for the hook */
	pthread_t feeder;
	bool has_feeder;

	pthread_mutex_t notes; /* guards what follows; taken last */
	uint64_t *gone;
	size_t ngone;
};

/* The time that the server waits for learners at the end. Without the device they can do nothing more. */
static inline uint32_t
ps_goodbye_ms(const struct ps *ps)
{
	return ps->store.gone ? PS_BEAT_MS : PS_GOODBYE_MS;
}

/* messages.c: the handler's two functions. */
void ps_on_call(void *arg, struct rpc_call *call);
void ps_on_gone(void *arg, uint64_t client_id);

/* Lock held. Answer the claims that can be granted; tell those that have waited long to ask again,
 * and at the end all. */
void ps_answer_claims(struct ps *ps);

/* Lock held. Remove members that have ended, are silent, or are too slow. */
void ps_tend_members(struct ps *ps);

/* Pass the kept lines to the hook, on the main thread, without the lock. */
void ps_tell(struct ps *ps);

/* spawn.c: start this program again n times as learners; wait for their end. */
enum rc ps_spawn(struct ps *ps, const struct ps_options *options, struct err *err);
void ps_reap(struct ps *ps);

/* Return true if a process that was started here has ended. On the main thread. */
bool ps_ended(struct ps *ps, uint32_t pid);

#endif
