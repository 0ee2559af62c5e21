/*
 * flight.h - the layout of the flight recorder's area in a file. One process writes, any process reads at
 * any time.
 *
 * A page of header, then rings, each on pages of its own: its identity, the live line of what its thread
 * does now, its counters, and the records of what has ended. Each writing thread has its own ring.
 *
 *	+--------+----------------------------------------+--------------------- -
 *	| header | ring 0: head | live | counts | records | ring 1: ...
 *	+--------+----------------------------------------+--------------------- -
 *
 * Record n of a ring lies at place n modulo `nrecords`; `head` counts the records that are whole, and is
 * stored after them. So a killed process leaves all records whole except the one it was writing. A reader
 * reads `head`, copies, and reads `head` again: records more than nrecords less FLIGHT_MARGIN before the
 * second value may be overwritten.
 *
 * Times are ticks of the processor's clock (clock.h here), the same for all processes of a host. The header
 * has the pairs that convert them to CLOCK_MONOTONIC and to the coordinator's time. Bytes are in the host's
 * order.
 *
 * The area may be damaged. No address or length in it may be used unchecked: see read.h.
 */
#ifndef FLIGHT_FLIGHT_H
#define FLIGHT_FLIGHT_H

#include <stdatomic.h>
#include <stdint.h>

#define FLIGHT_MAGIC	   "gpusimF1"
#define FLIGHT_VERSION	   2u /* of the layout of everything below */
#define FLIGHT_PAGE	   4096u
#define FLIGHT_LINE	   64
#define FLIGHT_RINGS_MAX   64u
#define FLIGHT_RECORDS_MIN 256u /* of a ring; a power of two */
#define FLIGHT_RECORDS_MAX (1u << 20)
#define FLIGHT_RECORDS	   4096u		  /* default */
#define FLIGHT_MARGIN	   (FLIGHT_TEXTS_MAX + 1) /* records that may be written before head changes */
#define FLIGHT_NAME	   32

/* ---- records: 64 bytes each, the first byte is the kind */

enum flight_kind {
	FLIGHT_NONE,
	FLIGHT_OP, /* struct flight_op: a collective, send or receive has ended */
	FLIGHT_WAIT, /* struct flight_step: a wait for a peer within an operation, of 1 us or longer */
	FLIGHT_STEP, /* struct flight_step: a step of a plan, waiting included; only while a trace is taken */
	FLIGHT_KERNEL, /* struct flight_kernel */
	FLIGHT_COPY,   /* struct flight_copy; also memset, transfers of clients */
	FLIGHT_PAUSE, /* struct flight_copy: a stream waited for an event, a queue, a process of the program */
	FLIGHT_MARK, /* struct flight_mark: an instant event, followed by `ntext` records of text */
	FLIGHT_TEXT, /* struct flight_text */
	FLIGHT_RANGE, /* struct flight_range: a range or mark of a program's thread, by NVTX; a name; a phase */
	FLIGHT_NKINDS
};

/* An operation between ranks that has ended; in struct flight_live, the running one. */
struct flight_op {
	uint8_t kind;
	uint8_t coll, dtype, redop; /* enum gpusim_coll, gpusim_dtype, gpusim_redop */
	uint8_t algo;		    /* plan_algo_number() + 1; 0: unknown */
	uint8_t result;		    /* enum gpusim_rc; of a running one 0 */
	uint8_t flags;		    /* FLIGHT_BY_MEMORY ... */
	uint8_t group; /* 1 + index of flight_header.group: the ranks that take part; 0: all */
	uint64_t begin, end; /* ticks; end 0: it is running, or its process was killed in it */
	uint64_t comm;	     /* id */
	uint64_t seq;	/* the operation's number as frames carry it: frame_op_shown() shows it */
	uint64_t count; /* elements */
	uint32_t epoch;
	uint32_t queued; /* from enqueue to begin, in 64 ticks; saturates */
	uint32_t root;	 /* send, recv: the peer */
	uint16_t rank, nranks;
};

enum {
	FLIGHT_BY_MEMORY = 1,
	FLIGHT_QUEUED = 2, /* came by a command queue */
	FLIGHT_SENDS = 4, /* a send or receive: it runs together with others, of which some send; */
	FLIGHT_RECEIVES = 8 /* some receive */
};

struct flight_step {
	uint8_t kind;	/* FLIGHT_WAIT, FLIGHT_STEP */
	uint8_t what;	/* enum plan_step_kind + 1; 0: none: opening or ending the operation */
	uint8_t result; /* enum gpusim_rc */
	uint8_t spare;
	uint32_t step;	     /* of the plan, from 1 */
	uint64_t begin, end; /* ticks */
	uint64_t comm, seq;
	uint64_t bytes;	 /* that the step moves; 0: unknown */
	uint64_t waited; /* ticks of it spent waiting for the peer */
	uint32_t epoch;
	uint32_t peer; /* rank + 1; 0: none */
};

struct flight_kernel {
	uint8_t kind;
	uint8_t result;
	uint16_t threads;	    /* of a block, of a CUDA kernel; else 0 */
	uint32_t argbytes;	    /* of the arguments */
	uint64_t begin, end;	    /* ticks */
	uint32_t grid[3];	    /* blocks; a kernel of the device's own: 0, 0, 0 */
	char name[FLIGHT_NAME - 4]; /* cut; ends in 0 */
};

enum flight_copy_kind {
	FLIGHT_COPY_DEVICE = 1, /* within the device */
	FLIGHT_COPY_IN,		/* from a client to the device */
	FLIGHT_COPY_OUT,	/* from the device to a client */
	FLIGHT_MEMSET,
	FLIGHT_PAUSE_EVENT, /* waits: for an event of another stream */
	FLIGHT_PAUSE_QUEUE, /* for another command queue */
	FLIGHT_PAUSE_HOST, /* for work that the program itself does: a kernel in its helper, a host function */
	FLIGHT_PAUSE_TURN /* for runs or commands queued before it on the stream */
};

struct flight_copy {
	uint8_t kind; /* FLIGHT_COPY, FLIGHT_PAUSE */
	uint8_t what; /* enum flight_copy_kind */
	uint8_t result;
	uint8_t spare[5];
	uint64_t begin, end; /* ticks */
	uint64_t dst, src;   /* addresses; 0: none */
	uint64_t nbytes;
	uint64_t with; /* the queue or event that the stream waits for */
	uint64_t spare2;
};

/* A mark's reason: a device's first, then the coordinator's. Numbers do not change. */
enum flight_mark_kind {
	FLIGHT_MARK_START = 1, /* the process has begun; value: its pid */
	FLIGHT_MARK_END,       /* it ends normally */
	FLIGHT_MARK_ATTACH,    /* it is rank `rank` of a communicator's epoch */
	FLIGHT_MARK_DETACH,
	FLIGHT_MARK_ABORT,     /* operations of the communicator were ended; text: why */
	FLIGHT_MARK_FAULT,     /* an injected fault; text: which */
	FLIGHT_MARK_NOMEM,     /* memory was refused; value: bytes asked for */
	FLIGHT_MARK_LOST_RANK, /* this rank cannot continue; text */
	FLIGHT_MARK_GROUP, /* value: operations in its program's open group from then on; 0: closed */
	/* of the coordinator: */
	FLIGHT_MARK_REQUEST = 32, /* of a client: value: its number; text: which */
	FLIGHT_MARK_ANSWER,	  /* to it; result */
	FLIGHT_MARK_CALL,	  /* of a device */
	FLIGHT_MARK_RESULT,	  /* of the call */
	FLIGHT_MARK_DECISION,	  /* text: what and why */
	FLIGHT_MARK_EVENT,	  /* an event of the history; value: its kind; text */
	FLIGHT_MARK_REPORT,	  /* a report was written; value: its number; text: the file */
	FLIGHT_MARK_HEARD	  /* a client has left, a process has ended ...; text */
};

struct flight_mark {
	uint8_t kind;
	uint8_t what; /* enum flight_mark_kind */
	uint8_t result;
	uint8_t ntext; /* records of text that follow */
	uint32_t epoch;
	uint64_t at;	 /* ticks */
	uint64_t device; /* or 0 */
	uint64_t comm;	 /* or 0 */
	uint64_t seq;	 /* of an operation, or of a request; or 0 */
	uint64_t value;
	uint32_t rank;	 /* + 1; or 0 */
	uint32_t step;	 /* or 0 */
	uint64_t client; /* or 0 */
};

#define FLIGHT_TEXT_BYTES 62
#define FLIGHT_TEXTS_MAX  15u /* records of text after a mark */

struct flight_text {
	uint8_t kind;
	uint8_t n;		      /* used bytes */
	char text[FLIGHT_TEXT_BYTES]; /* UTF-8 of a longer text may be cut anywhere */
};

enum flight_range_what {
	FLIGHT_RANGE_NESTED =
	    1,		     /* push and pop: it lies within or beside the others of its thread */
	FLIGHT_RANGE_FREE,   /* begun and ended by any threads */
	FLIGHT_RANGE_MARK,   /* begin is end */
	FLIGHT_RANGE_THREAD, /* the name of the program's thread tid */
	FLIGHT_RANGE_STREAM, /* the name of the ring's own stream */
	FLIGHT_RANGE_BEGUN,  /* a phase of the stream has begun; */
	FLIGHT_RANGE_PHASE   /* it has ended: all since then were in it. Both without pid, tid */
};

struct flight_range {
	uint8_t kind;
	uint8_t what; /* enum flight_range_what */
	uint16_t category;
	uint32_t colour;	/* ARGB; 0: none */
	uint64_t begin, end;	/* ticks */
	uint32_t pid, tid;	/* of the program */
	char name[FLIGHT_NAME]; /* cut; ends in 0 */
};

union flight_record {
	uint8_t kind;
	struct flight_op op;
	struct flight_step step;
	struct flight_kernel kernel;
	struct flight_copy copy;
	struct flight_mark mark;
	struct flight_text text;
	struct flight_range range;
	uint64_t words[8];
};
_Static_assert(sizeof(union flight_record) == 64, "one cache line");

/* ---- counters, which only grow: one writer, 64 bits, no lock */

#define FLIGHT_CLASSES 6  /* by bytes: up to 1 KiB, 32 KiB, 1 MiB, 32 MiB, 1 GiB, more */
#define FLIGHT_BUCKETS 26 /* of time: less than 1 us, 2 us, 4 us, ... 2^24 us, more */
#define FLIGHT_COLLS   24 /* enum gpusim_coll */

/* The most bytes of a class; of the last UINT64_MAX. */
static inline uint64_t
flight_class_most(unsigned class)
{
	return class < FLIGHT_CLASSES - 1 ? UINT64_C(1) << (10 + 5 * class) : UINT64_MAX;
}

struct flight_count {
	_Atomic uint64_t n, bytes, ns;
	_Atomic uint64_t bucket[FLIGHT_BUCKETS];
};

struct flight_counts {
	struct flight_count op[FLIGHT_COLLS][FLIGHT_CLASSES]; /* operations that succeeded */
	_Atomic uint64_t failed;			      /* operations that did not */
	_Atomic uint64_t waited_ns;			      /* for peers */
	_Atomic uint64_t sent, received; /* bytes of chunks to and from peers */
	_Atomic uint64_t kernels, kernel_ns;
	_Atomic uint64_t copies, copy_ns, copy_bytes;
	_Atomic uint64_t busy_ns; /* in operations, kernels and copies */
};

/* ---- a ring */

enum flight_ring_state { FLIGHT_RING_NEW, FLIGHT_RING_USED, FLIGHT_RING_ENDED };

enum flight_ring_kind {
	FLIGHT_STREAM = 1,  /* a numbered stream: id is its number */
	FLIGHT_QUEUE,	    /* a command queue: id is its number, stream its stream */
	FLIGHT_TRANSFER,    /* a lab's transfer */
	FLIGHT_SERVICE,	    /* what clients ask of the device: copies, communicators, faults */
	FLIGHT_COORDINATOR, /* steps of the coordinator */
};

#define FLIGHT_OWN_STREAM UINT64_MAX /* of a queue: it is in the order of no numbered stream */

/* The current operation: its thread writes, any process reads. `turn` is odd while there is one, and grows
 * at each beginning and end: values read between two equal values of it are consistent, except the last
 * six. */
struct flight_live {
	_Alignas(FLIGHT_LINE) _Atomic uint32_t turn;
	/* Rank + 1 to which a chunk is in flight on a shaped link; 0: none. */
	_Atomic uint32_t way_to;
	struct flight_op op;
	_Atomic uint32_t step, steps;	     /* step: from 1 */
	_Atomic uint32_t waits_for;	     /* rank + 1; 0: none */
	_Atomic uint32_t waits_in;	     /* step that it began to wait in */
	_Atomic uint64_t since;		     /* beginning of the wait, ticks */
	_Atomic uint64_t bytes;		     /* of the step */
	_Atomic uint64_t way_bytes;	     /* of the chunk on its way, which leaves at ... */
	_Atomic uint64_t way_begin, way_end; /* ... and has left at, ticks */
};
_Static_assert(sizeof(struct flight_live) == 128, "two lines");

/* The thread's work besides operations between ranks, if it takes long: its thread writes, any process
 * reads. */
enum flight_task {
	FLIGHT_TASK_NONE,
	FLIGHT_TASK_KERNEL,
	FLIGHT_TASK_HOST,  /* waits for a function of the program, */
	FLIGHT_TASK_COPY,  /* for a copy that the program does, */
	FLIGHT_TASK_QUEUE, /* for another command queue, */
	FLIGHT_TASK_EVENT, /* for an event, */
	FLIGHT_TASK_TURN,  /* for runs or commands queued before it on the stream */
	FLIGHT_NTASKS
};

struct flight_now {
	_Alignas(FLIGHT_LINE) _Atomic uint32_t what; /* enum flight_task; written last */
	uint32_t tid;		/* of the program's thread that does it; or 0 */
	uint64_t since;		/* ticks */
	uint64_t queue;		/* or event, that it waits for; and */
	uint64_t device;	/* of the queue; 0: this one */
	char name[FLIGHT_NAME]; /* of the kernel; cut; ends in 0 */
};
_Static_assert(sizeof(struct flight_now) == FLIGHT_LINE, "one cache line");

struct flight_ring {
	_Alignas(FLIGHT_LINE) _Atomic uint32_t state; /* enum flight_ring_state */
	uint32_t kind;				      /* enum flight_ring_kind */
	uint64_t id, stream;
	uint64_t opened; /* ticks */
	uint32_t tid;	 /* of the thread */
	uint32_t pid;	 /* of the client whose queue it is; else of the writer */
	char name[16];
	_Alignas(FLIGHT_LINE) _Atomic uint64_t head; /* records written so far */
	_Atomic uint64_t first; /* earlier records are of another stream: not to be read */
	struct flight_live live;
	_Alignas(FLIGHT_LINE) struct flight_counts counts;
	struct flight_now now;
	/* On the next page: union flight_record [nrecords]. */
};

/* ---- the header */

/* One moment on three clocks. */
struct flight_moment {
	uint64_t ticks;
	uint64_t mono_ns; /* CLOCK_MONOTONIC */
	uint64_t wall_ns; /* CLOCK_REALTIME */
};

/* Ranks that take part in collectives without the others. */
#define FLIGHT_GROUPS	   48u
#define FLIGHT_GROUP_RANKS 352u
struct flight_group {
	char name[16];	       /* cut; ends in 0; "": none */
	uint16_t n, ascending; /* 1: by place they are in the order of ranks */
	/* Bit r % 8 of byte r / 8; higher ranks are not known. */
	uint8_t rank[FLIGHT_GROUP_RANKS / 8];
};

struct flight_header {
	char magic[8];
	uint32_t version; /* FLIGHT_VERSION */
	uint32_t nrings;
	uint32_t nrecords;   /* of a ring, a power of two */
	uint32_t ring_bytes; /* from one ring to the next, whole pages */
	uint64_t nbytes;     /* of the area */
	uint64_t device_id;  /* 0: the coordinator's */
	uint64_t incarnation;
	uint32_t pid, ordinal;
	uint64_t hz;		 /* ticks per second, estimated when the process began */
	char host[64];		 /* host_id() */
	char name[64];		 /* of the program: "gpudev", "gpucoord" */
	_Atomic uint64_t backed; /* bit i: ring i was taken once, so the file has its blocks */
	/* The following is rewritten: values read between two equal even values of `turn` are consistent. */
	_Alignas(FLIGHT_LINE) _Atomic uint32_t turn;
	uint32_t spare;
	struct flight_moment first, last; /* the process's beginning, and the last heartbeat */
	/* The coordinator's CLOCK_REALTIME less this host's, and its error bound; error_ns UINT64_MAX:
	 * unknown. On the coordinator's host both are 0. */
	int64_t offset_ns;
	uint64_t error_ns;
	uint64_t mem_used, mem_bytes; /* of the device, at `last` */
	/* ticks: until then all steps are recorded */
	_Alignas(FLIGHT_LINE) _Atomic uint64_t trace_until;
	_Atomic uint64_t unrecorded; /* threads that found no ring */
	_Alignas(FLIGHT_LINE) struct flight_group group[FLIGHT_GROUPS];
	_Atomic uint32_t ngroups; /* written last; only grows */
};

_Static_assert(sizeof(struct flight_header) <= FLIGHT_PAGE, "one page");
_Static_assert(sizeof(struct flight_header) == 3584 && sizeof(struct flight_ring) == 33856,
	       "files of another layout need another FLIGHT_VERSION");

/* Offsets from the area's beginning. */
#define FLIGHT_HEAD_BYTES \
	((sizeof(struct flight_ring) + FLIGHT_PAGE - 1) / FLIGHT_PAGE * FLIGHT_PAGE)
#define FLIGHT_RING_BYTES(nrecords)	    (FLIGHT_HEAD_BYTES + (uint64_t)(nrecords)*64)
#define FLIGHT_RING_AT(i, nrecords)	    (FLIGHT_PAGE + (uint64_t)(i)*FLIGHT_RING_BYTES(nrecords))
#define FLIGHT_AREA_BYTES(nrings, nrecords) FLIGHT_RING_AT(nrings, nrecords)

#endif
