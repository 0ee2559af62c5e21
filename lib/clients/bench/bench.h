/*
 * bench.h - measure a collective and check its results, size by size; find the fastest algorithm for each
 * size.
 *
 * The caller has a communicator; bench_open allocates buffers on its devices, bench_close frees them.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "mem/number.h"

/* The times of an earlier gpuctl bench, from its --json output. */
enum bench_place { BENCH_OUT_OF_PLACE, BENCH_IN_PLACE, BENCH_NPLACES };

struct baseline_row {
	uint64_t nbytes;
	double us[BENCH_NPLACES]; /* 0: none */
};

/* Initialise with {0}. */
struct baseline {
	struct baseline_row *row;
	size_t n, cap;
};

/* Parse text that ends with a NUL. RC_BADDATA: not such text, or without rows. */
enum rc baseline_parse(const char *text, struct baseline *out, struct err *err);
void baseline_fini(struct baseline *b);

/* us as a multiple of the baseline's time for that size and place; 0: it has none. */
double baseline_ratio(const struct baseline *b, uint64_t nbytes, enum bench_place where, double us);

/*
 * The input of each rank of a checked collective and its expected output, to the bit.
 *
 * Elements are small whole numbers: every type holds every sum, product and average of them. They repeat
 * after a prime number of elements, so a part at a wrong place shows, and making them is mostly copying.
 */

/* Initialise with bench_data_init. */
struct bench_data {
	enum gpusim_coll coll;
	enum gpusim_dtype dtype;
	enum gpusim_redop redop;
	uint32_t nranks, root;
	char *room;	 /* elements of sequence `which` from 0 on */
	uint32_t which;	 /* a rank's, or SHAPE_REDUCED (coll/shape.h) */
	uint64_t filled; /* elements of room that are set */
	uint64_t most;	 /* elements that one request may be for */
};

#define BENCH_PIECE ((size_t)1 << 20) /* bytes of a request, at most */

/* coll, dtype, op, nranks, root are set by the caller. */
void bench_data_init(struct bench_data *d);
void bench_data_fini(struct bench_data *d);

/* nelem <= d->most elements of a sequence, from `from` on. Valid until the next call. */
const char *bench_data_get(struct bench_data *d, uint32_t which, uint64_t from, uint64_t nelem);

/* A rank's factor of premulsum. */
union number bench_factor(enum gpusim_dtype dtype, uint32_t rank);

#define BENCH_RECOVERIES_MAX 100 /* of one bench */

/* Borrowed until bench_close. */
struct bench_config {
	struct gpusim *g;
	struct gpusim_comm **comm; /* replaced by a new handle after a recovery */
	/* All but sizes and addresses. GPUSIM_SEND stands for sendrecv: each rank sends to the next, and receives
	 * from the one before. */
	struct gpusim_collective c;
	uint64_t min_bytes, max_bytes; /* of the whole vector */
	bool fits;		       /* max_bytes is halved until the devices have room */
	uint64_t factor;	       /* from one size to the next; at least 2 */
	uint64_t iters, warmup;	       /* repetitions that are timed, and before those; iters > 0 */
	bool rewrite; /* each repetition first fills the input and does a barrier, untimed */
	/* A wrong result ends the bench with RC_BADDATA, naming the rank that caused it */
	bool verify;
	const struct baseline *baseline; /* NULL: none */
	/*
	 * After a failure rc with its message *err: RC_OK repeats the size. NULL: never.
	 *
	 *	comm	[in, out] replaced by a handle of the recovered communicator
	 *	was	[out] by rank of comm: its rank before
	 */
	enum rc (*recover)(void *arg, struct gpusim_comm **comm, uint32_t *was, enum rc rc,
			   struct err *err);
	void *arg;
};

/* Of several measurements. */
struct bench_time {
	double p50_us, min_us;
};

struct bench_result {
	bool ran;		  /* alltoall has no in-place form */
	struct bench_time time;	  /* of an operation, in the devices, at the slowest rank */
	struct bench_time client; /* of one call, out of place only */
	double algbw, busbw;	  /* GB/s, as nccl-tests defines them */
	double ratio;		  /* time to the baseline's; 0: it has none */
	uint64_t nwrong;
};

struct bench_row {
	uint64_t nbytes, count;
	struct bench_result result[BENCH_NPLACES];
};

struct bench_summary {
	double avg_busbw;
	double worst; /* the largest ratio to the baseline; 0: none */
	uint64_t nwrong;
	struct bench_time client; /* of the first size, client_nbytes */
	uint64_t client_nbytes;
};

struct bench;

/* Errors: those of gpusim_malloc. */
enum rc bench_open(const struct bench_config *cfg, struct bench **out, struct err *err);

/* The largest size that fits: cfg->max_bytes, or less with `fits`. */
uint64_t bench_max_bytes(const struct bench *b);

/* rc: the result of the work; memory on devices that may not answer is left to its lease. b may be NULL. */
void bench_close(struct bench *b, enum rc rc);

/*
 * bench_run - all sizes, each checked and timed; row is called once a size.
 *
 * Wrong elements are counted in the rows and in *out; they are not an error, unless cfg->verify.
 */
enum rc bench_run(struct bench *b, void (*row)(void *arg, const struct bench_row *row), void *arg,
		  struct bench_summary *out, struct err *err);

/* A range of sizes and its fastest algorithm. */
struct bench_rule {
	uint64_t min_bytes, max_bytes; /* UINT64_MAX: all that are larger */
	const char *algo;
};

/*
 * bench_tune - time every algorithm at every size; rule is called once for each range with one winner.
 *
 * RC_FAILED: an algorithm's result was wrong.
 */
enum rc bench_tune(struct bench *b, void (*rule)(void *arg, const struct bench_rule *rule),
		   void *arg, struct err *err);

/* Return true if a collective has more than one algorithm that bench_tune could choose. */
bool bench_has_choice(enum gpusim_coll coll);

#endif
