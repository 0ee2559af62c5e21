/*
 * cmdq.h - a command queue: a ring of commands in a device's memory file. A client process writes commands;
 * one thread of the device carries them out in order.
 *
 * The page of a queue lies in the device's own part of the file. Its lines have one writer each, so that no
 * lock is needed: the client writes `tail` and the commands, the device writes `head` and the error. A
 * command is complete when tail has passed it, and carried out when head has. A waiter spins a little, yields
 * a little, then sets `sleeps` and sleeps on the low half of the counter as a futex.
 *
 * A command that fails stops the queue: the device writes the error, with its number, and skips all later
 * commands, so that no one waits forever and nothing runs on wrong data. When the client has written the
 * error's number to `forgiven`, the device continues with the commands written after that.
 */
#ifndef MEM_CMDQ_H
#define MEM_CMDQ_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CMDQ_MAGIC 0x6770753171646d63ull
#define CMDQ_SIZE  1024 /* commands of a ring; a power of two */
#define CMDQ_LINE  64
#define CMDQ_TEXT  448

enum cmdq_kind {
	CMDQ_NOP,
	CMDQ_COLL, /* one rank's part of a collective: u.coll */
	CMDQ_SENDRECV, /* one end of a send/recv pair: u.coll; commands linked by CMDQ_MORE run together */
	CMDQ_COPY,   /* within the device: u.bytes */
	CMDQ_MEMSET, /* u.bytes; value repeated in units of `width` bytes */
	CMDQ_STAMP,  /* the time, CLOCK_MONOTONIC ns as a u64, to address u.bytes.dst */
	CMDQ_WAIT,   /* until queue u.wait.queue of this device has done u.wait.position commands */
	CMDQ_EXTERN, /* work that a thread or helper of the client does: u.ext */
	CMDQ_NOTE,   /* a record of the program for the device's recorder: u.note */
};

/* Flags of CMDQ_COLL and CMDQ_SENDRECV. */
#define CMDQ_MORE	   1u /* the next command belongs to the same set of sends and receives */
#define CMDQ_SCALAR	   2u /* premulsum: `scalar` is this rank's factor, in the type's own bits */
#define CMDQ_SCALAR_ADDR   4u  /* premulsum: `scalar` is the factor's address, read when it runs */
#define CMDQ_DETERMINISTIC 16u /* the result depends only on the inputs and the order of ranks */
#define CMDQ_APART	   8u  /* for cmdq_append_colls: a set of sends and receives begins here */

struct cmdq_coll {
	uint64_t comm;	/* id */
	uint64_t send;	/* address; 0: none */
	uint64_t recv;	/* address; 0: none */
	uint64_t count; /* elements, as struct gpusim_collective.nelem counts them */
	/* From 0: of the communicator's collective; send, recv: of the ordered pair's */
	uint64_t number;
	uint64_t scalar;
	uint32_t root;	 /* send, recv: the peer */
	uint32_t queued; /* time: ticks_now() >> 6 (flight/ticks.h); for the device's recorder */
};

struct cmdq_bytes {
	uint64_t dst, src, nbytes;
	uint32_t value, width; /* memset: width 1, 2, 4 */
};

struct cmdq_wait {
	uint64_t queue, position;
};

struct cmdq_ext {
	uint64_t who;	 /* 0 .. CMDQ_EXTERNS - 1 */
	uint64_t n;	 /* number of its work item on this queue, from 1 */
	uint64_t queued; /* as in struct cmdq_coll */
};

/* `flags` is enum flight_range_what, `mark` the category. */
struct cmdq_note {
	uint64_t begin, end; /* ticks */
	uint32_t tid, colour;
	char name[32]; /* ends in 0 */
};

struct cmdq_command {
	uint8_t kind; /* enum cmdq_kind */
	uint8_t flags;
	uint8_t coll;  /* enum gpusim_coll */
	uint8_t dtype; /* enum gpusim_dtype */
	uint8_t redop; /* enum gpusim_redop */
	uint8_t algo;  /* 0: the device chooses; else plan_algo_number() + 1 */
	uint16_t mark; /* algo PLAN_ALGO_FILE + 1: cmdq_algo_mark of its name */
	union {
		struct cmdq_coll coll;
		struct cmdq_bytes bytes;
		struct cmdq_wait wait;
		struct cmdq_ext ext;
		struct cmdq_note note;
		uint64_t words[7];
	} u;
};
_Static_assert(sizeof(struct cmdq_command) == 64, "one cache line");

/* A hash of the name of an algorithm from a file. */
static inline uint16_t
cmdq_algo_mark(const char *name)
{
	uint32_t h = 0x811c9dc5u;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 0x01000193u;
	return (uint16_t)(h ^ h >> 16);
}

enum cmdq_does { CMDQ_DOES_COPY, CMDQ_DOES_HOST, CMDQ_DOES_WAIT, CMDQ_DOES_KERNEL };

#define CMDQ_EXTERNS 2 /* 0: the helper that runs kernels; 1: a thread of the program */

/* A kernel that a client's helper runs, for the device's recorder. */
struct cmdq_kernel {
	char name[28]; /* "": unknown */
	uint32_t grid[3], threads, argbytes;
};

/* Work of the client inside the queue's order. The device writes `go`, the worker writes `done`. */
struct cmdq_extern {
	_Alignas(CMDQ_LINE) _Atomic uint64_t go;
	atomic_uint worker_sleeps;
	_Alignas(CMDQ_LINE) _Atomic uint64_t done;
	atomic_uint device_sleeps;
	_Atomic uint32_t rc; /* not 0: the work failed, enum gpusim_rc; `text` has the sentence */
	char text[CMDQ_LINE * 3];
	/* Written before the work begins, for the device's recorder. */
	struct cmdq_kernel kernel; /* that is run */
	uint32_t tid;		   /* of the worker */
	uint32_t does;		   /* enum cmdq_does */
	uint64_t queue, device;	   /* CMDQ_DOES_WAIT: the queue that it waits for */
};

struct cmdq_error {
	_Alignas(CMDQ_LINE) _Atomic uint64_t number; /* 0: none; written last */
	_Atomic uint64_t forgiven;		     /* by the client: errors up to this number */
	uint64_t at;				     /* number of the command, counted as tail is */
	uint64_t comm;				     /* of the collective; 0: another command */
	uint32_t rc;				     /* enum gpusim_rc */
	char text[CMDQ_TEXT];
};

struct cmdq_page {
	_Alignas(CMDQ_LINE) uint64_t magic;
	uint64_t id;				       /* of the queue, never 0 */
	uint32_t size;				       /* CMDQ_SIZE */
	uint32_t pid;				       /* of the client */
	_Atomic uint32_t closed;		       /* the device no longer serves it */
	_Alignas(CMDQ_LINE) _Atomic uint64_t tail;     /* commands written so far */
	_Alignas(CMDQ_LINE) _Atomic uint64_t head;     /* commands carried out so far */
	_Alignas(CMDQ_LINE) atomic_uint device_sleeps; /* on tail */
	_Alignas(CMDQ_LINE) atomic_uint client_sleeps; /* on head */
	struct cmdq_error error;
	struct cmdq_extern ext[CMDQ_EXTERNS];
	_Alignas(CMDQ_LINE) struct cmdq_command command[CMDQ_SIZE]; /* number n at n % size */
};

/*
 * A communicator's record, which the device writes for the client that has bound it: beside the queues
 * because operations of all queues of the process share it.
 */
enum cmdq_comm_state { CMDQ_COMM_LIVE = 1, CMDQ_COMM_FAILED = 2 };

struct cmdq_comm {
	_Alignas(CMDQ_LINE) uint64_t magic;
	uint64_t comm;
	uint32_t epoch, rank, nranks, pid;
	_Alignas(CMDQ_LINE) _Atomic uint32_t state; /* enum cmdq_comm_state; written last */
	uint32_t rc;
	char text[CMDQ_TEXT];
	_Alignas(CMDQ_LINE) _Atomic uint64_t done; /* collectives, sends and receives that ended */
	_Atomic int32_t waits_for;		   /* a rank; -1: none */
	_Atomic uint64_t waits_since_ns;	   /* CLOCK_MONOTONIC */
	/* By the client: operations that its open group holds, and the first one's time, ticks. */
	_Alignas(CMDQ_LINE) _Atomic uint32_t grouped;
	_Atomic uint64_t grouped_at;
};

/* Publish n, and wake the sleepers on the counter; `sleeps` belongs to it. */
void cmdq_publish(_Atomic uint64_t *counter, atomic_uint *sleeps, uint64_t n);

/* Wake the sleepers on a counter, so that they check it again. */
void cmdq_wake(_Atomic uint64_t *counter);

/*
 * Wait until *counter is at least n, or *stop (may be NULL) is not 0. It spins, then yields, then sleeps, in
 * slices of at most 100 ms.
 *
 *	until_ns	CLOCK_MONOTONIC; UINT64_MAX: no limit
 *
 * True: it is. False: stopped, or the deadline passed.
 */
bool cmdq_await(_Atomic uint64_t *counter, atomic_uint *sleeps, uint64_t n,
		const _Atomic uint32_t *stop, uint64_t until_ns);

#endif
