/*
 * compress.h - methods that send less than the gradients' all-reduce, as operations between backward and update.
 *
 * n parameters, N ranks; g is a rank's gradient, scaled so that the ranks' sum is the step's gradient.
 *
 *	powersgd=R	Vogels et al., arXiv:1905.13727. M = g + error as [rows, cols] for each weight with
 *			R (rows + cols) < rows cols. P = the ranks' sum of M Q, then orthonormal columns; Q = the
 *			sum of M^T P; the gradient is P Q^T, and error = M - P Q^T / N. The other parameters go
 *			with P. Elements: R (rows + cols) for a weight, 1 for each other parameter
 *	topk=F		Lin et al., arXiv:1712.01887, DGC. u = momentum u + g; v += u. Of each weight and bias
 *			the ceil(F count) largest of v are sent, as index and value, and set to 0 in u and v.
 *			The gradient is their sum in the order of ranks; the update has no momentum. With F = 1
 *			nothing is delayed, and u stays
 *	onebit		Tang et al., arXiv:2102.02888, 1-bit Adam. After the warm-up v is frozen; the ranks'
 *			m = 0.9 m + 0.1 N g are averaged as signs and scales, with error feedback: the owner of
 *			a chunk adds up that of all ranks, and sends it to them. n / 8 bytes instead of 4 n
 *
 * A device has state of its own: error feedback, u, v; of DiLoCo the inner optimizer's. Kept copies and checkpoints
 * have each rank's. A device that replaces a lost one without its memory begins with zeros: what the lost one
 * had not sent yet is lost. Everything else is the same on all ranks, to the bit.
 */
#ifndef TRAIN_COMPRESS_H
#define TRAIN_COMPRESS_H

#include "train/replica.h"

/* The part of a training in which steps send the same number of bytes. */
struct compress_phase {
	bool dense;	 /* warm-up of onebit: gradients are all-reduced */
	double fraction; /* topk: of the elements */
	uint64_t begin;	 /* onebit: the steps of the warm-up */
	uint64_t end;	 /* steps since the beginning; UINT64_MAX: the last phase */
};

struct compress_phase compress_phase(const struct task *task, uint64_t steps_an_epoch,
				     uint64_t step);

/* Does each rank have an optimizer's state of its own? */
bool compress_owns_optimizer(const struct train_config *c);

/* Lay out what all ranks have alike; what each has of its own; working memory, for at most max_ranks ranks. */
void compress_place_shared(struct replica *r, const struct task *task, uint64_t *at);
void compress_place_own(struct replica *r, const struct task *task, uint64_t *at);
void compress_place_scratch(struct replica *r, const struct shape *s, uint64_t *at);

/* The shared values of the host's image at the beginning, whose parameters are set; offsets: as addresses. */
void compress_begin(const struct task *task, const struct replica *offsets, uint8_t *image);

/* One step on all ranks. */
struct compress_run {
	const struct task *task;
	const struct replica *replica; /* by rank */
	uint32_t nranks;
	struct compress_phase phase;
	const struct emit_sink *sink;
	struct gpusim_addr *send, *recv; /* by rank, of one collective */
	/* The collective has all but algorithm and stream. */
	void (*collective)(void *arg, const struct gpusim_collective *c);
	void *arg;
};

/* Emit what follows backward, and leaves on every rank what the update takes. */
void compress_reduce(const struct compress_run *run);

/* Change the optimizer of the update. */
void compress_optimizer(const struct task *task, const struct compress_phase *phase,
			struct emit_optimizer *o);

/*
 * compress_outer - emit DiLoCo's outer step, after the local ones (Douillard et al., arXiv:2311.08105).
 *
 * The mean over the ranks of the parameters' change is the gradient of SGD with Nesterov's momentum on the
 * parameters that all ranks began with; all ranks continue from the result. Statistics become their mean.
 */
void compress_outer(const struct compress_run *run);

/* Bytes that all nranks ranks together send in a collective: (N-1) times the vector's for all-gather and
 * all-to-all, twice that for all-reduce. Another algorithm than a bandwidth-optimal one sends more. */
uint64_t compress_sent(const struct gpusim_collective *c, uint32_t nranks);

#endif
