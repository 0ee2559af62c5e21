/*
 * ps.h - training with a parameter server: one process has the weights, others learn.
 *
 * The server holds weights and optimizer state on a device of its own, puts minibatches into a queue,
 * takes gradients, applies them and tests. Learners are processes with one device each: they join
 * and leave at any time, or die. With synchronous updates (pool.h) the result does not depend on
 * that: the same seed gives the same bits, whichever learner computed a gradient.
 *
 * Weights and gradients go from device to device. The server's device has two copies of the weights,
 * and one is complete while the other is written, so readers never wait.
 */
#ifndef PS_PS_H
#define PS_PS_H

#include "gpusim.h"
#include "train/trainer.h"

#define PS_BEAT_MS    500    /* interval of a learner's heartbeats */
#define PS_DROPPED_MS 5000   /* the longest time of a learner without a connection */
#define PS_SILENT_MS  10000  /* a learner that is silent for this long is given up */
#define PS_CLAIM_MS   120000 /* the longest time for an item, and between two requests for items */
#define PS_ALONE_MS   15000  /* the longest time of the server without a learner */
#define PS_GOODBYE_MS 5000   /* at the end: wait this long for the learners to leave */

struct ps;

/* The memory that a device needs, as the server's or as a learner's, whichever is more. */
uint64_t ps_bytes(const struct task *task, uint32_t nworkers);

struct ps_hooks {
	void *arg;				      /* each function may be NULL */
	void (*progress)(void *arg, double fraction); /* of the epoch's items */
	void (*event)(void *arg, const char *text);   /* a learner joined or left: a line */
	/* The weights have a new version. The slower this call is, the more versions are skipped. */
	void (*publish)(void *arg, uint64_t version, const float *values);
};

struct ps_options {
	const char *listen; /* an address for learners; NULL: a socket in the private folder */
	uint32_t nworkers;  /* learners that are started here, at least 0 */
	char *const *argv; /* and their arguments: this program's own, with --learn ADDRESS added */
};

/*
 * ps_new - take a device, place weights and tests there, listen, start learners.
 *
 *	from a checkpoint between two epochs to resume from, or NULL; not used after the call
 *
 * The other arguments outlive the server, options do not. Errors: RC_INVAL the configuration needs
 * something that a parameter server does not support; those of the devices.
 */
enum rc ps_new(struct gpusim *g, const struct task *task, const struct ps_options *options,
	       const struct checkpoint *from, const struct ps_hooks *hooks, struct ps **out,
	       struct err *err);

/* End the learners, wait for those that were started here, free everything. NULL is legal. */
void ps_free(struct ps *ps);

/* The server's address for learners. */
const char *ps_address(const struct ps *ps);

uint32_t ps_epochs(const struct ps *ps);

/* Train one epoch and test. RC_ABORTED: no learner was present for PS_ALONE_MS. */
enum rc ps_epoch(struct ps *ps, struct epoch *out, struct err *err);

/* Fetch the weights, or the whole state of the training, between two epochs; as trainer_weights and
 * trainer_state. */
enum rc ps_weights(struct ps *ps, float *values, struct err *err);
enum rc ps_state(struct ps *ps, struct checkpoint *out, struct err *err);

/*
 * ps_learn - be a learner of the server at config->learn, until training is over.
 *
 *	task	its samples and net; or NULL: the server feeds the samples and describes them
 *
 * Errors: RC_UNREACHABLE, RC_TIMEOUT the server cannot be reached; RC_INVAL it trains something
 * else; RC_ABORTED it has given this learner up; RC_FAILED, RC_NOMEM the device.
 */
enum rc ps_learn(struct gpusim *g, const struct task *task, const struct train_config *config,
		 struct err *err);

#endif
