/*
 * account_impl.h - shared by the files of the account.
 */
#ifndef TRAIN_ACCOUNT_IMPL_H
#define TRAIN_ACCOUNT_IMPL_H

#include "train/account.h"

enum account_kind {
	ACCOUNT_EMBEDDING,
	ACCOUNT_BLOCK,
	ACCOUNT_HEAD,
	ACCOUNT_DENSE,
	ACCOUNT_UNKNOWN
};
enum account_role { ACCOUNT_WHOLE, ACCOUNT_COLUMNS, ACCOUNT_ROWS };

/* A unit by its sizes. */
struct account_unit {
	enum account_kind kind;
	uint64_t in, out; /* features; of a vit's: h */
	enum account_role role;
	bool norm, gelu, last;
};

/* The letters of the formulas. */
struct account_facts {
	const struct account_input *in;
	const struct pipeline *schedule;
	uint64_t N, t, p, M;	 /* data, tensor, pipeline parallel; microbatches */
	uint64_t S;		 /* data-parallel ranks that shard; N / S replicas */
	uint64_t s, h, a, q;	 /* of a vit: tokens, features, heads, values of a patch */
	uint64_t c;		 /* classes */
	uint64_t b;		 /* rows of a piece at most */
	uint64_t pieces, leaf;	 /* of a microbatch; rows of a leaf, or 0 */
	uint64_t each;		 /* bytes of a parameter, of an activation */
	uint64_t psi;		 /* parameters of the whole net */
	uint32_t zero;		 /* 0 if no rank shares with another */
	uint32_t nunits, nstate; /* nstate: vectors of the optimizer, masters */
	struct account_unit unit[NET_MAX_CUTS];
	/* known: each unit has formulas for its activations; normed: the gradient's norm is taken */
	bool seq, known, normed;
};

/* The first unit of a stage; the one after it is that of the next. */
uint32_t account_unit_of(const struct account_facts *f, uint32_t stage);

/* Parameters of a unit on a rank. */
uint64_t account_params(const struct account_facts *f, uint32_t unit);

/* What one data-parallel rank's rows of a piece of a microbatch are; 0: it has none. */
uint64_t account_rows(const struct account_facts *f, uint32_t d, uint32_t micro, uint32_t piece);

void account_add(struct account *a, const char *what, uint32_t row, double expected,
		 double measured, const char *formula, ...) __attribute__((format(printf, 6, 7)));

void account_memory(const struct account_facts *f, struct account *a);
void account_sent(const struct account_facts *f, struct account *a);

#endif
