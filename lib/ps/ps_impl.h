/*
 * ps_impl.h - what the files of the parameter server share.
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

/* ---- item.c: how large items are, and samples in messages */

/* Of an update, when a training begins with so many learners: its images; its gradients, no more than the images
 * have parts; the most images of a gradient. */
uint64_t ps_global(const struct task *task, uint32_t nworkers);
uint32_t ps_aggregate(const struct task *task, uint32_t nworkers);
uint32_t ps_item_rows(const struct task *task, uint32_t nworkers);

/* 0, or of a deterministic training its leaves; and bytes of a gradient in a slot. */
uint32_t ps_leaf(const struct task *task);
uint64_t ps_slot_bytes(const struct task *task, uint32_t leaf);

#define PS_ITEM_MAX (NET_QUEUE_MAX - 4096) /* bytes of an item's samples; there is a head, too */

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

/* Lock held. The order of the epoch that begins, where samples are fed. */
void ps_order(struct ps *ps);

/* Lock held. Append an item's samples. False: there is no such item, or no memory. */
bool ps_item_put(const struct ps *ps, uint32_t item, struct buf *out);

/* Of bytes from a peer. False: they are not this many rows of such data. */
bool ps_item_take(const void *bytes, size_t nbytes, const struct dataset *data, uint32_t rows,
		  struct minibatch *out);

/* A sink that appends to a list of one rank. */
struct emit_sink ps_sink(struct gpusim_ops *o);

/* ---- away.c: the coordinator, and devices that are gone */

/* RC_OK: the device of a communicator does what it is asked, or nobody knows as the coordinator is away. Else
 * why it does not. */
enum rc ps_device_gone(struct gpusim_comm *comm, bool *away, struct err *err);

struct ps_trouble {
	unsigned tries; /* how often the call was made again */
	bool away;	/* the coordinator is */
};

/*
 * ps_again - whether a call that has failed, with *err, is to be made again.
 *
 *	comm	the communicator of the one device that it was about: it is usable, and nothing is in progress
 *		there any more
 *	t	{0} at first
 *
 * Waits for a coordinator that is away. RC_OK: again. Else why not: what was wrong and no other try mends, the
 * device's end, or that the coordinator has been away for TASK_AWAY_MS.
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
	uint64_t versions;  /* u64[2]: version + 1 of each; 0: it is being written */
	uint64_t began;	    /* u64: version + 1 that an update has begun to make */
	struct gpusim_graph whole[NTESTS], rest[NTESTS]; /* 0: not needed */
	uint64_t slot[POOL_MAX_AGGREGATE + POOL_MAX_LEARNERS];
	uint32_t nslots;
	bool gone; /* the device does not answer any more */
};

enum rc ps_store_open(struct store *s, struct gpusim *g, const struct task *task,
		      const struct checkpoint *from, uint64_t version, struct err *err);
void ps_store_close(struct store *s);

/* Have at least n slots. */
enum rc store_slots(struct store *s, uint32_t n, struct err *err);

/* Apply an update, with the learning rate times a factor, and publish the new weights. */
enum rc store_update(struct store *s, const struct pool_update *u, double factor, struct err *err);

/* Why the device is gone; RC_OK: it is not, as far as is known. */
enum rc store_gone(struct store *s, struct err *err);

/* Fractions of the test and validation parts that are told right; NAN: the part is empty. */
enum rc store_test(struct store *s, double right[NTESTS], struct err *err);

/* To the host: the weights; all that a checkpoint holds, which is the caller's to free. */
enum rc store_weights(struct store *s, float *values, struct err *err);
enum rc store_state(struct store *s, struct checkpoint *out, struct err *err);

/* ---- members.c, server.c, messages.c: the server */

struct member {
	uint64_t id; /* 0: nobody */
	uint64_t device;
	uint64_t heard_ns;   /* it said something */
	uint64_t asked_ns;   /* it asked for an item, or was given one */
	uint64_t dropped_ns; /* its connection closed, and it has said nothing since; 0: no */
	uint32_t pid, number;
};

/* One that was given up, and may still write to its slot. */
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
	uint64_t alone_ns;		/* there was a learner */
	uint64_t published, publish_ns; /* which version, plus 1; not again before */
	uint64_t progress_ns;
	/* The learners that were started here. */
	struct child *child;
	uint32_t nchildren, nworkers;

	pthread_mutex_t lock;	/* guards all of the following */
	pthread_cond_t changed; /* for the main thread */
	pthread_cond_t room;	/* for the feeder */
	struct pool *pool;
	uint32_t *order; /* of the epoch's samples, where they are fed; else NULL */
	struct member member[POOL_MAX_LEARNERS];
	struct ghost ghost[POOL_MAX_LEARNERS];
	uint32_t ncome; /* learners that have come so far */
	struct waiting waiting[POOL_MAX_LEARNERS];
	uint32_t nwaiting;
	uint32_t epoch;	   /* epochs done */
	bool over;	   /* no epoch comes any more */
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

/* How long the server waits for learners at the end. Once the device is gone they can do nothing more. */
static inline uint32_t
ps_goodbye_ms(const struct ps *ps)
{
	return ps->store.gone ? PS_BEAT_MS : PS_GOODBYE_MS;
}

/* messages.c: the handler's two functions. */
void ps_on_call(void *arg, struct rpc_call *call);
void ps_on_gone(void *arg, uint64_t client_id);

/* Lock held. Answer the claims that can be now; those that have waited for long are told to ask
 * again, and all when it is over. */
void ps_answer_claims(struct ps *ps);

/* Lock held. Leave those out that are gone, or not heard of, or too slow. */
void ps_tend_members(struct ps *ps);

/* Lock held. Keep a line for the hook; ps_tell gives what was kept to it, on the main thread, without the
 * lock. */
void ps_note(struct ps *ps, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void ps_tell(struct ps *ps);

/* spawn.c: start this program again n times as learners; wait for their end. */
enum rc ps_spawn(struct ps *ps, const struct ps_options *options, struct err *err);
void ps_reap(struct ps *ps);

/* Has the process ended? Only of those that were started here that is known. On the main thread. */
bool ps_ended(struct ps *ps, uint32_t pid);

#endif
