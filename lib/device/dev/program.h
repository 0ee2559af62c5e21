/*
 * program.h - a list of operations as a device runs it: checked and resolved once, run often.
 *
 * Kernels have their arguments bound, collectives their plan, addresses are host pointers. Running
 * a program allocates nothing.
 */
#ifndef DEV_PROGRAM_H
#define DEV_PROGRAM_H

#include <stdatomic.h>
#include <stdbool.h>

#include "coll/plan.h"
#include "coll/shape.h"
#include "dev/event.h"
#include "kern/kernel.h"
#include "gpu_sim.pb-c.h"
#include "mem/devmem.h"
#include "xport/xport.h"

#define STREAM_MAX	  64	     /* numbered streams of a device */
#define PROGRAM_MAX_STEPS (1u << 22) /* of all plans of a program */
/* bytes of all programs of a device, without their scratch */
#define PROGRAMS_MAX_HELD (256u << 20)
#define INST_NONE	  SIZE_MAX

enum inst_kind {
	INST_KERNEL,
	INST_MEMSET,
	INST_COPY,
	INST_RECORD,
	INST_WAIT,
	INST_COLL,
	INST_SENDRECV
};

struct inst_kernel {
	const struct kernel *kernel;
	union kernel_value v[KERNEL_MAX_PARAMS];
	uint64_t step[KERNEL_MAX_PARAMS];
	bool stepped; /* any step is not 0 */
	uint32_t argbytes;
};

struct inst_bytes { /* memset, copy */
	void *dst;
	const void *src;
	size_t nbytes;
	int value;
};

struct inst_event {
	struct event *event;
	size_t record; /* the instruction of this program that records the event, or INST_NONE */
};

/* A collective, or one end of a send/recv pair: a plan over buffers. */
struct inst_coll {
	/* canonical: as requested, cleared where all orders give the same bits. part: one piece of memory with
	 * recv_part, of a program that is recorded, else NULL. schedule: NULL once planned */
	struct plan_args args;
	struct shape shape;
	const char *algo;    /* static; "file" if from a file */
	char file_algo[64];  /* the name, if from a file */
	uint8_t algo_number; /* plan_algo_number() + 1 */
	uint64_t digest;     /* of the schedule, if from a file */
	struct plan plan;
	uint32_t *after; /* by step, see hoist.h; NULL for pairs */
	/* By enum plan_buf; scratch is shared by a stream's collectives */
	unsigned char *base[PLAN_NBUFS];
	/* premulsum: the caller's input; base[PLAN_IN] is a copy of it times the factor, whose bits are
	 * in scalar and may change for each run. Else NULL. */
	const unsigned char *given;
	uint64_t scalar;
	uint32_t stream;	 /* numbered; unused in a command queue */
	uint64_t chunk_bytes;	 /* as requested */
	size_t elem;		 /* bytes */
	uint64_t sent, received; /* bytes to and from peers, see inst_coll_plan */
	const void **from;	 /* by place: room for the chunks of a STEP_RECV_ALL, if any */
	/* The ranks that take part, by place: args.rank of args.nranks. NULL: all. */
	struct xport_members *members;
	char group[GPUSIM_GROUP_NAME]; /* their name, or "" */
	uint8_t group_number;	       /* flight_group() */
	uint64_t op_offset;	       /* see proto Coll */
	uint64_t fixed_op;	       /* if not 0: the operation's number in each iteration */
	uint64_t ticket; /* the number of collectives of all ranks before it in the program */
	uint32_t kind;	 /* hash of the operation; equal on all ranks */
	char call[XPORT_CALL_MAX]; /* the operation as text */
};

struct inst {
	enum inst_kind kind;
	bool untimed;
	uint32_t stream;
	uint32_t phase;		  /* number; 0: none */
	char label[GPUSIM_LABEL]; /* of the phase */
	union {
		struct inst_kernel kernel;
		struct inst_bytes bytes;
		struct inst_event event;
		struct inst_coll coll;
	};
};

struct injector; /* injector.h */
struct tape;	 /* tape/tape.h */

struct program {
	struct inst *inst;
	size_t ninst;
	uint64_t comm; /* 0: no communicator */
	uint32_t epoch, rank, nranks;
	bool numbered;		   /* its collectives' tickets are their numbers, not reserved */
	int refs;		   /* guarded by the lock of the streams */
	uint64_t op_offsets;	   /* larger than all collectives' op_offset */
	uint64_t ncoll;		   /* collectives of all ranks */
	void *scratch[STREAM_MAX]; /* or NULL; in the memory file, where peers may read it */
	/* Room for a stream's collectives of some ranks; NULL: there are none. */
	struct xport_pair *pairs[STREAM_MAX];
	struct devmem *mem;
	struct injector *inject; /* or NULL: injection is off */
	struct tape *tape;	 /* or NULL: no recording */
	uint64_t queue;		 /* the command queue of its operations; 0: none */
	atomic_size_t *held;	 /* counts nbytes, or NULL */
	size_t nbytes;
};

/* The environment of a program's operations. */
struct program_env {
	struct devmem *mem;
	struct xport *xport;
	struct event_table *events;
	atomic_size_t *held;		/* bytes of all programs, or NULL: not counted */
	struct injector *inject;	/* of faults, or NULL */
	struct tape *tape;		/* recording of operations, or NULL */
	struct flight *flight;		/* flight recorder of the threads, or NULL */
	void (*tell)(const char *line); /* logs each ended operation, or NULL */
};

/*
 * program_build - check and resolve.
 *
 *	comm	0: collectives are refused; else this device's communicator (RC_NOTFOUND)
 *
 * Errors name the operation: "op 3 (gemm): ...". RC_INVAL, RC_NOTFOUND, RC_NOMEM, RC_BUSY limit of held
 * memory.
 */
enum rc program_build(const struct program_env *env, uint64_t comm, GpuSim__Op *const *ops,
		      size_t nops, struct program **out, struct err *err);

/* One send or receive of nbytes bytes under its own operation number: the lab's transfers. */
enum rc program_build_transfer(const struct program_env *env, enum gpusim_coll send_or_recv,
			       uint64_t comm, uint32_t peer, uint64_t addr, uint64_t nbytes,
			       uint64_t op, struct program **out, struct err *err);

/* The host pointer of a range of the device's memory; an empty range may be anywhere. RC_INVAL names
 * `what`. */
enum rc inst_range(const struct devmem *mem, const char *what, uint64_t addr, uint64_t nbytes,
		   void **out, struct err *err);

/*
 * A collective, send or receive by itself, in three steps: inst_coll_shape, inst_coll_place, inst_coll_plan.
 * The first checks c->args, which the caller has set but for chunk, share and wide, and fills in c except
 * for plan and buffers; the second finds the buffers, and can be repeated with others of the same shape.
 * args.schedule NULL: `algo` is built in; else it is borrowed until inst_coll_plan is done. RC_INVAL,
 * RC_NOMEM.
 */
enum rc inst_coll_shape(struct inst_coll *c, const char *algo, uint64_t chunk_bytes,
			struct err *err);
enum rc inst_coll_place(struct inst_coll *c, const struct devmem *mem, uint64_t send, uint64_t recv,
			struct err *err);

/* The rank with a place among those that take part. */
static inline uint32_t
inst_coll_rank(const struct inst_coll *c, uint32_t place)
{
	return c->members ? c->members->rank[place] : place;
}

/* The algorithm's name. */
const char *inst_coll_algo(const struct inst_coll *c);

/* Build its plan; inst_coll_fini releases it. */
enum rc inst_coll_plan(struct inst_coll *c, struct err *err);
void inst_coll_fini(struct inst_coll *c);

/* The operation number of a send or receive that is the n-th of its pair, from 1. */
uint64_t inst_coll_pair(const struct inst_coll *c, uint64_t n);

/* The bytes of scratch that it needs when placed; set the scratch. */
uint64_t inst_coll_scratch(const struct inst_coll *c);
void inst_coll_place_scratch(struct inst_coll *c, unsigned char *scratch);

/* RC_INVAL: this many iterations would number operations past FRAME_OP_MAX. */
enum rc program_check_numbers(const struct program *p, uint64_t first_op, uint64_t stride,
			      uint64_t iterations, struct err *err);

/* Charge n bytes to the device (held NULL: not counted); *charged [out]: n, to be subtracted. RC_BUSY: the
 * limit; *charged is unchanged. */
enum rc program_hold(atomic_size_t *held, size_t n, size_t *charged, struct err *err);

/* NULL is legal. */
void program_free(struct program *p);

/* A word for one instruction, for errors: "allreduce", "gemm". Static storage. */
const char *inst_name(const struct inst *i);

#endif
