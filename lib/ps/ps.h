/*
 * ps.h - training with a parameter server: one process with the weights, others that learn.
 *
 * The server holds weights and optimizer state on a device of its own, puts minibatches into a queue,
 * takes gradients, applies them and tests. Learners are processes with one device each: they come
 * at any time and go, or die. What is learnt depends on neither when gradients are applied
 * synchronously (pool.h): the same seed gives the same bits, whoever computed what.
 *
 * Weights and gradients go from device to device. The server's device has two copies of the weights,
 * of which one is whole while the other is written, so nobody waits to read them.
 */
#ifndef PS_PS_H
#define PS_PS_H

#include "gpusim.h"
#include "train/trainer.h"

#define PS_BEAT_MS    500    /* how often a learner says that it lives */
#define PS_DROPPED_MS 5000   /* so long a learner may be without a connection */
#define PS_SILENT_MS  10000  /* not heard for so long, it is given up */
#define PS_CLAIM_MS   120000 /* the longest that an item may take, or no other be asked for */
#define PS_ALONE_MS   15000  /* so long the server waits without a learner */
#define PS_GOODBYE_MS 5000   /* at the end: until the learners are gone */

struct ps;

/* Device memory that a device needs for this: the server's, or a learner's, whichever is more. */
uint64_t ps_bytes(const struct task *task, uint32_t nworkers);

struct ps_hooks {
	void *arg;				      /* all of them may be NULL */
	void (*progress)(void *arg, double fraction); /* of the epoch's items */
	void (*event)(void *arg, const char *text);   /* a learner came or went: a line */
	/* The weights have a new version: the more often this takes long, the less often it comes. */
	void (*publish)(void *arg, uint64_t version, const float *values);
};

struct ps_options {
	const char *listen; /* an address for learners; NULL: a socket in the private folder */
	uint32_t nworkers;  /* learners that are started here, at least 0 */
	char *const
	    *argv; /* and how: this program's own arguments, which --learn ADDRESS is added to */
};

/*
 * ps_new - take a device, place weights and tests there, listen, start learners.
 *
 *	from	a checkpoint between two epochs to go on from, or NULL; not used after the call
 *
 * The other arguments outlive it, options do not. Errors: RC_INVAL the configuration asks for what
 * this way of training has not; those of the devices.
 */
enum rc ps_new(struct gpusim *g, const struct task *task, const struct ps_options *options,
	       const struct checkpoint *from, const struct ps_hooks *hooks, struct ps **out,
	       struct err *err);

/* Tell the learners that it is over, wait for those that were started here, give all back. NULL is
 * legal. */
void ps_free(struct ps *ps);

/* Where learners find it. */
const char *ps_address(const struct ps *ps);

uint32_t ps_epochs(const struct ps *ps);

/* Train one epoch and test. RC_ABORTED: there has been no learner for PS_ALONE_MS. */
enum rc ps_epoch(struct ps *ps, struct epoch *out, struct err *err);

/* Fetch the weights, or all there is to go on from, between two epochs; as trainer_weights and
 * trainer_state. */
enum rc ps_weights(struct ps *ps, float *values, struct err *err);
enum rc ps_state(struct ps *ps, struct checkpoint *out, struct err *err);

/*
 * ps_learn - be a learner of the server at config->learn, until training is over.
 *
 *	task	its samples and net; or NULL: the server feeds the samples, and says what they are
 *
 * Errors: RC_UNREACHABLE, RC_TIMEOUT the server is not there (any more); RC_INVAL it trains something
 * else; RC_ABORTED it has given this learner up; RC_FAILED, RC_NOMEM the device.
 */
enum rc ps_learn(struct gpusim *g, const struct task *task, const struct train_config *config,
		 struct err *err);

#endif
