/*
 * lower_impl.h - the graph of values, between an algorithm and its schedules. Only for lower*.c.
 *
 * A value is one rank's content of one chunk, from the operation that makes it on: an input, a received
 * value, or a sum. Copies make no value. Values that no output needs are dropped. The file's thread blocks,
 * dependencies and scratch are gone: only the operands of values remain, and the messages that carry them.
 */
#ifndef ALGO_LOWER_IMPL_H
#define ALGO_LOWER_IMPL_H

#include "algo/algo.h"

enum made { MADE_INPUT, MADE_RECV, MADE_RECV_SUM, MADE_SUM };

/* Moments of a rank: its rounds, and in each round these phases, one after the other. */
enum phase { PHASE_BEFORE, PHASE_SENDS, PHASE_RECVS, PHASE_AFTER, NPHASES };

struct val {
	uint8_t made; /* enum made */
	bool live;
	bool saved;  /* an input that is copied to scratch first */
	bool homed;  /* it lies in the output, at `hint` */
	bool copied; /* into an output, once it is made */
	uint32_t rank, chunk;
	uint32_t nranks; /* number of contributing ranks */
	uint32_t a, b;	 /* values: of MADE_RECV_SUM and MADE_SUM its operands here; ALGO_NONE */
	uint32_t from;	 /* the value received; ALGO_NONE */
	uint32_t message;
	/* Of a received value: the round and the message by which its sender knows of it; ALGO_NONE:
	 * never. */
	uint32_t proof_round, proof;
	uint32_t hint;	/* its place in the output in the file; ALGO_NONE */
	uint32_t nuse;	/* number of live values and outputs that use it */
	uint32_t avail; /* the first round that can use it */
	uint8_t buf;	/* enum plan_buf */
	uint32_t at;
	uint32_t tmp; /* of a saved input: its place in scratch */
};

/* Values that travel together, without dead ones. */
struct msg {
	uint32_t from, to; /* ranks */
	uint32_t first, n; /* in flow.item */
	uint32_t round, height, npred;
	uint32_t order; /* in the file, see struct algo_step */
};

/* A place of the output that the collective defines. */
struct out {
	uint32_t rank, at, val;
	bool copied; /* made elsewhere and copied there */
};

struct flow {
	const struct algo *algo;
	struct val *val;
	size_t nval, val_cap;
	struct msg *msg;
	size_t nmsg;
	uint32_t *item; /* values made by messages, message by message */
	struct out *out;
	size_t nout;
	uint32_t nround;
	uint32_t *scratch; /* by rank: places */
};

/* Trace a proven algorithm; fused: values that are received only to be added are added on arrival. */
enum rc flow_trace(const struct algo *a, bool fused, struct flow *f, struct err *err);
void flow_fini(struct flow *f);

/* The round of each message. ports: messages that a rank sends, and receives, in a round; 0: any number.
 * RC_FAILED: messages wait for each other, which fusing can cause. */
enum rc flow_rounds(struct flow *f, uint32_t ports, struct err *err);

/* Choose the place of each value. */
enum rc flow_place(struct flow *f, struct err *err);

/* Make all ranks' schedules. */
enum rc flow_emit(struct flow *f, struct schedule **out, struct err *err);

static inline bool
val_partial(const struct flow *f, const struct val *v)
{
	return v->nranks > 1 && v->nranks < f->algo->nranks;
}

/* The moment at which it is made. */
static inline uint64_t
val_moment(const struct val *v)
{
	if (v->made == MADE_INPUT || !v->avail)
		return PHASE_BEFORE;
	return (uint64_t)(v->avail - 1) * NPHASES +
	       (v->made == MADE_SUM ? PHASE_AFTER : PHASE_RECVS);
}

/* The moment at which a copied output is complete. */
static inline uint64_t
out_moment(const struct val *v)
{
	return (uint64_t)(v->avail ? v->avail - 1 : 0) * NPHASES + PHASE_AFTER;
}

#endif
