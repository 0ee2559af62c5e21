/*
 * gpusim.h - the public C API of gpusim, "NCCL you can run from a shell".
 *
 * A process (a script, a trainer) drives a machine full of simulated GPUs. It asks the coordinator
 * (gpucoord) for devices and communicators, and copies data to and from the devices (gpudev) directly.
 * Link with `pkg-config --cflags --libs gpusim`. Names, counts and meanings are NCCL's where NCCL has
 * them. gpusim_lab.h has a few more calls, gpusim_kernel.h is for your own kernels.
 *
 * Conventions, which the comments below do not repeat:
 *	- A call that can fail returns enum gpusim_rc. On failure its outputs are untouched, and
 *	  gpusim_error() is a message that names the object and the reason.
 *	- A count is in elements, a size in bytes, a time in milliseconds. An address is a device address,
 *	  never a host address. "by rank" is an array with gpusim_comm_count() entries.
 *	- Threads: any thread may use any handle at any time, but no thread may release a handle that
 *	  another still uses. gpusim_error() and gpusim_note() are about the calling thread's calls. A
 *	  group (gpusim_group_start) and a list (struct gpusim_ops) belong to one thread at a time.
 *	- No call waits forever: each ends within the timeout of its connection (gpusim_set_timeout_ms).
 *	- Any call can fail with GPUSIM_UNREACHABLE, GPUSIM_TIMEOUT, GPUSIM_NOMEM, GPUSIM_BADDATA (an answer
 *	  that does not parse); the comments list the other failures.
 *	- Every release function accepts NULL.
 *	- A struct that programs fill in begins with its size, which its macro sets:
 *	  struct gpusim_comm_config c = {GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE};
 *	  A smaller size comes from an older header: the missing fields have their defaults. GPUSIM_INVAL: the
 *	  size is 0, or larger than this library's.
 */
#ifndef GPUSIM_H
#define GPUSIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUSIM_VERSION "0.2.0"

/* The result of a call. Programs exit with gpusim_rc_exit(rc). Messages carry these numbers. */
enum gpusim_rc {
	GPUSIM_OK = 0,
	GPUSIM_FAILED = 1,	/* the operation failed */
	GPUSIM_INVAL = 2,	/* an argument is wrong */
	GPUSIM_UNREACHABLE = 3, /* nobody answers at the address */
	GPUSIM_TIMEOUT = 4,	/* the deadline passed */
	GPUSIM_BADDATA = 5,	/* bytes that do not parse, or fail a check */
	GPUSIM_INTERNAL = 6,	/* a bug in gpusim itself */
	GPUSIM_NOMEM = 7,	/* host or device memory is exhausted */
	GPUSIM_NOTFOUND = 8,	/* no such device, communicator, stream, kernel, graph */
	GPUSIM_BUSY = 9,	/* in use, or a limit is reached; try again later */
	GPUSIM_ABORTED = 10,	/* ended early because a peer failed */
	/* A rank was lost; the communicator has recovered, but the work was not repeated: begin it again
	 * from your own copy. */
	GPUSIM_RECOVERED = 11,
};

/* Element types. The wire carries these numbers; 0 is the lab's type. */
enum gpusim_dtype {
	GPUSIM_F64 = 0,
	GPUSIM_F32 = 1,
	GPUSIM_F16 = 2,
	GPUSIM_BF16 = 3,
	GPUSIM_I8 = 4,
	GPUSIM_U8 = 5,
	GPUSIM_I32 = 6,
	GPUSIM_U32 = 7,
	GPUSIM_I64 = 8,
	GPUSIM_U64 = 9,
	GPUSIM_F8E4M3 = 10, /* 8 bits, as OCP defines them: at most 448, no infinity */
	GPUSIM_F8E5M2 = 11, /* at most 57344 */
	GPUSIM_NDTYPES,
};

/* Reduction operations. Integer sums and products wrap; avg of integers truncates toward zero. The last three
 * take integers only. */
enum gpusim_redop {
	GPUSIM_SUM = 0,
	GPUSIM_PROD = 1,
	GPUSIM_MIN = 2,
	GPUSIM_MAX = 3,
	GPUSIM_AVG = 4,
	GPUSIM_PREMULSUM = 5, /* sum of the inputs, each multiplied by its rank's factor */
	GPUSIM_BAND = 6,      /* bitwise and */
	GPUSIM_BOR = 7,
	GPUSIM_BXOR = 8,
	GPUSIM_NREDOPS,
};

/* Collectives and point-to-point operations. */
enum gpusim_coll {
	GPUSIM_ALLREDUCE = 0,
	GPUSIM_BROADCAST = 1,
	GPUSIM_REDUCE = 2,
	GPUSIM_ALLGATHER = 3,
	GPUSIM_REDUCESCATTER = 4,
	GPUSIM_ALLTOALL = 5,
	GPUSIM_GATHER = 6,
	GPUSIM_SCATTER = 7,
	GPUSIM_BARRIER = 8,
	GPUSIM_SEND = 9,
	GPUSIM_RECV = 10,
	GPUSIM_NCOLLS = 11,
};

/* The exit status of a program for a result; gpusim(7) has the table. */
int gpusim_rc_exit(enum gpusim_rc rc);

/* The message of this thread's last failure, valid until the next. */
const char *gpusim_error(void);

/* A message about the recovery during this thread's last successful call, or "". After gpusim_comm_status:
 * about the communicator's latest recovery. */
const char *gpusim_note(void);

/* ------------------------------------------------------------------ ids */

/* Each kind of id is a type, so that the compiler finds swapped ids. They are passed by value. */
struct gpusim_device {
	uint64_t id; /* 0: none, or any */
};
struct gpusim_comm_id {
	uint64_t id; /* other processes open the communicator with it; 0: none, or any */
};
struct gpusim_stream {
	uint64_t id; /* 0 to 63, of a device. Every device has all of them; 0 is the default */
};
struct gpusim_event {
	uint64_t id; /* any number, of a device */
};
struct gpusim_graph {
	uint64_t id; /* of a communicator; 0: none */
};

/* Memory of a device; 0: none. */
struct gpusim_addr {
	uint64_t addr;
};

static inline struct gpusim_addr
gpusim_addr_add(struct gpusim_addr base, uint64_t nbytes)
{
	base.addr += nbytes;
	return base;
}

/* ------------------------------------------------------------------ the machine */

struct gpusim; /* a connection to a coordinator, and to devices when needed */

/* Connect. coordinator NULL: $GPUSIM_COORD, else gpucoord.sock in the private directory (gpusim(7)); the
 * call waits up to a second for the latter, because both programs may have just been started. */
enum gpusim_rc gpusim_open(const char *coordinator, struct gpusim **out);

/* As gpusim_open, with the timeout of gpusim_set_timeout_ms, which then limits connecting, too. */
enum gpusim_rc gpusim_open_within(const char *coordinator, uint32_t timeout_ms,
				  struct gpusim **out);

/* Disconnect. Release the communicators' handles first. Leases (GPUSIM_LEASE) end a moment later. */
void gpusim_close(struct gpusim *g);

/* Set the longest time of any call; 60 s by default. */
void gpusim_set_timeout_ms(struct gpusim *g, uint32_t timeout_ms);

/* Set the time that calls wait for a coordinator that is away, for example while it is restarted, before
 * they fail with GPUSIM_UNREACHABLE; 2 s by default. The timeout limits this, too. */
void gpusim_set_away_ms(struct gpusim *g, uint32_t away_ms);

#define GPUSIM_PROGRAM 64 /* bytes of a program's name, with its NUL */

/* Set this program's name, which messages to users who wait for its devices show with its process id.
 * Default: the name of its executable. GPUSIM_INVAL: the name is too long, or has control characters. */
enum gpusim_rc gpusim_set_program(struct gpusim *g, const char *name);

#define GPUSIM_TEXT 256 /* bytes of an address or path, with its NUL */

struct gpusim_device_info {
	struct gpusim_device device;
	struct gpusim_addr min_addr, max_addr; /* of its memory: [min, max) */
	uint64_t used_bytes;		       /* in allocations */
	struct gpusim_comm_id comm;	       /* of which it is a rank; or 0 */
	uint32_t ordinal, pid;
	int lost;  /* its process has ended, or its heartbeats are missing */
	int spare; /* used only when named, or in place of a lost rank */
	int join;  /* offers itself to communicators that grow */
	char address[GPUSIM_TEXT], data_address[GPUSIM_TEXT], mem_path[GPUSIM_TEXT];
	char host[GPUSIM_TEXT];	       /* boot id */
	char mem_private[GPUSIM_TEXT]; /* why no device maps its memory; "": its host's may */
	/* Of a lost device: */
	char lost_why[GPUSIM_TEXT];	  /* "killed by signal 9" */
	char lost_remedy[GPUSIM_TEXT];	  /* "is being started again", or why it cannot be; or "" */
	uint64_t lost_at_ms, lost_ago_ms; /* at_ms: Unix time, by the coordinator's clock */
};

/* List all devices, sorted by ordinal and id. The caller frees *out with free(3). */
enum gpusim_rc gpusim_devices(struct gpusim *g, struct gpusim_device_info **out, size_t *ndevices);

/* A rank's progress in its operation, from its device's last heartbeat. */
struct gpusim_progress {
	struct gpusim_device device;
	uint64_t operation;
	uint64_t idle_ms; /* since it last moved */
	uint32_t rank;
	uint32_t step, steps; /* of its plan, from 1 */
	int32_t waits_for;    /* a rank; -1: none */
};

struct gpusim_comm_info {
	struct gpusim_comm_id id;
	uint64_t pending, operations;
	uint32_t epoch, nranks;
	uint32_t recoveries;		  /* so far */
	int on_failure;			  /* enum gpusim_on_failure */
	int state;			  /* enum gpusim_state */
	struct gpusim_device *devices;	  /* by rank */
	char reason[512];		  /* of its failure */
	struct gpusim_progress *progress; /* of the ranks that are in an operation */
	size_t nprogress;
	char grid[48]; /* gpusim_comm_config.grid, with all of dp, tp, pp; "": none */
};

struct gpusim_status {
	uint64_t instance, uptime_ms;
	uint32_t pid;
	char version[GPUSIM_TEXT], address[GPUSIM_TEXT];
	struct gpusim_device_info *devices;
	struct gpusim_comm_info *comms;
	size_t ndevices, ncomms;
	uint32_t waiting; /* calls in the queue for devices */
};

/* Get the coordinator's whole state. Release it with gpusim_status_fini. */
enum gpusim_rc gpusim_status(struct gpusim *g, struct gpusim_status *out);
void gpusim_status_fini(struct gpusim_status *s);

enum gpusim_history_kind {
	GPUSIM_HISTORY_STARTED,	    /* the coordinator, perhaps restarted */
	GPUSIM_HISTORY_JOINED,	    /* a new device */
	GPUSIM_HISTORY_LOST,	    /* a device */
	GPUSIM_HISTORY_BACK,	    /* a lost device's heartbeats have returned */
	GPUSIM_HISTORY_RESTARTED,   /* a device has a new process */
	GPUSIM_HISTORY_REPLACED,    /* a lost device, by the spare `device` */
	GPUSIM_HISTORY_GIVEN_UP,    /* a lost device cannot be started again */
	GPUSIM_HISTORY_COMM_FAILED, /* a communicator */
	GPUSIM_HISTORY_RECOVERED,   /* a communicator */
	GPUSIM_HISTORY_ENDED,	    /* how a lost device's process ended has become known */
};

/* "started", "lost" ...: static storage. */
const char *gpusim_history_name(int kind);

struct gpusim_history_event {
	uint64_t number, at_ms;	     /* from 1; Unix time, by the coordinator's clock */
	struct gpusim_device device; /* or 0 */
	struct gpusim_comm_id comm;  /* or 0 */
	uint32_t ordinal;	     /* of the device */
	int32_t rank;		     /* of the device in comm; or -1 */
	int kind;		     /* enum gpusim_history_kind */
	char text[512];		     /* a message */
};

/*
 * Get the coordinator's history: events in order, at most the last 1024.
 *
 *	after	only events with a larger number
 *	wait_ms	the time that the call waits for the first such event
 *	out	for the caller to free(3)
 *	last	number of the newest event. Less than `after`: this is a new coordinator, whose numbers begin
 *		at 1 again
 */
enum gpusim_rc gpusim_history(struct gpusim *g, uint64_t after, uint32_t wait_ms,
			      struct gpusim_history_event **out, size_t *n, uint64_t *last);

/* ------------------------------------------------------------------ memory of one device */

/* The life of an allocation or a communicator. */
enum gpusim_life {
	GPUSIM_PERSIST, /* until a call frees or destroys it */
	GPUSIM_LEASE,	/* at most until its connection is closed or its process dies */
};

/* Allocate memory. GPUSIM_NOMEM: the device has no free block of this size. GPUSIM_NOTFOUND: no such
 * device. */
enum gpusim_rc gpusim_malloc(struct gpusim *g, struct gpusim_device device, uint64_t nbytes,
			     enum gpusim_life life, struct gpusim_addr *addr);
/* Free memory. addr: as returned by gpusim_malloc. GPUSIM_INVAL: it is not an allocation. */
enum gpusim_rc gpusim_free(struct gpusim *g, struct gpusim_device device, struct gpusim_addr addr);

/* Copy host to device, device to host, device to device (the same or another); any size, complete when the
 * call returns, not ordered with streams. The memory of a device of this host and user is a file, which the
 * library reads and writes without the device's process, unless GPUSIM_P2P_DISABLE=1 was in the environment
 * of gpusim_open. GPUSIM_INVAL: a range is outside the device's memory. */
enum gpusim_rc gpusim_memcpy_h2d(struct gpusim *g, struct gpusim_device device,
				 struct gpusim_addr addr, const void *src, uint64_t nbytes);
enum gpusim_rc gpusim_memcpy_d2h(struct gpusim *g, void *dst, struct gpusim_device device,
				 struct gpusim_addr addr, uint64_t nbytes);
enum gpusim_rc gpusim_memcpy_d2d(struct gpusim *g, struct gpusim_device dst_device,
				 struct gpusim_addr dst_addr, struct gpusim_device src_device,
				 struct gpusim_addr src_addr, uint64_t nbytes);
/* Fill nbytes with the low byte of value, on stream 0; complete when the call returns. */
enum gpusim_rc gpusim_memset(struct gpusim *g, struct gpusim_device device, struct gpusim_addr addr,
			     int value, uint64_t nbytes);

/*
 * gpusim_map - the memory of a device of this host and user, at an address of this process.
 *
 *	host	[out] where [addr, addr + nbytes) is read and written, not ordered with streams. One device's memory
 *		has one place: host addresses differ as device addresses do. Valid until gpusim_close, also after
 *		the device has ended
 *
 * GPUSIM_UNREACHABLE: it is on another host, or another user's. GPUSIM_INVAL: the range is outside the device's
 * memory. GPUSIM_NOMEM: the host has no room for these bytes.
 */
enum gpusim_rc gpusim_map(struct gpusim *g, struct gpusim_device device, struct gpusim_addr addr,
			  uint64_t nbytes, void **host);

/* Get the checksum of nbytes, CRC-64/XZ. The device computes it, so nothing is copied. Not ordered with
 * streams. GPUSIM_INVAL: the range is outside the device's memory. */
enum gpusim_rc gpusim_checksum(struct gpusim *g, struct gpusim_device device,
			       struct gpusim_addr addr, uint64_t nbytes, uint64_t *crc64);

/* ------------------------------------------------------------------ streams of one device */

enum gpusim_wait {
	GPUSIM_ASYNC, /* return when the work is queued; a failure becomes the stream's or communicator's */
	GPUSIM_SYNC, /* return when the work has ended, with its result */
};

/* An argument of a kernel, by name; gpusim-kernels(7) lists kernels and arguments. */
struct gpusim_arg {
	const char *name;
	int is_real; /* f holds the value, else u */
	uint64_t u;  /* address, count, enum gpusim_dtype, flag */
	double f;
	uint64_t step; /* in a graph: added to u once per iteration */
};

/* Run a kernel on a stream. GPUSIM_NOTFOUND: no such kernel. GPUSIM_INVAL: an argument or the stream. */
enum gpusim_rc gpusim_launch(struct gpusim *g, struct gpusim_device device,
			     struct gpusim_stream stream, const char *kernel,
			     const struct gpusim_arg *args, size_t nargs, enum gpusim_wait wait);

/* Queue an event: it is recorded when the stream reaches it; or make the stream wait until it is recorded. */
enum gpusim_rc gpusim_event_record(struct gpusim *g, struct gpusim_device device,
				   struct gpusim_stream stream, struct gpusim_event event);
enum gpusim_rc gpusim_event_wait(struct gpusim *g, struct gpusim_device device,
				 struct gpusim_stream stream, struct gpusim_event event);

enum gpusim_state { GPUSIM_IN_PROGRESS = 0, GPUSIM_SUCCESS = 1, GPUSIM_STATE_FAILED = 2 };

/* Wait until a stream has ended the work of this connection; with work other than a rank's collectives,
 * until it is idle. Returns the failure of the work, if any. */
enum gpusim_rc gpusim_stream_sync(struct gpusim *g, struct gpusim_device device,
				  struct gpusim_stream stream);

/* A rank's collectives, sends and receives on a stream so far, as a number; 0: there were none, or the communicator is
 * not queued. */
uint64_t gpusim_stream_mark(struct gpusim *g, struct gpusim_device device,
			    struct gpusim_stream stream);

/* Wait until a stream has ended the work up to a mark, for at most wait_ms; then GPUSIM_TIMEOUT, and the work goes on.
 * Returns the failure of the work, if any. wait_ms 0: only ask. mark 0: all
 * so far; of a communicator that is not queued as gpusim_stream_sync. */
enum gpusim_rc gpusim_stream_wait(struct gpusim *g, struct gpusim_device device,
				  struct gpusim_stream stream, uint64_t mark, uint32_t wait_ms);

/* Give this process's work on a stream a name, which the timeline of gpuctl trace shows. It is cut to 31 bytes. */
enum gpusim_rc gpusim_stream_name(struct gpusim *g, struct gpusim_device device,
				  struct gpusim_stream stream, const char *name);

/* Get the state of a stream, without waiting. If it is GPUSIM_STATE_FAILED, gpusim_error() has the reason. */
enum gpusim_rc gpusim_stream_status(struct gpusim *g, struct gpusim_device device,
				    struct gpusim_stream stream, enum gpusim_state *state);

/* ------------------------------------------------------------------ communicators */

/* A handle of a communicator, with its ranks when the handle was made. It does not change; after a
 * recovery, gpusim_comm_open returns a handle with the present ranks. */
struct gpusim_comm;

/* The recovery policy for a lost rank; see gpusim(7). */
enum gpusim_on_failure {
	GPUSIM_ON_FAILURE_ABORT = 0,   /* the communicator fails, with the reason */
	GPUSIM_ON_FAILURE_SHRINK = 1,  /* the communicator continues with the ranks that are left */
	GPUSIM_ON_FAILURE_RESPAWN = 2, /* the device is restarted on its memory file */
	GPUSIM_ON_FAILURE_SPARE = 3,   /* a spare device takes over the rank and its memory */
};

/* "abort", "shrink", "respawn", "spare", and back. GPUSIM_INVAL: not one of these. */
const char *gpusim_on_failure_name(int on_failure);
enum gpusim_rc gpusim_on_failure_parse(const char *text, enum gpusim_on_failure *out);

/*
 * Selects whether the ranks of a communicator enqueue operations themselves, in command queues of their
 * devices (a queued communicator). They can if each process is on its device's host, of the same user, and
 * on_failure is abort. Such a communicator ends when each rank has left it (gpusim_comm_destroy) or its
 * process has ended.
 */
enum gpusim_queues {
	GPUSIM_QUEUES_AUTO = 0, /* queued if all ranks can, and life is GPUSIM_LEASE */
	GPUSIM_QUEUES_OFF = 1,	/* the coordinator starts operations, when all ranks have called */
	GPUSIM_QUEUES_ON = 2,	/* queued; GPUSIM_INVAL, with the reason, if a rank cannot */
};

struct gpusim_comm_config {
	size_t size; /* GPUSIM_COMM_CONFIG_INIT */
	enum gpusim_life life;
	enum gpusim_on_failure on_failure;
	uint32_t op_timeout_ms; /* longest wait without progress; 0: the coordinator's default;
				 * of a queued communicator UINT32_MAX: no limit */
	uint32_t wait_ms; /* longest wait for devices in use, added to the connection's timeout */
	enum gpusim_queues queues; /* of gpusim_comm_init_rank; elsewhere ignored */
	/*
	 * The ranks as a grid for `gpuctl topo`, explain and the page: "dp=2,tp=2,pp=2", data, tensor and pipeline
	 * parallel; or NULL. Rank (p * dp + d) * tp + t is at d, t, p, as Megatron lays them out. What is not named
	 * is 1, but dp follows from the number of ranks, also after that has changed: ranks that complete no group
	 * are outside. The groups need no communicators of their own, as a split would make: collectives name them
	 * by gpusim_collective.members. GPUSIM_INVAL: the product is not the number of ranks; without dp, tp times
	 * pp is more.
	 */
	const char *grid;
};
#define GPUSIM_COMM_CONFIG_INIT .size = sizeof(struct gpusim_comm_config)

/*
 * gpusim_comm_init_all - create a communicator of n devices, with a handle for all its ranks.
 *
 *	devices	by rank; NULL: n free devices
 *	config	NULL: every default
 *	out	to release with gpusim_comm_free or gpusim_comm_destroy
 *
 * Errors: GPUSIM_BUSY: fewer than n devices are free; the message names the programs that use them. With
 * wait_ms the call queues for them instead, first come, first served, until GPUSIM_TIMEOUT.
 * GPUSIM_NOTFOUND: fewer than n devices exist. GPUSIM_FAILED: some of them are lost, and wait_ms is 0.
 *
 * With on_failure other than abort, a rank that is lost in an operation costs time, not the result: a
 * submission of collectives only runs again from its inputs, which the devices keep, and succeeds;
 * gpusim_note() has the details. Other work (kernels, graphs) ends with GPUSIM_RECOVERED, and the
 * communicator is usable; gpusim_comm_open returns its ranks.
 */
enum gpusim_rc gpusim_comm_init_all(struct gpusim *g, uint32_t n,
				    const struct gpusim_device *devices,
				    const struct gpusim_comm_config *config,
				    struct gpusim_comm **out);

/* A random id with which ranks form a communicator: 32 hexadecimal digits. One process makes it and
 * distributes it; this needs no coordinator. */
struct gpusim_unique_id {
	char text[33];
};
enum gpusim_rc gpusim_get_unique_id(struct gpusim_unique_id *out);

/*
 * gpusim_comm_init_rank - create a communicator by nranks calls together, each for one rank, as
 * ncclCommInitRank. The calls come from one or many processes; each returns when all have called.
 *
 *	rank	the caller's own, 0 .. nranks - 1
 *	device	of the rank; {0}: the free device whose ordinal is the rank, else the next free one
 *	config	the same in all calls. A lease ends when all callers' connections are closed. wait_ms is
 *		ignored: ranks wait for each other, not for devices
 *
 * Errors: GPUSIM_TIMEOUT, with the missing ranks, for all callers as soon as one has waited for its
 * connection's timeout or the coordinator's communicator timeout; they may try again. An id makes one
 * communicator. GPUSIM_INVAL: the id was used before, the rank has called already, nranks or config differ,
 * two ranks name the same device.
 */
enum gpusim_rc gpusim_comm_init_rank(struct gpusim *g, uint32_t nranks, struct gpusim_unique_id id,
				     uint32_t rank, struct gpusim_device device,
				     const struct gpusim_comm_config *config,
				     struct gpusim_comm **out);

/* Get a handle, for all ranks, of an existing communicator. GPUSIM_NOTFOUND. */
enum gpusim_rc gpusim_comm_open(struct gpusim *g, struct gpusim_comm_id id,
				struct gpusim_comm **out);

/* Release the handle; the communicator lives on. */
void gpusim_comm_free(struct gpusim_comm *comm);

/* Destroy the communicator for all its ranks, and release the handle whatever the result. With a rank's
 * handle of a queued communicator only the rank leaves, and its process may end then; the last rank to
 * leave destroys it. */
enum gpusim_rc gpusim_comm_destroy(struct gpusim_comm *comm);

/*
 * Calls that each rank makes for itself, as ncclCommSplit, ncclCommShrink and ncclCommGrow: each returns
 * when all participating ranks have called, with a new handle of the caller's own rank. The new
 * communicator is queued if comm is. comm stays valid. For handles of one rank.
 *
 *	config	NULL: as comm. Only its op_timeout_ms is used (0: as comm)
 *
 * Errors: GPUSIM_TIMEOUT, with the missing ranks, as gpusim_comm_init_rank; call again to continue waiting.
 * GPUSIM_FAILED: comm has failed, or fails meanwhile. GPUSIM_NOTFOUND: comm was destroyed. GPUSIM_INVAL:
 * the calls do not match.
 */

/* Create a communicator of the ranks with the same color, ordered by key, then rank. All ranks call. color
 * below 0: *out is NULL. */
enum gpusim_rc gpusim_comm_split(struct gpusim_comm *comm, int color, int key,
				 const struct gpusim_comm_config *config, struct gpusim_comm **out);

/*
 * Create a communicator of all ranks except n excluded ones, in the same order. The others call, all with
 * the same list.
 *
 *	abort	first fail comm, which ends its operations; comm may have failed before. If 0, comm must not
 *		have failed
 */
enum gpusim_rc gpusim_comm_shrink_rank(struct gpusim_comm *comm, const uint32_t *exclude, size_t n,
				       int abort, const struct gpusim_comm_config *config,
				       struct gpusim_comm **out);

/*
 * Create a communicator of comm's ranks, with the same numbers, and of new ranks after them.
 *
 *	nranks	of the new communicator, the same in all calls
 *	id	with which the new ranks call: from gpusim_get_unique_id, not used before. One rank of comm
 *		passes it, the others NULL
 *	rank	of a new rank, from gpusim_comm_count() of comm
 *	device	of a new rank, as in gpusim_comm_init_rank
 */
enum gpusim_rc gpusim_comm_grow_rank(struct gpusim_comm *comm, uint32_t nranks,
				     const struct gpusim_unique_id *id,
				     const struct gpusim_comm_config *config,
				     struct gpusim_comm **out);
enum gpusim_rc gpusim_comm_grow_new(struct gpusim *g, uint32_t nranks, struct gpusim_unique_id id,
				    uint32_t rank, struct gpusim_device device,
				    const struct gpusim_comm_config *config,
				    struct gpusim_comm **out);

/* The handle's ranks. These calls cannot fail. */
struct gpusim_comm_id gpusim_comm_id(const struct gpusim_comm *comm);
uint32_t gpusim_comm_count(const struct gpusim_comm *comm); /* ranks; NULL has 0 */
int gpusim_comm_user_rank(const struct gpusim_comm *comm);  /* -1: the handle is for all ranks */
uint32_t gpusim_comm_epoch(const struct gpusim_comm *comm); /* grows with each change of ranks */
int gpusim_comm_is_queued(const struct gpusim_comm *comm);  /* its ranks enqueue operations */
/* {0} or NULL: no such rank. The latter lives as long as the handle. */
struct gpusim_device gpusim_comm_device(const struct gpusim_comm *comm, uint32_t rank);
const struct gpusim_device_info *gpusim_comm_device_info(const struct gpusim_comm *comm,
							 uint32_t rank);

/* End the communicator's operations with a reason (NULL: a default). The communicator has then failed. */
enum gpusim_rc gpusim_comm_abort(struct gpusim_comm *comm, const char *reason);

/* Remove ranks (nranks 0: those whose devices are lost); the others keep their order. A failed communicator
 * becomes usable again. *out: a handle with the remaining ranks; out may be NULL. GPUSIM_BUSY: an operation
 * is in progress. */
enum gpusim_rc gpusim_comm_shrink(struct gpusim_comm *comm, const uint32_t *ranks, size_t nranks,
				  struct gpusim_comm **out);

/* Add n devices as the last ranks: the named ones, or (NULL) n free ones, for which the call queues for up
 * to wait_ms as in gpusim_comm_init_all. *out and errors as in gpusim_comm_shrink. */
enum gpusim_rc gpusim_comm_grow(struct gpusim_comm *comm, uint32_t n,
				const struct gpusim_device *devices, uint32_t wait_ms,
				struct gpusim_comm **out);

/* One color's communicator. */
struct gpusim_split {
	int color;
	struct gpusim_comm *comm;
};

/*
 * gpusim_comm_split_all - ncclCommSplit for all ranks at once: create a communicator for each color,
 * ordered by key, then rank. comm stays valid.
 *
 *	color	by rank; below 0: the rank does not take part
 *	key	by rank; NULL: all 0
 *	out	one for each color, ascending; release with gpusim_split_free, which does not destroy them
 *
 * All or nothing: if one cannot be created, the call destroys those it has created.
 */
enum gpusim_rc gpusim_comm_split_all(const struct gpusim_comm *comm, const int *color,
				     const int *key, const struct gpusim_comm_config *config,
				     struct gpusim_split **out, size_t *nout);
void gpusim_split_free(struct gpusim_split *s, size_t n);

/* Get the state; with GPUSIM_SYNC wait until nothing is in progress, or GPUSIM_TIMEOUT. If it is
 * GPUSIM_STATE_FAILED, gpusim_error() has the reason. */
enum gpusim_rc gpusim_comm_status(const struct gpusim_comm *comm, enum gpusim_wait wait,
				  enum gpusim_state *state);

/* Wait until nothing is in progress. Returns the communicator's failure, if any. */
enum gpusim_rc gpusim_comm_sync(const struct gpusim_comm *comm);

/* Get the result of queued work, without waiting, as ncclCommGetAsyncError: GPUSIM_OK while it runs and if
 * it succeeded, else the failure, whose message gpusim_error() has. */
enum gpusim_rc gpusim_comm_get_async_error(const struct gpusim_comm *comm, enum gpusim_rc *out);

/* A rank's lateness: the time that others waited for it, less the time that it waited itself, over the
 * communicator's successful operations. So the slow rank stands out, not the ranks that it delayed. */
struct gpusim_lateness {
	struct gpusim_device device;
	uint64_t operations; /* counted */
	uint64_t sum_ns;
	uint64_t max_ns; /* of one submission; of a queued communicator 0 */
};

/* Get the lateness by rank. The caller frees *out with free(3). */
enum gpusim_rc gpusim_comm_lateness(const struct gpusim_comm *comm, struct gpusim_lateness **out,
				    uint32_t *nranks);

/* The path of chunks from one rank to another. */
enum gpusim_path {
	GPUSIM_PATH_NET = 0, /* through sockets */
	GPUSIM_PATH_P2P = 1, /* through memory: each has mapped the other's */
};

/* Get all paths. path: [out] nranks * nranks bytes; path[r * nranks + q], an enum gpusim_path, is from rank
 * r to rank q; to itself GPUSIM_PATH_P2P. GPUSIM_INVAL: more than 512 ranks. */
enum gpusim_rc gpusim_comm_paths(const struct gpusim_comm *comm, uint8_t *path);

/* ------------------------------------------------------------------ collectives of one rank */

/*
 * For a handle of gpusim_comm_init_rank: each rank calls, in the same order, with its own buffers, as in
 * NCCL. In
 * a queued communicator a call stores the operation in a queue of the rank's device and returns; in others
 * it returns when all ranks have called and the operation is queued on their streams. gpusim_stream_sync or
 * gpusim_comm_sync waits for the end. send equal to recv, or to the rank's part of it, means in place, as
 * in NCCL.
 *
 *	allreduce, broadcast, reduce, send, recv	count is of the whole buffer
 *	allgather, gather		count is what a rank sends; the result has nranks * count
 *	reduce_scatter, scatter		count is what a rank receives; the input has nranks * count
 *	alltoall			count is between each pair; both buffers have nranks * count
 *
 * Buffers that only the root has are {0} on other ranks. Errors: GPUSIM_INVAL: the handle is for all ranks,
 * ranks differ in an argument, a buffer is outside the device's memory. GPUSIM_TIMEOUT: a rank has not
 * called.
 */
enum gpusim_rc gpusim_allreduce(struct gpusim_comm *comm, struct gpusim_addr send,
				struct gpusim_addr recv, uint64_t count, enum gpusim_dtype dtype,
				enum gpusim_redop redop, struct gpusim_stream stream);
enum gpusim_rc gpusim_broadcast(struct gpusim_comm *comm, struct gpusim_addr send,
				struct gpusim_addr recv, uint64_t count, enum gpusim_dtype dtype,
				uint32_t root, struct gpusim_stream stream);
enum gpusim_rc gpusim_reduce(struct gpusim_comm *comm, struct gpusim_addr send,
			     struct gpusim_addr recv, uint64_t count, enum gpusim_dtype dtype,
			     enum gpusim_redop redop, uint32_t root, struct gpusim_stream stream);
enum gpusim_rc gpusim_allgather(struct gpusim_comm *comm, struct gpusim_addr send,
				struct gpusim_addr recv, uint64_t count, enum gpusim_dtype dtype,
				struct gpusim_stream stream);
enum gpusim_rc gpusim_reduce_scatter(struct gpusim_comm *comm, struct gpusim_addr send,
				     struct gpusim_addr recv, uint64_t count,
				     enum gpusim_dtype dtype, enum gpusim_redop redop,
				     struct gpusim_stream stream);
enum gpusim_rc gpusim_alltoall(struct gpusim_comm *comm, struct gpusim_addr send,
			       struct gpusim_addr recv, uint64_t count, enum gpusim_dtype dtype,
			       struct gpusim_stream stream);
enum gpusim_rc gpusim_gather(struct gpusim_comm *comm, struct gpusim_addr send,
			     struct gpusim_addr recv, uint64_t count, enum gpusim_dtype dtype,
			     uint32_t root, struct gpusim_stream stream);
enum gpusim_rc gpusim_scatter(struct gpusim_comm *comm, struct gpusim_addr send,
			      struct gpusim_addr recv, uint64_t count, enum gpusim_dtype dtype,
			      uint32_t root, struct gpusim_stream stream);
enum gpusim_rc gpusim_barrier(struct gpusim_comm *comm, struct gpusim_stream stream);
/* Send to and receive from a peer. They do not wait for other ranks: the other half may come later. */
enum gpusim_rc gpusim_send(struct gpusim_comm *comm, struct gpusim_addr send, uint64_t count,
			   enum gpusim_dtype dtype, uint32_t peer, struct gpusim_stream stream);
enum gpusim_rc gpusim_recv(struct gpusim_comm *comm, struct gpusim_addr recv, uint64_t count,
			   enum gpusim_dtype dtype, uint32_t peer, struct gpusim_stream stream);

/*
 * Collectives with a count for each rank, as in MPI; all ranks pass the same lists, except in alltoallv.
 *
 *	parts	by rank: elements of the part, and its offset in the vector (displs NULL: after the previous
 *		part). Parts that are written must not overlap, and gaps stay unchanged
 *	allgatherv, gatherv	a rank sends its own count; the result has the parts
 *	scatterv, reduce_scatterv	the input has the parts; a rank receives its own count.
 *		reduce_scatterv has no gaps
 *	alltoallv	sent: to each rank; received: from each rank
 *
 * NULL counts: GPUSIM_INVAL. With displs, and in alltoallv, only the default algorithm is available.
 */
struct gpusim_parts {
	const uint64_t *counts, *displs;
};

enum gpusim_rc gpusim_allgatherv(struct gpusim_comm *comm, struct gpusim_addr send,
				 struct gpusim_addr recv, struct gpusim_parts parts,
				 enum gpusim_dtype dtype, struct gpusim_stream stream);
enum gpusim_rc gpusim_gatherv(struct gpusim_comm *comm, struct gpusim_addr send,
			      struct gpusim_addr recv, struct gpusim_parts parts,
			      enum gpusim_dtype dtype, uint32_t root, struct gpusim_stream stream);
enum gpusim_rc gpusim_scatterv(struct gpusim_comm *comm, struct gpusim_addr send,
			       struct gpusim_addr recv, struct gpusim_parts parts,
			       enum gpusim_dtype dtype, uint32_t root, struct gpusim_stream stream);
enum gpusim_rc gpusim_reduce_scatterv(struct gpusim_comm *comm, struct gpusim_addr send,
				      struct gpusim_addr recv, const uint64_t *counts,
				      enum gpusim_dtype dtype, enum gpusim_redop redop,
				      struct gpusim_stream stream);
enum gpusim_rc gpusim_alltoallv(struct gpusim_comm *comm, struct gpusim_addr send,
				struct gpusim_parts sent, struct gpusim_addr recv,
				struct gpusim_parts received, enum gpusim_dtype dtype,
				struct gpusim_stream stream);

/* ------------------------------------------------------------------ collectives of all ranks */

/* For a handle of all ranks: one call runs the collective on every rank, with send and recv by rank ({0} if
 * a rank has none). Counts as above. The call returns when the operation is queued. */
enum gpusim_rc gpusim_allreduce_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
				    const struct gpusim_addr *recv, uint64_t count,
				    enum gpusim_dtype dtype, enum gpusim_redop redop,
				    struct gpusim_stream stream);
enum gpusim_rc gpusim_broadcast_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
				    const struct gpusim_addr *recv, uint64_t count,
				    enum gpusim_dtype dtype, uint32_t root,
				    struct gpusim_stream stream);
enum gpusim_rc gpusim_reduce_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
				 const struct gpusim_addr *recv, uint64_t count,
				 enum gpusim_dtype dtype, enum gpusim_redop redop, uint32_t root,
				 struct gpusim_stream stream);
enum gpusim_rc gpusim_allgather_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
				    const struct gpusim_addr *recv, uint64_t count,
				    enum gpusim_dtype dtype, struct gpusim_stream stream);
enum gpusim_rc gpusim_reduce_scatter_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
					 const struct gpusim_addr *recv, uint64_t count,
					 enum gpusim_dtype dtype, enum gpusim_redop redop,
					 struct gpusim_stream stream);
enum gpusim_rc gpusim_alltoall_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
				   const struct gpusim_addr *recv, uint64_t count,
				   enum gpusim_dtype dtype, struct gpusim_stream stream);
enum gpusim_rc gpusim_gather_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
				 const struct gpusim_addr *recv, uint64_t count,
				 enum gpusim_dtype dtype, uint32_t root,
				 struct gpusim_stream stream);
enum gpusim_rc gpusim_scatter_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
				  const struct gpusim_addr *recv, uint64_t count,
				  enum gpusim_dtype dtype, uint32_t root,
				  struct gpusim_stream stream);
enum gpusim_rc gpusim_barrier_all(struct gpusim_comm *comm, struct gpusim_stream stream);

/* With a count for each rank. alltoallv: counts[r * nranks + q] elements go from rank r to rank q, and
 * displs[r * nranks + q], recv_displs[q * nranks + r] are their offsets in the buffers (NULL: packed). */
enum gpusim_rc gpusim_allgatherv_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
				     const struct gpusim_addr *recv, struct gpusim_parts parts,
				     enum gpusim_dtype dtype, struct gpusim_stream stream);
enum gpusim_rc gpusim_gatherv_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
				  const struct gpusim_addr *recv, struct gpusim_parts parts,
				  enum gpusim_dtype dtype, uint32_t root,
				  struct gpusim_stream stream);
enum gpusim_rc gpusim_scatterv_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
				   const struct gpusim_addr *recv, struct gpusim_parts parts,
				   enum gpusim_dtype dtype, uint32_t root,
				   struct gpusim_stream stream);
enum gpusim_rc gpusim_reduce_scatterv_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
					  const struct gpusim_addr *recv, const uint64_t *counts,
					  enum gpusim_dtype dtype, enum gpusim_redop redop,
					  struct gpusim_stream stream);
enum gpusim_rc gpusim_alltoallv_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
				    const struct gpusim_addr *recv, const uint64_t *counts,
				    const uint64_t *displs, const uint64_t *recv_displs,
				    enum gpusim_dtype dtype, struct gpusim_stream stream);

/* The general form: any collective, algorithm and message size; or a send or recv of one rank. For a handle
 * of all ranks; or of one rank, with its own buffers send[0], recv[0] and its own factor scalar[0], and
 * each rank calls: a queued communicator's devices choose algorithm and message size. */
struct gpusim_collective {
	size_t size; /* GPUSIM_COLLECTIVE_INIT */
	enum gpusim_coll coll;
	enum gpusim_dtype dtype;
	enum gpusim_redop redop;
	const char *algo; /* NULL: the tuner's choice; gpuctl plan lists them */
	/*
	 * Elements of the whole vector: of the buffer for allreduce, broadcast, reduce, send, recv; of all
	 * ranks' parts together for the others (nranks times NCCL's count). Rank r's part is
	 * [r * nelem / n, (r + 1) * nelem / n), so parts may be uneven (except in alltoall).
	 */
	uint64_t nelem;
	uint32_t root;			/* send, recv: the peer */
	uint32_t rank;			/* send, recv: the rank that sends or receives */
	const struct gpusim_addr *send; /* by rank (send: [0]); 0: the rank has none */
	const struct gpusim_addr *recv; /* by rank (recv: [0]); equal to send means in place */
	struct gpusim_stream stream;
	uint64_t chunk_bytes; /* largest message; 0: the default */
	const void *scalar;   /* GPUSIM_PREMULSUM: factors by rank, as elements of dtype */
	/* For v-variants, as in gpusim_allgatherv_all; counts NULL: even parts. With counts, nelem is not
	 * used, and recv_counts only for one rank. */
	const uint64_t *counts, *recv_counts, *displs, *recv_displs;
	/* Not 0: the bits of the result depend only on the inputs and the order of ranks, not on algorithm,
	 * chunk_bytes, transport or place; see gpusim-algorithms(7), "Order of a sum". GPUSIM_INVAL: algo
	 * does not support it. With GPUSIM_DETERMINISTIC=1 in the environment all calls are deterministic. */
	int deterministic;
	/*
	 * nmembers 0: all ranks take part. Else these ranks do, in this order, as if they had a communicator of
	 * their own: send, recv, scalar, counts and displs have nmembers entries, root is a place among members,
	 * and nelem has a part for each member. Only for a handle of all ranks, and not for send and recv.
	 *
	 * Other ranks do not wait for it, so groups apart run at the same time, and groups may overlap: all ranks'
	 * lists must have the collectives that they share in one order. The bits are those that a communicator
	 * split from this one would have; see gpusim-algorithms(7), "Order of a sum". GPUSIM_INVAL: a rank is twice
	 * among members, or there is no such rank.
	 * Lists and graphs with members are not run again after a shrink: GPUSIM_RECOVERED.
	 */
	const uint32_t *members;
	uint32_t nmembers;
	/* A name for the members, such as "tp0"; at most 15 letters; or NULL. */
	const char *group;
};
#define GPUSIM_COLLECTIVE_INIT .size = sizeof(struct gpusim_collective)
#define GPUSIM_GROUP_NAME      16 /* bytes of gpusim_collective.group, with its NUL */

/* Run a collective. Errors: as for one rank; GPUSIM_INVAL: algo or chunk_bytes in a queued communicator;
 * GPUSIM_ABORTED: a peer failed; GPUSIM_RECOVERED: see gpusim_comm_init_all. */
enum gpusim_rc gpusim_collective(struct gpusim_comm *comm, const struct gpusim_collective *c,
				 enum gpusim_wait wait);

/*
 * Operations that the caller submits between start and end run together at the end, in one
 * operation of the communicator. With a handle of all ranks each call is checked at once. With a handle of
 * one rank nothing is sent before the end, which returns when all ranks have ended their groups; it accepts
 * only GPUSIM_ASYNC. GPUSIM_INVAL: a group is open already, or none is open.
 */
enum gpusim_rc gpusim_group_start(struct gpusim_comm *comm);
enum gpusim_rc gpusim_group_end(struct gpusim_comm *comm, enum gpusim_wait wait);

/* ------------------------------------------------------------------ lists of operations, graphs */

/* The operations of each rank, in order. Adding never fails; submitting the list reports the first failure.
 * NULL: out of memory; all calls below accept it. */
struct gpusim_ops;

struct gpusim_ops *gpusim_ops_new(uint32_t nranks);
void gpusim_ops_free(struct gpusim_ops *o);
void gpusim_ops_launch(struct gpusim_ops *o, uint32_t rank, struct gpusim_stream stream,
		       const char *kernel, const struct gpusim_arg *args, size_t nargs);
void gpusim_ops_memset(struct gpusim_ops *o, uint32_t rank, struct gpusim_stream stream,
		       struct gpusim_addr addr, int value, uint64_t nbytes);
void gpusim_ops_copy(struct gpusim_ops *o, uint32_t rank, struct gpusim_stream stream,
		     struct gpusim_addr dst, struct gpusim_addr src, uint64_t nbytes);
void gpusim_ops_record(struct gpusim_ops *o, uint32_t rank, struct gpusim_stream stream,
		       struct gpusim_event event);
void gpusim_ops_wait(struct gpusim_ops *o, uint32_t rank, struct gpusim_stream stream,
		     struct gpusim_event event);
/* On all ranks; a send or recv on c->rank. */
void gpusim_ops_collective(struct gpusim_ops *o, const struct gpusim_collective *c);

/* Name the operations that are added to a stream, of any rank, from now on, until its next name: timelines show
 * a slice with the name around them, from the first to the last, without waits for events before and after. NULL
 * or "": no name. GPUSIM_INVAL: it is longer than GPUSIM_LABEL with its NUL. */
#define GPUSIM_LABEL 28
void gpusim_ops_label(struct gpusim_ops *o, struct gpusim_stream stream, const char *label);

/* Set whether operations added from now on count in struct gpusim_times; initially they do. */
enum gpusim_timing { GPUSIM_TIMED, GPUSIM_UNTIMED };
void gpusim_ops_timing(struct gpusim_ops *o, enum gpusim_timing timing);

/* A rank's time. */
struct gpusim_times {
	uint64_t compute_ns; /* kernels, memset, copy */
	uint64_t comm_ns;    /* collectives, including waits for peers */
};

/* Run a list once. times: by rank, or NULL; filled only with GPUSIM_SYNC. Errors: as gpusim_collective. */
enum gpusim_rc gpusim_submit(struct gpusim_comm *comm, const struct gpusim_ops *o,
			     enum gpusim_wait wait, struct gpusim_times *times);

/* Record a list once and run it often: one request runs iterations first to first + iterations - 1, by
 * which kernel arguments with a step advance. GPUSIM_NOTFOUND: no such graph. */
enum gpusim_rc gpusim_graph_create(struct gpusim_comm *comm, const struct gpusim_ops *o,
				   struct gpusim_graph *graph);
enum gpusim_rc gpusim_graph_launch(struct gpusim_comm *comm, struct gpusim_graph graph,
				   uint64_t first, uint64_t iterations, enum gpusim_wait wait,
				   struct gpusim_times *times);
enum gpusim_rc gpusim_graph_destroy(struct gpusim_comm *comm, struct gpusim_graph graph);

/* ------------------------------------------------------------------ algorithms from files */

#define GPUSIM_ALGO_NAME 64 /* bytes of an algorithm's name, with its NUL */

/* An algorithm that the coordinator keeps. */
struct gpusim_algo {
	char name[GPUSIM_ALGO_NAME]; /* for gpusim_collective.algo */
	char digest[17];	     /* 16 hexadecimal digits */
	enum gpusim_coll coll;
	uint32_t nranks, root;	    /* the ranks that it is for, and the root if any */
	uint32_t chunks;	    /* of the whole vector */
	uint32_t slots;		    /* least number of messages that a connection must hold */
	int in_place, out_of_place; /* the supported forms */
	int leased;
	uint64_t min_bytes, max_bytes; /* of its vectors; max 0: no limit */
	uint64_t steps, messages;      /* of all ranks, as in the file */
};

struct gpusim_algo_config {
	size_t size;	       /* GPUSIM_ALGO_CONFIG_INIT */
	const char *name;      /* NULL: the name in the file, and with a lease NAME.DIGEST */
	const char *path;      /* of the file, for messages; or NULL */
	enum gpusim_life life; /* GPUSIM_LEASE: removed with the last client that added it */
	int replace;	       /* replace an algorithm of the same name */
};
#define GPUSIM_ALGO_CONFIG_INIT .size = sizeof(struct gpusim_algo_config)

/*
 * gpusim_algo_add - add an algorithm from a file, gpusim-algo(5), to the coordinator, for calls to name.
 *
 *	bytes	of the file: MSCCL's XML or gpusim's text, at most 4 MiB
 *	config	NULL: the defaults
 *	out	[out] the stored algorithm; may be NULL
 *
 * The coordinator proves it first. Adding the same algorithm under the same name again changes nothing.
 * Errors: GPUSIM_BADDATA: it cannot be parsed, or is wrong; the message has its first error. GPUSIM_INVAL:
 * the name is invalid or built in; the algorithm is custom, or too large. GPUSIM_BUSY: another algorithm
 * has the name, or too many are stored.
 */
enum gpusim_rc gpusim_algo_add(struct gpusim *g, const void *bytes, uint64_t nbytes,
			       const struct gpusim_algo_config *config, struct gpusim_algo *out);
/* Remove an algorithm. GPUSIM_NOTFOUND: none has the name. GPUSIM_BUSY: the coordinator's tuner file or
 * GPUSIM_ALGO names it. */
enum gpusim_rc gpusim_algo_remove(struct gpusim *g, const char *name);
/* List all algorithms, sorted by name. Release with gpusim_algo_list_free. */
enum gpusim_rc gpusim_algo_list(struct gpusim *g, struct gpusim_algo **out, size_t *n);
void gpusim_algo_list_free(struct gpusim_algo *v);

/* ------------------------------------------------------------------ models for others */

/*
 * gpusim_model_put - send the coordinator a model, the bytes of a .npz file, to serve as the newest over HTTP
 * (gpucoord --http). It keeps one model.
 *
 *	training	a random number that identifies this training, never 0
 *	version		larger than the training's earlier ones
 *
 * Errors: GPUSIM_INVAL: the coordinator was started without --http, or the version is not larger.
 * GPUSIM_BUSY: too many or too large models at a time.
 */
enum gpusim_rc gpusim_model_put(struct gpusim *g, uint64_t training, uint64_t version,
				const void *npz, uint64_t nbytes);

/* ------------------------------------------------------------------ rehearsing failure */

enum gpusim_fault_kind {
	GPUSIM_FAULT_KILL = 0,	  /* the process kills itself */
	GPUSIM_FAULT_STOP = 1,	  /* the process freezes */
	GPUSIM_FAULT_SLOW = 2,	  /* each step of a collective waits first */
	GPUSIM_FAULT_DROP = 3,	  /* frames to a peer are lost */
	GPUSIM_FAULT_CORRUPT = 4, /* a byte of a chunk changes on its way to a peer */
	GPUSIM_FAULT_CUT = 5,	  /* connections to peers close */
	GPUSIM_FAULT_FLIP = 6,	  /* a bit of the rank's data changes, at a point */
	GPUSIM_NFAULTS = 7,
};

#define GPUSIM_FAULTS_MAX 64 /* armed at a time */

struct gpusim_fault {
	enum gpusim_fault_kind kind;
	struct gpusim_comm_id comm; /* 0: any */
	int at;			    /* at a point of a collective; else now */
	int coll;		    /* enum gpusim_coll, or -1: any */
	int next;		    /* the next operation; else: */
	uint64_t seq;		    /* the operation with this number */
	uint32_t step;	 /* of its plan, from 1; 0: its first; flip: UINT32_MAX: the end */
	uint64_t for_ns; /* stop, slow, cut: duration; 0: stop forever, cut only closes */
	uint64_t by_ns;	 /* slow: the wait of each step */
	uint64_t count;	 /* slow: steps, drop, corrupt: frames; 0: no limit */
	double p;	 /* drop, corrupt: probability for each frame; 0: every frame */
	uint64_t seed;	 /* of that chance, and of the byte or bit */
	int to_peer;	 /* drop, corrupt, cut: of one peer only: */
	uint32_t peer;
};

struct gpusim_injected {
	char (*armed)[GPUSIM_TEXT]; /* a line each */
	size_t narmed;
	uint64_t fired;	  /* faults that took place */
	uint64_t damaged; /* damaged frames that arrived and were requested again */
};

/*
 * gpusim_inject - arm faults on a device, or with device {0} on the coordinator (kill, stop, slow; now).
 *
 *	clear	not 0: first disarm all armed faults
 *	out	the faults that are then armed, or NULL; release with gpusim_injected_fini
 *
 * Errors: GPUSIM_INVAL: a fault is malformed, or the process was started without --allow-inject.
 */
enum gpusim_rc gpusim_inject(struct gpusim *g, struct gpusim_device device, int clear,
			     const struct gpusim_fault *faults, size_t nfaults,
			     struct gpusim_injected *out);
void gpusim_injected_fini(struct gpusim_injected *i);

#ifdef __cplusplus
}
#endif
#endif
